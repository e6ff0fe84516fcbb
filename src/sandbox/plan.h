/*
 * plan.h - everything about a box that is decided before the clone.
 *
 * The launcher fills a plan (allocating, parsing, looking at the host); after the clone the child
 * only reads it and makes system calls. All pointers are borrowed from the launcher and stay valid
 * in the child, which has a copy of the launcher's memory.
 *
 * Runs in: box child, zygote, launcher, commands
 */
#ifndef BAILEY_SANDBOX_PLAN_H
#define BAILEY_SANDBOX_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroup;
struct filter;

/* One step of putting the root together; targets are relative to the new root. */
enum step_kind {
    STEP_DIR,       /* a folder */
    STEP_FILE,      /* a file with `source` as its contents */
    STEP_SYMLINK,   /* a symbolic link to `source` */
    STEP_BIND_DIR,  /* a host folder, read-only, with all below it */
    STEP_BIND_FILE, /* a host file, read-only */
    STEP_DEVICE,    /* a host device node */
    STEP_SHARE,     /* a folder of the box's disk that is writable */
    STEP_DEVPTS,    /* pseudo terminals of its own */
    STEP_PROC,      /* /proc; its failure makes ISOLATION_LAYER_PROC missing, not the box */
    STEP_MASK_FILE, /* nothing (/dev/null) over a file of /proc */
    STEP_MASK_DIR,  /* an empty folder over a folder of /proc */
    STEP_PROC_SEAL, /* /proc becomes read-only */
    _STEP_KIND_MAX,
};

/* Whose inodes a bind shows. */
enum plan_inodes {
    INODES_OF_HOST, /* the folder or file itself */
    INODES_OF_PART, /* a part of the plan's overlay */
    INODES_OF_OWN,  /* those of an overlay of the source alone */
};

struct plan_step {
    enum step_kind kind;
    const char *target;
    const char *source;
    int source_fd;           /* BIND: a detached tree cloned by the launcher; -1: clone `source` */
    size_t length;           /* FILE: bytes of `source`; 0: it is text, up to its NUL */
    mode_t mode;             /* DIR, FILE, SHARE */
    bool is_guests;          /* DIR, SHARE, SYMLINK: owned by the guest's id */
    bool no_exec;            /* BIND: no program in it runs */
    bool is_written;         /* BIND_DIR: not read-only, for an installer's result */
    enum plan_inodes inodes; /* BIND */
    const char *within;      /* INODES_OF_PART: the source as seen from the overlay's root */
};

/* A folder of the host with inodes of the box's own; what the box shows of it are binds. */
struct plan_overlay {
    const char *lower; /* the folder; NULL: there is no such overlay */
    int lower_fd;      /* a detached tree of it, cloned by the launcher; -1: `lower` itself */
};

/* A folder of the box that file frames may name; all but the datasets can be written. */
enum share { SHARE_WORKSPACE, SHARE_TMP, SHARE_HOME, SHARE_DATA, _SHARE_MAX };

/* A Landlock rule. */
enum rule_kind { RULE_READ_DIR, RULE_READ_FILE, RULE_WRITE_DIR, RULE_DEVICES, RULE_DEVICE_FILE };
struct plan_rule {
    enum rule_kind kind;
    const char *path; /* as the guest sees it; one that does not exist is passed over */
};

struct plan_rlimit {
    int resource;
    uint64_t value;
};

struct sandbox_plan {
    bool has_namespaces; /* false: Landlock and seccomp only, in a private folder of the host */
    bool has_container;  /* made by another engine: nothing of the box is made or mounted by us */
    bool has_network;    /* the clone gave a network namespace; else a helper makes one */
    bool has_split;      /* warden and guest have an id each */
    bool clears_groups;  /* setgroups(2) is allowed in the box's user namespace */

    /* root */
    const char *base;         /* an existing host folder where the root is put together */
    const char *aside;        /* another one, for mounts that the box does not keep; NULL: none */
    const char *root_options; /* of the tmpfs: size, inodes, mode */
    const struct plan_step *steps;
    size_t step_count;
    struct plan_overlay overlay; /* of all that is bound with INODES_OF_PART */
    bool has_shared; /* something of the host is shown without an overlay, which should have one */
    const char *hostname;

    uint16_t egress_port; /* of a socket that listens on loopback for the proxy; 0: none */

    /* ids as seen inside */
    uid_t warden_id, guest_id;

    const struct cgroup *group; /* to be joined; NULL: none */

    /* the shares: inside paths (with namespaces), or host paths (without); SHARE_DATA may be NULL:
     * /tmp/data is then a folder of /tmp like any other */
    const char *share_path[_SHARE_MAX];

    const struct plan_rule *rules;
    size_t rule_count;
    bool hands_ruleset; /* READY carries it, for processes that join the box from outside */
    const struct filter *warden_filter, *guest_filter;
    const struct plan_rlimit *rlimits; /* of the guest */
    size_t rlimit_count;
    unsigned cpu_count; /* >0: the guest is bound to that many processors (no cpu group) */

    const char *const *env; /* the guest's short list, NULL-terminated */

    const char *own_files; /* the host folder that is /bailey; NULL: it has that name */
    bool counts_own_files; /* a share has files of others too, which are not its disk */

    /* limits that the warden has to watch, because nothing else holds them; 0: not its job */
    uint64_t watch_memory_bytes;
    uint64_t watch_disk_bytes; /* with has_container: of all shares together, a disk each */
    const char *watch_staging; /* an installer's folder: the host's disk must not fill up by it */

    /* memory of the launcher that must not be seen through /proc/1: argv and environment */
    char *scrub;
    size_t scrub_length;
};

/* The child is in namespaces that were made for it, with the privilege to set them up. */
static inline bool plan_makes_box(const struct sandbox_plan *plan)
{
    return plan->has_namespaces && !plan->has_container;
}

#endif
