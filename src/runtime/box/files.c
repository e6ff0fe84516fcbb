/*
 * files.c - files of a box, the host's side: requests, and bytes to the box. Replies are in
 * answers.c.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/box/box_private.h"
#include "wire/file_message.h"

/* The warden's limit of operations; cancelled ones count until the warden has confirmed. */
static bool has_too_many(const struct box *box)
{
    unsigned count = 0;

    for (const struct call *call = box->calls; call; call = call->next)
        count += call->kind != CALL_EXEC && call->kind != CALL_PORT;
    return count >= LIMIT_FILE_OPS;
}

static struct call *file_call(struct box *box, enum call_kind kind, void *ctx, struct error *err)
{
    if (!box->is_lost && has_too_many(box)) {
        error_set(err, -EAGAIN, ERROR_TOO_LARGE, "too many file operations at once (at most %d)",
                  LIMIT_FILE_OPS);
        return NULL;
    }
    return box_call_new(box, kind, ctx, err);
}

/* Sends the first frame of a call; frees the call if that fails. */
static int begin(struct box *box, struct call *call, enum frame_type type, const void *payload,
                 ssize_t length, uint32_t *ret_id, struct error *err)
{
    uint32_t id = call->id;
    int r;

    if (length < 0) {
        box_call_free(box, call);
        return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "the path is too long");
    }
    r = box_send(box, type, id, payload, (size_t)length);
    if (r < 0) {
        box_call_free(box, call);
        return error_set(err, r, ERROR_BOX_LOST, "the box was lost: it accepts no more frames");
    }
    *ret_id = id;
    return 0;
}

static int begin_path(struct box *box, struct call *call, enum frame_type type, const char *path,
                      struct message_path *message, uint32_t *ret_id, struct error *err)
{
    uint8_t payload[LIMIT_PATH_BYTES + MESSAGE_PATH_HEADER];

    message->path = path;
    message->path_length = strlen(path);
    return begin(box, call, type, payload, message_path_pack(message, payload, sizeof(payload)),
                 ret_id, err);
}

static int refusal(const struct error *err)
{
    return err && err->num < 0 ? err->num : -EPIPE;
}

int box_put(struct box *box, const struct put_spec *spec, const struct put_events *events,
            void *ctx, uint32_t *ret_id, struct error *err)
{
    struct call *call = file_call(box, CALL_PUT, ctx, err);
    struct message_path message = {
        .mode = spec->mode,
        .flags = (spec->is_in_place ? PUT_IN_PLACE : 0) | (spec->is_new ? PUT_NEW : 0),
        .offset = spec->offset,
    };

    if (!call)
        return refusal(err);
    call->on.put = events;
    return begin_path(box, call, FRAME_PUT, spec->path, &message, ret_id, err);
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
    struct call *call = file_call(box, CALL_GET, ctx, err);
    struct message_path message = {.offset = offset, .bytes = bytes};

    if (!call)
        return refusal(err);
    call->on.get = events;
    call->bytes_max = bytes > 0 ? bytes : UINT64_MAX;
    return begin_path(box, call, FRAME_GET, path, &message, ret_id, err);
}

int box_list(struct box *box, const char *path, unsigned depth, const struct list_events *events,
             void *ctx, uint32_t *ret_id, struct error *err)
{
    struct call *call = file_call(box, CALL_LIST, ctx, err);
    struct message_path message = {.depth = depth};

    if (!call)
        return refusal(err);
    call->on.list = events;
    return begin_path(box, call, FRAME_LIST, path, &message, ret_id, err);
}

int box_stat(struct box *box, const char *path, const struct list_events *events, void *ctx,
             uint32_t *ret_id, struct error *err)
{
    struct call *call = file_call(box, CALL_STAT, ctx, err);
    struct message_path message = {0};

    if (!call)
        return refusal(err);
    call->on.list = events;
    return begin_path(box, call, FRAME_STAT, path, &message, ret_id, err);
}

/* Calls whose only reply is DONE. */
static int begin_change(struct box *box, enum frame_type type, const char *path,
                        struct message_path message, const struct done_events *events, void *ctx,
                        uint32_t *ret_id, struct error *err)
{
    struct call *call = file_call(box, CALL_CHANGE, ctx, err);

    if (!call)
        return refusal(err);
    call->on.change = events;
    return begin_path(box, call, type, path, &message, ret_id, err);
}

int box_mkdir(struct box *box, const char *path, uint32_t mode, const struct done_events *events,
              void *ctx, uint32_t *ret_id, struct error *err)
{
    return begin_change(box, FRAME_MKDIR, path, (struct message_path){.mode = mode}, events, ctx,
                        ret_id, err);
}

int box_remove(struct box *box, const char *path, bool tree, const struct done_events *events,
               void *ctx, uint32_t *ret_id, struct error *err)
{
    return begin_change(box, FRAME_REMOVE, path,
                        (struct message_path){.flags = tree ? REMOVE_TREE : 0}, events, ctx, ret_id,
                        err);
}

int box_chmod(struct box *box, const char *path, uint32_t mode, const struct done_events *events,
              void *ctx, uint32_t *ret_id, struct error *err)
{
    return begin_change(box, FRAME_CHMOD, path, (struct message_path){.mode = mode}, events, ctx,
                        ret_id, err);
}

int box_move(struct box *box, const char *from, const char *to, const struct done_events *events,
             void *ctx, uint32_t *ret_id, struct error *err)
{
    struct call *call = file_call(box, CALL_CHANGE, ctx, err);
    struct message_move message = {
        .from = from, .from_length = strlen(from), .to = to, .to_length = strlen(to)};
    uint8_t payload[2 + 2 * LIMIT_PATH_BYTES];
    ssize_t length = -EMSGSIZE;

    if (!call)
        return refusal(err);
    call->on.change = events;
    if (message.to_length <= LIMIT_PATH_BYTES)
        length = message_move_pack(&message, payload, sizeof(payload));
    return begin(box, call, FRAME_MOVE, payload, length, ret_id, err);
}

int box_watch(struct box *box, const char *path, bool tree, const struct watch_events *events,
              void *ctx, uint32_t *ret_id, struct error *err)
{
    struct call *call = file_call(box, CALL_WATCH, ctx, err);
    struct message_path message = {.flags = tree ? WATCH_TREE : 0};

    if (!call)
        return refusal(err);
    call->on.watch = events;
    return begin_path(box, call, FRAME_WATCH, path, &message, ret_id, err);
}

/*
 * The call stays, without its callbacks, until the warden's DONE: frames that it sent before it
 * heard of the cancellation are no protocol error, and the id is not free before.
 */
void box_cancel(struct box *box, uint32_t id)
{
    struct call *call = box->calls;

    while (call && (call->id != id || call->kind == CALL_EXEC))
        call = call->next;
    if (!call || call->is_cancelled)
        return;
    call->is_cancelled = true;
    call->has_ended = true;
    buf_free(&call->in[0].held);
    if (call->has_exited && !call->is_delivering)
        box_call_free(box, call); /* the warden has sent everything; only the reader was slow */
    else if (!call->has_exited && !box->is_lost)
        box_send(box, FRAME_CANCEL, id, NULL, 0);
}
