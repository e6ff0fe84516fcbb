/*
 * test_container.c - the warden of a container (container_fixture.h): its guests, files, kernels
 * and limits, and what it says when it cannot begin.
 */
#include "boxes/container_fixture.h"

/* ---- calls ---- */

static void saw_started(void *ctx)
{
    ((struct seen *)ctx)->has_started = true;
}

static size_t saw_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct seen *seen = ctx;
    size_t fixture = sizeof(seen->text[0]) - 1 - strlen(seen->text[stream]);

    strncat(seen->text[stream], data, length < fixture ? length : fixture);
    return length;
}

static void saw_ended(void *ctx, const struct exec_end *end)
{
    ((struct seen *)ctx)->end = *end;
    ((struct seen *)ctx)->is_done = true;
}

static void saw_done(void *ctx, const struct error *err)
{
    ((struct seen *)ctx)->err = *err;
    ((struct seen *)ctx)->is_done = true;
}

static size_t saw_data(void *ctx, const void *data, size_t length)
{
    return saw_output(ctx, BOX_STDOUT, data, length);
}

static void saw_entry(void *ctx, const struct box_entry *entry)
{
    struct seen *seen = ctx;
    size_t used = strlen(seen->names);

    snprintf(seen->names + used, sizeof(seen->names) - used, " %s", entry->name);
}

static const struct exec_events exec_events = {
    .started = saw_started, .output = saw_output, .ended = saw_ended, .failed = saw_done};
static const struct put_events put_events = {.done = saw_done};
static const struct get_events get_events = {.data = saw_data, .done = saw_done};
static const struct done_events done_events = {.done = saw_done};
static const struct list_events list_events = {.entry = saw_entry, .done = saw_done};

static void pump(struct container_fixture *fixture)
{
    struct pollfd poll_fd = {.fd = box_fd(fixture->box), .events = box_poll_events(fixture->box)};
    uint64_t deadline_ms = box_next_deadline_ms(fixture->box), now_ms = clock_now_ms();
    struct error err = {0};
    int wait_ms = 60000;

    if (deadline_ms != UINT64_MAX)
        wait_ms = deadline_ms > now_ms ? (int)(deadline_ms - now_ms) : 0;
    assert_true(poll(&poll_fd, 1, wait_ms) == 1 || deadline_ms != UINT64_MAX);
    if (box_pump(fixture->box, &err) < 0)
        fail_msg("%s", err.text);
}

static int await_end(struct container_fixture *fixture, const struct seen *seen)
{
    while (!seen->is_done)
        pump(fixture);
    return -seen->err.num;
}

static struct seen *fresh(struct container_fixture *fixture)
{
    memset(&fixture->seen, 0, sizeof(fixture->seen));
    return &fixture->seen;
}

static void begin(struct container_fixture *fixture, const struct exec_spec *spec)
{
    struct error err = {0};

    assert_int_equal(box_exec(fixture->box, spec, &exec_events, fresh(fixture), &fixture->id, &err),
                     0);
}

/* A script of the guest's, to its end; its standard output. */
static const char *guest(struct container_fixture *fixture, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct exec_spec spec = {.argv = argv};

    begin(fixture, &spec);
    assert_int_equal(await_end(fixture, &fixture->seen), 0);
    return fixture->seen.text[BOX_STDOUT];
}

/* ---- tests ---- */

static void test_layers(void **state)
{
    static const enum isolation_layer sure[] = {
        ISOLATION_LAYER_USERNS, ISOLATION_LAYER_MOUNTNS, ISOLATION_LAYER_PIDNS,
        ISOLATION_LAYER_NETNS,  ISOLATION_LAYER_SECCOMP, ISOLATION_LAYER_NO_NEW_PRIVS};
    static const enum isolation_layer unknown[] = {ISOLATION_LAYER_IPCNS, ISOLATION_LAYER_UTSNS,
                                                   ISOLATION_LAYER_CGROUP,
                                                   ISOLATION_LAYER_UID_SPLIT};
    struct container_fixture *fixture = *state;

    NEEDS_A_BOX(fixture);
    assert_int_equal(fixture->ready.version, WIRE_VERSION);
    assert_int_equal(fixture->ready.descriptors, 0);
    for (size_t i = 0; i < ARRAY_SIZE(sure); i++)
        assert_true(fixture->ready.layers & ISOLATION_LAYER_BIT(sure[i]));
    for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
        assert_true(fixture->ready.missing & ISOLATION_LAYER_BIT(unknown[i]));
    assert_int_equal(fixture->ready.layers & fixture->ready.missing, 0);
    assert_int_equal(fixture->ready.layers | fixture->ready.missing, ISOLATION_LAYER_ALL);
}

