/* test_trouble.c - a box whose warden or owner misbehaves at an awkward moment. */
#include "runtime/box/fake_warden.h"

#include <signal.h>

#include "runtime/box/box_private.h"
#include "runtime/provider.h"
#include "sandbox/guest_stage.h"

/* The deadline begins with STARTED only: a warden that never says it has all the time. */
static void test_deadline_without_started(void **state)
{
    struct fake *fake = *state;

    start_exec(fake, 0, 1000);
    check_alive(fake);
    assert_true(box_next_deadline_ms(fake->box) != UINT64_MAX);
}

/* An output callback that signals while the warden is gone loses the box in the middle of
 * on_output(), which then goes on using the freed call (ASan: use after free). The same holds for
 * get's data callback and for box_resume(). */
static struct fake *current;

static size_t kill_on_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    (void)ctx;
    (void)stream;
    (void)data;
    box_signal(current->box, current->id[0], SIGKILL);
    return length;
}

static void test_callback_that_loses_the_box(void **state)
{
    static const char *const argv[] = {"true", NULL};
    struct exec_spec spec = {.argv = argv};
    struct exec_events events = exec_seen;
    struct fake *fake = *state;

    current = fake;
    events.output = kill_on_output;
    assert_int_equal(box_exec(fake->box, &spec, &events, &fake->seen[0], &fake->id[0], &fake->err),
                     0);
    hear(fake, FRAME_ARGS, 0);
    hear(fake, FRAME_EXEC, fake->id[0]);
    say_bytes(fake, FRAME_OUTPUT, fake->id[0], 1, 0, 9, 'x');
    close(fake->fd);
    fake->fd = -1;
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[0].failed, 1);
}

/* A frame that does not fit the queue leaves its header there (and, in an exec, ARGS without
 * EXEC): what follows is garbage, read from behind the buffer's end. */
static void test_full_queue(void **state)
{
    static char large[60000];
    const char *argv[] = {large, large, NULL};
    struct exec_spec spec = {.argv = argv};
    struct fake *fake = *state;
    struct frame frame;
    size_t args = 0;
    uint32_t id;
    int r = 0;

    memset(large, 'x', sizeof(large) - 1);
    for (int i = 0; i < 200 && r == 0; i++)
        r = box_exec(fake->box, &spec, &exec_seen, &fake->seen[0], &id, &fake->err);
    assert_true(r < 0);
    /* Said to be lost: then it is. Else every frame that comes has to be whole and in order. */
    if (fake_pump(fake) < 0)
        return;
    for (int i = 0; i < 400 && !fake->box->is_lost; i++) {
        while (hear_any(fake, &frame)) {
            struct message_exec exec;

            if (frame.type == FRAME_ARGS) {
                args += frame.length;
                continue;
            }
            assert_int_equal(frame.type, FRAME_EXEC);
            assert_int_equal(message_exec_unpack(&frame, &exec), 0);
            assert_int_equal(exec.args_length, args);
            args = 0;
        }
        fake_pump(fake);
    }
    assert_int_equal(args, 0);
}

/* A warden acknowledges what comes for a put that has already failed (files.c: DONE, then ACK),
 * and the host, which forgot the call at DONE, calls that a broken protocol: the box is lost. */
static void test_ack_behind_done(void **state)
{
    struct fake *fake = *state;
    uint32_t id;

    assert_int_equal(box_put(fake->box, &(struct put_spec){.path = "/workspace/a", .mode = 0600},
                             &put_seen, &fake->seen[0], &id, &fake->err),
                     0);
    assert_int_equal(box_put_data(fake->box, id, "abc", 3), 3);
    say_done(fake, id, ENOSPC);
    say_ack(fake, id, 0, 3);
    check_alive(fake);
    assert_int_equal(fake->seen[0].err.num, -ENOSPC);
}

