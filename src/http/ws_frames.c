/*
 * ws_frames.c - see ws_frames.h.
 *
 * Messages are assembled here and not by wslay, which keeps a list element for each fragment: one
 * byte in each would cost 64 times the message. Outgoing messages wait here too, and wslay has one
 * at a time: so its own queue, which has no limit, has only answers to pings, and nothing is read
 * while there are many.
 */
#include "http/ws_frames.h"

#include <errno.h>
#include <string.h>

#include <wslay/wslay.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

#define REASON_MAX 123
#define FULL_FRAMES 256

/* A message that goes out. */
struct outgoing {
    struct outgoing *next;
    bool is_text;
    size_t length;
    uint8_t data[];
};

struct ws_frames {
    struct wslay_event_context *wslay;
    const struct ws_frames_events *events;
    void *ctx;

    const uint8_t *in; /* inside ws_frames_take() */
    size_t in_left;
    uint8_t *out; /* inside ws_frames_give() */
    size_t out_left;

    struct buf message; /* that comes in */
    struct buf *whole;  /* inside message() */
    struct outgoing *first, **end;
    size_t waiting;  /* bytes of these */
    bool is_control; /* the frame that is being read */
    bool is_held;    /* by the caller */
    bool has_closed; /* no message of ours can follow any more */
    bool is_failed;  /* by wslay, with a close frame that has no code */
    bool owes_close; /* after what waits */
    unsigned status; /* of it */
    char reason[REASON_MAX + 1];
};

/* ---- bytes -------------------------------------------------------------------------------------
 */