/* The program by the image's PATH; of its environment that, the language and what it names. */
static void test_environment(void **state)
{
    const char *const argv[] = {"env", NULL};
    struct exec_spec spec = {.argv = argv};
    struct container_fixture *fixture = *state;
    const char *text = fixture->seen.text[BOX_STDOUT];

    NEEDS_A_BOX(fixture);
    begin(fixture, &spec);
    assert_int_equal(await_end(fixture, &fixture->seen), 0);
    assert_non_null(strstr(text, "PATH=/opt/image/bin:/usr/bin:/bin\n"));
    assert_non_null(strstr(text, "LANG=C\n"));
    assert_non_null(strstr(text, "HOME=/home/user\n"));
    assert_non_null(strstr(text, "REPORT=a b=c\n"));
    assert_non_null(strstr(text, "MPLBACKEND=svg\n"));
    assert_null(strstr(text, "MPLBACKEND=Agg"));
    assert_null(strstr(text, "NOT_THERE"));
    assert_null(strstr(text, "SECRET"));
    assert_null(strstr(text, "BAILEY"));
}

static void test_guest(void **state)
{
    struct container_fixture *fixture = *state;

    NEEDS_A_BOX(fixture);
    assert_string_equal(guest(fixture, "id -u; id -g; pwd; cd /tmp; ls -d data output"),
                        "1000\n1000\n/workspace\ndata\noutput\n");
    assert_string_equal(guest(fixture, "echo x >/workspace/a && echo x >/tmp/a && "
                                       "echo x >/home/user/a && echo x >/tmp/output/a && echo all"),
                        "all\n");
    assert_true(fixture->seen.end.has_output);
    guest(fixture, "echo x > /usr/x");
    assert_int_not_equal(fixture->seen.end.exit_code, 0);
    /* Its descriptors are its own three; the warden's are out of reach, and so is the warden. */
    if (fixture->ready.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_PROC)) {
        assert_string_equal(guest(fixture, "cd /proc/self/fd; echo *"), "0 1 2 3\n");
        assert_string_equal(guest(fixture, "cat /proc/1/environ; ls /proc/1/fd"), "");
        guest(fixture, "grep -E '^(Cap(Prm|Eff)|NoNewPrivs|Seccomp):' /proc/self/status");
        assert_string_equal(fixture->seen.text[BOX_STDOUT],
                            "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
                            "NoNewPrivs:\t1\nSeccomp:\t2\n");
    }
    assert_string_equal(guest(fixture, "kill -9 1; kill -TERM 1; echo still"), "still\n");
}

static void test_commands(void **state)
{
    static const char *const cat[] = {"cat", NULL}, *const sleeps[] = {"sleep", "1000", NULL},
                             *const no[] = {"bailey-no-such-program", NULL};
    struct exec_spec spec = {.argv = cat, .stdin_open = true};
    struct container_fixture *fixture = *state;

    NEEDS_A_BOX(fixture);
    begin(fixture, &spec);
    assert_int_equal(box_stdin(fixture->box, fixture->id, "one two", 7), 7);
    box_stdin_end(fixture->box, fixture->id);
    assert_int_equal(await_end(fixture, &fixture->seen), 0);
    assert_string_equal(fixture->seen.text[BOX_STDOUT], "one two");
    spec = (struct exec_spec){.argv = sleeps};
    begin(fixture, &spec);
    while (!fixture->seen.has_started)
        pump(fixture);
    box_signal(fixture->box, fixture->id, SIGKILL);
    assert_int_equal(await_end(fixture, &fixture->seen), 0);
    assert_int_equal(fixture->seen.end.signal, SIGKILL);
    spec = (struct exec_spec){.argv = sleeps, .timeout_ms = 50};
    begin(fixture, &spec);
    assert_int_equal(await_end(fixture, &fixture->seen), 0);
    assert_true(fixture->seen.end.timed_out);
    spec = (struct exec_spec){.argv = no};
    begin(fixture, &spec);
    assert_int_equal(await_end(fixture, &fixture->seen), ENOENT);
}

static void test_terminal(void **state)
{
    static const char *const argv[] = {"sh", "-c", "test -t 0 && stty size", NULL};
    struct exec_spec spec = {.argv = argv, .is_pty = true, .rows = 33, .columns = 99};
    struct container_fixture *fixture = *state;

    NEEDS_A_BOX(fixture);
    begin(fixture, &spec);
    assert_int_equal(await_end(fixture, &fixture->seen), 0);
    assert_string_equal(fixture->seen.text[BOX_STDOUT], "33 99\r\n");
}