/* NOEXEC for the working folder with errno 0: an error whose number is 0. */
static void test_folder_without_errno(void **state)
{
    struct fake *fake = *state;

    say_fail(fake, start_exec(fake, 0, 0), GUEST_STAGE_FOLDER, 0);
    check_alive(fake);
    assert_int_equal(fake->seen[0].failed, 1);
    assert_true(fake->seen[0].err.num < 0);
}

/* The exit is known and waits for a slow reader; the warden dies: the known end is thrown away
 * and "box lost" told instead, with the held output. */
static void test_known_end_survives_a_loss(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_exec(fake, 0, 0);

    fake->seen[0].takes = 0;
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 1, 'x');
    say_exited(fake, id, &(struct message_exited){.exit_code = 3, .out_bytes = 1});
    check_alive(fake);
    close(fake->fd);
    fake->fd = -1;
    fake_pump(fake);
    fake->seen[0].takes = SIZE_MAX;
    box_resume(fake->box, id, BOX_STDOUT);
    assert_int_equal(fake->seen[0].ended, 1);
    assert_int_equal(fake->seen[0].end.exit_code, 3);
}

/* A put is "there" before its end was sent. */
static void test_put_done_before_its_end(void **state)
{
    struct fake *fake = *state;
    uint32_t id;

    assert_int_equal(box_put(fake->box, &(struct put_spec){.path = "/workspace/a", .mode = 0600},
                             &put_seen, &fake->seen[0], &id, &fake->err),
                     0);
    say_done(fake, id, 0);
    fake_pump(fake);
    assert_int_equal(fake->seen[0].ended, 1);
    assert_true(fake->seen[0].err.num < 0);
}

/* The provider host between us and the warden says why; a warden that says so itself breaks the
 * protocol. */
static void test_why_it_is_lost(void **state)
{
    struct fake *fake = *state;

    box_blame(fake->box, WHY_PROVIDER_GONE); /* a local box: nobody can know that */
    assert_false(box_lost_provider(fake->box));
    box_set_provider(fake->box, provider_known("docker"));
    start_exec(fake, 0, 0);
    say(fake, FRAME_LOST, WHY_PROVIDER_GONE, NULL, 0);
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_true(box_lost_provider(fake->box));
    assert_int_equal(fake->seen[0].failed, 1);
    assert_ptr_equal(fake->seen[0].err.code, ERROR_BOX_LOST);
    assert_string_equal(fake->seen[0].err.text, "the box was lost: the Docker daemon stopped");
    assert_string_equal(fake->seen[0].err.provider, "docker");
}

static void test_why_by_a_warden(void **state)
{
    struct fake *fake = *state;

    start_exec(fake, 0, 0);
    say(fake, FRAME_LOST, WHY_PROVIDER_GONE, NULL, 0);
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_false(box_lost_provider(fake->box));
    assert_string_equal(fake->seen[0].err.text, "the box was lost: its warden broke the protocol");
}

static void test_why_of_no_sense(void **state)
{
    struct fake *fake = *state;

    box_set_provider(fake->box, provider_known("docker"));
    say(fake, FRAME_LOST, _WHY_MAX, NULL, 0);
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_false(box_lost_provider(fake->box));
}

#define WITH_A_FAKE(test) cmocka_unit_test_setup_teardown(test, fake_set_up, fake_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_FAKE(test_deadline_without_started),
        WITH_A_FAKE(test_full_queue),
        WITH_A_FAKE(test_ack_behind_done),
        WITH_A_FAKE(test_folder_without_errno),
        WITH_A_FAKE(test_known_end_survives_a_loss),
        WITH_A_FAKE(test_put_done_before_its_end),
        WITH_A_FAKE(test_callback_that_loses_the_box),
        WITH_A_FAKE(test_why_it_is_lost),
        WITH_A_FAKE(test_why_by_a_warden),
        WITH_A_FAKE(test_why_of_no_sense),
    };

    return cmocka_run_group_tests_name("runtime/box trouble", tests, NULL, NULL);
}
