/*
 * tree.c - removes folders of the state directory with their content, by descriptors, never
 * following links.
 *
 * Theory of operation. A session may leave gigabytes and thousands of files; removing them in one
 * step would block the loop for all clients. So a folder is renamed to a hidden name beside it,
 * which is atomic, and emptied a little in each turn of the loop. The next broker finds, by their
 * hidden names, folders and unfinished uploads of a broker that died.
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
#include "base/log.h"
#include "base/str.h"
#include "session/session_private.h"

#define DEPTH_MAX 128 /* the broker made these folders itself, and never deeper */
#define FILES_PER_TURN 256
#define BYTES_PER_TURN (256 * MIB) /* of one file: freeing blocks and pages takes time */
#define GONE ".gone-"

static DIR *open_folder(int folder_fd, const char *name)
{
    int fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !folder)
        close(fd);
    return folder;
}

/* Truncates a large file by one piece; false: it is small, or not a file. */
static bool shorten(int folder_fd, const char *name)
{
    CLEANUP(fd_closep) int fd = -1;
    struct stat status;

    if (fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(status.st_mode) ||
        status.st_nlink > 1 || (uint64_t)status.st_blocks * 512 <= BYTES_PER_TURN)
        return false;
    fd = openat(folder_fd, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 && ftruncate(fd, status.st_size -
                                        (off_t)MIN(BYTES_PER_TURN, (uint64_t)status.st_size)) == 0;
}

/* Removes up to `*budget` entries and counts it down; true: nothing is left. */
static bool remove_some(int folder_fd, const char *name, int depth, unsigned *budget)
{
    struct dirent *entry;
    DIR *folder;
    bool is_empty = true;

    if (*budget == 0)
        return false;
    if (shorten(folder_fd, name)) {
        *budget = 0;
        return false;
    }
    if (unlinkat(folder_fd, name, 0) == 0) {
        --*budget;
        return true;
    }
    folder = depth > 0 ? open_folder(folder_fd, name) : NULL;
    while (folder && *budget > 0 && (entry = readdir(folder))) {
        if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
            is_empty &= remove_some(dirfd(folder), entry->d_name, depth - 1, budget);
    }
    if (folder)
        closedir(folder);
    if (!is_empty || *budget == 0 || unlinkat(folder_fd, name, AT_REMOVEDIR) < 0)
        return false;
    --*budget;
    return true;
}

/* One turn's work in a folder of the state directory; true: nothing is left to do in it. */
static bool sweep_folder(int folder_fd, unsigned *budget)
{
    DIR *folder = open_folder(folder_fd, ".");
    struct dirent *entry;
    bool is_done = true;

    while (folder && (entry = readdir(folder))) {
        if (str_starts(entry->d_name, GONE))
            is_done &= remove_some(folder_fd, entry->d_name, DEPTH_MAX, budget);
    }
    if (folder)
        closedir(folder);
    return is_done;
}

void session_manager_sweep(void *ctx)
{
    struct session_manager *manager = ctx;
    unsigned budget = FILES_PER_TURN;
    bool is_done = sweep_folder(manager->spec.folders.data_fd, &budget);

    is_done &= sweep_folder(manager->spec.folders.logs_fd, &budget);
    is_done &= sweep_folder(manager->spec.folders.layers_fd, &budget);
    is_done &= sweep_folder(manager->spec.folders.packages_fd, &budget);
    is_done &= sweep_folder(manager->spec.folders.output_fd, &budget);
    manager->is_sweeping = !is_done && budget < FILES_PER_TURN;
    if (manager->is_sweeping) {
        manager->spec.reactor->ops->timer_set(manager->sweeper, 0);
        return;
    }
    if (!is_done)
        log_warning("files of ended sessions cannot be removed, continuing without removing them");
    session_manager_later(manager); /* session_manager_stop() waits for it */
}

static void sweep_soon(struct session_manager *manager)
{
    manager->is_sweeping = true;
    manager->spec.reactor->ops->timer_set(manager->sweeper, 0);
}

int session_manager_discard(struct session_manager *manager, int folder_fd, const char *name)
{
    char hidden[ID_MAX + 32];

    for (;;) { /* a folder of an earlier broker may have the number */
        str_format(hidden, sizeof(hidden), GONE "%u", manager->next_gone++);
        if (renameat2(folder_fd, name, folder_fd, hidden, RENAME_NOREPLACE) == 0)
            break;
        if (errno == ENOENT)
            return 0;
        if (errno == EINVAL && renameat(folder_fd, name, folder_fd, hidden) == 0)
            break; /* a file system without RENAME_NOREPLACE: only an empty folder is replaced */
        if (errno != EEXIST && errno != ENOTEMPTY)
            return -errno;
    }
    sweep_soon(manager);
    return 0;
}

/* The folder of a live session, or the note beside it. */
static bool is_of_a_living_session(const struct session_manager *manager, const char *name)
{
    for (const struct session *session = manager->sessions; session; session = session->next) {
        size_t length = strlen(session->id);

        if (session->state != SESSION_ENDED && str_starts(name, session->id) &&
            (name[length] == '\0' || str_equal(name + length, ".json")))
            return true;
    }
    return false;
}

/* Removes folders of sessions that ended when a broker died, and unfinished uploads. */
static void discard_old(struct session_manager *manager, int folder_fd)
{
    DIR *folder = open_folder(folder_fd, ".");
    struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        bool is_ours = str_starts(entry->d_name, "s_") || str_starts(entry->d_name, ".s_") ||
                       str_starts(entry->d_name, "r_"); /* packages of a one-shot run */

        if (is_ours && !is_of_a_living_session(manager, entry->d_name))
            session_manager_discard(manager, folder_fd, entry->d_name);
    }
    if (folder)
        closedir(folder);
}

void session_manager_sweep_old(struct session_manager *manager)
{
    discard_old(manager, manager->spec.folders.data_fd);
    discard_old(manager, manager->spec.folders.logs_fd);
    discard_old(manager, manager->spec.folders.packages_fd);
    sweep_soon(manager);
}
