/*
 * test_cell_in_a_box.c - kernels in a real box, behind all its walls: a shell that keeps its
 * variables, is interrupted and is killed with its children.
 */
#include "runtime/box/real_box.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>

#include "base/clock.h"

/* What happened to one call. */
struct seen {
    bool has_started, is_done;
    struct error err;
    struct exec_end end;
    char text[4][1024]; /* by stream */
};

struct room {
    struct scratch scratch;
    struct launched launched;
    struct box *box;
    struct seen kernel, cell;
    uint32_t kernel_id, cell_id;
};

static int set_up(void **state)
{
    struct room *room = calloc(1, sizeof(*room));

    scratch_make(&room->scratch);
    assert_int_equal(chmod(room->scratch.path, 0755), 0);
    *state = room;
    return real_box_make(NULL, &room->launched, &room->box);
}

static int tear_down(void **state)
{
    struct room *room = *state;

    box_free(room->box);
    launch_end(&room->launched, NULL);
    scratch_remove(&room->scratch);
    free(room);
    return 0;
}

static void saw_started(void *ctx)
{
    ((struct seen *)ctx)->has_started = true;
}

static size_t saw_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    strncat(((struct seen *)ctx)->text[stream], data, length);
    return length;
}

static void saw_ended(void *ctx, const struct exec_end *end)
{
    ((struct seen *)ctx)->end = *end;
    ((struct seen *)ctx)->is_done = true;
}

static void saw_failed(void *ctx, const struct error *err)
{
    ((struct seen *)ctx)->err = *err;
    ((struct seen *)ctx)->is_done = true;
}

static const struct exec_events events = {
    .started = saw_started, .output = saw_output, .ended = saw_ended, .failed = saw_failed};

static void pump(struct room *room)
{
    struct pollfd poll_fd = {.fd = box_fd(room->box), .events = box_poll_events(room->box)};
    uint64_t deadline_ms = box_next_deadline_ms(room->box), now_ms = clock_now_ms();
    struct error err = {0};
    int wait_ms = 60000;

    if (deadline_ms != UINT64_MAX)
        wait_ms = deadline_ms > now_ms ? (int)(deadline_ms - now_ms) : 0;
    assert_true(poll(&poll_fd, 1, wait_ms) == 1 || deadline_ms != UINT64_MAX);
    if (box_pump(room->box, &err) < 0)
        fail_msg("%s", err.text);
}

static void await_end(struct room *room, const struct seen *seen)
{
    while (!seen->is_done)
        pump(room);
    assert_int_equal(seen->err.num, 0);
}

/* A kernel as docs/kernels.md wants it, in a few lines of shell. */
static void start_kernel(struct room *room)
{
    static const char *const argv[] = {
        "sh", "-c",
        "trap : INT; while read -r word id flags code input env <&3; do "
        "text=$(dd bs=1 count=$code <&3 2>/dev/null); eval \"$text\"; echo \"end $id 0\" >&3; done",
        NULL};
    struct exec_spec spec = {.argv = argv};
    struct error err = {0};

    memset(&room->kernel, 0, sizeof(room->kernel));
    assert_int_equal(box_kernel(room->box, &spec, &events, &room->kernel, &room->kernel_id, &err),
                     0);
}

static void start_cell(struct room *room, const char *code, uint64_t timeout_ms)
{
    struct cell_spec spec = {.kernel = room->kernel_id,
                             .code = code,
                             .code_length = strlen(code),
                             .timeout_ms = timeout_ms};
    struct error err = {0};

    memset(&room->cell, 0, sizeof(room->cell));
    assert_int_equal(box_cell(room->box, &spec, &events, &room->cell, &room->cell_id, &err), 0);
}

static void run_cell(struct room *room, const char *code)
{
    start_cell(room, code, 0);
    await_end(room, &room->cell);
}

