/*
 * answers.c - frames of a warden about file operations, and their callbacks. Every frame is
 * hostile: its type, its order in the call, its counts and its sizes are checked, also if the call
 * was cancelled.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/box/box_private.h"
#include "wire/file_message.h"

/*
 * Acknowledging every frame would double their number; acknowledging at a quarter of the window
 * keeps data flowing.
 */
#define ACK_EVERY (WIRE_STREAM_WINDOW / 4)

static void tell_done(const struct call *call, const struct error *err)
{
    if (call->is_cancelled)
        return;
    switch (call->kind) {
    case CALL_PUT:
        call->on.put->done(call->ctx, err);
        break;
    case CALL_GET:
        call->on.get->done(call->ctx, err);
        break;
    case CALL_LIST:
    case CALL_STAT:
        call->on.list->done(call->ctx, err);
        break;
    case CALL_CHANGE:
        call->on.change->done(call->ctx, err);
        break;
    case CALL_WATCH:
        call->on.watch->done(call->ctx, err);
        break;
    case CALL_PORT:
    case CALL_PORTS:
        port_failed(call, err);
        break;
    case CALL_EXEC:
        break;
    }
}

void file_failed(const struct call *call, const struct error *err)
{
    tell_done(call, err);
}

static void finish(struct box *box, struct call *call, uint32_t number)
{
    struct call ended = *call;
    struct error err = {0};

    if (number != 0)
        error_set(&err, -(int)number, ERROR_ENGINE, "%s", strerror((int)number));
    box_call_free(box, call);
    tell_done(&ended, &err);
}

/* Whether everything that belongs to a success was sent and received. */
static bool may_succeed(const struct call *call)
{
    switch (call->kind) {
    case CALL_PUT:
        return call->has_ended; /* it cannot exist before its end was sent */
    case CALL_STAT:
        return call->entries == 1;
    case CALL_WATCH:
        return false; /* a watch has no successful end */
    default:
        return true;
    }
}

static bool on_done(struct box *box, struct call *call, const struct frame *frame)
{
    uint32_t number;

    if (message_number_unpack(frame, &number) < 0 || number > 4095)
        return false;
    if (number == 0 && !may_succeed(call))
        return false;
    if (call->kind == CALL_PUT && !call->has_ended) {
        /* It failed early; the warden still waits for the end of the bytes that were being sent. */
        call->has_ended = true;
        if (box_send(box, FRAME_PUT_END, call->id, NULL, 0) < 0)
            return false;
    }
    if (call->kind == CALL_GET && call->in[0].held.length > 0) {
        call->has_exited = true; /* reported when the last byte was taken */
        call->done_errno = number;
    } else {
        finish(box, call, number);
    }
    return true;
}

