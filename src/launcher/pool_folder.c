/*
 * pool_folder.c - the folders of a session's box that was made before its session: bound under a
 * temporary name, p_<number>, and renamed when the session is known. A bind mount follows its
 * folder.
 *
 * The broker owns these folders, so they are untrusted: names are opened without following links,
 * and a folder that cannot be renamed only makes the box unusable.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/str.h"
#include "launcher/launcher_private.h"

#define PREFIX "p_"
#define RENAME_TRIES 4
#define NUMBERS_TRIED 1000

/* In STATE_FOLDERS */
enum { DATA = 3, PACKAGES = 7 };

static void name_of(uint32_t folder, char *ret, size_t size)
{
    str_format(ret, size, PREFIX "%u", (unsigned)folder);
}

static int make_one(struct launcher *launcher, int place, const char *name)
{
    int fd = launcher->folder_fd[place];
    uid_t owner = launcher->plan->broker_id;

    if (mkdirat(fd, name, 0755) < 0)
        return -errno;
    if (owner != 0 && fchownat(fd, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0) {
        int r = -errno;

        unlinkat(fd, name, AT_REMOVEDIR);
        return r;
    }
    return 0;
}

int pool_folder_make(struct launcher *launcher, const struct launcher_make *make, uint32_t *ret)
{
    char name[ID_MAX];
    int r = -EEXIST;

    if (!make->has_data && !make->has_packages)
        return 0;
    for (int tries = 0; tries < NUMBERS_TRIED && r == -EEXIST; tries++) {
        if (++launcher->pool.next_folder == 0)
            launcher->pool.next_folder = 1;
        name_of(launcher->pool.next_folder, name, sizeof(name));
        r = make->has_data ? make_one(launcher, DATA, name) : 0;
        if (r == 0 && make->has_packages) {
            r = make_one(launcher, PACKAGES, name);
            if (r < 0 && make->has_data)
                unlinkat(launcher->folder_fd[DATA], name, AT_REMOVEDIR);
        }
    }
    if (r == 0)
        *ret = launcher->pool.next_folder;
    return r;
}

/* Moves files that the session got before it had a box. */
static int move_files(int fd, const char *key, const char *name)
{
    DIR *folder = folder_list(fd, key);
    CLEANUP(fd_closep)
    int to_fd = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct dirent *entry;
    unsigned count = 0;
    int r = 0;

    if (!folder || to_fd < 0)
        r = -errno;
    while (r == 0 && (entry = readdir(folder))) {
        if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, ".."))
            continue;
        if (++count > LIMIT_MOVED_DATASETS)
            r = -E2BIG;
        else if (renameat(dirfd(folder), entry->d_name, to_fd, entry->d_name) < 0)
            r = -errno;
    }
    if (folder)
        closedir(folder);
    return r;
}

/* The session's own folder is usually empty, and then rename(2) replaces it. */
static int give_one(struct launcher *launcher, int place, const char *name, const char *key)
{
    int fd = launcher->folder_fd[place];

    for (int tries = 0; tries < RENAME_TRIES; tries++) {
        int r;

        if (renameat(fd, name, fd, key) == 0)
            return 0;
        if (errno != ENOTEMPTY && errno != EEXIST)
            return -errno;
        r = move_files(fd, key, name);
        if (r < 0)
            return r;
    }
    return -ENOTEMPTY;
}

/* Moves folders back if a later step fails: the box made instead needs them. */
int pool_folder_give(struct launcher *launcher, const struct managed_box *box, const char *key)
{
    char name[ID_MAX];
    int r = 0;

    name_of(box->folder, name, sizeof(name));
    if (box->make.has_data) {
        r = give_one(launcher, DATA, name, key);
        if (r < 0)
            move_files(launcher->folder_fd[DATA], name, key);
    }
    if (r == 0 && box->make.has_packages) {
        r = give_one(launcher, PACKAGES, name, key);
        if (r < 0)
            move_files(launcher->folder_fd[PACKAGES], name, key);
    }
    return r;
}

void pool_folder_remove(struct launcher *launcher, const struct managed_box *box)
{
    char name[ID_MAX];

    if (!box->folder)
        return;
    name_of(box->folder, name, sizeof(name));
    unlinkat(launcher->folder_fd[DATA], name, AT_REMOVEDIR);
    unlinkat(launcher->folder_fd[PACKAGES], name, AT_REMOVEDIR);
}

static void sweep(int folder_fd)
{
    DIR *folder = folder_list(folder_fd, ".");
    struct dirent *entry;

    if (!folder)
        return;
    while ((entry = readdir(folder))) {
        if (str_starts(entry->d_name, PREFIX))
            unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
    }
    closedir(folder);
}

void pool_folder_sweep(struct launcher *launcher)
{
    sweep(launcher->folder_fd[DATA]);
    sweep(launcher->folder_fd[PACKAGES]);
}
