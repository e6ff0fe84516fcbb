/*
 * find.c - chooses the bailey.yaml to read, and checks whether it may be trusted.
 *
 * A file that was found, not named, must be owned by the caller (or root) and not writable by other
 * users: otherwise a guest's output or another user's file in the working folder would set the next
 * run's limits (attack 44 of docs/security.md). The check uses the descriptor that is then read, so
 * the file cannot be swapped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config_private.h"

#define FILE_NAME "bailey.yaml"
#define SYSTEM_FILE "/etc/bailey/" FILE_NAME

enum trust {
    NAMED,     /* by the caller: any regular file is accepted */
    FOUND,     /* in a configuration folder; may be a link */
    FOUND_HERE /* in the working folder; a link is refused */
};

static int distrust(const char *path, const char *why, const char *remedy, struct error *err)
{
    return error_set(err, -EPERM, ERROR_BAD_CONFIG,
                     "%s: not read, because %s; %s, or name it with BAILEY_CONFIG", path, why,
                     remedy);
}

static int check_open_file(int fd, const char *path, enum trust trust, struct error *err)
{
    struct stat status;

    if (fstat(fd, &status) < 0)
        return error_errno(err, "%s", path);
    if (!S_ISREG(status.st_mode))
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG, "%s: not a regular file", path);
    if (trust == NAMED)
        return 0;
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return distrust(path, "it belongs to another user", "make it yours (chown)", err);
    if (status.st_mode & (S_IWGRP | S_IWOTH))
        return distrust(path, "others may write it", "run chmod go-w on it", err);
    return 0;
}

/* Opens one candidate; *ret_fd stays -1 if it does not exist (a named one must exist). */
static int try_file(const char *path, enum trust trust, int *ret_fd, struct error *err)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK; /* a fifo must not block */
    CLEANUP(fd_closep) int fd = open(path, trust == FOUND_HERE ? flags | O_NOFOLLOW : flags);
    struct stat status;
    int r;

    if (fd < 0 && trust != NAMED) {
        if (errno == ENOENT || errno == ENOTDIR)
            return 0;
        /* A parent folder that may not be entered hides whether the file exists; a file that
         * exists and may not be read is an error, because its limits would be lost silently. */
        if (errno == EACCES && fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
            return 0;
        if (errno == ELOOP && trust == FOUND_HERE)
            return distrust(path, "it is a symbolic link", "put a regular file there", err);
    }
    if (fd < 0) {
        r = error_errno(err, "%s", path);
        if (err)
            err->code = ERROR_BAD_CONFIG;
        return r;
    }
    r = check_open_file(fd, path, trust, err);
    if (r < 0)
        return r;
    *ret_fd = fd_take(&fd);
    return 0;
}

/* $XDG_CONFIG_HOME/bailey/bailey.yaml; an empty text if there is no such folder. */
static void home_file(char *const *env, char *path, size_t size)
{
    const char *folder = env_text(env, "XDG_CONFIG_HOME");
    const char *home = env_text(env, "HOME");
    int r;

    if (folder &&
        folder[0] ==
            '/') /* a relative path is invalid and ignored, as the XDG specification says */
        r = str_format(path, size, "%s/bailey/" FILE_NAME, folder);
    else
        r = home ? str_format(path, size, "%s/.config/bailey/" FILE_NAME, home) : -ENOENT;
    if (r < 0)
        path[0] = '\0';
}

int find_file(const char *file, char *const *env, char **ret_path, int *ret_fd, struct error *err)
{
    char in_home[LIMIT_PATH_BYTES + 1];
    const char *named = file ? file : env_text(env, "BAILEY_CONFIG");
    const struct {
        const char *path;
        enum trust trust;
    } places[] = {{FILE_NAME, FOUND_HERE}, {in_home, FOUND}, {SYSTEM_FILE, FOUND}};
    CLEANUP(fd_closep) int fd = -1;
    const char *path = named;
    int r;

    *ret_fd = -1;
    *ret_path = NULL;
    if (named) {
        r = try_file(named, NAMED, &fd, err);
        if (r < 0)
            return r;
    } else {
        home_file(env, in_home, sizeof(in_home));
        for (size_t i = 0; i < ARRAY_SIZE(places) && fd < 0; i++) {
            path = places[i].path;
            r = path[0] ? try_file(path, places[i].trust, &fd, err) : 0;
            if (r < 0)
                return r;
        }
    }
    if (fd < 0)
        return 0;
    *ret_path = strdup(path);
    if (!*ret_path)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "reading %s: out of memory", path);
    *ret_fd = fd_take(&fd);
    return 0;
}
