/*
 * test_kernel.c - kernels in a warden: started or given, how they end and who hears of it, and what
 * a host may not do with them.
 */
#include "warden/kernel_fixture.h"

static void check_end(const struct message_exited *exited, int exit_code, int signal,
                      uint32_t flags)
{
    assert_int_equal(exited->exit_code, exit_code);
    assert_int_equal(exited->signal, signal);
    assert_int_equal(exited->flags, flags);
}

static void bury(pid_t pid)
{
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_keeps_its_state(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    start_kernel(fixture, 1, 0);
    do_cell(fixture, 2, 1, "out hello\nerr oops\nsay {\"a\": 1}\ntell", &ended);
    check_end(&ended.exited, 0, 0, 0);
    assert_true(strncmp(ended.text[1], "hello\n1 - ", 10) == 0);
    assert_string_equal(ended.text[2], "oops\n");
    assert_string_equal(ended.text[3], "{\"a\": 1}\n");
    assert_true(ended.exited.event_bytes == 9 && ended.exited.duration_ns > 0);
    do_cell(fixture, 3, 1, "tell\nstatus 1", &ended);
    check_end(&ended.exited, 1, 0, 0);
    assert_true(strncmp(ended.text[1], "2 - ", 4) == 0);
    assert_true(ended.bytes[2] == 0 && ended.bytes[3] == 0);
}

static void test_given(void **state)
{
    struct warden_fixture *fixture = *state;
    pid_t pid = give_kernel(fixture, 1);
    struct ended ended;

    do_cell(fixture, 2, 1, "out hello\nsay {}\ntell", &ended);
    check_end(&ended.exited, 0, 0, 0);
    assert_true(strncmp(ended.text[1], "hello\n1 - ", 10) == 0);
    assert_string_equal(ended.text[3], "{}\n");
    do_cell(fixture, 3, 1, "tell", &ended);
    assert_true(strncmp(ended.text[1], "2 - ", 4) == 0);
    run_cell(fixture, 4, 1, 0, "out last\nexit 3");
    finish(fixture, 4, &ended);
    check_end(&ended.exited, 0, 0, EXITED_KERNEL_DIED | EXITED_STATUS_EXTERNAL);
    assert_string_equal(ended.text[1], "last\n");
    bury(pid);
    assert_int_equal(take_exited(fixture, 1).flags, EXITED_STATUS_EXTERNAL);
    run_cell(fixture, 5, 1, 0, "out never");
    take(fixture, FRAME_NOEXEC, 5);
}

/* Who gave it may die before anybody asked for it: then nobody hears of its end. */
static void test_given_and_gone(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_exited exited;
    struct ended ended;
    pid_t pid = give_kernel(fixture, 1);

    kill(pid, SIGKILL);
    bury(pid);
    start(fixture, 2, 0, "echo meanwhile", "");
    finish(fixture, 2, &ended); /* nothing of 1 comes */
    run_cell(fixture, 3, 1, 0, "out never");
    do {
        struct frame frame;

        assert_true(take_any(fixture, &frame)); /* its own end and that of the cell, in any order */
        assert_int_equal(frame.type, FRAME_EXITED);
        assert_int_equal(message_exited_unpack(&frame, &exited), 0);
        assert_true(exited.flags & EXITED_STATUS_EXTERNAL);
        if (frame.id == 3)
            check_end(&exited, 0, 0, EXITED_KERNEL_DIED | EXITED_STATUS_EXTERNAL);
        else
            pid = 0;
        assert_in_range(frame.id, 1, 3);
    } while (pid != 0);
}

/* The number of a process that is no more, and an id that is in use. */
static void test_given_in_vain(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;
    int status;
    pid_t pid;

    start_kernel(fixture, 1, 0);
    pid = give_kernel(fixture, 1); /* it is turned away */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    do_cell(fixture, 2, 1, "tell", &ended);
    assert_true(strncmp(ended.text[1], "1 - ", 4) == 0);
}

static void test_exit_of_a_kernel(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_exited exited;
    struct ended ended;

    start_kernel(fixture, 1, 0);
    run_cell(fixture, 2, 1, 0, "out before\nerr too\nsay {\"n\": 1}\nhalf {\"cut\nexit 7");
    run_cell(fixture, 3, 1, 0, "out never");
    finish(fixture, 2, &ended);
    check_end(&ended.exited, 7, 0, EXITED_KERNEL_DIED);
    assert_string_equal(ended.text[1], "before\n");
    assert_string_equal(ended.text[2], "too\n");
    assert_string_equal(ended.text[3], "{\"n\": 1}\n{\"cut");
    exited = take_exited(fixture, 3); /* it never ran: no STARTED */
    check_end(&exited, 7, 0, EXITED_KERNEL_DIED);
    assert_true(exited.duration_ns == 0);
    exited = take_exited(fixture, 1);
    check_end(&exited, 7, 0, 0);
    assert_true(exited.max_rss_bytes > 0);
    run_cell(fixture, 4, 1, 0, "out never");
    take(fixture, FRAME_NOEXEC, 4);
}

static void test_crash_of_a_kernel(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_exited exited;
    struct ended ended;

    start_kernel(fixture, 1, EXEC_KEEP);
    run_cell(fixture, 2, 1, CELL_KEEP, "raise 11");
    finish(fixture, 2, &ended);
    check_end(&ended.exited, 0, SIGSEGV, EXITED_KERNEL_DIED);
    exited = take_exited(fixture, 1);
    check_end(&exited, 0, SIGSEGV, 0);
    run_cell(fixture, 3, 1, 0, "out never"); /* it is kept, so its end is known */
    exited = take_exited(fixture, 3);
    check_end(&exited, 0, SIGSEGV, EXITED_KERNEL_DIED);
    give(fixture, FRAME_FORGET, 1, NULL, 0);
    run_cell(fixture, 4, 1, 0, "out never");
    take(fixture, FRAME_NOEXEC, 4);
}

/* A kernel cannot be talked to any more, but it lives: it and its children are ended. */
static void test_closed_socket(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;
    pid_t child;

    start_kernel(fixture, 1, 0);
    run_cell(fixture, 2, 1, 0, "close 3\nfork\nwait");
    finish(fixture, 2, &ended);
    check_end(&ended.exited, 0, SIGKILL, EXITED_KERNEL_DIED);
    child = (pid_t)strtol(ended.text[1], NULL, 10);
    assert_true(child > 1);
    assert_int_equal(take_exited(fixture, 1).signal, SIGKILL);
    while (kill(child, 0) == 0) /* the warden buries it */
        ;
    assert_int_equal(errno, ESRCH);
}

static void test_program_that_is_none(void **state)
{
    static const char args[] = "bailey-no-such-program\0";
    struct message_exec exec = {.flags = EXEC_KERNEL, .argc = 1, .args_length = sizeof(args)};
    struct warden_fixture *fixture = *state;
    struct frame frame;
    bool has_ended = false;

    give(fixture, FRAME_ARGS, 0, args, sizeof(args));
    give_exec(fixture, 1, &exec);
    run_cell(fixture, 2, 1, 0, "out never");
    for (int i = 0; i < 2; i++) { /* the cell came in time to die with it, or too late */
        assert_true(take_any(fixture, &frame));
        if (frame.id == 1)
            assert_int_equal(frame.type, FRAME_NOEXEC);
        else
            has_ended = frame.type == FRAME_EXITED || frame.type == FRAME_NOEXEC;
    }
    assert_true(has_ended);
}

/* Its descriptors are four; nobody else has any of them. */
static void test_descriptors(void **state)
{
    struct warden_fixture *fixture = *state;
    pid_t pid = give_kernel(fixture, 2);
    struct ended ended;

    start_kernel(fixture, 1, 0);
    do_cell(fixture, 3, 1, "list", &ended);
    assert_string_equal(ended.text[1], "0\n1\n2\n3\n");
    start(fixture, 4, 0,
          "for n in 3 4 5 6 7 8 9 10 11 12 13 14; do test -e /proc/$$/fd/$n && echo $n; done", "");
    finish(fixture, 4, &ended);
    assert_string_equal(ended.text[1], "");
    start_kernel(fixture, 5, 0);
    do_cell(fixture, 6, 5, "list", &ended);
    assert_string_equal(ended.text[1], "0\n1\n2\n3\n");
    do_cell(fixture, 7, 2, "list", &ended);
    assert_string_equal(ended.text[1], "0\n1\n2\n3\n");
    kill(pid, SIGKILL);
    bury(pid);
    assert_int_equal(take_exited(fixture, 2).flags, EXITED_STATUS_EXTERNAL);
}

/* ---- signals ---- */

static void test_interrupt(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_exited exited;
    struct ended ended;

    start_kernel(fixture, 1, 0);
    run_cell(fixture, 2, 1, 0, "wait");
    run_cell(fixture, 3, 1, 0, "out never");
    run_cell(fixture, 4, 1, 0, "tell");
    take(fixture, FRAME_STARTED, 2);
    await_output(fixture, 2, 1, "up\n");
    give_number(fixture, FRAME_SIGNAL, 3, SIGINT); /* it waits: the one that runs is left alone */
    exited = take_exited(fixture, 3);
    check_end(&exited, 0, SIGINT, 0);
    give_number(fixture, FRAME_SIGNAL, 2, SIGINT);
    exited = take_exited(fixture, 2);
    check_end(&exited, 1, 0, 0);
    give_number(fixture, FRAME_SIGNAL, 2, SIGINT); /* too late */
    finish(fixture, 4, &ended);
    assert_true(strncmp(ended.text[1], "2 - ", 4) == 0); /* what it knew it still knows */
    run_cell(fixture, 5, 1, 0, "wait");
    take(fixture, FRAME_STARTED, 5);
    await_output(fixture, 5, 1, "up\n");
    give_number(fixture, FRAME_SIGNAL, 1, SIGINT); /* by the kernel's own id */
    assert_int_equal(take_exited(fixture, 5).exit_code, 1);
}

static void kill_in_fixture(struct warden_fixture *fixture, uint32_t kernel, uint32_t victim,
                            uint32_t flags, pid_t pid)
{
    struct ended ended;
    uint32_t cell = kernel + 1;
    pid_t child;

    run_cell(fixture, cell, kernel, 0, "fork");
    finish(fixture, cell, &ended);
    child = (pid_t)strtol(ended.text[1], NULL, 10);
    run_cell(fixture, cell + 1, kernel, 0, "wait");
    run_cell(fixture, cell + 2, kernel, 0, "out never");
    take(fixture, FRAME_STARTED, cell + 1);
    await_output(fixture, cell + 1, 1, "up\n");
    give_number(fixture, FRAME_SIGNAL, victim, SIGKILL);
    if (pid > 0)
        bury(pid);
    for (int i = 0; i < 3; i++) {
        struct message_exited exited;
        struct frame frame;

        assert_true(take_any(fixture, &frame));
        assert_int_equal(frame.type, FRAME_EXITED);
        assert_int_equal(message_exited_unpack(&frame, &exited), 0);
        check_end(&exited, 0, flags & EXITED_STATUS_EXTERNAL ? 0 : SIGKILL,
                  flags | (frame.id == kernel ? 0 : EXITED_KERNEL_DIED));
    }
    if (pid > 0)
        waitpid(child, NULL, 0); /* an orphan of the given one comes to the test */
    else
        while (kill(child, 0) == 0)
            ;
}

static void test_kill(void **state)
{
    struct warden_fixture *fixture = *state;

    start_kernel(fixture, 1, 0);
    kill_in_fixture(fixture, 1, 3, 0, 0); /* the cell that runs */
    start_kernel(fixture, 11, 0);
    kill_in_fixture(fixture, 11, 11, 0, 0); /* the kernel itself */
    kill_in_fixture(fixture, 21, 23, EXITED_STATUS_EXTERNAL, give_kernel(fixture, 21));
    kill_in_fixture(fixture, 31, 31, EXITED_STATUS_EXTERNAL, give_kernel(fixture, 31));
}

static void test_kill_of_one_that_waits(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    start_kernel(fixture, 1, 0);
    run_cell(fixture, 2, 1, 0, "wait");
    take(fixture, FRAME_STARTED, 2);
    await_output(fixture, 2, 1, "up\n");
    run_cell(fixture, 3, 1, 0, "out never");
    give_number(fixture, FRAME_SIGNAL, 3, SIGKILL);
    assert_int_equal(take_exited(fixture, 3).signal, SIGKILL);
    give_number(fixture, FRAME_SIGNAL, 2, SIGINT);
    take(fixture, FRAME_EXITED, 2);
    do_cell(fixture, 4, 1, "tell", &ended); /* the kernel lives */
    assert_true(strncmp(ended.text[1], "2 - ", 4) == 0);
}

/* ---- limits ---- */

static void test_limits(void **state)
{
    const uint32_t last = LIMIT_CONTEXTS + 1;
    static const char args[] = "true\0";
    struct message_exec exec = {.flags = EXEC_KERNEL, .argc = 1, .args_length = sizeof(args)};
    struct warden_fixture *fixture = *state;
    struct ended ended;

    for (uint32_t id = 1; id < last; id++)
        start_kernel(fixture, id, 0);
    give(fixture, FRAME_ARGS, 0, args, sizeof(args));
    give_exec(fixture, last, &exec);
    take(fixture, FRAME_NOEXEC, last);
    start(fixture, last + 1, 0, "echo room", ""); /* commands have a limit of their own */
    finish(fixture, last + 1, &ended);
    assert_string_equal(ended.text[1], "room\n");
    run_cell(fixture, 1000, 1, 0, "wait");
    take(fixture, FRAME_STARTED, 1000);
    await_output(fixture, 1000, 1, "up\n");
    for (uint32_t id = 1001; id < 1000 + LIMIT_CELLS; id++)
        run_cell(fixture, id, 1, 0, "out x");
    run_cell(fixture, 2000, 1, 0, "out x");
    take(fixture, FRAME_NOEXEC, 2000); /* its queue is full */
    do_cell(fixture, 2001, 2, "out other", &ended);
    give_number(fixture, FRAME_SIGNAL, 1000, SIGINT);
    take(fixture, FRAME_EXITED, 1000);
    for (uint32_t id = 1001; id < 1000 + LIMIT_CELLS; id++)
        finish(fixture, id, &ended); /* one after the other, in their order */
}

/* ---- what nobody may say; each ends the warden ---- */

static void kernel_without_descriptors(struct warden_fixture *fixture)
{
    give(fixture, FRAME_KERNEL, 1, "\x02\0\0\0", 4);
}

static void kernel_with(struct warden_fixture *fixture, size_t count)
{
    int fds[4] = {0, 1, 2, 0};

    give_fds(fixture, FRAME_KERNEL, 1, "\x02\0\0\0", 4, fds, count);
}

static void kernel_with_two(struct warden_fixture *fixture)
{
    kernel_with(fixture, 2);
}

static void kernel_with_four(struct warden_fixture *fixture)
{
    kernel_with(fixture, 4);
}

static void kernel_of_the_warden(struct warden_fixture *fixture)
{
    give_fds(fixture, FRAME_KERNEL, 1, "\x01\0\0\0", 4, (int[3]){0, 1, 2}, 3);
}

static void kernel_with_id_0(struct warden_fixture *fixture)
{
    give_fds(fixture, FRAME_KERNEL, 0, "\xff\xff\xff\x7f", 4, (int[3]){0, 1, 2}, 3);
}

static void args_with_descriptors(struct warden_fixture *fixture)
{
    give_fds(fixture, FRAME_ARGS, 0, "x", 1, (int[3]){0, 1, 2}, 3);
}

static void hello_with_a_descriptor(struct warden_fixture *fixture)
{
    give_fds(fixture, FRAME_HELLO, 1, NULL, 0, (int[1]){0}, 1);
}

static void kernel_on_a_terminal(struct warden_fixture *fixture)
{
    start(fixture, 1, EXEC_KERNEL | EXEC_PTY, "true", "");
}

static void kernel_with_input(struct warden_fixture *fixture)
{
    start(fixture, 1, EXEC_KERNEL | EXEC_STDIN, "true", "");
}

static void kernel_that_ends_the_box(struct warden_fixture *fixture)
{
    start(fixture, 1, EXEC_KERNEL | EXEC_ENDS_BOX, "true", "");
}

static void cell_with_other_lengths(struct warden_fixture *fixture)
{
    give(fixture, FRAME_ARGS, 0, "abc", 3);
    give_cell(fixture, 2, &(struct message_cell){.kernel = 1, .code_length = 4});
}

static void cell_with_strange_flags(struct warden_fixture *fixture)
{
    give_cell(fixture, 2, &(struct message_cell){.kernel = 1, .flags = 16});
}

static void cell_with_a_folder_without_end(struct warden_fixture *fixture)
{
    start_kernel(fixture, 1, 0);
    give(fixture, FRAME_ARGS, 0, "tell/tmp", 8);
    give_cell(fixture, 2,
              &(struct message_cell){
                  .kernel = 1, .flags = CELL_FOLDER, .code_length = 4, .env_length = 4});
}

static void cell_with_no_folder(struct warden_fixture *fixture)
{
    start_kernel(fixture, 1, 0);
    give_cell(fixture, 2, &(struct message_cell){.kernel = 1, .flags = CELL_FOLDER});
}

static void cell_with_id_0(struct warden_fixture *fixture)
{
    give_cell(fixture, 0, &(struct message_cell){.kernel = 1});
}

static void cell_with_an_id_in_use(struct warden_fixture *fixture)
{
    start_kernel(fixture, 1, 0);
    give_cell(fixture, 1, &(struct message_cell){.kernel = 1});
}

static void test_broken_protocol(void **state)
{
    static void (*const ways[])(struct warden_fixture * fixture) = {
        kernel_without_descriptors,     kernel_with_two,         kernel_with_four,
        kernel_of_the_warden,           kernel_with_id_0,        args_with_descriptors,
        hello_with_a_descriptor,        kernel_on_a_terminal,    kernel_with_input,
        kernel_that_ends_the_box,       cell_with_other_lengths, cell_with_strange_flags,
        cell_with_a_folder_without_end, cell_with_no_folder,     cell_with_id_0,
        cell_with_an_id_in_use,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        check_breaks(ways[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WITH_A_WARDEN(test_keeps_its_state),
        WITH_A_WARDEN(test_given),
        WITH_A_WARDEN(test_given_and_gone),
        WITH_A_WARDEN(test_given_in_vain),
        WITH_A_WARDEN(test_exit_of_a_kernel),
        WITH_A_WARDEN(test_crash_of_a_kernel),
        WITH_A_WARDEN(test_closed_socket),
        WITH_A_WARDEN(test_program_that_is_none),
        WITH_A_WARDEN(test_descriptors),
        WITH_A_WARDEN(test_interrupt),
        WITH_A_WARDEN(test_kill),
        WITH_A_WARDEN(test_kill_of_one_that_waits),
        WITH_A_WARDEN(test_limits),
        cmocka_unit_test(test_broken_protocol),
    };

    TINY_MAIN(argc, argv);
    return cmocka_run_group_tests_name("warden/kernel", tests, become_reaper, NULL);
}
