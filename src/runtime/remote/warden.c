/*
 * warden.c - the stream of a box (host/host_box.h) whose other end is no process: frames of the
 * broker are handled here, and frames for it wait in a buffer; see remote_private.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/isolation.h"
#include "runtime/remote/remote_private.h"

/* ---- frames for the broker ---- */

/* Not at once: the pump may be the caller. */
static void wake(struct remote_box *box)
{
    if (box->wake_timer)
        box->remote->reactor->ops->timer_set(box->wake_timer, 0);
}

static void queue(struct remote_box *box, enum frame_type type, uint32_t id, const void *first,
                  size_t first_length, const void *rest, size_t length)
{
    uint8_t header[FRAME_HEADER];

    frame_header(header, type, id, first_length + length);
    if (buf_append(&box->out, header, sizeof(header)) < 0 ||
        buf_append(&box->out, first, first_length) < 0 || buf_append(&box->out, rest, length) < 0)
        remote_box_lose(box, false, "no memory for its frames");
    wake(box);
}

void remote_warden_send(struct remote_box *box, enum frame_type type, uint32_t id,
                        const void *payload, ssize_t length)
{
    if (length < 0)
        remote_box_lose(box, false, "a frame is too large");
    else
        queue(box, type, id, payload, (size_t)length, "", 0);
}

void remote_warden_send_bytes(struct remote_box *box, enum frame_type type, uint32_t id,
                              uint8_t stream, uint64_t offset, const void *data, size_t length)
{
    while (length > 0) {
        uint8_t header[MESSAGE_BYTES_HEADER];
        size_t part = MIN(length, (size_t)FRAME_DATA_MAX);

        message_bytes_header(header, stream, offset);
        queue(box, type, id, header, sizeof(header), data, part);
        data = (const char *)data + part;
        offset += part;
        length -= part;
    }
}

void remote_warden_done(struct remote_box *box, uint32_t id, int num)
{
    uint8_t payload[4];

    remote_warden_send(box, FRAME_DONE, id, payload,
                       message_number_pack((uint32_t)-num, payload, sizeof(payload)));
}

void remote_warden_ready(struct remote_box *box, uint32_t layers)
{
    struct message_ready ready = {
        .version = WIRE_VERSION, .layers = layers, .missing = ISOLATION_LAYER_ALL & ~layers};
    uint8_t payload[512];

    remote_warden_send(box, FRAME_READY, 0, payload,
                       message_ready_pack(&ready, payload, sizeof(payload)));
}

bool remote_box_waits(const struct remote_box *box)
{
    return box->out.length >= REMOTE_OUT_BYTES;
}

/* ---- frames of the broker ---- */

static void on_clock(void *ctx, const struct remote_reply *reply)
{
    struct remote_box *box = ctx;

    box->clock = NULL;
    remote_warden_done(box, box->clock_id,
                       reply->err.num < 0 ? remote_result_errno(&reply->err) : 0);
}

/* FREEZE and THAW: the session is paused or resumed there. */
static int turn_clock(struct remote_box *box, const struct frame *frame)
{
    char path[REMOTE_PATH_MAX];
    struct remote_request request = {
        .method = "POST",
        .path = remote_box_path(box, path, frame->type == FRAME_FREEZE ? "/pause" : "/resume"),
        .waits = true};

    if (box->clock)
        return -EPROTO; /* the broker asks for one after the other */
    if (box->plain) {
        remote_warden_done(box, frame->id, -ENOTSUP);
        return 0;
    }
    box->clock_id = frame->id;
    box->clock = remote_call_start(box->target, &request, on_clock, box);
    if (!box->clock)
        remote_warden_done(box, frame->id, -ENOMEM);
    return 0;
}

static int add_args(struct remote_box *box, const struct frame *frame)
{
    return buf_append(&box->args, frame->payload, frame->length) < 0 ? -EPROTO : 0;
}

static int take(struct remote_box *box, const struct frame *frame)
{
    if (frame->type != FRAME_HELLO) /* its id is a generation */
        box->highest = MAX(box->highest, frame->id);
    if (frame->type == FRAME_ARGS)
        return add_args(box, frame);
    if (frame->type == FRAME_CONNECT || frame->type == FRAME_PORTS) {
        remote_warden_done(box, frame->id, -ENOTSUP);
        return 0;
    }
    if (box->plain)
        return remote_plain_frame(box, frame);
    switch (frame->type) {
    case FRAME_EXEC:
        return remote_runs_exec(box, frame);
    case FRAME_CELL:
        return remote_runs_cell(box, frame);
    case FRAME_HELLO:
        remote_files_free(box); /* the earlier broker's */
        remote_runs_hello(box, frame->id);
        return 0;
    case FRAME_FREEZE:
    case FRAME_THAW:
        return turn_clock(box, frame);
    case FRAME_ZYGOTE: /* the server has its own */
        return 0;
    case FRAME_STDIN:
    case FRAME_STDIN_END:
    case FRAME_SIGNAL:
    case FRAME_RESIZE:
    case FRAME_RESUME:
    case FRAME_FORGET:
        return remote_runs_frame(box, frame);
    case FRAME_ACK:
        return remote_run_find(box, frame->id) ? remote_runs_frame(box, frame)
                                               : remote_files_frame(box, frame);
    default:
        return remote_files_frame(box, frame);
    }
}

/* ---- the stream ---- */

static ssize_t stream_read(void *stream, void *to, size_t size)
{
    struct remote_box *box = stream;
    size_t length = MIN(size, box->out.length);
    bool waited = remote_box_waits(box);

    if (length == 0)
        return box->lost < 0 ? box->lost : -EAGAIN;
    memcpy(to, box->out.data, length);
    buf_consume(&box->out, length);
    if (waited && !remote_box_waits(box) && !box->is_lost) {
        remote_runs_pump(box);
        remote_files_pump(box);
    }
    return (ssize_t)length;
}

/* Everything is taken: windows limit what the broker sends ahead. */
static ssize_t stream_write(void *stream, const void *data, size_t length)
{
    struct remote_box *box = stream;
    size_t taken = 0;

    while (taken < length && !box->is_lost) {
        struct frame frame;
        int r;

        taken += frame_stream_feed(&box->in, (const char *)data + taken, length - taken);
        r = frame_stream_next(&box->in, &frame);
        if (r > 0)
            r = take(box, &frame);
        if (r < 0) {
            remote_box_lose(box, false, "the broker sent a frame that cannot be read");
            return r;
        }
    }
    return (ssize_t)length;
}

static void stream_want(void *stream, short events)
{
    (void)events; /* wake() says when there is something; it always takes */
    if (((struct remote_box *)stream)->out.length > 0)
        wake(stream);
}

static void stream_close(void *stream)
{
    remote_warden_free(stream);
}

const struct pump_stream_ops remote_stream_ops = {
    .read = stream_read, .write = stream_write, .want = stream_want, .close = stream_close};

void remote_warden_free(struct remote_box *box)
{
    remote_call_cancel(box->clock);
    box->clock = NULL;
    remote_runs_free(box);
    remote_files_free(box);
    remote_plain_free(box);
    buf_free(&box->args);
    buf_free(&box->out);
}
