/* exec.c - commands in a box, the host's side: output with acknowledgement, deadlines, the end. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "runtime/box/box_private.h"
#include "sandbox/guest_stage.h"
#include "wire/pack.h"

/*
 * Acknowledging every frame would double their number; acknowledging at a quarter of the window
 * keeps data flowing.
 */
_Static_assert(BOX_ACK_BYTES == WIRE_STREAM_WINDOW / 4, "see above");

/* Strings, each with its NUL, split into frames at any byte. */
int exec_args_add(struct buf *args, const char *text)
{
    return buf_append(args, text, strlen(text) + 1);
}

int exec_args_send(struct box *box, const struct buf *args)
{
    for (size_t at = 0; at < args->length;) {
        size_t part = MIN(args->length - at, (size_t)FRAME_PAYLOAD_MAX);
        int r = box_send(box, FRAME_ARGS, 0, args->data + at, part);

        if (r < 0)
            return r;
        at += part;
    }
    return 0;
}

static int pack_strings(const struct exec_spec *spec, struct message_exec *exec, struct buf *args)
{
    int r = 0;

    for (size_t i = 0; spec->argv[i] && r == 0; i++, exec->argc++)
        r = exec_args_add(args, spec->argv[i]);
    for (size_t i = 0; spec->env && spec->env[i] && r == 0; i++, exec->envc++)
        r = exec_args_add(args, spec->env[i]);
    if (r == 0)
        r = exec_args_add(args, spec->cwd ? spec->cwd : "");
    exec->args_length = (uint32_t)args->length;
    return r;
}

static void exec_flags(const struct exec_spec *spec, struct message_exec *exec)
{
    exec->flags = (spec->stdin_open ? EXEC_STDIN : 0) | (spec->ends_box ? EXEC_ENDS_BOX : 0) |
                  (spec->keeps ? EXEC_KEEP : 0) | (spec->is_pty ? EXEC_PTY : 0);
    if (spec->is_pty) {
        exec->rows = (uint16_t)spec->rows;
        exec->columns = (uint16_t)spec->columns;
    }
}

int exec_send(struct box *box, const struct exec_spec *spec, uint32_t flags,
              const struct exec_events *events, void *ctx, struct call **ret, struct error *err)
{
    CLEANUP(buf_free) struct buf args = BUF_INIT(LIMIT_ARGV_BYTES);
    struct message_exec exec = {0};
    uint8_t payload[32];
    struct call *call;
    ssize_t length;
    int r = pack_strings(spec, &exec, &args);

    if (r == -EFBIG || exec.argc > LIMIT_ARGV_COUNT || exec.envc > LIMIT_ENV_COUNT)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE,
                         "arguments and environment are too large (at most %llu KB)",
                         (unsigned long long)(LIMIT_ARGV_BYTES / KIB));
    if (r < 0 || exec.argc == 0)
        return error_set(err, r < 0 ? r : -EINVAL, ERROR_BAD_INPUT, "no command was given");
    if (spec->is_pty && (spec->rows > LIMIT_TERMINAL || spec->columns > LIMIT_TERMINAL))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "a terminal has at most %d rows and columns", LIMIT_TERMINAL);
    exec_flags(spec, &exec);
    exec.flags |= flags;
    call = box_call_new(box, CALL_EXEC, ctx, err);
    if (!call)
        return err && err->num ? err->num : -ENOMEM;
    call->on.exec = events;
    call->is_pty = spec->is_pty;
    call->start_deadline_ms = box_now_ms(box) + BRINGUP_PATIENCE_MS;
    length = message_exec_pack(&exec, payload, sizeof(payload));
    r = exec_args_send(box, &args);
    if (r == 0)
        r = box_send(box, FRAME_EXEC, call->id, payload, (size_t)length);
    if (r < 0) {
        box_call_free(box, call);
        return error_set(err, r, ERROR_BOX_LOST, "the box was lost: it accepts no more frames");
    }
    *ret = call;
    return 0;
}

int box_exec(struct box *box, const struct exec_spec *spec, const struct exec_events *events,
             void *ctx, uint32_t *ret_id, struct error *err)
{
    struct call *call;
    int r = exec_send(box, spec, 0, events, ctx, &call, err);

    if (r < 0)
        return r;
    call->timeout_ms = spec->timeout_ms;
    *ret_id = call->id;
    return 0;
}

