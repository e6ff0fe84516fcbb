/* test_keep.c - commands of a session, the host's side: kept ones, terminals, what they used. */
#include "runtime/box/fake_warden.h"

#include <signal.h>

static uint32_t start_kept(struct fake *fake, int index, bool is_pty)
{
    static const char *const argv[] = {"sh", NULL};
    struct exec_spec spec = {
        .argv = argv, .keeps = true, .is_pty = is_pty, .rows = 24, .columns = 80};
    struct message_exec exec;
    struct frame frame;

    assert_int_equal(
        box_exec(fake->box, &spec, &exec_seen, &fake->seen[index], &fake->id[index], &fake->err),
        0);
    hear(fake, FRAME_ARGS, 0);
    frame = hear(fake, FRAME_EXEC, fake->id[index]);
    assert_int_equal(message_exec_unpack(&frame, &exec), 0);
    assert_int_equal(exec.flags, EXEC_KEEP | (is_pty ? EXEC_PTY : 0));
    assert_int_equal(exec.rows, is_pty ? 24 : 0);
    assert_int_equal(exec.columns, is_pty ? 80 : 0);
    return fake->id[index];
}

static void test_usage(void **state)
{
    struct message_exited exited = {.cpu_us = 1234, .max_rss_bytes = 5 * MIB};
    struct fake *fake = *state;

    say_exited(fake, start_kept(fake, 0, false), &exited);
    check_alive(fake);
    assert_true(fake->seen[0].end.usage.cpu_us == 1234);
    assert_true(fake->seen[0].end.usage.max_rss_bytes == 5 * MIB);
}

static void test_forget(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_kept(fake, 0, false), failed;

    box_forget(fake->box, id); /* it runs */
    box_forget(fake->box, 0);
    box_forget(fake->box, id + 1); /* there was never such a one */
    hear_nothing(fake);
    say_exited(fake, id, &(struct message_exited){0});
    check_alive(fake);
    box_forget(fake->box, id);
    assert_int_equal(hear(fake, FRAME_FORGET, id).length, 0);
    failed = start_kept(fake, 1, false);
    say_fail(fake, failed, 0, EAGAIN);
    check_alive(fake);
    assert_int_equal(fake->seen[1].failed, 1);
    box_forget(fake->box, failed);
    hear(fake, FRAME_FORGET, failed);
    close(fake->fd);
    fake->fd = -1;
    assert_int_equal(fake_pump(fake), -EPIPE);
    box_forget(fake->box, id); /* a box that is gone has forgotten */
}

static void test_resize(void **state)
{
    struct fake *fake = *state;
    uint32_t plain = start_kept(fake, 0, false), id = start_kept(fake, 1, true);
    struct message_size size;
    struct frame frame;

    assert_int_equal(box_resize(fake->box, plain, 1, 1), -ENOTTY);
    assert_int_equal(box_resize(fake->box, id + 1, 1, 1), -ESRCH);
    assert_int_equal(box_resize(fake->box, id, LIMIT_TERMINAL + 1, 1), -EINVAL);
    assert_int_equal(box_resize(fake->box, id, 1, 65536 + 1), -EINVAL);
    hear_nothing(fake);
    assert_int_equal(box_resize(fake->box, id, 50, LIMIT_TERMINAL), 0);
    frame = hear(fake, FRAME_RESIZE, id);
    assert_int_equal(message_size_unpack(&frame, &size), 0);
    assert_true(size.rows == 50 && size.columns == LIMIT_TERMINAL);
    fake->seen[1].takes = 0;
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 1, 'x');
    say_exited(fake, id, &(struct message_exited){.out_bytes = 1});
    check_alive(fake);
    assert_int_equal(box_resize(fake->box, id, 1, 1), -ESRCH); /* its end waits for the reader */
    fake->seen[1].takes = SIZE_MAX;
    box_resume(fake->box, id, BOX_STDOUT);
    assert_int_equal(fake->seen[1].ended, 1);
    assert_int_equal(box_resize(fake->box, id, 1, 1), -ESRCH);
    hear_nothing(fake);
}

static void test_terminal_has_standard_input(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_kept(fake, 0, true);

    assert_int_equal(box_stdin(fake->box, id, "ls\n", 3), 3);
    hear(fake, FRAME_STDIN, id);
}

static void test_giant_terminal(void **state)
{
    static const char *const argv[] = {"sh", NULL};
    struct exec_spec spec = {.argv = argv, .is_pty = true, .rows = 24, .columns = 65536 + 80};
    struct fake *fake = *state;
    uint32_t id;

    assert_int_equal(box_exec(fake->box, &spec, &exec_seen, &fake->seen[0], &id, &fake->err),
                     -EINVAL);
    assert_ptr_equal(fake->err.code, ERROR_BAD_INPUT);
    hear_nothing(fake);
}

#define WITH_A_FAKE(test) cmocka_unit_test_setup_teardown(test, fake_set_up, fake_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_FAKE(test_usage),          WITH_A_FAKE(test_forget),
        WITH_A_FAKE(test_resize),         WITH_A_FAKE(test_terminal_has_standard_input),
        WITH_A_FAKE(test_giant_terminal),
    };

    return cmocka_run_group_tests_name("runtime/box/keep", tests, NULL, NULL);
}
