/*
 * files.c - files in and out of the box, as bytes: put, get, list.
 *
 * A put writes beside the name and takes its place at the end, so nobody sees half a file. A get
 * and a list are producers: they make the next frame only when the channel has room for it, and a
 * get is at most one window ahead of the host. Only regular files are read; nothing here can block.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "warden/inside.h"
#include "wire/file_message.h"

enum file_kind { FILE_PUT, FILE_GET, FILE_LIST };

struct file_op {
    struct file_op *next;
    enum file_kind kind;
    uint32_t id;
    int fd; /* the file; -1 in a list */
    uint64_t done, acked;
    bool has_ended; /* PUT: failed early, DONE was sent; what still comes is dropped */

    /* put */
    int dir_fd;
    char *name; /* in dir_fd */
    char temporary[40];

    /* list: the way down to the current folder */
    DIR *folders[LIMIT_TREE_DEPTH];
    size_t lengths[LIMIT_TREE_DEPTH]; /* of `prefix` at each level */
    int depth;
    struct buf prefix;
    uint32_t entries;
};

static struct file_op *op_find(struct warden *warden, uint32_t id, enum file_kind kind)
{
    for (struct file_op *op = warden->files; op; op = op->next) {
        if (op->id == id && op->kind == kind)
            return op;
    }
    return NULL;
}

static struct file_op *op_new(struct warden *warden, const struct frame *frame, enum file_kind kind)
{
    struct file_op *op = calloc(1, sizeof(*op));

    if (!op)
        warden_end(warden);
    op->kind = kind;
    op->id = frame->id;
    op->fd = -1;
    op->dir_fd = -1;
    op->prefix = BUF_INIT(LIMIT_PATH_BYTES);
    op->next = warden->files;
    warden->files = op;
    return op;
}

static void op_free(struct warden *warden, struct file_op *op)
{
    for (struct file_op **at = &warden->files; *at; at = &(*at)->next) {
        if (*at == op) {
            *at = op->next;
            break;
        }
    }
    if (op->temporary[0])
        unlinkat(op->dir_fd, op->temporary, 0);
    fd_closep(&op->fd);
    fd_closep(&op->dir_fd);
    while (op->depth > 0)
        closedir(op->folders[--op->depth]);
    buf_free(&op->prefix);
    free(op->name);
    free(op);
}

static void op_end(struct warden *warden, struct file_op *op, int negative_errno)
{
    channel_done(warden, op->id, negative_errno);
    op_free(warden, op);
}

void file_forget_all(struct warden *warden)
{
    while (warden->files)
        op_free(warden, warden->files);
}

static int put_open(struct warden *warden, struct file_op *op, const struct message_path *path)
{
    const struct sandbox_plan *plan = warden->sandbox->plan;
    struct place place;
    const char *name;
    int r = place_find(warden->sandbox, path->path, path->path_length, &place);

    if (r == 0)
        r = place_make_parent(warden->sandbox, &place, &op->dir_fd, &name);
    if (r < 0)
        return r;
    op->name = strdup(name);
    if (!op->name)
        return -ENOMEM;
    str_format(op->temporary, sizeof(op->temporary), ".bailey-put-%u", op->id);
    op->fd = openat(op->dir_fd, op->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    0600);
    if (op->fd < 0) {
        r = -errno;
        op->temporary[0] = 0;
        return r;
    }
    if (plan->has_split && fchown(op->fd, plan->guest_id, plan->guest_id) < 0)
        return -errno;
    return fchmod(op->fd, path->mode & 0777) < 0 ? -errno : 0;
}

/* The host may already have sent bytes: the operation stays until its END, and says DONE only once.
 */
static void put_fail(struct warden *warden, struct file_op *op, int r)
{
    channel_done(warden, op->id, r);
    op->has_ended = true;
}

void file_put(struct warden *warden, const struct frame *frame)
{
    struct message_path path;
    struct file_op *op;
    int r;

    if (message_path_unpack(frame, &path) < 0)
        warden_end(warden);
    op = op_new(warden, frame, FILE_PUT);
    r = put_open(warden, op, &path);
    if (r < 0)
        put_fail(warden, op, r);
}

void file_put_data(struct warden *warden, const struct frame *frame)
{
    struct file_op *op = op_find(warden, frame->id, FILE_PUT);
    struct message_bytes bytes;
    int r;

    if (!op || message_bytes_unpack(frame, &bytes) < 0 || bytes.offset != op->done)
        warden_end(warden);
    op->done += bytes.length;
    if (!op->has_ended) {
        r = fd_write_all(op->fd, bytes.data, bytes.length);
        if (r < 0)
            put_fail(warden, op, r);
    }
    channel_ack(warden, op->id, 0, op->done);
}

void file_put_end(struct warden *warden, uint32_t id)
{
    struct file_op *op = op_find(warden, id, FILE_PUT);
    int r = 0;

    if (!op)
        warden_end(warden);
    if (op->has_ended) {
        op_free(warden, op);
        return;
    }
    if (renameat(op->dir_fd, op->temporary, op->dir_fd, op->name) < 0)
        r = -errno;
    else
        op->temporary[0] = 0;
    op_end(warden, op, r);
}

