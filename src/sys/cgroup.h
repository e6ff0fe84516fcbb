/*
 * cgroup.h - one control group for one box, on v2, v1 or hybrid hosts.
 *
 * cgroup_find() says where groups of ours can be made; cgroup_make_own() makes one with limits;
 * cgroup_remove() takes it away. A group is entered by the process itself: on v1 by writing "0"
 * into `tasks` (which takes no global lock; moving another process by its pid waits for an RCU
 * grace period, 5-20 ms on an idle machine), on v2 by being cloned into it.
 *
 * Whose a group is: its maker's, which holds a lock on its folder (owner.h). That works between
 * baileys that do not see each other's processes, as those of a machine and of its containers.
 *
 * Blocking: file system calls only. Called by launcher/. Never touches a group it did not make, but
 * for those of bailey processes that are gone (cgroup_sweep).
 *
 * Runs in: every process
 */
#ifndef BAILEY_SYS_CGROUP_H
#define BAILEY_SYS_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define CGROUP_PATH_MAX 512
#define CGROUP_PREFIX "bailey-"        /* then the maker's owner_name() */
#define CGROUP_ENGINE_SUFFIX "-engine" /* holds the groups of an engine's boxes */
#define CGROUP_OWNER_PREFIX "owner-"   /* in it, on v2: those of one tenant and template */

