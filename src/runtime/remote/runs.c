/*
 * runs.c - commands, cells and kernels of a box: begun at the server by one call each, kept until
 * the broker knows their end; see remote_private.h.
 *
 * A kernel of the broker is a context of the session there. Its cells are sent one after the other,
 * each when the one before it has ended, because two calls may overtake each other.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "runtime/remote/remote_private.h"
#include "sandbox/guest_stage.h"

#define KEPT_MAX (2 * (LIMIT_COMMANDS + LIMIT_CONTEXTS) + 16)

/* ---- the list ---- */

struct remote_run *remote_run_find(struct remote_box *box, uint32_t id)
{
    struct remote_run *run = box->runs;

    while (run && run->id != id)
        run = run->next;
    return run;
}

static void run_free(struct remote_run *run)
{
    struct remote_run **at = &run->box->runs;

    while (*at && *at != run)
        at = &(*at)->next;
    if (*at)
        *at = run->next;
    remote_call_cancel(run->start);
    remote_follow_stop(run);
    remote_input_stop(run);
    if (run->again)
        run->box->remote->reactor->ops->timer_remove(run->again);
    for (int i = 0; i < MESSAGE_STREAMS; i++)
        buf_free(&run->out[i].held);
    buf_free(&run->input);
    sse_reader_free(&run->reader);
    json_decref(run->body);
    json_decref(run->env);
    free(run);
}

void remote_runs_free(struct remote_box *box)
{
    while (box->runs)
        run_free(box->runs);
}

static struct remote_run *run_new(struct remote_box *box, const struct frame *frame,
                                  enum run_kind kind)
{
    struct remote_run *run;
    size_t count = 0;

    for (run = box->runs; run; run = run->next)
        count++;
    if (frame->id == 0 || remote_run_find(box, frame->id) || count >= KEPT_MAX)
        return NULL;
    run = calloc(1, sizeof(*run));
    if (!run)
        return NULL;
    run->box = box;
    run->id = frame->id;
    run->kind = kind;
    run->input = BUF_INIT(WIRE_STREAM_WINDOW);
    run->reader = SSE_READER_INIT(REMOTE_EVENT_MAX);
    for (int i = 0; i < MESSAGE_STREAMS; i++)
        run->out[i].held = BUF_INIT(64 * MIB);
    run->next = box->runs;
    box->runs = run;
    return run;
}

/* ---- ends ---- */

static void send_end(struct remote_run *run)
{
    uint8_t payload[128];

    run->is_told = true;
    if (run->has_failed)
        remote_warden_send(run->box, FRAME_NOEXEC, run->id, payload,
                           message_fail_pack(&run->fail, payload, sizeof(payload)));
    else
        remote_warden_send(run->box, FRAME_EXITED, run->id, payload,
                           message_exited_pack(&run->exited, payload, sizeof(payload)));
}

static void start_next_cell(struct remote_box *box, uint32_t id);
static void end_kernel(struct remote_run *kernel, int number);

/* Its call was sent, and its end was not told yet. */
static bool is_running(const struct remote_run *cell)
{
    return cell->kind == RUN_CELL && !cell->body && !cell->is_told;
}

/* A kernel's end is told after those of its cells. */
static bool has_cells(const struct remote_run *kernel)
{
    for (const struct remote_run *run = kernel->box->runs; run; run = run->next) {
        if (run->kind == RUN_CELL && run->kernel == kernel->id && is_running(run))
            return true;
    }
    return false;
}

/* A cell has ended: the next one, or the end of its kernel. */
static void go_on(struct remote_box *box, uint32_t id)
{
    struct remote_run *kernel = remote_run_find(box, id);

    start_next_cell(box, id);
    if (kernel && kernel->is_over)
        remote_run_over(kernel);
}