static void test_files(void **state)
{
    struct put_spec spec = {.path = "/tmp/data/a.csv"};
    struct container_fixture *fixture = *state;

    NEEDS_A_BOX(fixture);
    assert_int_equal(box_put(fixture->box, &spec, &put_events, fresh(fixture), &fixture->id, NULL),
                     0);
    assert_int_equal(box_put_data(fixture->box, fixture->id, "a,b\n", 4), 4);
    box_put_end(fixture->box, fixture->id);
    assert_int_equal(await_end(fixture, &fixture->seen), 0);
    assert_string_equal(guest(fixture, "cat /tmp/data/a.csv"), "a,b\n");
    assert_int_equal(box_get(fixture->box, "/tmp/data/a.csv", 0, 0, &get_events, fresh(fixture),
                             &fixture->id, NULL),
                     0);
    assert_int_equal(await_end(fixture, &fixture->seen), 0);
    assert_string_equal(fixture->seen.text[BOX_STDOUT], "a,b\n");
    assert_int_equal(
        box_list(fixture->box, "/tmp/data", 0, &list_events, fresh(fixture), &fixture->id, NULL),
        0);
    assert_int_equal(await_end(fixture, &fixture->seen), 0);
    assert_string_equal(fixture->seen.names, " a.csv");
    assert_int_equal(
        box_get(fixture->box, "/etc/passwd", 0, 0, &get_events, fresh(fixture), &fixture->id, NULL),
        0);
    assert_int_equal(await_end(fixture, &fixture->seen), EACCES);
}

static int move(struct container_fixture *fixture, const char *from, const char *to)
{
    assert_int_equal(
        box_move(fixture->box, from, to, &done_events, fresh(fixture), &fixture->id, NULL), 0);
    return await_end(fixture, &fixture->seen);
}

/* The shares of a container are disks of their own: nothing of that is seen but the time. */
static void test_moves_between_shares(void **state)
{
    struct container_fixture *fixture = *state;

    NEEDS_A_BOX(fixture);
    guest(fixture, "cd /tmp; head -c 1000000 /dev/urandom > a; chmod 640 a; touch -d @1000 a; "
                   "cksum < a > /home/user/sum; mkdir -p t/u/v t/w; echo x > t/u/v/x; "
                   "ln -s /nowhere t/l; mkfifo t/f; chmod 700 t/w; chmod 755 t; echo old > b");
    assert_int_equal(move(fixture, "/tmp/a", "/workspace/a"), 0);
    assert_string_equal(guest(fixture, "cd /workspace; cksum < a | cmp - /home/user/sum && "
                                       "stat -c '%a %Y' a; ls /tmp"),
                        "640 1000\nb\ndata\noutput\nt\n");
    assert_int_equal(move(fixture, "/tmp/t", "/workspace/s"), 0);
    assert_string_equal(guest(fixture, "cd /workspace/s; cat u/v/x; readlink l; test -p f && "
                                       "stat -c %a . w; ls /tmp; ls -A /workspace"),
                        "x\n/nowhere\n755\n700\nb\ndata\noutput\na\ns\n");
    assert_int_equal(move(fixture, "/tmp/b", "/workspace/a"), 0); /* replaces */
    assert_string_equal(guest(fixture, "cat /workspace/a"), "old\n");
    assert_int_equal(move(fixture, "/workspace/a", "/tmp/data"), EISDIR);
    assert_int_equal(move(fixture, "/workspace/s/u", "/tmp/output"), 0); /* empty: replaced */
    assert_int_equal(move(fixture, "/workspace/s", "/tmp/output"), ENOTEMPTY);
    assert_int_equal(move(fixture, "/workspace/none", "/tmp/none"), ENOENT);
    assert_string_equal(guest(fixture, "ls -A /workspace /workspace/s /tmp"),
                        "/tmp:\ndata\noutput\n\n/workspace:\na\ns\n\n"
                        "/workspace/s:\nf\nl\nw\n");
}

static void test_full_disk(void **state)
{
    struct container_fixture *fixture = *state;

    NEEDS_A_BOX(fixture);
    guest(fixture, "head -c 64m /dev/zero > /workspace/big");
    assert_true(fixture->seen.end.disk_full);
    assert_int_equal(fixture->seen.end.signal, 0); /* it was told, not killed */
    guest(fixture, "rm /workspace/big");
    guest(fixture, "true");
    assert_false(fixture->seen.end.disk_full);
}

