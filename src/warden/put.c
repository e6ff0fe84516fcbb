/*
 * put.c - a file into the box.
 *
 * An atomic put writes to a temporary name beside the target and renames it at the end, so half a
 * file is never visible; an existing file is replaced, a symbolic link too, and never written
 * through. A put in place writes into the file that the name leads to, beneath the share; regular
 * files only.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "sys/calls.h"
#include "warden/file_op.h"

#define TEMPORARY_LENGTH 44 /* the prefix, _ and 32 digits */
#define NAMES_MAX 8 /* that a random name exists already is no accident; this many are tried */
#define RACES_MAX 8 /* files that come and go between two looks */

struct put {
    struct file_op op;
    int fd;
    int dir_fd; /* the parent folder; -1 for a put in place */
    char *name; /* in dir_fd */
    char temporary[ID_MAX];
    uint32_t mode, flags;
    uint64_t start; /* offset of the first byte in the file */
    uint64_t done;  /* bytes of the host so far */
};

static void put_release(struct warden *warden, struct file_op *op)
{
    struct put *put = (struct put *)op;

    (void)warden;
    if (put->temporary[0])
        unlinkat(put->dir_fd, put->temporary, 0);
    put->temporary[0] = 0;
    fd_closep(&put->fd);
    fd_closep(&put->dir_fd);
    put->fd = put->dir_fd = -1;
    free(put->name);
    put->name = NULL;
}

static const struct file_kind put_kind = {.is_fed = true, .release = put_release};

bool put_is_temporary(const char *name)
{
    return str_starts(name, PUT_TEMPORARY "_") && strlen(name) == TEMPORARY_LENGTH;
}

static int give_file(const struct sandbox_plan *plan, int fd)
{
    return plan->has_split && fchown(fd, plan->guest_id, plan->guest_id) < 0 ? -errno : 0;
}

/* The folder for the name, made where missing; nothing that means a folder can be a file's name. */
static int open_folder(struct warden *warden, struct put *put, struct place *place)
{
    struct place_parts parts;
    int r = place_split(place, &parts);

    if (r < 0 || parts.has_slash)
        return -EISDIR;
    r = place_make_folder(warden->sandbox, place->share_fd, parts.folder, 0755, &put->dir_fd);
    if (r < 0)
        return r;
    put->name = strdup(parts.last);
    return put->name ? 0 : -ENOMEM;
}