void remote_run_over(struct remote_run *run)
{
    struct remote_box *box = run->box;
    uint32_t kernel = run->kind == RUN_CELL ? run->kernel : 0;
    bool is_kept;

    if (run->is_over && run->is_forgotten) {
        run_free(run);
        if (kernel)
            go_on(box, kernel);
        return;
    }
    if (!run->is_over || run->is_told || run->is_quiet ||
        (run->kind == RUN_KERNEL && has_cells(run)))
        return;
    for (int i = 0; i < MESSAGE_STREAMS; i++) {
        if (run->out[i].held.length > 0)
            return;
    }
    run->exited.out_bytes = run->out[0].sent;
    run->exited.err_bytes = run->out[1].sent;
    run->exited.event_bytes = MAX(run->events_total, run->out[2].sent);
    send_end(run);
    is_kept = run->kind == RUN_CELL ? run->flags & CELL_KEEP : run->flags & EXEC_KEEP;
    remote_follow_stop(run);
    remote_input_stop(run);
    if (!is_kept)
        run_free(run);
    if (kernel)
        go_on(box, kernel);
}

void remote_run_fail(struct remote_run *run, unsigned stage, int number)
{
    run->is_over = true;
    if (run->is_started) { /* it is too late for NOEXEC */
        run->exited.exit_code = 1;
    } else {
        run->has_failed = true;
        run->fail = (struct message_fail){.stage = (uint16_t)stage, .error = (uint16_t)number};
    }
    remote_run_over(run);
}

void remote_run_started(struct remote_run *run)
{
    struct message_started started = {.start_ns = clock_now_ns()};
    uint8_t payload[32];

    run->is_started = true;
    remote_warden_send(run->box, FRAME_STARTED, run->id, payload,
                       message_started_pack(&started, payload, sizeof(payload)));
}

/* ---- the start ---- */

/* What the server says to the call that starts a command, a cell or a context. */
static void on_start(void *ctx, const struct remote_reply *reply)
{
    struct remote_run *run = ctx;
    const char *name = json_string_value(
        json_object_get(reply->json, run->kind == RUN_KERNEL ? "id" : "execution_id"));

    run->start = NULL;
    if (reply->status == 0 || reply->status == 410 || reply->err.code == ERROR_SESSION_NOT_FOUND) {
        remote_box_lose(run->box, reply->status == 0, reply->err.text);
        return;
    }
    if (reply->err.num < 0) {
        bool is_folder = reply->field && str_equal(reply->field, "cwd");

        remote_run_fail(run, is_folder ? GUEST_STAGE_FOLDER : GUEST_STAGE_EXEC,
                        -remote_result_errno(&reply->err));
        return;
    }
    if (!name || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.") != strlen(name) ||
        !str_copy(run->name, sizeof(run->name), name)) {
        remote_box_lose(run->box, false, "the server's reply names no execution");
        return;
    }
    if (run->kind == RUN_KERNEL) {
        remote_run_started(run);
        if (run->signals & SIGNAL_BIT(SIGKILL))
            end_kernel(run, SIGKILL);
        start_next_cell(run->box, run->id);
        return;
    }
    remote_input_begin(run);
    remote_follow_start(run);
}

static void start(struct remote_run *run, const char *what)
{
    CLEANUP(json_decrefp) json_t *body = run->body;
    char path[REMOTE_PATH_MAX];
    struct remote_request request = {.method = "POST",
                                     .path = remote_box_path(run->box, path, "/%s", what),
                                     .json = body,
                                     .waits = true};

    run->body = NULL;
    run->start = body ? remote_call_start(run->box->target, &request, on_start, run) : NULL;
    if (!run->start)
        remote_run_fail(run, GUEST_STAGE_EXEC, ENOMEM);
}

static const char *language_of(const char *driver)
{
    static const char *const rows[][2] = {
        {"kernel.py", "python"}, {"kernel.mjs", "javascript"}, {"kernel.bash", "bash"}};

    for (size_t i = 0; driver && i < ARRAY_SIZE(rows); i++) {
        if (str_ends(driver, rows[i][0]))
            return rows[i][1];
    }
    return NULL;
}

