/*
 * test_takeover.c - real boxes with real wardens whose hosts come and go: commands go on, and what
 * they write is complete. Each test runs twice: with a bare warden, and in a box with all the walls
 * that this machine gives.
 */
#include "scratch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "boxes/boxes.h"
#include "namespaces.h"
#include "runtime/box/box.h"
#include "sandbox/sandbox.h"
#include "warden/warden.h"

#define PATIENCE_MS 60000

/* What is on record of one command, as a host would have it on disk. */
struct record {
    uint32_t id;
    bool wants; /* to be adopted by the next host */
    struct buf out[3];
    int started, ended, failed;
    struct exec_end end;
    struct error err;
};

struct stage {
    struct scratch scratch;
    struct launched launched;
    bool has_walls;
    pid_t pid;   /* of a bare warden */
    int channel; /* outlives every host, as the launcher's does */
    struct box *box;
    struct record record[4];
    uint32_t generation;
    int found, done;
};

static _Noreturn void run_warden(struct stage *stage, int fd)
{
    static const char *const names[_SHARE_MAX] = {"work", "tmp", "home", "data"};
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    struct sandbox_plan plan = {.env = env, .watch_disk_bytes = 1 * GIB};
    struct sandbox sandbox;

    sandbox_init(&sandbox, &plan);
    for (int i = 0; i < _SHARE_MAX; i++) {
        plan.share_path[i] = scratch_folder(&stage->scratch, names[i]);
        sandbox.share_fd[i] = open(plan.share_path[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    warden_run(&sandbox, fd);
}

static void new_host(struct stage *stage)
{
    struct error err = {0};
    int fd = fcntl(stage->channel, F_DUPFD_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(box_new(fd, NULL, &stage->box, &err), 0);
}

static struct stage *stage_new(bool has_walls)
{
    struct stage *stage = calloc(1, sizeof(*stage));

    assert_non_null(stage);
    stage->has_walls = has_walls;
    scratch_make(&stage->scratch);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 3; j++)
            stage->record[i].out[j] = BUF_INIT(64 * MIB);
    }
    return stage;
}

static int set_up_bare(void **state)
{
    struct stage *stage = stage_new(false);
    uint8_t ready[1024];
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    stage->pid = fork();
    if (stage->pid == 0) {
        close(pair[0]);
        run_warden(stage, pair[1]);
    }
    close(pair[1]);
    stage->channel = pair[0];
    if (recv(pair[0], ready, sizeof(ready), 0) <= 0)
        return -1;
    new_host(stage);
    *state = stage;
    return 0;
}

static int set_up_hosted(void **state)
{
    static const struct launch_spec spec = {
        .memory_bytes = 256 * MIB,
        .disk_bytes = 16 * MIB,
        .pids = 64,
        .minimum = ISOLATION_PROCESS,
        .id_base = 1879048192,
    };
    struct stage *stage = stage_new(true);
    struct error err = {0};

    *state = stage;
    if (!has_namespaces()) {
        stage->channel = -1;
        return 0;
    }
    if (launch_make(&spec, &stage->launched, &err) < 0) {
        print_message("no box can be made: %s\n", err.text);
        return -1;
    }
    stage->channel = stage->launched.channel_fd;
    new_host(stage);
    return 0;
}

static int tear_down(void **state)
{
    struct stage *stage = *state;

    box_free(stage->box);
    if (stage->has_walls && stage->channel >= 0) {
        launch_end(&stage->launched, NULL);
    } else if (stage->channel >= 0) {
        close(stage->channel);
        waitpid(stage->pid, NULL, 0);
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 3; j++)
            buf_free(&stage->record[i].out[j]);
    }
    scratch_remove(&stage->scratch);
    free(stage);
    return 0;
}

static struct stage *enter(void **state)
{
    struct stage *stage = *state;

    if (stage->channel < 0)
        skip();
    return stage;
}

/* ---- what a host hears ---- */

static void saw_started(void *ctx)
{
    ((struct record *)ctx)->started++;
}

static size_t saw_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    assert_int_equal(buf_append(&((struct record *)ctx)->out[stream], data, length), 0);
    return length;
}

