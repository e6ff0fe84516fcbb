/*
 * get.c - a file out of the box: a producer that is at most one window ahead of the host. Only
 * regular files are read, and no more than their size when they were opened: a guest that continues
 * to write does not make a get endless.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "warden/file_op.h"

struct get {
    struct file_op op;
    int fd;
    uint64_t start; /* where in the file the stream's first byte is */
    uint64_t left;  /* bytes still to be sent */
    uint64_t done, acked;
};

static void get_release(struct warden *warden, struct file_op *op)
{
    (void)warden;
    fd_closep(&((struct get *)op)->fd);
}

static bool get_produce(struct warden *warden, struct file_op *op)
{
    static char data[FRAME_DATA_MAX]; /* one thread */
    struct get *get = (struct get *)op;
    ssize_t length = 0;

    if (get->done - get->acked > WIRE_STREAM_WINDOW - FRAME_DATA_MAX || !file_has_room(warden))
        return false;
    if (get->left > 0)
        length = pread(get->fd, data, MIN((uint64_t)sizeof(data), get->left),
                       (off_t)(get->start + get->done));
    if (length <= 0) {
        file_op_end(warden, op, length < 0 ? -errno : 0);
        return true;
    }
    if (!channel_bytes(warden, FRAME_DATA, op->id, 0, get->done, data, (size_t)length))
        return false; /* read again when there is room */
    get->done += (uint64_t)length;
    get->left -= (uint64_t)length;
    return true;
}

/* So many bytes follow, unless the guest makes the file shorter meanwhile. */
static void say_size(struct warden *warden, const struct get *get)
{
    struct message_path message = {.bytes = get->left, .path = ""};
    uint8_t payload[MESSAGE_PATH_HEADER + 1];
    ssize_t length = message_path_pack(&message, payload, sizeof(payload));

    if (length >= 0)
        channel_control(warden, FRAME_ENTRY, get->op.id, payload, (size_t)length);
}

static const struct file_kind get_kind = {.produce = get_produce, .release = get_release};

static int get_open(struct get *get, const struct place *place, const struct message_path *message)
{
    struct stat status;
    int fd = place_open(place, O_RDONLY);

    if (fd < 0)
        return fd == -ENXIO ? -EINVAL : fd; /* a socket cannot be opened */
    get->fd = fd;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (S_ISDIR(status.st_mode))
        return -EISDIR;
    if (!S_ISREG(status.st_mode))
        return -EINVAL;
    get->start = message->offset;
    if (message->offset < (uint64_t)status.st_size)
        get->left = (uint64_t)status.st_size - message->offset;
    if (message->bytes > 0)
        get->left = MIN(get->left, message->bytes);
    return 0;
}

void file_get(struct warden *warden, const struct frame *frame)
{
    struct message_path message;
    struct place place;
    int r = file_place(warden, frame, &message, &place);
    struct get *get = file_op_new(warden, frame->id, &get_kind, sizeof(*get));

    if (!get)
        return;
    get->fd = -1;
    if (r == 0)
        r = get_open(get, &place, &message);
    if (r < 0)
        file_op_end(warden, &get->op, r);
    else
        say_size(warden, get);
}

bool file_ack(struct warden *warden, uint32_t id, const struct message_ack *ack)
{
    struct get *get = file_op_find(warden, id, &get_kind);

    if (!get)
        return false;
    if (ack->stream != 0 || ack->offset < get->acked || ack->offset > get->done)
        warden_end(warden);
    get->acked = ack->offset;
    return true;
}
