/*
 * zygote_owner.c - ids of zygotes: one for each tenant and template, which owns the user namespaces
 * of the boxes that the zygotes of that tenant and template serve, and of no others.
 *
 * Where boxes have ids of their own an owner's is the first of a pair that no box has. Where there
 * is one id only it is everybody's: then the zygote's filter alone holds. The host's own Python
 * without a template loads nothing that a tenant or a template brought, so there is one owner of it
 * for all tenants.
 *
 * An id goes back when no zygote and no box is left. What package code may have left running under
 * it is killed before that.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "launcher/launcher_private.h"
#include "sys/calls.h"

/* Processes that package code left behind; more than one round only if they fork meanwhile. */
#define STRAYS_AT_ONCE 512
#define STRAY_ROUNDS 4
#define STRAY_PATIENCE_MS 20

/* ---- found ---- */

void zygote_owner_name(struct launcher_make *make)
{
    if (!make->layer[0])
        make->tenant[0] = 0;
    else if (!make->tenant[0])
        str_copy(make->tenant, sizeof(make->tenant), LAUNCHER_TENANT_LOCAL);
}

bool zygote_owner_is(const struct zygote_owner *owner, const char *tenant, const char *layer)
{
    return owner && str_equal(owner->layer, layer) && str_equal(owner->tenant, tenant);
}

static struct zygote_owner *find(struct launcher *launcher, const char *tenant, const char *layer)
{
    struct zygote_owner *owner = launcher->owners;

    while (owner && !zygote_owner_is(owner, tenant, layer))
        owner = owner->next;
    return owner;
}

/* ---- taken ---- */

static bool is_split(const struct launcher *launcher)
{
    return launcher->plan->pair_count > 0;
}

/* v2: its boxes and zygotes lie in a group of its own, within which its id may move processes. */
static int make_site(struct launcher *launcher, struct zygote_owner *owner)
{
    const struct cgroup_site *site = &launcher->plan->site;
    char name[32];

    owner->site = *site;
    if (site->flavour != CGROUP_V2 || !is_split(launcher))
        return 0;
    str_format(name, sizeof(name), CGROUP_OWNER_PREFIX "%u", (unsigned)owner->id);
    return cgroup_make_owner(site, name, owner->id, &owner->site);
}

static struct zygote_owner *add(struct launcher *launcher, const char *tenant, const char *layer,
                                uint32_t slot)
{
    struct zygote_owner *owner = calloc(1, sizeof(*owner));

    if (!owner)
        return NULL;
    owner->launcher = launcher;
    owner->slot = slot;
    owner->id = is_split(launcher) ? PAIR_FIRST + 2 * slot : 0;
    str_copy(owner->tenant, sizeof(owner->tenant), tenant);
    str_copy(owner->layer, sizeof(owner->layer), layer);
    if (make_site(launcher, owner) < 0) {
        free(owner);
        return NULL;
    }
    owner->next = launcher->owners;
    launcher->owners = owner;
    return owner;
}

struct zygote_owner *zygote_owner_take(struct launcher *launcher, const char *tenant,
                                       const char *layer)
{
    struct zygote_owner *owner = find(launcher, tenant, layer);
    uint32_t slot = 0;

    if (!owner) {
        if (is_split(launcher) && !slots_take(launcher, &slot))
            return NULL;
        owner = add(launcher, tenant, layer, slot);
        if (!owner && is_split(launcher))
            slots_give(launcher, slot);
    }
    if (owner)
        owner->refs++;
    return owner;
}

struct zygote_owner *zygote_owner_take_over(struct launcher *launcher, const char *tenant,
                                            const char *layer, uint32_t slot)
{
    struct zygote_owner *owner = find(launcher, tenant, layer);

    if (!is_split(launcher))
        return zygote_owner_take(launcher, tenant, layer);
    if (owner && owner->slot != slot)
        return NULL;
    if (!owner) {
        if (!slots_take_one(launcher, slot))
            return NULL;
        owner = add(launcher, tenant, layer, slot);
        if (!owner)
            slots_give(launcher, slot);
    }
    if (owner)
        owner->refs++;
    return owner;
}

/* ---- given back ---- */

/*
 * Signals are sent by a child with the owner's id: should a number be another's by now, that one is
 * out of its reach. `pids` are those; none: all of that id, which owns no box any more.
 */
static void kill_as(uint32_t id, const pid_t *pids, size_t count)
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

/* Dead and our own child, since whoever was its parent is gone. */
static bool bury(uint32_t id, idtype_t kind, pid_t pid)
{
    siginfo_t info = {0};

    return waitid(kind, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
           info.si_pid > 0 && info.si_uid == id && waitpid(info.si_pid, NULL, WNOHANG | __WALL) > 0;
}

static void wait_for(pid_t pid)
{
    CLEANUP(fd_closep) int pid_fd = sys_pidfd_open(pid);
    struct pollfd polled = {.fd = pid_fd, .events = POLLIN};

    if (pid_fd >= 0)
        poll(&polled, 1, STRAY_PATIENCE_MS);
}

static bool has_mounts(long pid, const char *mounts)
{
    char path[64], link[64] = "";

    str_format(path, sizeof(path), "/proc/%ld/ns/mnt", pid);
    return readlink(path, link, sizeof(link) - 1) > 0 && str_equal(link, mounts);
}

/* Where /proc shows other numbers than ours there is nothing to be found. */
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

void zygote_owner_kill(const struct zygote_owner *owner, const struct cgroup *group,
                       const char *mounts)
{
    pid_t pids[STRAYS_AT_ONCE];
    size_t count;

    for (int i = 0; i < STRAY_ROUNDS; i++) {
        count = group->flavour != CGROUP_NONE ? cgroup_members(group, pids, STRAYS_AT_ONCE)
                                              : find_by_mounts(mounts, pids, STRAYS_AT_ONCE);
        if (count == 0)
            return;
        kill_as(owner->id, pids, count);
        for (size_t j = 0; j < count; j++) {
            wait_for(pids[j]);
            bury(owner->id, P_PID, pids[j]);
        }
    }
}

void zygote_owner_give(struct zygote_owner *owner)
{
    struct launcher *launcher = owner ? owner->launcher : NULL;
    struct zygote_owner **at = owner ? &launcher->owners : NULL;

    if (!owner || --owner->refs > 0)
        return;
    while (*at != owner)
        at = &(*at)->next;
    *at = owner->next;
    if (is_split(launcher)) {
        if (owner->had_zygote) {
            kill_as(owner->id, NULL, 0);
            while (bury(owner->id, P_ALL, 0)) /* as far as nobody else waits to be reaped */
                ;
        }
        cgroup_remove_owner(&owner->site);
        slots_give(launcher, owner->slot);
    }
    free(owner);
}