void file_get(struct warden *warden, const struct frame *frame)
{
    struct message_path path;
    struct place place;
    struct file_op *op;
    struct stat status;
    int r;

    if (message_path_unpack(frame, &path) < 0)
        warden_end(warden);
    op = op_new(warden, frame, FILE_GET);
    r = place_find(warden->sandbox, path.path, path.path_length, &place);
    if (r == 0)
        r = op->fd = place_open(&place, O_RDONLY);
    if (r >= 0 && fstat(op->fd, &status) < 0)
        r = -errno;
    else if (r >= 0 && S_ISDIR(status.st_mode))
        r = -EISDIR;
    else if (r >= 0 && !S_ISREG(status.st_mode))
        r = -EINVAL;
    if (r < 0)
        op_end(warden, op, r);
}

static bool get_produce(struct warden *warden, struct file_op *op)
{
    static char data[FRAME_DATA_MAX]; /* one thread */
    ssize_t length;

    if (op->done - op->acked > WIRE_STREAM_WINDOW - FRAME_DATA_MAX || warden->is_blocked ||
        warden->control.length > 0)
        return false;
    length = pread(op->fd, data, sizeof(data), (off_t)op->done);
    if (length <= 0) {
        op_end(warden, op, length < 0 ? -errno : 0);
        return true;
    }
    if (!channel_bytes(warden, FRAME_DATA, op->id, 0, op->done, data, (size_t)length))
        return false; /* read again when there is room */
    op->done += (uint64_t)length;
    return true;
}

bool file_ack(struct warden *warden, uint32_t id, const struct message_ack *ack)
{
    struct file_op *op = op_find(warden, id, FILE_GET);

    if (!op)
        return false;
    if (ack->offset < op->acked || ack->offset > op->done)
        warden_end(warden);
    op->acked = ack->offset;
    return true;
}

static int list_enter(struct file_op *op, int fd)
{
    DIR *folder;

    folder = fdopendir(fd);
    if (!folder) {
        int r = -errno;

        close(fd);
        return r;
    }
    op->lengths[op->depth] = op->prefix.length;
    op->folders[op->depth++] = folder;
    return 0;
}

void file_list(struct warden *warden, const struct frame *frame)
{
    struct message_path path;
    struct place place;
    struct file_op *op;
    int r;

    if (message_path_unpack(frame, &path) < 0)
        warden_end(warden);
    op = op_new(warden, frame, FILE_LIST);
    r = place_find(warden->sandbox, path.path, path.path_length, &place);
    if (r == 0)
        r = place_open(&place, O_RDONLY | O_DIRECTORY);
    if (r >= 0)
        r = list_enter(op, r);
    if (r < 0)
        op_end(warden, op, r);
}

/* Sends one entry and goes down into it when it is a folder. */
static void list_entry(struct warden *warden, struct file_op *op, struct dirent *entry)
{
    int dir_fd = dirfd(op->folders[op->depth - 1]);
    struct message_path message = {0};
    static uint8_t payload[LIMIT_PATH_BYTES + MESSAGE_PATH_HEADER];
    struct stat status;
    ssize_t length;
    size_t before = op->prefix.length;
    int fd = -1;

    if (fstatat(dir_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return; /* gone meanwhile */
    if (buf_printf(&op->prefix, "%s%s", before ? "/" : "", entry->d_name) < 0) {
        op->prefix.length = before;
        return; /* no frame could carry such a name */
    }
    message.mode = status.st_mode;
    message.bytes = (uint64_t)status.st_size;
    message.time_ns =
        (uint64_t)status.st_mtim.tv_sec * 1000000000 + (uint64_t)status.st_mtim.tv_nsec;
    message.path = op->prefix.data;
    message.path_length = op->prefix.length;
    length = message_path_pack(&message, payload, sizeof(payload));
    if (length >= 0)
        channel_control(warden, FRAME_ENTRY, op->id, payload, (size_t)length);
    op->entries++;
    if (S_ISDIR(status.st_mode) && op->depth < LIMIT_TREE_DEPTH) {
        fd = openat(dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && list_enter(op, fd) == 0)
            return; /* the prefix stays while we are in it */
    }
    op->prefix.length = before;
}

static bool list_produce(struct warden *warden, struct file_op *op)
{
    struct dirent *entry;

    if (warden->is_blocked || warden->control.length > 0)
        return false;
    if (op->depth == 0 || op->entries >= LIMIT_LIST_ENTRIES) {
        op_end(warden, op, op->depth == 0 ? 0 : -E2BIG);
        return true;
    }
    entry = readdir(op->folders[op->depth - 1]);
    if (!entry) {
        closedir(op->folders[--op->depth]);
        op->prefix.length = op->depth > 0 ? op->lengths[op->depth - 1] : 0;
        return true;
    }
    if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
        list_entry(warden, op, entry);
    return true;
}

bool file_produce(struct warden *warden)
{
    struct file_op *next;
    bool progress = false;

    for (struct file_op *op = warden->files; op; op = next) {
        next = op->next;
        if (op->kind == FILE_GET)
            progress |= get_produce(warden, op);
        else if (op->kind == FILE_LIST)
            progress |= list_produce(warden, op);
    }
    return progress;
}

/* A folder that the guest removed or replaced has nothing; the listing would say the same. */
bool file_has_output(const struct sandbox *sandbox)
{
    int fd = openat(sandbox->share_fd[SHARE_TMP], "output",
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    int count = 0;

    if (!folder) {
        fd_closep(&fd);
        return false;
    }
    while (count < 3 && readdir(folder))
        count++; /* . and .. are always there */
    closedir(folder);
    return count > 2;
}
