/* folder.c - removes folders whose contents another program made; see folder.h. */
#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define FLATTEN_DEPTH 32
#define TRIES_MAX 10000

/* chmod(2) of a path would follow a link that the folder's owner puts there in the meantime. */
int folder_open(int dir_fd, const char *name)
{
    CLEANUP(fd_closep) int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    char path[64];

    if (fd < 0 || fstat(fd, &status) < 0)
        return -1;
    if (!S_ISDIR(status.st_mode)) {
        errno = ENOTDIR;
        return -1;
    }
    str_format(path, sizeof(path), "/proc/self/fd/%d", fd);
    if ((status.st_mode & S_IRWXU) != S_IRWXU && chmod(path, 0700) < 0)
        return -1;
    return openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

DIR *folder_list(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    if (!folder)
        fd_closep(&fd);
    return folder;
}

/*
 * Entries that are too deep are moved up first, so that any tree needs a bounded number of
 * descriptors.
 */
static void empty_folder(int top_fd, int fd, int depth, unsigned *serial)
{
    DIR *folder = folder_list(fd, ".");
    struct dirent *entry;

    if (!folder)
        return;
    while ((entry = readdir(folder))) {
        const char *name = entry->d_name;
        char moved[32];
        int below;

        if (str_equal(name, ".") || str_equal(name, ".."))
            continue;
        if (unlinkat(fd, name, 0) == 0 || (errno != EISDIR && errno != EPERM))
            continue;
        str_format(moved, sizeof(moved), ".moved-%u", (*serial)++);
        if (depth >= FLATTEN_DEPTH && renameat(fd, name, top_fd, moved) == 0)
            continue;
        below = folder_open(fd, name);
        if (below >= 0) {
            empty_folder(top_fd, below, depth + 1, serial);
            close(below);
        }
        unlinkat(fd, name, AT_REMOVEDIR);
    }
    closedir(folder);
}

int folder_remove(int dir_fd, const char *name)
{
    CLEANUP(fd_closep) int fd = folder_open(dir_fd, name);
    unsigned serial = 0;

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        empty_folder(fd, fd, 0, &serial);
        if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (errno != ENOTEMPTY && errno != EEXIST)
            return -errno;
    }
    return -ENOTEMPTY;
}

void folder_sweep(int dir_fd, const char *prefix)
{
    DIR *folder = folder_list(dir_fd, ".");
    struct dirent *entry;

    if (!folder)
        return;
    while ((entry = readdir(folder))) {
        if (str_starts(entry->d_name, prefix))
            folder_remove(dir_fd, entry->d_name);
    }
    closedir(folder);
}