/* Errors that can be known before the bytes arrive are reported before; the rename decides. */
static int check_name(const struct put *put)
{
    struct stat status;

    if (fstatat(put->dir_fd, put->name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (put->flags & PUT_NEW)
        return -EEXIST;
    return S_ISDIR(status.st_mode) ? -EISDIR : 0;
}

static int open_beside(struct warden *warden, struct put *put, struct place *place)
{
    int r = put->start != 0 ? -EINVAL : open_folder(warden, put, place);

    if (r == 0)
        r = check_name(put);
    for (int tries = 0; r == 0 && put->fd < 0; tries++) {
        char name[ID_MAX];

        r = id_make(name, PUT_TEMPORARY);
        if (r < 0)
            return r;
        put->fd =
            openat(put->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (put->fd >= 0)
            str_copy(put->temporary, sizeof(put->temporary), name);
        else if (errno != EEXIST || tries == NAMES_MAX)
            r = -errno;
    }
    return r < 0 ? r : give_file(warden->sandbox->plan, put->fd);
}

/* The file that is there. A fifo, a socket or a folder is not written to. */
static int open_there(struct put *put, const struct place *place)
{
    struct statvfs mount;
    struct stat status;
    int fd = place_open(place, O_WRONLY);

    if (fd == -EACCES && fstatvfs(place->share_fd, &mount) == 0 && mount.f_flag & ST_RDONLY)
        return -EROFS; /* the mode is asked before the mount is, and may be the host's */
    if (fd < 0)
        return fd == -ENXIO ? -EINVAL : fd;
    put->fd = fd;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return -EINVAL;
    return put->mode && fchmod(fd, put->mode & 0777) < 0 ? -errno : 0;
}

static int open_new(struct warden *warden, struct put *put, const struct place *place)
{
    struct place copy = *place;
    int r = put->name ? 0 : open_folder(warden, put, &copy);

    if (r < 0)
        return r;
    put->fd = openat(put->dir_fd, put->name,
                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (put->fd < 0)
        return -errno;
    r = give_file(warden->sandbox->plan, put->fd);
    if (r < 0)
        return r;
    return fchmod(put->fd, put->mode ? put->mode & 0777 : 0644) < 0 ? -errno : 0;
}

/*
 * Opened or made, never both in one call: fs.protected_regular refuses O_CREAT on a file of the
 * guest in a sticky folder. A link that leads to nothing is neither there nor new.
 */
static int open_in_place(struct warden *warden, struct put *put, const struct place *place)
{
    if (place_is_folder_name(place))
        return -EISDIR;
    if (put->flags & PUT_NEW)
        return open_new(warden, put, place);
    for (int tries = 0; tries < RACES_MAX; tries++) {
        int r = open_there(put, place);

        if (r != -ENOENT)
            return r;
        r = open_new(warden, put, place);
        if (r != -EEXIST)
            return r;
    }
    return -ENOENT;
}

/* The host may already have sent bytes: the operation stays until its end, and says DONE once. */
static void put_fail(struct warden *warden, struct put *put, int r)
{
    channel_done(warden, put->op.id, r);
    put_release(warden, &put->op);
    put->op.has_ended = true;
}

void file_put(struct warden *warden, const struct frame *frame)
{
    struct message_path message;
    struct place place;
    int r = file_place(warden, frame, &message, &place);
    struct put *put = file_op_new(warden, frame->id, &put_kind, sizeof(*put));

    put->fd = put->dir_fd = -1;
    if (put->op.has_ended)
        return;
    put->mode = message.mode;
    put->flags = message.flags;
    put->start = message.offset;
    if (r == 0 && (put->flags & ~(PUT_IN_PLACE | PUT_NEW) || put->start > INT64_MAX))
        r = -EINVAL;
    if (r == 0)
        r = put->flags & PUT_IN_PLACE ? open_in_place(warden, put, &place)
                                      : open_beside(warden, put, &place);
    if (r < 0)
        put_fail(warden, put, r);
}

static int write_at(struct put *put, const uint8_t *data, size_t length)
{
    uint64_t at = put->start + put->done;

    if (put->done > INT64_MAX - put->start || length > INT64_MAX - at)
        return -EFBIG;
    while (length > 0) {
        ssize_t written = pwrite(put->fd, data, length, (off_t)at);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        data += written;
        at += (uint64_t)written;
        length -= (size_t)written;
    }
    return 0;
}

void file_put_data(struct warden *warden, const struct frame *frame)
{
    struct put *put = file_op_find(warden, frame->id, &put_kind);
    struct message_bytes bytes;

    if (!put || message_bytes_unpack(frame, &bytes) < 0 || bytes.stream != 0 ||
        bytes.offset != put->done)
        warden_end(warden);
    if (!put->op.has_ended) {
        int r = write_at(put, bytes.data, bytes.length);

        if (r < 0)
            put_fail(warden, put, r);
    }
    put->done += bytes.length;
    channel_ack(warden, put->op.id, 0, put->done);
}

/* Mode and owner of what it replaces, as it is now; an owner that has no number here stays ours. */
static int take_after(const struct put *put)
{
    struct stat old, new;

    if (put->mode)
        return fchmod(put->fd, put->mode & 0777) < 0 ? -errno : 0;
    if (fstatat(put->dir_fd, put->name, &old, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(old.st_mode))
        return fchmod(put->fd, 0644) < 0 ? -errno : 0;
    if (fstat(put->fd, &new) < 0)
        return -errno;
    if ((old.st_uid != new.st_uid || old.st_gid != new.st_gid) &&
        fchown(put->fd, old.st_uid, old.st_gid) < 0 && errno != EPERM && errno != EINVAL)
        return -errno;
    return fchmod(put->fd, old.st_mode & 0777) < 0 ? -errno : 0;
}

static int take_place(struct put *put)
{
    unsigned flags = put->flags & PUT_NEW ? RENAME_NOREPLACE : 0;
    int r = take_after(put);

    if (r < 0)
        return r;
    fd_closep(&put->fd); /* watchers see one change: the complete file appears */
    if (sys_renameat2(put->dir_fd, put->temporary, put->dir_fd, put->name, flags) < 0)
        return -errno;
    put->temporary[0] = 0;
    return 0;
}

void file_put_end(struct warden *warden, uint32_t id)
{
    struct put *put = file_op_find(warden, id, &put_kind);

    if (!put)
        warden_end(warden);
    if (put->op.has_ended)
        file_op_free(warden, &put->op);
    else
        file_op_end(warden, &put->op, put->temporary[0] ? take_place(put) : 0);
}