long box_stdin(struct box *box, uint32_t id, const void *data, size_t length)
{
    struct call *call = box_call(box, id, CALL_EXEC);

    if (!call || call->has_ended || call->has_exited)
        return -EPIPE;
    return box_send_bytes(box, call, FRAME_STDIN, data, length);
}

void box_stdin_end(struct box *box, uint32_t id)
{
    struct call *call = box_call(box, id, CALL_EXEC);

    if (!call || call->has_ended)
        return;
    call->has_ended = true;
    box_send(box, FRAME_STDIN_END, id, NULL, 0);
}

void box_signal(struct box *box, uint32_t id, int signal)
{
    struct call *call = box_call(box, id, CALL_EXEC);
    uint8_t payload[4];

    if (!call || call->has_exited || (call->is_kernel && kernel_name(box, call) < 0))
        return;
    message_number_pack((uint32_t)signal, payload, sizeof(payload));
    if (signal == SIGKILL && !call->kill_deadline_ms) {
        call->kill_deadline_ms = box_now_ms(box) + KILL_PATIENCE_MS;
        call->kill_last_ms = box_now_ms(box) + KILL_OUTPUT_MS;
        call->kill_received = cell_received(box, call);
    }
    box_send(box, FRAME_SIGNAL, id, payload, sizeof(payload));
}

int box_resize(struct box *box, uint32_t id, unsigned rows, unsigned columns)
{
    struct message_size size = {.rows = (uint16_t)rows, .columns = (uint16_t)columns};
    struct call *call = box_call(box, id, CALL_EXEC);
    uint8_t payload[4];

    if (!call || call->has_exited)
        return -ESRCH;
    if (!call->is_pty)
        return -ENOTTY;
    if (rows > LIMIT_TERMINAL || columns > LIMIT_TERMINAL)
        return -EINVAL;
    message_size_pack(&size, payload, sizeof(payload));
    return box_send(box, FRAME_RESIZE, id, payload, sizeof(payload));
}

void box_forget(struct box *box, uint32_t id)
{
    struct call *call = box_call(box, id, CALL_EXEC);

    if (box->is_lost || box->adoption || id == 0 || id > box->next_id)
        return;
    if (call && !(call->is_kernel && call->from_zygote && !call->is_named))
        return;
    if (call)
        box_call_free(box, call); /* of a kernel that the provider did not supply */
    box_send(box, FRAME_FORGET, id, NULL, 0);
}

static void acknowledge(struct box *box, struct call *call, int index)
{
    struct incoming *in = &call->in[index];
    struct message_ack ack = {.stream = (uint8_t)(index + 1), .offset = in->taken};
    uint8_t payload[9];
    ssize_t length;

    if (in->taken - in->acked < BOX_ACK_BYTES || call->has_exited)
        return;
    in->acked = in->taken;
    length = message_ack_pack(&ack, payload, sizeof(payload));
    box_send(box, FRAME_ACK, call->id, payload, (size_t)length);
}

/* Passes held bytes to the owner, as many as it takes. */
static void deliver(struct call *call, int index)
{
    struct incoming *in = &call->in[index];

    while (in->held.length > 0) {
        size_t taken = call->on.exec->output(call->ctx, (enum box_stream)(index + 1), in->held.data,
                                             in->held.length);

        if (taken == 0 || taken > in->held.length)
            break;
        buf_consume(&in->held, taken);
        in->taken += taken;
    }
}

/* The end is reported after the last byte was taken. */
static void maybe_end(struct box *box, struct call *call)
{
    struct exec_end end = call->end;
    const struct exec_events *events = call->on.exec;
    void *ctx = call->ctx;

    if (!call->has_exited || call->in[0].held.length > 0 || call->in[1].held.length > 0 ||
        call->in[2].held.length > 0)
        return;
    box_call_free(box, call);
    events->ended(ctx, &end);
}

void box_resume(struct box *box, uint32_t id, enum box_stream stream)
{
    struct call *call = box_call(box, id, CALL_EXEC);
    int index = (int)stream - 1;

    if (!call || index < 0 || index >= BOX_STREAMS)
        return;
    deliver(call, index);
    acknowledge(box, call, index);
    maybe_end(box, call);
}

