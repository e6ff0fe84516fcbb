/*
 * path.c - names that the host gives, resolved by the kernel beneath the box's shares.
 *
 * Symbolic links are followed only while they stay beneath; absolute or escaping ones are refused
 * by openat2(2) with EXDEV, and so is a way into another mount. No string comparison decides where
 * a name leads, only in which share it begins. What is made gets its name in a folder that is
 * already open, in which a last component can lead nowhere else.
 */
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
#include "sys/calls.h"
#include "warden/file_op.h"

#define OWN_FILES "/bailey"
#define RACES_MAX 32 /* lookups that the guest may spoil by renaming before we give up */

/* The host's names of the shares, whatever their real paths are; the longer name first. */
static const struct {
    enum share share;
    const char *name;
} share_names[] = {
    {SHARE_DATA, "/tmp/data"},
    {SHARE_WORKSPACE, "/workspace"},
    {SHARE_TMP, "/tmp"},
    {SHARE_HOME, "/home/user"},
};

int place_find(const struct sandbox *sandbox, const char *path, size_t length, struct place *ret)
{
    if (length == 0)
        return -ENOENT;
    if (length > LIMIT_PATH_BYTES)
        return -ENAMETOOLONG;
    for (size_t i = 0; i < ARRAY_SIZE(share_names); i++) {
        size_t prefix = strlen(share_names[i].name);
        int share_fd = sandbox->share_fd[share_names[i].share];

        if (share_fd < 0 || length < prefix || memcmp(path, share_names[i].name, prefix) != 0)
            continue;
        if (length > prefix && path[prefix] != '/')
            continue;
        while (prefix < length && path[prefix] == '/')
            prefix++;
        memcpy(ret->name, path + prefix, length - prefix);
        ret->name[length - prefix] = 0;
        if (prefix == length)
            str_copy(ret->name, sizeof(ret->name), ".");
        ret->share = share_names[i].share;
        ret->share_fd = share_fd;
        return 0;
    }
    return -EACCES;
}

char *place_real(const struct sandbox *sandbox, const char *path)
{
    const struct sandbox_plan *plan = sandbox->plan;
    const char *real = NULL, *rest = NULL;
    char *text = NULL;

    if (!plan->own_files || path[0] != '/')
        return NULL;
    if (str_starts(path, OWN_FILES)) {
        real = plan->own_files;
        rest = path + strlen(OWN_FILES);
    }
    for (size_t i = 0; i < ARRAY_SIZE(share_names) && !real; i++) {
        const char *name = share_names[i].name;

        if (str_starts(path, name) && strchr("/", path[strlen(name)])) {
            real = plan->share_path[share_names[i].share];
            rest = path + strlen(name);
        }
    }
    if (!real || (rest[0] && rest[0] != '/'))
        return NULL;
    return asprintf(&text, "%s%s", real, rest) < 0 ? NULL : text;
}

/* Where a rename crosses a lookup of "..", the kernel cannot say where it leads: EAGAIN. */
int open_beneath(int dir_fd, const char *name, int flags, uint64_t resolve)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC),
        .resolve = resolve | RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    int fd = -1;

    if (!(flags & O_PATH))
        how.flags |= O_NONBLOCK | O_NOCTTY; /* a fifo must not hold us up */
    for (int tries = 0; tries < RACES_MAX; tries++) {
        fd = sys_openat2(dir_fd, name, &how);
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
            break;
    }
    return fd < 0 ? -errno : fd;
}

int place_open(const struct place *place, int flags)
{
    return open_beneath(place->share_fd, place->name, flags, 0);
}

bool place_is_folder_name(const struct place *place)
{
    const char *slash = strrchr(place->name, '/');
    const char *last = slash ? slash + 1 : place->name;

    return !*last || str_equal(last, ".") || str_equal(last, "..");
}

int place_split(struct place *place, struct place_parts *ret)
{
    size_t length = strlen(place->name);
    char *slash;

    *ret = (struct place_parts){.folder = ".", .last = place->name};
    while (length > 1 && place->name[length - 1] == '/') {
        place->name[--length] = 0;
        ret->has_slash = true;
    }
    slash = strrchr(place->name, '/');
    if (slash) {
        *slash = 0;
        ret->folder = place->name;
        ret->last = slash + 1;
    } else if (str_equal(place->name, ".")) {
        return -EBUSY;
    }
    return str_equal(ret->last, ".") || str_equal(ret->last, "..") ? -EINVAL : 0;
}

int place_open_parent(struct place *place, struct place_parts *ret, int *ret_fd)
{
    int r = place_split(place, ret);

    if (r == 0)
        r = open_beneath(place->share_fd, ret->folder, O_PATH | O_DIRECTORY, 0);
    if (r < 0)
        return r;
    *ret_fd = r;
    return 0;
}

/* Files that we create belong to the guest, with the requested mode, whatever our umask is. */
static int give_folder(const struct sandbox *sandbox, int dir_fd, const char *name, mode_t mode)
{
    uid_t id = sandbox->plan->guest_id;
    CLEANUP(fd_closep)
    int fd = open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);

    if (fd < 0)
        return fd;
    if (sandbox->plan->has_split && fchown(fd, id, id) < 0)
        return -errno;
    return fchmod(fd, mode) < 0 ? -errno : 0;
}

/* One folder: `path` from the share on, `name` in the folder above it. Opened, or made first. */
static int enter_folder(const struct sandbox *sandbox, int share_fd, const char *path, int above_fd,
                        const char *name, mode_t mode)
{
    int fd = open_beneath(share_fd, path, O_PATH | O_DIRECTORY, 0);
    bool is_made;
    int r;

    if (fd != -ENOENT)
        return fd;
    is_made = mkdirat(above_fd, name, 0700) == 0;
    if (!is_made && errno != EEXIST)
        return -errno;
    r = is_made ? give_folder(sandbox, above_fd, name, mode) : 0;
    if (r < 0)
        return r;
    fd = open_beneath(share_fd, path, O_PATH | O_DIRECTORY, 0);
    return fd == -ENOENT && !is_made ? -EEXIST : fd; /* a link that leads to nothing */
}

/*
 * Every prefix is resolved by the kernel from the share on, so that links between folders of a
 * share and ".." mean here what they mean when the name is read; mkdirat(2) gets one component.
 */
int place_make_folder(const struct sandbox *sandbox, int share_fd, const char *name, mode_t mode,
                      int *ret_fd)
{
    char path[LIMIT_PATH_BYTES + 1];
    int fd = open_beneath(share_fd, name, O_PATH | O_DIRECTORY, 0);

    if (fd == -ENOENT) {
        fd = fcntl(share_fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            return -errno;
        for (size_t at = 0; fd >= 0 && name[at];) {
            size_t start = at, end = at + strcspn(name + at, "/");
            int above_fd = fd;

            memcpy(path, name, end);
            path[end] = 0;
            at = end + strspn(name + end, "/");
            fd = enter_folder(sandbox, share_fd, path, above_fd, path + start,
                              name[at] ? 0755 : mode);
            close(above_fd);
        }
    }
    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}