static void run_command(struct room *room, const char *script, struct seen *seen)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct exec_spec spec = {.argv = argv};
    struct error err = {0};
    uint32_t id;

    memset(seen, 0, sizeof(*seen));
    assert_int_equal(box_exec(room->box, &spec, &events, seen, &id, &err), 0);
    await_end(room, seen);
}

static void test_cells(void **state)
{
    struct room *room = *state;
    struct seen command;

    NEEDS_A_BOX(room);
    start_kernel(room);
    run_cell(room, "x=5; echo out; echo err >&2; echo '{\"n\": 1}' >&3");
    assert_string_equal(room->cell.text[1], "out\n");
    assert_string_equal(room->cell.text[2], "err\n");
    assert_string_equal(room->cell.text[3], "{\"n\": 1}\n");
    assert_int_equal(room->cell.end.exit_code, 0);
    run_cell(room, "echo $x; mkdir -p /tmp/output; echo y > /tmp/output/file");
    assert_string_equal(room->cell.text[1], "5\n");
    assert_true(room->cell.end.has_output);
    run_command(room, "test -e /proc/self/fd/3; echo $?", &command); /* its socket is its own */
    assert_string_equal(command.text[1], "1\n");
    assert_false(room->kernel.is_done);
}

/* What the kernel knew before it knows afterwards. */
static void test_interrupt(void **state)
{
    struct room *room = *state;

    NEEDS_A_BOX(room);
    start_kernel(room);
    run_cell(room, "x=6");
    start_cell(room, "trap stop=1 INT; echo up; while test -z \"$stop\"; do sleep 0.01; done", 0);
    while (!room->cell.text[1][0])
        pump(room);
    box_signal(room->box, room->cell_id, SIGINT);
    await_end(room, &room->cell);
    assert_false(room->cell.end.timed_out || room->cell.end.kernel_died);
    run_cell(room, "echo $x");
    assert_string_equal(room->cell.text[1], "6\n");
}

/* Whoever does not listen loses the kernel, and its children with it. */
static void test_kill(void **state)
{
    struct room *room = *state;
    struct seen command;
    char script[96], child[24];

    NEEDS_A_BOX(room);
    start_kernel(room);
    run_cell(room, "sleep 1000 3>&- & echo $!");
    snprintf(child, sizeof(child), "%ld", strtol(room->cell.text[1], NULL, 10));
    snprintf(script, sizeof(script), "kill -0 %s 2>/dev/null; echo $?", child);
    run_command(room, script, &command);
    assert_string_equal(command.text[1], "0\n");
    start_cell(room, "trap '' INT; echo up; sleep 1000", 1000);
    await_end(room, &room->cell);
    assert_true(room->cell.end.timed_out && room->cell.end.kernel_died);
    assert_int_equal(room->cell.end.signal, SIGKILL);
    assert_string_equal(room->cell.text[1], "up\n");
    await_end(room, &room->kernel);
    assert_int_equal(room->kernel.end.signal, SIGKILL);
    snprintf(script, sizeof(script), "while kill -0 %s 2>/dev/null; do sleep 0.01; done", child);
    run_command(room, script, &command); /* its number may outlive it until it is reaped */
    start_kernel(room);                  /* the next one */
    run_cell(room, "echo again");
    assert_string_equal(room->cell.text[1], "again\n");
}

static void test_closed_socket(void **state)
{
    struct room *room = *state;

    NEEDS_A_BOX(room);
    start_kernel(room);
    run_cell(room, "exec 3>&-; sleep 1000");
    assert_true(room->cell.end.kernel_died);
    assert_int_equal(room->cell.end.signal, SIGKILL);
    await_end(room, &room->kernel);
}

#define WITH_A_BOX(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static int run(const char *name)
{
    const struct CMUnitTest tests[] = {
        WITH_A_BOX(test_cells),
        WITH_A_BOX(test_interrupt),
        WITH_A_BOX(test_kill),
        WITH_A_BOX(test_closed_socket),
    };

    return _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL);
}

int main(void)
{
    return real_box_main(run, "runtime/box cells in a box", "runtime/box cells in a box of one id");
}