static bool on_output(struct box *box, struct call *call, const struct frame *frame)
{
    struct message_bytes bytes;
    struct incoming *in;
    size_t taken = 0;

    if (message_bytes_unpack(frame, &bytes) < 0 || bytes.stream == 0 || bytes.length == 0 ||
        (bytes.stream == BOX_EVENTS && !call->is_cell) || call->is_kernel)
        return false;
    in = &call->in[bytes.stream - 1];
    if (bytes.offset != in->received ||
        bytes.length > WIRE_STREAM_WINDOW - (size_t)(in->received - in->acked))
        return false;
    in->received += bytes.length;
    if (in->held.length == 0) {
        taken = call->on.exec->output(call->ctx, (enum box_stream)bytes.stream, bytes.data,
                                      bytes.length);
        taken = MIN(taken, bytes.length);
        in->taken += taken;
    }
    if (taken < bytes.length &&
        buf_append(&in->held, (const char *)bytes.data + taken, bytes.length - taken) < 0)
        return false;
    deliver(call, bytes.stream - 1);
    acknowledge(box, call, bytes.stream - 1);
    return true;
}

static bool on_exited(struct box *box, struct call *call, const struct frame *frame)
{
    struct message_exited exited;

    if (message_exited_unpack(frame, &exited) < 0 || exited.out_bytes != call->in[0].received ||
        exited.err_bytes != call->in[1].received || !cell_end_makes_sense(call, &exited))
        return false;
    call->has_exited = true;
    call->kill_deadline_ms = call->start_deadline_ms = 0;
    call->deadline_ms = call->grace_deadline_ms = 0;
    call->end = (struct exec_end){
        .exit_code = exited.exit_code,
        .signal = (int)exited.signal,
        .timed_out = call->was_timed_out,
        .disk_full = exited.flags & EXITED_DISK_FULL,
        .memory_watchdog = exited.flags & EXITED_MEMORY_WATCHDOG,
        .has_output = exited.flags & EXITED_HAS_OUTPUT,
        .kernel_died = exited.flags & EXITED_KERNEL_DIED,
        .status_external = exited.flags & EXITED_STATUS_EXTERNAL,
        .events_dropped = exited.event_bytes - call->in[2].received,
        .duration_ns = exited.duration_ns,
        .usage = {.cpu_us = exited.cpu_us,
                  .max_rss_bytes = exited.max_rss_bytes,
                  .by = USAGE_BY_WARDEN},
    };
    if (call->is_cell)
        cell_expect_next(box, call->kernel);
    maybe_end(box, call);
    return true;
}

/* The error for a command that could not be started; cli/ turns the code into an exit status. */
static void no_exec_error(const struct message_fail *fail, struct error *err)
{
    int number = (int)fail->error;

    if (number == ENOENT)
        error_set(err, -number, ERROR_COMMAND_NOT_FOUND,
                  "the box has no such program (or not the interpreter in its first line)");
    else if (number == EACCES || number == ENOEXEC || number == EISDIR || number == EPERM)
        error_set(err, -number, ERROR_NOT_EXECUTABLE, "the program cannot be executed: %s",
                  strerror(number));
    else
        error_set(err, number ? -number : -EIO, ERROR_BOX_FAILED,
                  "the program could not be started: %s (%s)", error_name(number),
                  strerror(number));
}

void exec_folder_error(const struct message_fail *fail, struct error *err)
{
    error_set(err, fail->error ? -(int)fail->error : -EIO, ERROR_BAD_INPUT,
              "the working folder: %s", strerror((int)fail->error));
}

static bool on_no_exec(struct box *box, struct call *call, const struct frame *frame)
{
    const struct exec_events *events = call->on.exec;
    void *ctx = call->ctx;
    struct message_fail fail;
    struct error err = {0};

    if (message_fail_unpack(frame, &fail) < 0 || call->has_started)
        return false;
    if (call->is_cell) {
        cell_no_exec(box, call, &fail);
        return true;
    }
    if (fail.stage == GUEST_STAGE_EXEC)
        no_exec_error(&fail, &err);
    else if (fail.stage == GUEST_STAGE_FOLDER)
        exec_folder_error(&fail, &err);
    else
        error_stage(&err, guest_stage_name(fail.stage), fail.error ? -(int)fail.error : -EIO);
    box_call_free(box, call);
    events->failed(ctx, &err);
    return true;
}

