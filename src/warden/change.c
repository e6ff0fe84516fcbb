/*
 * change.c - changes that are one system call each: making folders, moving and removing names,
 * modes. Removing a tree begins here and continues in tree.c.
 *
 * The parent folder of a name is opened beneath its share, and the last component is used in it: no
 * call here follows a link at the end, except chmod(2), whose target is opened beneath the share
 * too.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/calls.h"
#include "warden/file_op.h"

void file_mkdir(struct warden *warden, const struct frame *frame)
{
    CLEANUP(fd_closep) int fd = -1;
    struct message_path message;
    struct place place;
    int r = file_place(warden, frame, &message, &place);

    if (r == 0)
        r = place_make_folder(warden->sandbox, place.share_fd, place.name,
                              message.mode ? message.mode & 01777 : 0755, &fd);
    channel_done(warden, frame->id, r);
}

/* A trailing slash means that the name is a folder; the kernel would require that too. */
static int check_slash(int dir_fd, const struct place_parts *parts)
{
    struct stat status;

    if (!parts->has_slash)
        return 0;
    if (fstatat(dir_fd, parts->last, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
}

/*
 * The folder that `fd` refers to, as a folder of the mount that contains all shares. Its name is
 * resolved once more, beneath its share there; if it is under another mount, or has changed
 * meanwhile, it is a different folder.
 */
static int open_on_disk(const struct sandbox *sandbox, const struct place *place,
                        const char *folder, int fd)
{
    const char *path = sandbox->plan->share_path[place->share];
    CLEANUP(fd_closep) int share_fd = -1;
    CLEANUP(fd_closep) int disk_fd = -1;
    struct stat here, there;

    share_fd = openat(sandbox->disk_fd, path + strspn(path, "/"),
                      O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (share_fd < 0)
        return -errno;
    disk_fd = open_beneath(share_fd, folder, O_PATH | O_DIRECTORY, 0);
    if (disk_fd < 0)
        return disk_fd;
    if (fstat(fd, &here) < 0 || fstat(disk_fd, &there) < 0)
        return -errno;
    if (here.st_ino != there.st_ino || here.st_dev != there.st_dev)
        return -EXDEV;
    return fd_take(&disk_fd);
}

/* From one share to another: no rename(2) between their mounts, but they are one disk. */
static int move_across(const struct sandbox *sandbox, const struct place *from,
                       const struct place_parts *from_parts, int *from_fd, const struct place *to,
                       const struct place_parts *to_parts, int *to_fd)
{
    int r;

    if (from->share == SHARE_DATA || to->share == SHARE_DATA)
        return -EROFS;
    if (sandbox->disk_fd < 0)
        return 0; /* as far as the kernel lets us */
    r = open_on_disk(sandbox, from, from_parts->folder, *from_fd);
    if (r < 0)
        return r;
    fd_closep(from_fd);
    *from_fd = r;
    r = open_on_disk(sandbox, to, to_parts->folder, *to_fd);
    if (r < 0)
        return r;
    fd_closep(to_fd);
    *to_fd = r;
    return 0;
}

/* 1: it continues, and reports its end itself. */
static int move(struct warden *warden, uint32_t id, struct place *from, struct place *to)
{
    const struct sandbox *sandbox = warden->sandbox;
    CLEANUP(fd_closep) int from_fd = -1;
    CLEANUP(fd_closep) int to_fd = -1;
    struct place_parts from_parts, to_parts;
    int r = place_open_parent(from, &from_parts, &from_fd);

    if (r == 0)
        r = place_open_parent(to, &to_parts, &to_fd);
    if (r < 0)
        return r;
    from_parts.has_slash |= to_parts.has_slash;
    r = check_slash(from_fd, &from_parts);
    if (r == 0 && from->share != to->share)
        r = move_across(sandbox, from, &from_parts, &from_fd, to, &to_parts, &to_fd);
    if (r < 0)
        return r;
    if (renameat(from_fd, from_parts.last, to_fd, to_parts.last) == 0)
        return 0;
    if (errno != EXDEV || from->share == to->share || !sandbox->plan->has_container)
        return -errno;
    carry_move(warden, id, fd_take(&from_fd), from_parts.last, fd_take(&to_fd), to_parts.last);
    return 1;
}

void file_move(struct warden *warden, const struct frame *frame)
{
    struct message_move message;
    struct place from, to;
    int r;

    if (message_move_unpack(frame, &message) < 0 || frame->id == 0)
        warden_end(warden);
    r = place_find(warden->sandbox, message.from, message.from_length, &from);
    if (r == 0)
        r = place_find(warden->sandbox, message.to, message.to_length, &to);
    if (r == 0 && from.share_fd != to.share_fd &&
        (from.share_fd == warden->sandbox->share_fd[SHARE_DATA] ||
         to.share_fd == warden->sandbox->share_fd[SHARE_DATA]))
        r = -EROFS; /* the kernel's error would be about two mounts */
    if (r == 0)
        r = move(warden, frame->id, &from, &to);
    if (r <= 0)
        channel_done(warden, frame->id, r);
}

/* 1: it is a folder that is not empty. */
static int remove_one(int dir_fd, const struct place_parts *parts)
{
    struct stat status;

    if (fstatat(dir_fd, parts->last, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISDIR(status.st_mode) && parts->has_slash)
        return -ENOTDIR;
    if (unlinkat(dir_fd, parts->last, S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0) == 0)
        return 0;
    return errno == ENOTEMPTY || errno == EEXIST ? 1 : -errno;
}

void file_remove(struct warden *warden, const struct frame *frame)
{
    CLEANUP(fd_closep) int dir_fd = -1;
    struct message_path message;
    struct place_parts parts;
    struct place place;
    int r = file_place(warden, frame, &message, &place);

    if (r == 0 && message.flags & ~REMOVE_TREE)
        r = -EINVAL;
    if (r == 0)
        r = place_open_parent(&place, &parts, &dir_fd);
    if (r == 0)
        r = remove_one(dir_fd, &parts);
    if (r == 1 && message.flags & REMOVE_TREE)
        tree_remove(warden, frame->id, fd_take(&dir_fd), parts.last);
    else
        channel_done(warden, frame->id, r == 1 ? -ENOTEMPTY : r);
}

/*
 * fchmod(2) needs an open file, which the mode itself may forbid, and chmod(2) of a path would
 * follow a link that the guest puts there. fchmodat2(2) exists since Linux 6.6; before that the
 * descriptor's own link in /proc is used, which some boxes do not have.
 */
int mode_set(int path_fd, mode_t mode)
{
    char path[64];

    if (sys_fchmodat2(path_fd, "", mode, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno != ENOSYS && errno != EPERM && errno != EINVAL)
        return -errno;
    str_format(path, sizeof(path), "/proc/self/fd/%d", path_fd);
    return chmod(path, mode) < 0 ? -errno : 0;
}

/* The last way: the file itself is opened, which a warden with its own id always may. */
static int mode_set_open(const struct place *place, const struct stat *expected, mode_t mode)
{
    CLEANUP(fd_closep) int fd = place_open(place, O_RDONLY);
    struct stat status;

    if (fd < 0)
        return fd;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (status.st_ino != expected->st_ino || status.st_dev != expected->st_dev)
        return -EAGAIN;
    return fchmod(fd, mode) < 0 ? -errno : 0;
}

static int change_mode(const struct place *place, mode_t mode)
{
    CLEANUP(fd_closep) int fd = place_open(place, O_PATH);
    struct stat status;
    int r;

    if (fd < 0)
        return fd;
    if (fstat(fd, &status) < 0)
        return -errno;
    /* A frame must not create a set-uid program. */
    mode &= S_ISDIR(status.st_mode) ? 01777 : 0777;
    r = mode_set(fd, mode);
    if (r == -ENOENT && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)))
        r = mode_set_open(place, &status, mode);
    return r;
}

void file_chmod(struct warden *warden, const struct frame *frame)
{
    struct message_path message;
    struct place place;
    int r = file_place(warden, frame, &message, &place);

    if (r == 0)
        r = str_equal(place.name, ".") ? -EBUSY : change_mode(&place, (mode_t)message.mode);
    channel_done(warden, frame->id, r);
}
