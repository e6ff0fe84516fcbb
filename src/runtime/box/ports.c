/*
 * ports.c - connections to the servers of a box's guests, the host's side. Every frame is hostile:
 * its order in the call, its offsets and its sizes are checked, also if the call was cancelled.
 */
#include "runtime/box/ports.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/box/box_private.h"

#define ACK_EVERY (WIRE_PORT_WINDOW / 4)

static unsigned count_streams(const struct box *box)
{
    unsigned count = 0;

    for (const struct call *call = box->calls; call; call = call->next)
        count += call->kind == CALL_PORT;
    return count;
}

static int begin(struct box *box, struct call *call, enum frame_type type, const void *payload,
                 size_t length, uint32_t *ret_id, struct error *err)
{
    uint32_t id = call->id;
    int r = box_send(box, type, id, payload, length);

    if (r < 0) {
        box_call_free(box, call);
        return error_set(err, r, ERROR_BOX_LOST, "the box was lost: it accepts no more frames");
    }
    *ret_id = id;
    return 0;
}

static int refusal(const struct error *err)
{
    return err && err->num < 0 ? err->num : -EPIPE;
}

int box_port_open(struct box *box, uint16_t port, const struct port_events *events, void *ctx,
                  uint32_t *ret_id, struct error *err)
{
    struct call *call;
    uint8_t payload[2];

    if (count_streams(box) >= LIMIT_PORT_STREAMS)
        return error_set(err, -EAGAIN, ERROR_BUSY,
                         "too many connections to the ports of one session at once (at most %d)",
                         LIMIT_PORT_STREAMS);
    call = box_call_new(box, CALL_PORT, ctx, err);
    if (!call)
        return refusal(err);
    call->on.port = events;
    message_port_pack(port, payload, sizeof(payload));
    return begin(box, call, FRAME_CONNECT, payload, sizeof(payload), ret_id, err);
}

int box_ports(struct box *box, const struct ports_events *events, void *ctx, uint32_t *ret_id,
              struct error *err)
{
    struct call *call = box_call_new(box, CALL_PORTS, ctx, err);

    if (!call)
        return refusal(err);
    call->on.ports = events;
    return begin(box, call, FRAME_PORTS, NULL, 0, ret_id, err);
}

long box_port_write(struct box *box, uint32_t id, const void *data, size_t length)
{
    struct call *call = box_call(box, id, CALL_PORT);

    if (!call || call->has_ended || call->has_exited || !call->has_started)
        return -EPIPE;
    return box_send_bytes(box, call, FRAME_PORT_DATA, data, length);
}

void box_port_end(struct box *box, uint32_t id)
{
    struct call *call = box_call(box, id, CALL_PORT);

    if (!call || call->has_ended)
        return;
    call->has_ended = true;
    if (!call->has_exited)
        box_send(box, FRAME_PORT_END, id, NULL, 0);
}

/* ---- the end ---- */

void port_failed(const struct call *call, const struct error *err)
{
    if (call->is_cancelled)
        return;
    if (call->kind == CALL_PORT)
        call->on.port->done(call->ctx, err);
    else
        call->on.ports->done(call->ctx, err);
}

static void finish(struct box *box, struct call *call)
{
    struct call ended = *call;
    struct error err = {0};
    int number = (int)call->done_errno;

    if (number != 0)
        error_set(&err, -number, ERROR_ENGINE, "%s", strerror(number));
    box_call_free(box, call);
    port_failed(&ended, &err);
}

static bool on_done(struct box *box, struct call *call, const struct frame *frame)
{
    uint32_t number;

    if (message_number_unpack(frame, &number) < 0 || number > 4095)
        return false;
    if (number == 0 && !(call->kind == CALL_PORT ? call->has_started : call->entries == 1))
        return false;
    call->has_exited = true;
    call->done_errno = number;
    if (call->is_cancelled || call->in[0].held.length == 0)
        finish(box, call); /* else when the last byte was taken */
    return true;
}

