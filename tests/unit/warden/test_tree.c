/*
 * test_tree.c - a kill of one command: everybody it started goes, and nobody else.
 *
 * Each process of a tree holds the writing end of a pipe with a name; its end of file says that
 * the last of them is gone.
 */
#include "warden/warden_fixture.h"

/* Our end of the pipe; open before anybody writes, and without a writer of our own. */
static int open_pipe(struct warden_fixture *fixture)
{
    int fd;

    assert_int_equal(mkfifo(scratch_path(&fixture->scratch, "work/alive"), 0600), 0);
    fd = open(scratch_path(&fixture->scratch, "work/alive"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* Waits until `count` processes have written a byte. */
static void await_bytes(int fd, int count)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    char byte;

    while (count > 0) {
        assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
        if (read(fd, &byte, 1) == 1)
            count--;
    }
}

static void await_end(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    char data[4096];
    ssize_t length;

    do {
        assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
        length = read(fd, data, sizeof(data));
    } while (length > 0 || (length < 0 && errno == EAGAIN));
    assert_int_equal(length, 0);
    close(fd);
}

static void take_killed(struct warden_fixture *fixture, uint32_t id)
{
    struct ended ended;

    give_number(fixture, FRAME_SIGNAL, id, SIGKILL);
    finish(fixture, id, &ended);
    assert_int_equal(ended.exited.signal, SIGKILL);
}

/* Children, grandchildren, another group, another session, one that ignores what it can. */
static void test_everybody_it_started(void **state)
{
    struct warden_fixture *fixture = *state;
    int fd = open_pipe(fixture);
    struct ended ended;

    start(fixture, 2, EXEC_STDIN, "read line; echo $line", "");
    take(fixture, FRAME_STARTED, 2);
    start(fixture, 1, 0,
          "exec 9>alive; (echo 1 >&9; sleep 1000) & "
          "setsid sh -c '(echo 2 >&9; trap \"\" TERM HUP; sleep 1000) & sleep 1000' & "
          "(setsid sh -c 'setsid sh -c \"echo 3 >&9; sleep 1000\" & wait' & wait) & "
          "set -m; sh -c 'echo 4 >&9; kill -STOP $$' & wait; sleep 1000",
          "");
    await_bytes(fd, 8); /* with their newlines */
    take(fixture, FRAME_STARTED, 1);
    take_killed(fixture, 1);
    await_end(fd);
    give_bytes(fixture, FRAME_STDIN, 2, 0, "alive\n"); /* the other command is */
    finish(fixture, 2, &ended);
    assert_string_equal(ended.text[1], "alive\n");
}

/* Its parent is gone; its session is still that of the command. */
static void test_orphan(void **state)
{
    struct warden_fixture *fixture = *state;
    int fd = open_pipe(fixture);

    start(fixture, 1, 0, "exec 9>alive; (sh -c 'echo 1 >&9; sleep 1000' &) ; sleep 1000", "");
    take(fixture, FRAME_STARTED, 1);
    await_bytes(fd, 2);
    take_killed(fixture, 1);
    await_end(fd);
}

/* A tree that is never where one looks: each generation starts the next one and ends. */
static void test_runner(void **state)
{
    struct warden_fixture *fixture = *state;

    for (uint32_t id = 1; id <= 10; id++) {
        int fd = open_pipe(fixture);

        start(fixture, id, 0, "exec 9>alive; run() { echo >&9; run & }; run & sleep 1000", "");
        take(fixture, FRAME_STARTED, id);
        await_bytes(fd, 20);
        take_killed(fixture, id);
        await_end(fd);
        assert_int_equal(unlink(scratch_path(&fixture->scratch, "work/alive")), 0);
    }
}

/* The first thread of a process may end before the others: it looks dead and is not. */
static void test_process_whose_first_thread_ended(void **state)
{
    static const char script[] = "exec 9>alive; exec python3 -c '"
                                 "import os, threading, time, ctypes\n"
                                 "def other():\n"
                                 "    os.write(9, b\"x\")\n"
                                 "    time.sleep(1000)\n"
                                 "threading.Thread(target=other).start()\n"
                                 "ctypes.CDLL(None).pthread_exit(0)'";
    struct warden_fixture *fixture = *state;
    int fd;

    if (system("python3 -c 'import ctypes, threading' 2>/dev/null") != 0) {
        print_message("no python3 with ctypes\n");
        skip();
    }
    fd = open_pipe(fixture);
    start(fixture, 1, 0, script, "");
    take(fixture, FRAME_STARTED, 1);
    await_bytes(fd, 1);
    take_killed(fixture, 1);
    await_end(fd);
}

/* Other signals go to the process group. */
static void test_signal_to_the_group(void **state)
{
    struct warden_fixture *fixture = *state;
    int fd = open_pipe(fixture);
    struct ended ended;

    start(fixture, 1, 0, "exec 9>alive; (echo 1 >&9; sleep 1000) & wait", "");
    take(fixture, FRAME_STARTED, 1);
    await_bytes(fd, 2);
    give_number(fixture, FRAME_SIGNAL, 1, SIGTERM);
    finish(fixture, 1, &ended);
    assert_int_equal(ended.exited.signal, SIGTERM);
    await_end(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_WARDEN(test_everybody_it_started),
        WITH_A_WARDEN(test_orphan),
        WITH_A_WARDEN(test_runner),
        WITH_A_WARDEN(test_process_whose_first_thread_ended),
        WITH_A_WARDEN(test_signal_to_the_group),
    };

    return cmocka_run_group_tests_name("warden/tree", tests, become_reaper, NULL);
}