static ssize_t on_recv(struct wslay_event_context *wslay, uint8_t *data, size_t size, int flags,
                       void *ctx)
{
    struct ws_frames *frames = ctx;
    size_t count = MIN(size, frames->in_left);

    (void)flags;
    if (count == 0 || (!frames->has_closed && (frames->is_held || ws_frames_is_full(frames)))) {
        wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(data, frames->in, count);
    frames->in += count;
    frames->in_left -= count;
    return (ssize_t)count;
}

static ssize_t on_send(struct wslay_event_context *wslay, const uint8_t *data, size_t length,
                       int flags, void *ctx)
{
    struct ws_frames *frames = ctx;
    size_t count = MIN(length, frames->out_left);

    (void)flags;
    if (count == 0) {
        wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(frames->out, data, count);
    frames->out += count;
    frames->out_left -= count;
    return (ssize_t)count;
}

/* ---- messages that come in
 * -----------------------------------------------------------------------
 */

static void drop_outgoing(struct ws_frames *frames)
{
    for (struct outgoing *next, *at = frames->first; at; at = next) {
        next = at->next;
        free(at);
    }
    frames->first = NULL;
    frames->end = &frames->first;
    frames->waiting = 0;
}

/* Further input is not processed. */
void ws_frames_fail(struct ws_frames *frames, unsigned status, const char *reason)
{
    drop_outgoing(frames);
    buf_free(&frames->message);
    frames->has_closed = true;
    wslay_event_queue_close(frames->wslay, (uint16_t)status, (const uint8_t *)reason,
                            strlen(reason));
    wslay_event_shutdown_read(frames->wslay);
}

static void on_frame(struct wslay_event_context *wslay,
                     const struct wslay_event_on_frame_recv_start_arg *frame, void *ctx)
{
    struct ws_frames *frames = ctx;

    (void)wslay;
    frames->is_control = wslay_is_ctrl_frame(frame->opcode);
    if (!frames->is_control && !frames->has_closed &&
        frame->payload_length > frames->message.maximum - frames->message.length)
        ws_frames_fail(frames, WSLAY_CODE_MESSAGE_TOO_BIG, "the message is too long");
}

static void on_piece(struct wslay_event_context *wslay,
                     const struct wslay_event_on_frame_recv_chunk_arg *piece, void *ctx)
{
    struct ws_frames *frames = ctx;

    (void)wslay;
    if (frames->is_control || frames->has_closed || piece->data_length == 0)
        return;
    if (buf_append(&frames->message, piece->data, piece->data_length) < 0)
        ws_frames_fail(frames, WSLAY_CODE_INTERNAL_SERVER_ERROR, "out of memory");
}

static void on_message(struct wslay_event_context *wslay,
                       const struct wslay_event_on_msg_recv_arg *message, void *ctx)
{
    struct ws_frames *frames = ctx;

    (void)wslay;
    if (wslay_is_ctrl_frame(message->opcode)) {
        if (message->opcode == WSLAY_CONNECTION_CLOSE)
            frames->has_closed = true; /* wslay answers it */
        return;
    }
    if (!frames->has_closed) {
        CLEANUP(buf_free) struct buf whole = frames->message;

        frames->message = BUF_INIT(whole.maximum);
        frames->whole = &whole;
        frames->events->message(frames->ctx, message->opcode == WSLAY_TEXT_FRAME, buf_text(&whole),
                                whole.length);
        frames->whole = NULL;
    }
}

void ws_frames_message_take(struct ws_frames *frames, struct buf *ret)
{
    *ret = *frames->whole;
    *frames->whole = BUF_INIT(0);
}

ssize_t ws_frames_take(struct ws_frames *frames, const void *data, size_t length)
{
    int r = 0;

    frames->in = data;
    frames->in_left = length;
    if (wslay_event_get_read_enabled(frames->wslay))
        r = wslay_event_recv(frames->wslay);
    frames->is_failed |= r == WSLAY_ERR_CALLBACK_FAILURE; /* a head that no frame can have */
    if (!wslay_event_get_read_enabled(frames->wslay)) {
        frames->has_closed = true; /* by a close frame, or by something that is none of ours */
        frames->in_left = 0;
        drop_outgoing(frames);
    }
    frames->in = NULL;
    return r < 0 && !frames->is_failed ? -ENOMEM : (ssize_t)(length - frames->in_left);
}

void ws_frames_hold(struct ws_frames *frames, bool is_held)
{
    frames->is_held = is_held;
}

/* ---- messages that go out ----------------------------------------------------------------------
 */

int ws_frames_send(struct ws_frames *frames, bool is_text, const void *data, size_t length)
{
    struct outgoing *message;

    if (frames->has_closed)
        return -EPIPE;
    message = malloc(sizeof(*message) + length);
    if (!message)
        return -ENOMEM;
    message->next = NULL;
    message->is_text = is_text;
    message->length = length;
    if (length > 0)
        memcpy(message->data, data, length);
    *frames->end = message;
    frames->end = &message->next;
    frames->waiting += length;
    return 0;
}

/* Gives the next message, or the close frame, to wslay; false: there is neither. */
static bool hand_over(struct ws_frames *frames, int *ret_error)
{
    CLEANUP(freep) struct outgoing *message = frames->first;

    if (message) {
        frames->first = message->next;
        if (!frames->first)
            frames->end = &frames->first;
        frames->waiting -= message->length;
        *ret_error = wslay_event_queue_msg(
            frames->wslay, &(struct wslay_event_msg){
                               .opcode = message->is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
                               .msg = message->data,
                               .msg_length = message->length});
        return true;
    }
    if (!frames->owes_close)
        return false;
    frames->owes_close = false;
    *ret_error = wslay_event_queue_close(frames->wslay, (uint16_t)frames->status,
                                         (const uint8_t *)frames->reason, strlen(frames->reason));
    return true;
}

ssize_t ws_frames_give(struct ws_frames *frames, void *data, size_t size)
{
    int r;

    frames->out = data;
    frames->out_left = size;
    do {
        r = wslay_event_send(frames->wslay);
    } while (r == 0 && frames->out_left > 0 && hand_over(frames, &r));
    frames->out = NULL;
    if (r == WSLAY_ERR_NO_MORE_MSG)
        r = 0; /* the client's close frame was first */
    return r < 0 ? -ENOMEM : (ssize_t)(size - frames->out_left);
}

void ws_frames_ping(struct ws_frames *frames)
{
    wslay_event_queue_msg(frames->wslay, &(struct wslay_event_msg){.opcode = WSLAY_PING});
}

void ws_frames_close(struct ws_frames *frames, unsigned status, const char *reason)
{
    if (frames->has_closed)
        return;
    frames->has_closed = frames->owes_close = true;
    frames->status = status;
    str_format(frames->reason, sizeof(frames->reason), "%.*s",
               (int)utf8_floor(reason ? reason : "", strnlen(reason ? reason : "", REASON_MAX)),
               reason ? reason : "");
}

/* ---- what is there to know ---------------------------------------------------------------------
 */

size_t ws_frames_held(const struct ws_frames *frames)
{
    return frames->message.length + ws_frames_waiting(frames);
}

size_t ws_frames_waiting(const struct ws_frames *frames)
{
    return frames->waiting + wslay_event_get_queued_msg_length(frames->wslay);
}

bool ws_frames_wants_give(const struct ws_frames *frames)
{
    return frames->first || frames->owes_close || wslay_event_want_write(frames->wslay);
}

bool ws_frames_is_full(const struct ws_frames *frames)
{
    return wslay_event_get_queued_msg_count(frames->wslay) > FULL_FRAMES;
}

bool ws_frames_has_closed(const struct ws_frames *frames)
{
    return frames->has_closed;
}

bool ws_frames_was_closed(const struct ws_frames *frames)
{
    return wslay_event_get_close_received(frames->wslay);
}

bool ws_frames_is_over(const struct ws_frames *frames)
{
    return wslay_event_get_close_sent(frames->wslay) &&
           !wslay_event_get_read_enabled(frames->wslay);
}

unsigned ws_frames_status(const struct ws_frames *frames)
{
    if (frames->is_failed)
        return WSLAY_CODE_PROTOCOL_ERROR;
    return wslay_event_get_close_received(frames->wslay)
               ? wslay_event_get_status_code_received(frames->wslay)
               : wslay_event_get_status_code_sent(frames->wslay);
}

/* ---- life --------------------------------------------------------------------------------------
 */

struct ws_frames *ws_frames_new(size_t message_max, const struct ws_frames_events *events,
                                void *ctx)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_recv,
        .send_callback = on_send,
        .on_frame_recv_start_callback = on_frame,
        .on_frame_recv_chunk_callback = on_piece,
        .on_msg_recv_callback = on_message,
    };
    struct ws_frames *frames = calloc(1, sizeof(*frames));

    if (!frames)
        return NULL;
    frames->events = events;
    frames->ctx = ctx;
    frames->message = BUF_INIT(message_max);
    frames->end = &frames->first;
    if (wslay_event_context_server_init(&frames->wslay, &callbacks, frames) != 0) {
        free(frames);
        return NULL;
    }
    wslay_event_config_set_no_buffering(frames->wslay, 1);
    return frames;
}

void ws_frames_free(struct ws_frames *frames)
{
    if (!frames)
        return;
    wslay_event_context_free(frames->wslay);
    drop_outgoing(frames);
    buf_free(&frames->message);
    free(frames);
}
