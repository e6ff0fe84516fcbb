/*
 * path.c - names that the host gives, resolved by the kernel beneath the box's writable folders.
 *
 * Symbolic links are followed only while they stay beneath; absolute or escaping ones are refused
 * by openat2(2) with EXDEV. No string comparison decides where a name leads, only in which share it
 * begins.
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
#include "warden/inside.h"

/* How the host names the shares, whatever their real place is. */
static const char *const share_names[_SHARE_MAX] = {
    [SHARE_WORKSPACE] = "/workspace",
    [SHARE_TMP] = "/tmp",
    [SHARE_HOME] = "/home/user",
};

int place_find(const struct sandbox *sandbox, const char *path, size_t length, struct place *ret)
{
    if (length == 0 || length > LIMIT_PATH_BYTES)
        return -ENAMETOOLONG;
    for (int i = 0; i < _SHARE_MAX; i++) {
        size_t prefix = strlen(share_names[i]);

        if (length < prefix || memcmp(path, share_names[i], prefix) != 0)
            continue;
        if (length > prefix && path[prefix] != '/')
            continue;
        while (prefix < length && path[prefix] == '/')
            prefix++;
        memcpy(ret->name, path + prefix, length - prefix);
        ret->name[length - prefix] = 0;
        if (prefix == length)
            str_copy(ret->name, sizeof(ret->name), ".");
        ret->share_fd = sandbox->share_fd[i];
        return 0;
    }
    return -EACCES;
}

static int open_beneath(int dir_fd, const char *name, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    int fd = sys_openat2(dir_fd, name, &how);

    return fd < 0 ? -errno : fd;
}

int place_open(const struct place *place, int flags)
{
    return open_beneath(place->share_fd, place->name, flags);
}

/* One folder: opened, or made for the guest. */
static int enter_folder(const struct sandbox *sandbox, int share_fd, const char *name)
{
    uid_t id = sandbox->plan->guest_id;
    int fd = open_beneath(share_fd, name, O_RDONLY | O_DIRECTORY);

    if (fd != -ENOENT)
        return fd;
    if (mkdirat(share_fd, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    fd = open_beneath(share_fd, name, O_RDONLY | O_DIRECTORY);
    if (fd >= 0 && sandbox->plan->has_split && fchown(fd, id, id) < 0) {
        int r = -errno;

        close(fd);
        return r;
    }
    return fd;
}

/*
 * Walks one component at a time, each beneath the folder before it, so that a name is never
 * resolved twice and mkdirat(2) never follows anything: its name has no slash.
 */
int place_make_parent(const struct sandbox *sandbox, const struct place *place, int *ret_fd,
                      const char **ret_name)
{
    CLEANUP(fd_closep) int fd = fcntl(place->share_fd, F_DUPFD_CLOEXEC, 0);
    const char *at = place->name;

    if (fd < 0)
        return -errno;
    for (;;) {
        size_t length = strcspn(at, "/");
        char name[256];
        int next;

        if (length == 0 || length > 255 || (length == 1 && *at == '.') ||
            (length == 2 && at[0] == '.' && at[1] == '.'))
            return -EINVAL;
        if (!at[length])
            break;
        memcpy(name, at, length);
        name[length] = 0;
        next = enter_folder(sandbox, fd, name);
        if (next < 0)
            return next;
        close(fd);
        fd = next;
        for (at += length; *at == '/'; at++)
            ;
    }
    *ret_fd = fd_take(&fd);
    *ret_name = at;
    return 0;
}