enum cgroup_flavour { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

enum cgroup_controller {
    CONTROLLER_MEMORY,
    CONTROLLER_PIDS,
    CONTROLLER_CPU,
    CONTROLLER_CPUACCT, /* v1 only: counts CPU time; often mounted with cpu, not always */
    _CONTROLLER_MAX,
};

/* Where groups can be made; an empty path: this controller cannot be had. On v2 all are the same.
 */
struct cgroup_site {
    enum cgroup_flavour flavour; /* CGROUP_V1 also on hybrid hosts whose controllers are on v1 */
    char parent[_CONTROLLER_MAX][CGROUP_PATH_MAX];
};

/* The two proc files decide; they are arguments so that tests can describe other hosts. */
struct cgroup_host {
    const char *mountinfo; /* text of /proc/self/mountinfo */
    const char *self;      /* text of /proc/self/cgroup */
    const char *prefix;    /* put before every path; "" in real life, a fake tree in tests */
};

/* Fills the site from this process's own files. No groups to be had is CGROUP_NONE, not an error.
 */
void cgroup_find(struct cgroup_site *site);
/* Is memory on v1 here? A cheap look: v1 groups can be made after a clone, v2 ones must be before.
 */
bool cgroup_is_v1(void);
void cgroup_find_in(const struct cgroup_host *host, struct cgroup_site *site);

struct cgroup_limits {
    uint64_t memory_bytes; /* 0: no limit */
    uint32_t pids;         /* 0: no limit */
    uint32_t cpu_millis;   /* 0: no limit */
    uint32_t cpu_share;    /* cgroup_set_share(); 0: the kernel's default. With neither this nor a
                              limit of CPU time no cpu group is made on v1 */
};

/*
 * CPU time is divided between the groups of one folder in proportion to their shares, in
 * thousandths of what a group has by default (cpu.shares 1024 on v1, cpu.weight 100 on v2). Those
 * of an engine: what one tenant's boxes have together (launcher/share.h), a zygote with its forks,
 * and the launcher with the broker, which every call passes through and which do little themselves.
 */
#define CGROUP_SHARE_TENANT 8000
#define CGROUP_SHARE_ZYGOTE 8000
#define CGROUP_SHARE_LAUNCHER 64000

/* A group that we made. Zero is not valid: cgroup_init() first. */
struct cgroup {
    enum cgroup_flavour flavour;
    char path[_CONTROLLER_MAX][CGROUP_PATH_MAX]; /* empty: not used */
    int join_fd[_CONTROLLER_MAX]; /* v1: `tasks`, to write "0" into; v2: [0] is the group's folder
                                   */
    int lock_fd[_CONTROLLER_MAX]; /* of cgroup_make_own(): the maker's locks; else -1 */
};

void cgroup_init(struct cgroup *group);

/*
 * Makes the group `name`, in a group that an engine holds, with its limits. On failure nothing is
 * left and the error names the file. A controller that cannot be had is left out (its path stays
 * empty) unless it is memory or pids: then the whole fails with -ENODEV.
 */
int cgroup_make(const struct cgroup_site *site, const char *name,
                const struct cgroup_limits *limits, struct cgroup *group, struct error *err);

/*
 * v1: the part of the same that exists before the clone, the group of the cpu controller with its
 * share, so that building the box is divided too; cgroup_make() of the same name makes the rest.
 * Elsewhere nothing is made. The group must have been initialized.
 */
void cgroup_make_cpu(const struct cgroup_site *site, const char *name, uint32_t share,
                     struct cgroup *group);

/* The same with a name and locks of this process: no sweep takes it while its maker lives. */
int cgroup_make_own(const struct cgroup_site *site, const struct cgroup_limits *limits,
                    struct cgroup *group, struct error *err);

/* The group's share of CPU time; -ENODEV: it has no cpu controller. */
int cgroup_set_share(const struct cgroup *group, uint32_t share);

/* For the process that enters, v1 only: syscalls only. Negative errno on failure. */
int cgroup_join(const struct cgroup *group);

/*
 * The files through which one more process of ours enters a living group by writing "0": v1 `tasks`
 * as above, v2 cgroup.procs (which waits for a grace period). -1: none of this number. `become`
 * (NULL: nothing) is called when the folder is open and the file is not: the kernel remembers who
 * opened that; its negative errno ends it.
 */
int cgroup_open_join(const struct cgroup *group, int (*become)(const struct cgroup *, void *),
                     void *ctx, int ret_fds[_CONTROLLER_MAX]);

/* Facts that no process in the group can forge. */
uint64_t cgroup_oom_kills(const struct cgroup *group);

/* So far; 0 where the kernel does not count it here. */
struct cgroup_usage {
    uint64_t cpu_us; /* v2, and v1 where there is a cpuacct */
    uint64_t memory_bytes, memory_peak_bytes;
};
void cgroup_usage(const struct cgroup *group, struct cgroup_usage *ret);
uint64_t cgroup_cpu_us(const struct cgroup *group); /* the first of them alone: one file */

/*
 * A group for all boxes of an engine, bailey-<name of the supervisor>-engine in each hierarchy,
 * handed to `owner` (-1: it stays the caller's). *ret is the site within it. On v2, where only a
 * process beneath it may clone others into its children, *ret_leaf_fd is the folder of a group for
 * the launcher itself, beside those of the boxes (-1 on v1). ret_lock_fds (-1: none of this number)
 * are to stay open for as long as the engine lives: they keep every sweep away from its boxes'
 * groups. Nothing to be had is CGROUP_NONE, not an error. The engine may not remove the group: the
 * sweep of a later bailey does.
 */
void cgroup_make_engine(const struct cgroup_site *site, int64_t owner, struct cgroup_site *ret,
                        int *ret_leaf_fd, int ret_lock_fds[_CONTROLLER_MAX]);
/* v1: the launcher enters its own group in there, to be counted like the boxes. */
void cgroup_join_engine(const struct cgroup_site *site);
/* Of an engine that has ended, or was never started; for callers that may. */
void cgroup_remove_engine(struct cgroup_site *site);

/*
 * v2: a group in the engine's for what one id, `owner`, may move processes between: its zygotes and
 * boxes. The kernel asks for write access to the group above both places, so processes move
 * within this one and never into or out of it. *ret is the site within it; on v1, where the kernel
 * compares ids instead, it is the same site again.
 */
int cgroup_make_owner(const struct cgroup_site *site, const char *name, uid_t owner,
                      struct cgroup_site *ret);
void cgroup_remove_owner(const struct cgroup_site *site); /* v2; one with members stays */
/* v2: the share of such a group, in which its boxes divide; elsewhere 0 and nothing is done. */
int cgroup_set_owner_share(const struct cgroup_site *site, uint32_t share);
/* The kernel's number for a share: cpu.shares (v1) or cpu.weight (v2). */
unsigned cgroup_share_number(enum cgroup_flavour flavour, uint32_t share);
/* v2: processes of `owner` may enter this group of such a site. */
int cgroup_let_in(const struct cgroup *group, uid_t owner);

/* Processes in the group, at most `room`, as this process's namespace numbers them. */
size_t cgroup_members(const struct cgroup *group, pid_t *ret, size_t room);

/* No process in the group can fork any more: for an end that has to win a race. */
void cgroup_stop_forks(const struct cgroup *group);

/* Closes and removes; a group that still has members is tried again for a moment. NULL is fine. */
void cgroup_remove(struct cgroup *group);

/*
 * One try at the same, without waiting. 0: it is gone; -EBUSY: its last member has not left yet,
 * what is left is still in *group.
 */
int cgroup_try_remove(struct cgroup *group);

/*
 * Removes groups of bailey processes that are gone: named bailey-<maker>-... and locked by no
 * process in any namespace. Those of an engine with the groups of its boxes in them. One that has
 * members stays.
 */
void cgroup_sweep(const struct cgroup_site *site);

#endif
