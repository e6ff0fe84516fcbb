/*
 * zygote_strays.c - processes that package code left behind when its zygote ended: finds, kills and
 * reaps them. Does not wait for them, however long the kernel takes to free their memory.
 *
 * They are identified by the zygote's control group, else by its mount namespace, which they can
 * leave only into boxes; those of its process group are its kernels that have not joined a box yet.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/zygotes.h"

#define STRAYS_MAX 512 /* as many as its control group allows */
#define LOOK_AGAIN_MS 20
#define PATIENCE_MS 60000
#define LEAVE_ROUNDS 25 /* when the daemon ends, or another program takes over */

struct zygote_strays {
    struct zygote_strays *next;
    struct zygote_owner *owner; /* its id is not released meanwhile */
    struct cgroup group;
    char mounts[64];
    int mounts_fd; /* owned */
    pid_t process_group;
    pid_t pids[STRAYS_MAX]; /* processes that were killed */
    size_t count;
    uint64_t at_ms, until_ms;
};

/* ---- finding ---- */

static bool has_mounts(long pid, const char *mounts)
{
    char path[64], link[64] = "";

    str_format(path, sizeof(path), "/proc/%ld/ns/mnt", pid);
    return readlink(path, link, sizeof(link) - 1) > 0 && str_equal(link, mounts);
}

/* If /proc shows pids of another namespace nothing can be found. */
static size_t find_by_mounts(const char *mounts, pid_t *ret, size_t room)
{
    char self[32] = "";
    DIR *folder = mounts[0] ? opendir("/proc") : NULL;
    struct dirent *entry;
    size_t count = 0;

    if (readlink("/proc/self", self, sizeof(self) - 1) > 0 && strtol(self, NULL, 10) == getpid()) {
        while (folder && count < room && (entry = readdir(folder))) {
            long pid = strtol(entry->d_name, NULL, 10);

            if (pid > 1 && has_mounts(pid, mounts))
                ret[count++] = (pid_t)pid;
        }
    }
    if (folder)
        closedir(folder);
    return count;
}

/* ---- killing ---- */

/*
 * Signals are sent by a child with the owner's id: if a pid was reused, that process is out of its
 * reach. `pids` are the targets; none: all processes of that id, which owns no box any more.
 */
void zygote_strays_kill(uint32_t id, const pid_t *pids, size_t count)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (id &&
            (syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0))
            _exit(1);
        for (size_t i = 0; i < count; i++)
            kill(pids[i], SIGKILL);
        if (!pids)
            kill(-1, SIGKILL);
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
}

/* True: it is not a child of the launcher, or no longer. */
static bool reap_stray(uint32_t id, pid_t pid)
{
    siginfo_t info = {0};

    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
        return true;
    if (info.si_pid == 0)
        return false; /* it lives: the launcher's child, or about to become one */
    return info.si_uid != id || waitpid(pid, NULL, WNOHANG | __WALL) > 0;
}

static void reap_all(struct zygote_strays *strays)
{
    size_t left = 0;

    for (size_t i = 0; i < strays->count; i++) {
        if (!reap_stray(strays->owner->id, strays->pids[i]))
            strays->pids[left++] = strays->pids[i];
    }
    strays->count = left;
}

/* The launcher has no other children in the zygote's process group. */
static bool has_group(pid_t process_group)
{
    pid_t pid;

    while ((pid = waitpid(-process_group, NULL, WNOHANG | __WALL)) > 0)
        ;
    return pid == 0;
}

/* True: nothing is left. */
static bool look(struct zygote_strays *strays)
{
    pid_t found[STRAYS_MAX];
    size_t count = strays->group.flavour != CGROUP_NONE
                       ? cgroup_members(&strays->group, found, STRAYS_MAX)
                       : find_by_mounts(strays->mounts, found, STRAYS_MAX);

    if (count > 0) {
        zygote_strays_kill(strays->owner->id, found, count);
        reap_all(strays);
        for (size_t i = 0; i < count && strays->count < STRAYS_MAX; i++)
            strays->pids[strays->count++] = found[i];
    }
    reap_all(strays);
    return !has_group(strays->process_group) && count == 0 && strays->count == 0;
}

static void forget(struct launcher *launcher, struct zygote_strays *strays)
{
    cgroup_reaper_add(launcher, &strays->group);
    zygote_owner_give(strays->owner);
    fd_closep(&strays->mounts_fd);
    free(strays);
}

void zygote_strays_end(struct zygote *zygote, pid_t process_group)
{
    struct launcher *launcher = zygote->launcher;
    struct zygote_strays *strays = calloc(1, sizeof(*strays));

    if (!strays) {
        cgroup_reaper_add(launcher, &zygote->group);
        cgroup_init(&zygote->group);
        return;
    }
    strays->owner = zygote->owner;
    strays->owner->refs++;
    strays->group = zygote->group;
    cgroup_init(&zygote->group);
    memcpy(strays->mounts, zygote->mounts, sizeof(strays->mounts));
    strays->mounts_fd = fd_take(&zygote->mounts_fd);
    strays->process_group = process_group;
    strays->at_ms = clock_now_ms() + LOOK_AGAIN_MS;
    strays->until_ms = clock_now_ms() + PATIENCE_MS;
    if (look(strays)) {
        forget(launcher, strays);
        return;
    }
    strays->next = launcher->strays;
    launcher->strays = strays;
}

void zygote_strays_tick(struct launcher *launcher, uint64_t now_ms)
{
    for (struct zygote_strays **at = &launcher->strays; *at;) {
        struct zygote_strays *strays = *at;

        if (now_ms < strays->at_ms) {
            at = &strays->next;
            continue;
        }
        strays->at_ms = now_ms + LOOK_AGAIN_MS;
        if (!look(strays) && now_ms < strays->until_ms) {
            at = &strays->next;
            continue;
        }
        if (now_ms >= strays->until_ms)
            log_warning("processes that a zygote left behind do not end, continuing without "
                        "waiting for them");
        *at = strays->next;
        forget(launcher, strays);
    }
}

uint64_t zygote_strays_deadline(const struct launcher *launcher)
{
    uint64_t first = 0;

    for (const struct zygote_strays *strays = launcher->strays; strays; strays = strays->next) {
        if (!first || strays->at_ms < first)
            first = strays->at_ms;
    }
    return first;
}

void zygote_strays_leave(struct launcher *launcher)
{
    while (launcher->strays) {
        struct zygote_strays *strays = launcher->strays;

        launcher->strays = strays->next;
        for (int i = 0; i < LEAVE_ROUNDS && !look(strays); i++)
            poll(NULL, 0, LOOK_AGAIN_MS);
        forget(launcher, strays);
    }
}