uint32_t box_pid(struct box *box, uint32_t id)
{
    const struct call *call = box_call(box, id, CALL_EXEC);

    return call ? call->pid : 0;
}

static bool on_started(struct box *box, struct call *call, const struct frame *frame)
{
    struct message_started started;

    if (message_started_unpack(frame, &started) < 0 || call->has_started)
        return false;
    call->has_started = true;
    call->pid = started.pid;
    call->start_deadline_ms = 0;
    /* Measured by the host's own clock from the arrival of STARTED: a warden cannot give itself
     * more time. */
    if (call->timeout_ms)
        call->deadline_ms = box_now_ms(box) + call->timeout_ms;
    if (started.flags & STARTED_FORKED && call->is_kernel && call->on.exec->forked)
        call->on.exec->forked(call->ctx);
    if (call->on.exec->started)
        call->on.exec->started(call->ctx);
    return true;
}

static bool on_ack(struct call *call, const struct frame *frame)
{
    struct message_ack ack;

    if (message_ack_unpack(frame, &ack) < 0 || ack.stream != 0 || ack.offset > call->sent ||
        ack.offset < call->acked)
        return false;
    call->acked = ack.offset;
    if (call->on.exec->stdin_ready)
        call->on.exec->stdin_ready(call->ctx);
    return true;
}

bool exec_frame(struct box *box, struct call *call, const struct frame *frame)
{
    if (call->has_exited)
        return false;
    switch (frame->type) {
    case FRAME_STARTED:
        return on_started(box, call, frame);
    case FRAME_NOEXEC:
        return on_no_exec(box, call, frame);
    case FRAME_OUTPUT:
        return on_output(box, call, frame);
    case FRAME_EXITED:
        return on_exited(box, call, frame);
    case FRAME_ACK:
        return on_ack(call, frame);
    default:
        return false;
    }
}

/*
 * A cell is interrupted first, because its kernel's variables are worth two seconds. It is
 * interrupted twice, because a shell that is just starting a command may miss the first.
 */
static void time_out(struct box *box, struct call *call, uint64_t now_ms)
{
    call->was_timed_out = true;
    if (call->is_cell && !call->is_script) {
        call->grace_deadline_ms = now_ms + CELL_GRACE_MS / 2;
        box_signal(box, call->id, SIGINT);
    } else {
        box_signal(box, call->id, SIGKILL);
    }
}

/*
 * The end is reported after the last output. It may wait because the owner does not take output
 * (for any time), or because output arrives slowly, e.g. many floods read at once.
 */
static bool is_end_on_its_way(struct box *box, struct call *call, uint64_t now_ms)
{
    uint64_t received = cell_received(box, call);
    bool has_moved = received != call->kill_received && now_ms < call->kill_last_ms;

    call->kill_received = received;
    return has_moved || cell_is_reader_slow(box, call);
}

void exec_tick(struct box *box, struct call *call, uint64_t now_ms)
{
    if (call->has_exited)
        return;
    if (call->deadline_ms && now_ms >= call->deadline_ms && !call->was_timed_out) {
        time_out(box, call, now_ms);
        return;
    }
    if (call->grace_deadline_ms && now_ms >= call->grace_deadline_ms) {
        bool is_last = call->was_asked_twice;

        call->grace_deadline_ms = is_last ? 0 : now_ms + CELL_GRACE_MS / 2;
        call->was_asked_twice = true;
        box_signal(box, call->id, is_last ? SIGKILL : SIGINT);
        return;
    }
    if (call->start_deadline_ms && now_ms >= call->start_deadline_ms) {
        box_break(box, "its warden did not start the program");
        return;
    }
    if (!call->kill_deadline_ms || now_ms < call->kill_deadline_ms)
        return;
    if (is_end_on_its_way(box, call, now_ms))
        call->kill_deadline_ms = now_ms + KILL_PATIENCE_MS;
    else
        box_break(box, "its warden did not report the end of a command");
}
