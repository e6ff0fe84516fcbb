/*
 * notify.c - WATCH: reports changes in a folder or a tree until the host cancels it.
 *
 * Changes wait in a small buffer and are sent as the channel has room, after every control frame.
 * A host that is slower than the guest loses them all and gets one CHANGE_OVERFLOW. Temporary names
 * of puts are not reported.
 */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "warden/notify.h"
#include "wire/pack.h"

#define CHANGES_MAX (256 * KIB) /* of one watch, waiting to be sent */

void notify_lost(struct notify_op *watch)
{
    buf_free(&watch->changes);
    watch->sent = 0;
    watch->last = SIZE_MAX;
    watch->has_lost = true;
}

/* A change that says what the one before it says, and is not sent yet, is said once. */
static bool is_said(const struct notify_op *watch, const uint8_t *record, size_t length)
{
    return watch->last != SIZE_MAX && watch->last >= watch->sent &&
           watch->changes.length - watch->last == length &&
           memcmp(watch->changes.data + watch->last, record, length) == 0;
}

void notify_tell(struct notify_op *watch, const struct folder *folder, enum change_kind kind,
                 bool is_folder, const char *name)
{
    char path[LIMIT_PATH_BYTES + 1];
    uint8_t record[2 + 2 + LIMIT_PATH_BYTES];
    struct message_changed changed = {.kind = (uint8_t)kind, .is_folder = is_folder, .path = path};
    struct pack pack = {.data = record, .capacity = 2};
    size_t at = watch->changes.length;
    ssize_t length;

    if (put_is_temporary(name))
        return;
    if (folder_path(folder, name, path, sizeof(path)) < 0) {
        notify_lost(watch); /* no frame could carry such a name */
        return;
    }
    changed.path_length = strlen(path);
    length = message_changed_pack(&changed, record + 2, sizeof(record) - 2);
    if (length < 0)
        return;
    pack_u16(&pack, (uint16_t)length);
    if (is_said(watch, record, 2 + (size_t)length))
        return;
    if (buf_append(&watch->changes, record, 2 + (size_t)length) < 0)
        notify_lost(watch);
    else
        watch->last = at;
}

static bool send_ready(struct warden *warden, struct notify_op *watch)
{
    uint8_t payload[MESSAGE_PATH_HEADER];
    struct message_path entry = {.path = ""};
    ssize_t length = message_path_pack(&entry, payload, sizeof(payload));

    watch->has_said_so = channel_frame(warden, FRAME_ENTRY, watch->op.id, payload, (size_t)length);
    return watch->has_said_so;
}

static bool send_lost(struct warden *warden, struct notify_op *watch)
{
    uint8_t payload[2];
    struct message_changed changed = {.kind = CHANGE_OVERFLOW, .path = ""};
    ssize_t length = message_changed_pack(&changed, payload, sizeof(payload));

    watch->has_lost = !channel_frame(warden, FRAME_CHANGED, watch->op.id, payload, (size_t)length);
    return !watch->has_lost;
}

static bool send_next(struct warden *warden, struct notify_op *watch)
{
    struct unpack unpack = {.data = (const uint8_t *)watch->changes.data + watch->sent, .left = 2};
    size_t length = unpack_u16(&unpack);

    if (!channel_frame(warden, FRAME_CHANGED, watch->op.id, unpack.data, length))
        return false;
    watch->sent += 2 + length;
    if (watch->sent == watch->changes.length) {
        buf_clear(&watch->changes);
        watch->sent = 0;
        watch->last = SIZE_MAX;
    }
    return true;
}

static bool notify_produce(struct warden *warden, struct file_op *op)
{
    struct notify_op *watch = (struct notify_op *)op;

    if (!watch->is_ready || !file_has_room(warden))
        return false;
    if (!watch->has_said_so)
        return send_ready(warden, watch);
    if (watch->has_lost)
        return send_lost(warden, watch);
    return watch->sent < watch->changes.length && send_next(warden, watch);
}

/* There are changes to send: the next turn follows at once. */
static bool notify_work(struct warden *warden, struct file_op *op, unsigned steps)
{
    struct notify_op *watch = (struct notify_op *)op;

    if (!folders_wait(watch))
        return false;
    while (steps-- > 0 && folders_wait(watch)) {
        int r = folders_step(warden, watch);

        if (r < 0) {
            notify_end(warden, watch, r);
            return false;
        }
    }
    watch->is_ready |= !folders_wait(watch);
    return true;
}

static void notify_release(struct warden *warden, struct file_op *op)
{
    struct notify_op *watch = (struct notify_op *)op;

    folders_end(warden, watch);
    buf_free(&watch->changes);
}

static const struct file_kind notify_kind = {
    .produce = notify_produce, .work = notify_work, .release = notify_release};

void notify_end(struct warden *warden, struct notify_op *watch, int r)
{
    file_op_end(warden, &watch->op, r);
}

void file_watch(struct warden *warden, const struct frame *frame)
{
    struct message_path message;
    struct place place;
    int r = file_place(warden, frame, &message, &place);
    struct notify_op *watch = file_op_new(warden, frame->id, &notify_kind, sizeof(*watch));

    if (!watch)
        return;
    watch->scan.fd = -1;
    watch->last = SIZE_MAX;
    watch->changes = BUF_INIT(CHANGES_MAX);
    watch->is_tree = message.flags & WATCH_TREE;
    if (r == 0 && message.flags & ~WATCH_TREE)
        r = -EINVAL;
    if (r == 0) {
        watch->place = place;
        r = folders_begin(warden, watch);
    }
    if (r < 0)
        notify_end(warden, watch, r);
}