static json_t *command_json(const struct message_exec *exec, const struct remote_strings *strings)
{
    json_t *json = json_pack("{s:O, s:O, s:b, s:b, s:i}", "argv", strings->argv, "env",
                             strings->env, "background", 1, "collect", 0, "timeout", 0);

    if (json && strings->folder[0])
        json_object_set_new(json, "cwd", json_string(strings->folder));
    if (json && exec->flags & EXEC_STDIN && !(exec->flags & EXEC_PTY))
        json_object_set_new(json, "stdin", json_true());
    if (json && exec->flags & EXEC_PTY)
        json_object_set_new(json, "pty",
                            json_pack("{s:i, s:i}", "rows", MAX((int)exec->rows, 1), "columns",
                                      MAX((int)exec->columns, 1)));
    return json;
}

int remote_runs_exec(struct remote_box *box, const struct frame *frame)
{
    CLEANUP(remote_strings_free) struct remote_strings strings = {0};
    struct message_exec exec;
    struct remote_run *run;
    const char *language;
    bool is_kernel;
    int r;

    if (message_exec_unpack(frame, &exec) < 0)
        return -EPROTO;
    is_kernel = exec.flags & EXEC_KERNEL;
    r = remote_strings_read(box, &exec, &strings);
    if (r == -EPROTO)
        return r;
    run = run_new(box, frame, is_kernel ? RUN_KERNEL : RUN_COMMAND);
    if (!run)
        return -EPROTO;
    run->flags = exec.flags;
    language = language_of(json_string_value(json_array_get(strings.argv, 1)));
    if (r == 0 && is_kernel && language) {
        run->env = json_incref(strings.env);
        run->body = json_pack("{s:s}", "language", language);
        if (run->body && strings.folder[0])
            json_object_set_new(run->body, "cwd", json_string(strings.folder));
    } else if (r == 0 && !is_kernel) {
        run->body = command_json(&exec, &strings);
    }
    buf_clear(&box->args);
    if (r < 0 || !run->body)
        remote_run_fail(run, GUEST_STAGE_EXEC, r < 0 ? -r : ENOEXEC);
    else
        start(run, is_kernel ? "contexts" : "exec");
    return 0;
}

/* ---- cells ---- */

static json_t *cell_env(const struct remote_run *kernel, const char *at, size_t left, int *ret)
{
    json_t *env = kernel->env ? json_copy(kernel->env) : json_object();
    const char *text;

    while (env && *ret == 0 && left > 0) {
        text = remote_strings_text(&at, &left);
        *ret = text ? remote_strings_variable(env, text) : -EPROTO;
    }
    return env;
}

static json_t *cell_json(struct remote_box *box, const struct remote_run *kernel,
                         const struct message_cell *cell, int *ret)
{
    const char *text = buf_text(&box->args);
    const char *input = text + cell->code_length, *env = input + cell->input_length;
    size_t left = cell->env_length;
    CLEANUP(json_decrefp) json_t *variables = NULL;
    json_t *json;

    if (cell->flags & CELL_FOLDER &&
        !remote_strings_text(&env, &left)) /* its context has it already */
        *ret = -EPROTO;
    variables = cell_env(kernel, env, left, ret);

    if (*ret < 0 || !variables)
        return NULL;
    json = json_pack("{s:s%, s:O, s:b, s:b, s:i}", "code", text, (size_t)cell->code_length, "env",
                     variables, "background", 1, "collect", 0, "timeout", 0);
    if (!json)
        *ret = -EILSEQ;
    else if (cell->flags & CELL_INPUT &&
             json_object_set_new(json, "stdin", json_stringn(input, cell->input_length)) < 0)
        *ret = -EILSEQ;
    return json;
}

