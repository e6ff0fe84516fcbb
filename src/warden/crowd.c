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
    pid_t pid, parent;
    bool is_ours, is_dead;
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
    int parent;

    if (str_format(path, sizeof(path), "%s/stat", name) < 0 ||
        fd_read_text_at(proc_fd, path, text, sizeof(text)) < 0)
        return false;
    tail = strrchr(text, ')'); /* the name before it may hold anything */
    if (!tail || sscanf(tail, ") %c %d", &state, &parent) != 2)
        return false;
    ret->is_dead = state == 'Z' || state == 'X';
    ret->pid = (pid_t)strtol(name, NULL, 10);
    ret->parent = parent;
    ret->is_ours = parent == getpid();
    if (str_format(path, sizeof(path), "%s/statm", name) < 0 ||
        fd_read_text_at(proc_fd, path, text, sizeof(text)) < 0 ||
        sscanf(text, "%llu %llu %llu", &size, &resident, &shared) != 3)
        return false;
    ret->own_pages = resident > shared ? resident - shared : 0;
    ret->shared_pages = shared;
    return true;
}

/* Whose parent is ours is ours; repeated until nobody is added. */
static void mark_descendants(struct crowd *crowd)
{
    bool changed = true;

    while (changed) {
        changed = false;
        for (size_t i = 0; i < crowd->count; i++) {
            for (size_t j = 0; j < crowd->count && !crowd->members[i].is_ours; j++) {
                if (crowd->members[j].is_ours && crowd->members[j].pid == crowd->members[i].parent)
                    changed = crowd->members[i].is_ours = true;
            }
        }
    }
}

static struct crowd *crowd_read(const struct sandbox *sandbox)
{
    static struct crowd crowd; /* one thread; too large for the stack */
    bool all = sandbox->plan->has_namespaces;
    DIR *proc;
    struct dirent *entry;

    crowd.count = 0;
    if (all && sandbox->proc_fd < 0)
        return &crowd;
    if (all) {
        int fd = openat(sandbox->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        proc = fd < 0 ? NULL : fdopendir(fd);
    } else {
        proc = opendir("/proc");
    }
    if (!proc)
        return &crowd;
    while ((entry = readdir(proc)) && crowd.count < CROWD_MAX) {
        struct member *member = &crowd.members[crowd.count];

        if (isdigit((unsigned char)entry->d_name[0]) &&
            read_member(dirfd(proc), entry->d_name, member) && member->pid != getpid())
            crowd.count++;
    }
    closedir(proc);
    for (size_t i = 0; all && i < crowd.count; i++)
        crowd.members[i].is_ours = true;
    if (!all)
        mark_descendants(&crowd);
    return &crowd;
}

size_t crowd_size(const struct sandbox *sandbox)
{
    const struct crowd *crowd = crowd_read(sandbox);
    size_t count = 0;

    for (size_t i = 0; i < crowd->count; i++)
        count += crowd->members[i].is_ours && !crowd->members[i].is_dead;
    return count;
}

uint64_t crowd_memory(const struct sandbox *sandbox)
{
    const struct crowd *crowd = crowd_read(sandbox);
    uint64_t pages = 0, shared = 0;

    /* Shared pages are counted once, as the largest share: libraries are mapped by all. */
    for (size_t i = 0; i < crowd->count; i++) {
        if (!crowd->members[i].is_ours)
            continue;
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
            if (!crowd->members[i].is_ours || crowd->members[i].is_dead)
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
    if (sandbox->plan->has_namespaces)
        kill(-1, SIGKILL); /* everybody in the pid namespace but its PID 1 */
    else
        kill_descendants(sandbox);
}