/* ---- bytes ---- */

/* How many of these bytes the owner takes. */
static size_t give(struct call *call, const void *data, size_t length)
{
    size_t taken;

    call->is_delivering = true;
    taken = call->on.port->data(call->ctx, data, length);
    call->is_delivering = false;
    return MIN(taken, length);
}

static void acknowledge(struct box *box, struct call *call)
{
    struct incoming *in = &call->in[0];
    struct message_ack ack = {.offset = in->taken};
    uint8_t payload[9];
    ssize_t length;

    if (in->taken - in->acked < ACK_EVERY || call->has_exited || call->is_cancelled)
        return;
    in->acked = in->taken;
    length = message_ack_pack(&ack, payload, sizeof(payload));
    box_send(box, FRAME_ACK, call->id, payload, (size_t)length);
}

void box_port_resume(struct box *box, uint32_t id)
{
    struct call *call = box_call(box, id, CALL_PORT);
    struct incoming *in;

    if (!call || call->is_cancelled || call->is_delivering)
        return;
    in = &call->in[0];
    while (in->held.length > 0 && !call->is_cancelled) {
        size_t taken = give(call, in->held.data, in->held.length);

        if (call->is_cancelled || taken == 0)
            break;
        buf_consume(&in->held, taken);
        in->taken += taken;
    }
    acknowledge(box, call);
    if (call->has_exited && (call->is_cancelled || in->held.length == 0))
        finish(box, call);
}

static bool on_data(struct box *box, struct call *call, const struct frame *frame)
{
    struct incoming *in = &call->in[0];
    struct message_bytes bytes;
    size_t taken = 0;

    if (!call->has_started || message_bytes_unpack(frame, &bytes) < 0 || bytes.stream != 0 ||
        bytes.offset != in->received || bytes.length == 0 ||
        bytes.length > WIRE_PORT_WINDOW - (size_t)(in->received - in->acked))
        return false;
    in->received += bytes.length;
    if (call->is_cancelled)
        return true;
    if (in->held.length == 0)
        taken = give(call, bytes.data, bytes.length);
    in->taken += taken;
    if (!call->is_cancelled && taken < bytes.length &&
        buf_append(&in->held, (const char *)bytes.data + taken, bytes.length - taken) < 0)
        return false;
    acknowledge(box, call);
    return true;
}

static bool on_connected(struct call *call, const struct frame *frame)
{
    if (call->has_started || frame->length != 0)
        return false;
    call->has_started = true;
    if (!call->is_cancelled)
        call->on.port->opened(call->ctx);
    return true;
}

static bool on_ack(struct call *call, const struct frame *frame)
{
    struct message_ack ack;

    if (!call->has_started || message_ack_unpack(frame, &ack) < 0 || ack.stream != 0 ||
        ack.offset > call->sent || ack.offset < call->acked)
        return false;
    call->acked = ack.offset;
    if (!call->is_cancelled)
        call->on.port->room(call->ctx);
    return true;
}

static bool on_listening(struct call *call, const struct frame *frame)
{
    static struct message_listening listening; /* one thread; the owner begins no other list */

    if (call->entries++ > 0 || message_listening_unpack(frame, &listening) < 0)
        return false;
    if (!call->is_cancelled)
        call->on.ports->listed(call->ctx, listening.ports, listening.count, listening.is_cut);
    return true;
}

bool port_frame(struct box *box, struct call *call, const struct frame *frame)
{
    bool is_stream = call->kind == CALL_PORT;

    if (call->has_exited)
        return false;
    switch (frame->type) {
    case FRAME_DONE:
        return on_done(box, call, frame);
    case FRAME_CONNECTED:
        return is_stream && on_connected(call, frame);
    case FRAME_PORT_DATA:
        return is_stream && on_data(box, call, frame);
    case FRAME_ACK:
        return is_stream && on_ack(call, frame);
    case FRAME_LISTENING:
        return !is_stream && on_listening(call, frame);
    default:
        return false;
    }
}