static void saw_ended(void *ctx, const struct exec_end *end)
{
    struct record *record = ctx;

    record->ended++;
    record->end = *end;
}

static void saw_failed(void *ctx, const struct error *err)
{
    struct record *record = ctx;

    record->failed++;
    record->err = *err;
}

static const struct exec_events exec_seen = {
    .started = saw_started, .output = saw_output, .ended = saw_ended, .failed = saw_failed};

static void saw_found(void *ctx, const struct box_found *found)
{
    struct stage *stage = ctx;

    stage->found++;
    for (int i = 0; i < 4; i++) {
        struct record *record = &stage->record[i];
        uint64_t offset[BOX_STREAMS] = {record->out[1].length, record->out[2].length};
        struct error err = {0};

        if (record->id != found->id || !record->wants)
            continue;
        assert_true(found->first[0] <= offset[0] && found->first[1] <= offset[1]);
        record->started += found->has_started;
        assert_int_equal(
            box_adopt(stage->box, found->id, offset, PATIENCE_MS, &exec_seen, record, &err), 0);
    }
}

static void saw_done(void *ctx, const struct error *err)
{
    assert_int_equal(err->num, 0);
    ((struct stage *)ctx)->done++;
}

static const struct adopt_events adopt_seen = {.found = saw_found, .done = saw_done};

/* One turn of a host's loop. */
static void turn(struct stage *stage)
{
    struct pollfd poll_fd = {.fd = box_fd(stage->box), .events = box_poll_events(stage->box)};
    uint64_t deadline_ms = box_next_deadline_ms(stage->box), now_ms = clock_now_ms();
    int wait_ms = PATIENCE_MS;
    struct error err = {0};

    if (deadline_ms != UINT64_MAX)
        wait_ms = deadline_ms > now_ms ? (int)(deadline_ms - now_ms) : 0;
    poll(&poll_fd, 1, wait_ms);
    if (box_pump(stage->box, &err) < 0)
        fail_msg("%s", err.text);
}

static void await_end(struct stage *stage, struct record *record)
{
    while (!record->ended && !record->failed)
        turn(stage);
    assert_int_equal(record->ended + record->failed, 1);
    box_forget(stage->box, record->id);
}

static void await_text(struct stage *stage, struct record *record, const char *text)
{
    while (!strstr(buf_text(&record->out[1]), text))
        turn(stage);
}

static struct record *run(struct stage *stage, int index, struct exec_spec spec, const char *script)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    struct record *record = &stage->record[index];
    struct error err = {0};

    spec.argv = argv;
    spec.keeps = true;
    assert_int_equal(box_exec(stage->box, &spec, &exec_seen, record, &record->id, &err), 0);
    record->wants = true;
    record->started = record->ended = record->failed = 0;
    return record;
}

/* The host dies here; what it had not recorded is lost. */
static void die(struct stage *stage)
{
    box_free(stage->box);
    stage->box = NULL;
    new_host(stage);
}

static void greet(struct stage *stage)
{
    struct error err = {0};

    stage->found = stage->done = 0;
    assert_int_equal(box_hello(stage->box, ++stage->generation, &adopt_seen, stage, &err), 0);
}

static void take_over(struct stage *stage)
{
    die(stage);
    greet(stage);
    while (!stage->done)
        turn(stage);
}

/* ---- the tests ---- */

static void check_numbers(const struct buf *buf, int last)
{
    const char *at = buf_text(buf);

    for (int i = 1; i <= last; i++) {
        char line[16];
        int length = snprintf(line, sizeof(line), "%d\n", i);

        assert_int_equal(strncmp(at, line, (size_t)length), 0);
        at += length;
    }
    assert_ptr_equal(at, buf->data + buf->length);
}

