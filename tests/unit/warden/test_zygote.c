/*
 * test_zygote.c - kernels forked from a zygote inside of the box: whose children they are, and what
 * becomes of a kernel when the zygote lies, dies or says nothing. The zygote is this test itself,
 * as good or bad as its last argument says.
 */
#include "warden/kernel_fixture.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "zygote/zygote.h"

/* ---- the zygote ---- */

static void say(enum zygote_word_type type, uint32_t serial, pid_t pid)
{
    struct zygote_word word = {.type = type, .serial = serial, .pid = (int32_t)pid};

    if (send(ZYGOTE_CONTROL_FD, &word, sizeof(word), 0) != sizeof(word))
        _exit(96);
}

/* A kernel whose parent has ended before this returns. */
static void fork_kernel(const struct zygote_request *request, const int fds[3])
{
    pid_t pid = fork();

    if (pid == 0) {
        if (fork() != 0)
            _exit(0);
        setsid();
        say(ZYGOTE_JOINED, request->serial, getpid());
        dup2(fds[1], 1);
        dup2(fds[2], 2);
        dup2(fds[0], 3);
        sys_close_range(4, ~0U, 0);
        tiny_kernel();
    }
    waitpid(pid, NULL, 0);
    say(ZYGOTE_FORKED, request->serial, 0);
}

static void wait_for(const char *name)
{
    while (access(name, F_OK) < 0)
        usleep(1000);
}

static void answer(const char *way, const struct zygote_request *request, const int fds[3])
{
    if (strcmp(way, "dies") == 0)
        _exit(1);
    if (strcmp(way, "stops") == 0)
        raise(SIGSTOP);
    if (strcmp(way, "lies") == 0) { /* the warden's own parent is not its child */
        say(ZYGOTE_FORKED, request->serial, 0);
        say(ZYGOTE_JOINED, request->serial, (pid_t)strtol(getenv("HOST"), NULL, 10));
    } else if (strcmp(way, "itself") == 0) {
        say(ZYGOTE_FORKED, request->serial, 0);
        say(ZYGOTE_JOINED, request->serial, getpid());
    } else if (strcmp(way, "refuses") == 0) {
        struct zygote_word word = {
            .type = ZYGOTE_FORKED, .serial = request->serial, .error = EAGAIN};

        send(ZYGOTE_CONTROL_FD, &word, sizeof(word), 0);
    } else if (strcmp(way, "babbles") == 0) {
        send(ZYGOTE_CONTROL_FD, "what?", 5, 0);
    } else {
        fork_kernel(request, fds);
    }
}

static _Noreturn void tiny_zygote(const char *way)
{
    struct zygote_request request;

    if (strcmp(way, "waits") == 0)
        wait_for("go");
    say(ZYGOTE_READY, 0, 0);
    if (strcmp(way, "twice") == 0)
        say(ZYGOTE_READY, 0, 0);
    for (;;) {
        int fds[3];
        size_t count = 3;
        ssize_t length =
            packet_receive(ZYGOTE_CONTROL_FD, &request, sizeof(request), fds, &count, 0);

        if (length != sizeof(request) || count != 3)
            _exit(length == 0 ? 0 : 95);
        answer(way, &request, fds);
        for (int i = 0; i < 3; i++)
            close(fds[i]);
    }
}

/* ---- its host ---- */

static void give_strings(struct warden_fixture *fixture, enum frame_type type, uint32_t id,
                         uint32_t flags, const char *program, const char *word, const char *way)
{
    struct message_exec exec = {.flags = flags, .argc = way ? 3 : 2, .envc = 1};
    CLEANUP(buf_free) struct buf args = BUF_INIT(4 * KIB);
    uint8_t payload[32];

    buf_printf(&args, "%s%c%s%c", program, 0, word, 0);
    if (way)
        buf_printf(&args, "%s%c", way, 0);
    buf_printf(&args, "HOST=%d%c%c", (int)getpid(), 0, 0);
    exec.args_length = (uint32_t)args.length;
    give(fixture, FRAME_ARGS, 0, args.data, args.length);
    give(fixture, type, id, payload, (size_t)message_exec_pack(&exec, payload, sizeof(payload)));
}

static const char *this_program(void)
{
    static char path[400];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

    assert_true(length > 0);
    path[length] = 0;
    return path;
}

static void start_zygote(struct warden_fixture *fixture, const char *way)
{
    give_strings(fixture, FRAME_ZYGOTE, 0, 0, this_program(), "zygote", way);
}

static void ask_kernel(struct warden_fixture *fixture, uint32_t id)
{
    give_strings(fixture, FRAME_EXEC, id, EXEC_KERNEL | EXEC_FORK, this_program(), "kernel", NULL);
}

/* Whether the kernel that now starts was forked. */
static bool take_forked(struct warden_fixture *fixture, uint32_t id)
{
    struct frame frame = take(fixture, FRAME_STARTED, id);
    struct message_started started;

    assert_int_equal(message_started_unpack(&frame, &started), 0);
    assert_true(started.start_ns > 0);
    return started.flags & STARTED_FORKED;
}

static void check_works(struct warden_fixture *fixture, uint32_t kernel, uint32_t id)
{
    struct ended ended;

    do_cell(fixture, id, kernel, "out hello\nerr oops\nsay {}\ntell", &ended);
    assert_int_equal(ended.exited.exit_code, 0);
    assert_true(strncmp(ended.text[1], "hello\n1 - ", 10) == 0); /* its first */
    assert_string_equal(ended.text[2], "oops\n");
    assert_string_equal(ended.text[3], "{}\n");
}