/* The oldest waiting cell of a kernel, if none of it runs. */
static void start_next_cell(struct remote_box *box, uint32_t id)
{
    struct remote_run *kernel = remote_run_find(box, id), *first = NULL;

    for (struct remote_run *run = box->runs; run; run = run->next) {
        if (run->kind != RUN_CELL || run->kernel != id)
            continue;
        if (is_running(run))
            return;
        if (run->body && (!first || run->id < first->id))
            first = run;
    }
    if (!first || (kernel && !kernel->is_over && !kernel->name[0]))
        return;
    if (kernel && !kernel->is_over && !kernel->is_removed) {
        json_object_set_new(first->body, "context", json_string(kernel->name));
        start(first, "code");
        return;
    }
    json_decref(first->body);
    first->body = NULL;
    remote_run_fail(first, GUEST_STAGE_EXEC, ESRCH);
}

int remote_runs_cell(struct remote_box *box, const struct frame *frame)
{
    struct message_cell cell;
    struct remote_run *run, *kernel;
    int r = 0;

    if (message_cell_unpack(frame, &cell) < 0 ||
        (uint64_t)cell.code_length + cell.input_length + cell.env_length != box->args.length)
        return -EPROTO;
    run = run_new(box, frame, RUN_CELL);
    if (!run)
        return -EPROTO;
    run->kernel = cell.kernel;
    run->flags = cell.flags;
    kernel = remote_run_find(box, cell.kernel);
    if (!kernel || kernel->kind != RUN_KERNEL)
        r = -ESRCH;
    else if (cell.flags & CELL_SCRIPT)
        r = -ENOTSUP; /* only a kernel that came with its box gets one */
    else
        run->body = cell_json(box, kernel, &cell, &r);
    buf_clear(&box->args);
    if (r == -EPROTO)
        return r;
    if (r < 0 || !run->body)
        remote_run_fail(run, GUEST_STAGE_EXEC, r < 0 ? -r : ENOMEM);
    else
        start_next_cell(box, cell.kernel);
    return 0;
}

/* ---- the end of a kernel ---- */

static void on_context_gone(void *ctx, const struct remote_reply *reply)
{
    struct remote_run *kernel = ctx;

    (void)reply; /* if it is still there, the session's end removes it */
    kernel->start = NULL;
    kernel->is_over = true;
    remote_run_over(kernel);
}

/* Removes its context, and tells its end then. */
static void end_kernel(struct remote_run *kernel, int number)
{
    char path[REMOTE_PATH_MAX];
    struct remote_request request = {
        .method = "DELETE",
        .path = remote_box_path(kernel->box, path, "/contexts/%s", kernel->name),
        .waits = true};

    if (kernel->is_removed || kernel->is_over)
        return;
    kernel->is_removed = true;
    kernel->exited = (struct message_exited){.signal = (uint32_t)number};
    kernel->start = remote_call_start(kernel->box->target, &request, on_context_gone, kernel);
    if (!kernel->start)
        on_context_gone(kernel, NULL);
}

void remote_run_kernel_died(struct remote_run *cell)
{
    struct remote_run *kernel = remote_run_find(cell->box, cell->kernel);

    cell->exited.flags |= EXITED_KERNEL_DIED;
    if (kernel)
        end_kernel(kernel, (int)cell->exited.signal);
}

/* ---- frames ---- */

static int on_ack(struct remote_run *run, const struct frame *frame)
{
    struct message_ack ack;

    if (message_ack_unpack(frame, &ack) < 0 || ack.stream == 0 || ack.stream > MESSAGE_STREAMS ||
        ack.offset > run->out[ack.stream - 1].sent)
        return -EPROTO;
    run->out[ack.stream - 1].acked = MAX(run->out[ack.stream - 1].acked, ack.offset);
    remote_follow_send(run);
    return 0;
}