/* Hosts die at any moment, also while they take over; not a byte is lost or comes twice. */
static void test_output_is_complete(void **state)
{
    struct stage *stage = enter(state);
    struct record *first, *second;
    unsigned seed = 12345;

    first = run(stage, 0, (struct exec_spec){0}, "seq 1 1000000; exit 7");
    second = run(stage, 1, (struct exec_spec){0}, "seq 1 900000 >&2");
    while (!(first->ended && second->ended)) {
        unsigned turns = (seed = seed * 1103515245 + 12345) >> 16 & 3;

        for (unsigned i = 0; i < turns && !(first->ended && second->ended); i++)
            turn(stage);
        if (seed & 0x100000) {
            die(stage); /* this one gets no further than its HELLO */
            greet(stage);
        }
        first->wants = !first->ended;
        second->wants = !second->ended;
        take_over(stage);
    }
    assert_int_equal(first->ended, 1);
    assert_int_equal(first->end.exit_code, 7);
    assert_int_equal(second->end.exit_code, 0);
    check_numbers(&first->out[1], 1000000);
    check_numbers(&second->out[2], 900000);
    assert_true(stage->generation > 5);
    first->wants = second->wants = false;
    take_over(stage); /* who ended last is still known, and is on record */
    take_over(stage);
    assert_int_equal(stage->found, 0);
}

/* Nobody is there for the whole of its life. */
static void test_ends_while_nobody_is_there(void **state)
{
    struct stage *stage = enter(state);
    struct record *record = run(stage, 0, (struct exec_spec){0},
                                "seq 1 50000; x=0; while [ $x -lt 20000 ]; do x=$((x+1)); done; "
                                "exit 9");
    struct record *wrong;

    die(stage);
    take_over(stage);
    await_end(stage, record);
    check_numbers(&record->out[1], 50000);
    assert_int_equal(record->started, 1);
    assert_int_equal(record->end.exit_code, 9);
    assert_true(record->end.usage.cpu_us > 0 && record->end.usage.max_rss_bytes > 0);
    wrong = run(stage, 1, (struct exec_spec){.cwd = "/no/such/folder"}, "true");
    take_over(stage);
    await_end(stage, wrong);
    assert_int_equal(wrong->failed, 1);
    assert_ptr_equal(wrong->err.code, ERROR_BAD_INPUT);
}

/* A process is gone when nobody may signal it any more; asked by another command of the box. */
static void await_gone(struct stage *stage, const char *pids)
{
    char script[256];
    struct record *record;

    snprintf(script, sizeof(script),
             "for p in %s; do while kill -0 $p 2>/dev/null; do sleep 0.01; done; done; echo gone",
             pids);
    record = run(stage, 3, (struct exec_spec){0}, script);
    await_end(stage, record);
    assert_string_equal(buf_text(&record->out[1]), "gone\n");
    buf_clear(&record->out[1]);
}

static void test_unwanted_ones_end(void **state)
{
    struct stage *stage = enter(state);
    struct record *unwanted =
        run(stage, 0, (struct exec_spec){0}, "(echo $$; sleep 1000) & echo $!; wait; sleep 1000");
    struct record *wanted = run(stage, 1, (struct exec_spec){.stdin_open = true}, "cat");
    char pids[64];

    while (unwanted->out[1].length == 0 || buf_text(&unwanted->out[1])[0] == '\n' ||
           !strchr(strchr(buf_text(&unwanted->out[1]), '\n') + 1, '\n'))
        turn(stage);
    snprintf(pids, sizeof(pids), "%s", buf_text(&unwanted->out[1]));
    for (char *at = pids; *at; at++)
        *at = *at == '\n' ? ' ' : *at;
    unwanted->wants = false;
    take_over(stage);
    assert_int_equal(stage->found, 2);
    await_gone(stage, pids);
    assert_int_equal(unwanted->ended + unwanted->failed, 0);
    assert_int_equal(box_stdin(stage->box, wanted->id, "still here", 10), 10);
    box_stdin_end(stage->box, wanted->id);
    await_end(stage, wanted);
    assert_string_equal(buf_text(&wanted->out[1]), "still here");
}

