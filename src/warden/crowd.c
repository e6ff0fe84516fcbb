/*
 * crowd.c - everybody in the box but the warden: counted and ended.
 *
 * With a pid namespace the kernel knows who is in the box. Without one the warden is the subreaper
 * of all that descends from it, and has to find them: orphans come to us, so ending our children
 * again and again until there are none ends everybody.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "warden/inside.h"

#define CROWD_MAX 8192

struct member {
    pid_t pid;
    bool is_dead;
    uint64_t own_pages, shared_pages;
};

struct crowd {
    struct member members[CROWD_MAX];
    size_t count;
};

static bool read_member(int proc_fd, const char *name, struct member *ret)
{
    char path[64], text[1024];
    unsigned long long size, resident, shared;
    const char *tail;
    char state;

    if (str_format(path, sizeof(path), "%s/stat", name) < 0 ||
        fd_read_text_at(proc_fd, path, text, sizeof(text)) < 0)
        return false;
    tail = strrchr(text, ')'); /* the name before it may hold anything */
    if (!tail || sscanf(tail, ") %c", &state) != 1)
        return false;
    ret->is_dead = state == 'Z' || state == 'X';
    ret->pid = (pid_t)strtol(name, NULL, 10);
    if (str_format(path, sizeof(path), "%s/statm", name) < 0 ||
        fd_read_text_at(proc_fd, path, text, sizeof(text)) < 0 ||
        sscanf(text, "%llu %llu %llu", &size, &resident, &shared) != 3)
        return false;
    ret->own_pages = resident > shared ? resident - shared : 0;
    ret->shared_pages = shared;
    return true;
}

static void add_member(struct crowd *crowd, int proc_fd, const char *name)
{
    struct member *member = &crowd->members[crowd->count];

    if (crowd->count < CROWD_MAX && isdigit((unsigned char)name[0]) &&
        read_member(proc_fd, name, member) && member->pid != getpid())
        crowd->count++;
}

/* The children of one thread, which the kernel lists by the thread that forked them. */
static void add_children(struct crowd *crowd, int proc_fd, pid_t pid, const char *thread)
{
    static char text[256 * 1024]; /* one thread; a bomb has many children */
    char path[96], *rest = text, *name;

    if (str_format(path, sizeof(path), "%d/task/%s/children", (int)pid, thread) < 0 ||
        fd_read_text_at(proc_fd, path, text, sizeof(text)) < 0)
        return;
    while ((name = strsep(&rest, " ")))
        add_member(crowd, proc_fd, name);
}

/* Everybody who descends from the warden, level by level. */
static void read_descendants(struct crowd *crowd, int proc_fd, pid_t pid)
{
    size_t next = 0;

    for (;;) {
        char path[64];
        struct dirent *entry;
        DIR *threads;
        int fd;

        str_format(path, sizeof(path), "%d/task", (int)pid);
        fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        threads = fd < 0 ? NULL : fdopendir(fd);
        while (threads && (entry = readdir(threads))) {
            if (isdigit((unsigned char)entry->d_name[0]))
                add_children(crowd, proc_fd, pid, entry->d_name);
        }
        if (threads)
            closedir(threads);
        if (next == crowd->count)
            return;
        pid = crowd->members[next++].pid;
    }
}

static struct crowd *crowd_read(const struct sandbox *sandbox)
{
    static struct crowd crowd;           /* one thread; too large for the stack */
    bool is_own = sandbox->proc_fd >= 0; /* a /proc that shows the box and nobody else */
    int from = is_own ? sandbox->proc_fd : sandbox->outer_proc_fd;
    int fd = openat(from >= 0 ? from : AT_FDCWD, from >= 0 ? "." : "/proc",
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *proc = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    crowd.count = 0;
    if (!proc)
        return &crowd;
    if (is_own) {
        while ((entry = readdir(proc)))
            add_member(&crowd, dirfd(proc), entry->d_name);
    } else {
        read_descendants(&crowd, dirfd(proc), from >= 0 ? sandbox->outer_pid : getpid());
    }
    closedir(proc);
    return &crowd;
}

uint64_t crowd_memory(const struct sandbox *sandbox)
{
    const struct crowd *crowd = crowd_read(sandbox);
    uint64_t pages = 0, shared = 0;

    /* Shared pages are counted once, as the largest share: libraries are mapped by all. */
    for (size_t i = 0; i < crowd->count; i++) {
        pages += crowd->members[i].own_pages;
        shared = MAX(shared, crowd->members[i].shared_pages);
    }
    return (pages + shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Killing a crowd that forks is a race; it is over when a look finds nobody alive. */
static void kill_descendants(const struct sandbox *sandbox)
{
    struct timespec pause = {.tv_nsec = 500000};

    for (int tries = 0; tries < 4000; tries++) {
        const struct crowd *crowd = crowd_read(sandbox);
        size_t alive = 0;

        for (size_t i = 0; i < crowd->count; i++) {
            if (crowd->members[i].is_dead)
                continue;
            kill(crowd->members[i].pid, SIGKILL);
            alive++;
        }
        if (alive == 0)
            return;
        nanosleep(&pause, NULL);
    }
}

void crowd_kill(const struct sandbox *sandbox)
{
    /* Everybody in the pid namespace but its PID 1; or everybody in the warden's Landlock domain
     * but itself. Never where neither is there: it would reach all processes of the caller. */
    if (sandbox->plan->has_namespaces || sandbox->has_scope)
        kill(-1, SIGKILL);
    else
        kill_descendants(sandbox);
}