/* Passes held bytes to the owner, as many as it takes. */
static void deliver(struct call *call)
{
    struct incoming *in = &call->in[0];

    call->is_delivering = true;
    while (in->held.length > 0 && !call->is_cancelled) {
        size_t taken = call->on.get->data(call->ctx, in->held.data, in->held.length);

        if (call->is_cancelled || taken == 0 || taken > in->held.length)
            break;
        buf_consume(&in->held, taken);
        in->taken += taken;
    }
    call->is_delivering = false;
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

void box_get_resume(struct box *box, uint32_t id)
{
    struct call *call = box_call(box, id, CALL_GET);

    if (!call || call->is_cancelled || call->is_delivering)
        return;
    deliver(call);
    acknowledge(box, call);
    if (call->has_exited && (call->is_cancelled || call->in[0].held.length == 0))
        finish(box, call, call->done_errno);
}

static bool on_data(struct box *box, struct call *call, const struct frame *frame)
{
    struct incoming *in = &call->in[0];
    struct message_bytes bytes;
    size_t taken = 0;

    if (call->kind != CALL_GET || message_bytes_unpack(frame, &bytes) < 0 || bytes.stream != 0 ||
        bytes.offset != in->received || bytes.length == 0 ||
        bytes.length > WIRE_STREAM_WINDOW - (size_t)(in->received - in->acked) ||
        bytes.length > call->bytes_max - in->received)
        return false;
    in->received += bytes.length;
    if (call->is_cancelled)
        return true;
    if (in->held.length == 0) {
        call->is_delivering = true;
        taken = call->on.get->data(call->ctx, bytes.data, bytes.length);
        call->is_delivering = false;
        taken = MIN(taken, bytes.length);
        in->taken += taken;
    }
    if (!call->is_cancelled && taken < bytes.length &&
        buf_append(&in->held, (const char *)bytes.data + taken, bytes.length - taken) < 0)
        return false;
    acknowledge(box, call);
    return true;
}

static void tell_entry(const struct call *call, const struct message_path *message)
{
    char name[LIMIT_PATH_BYTES + 1];
    struct box_entry entry = {.name = name,
                              .mode = message->mode,
                              .bytes = message->bytes,
                              .time_ns = message->time_ns,
                              .change_ns = message->offset};

    memcpy(name, message->path, message->path_length);
    name[message->path_length] = 0;
    call->on.list->entry(call->ctx, &entry);
}

static bool on_entry(struct call *call, const struct frame *frame)
{
    struct message_path message;
    uint32_t entries_max = call->kind == CALL_LIST ? LIMIT_LIST_ENTRIES : 1;

    if (message_path_unpack(frame, &message) < 0 || call->entries++ >= entries_max)
        return false;
    switch (call->kind) {
    case CALL_LIST:
    case CALL_STAT:
        if ((message.path_length > 0) != (call->kind == CALL_LIST))
            return false;
        if (!call->is_cancelled)
            tell_entry(call, &message);
        return true;
    case CALL_GET:
        if (message.path_length > 0 || call->in[0].received > 0 || message.bytes > call->bytes_max)
            return false;
        call->bytes_max = message.bytes;
        if (!call->is_cancelled && call->on.get->size)
            call->on.get->size(call->ctx, message.bytes);
        return true;
    case CALL_WATCH:
        if (!call->is_cancelled && call->on.watch->ready)
            call->on.watch->ready(call->ctx);
        return message.path_length == 0;
    default:
        return false;
    }
}

static bool on_changed(struct call *call, const struct frame *frame)
{
    struct message_changed changed;
    char name[LIMIT_PATH_BYTES + 1];
    struct box_change change = {.name = name};

    if (call->kind != CALL_WATCH || call->entries == 0 ||
        message_changed_unpack(frame, &changed) < 0 ||
        (changed.path_length == 0) != (changed.kind == CHANGE_OVERFLOW))
        return false;
    if (call->is_cancelled)
        return true;
    memcpy(name, changed.path, changed.path_length);
    name[changed.path_length] = 0;
    change.kind = changed.kind;
    change.is_folder = changed.is_folder;
    call->on.watch->changed(call->ctx, &change);
    return true;
}

static bool on_ack(struct call *call, const struct frame *frame)
{
    struct message_ack ack;

    if (call->kind != CALL_PUT || message_ack_unpack(frame, &ack) < 0 || ack.stream != 0 ||
        ack.offset > call->sent || ack.offset < call->acked)
        return false;
    call->acked = ack.offset;
    if (!call->is_cancelled && call->on.put->more)
        call->on.put->more(call->ctx);
    return true;
}

bool file_frame(struct box *box, struct call *call, const struct frame *frame)
{
    if (call->has_exited)
        return false;
    switch (frame->type) {
    case FRAME_DONE:
        return on_done(box, call, frame);
    case FRAME_DATA:
        return on_data(box, call, frame);
    case FRAME_ENTRY:
        return on_entry(call, frame);
    case FRAME_CHANGED:
        return on_changed(call, frame);
    case FRAME_ACK:
        return on_ack(call, frame);
    default:
        return false;
    }
}
