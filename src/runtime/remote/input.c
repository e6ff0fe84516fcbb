/*
 * input.c - to a command: standard input, signals and the size of its terminal; see
 * remote_private.h.
 *
 * The server answers to input when the program has read it, and the broker gets its ACK then: a
 * program that does not read stops the sender. A connection that is lost meanwhile leaves unknown
 * how much of the input has arrived, and one that the server refuses is missing, so the program is
 * ended and the reason is in its standard error.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "runtime/remote/remote_private.h"

#define INPUT_ONCE (256 * KIB) /* bytes of one call */

static void send_input(struct remote_run *run);
static void send_signal(struct remote_run *run);
static void send_size(struct remote_run *run);

static void acknowledge(struct remote_run *run)
{
    struct message_ack ack = {.offset = run->input_acked};
    uint8_t payload[9];

    if (!run->is_quiet && !run->is_told)
        remote_warden_send(run->box, FRAME_ACK, run->id, payload,
                           message_ack_pack(&ack, payload, sizeof(payload)));
}

/* ---- standard input ---- */

static void lose_input(struct remote_run *run, const char *why)
{
    run->input_lost = true;
    remote_follow_note(run, why);
    remote_input_signal(run, SIGKILL);
}

static void on_input(void *ctx, const struct remote_reply *reply)
{
    struct remote_run *run = ctx;
    char why[512];

    run->input_call = NULL;
    if (reply->status == 0 && !run->is_over) {
        lose_input(run, "the connection to the server of SANDBOX_URL was lost while standard "
                        "input was sent, so the program was ended");
        return;
    }
    if (reply->err.num < 0 && !run->is_over && reply->err.code != ERROR_EXECUTION_ENDED) {
        str_format(why, sizeof(why),
                   "the server of SANDBOX_URL refused standard input, so the program was ended: "
                   "%.300s",
                   reply->err.text);
        lose_input(run, why);
        return;
    }
    run->input_acked += run->input_sending; /* also what a program that has ended did not read */
    buf_consume(&run->input, run->input_sending);
    if (run->input_sending > 0)
        acknowledge(run);
    run->input_sending = 0;
    send_input(run);
}

static void send_input(struct remote_run *run)
{
    char path[REMOTE_PATH_MAX];
    size_t length = MIN(run->input.length, (size_t)INPUT_ONCE);
    bool ends = run->input_ended && length == run->input.length && !(run->flags & EXEC_PTY);
    struct remote_request request = {.method = "POST",
                                     .path =
                                         remote_box_path(run->box, path, "/processes/%s/stdin%s",
                                                         run->name, ends ? "?end=true" : ""),
                                     .body = length > 0 ? run->input.data : "",
                                     .length = length,
                                     .is_once = true,
                                     .timeout_ms = UINT32_MAX / 2};

    if (!run->name[0] || run->input_call || run->input_lost || run->is_over ||
        (length == 0 && (!ends || run->input_end_sent)))
        return;
    run->input_sending = length;
    run->input_end_sent = ends;
    run->input_call = remote_call_start(run->box->target, &request, on_input, run);
    if (!run->input_call)
        remote_box_lose(run->box, false, "no memory for input");
}

static int on_stdin(struct remote_run *run, const struct frame *frame)
{
    struct message_bytes bytes;

    if (message_bytes_unpack(frame, &bytes) < 0 || bytes.offset != run->input_received ||
        run->input_ended || run->kind != RUN_COMMAND ||
        buf_append(&run->input, bytes.data, bytes.length) < 0)
        return -EPROTO;
    run->input_received += bytes.length;
    send_input(run);
    return 0;
}

/* ---- signals ---- */

static void on_signalled(void *ctx, const struct remote_reply *reply)
{
    struct remote_run *run = ctx;

    run->signal_call = NULL;
    if (reply->status == 429 || reply->status >= 500) { /* for REMOTE_PATIENCE_MS */
        remote_box_lose(run->box, false, reply->err.text);
        return;
    }
    /* else: a program that has ended says so itself, and the beat notices a lost server */
    send_signal(run);
}

static void send_signal(struct remote_run *run)
{
    CLEANUP(json_decrefp) json_t *json = NULL;
    char path[REMOTE_PATH_MAX];
    struct remote_request request = {.method = "POST", .waits = true, .insists = true};
    uint32_t number = SIGKILL;

    if (!run->signals || run->signal_call || !run->name[0] || run->is_over)
        return;
    if (!(run->signals & SIGNAL_BIT(SIGKILL))) {
        for (number = 1; !(run->signals & SIGNAL_BIT(number)); number++)
            ;
    }
    run->signals &= ~SIGNAL_BIT(number);
    json = json_pack("{s:i}", "signal", (int)number);
    request.json = json;
    request.path = remote_box_path(run->box, path, "/processes/%s/signal", run->name);
    run->signal_call =
        json ? remote_call_start(run->box->target, &request, on_signalled, run) : NULL;
}

void remote_input_signal(struct remote_run *run, uint32_t number)
{
    run->signals |= SIGNAL_BIT(number);
    send_signal(run);
}

/* ---- the size of a terminal ---- */

static void on_sized(void *ctx, const struct remote_reply *reply)
{
    struct remote_run *run = ctx;

    (void)reply;
    run->size_call = NULL;
    send_size(run);
}

/* Only the newest size counts. */
static void send_size(struct remote_run *run)
{
    CLEANUP(json_decrefp) json_t *json = NULL;
    char path[REMOTE_PATH_MAX];
    struct remote_request request = {.method = "POST", .waits = true};

    if (!run->rows || run->size_call || !run->name[0] || run->is_over)
        return;
    json = json_pack("{s:i, s:i}", "rows", (int)run->rows, "columns", (int)run->columns);
    run->rows = 0;
    request.json = json;
    request.path = remote_box_path(run->box, path, "/processes/%s/resize", run->name);
    run->size_call = json ? remote_call_start(run->box->target, &request, on_sized, run) : NULL;
}

static int on_resize(struct remote_run *run, const struct frame *frame)
{
    struct message_size size;

    if (message_size_unpack(frame, &size) < 0)
        return -EPROTO;
    run->rows = size.rows;
    run->columns = size.columns;
    send_size(run);
    return 0;
}

/* ---- all of it ---- */

int remote_input_frame(struct remote_run *run, const struct frame *frame)
{
    switch (frame->type) {
    case FRAME_STDIN:
        return on_stdin(run, frame);
    case FRAME_STDIN_END:
        run->input_ended = true;
        if (run->flags & EXEC_STDIN)
            send_input(run);
        return 0;
    case FRAME_RESIZE:
        return on_resize(run, frame);
    default:
        return -EPROTO;
    }
}

void remote_input_begin(struct remote_run *run)
{
    send_signal(run);
    send_size(run);
    send_input(run);
}

void remote_input_stop(struct remote_run *run)
{
    remote_call_cancel(run->input_call);
    remote_call_cancel(run->signal_call);
    remote_call_cancel(run->size_call);
    run->input_call = run->signal_call = run->size_call = NULL;
    run->input_sending = 0;
}