static void test_forks(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_exited exited;
    struct ended ended;

    start_zygote(fixture, "good");
    ask_kernel(fixture, 1); /* before it is ready */
    assert_true(take_forked(fixture, 1));
    check_works(fixture, 1, 2);
    ask_kernel(fixture, 3);
    assert_true(take_forked(fixture, 3));
    check_works(fixture, 3, 4);
    run_cell(fixture, 5, 1, 0, "out last\nexit 3"); /* how it ends the warden sees itself */
    finish(fixture, 5, &ended);
    assert_int_equal(ended.exited.flags, EXITED_KERNEL_DIED);
    assert_int_equal(ended.exited.exit_code, 3);
    exited = take_exited(fixture, 1);
    assert_true(exited.exit_code == 3 && exited.flags == 0 && exited.max_rss_bytes > 0);
    run_cell(fixture, 6, 3, 0, "raise 11");
    finish(fixture, 6, &ended);
    assert_int_equal(ended.exited.signal, SIGSEGV);
    assert_int_equal(take_exited(fixture, 3).signal, SIGSEGV);
    ask_kernel(fixture, 7);
    assert_true(take_forked(fixture, 7));
    give_number(fixture, FRAME_SIGNAL, 7, SIGKILL);
    assert_int_equal(take_exited(fixture, 7).signal, SIGKILL);
}

/* Two at once: who comes second does not wait. */
static void test_one_at_a_time(void **state)
{
    struct warden_fixture *fixture = *state;

    start_zygote(fixture, "waits");
    ask_kernel(fixture, 1);
    ask_kernel(fixture, 2);
    assert_false(take_forked(fixture, 2));
    check_works(fixture, 2, 3);
    run_cell(fixture, 4, 1, 0, "out waited"); /* for a kernel that is not there yet */
    scratch_write(&fixture->scratch, "work/go", "");
    assert_true(take_forked(fixture, 1));
    take(fixture, FRAME_STARTED, 4);
    await_output(fixture, 4, 1, "waited\n");
    take(fixture, FRAME_EXITED, 4);
}

static void test_killed_before_it_is_there(void **state)
{
    struct warden_fixture *fixture = *state;

    start_zygote(fixture, "waits");
    ask_kernel(fixture, 1);
    give_number(fixture, FRAME_SIGNAL, 1,
                SIGINT); /* reaches nobody, the warden's group least of all */
    give_number(fixture, FRAME_SIGNAL, 1, SIGKILL);
    scratch_write(&fixture->scratch, "work/go", "");
    assert_true(take_forked(fixture, 1));
    assert_int_equal(take_exited(fixture, 1).signal, SIGKILL);
}

/* In none of these ways is a kernel lost, or forked a second time. */
static void test_bad_zygotes(void **state)
{
    static const char *const ways[] = {"dies",  "lies",    "itself", "refuses",
                                       "twice", "babbles", "stops"};

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct warden_fixture *fixture;

        assert_int_equal(set_up((void **)&fixture), 0);
        start_zygote(fixture, ways[i]);
        ask_kernel(fixture, 1);
        assert_false(take_forked(fixture, 1));
        check_works(fixture, 1, 2);
        ask_kernel(fixture, 3);
        assert_false(take_forked(fixture, 3));
        check_works(fixture, 3, 4);
        assert_int_equal(tear_down((void **)&fixture), 0);
    }
}

static void test_no_zygote(void **state)
{
    struct warden_fixture *fixture = *state;

    ask_kernel(fixture, 1);
    assert_false(take_forked(fixture, 1));
    check_works(fixture, 1, 2);
    give_strings(fixture, FRAME_ZYGOTE, 0, 0, "/no/such/python3", "zygote", "good");
    ask_kernel(fixture, 3);
    assert_false(take_forked(fixture, 3));
    check_works(fixture, 3, 4);
    give_strings(fixture, FRAME_EXEC, 5, EXEC_KERNEL | EXEC_FORK, "/no/such/python3", "kernel",
                 NULL);
    take(fixture, FRAME_NOEXEC, 5);
}

/* A new host finds it, and how it began. */
static void test_inventory(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_inventory inventory;
    struct frame frame;

    start_zygote(fixture, "good");
    ask_kernel(fixture, 1);
    assert_true(take_forked(fixture, 1));
    give(fixture, FRAME_HELLO, 7, NULL, 0);
    frame = take(fixture, FRAME_INVENTORY, 1);
    assert_int_equal(message_inventory_unpack(&frame, &inventory), 0);
    assert_int_equal(inventory.flags, INVENTORY_STARTED | INVENTORY_KERNEL | INVENTORY_FORKED);
    take(fixture, FRAME_WELCOME, 7);
    check_works(fixture, 1, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WITH_A_WARDEN(test_forks),
        WITH_A_WARDEN(test_one_at_a_time),
        WITH_A_WARDEN(test_killed_before_it_is_there),
        cmocka_unit_test(test_bad_zygotes),
        WITH_A_WARDEN(test_no_zygote),
        WITH_A_WARDEN(test_inventory),
    };

    TINY_MAIN(argc, argv);
    if (argc == 3 && strcmp(argv[1], "zygote") == 0)
        tiny_zygote(argv[2]);
    return cmocka_run_group_tests_name("warden/zygote", tests, become_reaper, NULL);
}
