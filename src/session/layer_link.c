/* layer_link.c - makes one folder tree equal to another by hard links; see layer_link.h. */
#include "session/layer_link.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/str.h"

#define DEPTH_MAX 64
#define ENTRIES_PER_STEP 256
#define HIDDEN ".bailey-link" /* temporary name; no layer has a file of this name */

struct level {
    DIR *from; /* the tree that is walked */
    DIR *other;
};

struct layer_link {
    struct level levels[DEPTH_MAX];
    int depth;        /* index of the open folder; -1: none */
    bool is_clearing; /* second pass: walks the folder and removes what the layer does not have */
    int layer_fd, folder_fd;
};

static DIR *open_dir(int fd, const char *name)
{
    int opened = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = opened < 0 ? NULL : fdopendir(opened);

    if (opened >= 0 && !folder)
        close(opened);
    return folder;
}

static void level_close(struct level *level)
{
    if (level->from)
        closedir(level->from);
    if (level->other)
        closedir(level->other);
    *level = (struct level){0};
}

static int descend(struct layer_link *link, int from_fd, const char *from, int other_fd,
                   const char *other)
{
    struct level *level = &link->levels[link->depth + 1];

    if (link->depth + 1 == DEPTH_MAX)
        return -ELOOP;
    *level = (struct level){.from = open_dir(from_fd, from), .other = open_dir(other_fd, other)};
    if (!level->from || !level->other) {
        int r = -errno;

        level_close(level);
        return r;
    }
    link->depth++;
    return 0;
}

/* ---- the layer into the folder ---- */

static int copy_file(int from_fd, int to_fd, const char *name, mode_t mode)
{
    CLEANUP(fd_closep) int from = openat(from_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    CLEANUP(fd_closep) int to = -1;
    char data[65536];
    ssize_t length;

    if (from < 0)
        return -errno;
    to = openat(to_fd, HIDDEN, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0777);
    if (to < 0)
        return -errno;
    while ((length = read(from, data, sizeof(data))) > 0) {
        int r = fd_write_all(to, data, (size_t)length);

        if (r < 0)
            return r;
    }
    return length < 0 ? -errno : 0;
}

static int copy_link(int from_fd, int to_fd, const char *name)
{
    char target[4096];
    ssize_t length = readlinkat(from_fd, name, target, sizeof(target) - 1);

    if (length < 0)
        return -errno;
    target[length] = '\0';
    return symlinkat(target, to_fd, HIDDEN) < 0 ? -errno : 0;
}

static int place(int from_fd, int to_fd, const char *name, const struct stat *status)
{
    struct stat there;
    int r = 0;

    if (fstatat(to_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        if (there.st_ino == status->st_ino && there.st_dev == status->st_dev)
            return 0;
        if (S_ISDIR(there.st_mode))
            r = folder_remove(to_fd, name); /* a folder (package) is replaced by a file (module) */
    }
    unlinkat(to_fd, HIDDEN, 0);
    if (r < 0)
        return r;
    if (S_ISLNK(status->st_mode))
        r = copy_link(from_fd, to_fd, name);
    else if (linkat(from_fd, name, to_fd, HIDDEN, 0) < 0)
        r = copy_file(from_fd, to_fd, name, status->st_mode);
    if (r == 0 && renameat(to_fd, HIDDEN, to_fd, name) < 0)
        r = -errno;
    /* rename(2) between two links of the same file does nothing. */
    unlinkat(to_fd, HIDDEN, 0);
    return r;
}

static int place_folder(struct layer_link *link, int from_fd, int to_fd, const char *name)
{
    struct stat there;

    if (fstatat(to_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(there.st_mode))
        unlinkat(to_fd, name, 0);
    if (mkdirat(to_fd, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    return descend(link, from_fd, name, to_fd, name);
}

static int take_entry(struct layer_link *link, const char *name)
{
    int from_fd = dirfd(link->levels[link->depth].from);
    int to_fd = dirfd(link->levels[link->depth].other);
    struct stat status;

    if (fstatat(from_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(status.st_mode))
        return place_folder(link, from_fd, to_fd, name);
    if (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode))
        return place(from_fd, to_fd, name, &status);
    return 0;
}

/* ---- second pass: files that the layer does not have ---- */

static int clear_entry(struct layer_link *link, const char *name)
{
    int folder_fd = dirfd(link->levels[link->depth].from);
    int layer_fd = dirfd(link->levels[link->depth].other);
    struct stat own, other;

    if (fstatat(folder_fd, name, &own, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (fstatat(layer_fd, name, &other, AT_SYMLINK_NOFOLLOW) < 0)
        return S_ISDIR(own.st_mode) ? folder_remove(folder_fd, name)
                                    : (unlinkat(folder_fd, name, 0) < 0 ? -errno : 0);
    return S_ISDIR(own.st_mode) ? descend(link, folder_fd, name, layer_fd, name) : 0;
}

/* ---- both passes ---- */

static int begin(struct layer_link *link)
{
    return link->is_clearing ? descend(link, link->folder_fd, ".", link->layer_fd, ".")
                             : descend(link, link->layer_fd, ".", link->folder_fd, ".");
}

int layer_link_start(int layers_fd, const char *layer, int folder_fd, const char *name,
                     struct layer_link **ret, struct error *err)
{
    struct layer_link *link = calloc(1, sizeof(*link));
    int r = 0;

    if (!link)
        return error_memory(err);
    link->depth = -1;
    link->layer_fd = openat(layers_fd, layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    link->folder_fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (link->layer_fd < 0 || link->folder_fd < 0)
        r = -errno;
    if (r == 0)
        r = begin(link);
    if (r < 0) {
        layer_link_free(link);
        return error_set(err, r, ERROR_ENGINE, "opening the layer of packages: %s", strerror(-r));
    }
    *ret = link;
    return 0;
}

int layer_link_step(struct layer_link *link, struct error *err)
{
    int r = 0;

    for (unsigned i = 0; i < ENTRIES_PER_STEP && r == 0 && link->depth >= 0; i++) {
        struct dirent *entry = readdir(link->levels[link->depth].from);

        if (!entry)
            level_close(&link->levels[link->depth--]);
        else if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
            r = link->is_clearing ? clear_entry(link, entry->d_name)
                                  : take_entry(link, entry->d_name);
    }
    if (r == 0 && link->depth < 0) {
        if (link->is_clearing)
            return 0;
        link->is_clearing = true;
        r = begin(link);
    }
    if (r < 0)
        return error_set(err, r, r == -ENOSPC ? ERROR_DISK_FULL : ERROR_ENGINE,
                         "linking the packages into the box: %s", strerror(-r));
    return 1;
}

void layer_link_free(struct layer_link *link)
{
    if (!link)
        return;
    while (link->depth >= 0)
        level_close(&link->levels[link->depth--]);
    fd_closep(&link->layer_fd);
    fd_closep(&link->folder_fd);
    free(link);
}