/* A kernel as docs/kernels.md wants it, in a few lines of shell. */
static void test_kernel(void **state)
{
    static const char *const argv[] = {
        "sh", "-c",
        "while read -r word id flags code input env <&3; do "
        "text=$(dd bs=1 count=$code <&3 2>/dev/null); eval \"$text\"; echo \"end $id 0\" >&3; done",
        NULL};
    static const char *const codes[] = {"x=7", "echo $x", "sleep 1000"};
    struct exec_spec spec = {.argv = argv};
    struct container_fixture *fixture = *state;

    NEEDS_A_BOX(fixture);
    assert_int_equal(
        box_kernel(fixture->box, &spec, &exec_events, &fixture->kernel, &fixture->kernel_id, NULL),
        0);
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
        struct cell_spec cell = {
            .kernel = fixture->kernel_id, .code = codes[i], .code_length = strlen(codes[i])};

        assert_int_equal(
            box_cell(fixture->box, &cell, &exec_events, fresh(fixture), &fixture->id, NULL), 0);
        if (i == 2)
            box_signal(fixture->box, fixture->kernel_id, SIGKILL);
        assert_int_equal(await_end(fixture, &fixture->seen), 0);
        if (i == 1)
            assert_string_equal(fixture->seen.text[BOX_STDOUT], "7\n");
    }
    assert_int_equal(await_end(fixture, &fixture->kernel), 0);
    assert_int_equal(fixture->kernel.end.signal, SIGKILL);
}

/* Everybody who is left in the box ends with it: see tear_down(). */
static void test_orphans(void **state)
{
    struct container_fixture *fixture = *state;

    NEEDS_A_BOX(fixture);
    assert_string_equal(guest(fixture, "(setsid sleep 1000 >/dev/null 2>&1 &) ; echo left"),
                        "left\n");
}

/* A share that cannot be written: a frame for the provider host, a line for people, and no box. */
static void test_missing_share(void **state)
{
    static struct frame_stream stream;
    struct message_fail fail;
    struct frame frame;
    char text[512] = "";
    int in_fd, out_fd, err[2], status = 0;
    uint8_t byte;
    pid_t pid;

    NEEDS_A_BOX((struct container_fixture *)*state);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    pid = start_container(err[1], "/home/user", &in_fd, &out_fd);
    assert_true(pid > 0);
    close(err[1]);
    while (frame_stream_next(&stream, &frame) == 0 && read(out_fd, &byte, 1) == 1)
        frame_stream_feed(&stream, &byte, 1);
    assert_int_equal(frame.type, FRAME_FAILED);
    assert_int_equal(message_fail_unpack(&frame, &fail), 0);
    assert_string_equal(sandbox_stage_name(fail.stage), "mount shares");
    assert_int_equal(fail.error, EROFS);
    assert_true(fd_read_all(err[0], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "/home/user has to be there and writable for id 1000: EROFS"));
    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    assert_int_equal(WEXITSTATUS(status), 1);
    close(err[0]);
    close(in_fd);
    close(out_fd);
}

/* Whoever is not the first process would end everybody with its box. */
static void test_not_the_first(void **state)
{
    int err[2], status = 0;
    char text[256] = "";
    pid_t pid;

    (void)state;
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        dup2(err[1], 2);
        warden_inside();
    }
    close(err[1]);
    assert_true(fd_read_all(err[0], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "the first process of a container"));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 1);
    close(err[0]);
}

#define IN_A_CONTAINER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/*
 * Root's own files in /proc belong to root, and so do those of a process that nobody may look at: a
 * guest that is root outside would see more than one in a real container.
 */
static int become_nobody(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return 0;
    if (setgid(4000000) < 0 || setuid(4000000) < 0) /* nobody has this one */
        return -1;
    return prctl(PR_SET_DUMPABLE, 1); /* as after an exec: its /proc is its own */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IN_A_CONTAINER(test_layers),        IN_A_CONTAINER(test_environment),
        IN_A_CONTAINER(test_guest),         IN_A_CONTAINER(test_commands),
        IN_A_CONTAINER(test_terminal),      IN_A_CONTAINER(test_files),
        IN_A_CONTAINER(test_full_disk),     IN_A_CONTAINER(test_moves_between_shares),
        IN_A_CONTAINER(test_kernel),        IN_A_CONTAINER(test_orphans),
        IN_A_CONTAINER(test_missing_share), cmocka_unit_test(test_not_the_first),
    };

    if (argc == 2 && strcmp(argv[1], WARDEN_INSIDE_WORD) == 0) {
        launch_remember_arguments(argc, argv, environ);
        warden_inside();
    }
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, become_nobody, NULL);
}
