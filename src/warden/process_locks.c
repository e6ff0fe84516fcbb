/*
 * process_locks.c - file locks of a container's guests, where /proc/locks is covered for the warden
 * too.
 *
 * /proc/PID/fdinfo/N lists the POSIX locks that a process has taken by one of its descriptors.
 * (Locks by flock() are bounded by the number of open files, kernel_memory.c.) It is read with the
 * ids of the process's owner, as the kernel demands; a process that is not dumpable hides it even
 * so. A guest can make the reading slow, by descriptors with much to tell (epoll, inotify), so the
 * warden's own CPU time for it is bounded: what cannot be counted by then is too much. On a busy
 * machine that time is long, and guests can open files meanwhile: those are counted again and
 * again.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "warden/warden_private.h"

#define COUNT_MS 1000 /* 32768 descriptors, the most that a box has, take a third of it */
#define FILES_MS 100  /* of everybody's time, after which files are counted again */

struct count {
    const struct sandbox *sandbox;
    unsigned locks;
    bool is_hidden; /* some process hides its own */
    bool has_files; /* too many of them, meanwhile */
    uint64_t end_ms, files_ms;
};

/* CLOCK_PROCESS_CPUTIME_ID: on a busy machine the others' time does not count. */
static uint64_t time_ms(clockid_t clock)
{
    struct timespec now = {0};

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool is_over(struct count *count)
{
    if (time_ms(CLOCK_MONOTONIC) > count->files_ms) {
        count->has_files |= kernel_files_are_over(count->sandbox);
        count->files_ms = time_ms(CLOCK_MONOTONIC) + FILES_MS;
    }
    return count->has_files || count->locks > LIMIT_BOX_FILE_LOCKS ||
           time_ms(CLOCK_PROCESS_CPUTIME_ID) > count->end_ms;
}

static void count_descriptor(int folder_fd, const char *name, struct count *count)
{
    static char line[512]; /* longer lines come in parts, of which only the first can match */
    int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

    if (!file) {
        fd_closep(&fd);
        return; /* closed meanwhile */
    }
    for (unsigned lines = 0; fgets(line, sizeof(line), file); lines++) {
        count->locks += str_starts(line, "lock:") && strstr(line, " POSIX ");
        if (lines % 1024 == 1023 && is_over(count))
            break;
    }
    fclose(file);
}

static void count_process(int proc_fd, const char *pid, struct count *count)
{
    struct dirent *entry;
    DIR *folder;
    char path[64];
    int fd;

    if (str_format(path, sizeof(path), "%s/fdinfo", pid) < 0)
        return;
    fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    count->is_hidden |= fd < 0 && errno == EACCES;
    folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        fd_closep(&fd);
        return;
    }
    while (!is_over(count) && (entry = readdir(folder))) {
        if (isdigit((unsigned char)entry->d_name[0]))
            count_descriptor(dirfd(folder), entry->d_name, count);
    }
    closedir(folder);
}

bool process_locks_are_over(const struct sandbox *sandbox, bool *ret_is_hidden)
{
    struct count count = {
        .sandbox = sandbox,
        .end_ms = time_ms(CLOCK_PROCESS_CPUTIME_ID) + COUNT_MS,
        .files_ms = time_ms(CLOCK_MONOTONIC) + FILES_MS,
    };
    int fd = openat(sandbox->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    struct stat owner;

    *ret_is_hidden = false;
    if (!folder) {
        fd_closep(&fd);
        return false;
    }
    while (!is_over(&count) && (entry = readdir(folder))) {
        if (!isdigit((unsigned char)entry->d_name[0]) ||
            strtol(entry->d_name, NULL, 10) == getpid() ||
            fstatat(dirfd(folder), entry->d_name, &owner, 0) < 0)
            continue;
        setfsgid(owner.st_gid);
        setfsuid(owner.st_uid);
        count_process(dirfd(folder), entry->d_name, &count);
        setfsuid(geteuid());
        setfsgid(getegid());
    }
    closedir(folder);
    *ret_is_hidden = count.is_hidden;
    return is_over(&count);
}
