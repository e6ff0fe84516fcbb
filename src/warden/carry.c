/*
 * carry.c - a move between two file systems, where rename(2) is impossible: the source is copied in
 * small steps to a temporary name beside its destination, renamed, and then removed.
 *
 * The shares of a container are separate file systems. Until the copy is complete it is not visible
 * under its new name; an operation that fails or is cancelled leaves the source. What the guest
 * changes meanwhile is copied as it is found: a file ends where it ended when it was opened, and
 * links are never followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/id.h"
#include "sys/calls.h"
#include "warden/file_op.h"

#define STEP_BYTES (64 * KIB)

struct level {
    struct scan scan; /* of the folder that is copied */
    int to_fd;
    struct stat status;
};

struct carry {
    struct file_op op;
    int from_fd, to_fd; /* the folders that have the two names */
    char *from, *to;
    char temporary[ID_MAX]; /* in to_fd; empty: there is none */
    bool is_folder;
    int in_fd, out_fd; /* the file that is being copied; -1 */
    struct stat status;
    uint64_t left; /* bytes of it */
    struct level *levels[LIMIT_TREE_DEPTH];
    unsigned depth;
};

static void level_free(struct level *level)
{
    scan_close(&level->scan);
    fd_closep(&level->to_fd);
    free(level);
}

static void close_file(struct carry *carry)
{
    fd_closep(&carry->in_fd);
    fd_closep(&carry->out_fd);
    carry->in_fd = carry->out_fd = -1;
}

static void carry_release(struct warden *warden, struct file_op *op)
{
    struct carry *carry = (struct carry *)op;

    (void)warden;
    close_file(carry);
    while (carry->depth > 0)
        level_free(carry->levels[--carry->depth]);
    if (carry->temporary[0] && carry->is_folder)
        folder_remove(carry->to_fd, carry->temporary);
    else if (carry->temporary[0])
        unlinkat(carry->to_fd, carry->temporary, 0);
    fd_closep(&carry->from_fd);
    fd_closep(&carry->to_fd);
    free(carry->from);
    free(carry->to);
}

/* The same mode, without the bits that a frame must not set. */
static int give_status(int fd, const struct stat *status)
{
    const struct timespec times[2] = {status->st_atim, status->st_mtim};

    if (fchmod(fd, status->st_mode & (S_ISDIR(status->st_mode) ? 01777 : 0777)) < 0)
        return -errno;
    return futimens(fd, times) < 0 ? -errno : 0;
}

