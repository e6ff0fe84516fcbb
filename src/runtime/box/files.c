/* files.c - files of a box, the host's side: put, get, list. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "runtime/box/files.h"
#include "runtime/box/inside.h"
#include "wire/file_message.h"

static int send_path(struct box *box, enum frame_type type, struct call *call, const char *path,
                     uint32_t mode, struct error *err)
{
    struct message_path message = {.mode = mode, .path = path, .path_length = strlen(path)};
    uint8_t payload[LIMIT_PATH_BYTES + MESSAGE_PATH_HEADER];
    ssize_t length = -EMSGSIZE;
    int r;

    if (message.path_length <= LIMIT_PATH_BYTES)
        length = message_path_pack(&message, payload, sizeof(payload));
    if (length < 0) {
        box_call_free(box, call);
        return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "the path is too long");
    }
    r = box_send(box, type, call->id, payload, (size_t)length);
    if (r < 0) {
        box_call_free(box, call);
        return error_set(err, r, ERROR_BOX_LOST, "the box was lost: it takes no more frames");
    }
    return 0;
}

int box_put(struct box *box, const struct put_spec *spec, const struct put_events *events,
            void *ctx, uint32_t *ret_id, struct error *err)
{
    struct call *call = box_call_new(box, CALL_PUT, ctx, err);

    if (!call)
        return -EPIPE;
    call->on.put = events;
    *ret_id = call->id;
    return send_path(box, FRAME_PUT, call, spec->path, spec->mode, err);
}

long box_put_data(struct box *box, uint32_t id, const void *data, size_t length)
{
    struct call *call = box_call(box, id, CALL_PUT);

    if (!call || call->has_ended)
        return -EPIPE;
    return box_send_bytes(box, call, FRAME_PUT_DATA, data, length);
}

void box_put_end(struct box *box, uint32_t id)
{
    struct call *call = box_call(box, id, CALL_PUT);

    if (!call || call->has_ended)
        return;
    call->has_ended = true;
    box_send(box, FRAME_PUT_END, id, NULL, 0);
}

int box_get(struct box *box, const char *path, uint64_t offset, uint64_t bytes,
            const struct get_events *events, void *ctx, uint32_t *ret_id, struct error *err)
{
    struct call *call = box_call_new(box, CALL_GET, ctx, err);

    if (!call)
        return -EPIPE;
    (void)offset, (void)bytes;
    call->on.get = events;
    *ret_id = call->id;
    return send_path(box, FRAME_GET, call, path, 0, err);
}

int box_list(struct box *box, const char *path, unsigned depth, const struct list_events *events,
             void *ctx, uint32_t *ret_id, struct error *err)
{
    struct call *call = box_call_new(box, CALL_LIST, ctx, err);

    if (!call)
        return -EPIPE;
    (void)depth;
    call->on.list = events;
    *ret_id = call->id;
    return send_path(box, FRAME_LIST, call, path, 0, err);
}

static bool on_done(struct box *box, struct call *call, const struct frame *frame)
{
    struct error err = {0};
    struct call ended = *call;
    uint32_t number;

    if (message_number_unpack(frame, &number) < 0 || number > 4095)
        return false;
    if (call->kind == CALL_PUT && number == 0 && !call->has_ended)
        return false; /* it cannot be there before we said that it is whole */
    if (number != 0)
        error_set(&err, -(int)number, ERROR_ENGINE, "%s", strerror((int)number));
    if (call->kind == CALL_PUT && !call->has_ended) {
        /* It failed early; the warden still waits for the end of what we were sending. */
        call->has_ended = true;
        if (box_send(box, FRAME_PUT_END, call->id, NULL, 0) < 0)
            return false;
    }
    box_call_free(box, call);
    if (ended.kind == CALL_PUT)
        ended.on.put->done(ended.ctx, &err);
    else if (ended.kind == CALL_GET)
        ended.on.get->done(ended.ctx, &err);
    else
        ended.on.list->done(ended.ctx, &err);
    return true;
}

static bool on_data(struct box *box, struct call *call, const struct frame *frame)
{
    struct message_bytes bytes;
    struct message_ack ack = {0};
    uint8_t payload[9];
    ssize_t length;

    if (call->kind != CALL_GET || message_bytes_unpack(frame, &bytes) < 0 || bytes.stream != 0 ||
        bytes.offset != call->in[0].received || bytes.length == 0)
        return false;
    if (call->on.get->data(call->ctx, bytes.data, bytes.length) != bytes.length) {
        struct call ended = *call;
        struct error err = {0};

        error_set(&err, -ECANCELED, ERROR_CANCELLED, "the reader took no more");
        box_call_free(box, call);
        ended.on.get->done(ended.ctx, &err);
        box_break(box, "a file was left half read"); /* the warden goes on sending it */
        return true;
    }
    call->in[0].received += bytes.length;
    if (call->in[0].received - call->in[0].acked < WIRE_STREAM_WINDOW / 4)
        return true;
    ack.offset = call->in[0].acked = call->in[0].received;
    length = message_ack_pack(&ack, payload, sizeof(payload));
    return box_send(box, FRAME_ACK, call->id, payload, (size_t)length) == 0;
}

static bool on_entry(struct call *call, const struct frame *frame)
{
    struct message_path message;
    struct box_entry entry;
    char name[LIMIT_PATH_BYTES + 1];

    if (call->kind != CALL_LIST || message_path_unpack(frame, &message) < 0 ||
        message.path_length == 0 || call->entries++ >= LIMIT_LIST_ENTRIES)
        return false;
    memcpy(name, message.path, message.path_length);
    name[message.path_length] = 0;
    entry = (struct box_entry){
        .name = name, .mode = message.mode, .bytes = message.bytes, .time_ns = message.time_ns};
    call->on.list->entry(call->ctx, &entry);
    return true;
}

static bool on_ack(struct call *call, const struct frame *frame)
{
    struct message_ack ack;

    if (call->kind != CALL_PUT || message_ack_unpack(frame, &ack) < 0 || ack.stream != 0 ||
        ack.offset > call->sent || ack.offset < call->acked)
        return false;
    call->acked = ack.offset;
    if (call->on.put->more)
        call->on.put->more(call->ctx);
    return true;
}

bool file_frame(struct box *box, struct call *call, const struct frame *frame)
{
    switch (frame->type) {
    case FRAME_DONE:
        return on_done(box, call, frame);
    case FRAME_DATA:
        return on_data(box, call, frame);
    case FRAME_ENTRY:
        return on_entry(call, frame);
    case FRAME_ACK:
        return on_ack(call, frame);
    default:
        return false;
    }
}