static int on_resume(struct remote_run *run, const struct frame *frame)
{
    struct message_resume resume;

    if (message_resume_unpack(frame, &resume) < 0)
        return -EPROTO;
    run->is_quiet = run->is_told = false;
    if (run->kind == RUN_KERNEL) {
        remote_run_over(run);
        return 0;
    }
    for (int i = 0; i < MESSAGE_STREAMS; i++) {
        if (resume.offset[i] < run->out[i].acked || resume.offset[i] > run->out[i].sent)
            return -EPROTO;
    }
    remote_follow_resume(run, &resume);
    return 0;
}

/* A kernel is only killed, and a cell that waits here is only removed. */
static void on_signal(struct remote_run *run, uint32_t number)
{
    if (run->kind == RUN_KERNEL) {
        if (number == SIGKILL && run->name[0])
            end_kernel(run, SIGKILL);
        else if (number == SIGKILL)
            run->signals |= SIGNAL_BIT(SIGKILL);
    } else if (run->body) {
        json_decref(run->body);
        run->body = NULL;
        run->is_over = true;
        run->exited.signal = number;
        remote_run_over(run);
    } else {
        remote_input_signal(run, number);
    }
}

int remote_runs_frame(struct remote_box *box, const struct frame *frame)
{
    struct remote_run *run = remote_run_find(box, frame->id);
    uint32_t number;

    if (!run) /* it has ended, and the broker had not heard of that */
        return 0;
    switch (frame->type) {
    case FRAME_ACK:
        return on_ack(run, frame);
    case FRAME_RESUME:
        return on_resume(run, frame);
    case FRAME_FORGET:
        run->is_forgotten = true;
        remote_run_over(run);
        return 0;
    case FRAME_SIGNAL:
        if (message_number_unpack(frame, &number) < 0 || number == 0 || number > 64)
            return -EPROTO;
        on_signal(run, number);
        return 0;
    default:
        return remote_input_frame(run, frame);
    }
}

/* The one with the next higher id. */
static struct remote_run *run_behind(struct remote_box *box, uint32_t id)
{
    struct remote_run *found = NULL;

    for (struct remote_run *run = box->runs; run; run = run->next) {
        if (run->id > id && (!found || run->id < found->id))
            found = run;
    }
    return found;
}

void remote_runs_pump(struct remote_box *box)
{
    uint32_t id = 0;
    struct remote_run *run;

    /* By their ids: the end of one may end others. */
    while ((run = run_behind(box, id))) {
        id = run->id;
        remote_follow_send(run);
    }
}

/* ---- another broker ---- */

static void send_inventory(struct remote_run *run, uint32_t generation)
{
    struct message_inventory inventory = {.generation = generation,
                                          .start_ns = clock_now_ns(),
                                          .input_received = run->input_received,
                                          .input_ended = run->input_ended};
    uint8_t payload[128];

    inventory.flags = (run->is_started ? INVENTORY_STARTED : 0) |
                      (run->is_over ? INVENTORY_EXITED : 0) |
                      (run->kind == RUN_KERNEL ? INVENTORY_KERNEL : 0) |
                      (run->kind == RUN_CELL ? INVENTORY_CELL : 0) |
                      (run->kind == RUN_COMMAND && run->flags & EXEC_PTY ? INVENTORY_PTY : 0);
    if (run->kind == RUN_CELL)
        inventory.kernel = run->kernel;
    for (int i = 0; i < MESSAGE_STREAMS; i++) {
        inventory.acked[i] = run->out[i].acked;
        inventory.read[i] = run->out[i].sent;
    }
    remote_warden_send(run->box, FRAME_INVENTORY, run->id, payload,
                       message_inventory_pack(&inventory, payload, sizeof(payload)));
}

void remote_runs_hello(struct remote_box *box, uint32_t generation)
{
    uint8_t payload[4];

    for (struct remote_run *run = box->runs; run; run = run->next) {
        run->is_quiet = true;
        if (!run->is_forgotten)
            send_inventory(run, generation);
    }
    remote_warden_send(box, FRAME_WELCOME, generation, payload,
                       message_number_pack(box->highest, payload, sizeof(payload)));
}