static int begin_file(struct carry *carry, int dir_fd, const char *name, int to_fd,
                      const char *to_name)
{
    int r = open_beneath(dir_fd, name, O_RDONLY, RESOLVE_NO_SYMLINKS);

    if (r < 0)
        return r;
    carry->in_fd = r;
    if (fstat(carry->in_fd, &carry->status) < 0)
        return -errno;
    if (!S_ISREG(carry->status.st_mode))
        return -EINVAL;
    carry->left = (uint64_t)carry->status.st_size;
    carry->out_fd = openat(to_fd, to_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return carry->out_fd < 0 ? -errno : 0;
}

static int begin_folder(struct carry *carry, int dir_fd, const char *name, int to_fd,
                        const char *to_name)
{
    struct level *level;
    int fd;

    if (carry->depth == LIMIT_TREE_DEPTH)
        return -ELOOP;
    fd = open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
    if (fd < 0)
        return fd;
    level = calloc(1, sizeof(*level));
    if (!level) {
        close(fd);
        return -ENOMEM;
    }
    scan_open(&level->scan, fd);
    level->to_fd = -1;
    carry->levels[carry->depth++] = level;
    if (fstat(fd, &level->status) < 0 || mkdirat(to_fd, to_name, 0700) < 0)
        return -errno;
    level->to_fd = open_beneath(to_fd, to_name, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
    return level->to_fd < 0 ? level->to_fd : 0;
}

static int copy_link(int dir_fd, const char *name, int to_fd, const char *to_name)
{
    char target[LIMIT_PATH_BYTES + 1];
    ssize_t length = readlinkat(dir_fd, name, target, sizeof(target));

    if (length < 0)
        return -errno;
    if (length == sizeof(target))
        return -ENAMETOOLONG;
    target[length] = 0;
    return symlinkat(target, to_fd, to_name) < 0 ? -errno : 0;
}

static int begin_name(struct carry *carry, int dir_fd, const char *name, int to_fd,
                      const char *to_name)
{
    struct stat status;

    if (fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    switch (status.st_mode & S_IFMT) {
    case S_IFDIR:
        return begin_folder(carry, dir_fd, name, to_fd, to_name);
    case S_IFREG:
        return begin_file(carry, dir_fd, name, to_fd, to_name);
    case S_IFLNK:
        return copy_link(dir_fd, name, to_fd, to_name);
    case S_IFIFO:
        return mknodat(to_fd, to_name, S_IFIFO | (status.st_mode & 0777), 0) < 0 ? -errno : 0;
    default:
        return -EINVAL; /* a socket without a listener is useless */
    }
}

static int copy_piece(struct carry *carry)
{
    ssize_t length =
        sendfile(carry->out_fd, carry->in_fd, NULL, MIN(carry->left, (uint64_t)STEP_BYTES));
    int r;

    if (length < 0)
        return errno == EINTR ? 0 : -errno;
    carry->left -= (uint64_t)length;
    if (length > 0 && carry->left > 0)
        return 0;
    r = give_status(carry->out_fd, &carry->status);
    close_file(carry);
    return r;
}

/* An entry that was removed after its folder was read is skipped. */
static int folder_step(struct carry *carry)
{
    struct level *level = carry->levels[carry->depth - 1];
    const char *name;
    bool is_folder;
    int r = scan_next(&level->scan, &name, &is_folder);

    if (r > 0) {
        r = begin_name(carry, level->scan.fd, name, level->to_fd, name);
        return r == -ENOENT ? 0 : r;
    }
    if (r == 0)
        r = give_status(level->to_fd, &level->status);
    level_free(level);
    carry->depth--;
    return r;
}

/* The copy is complete. A folder is then removed in separate steps, which report the end. */
static void take_place(struct warden *warden, struct carry *carry)
{
    CLEANUP(fd_closep) int from_fd = -1;
    uint32_t id = carry->op.id;
    char *from;
    int r = 0;

    if (renameat(carry->to_fd, carry->temporary, carry->to_fd, carry->to) < 0) {
        file_op_end(warden, &carry->op, -errno);
        return;
    }
    carry->temporary[0] = 0;
    if (!carry->is_folder) {
        if (unlinkat(carry->from_fd, carry->from, 0) < 0)
            r = -errno;
        file_op_end(warden, &carry->op, r);
        return;
    }
    from_fd = fd_take(&carry->from_fd);
    from = carry->from;
    carry->from = NULL;
    file_op_free(warden, &carry->op);
    tree_remove(warden, id, fd_take(&from_fd), from);
    free(from);
}

static bool carry_work(struct warden *warden, struct file_op *op, unsigned steps)
{
    struct carry *carry = (struct carry *)op;
    int r = 0;

    while (r == 0 && (carry->in_fd >= 0 || carry->depth > 0) && steps-- > 0)
        r = carry->in_fd >= 0 ? copy_piece(carry) : folder_step(carry);
    if (r < 0) {
        file_op_end(warden, op, r);
        return false;
    }
    if (carry->in_fd >= 0 || carry->depth > 0)
        return true;
    take_place(warden, carry);
    return true; /* maybe with the removal of what was copied */
}

static const struct file_kind carry_kind = {.work = carry_work, .release = carry_release};

void carry_move(struct warden *warden, uint32_t id, int from_fd, const char *from, int to_fd,
                const char *to)
{
    struct carry *carry = file_op_new(warden, id, &carry_kind, sizeof(*carry));
    struct stat status;
    int r;

    if (!carry) {
        close(from_fd);
        close(to_fd);
        return;
    }
    carry->from_fd = from_fd;
    carry->to_fd = to_fd;
    carry->in_fd = carry->out_fd = -1;
    carry->from = strdup(from);
    carry->to = strdup(to);
    r = carry->from && carry->to ? id_make(carry->temporary, PUT_TEMPORARY) : -ENOMEM;
    if (r == 0 && fstatat(from_fd, from, &status, AT_SYMLINK_NOFOLLOW) < 0)
        r = -errno;
    if (r == 0) {
        carry->is_folder = S_ISDIR(status.st_mode);
        r = begin_name(carry, from_fd, from, to_fd, carry->temporary);
    }
    if (r < 0)
        file_op_end(warden, &carry->op, r);
}