/* A deadline ends the whole tree, whatever session it made for itself. */
static void test_deadline_ends_the_tree(void **state)
{
    struct stage *stage = enter(state);
    struct record *record = run(stage, 0, (struct exec_spec){.timeout_ms = 300},
                                "setsid sh -c 'sleep 1000 & echo $! $$; wait' & wait; sleep 1000");
    char pids[64];

    await_end(stage, record);
    assert_true(record->end.timed_out);
    assert_int_equal(record->end.signal, SIGKILL);
    snprintf(pids, sizeof(pids), "%s", buf_text(&record->out[1]));
    assert_non_null(strchr(pids, '\n')); /* else it was too slow to say who it is */
    *strchr(pids, '\n') = 0;
    await_gone(stage, pids);
}

static void test_shell_on_a_terminal(void **state)
{
    struct exec_spec spec = {.is_pty = true, .rows = 24, .columns = 80};
    struct stage *stage = enter(state);
    struct record *record = run(stage, 0, spec, "exec sh -i");
    static const char ask[] = "stty -echo; PS1=; tty; stty size; echo named > $(tty); echo on''e\n";
    static const char again[] = "stty size; echo tw''o\n";

    assert_int_equal(box_stdin(stage->box, record->id, ask, sizeof(ask) - 1),
                     (long)sizeof(ask) - 1);
    await_text(stage, record, "one\r\n");
    assert_non_null(strstr(buf_text(&record->out[1]), stage->has_walls
                                                          ? "/dev/pts/0\r\n24 80\r\nnamed\r\n"
                                                          : "\r\n24 80\r\nnamed\r\n"));
    take_over(stage);
    assert_int_equal(box_resize(stage->box, record->id, 50, 132), 0);
    assert_int_equal(box_stdin(stage->box, record->id, again, sizeof(again) - 1),
                     (long)sizeof(again) - 1);
    await_text(stage, record, "50 132\r\ntwo\r\n");
    box_stdin_end(stage->box, record->id); /* Ctrl-D */
    await_end(stage, record);
    assert_int_equal(record->end.exit_code, 0);
    assert_int_equal(record->out[2].length, 0);
    assert_int_equal(box_resize(stage->box, record->id, 1, 1), -ESRCH);
}

/* What a guest may not do with its terminal (CVE-2017-5226 and its kin). */
static void test_terminal_is_filtered(void **state)
{
    struct exec_spec spec = {.is_pty = true, .rows = 24, .columns = 80};
    struct stage *stage = enter(state);
    struct record *record;

    if (!stage->has_walls ||
        !(stage->launched.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_SECCOMP)))
        skip();
    record = run(stage, 0, spec,
                 "command -v perl > /dev/null || { echo no perl; exit 1; }; "
                 "for i in 0x5412 0x541c 0x541d; do "
                 "perl -e '$x = \"x\"; ioctl(STDIN, hex shift, $x) or print \"$!\\n\"' $i; done");
    await_end(stage, record);
    if (strstr(buf_text(&record->out[1]), "no perl"))
        skip();
    assert_string_equal(buf_text(&record->out[1]),
                        "Operation not permitted\r\nOperation not permitted\r\n"
                        "Operation not permitted\r\n");
}

static int become_reaper(void **state)
{
    (void)state;
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

#define BARE(test) cmocka_unit_test_setup_teardown(test, set_up_bare, tear_down)
#define HOSTED(test) cmocka_unit_test_setup_teardown(test, set_up_hosted, tear_down)
#define BOTH(test) BARE(test), HOSTED(test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_output_is_complete),  BOTH(test_ends_while_nobody_is_there),
        BOTH(test_unwanted_ones_end),   BOTH(test_deadline_ends_the_tree),
        BOTH(test_shell_on_a_terminal), HOSTED(test_terminal_is_filtered),
    };

    return cmocka_run_group_tests_name("runtime/box/takeover", tests, become_reaper, NULL);
}
