/*
 * boxes.h - makes boxes and ends them: the only room with privilege.
 *
 * launch_make() decides everything (plan), clones the warden, does what has to be done from
 * outside (id maps, control group) and waits until the box stands or has failed. The caller owns
 * the result and gives it back through launch_end(), after which nothing of the box is left:
 * process, mount, control group, folder, descriptor. One thread. Parses nothing that came from a
 * client or a guest but the READY and FAILED frames of a warden that has not met a guest yet.
 *
 * Runs in: launcher, commands, supervisor
 */
#ifndef BAILEY_BOXES_BOXES_H
#define BAILEY_BOXES_BOXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/isolation.h"
#include "sys/cgroup.h"
#include "wire/message.h"

struct launch_bind {
    const char *host;
    const char *box; /* absolute path inside */
};

/* Where a box's ids come from. */
enum launch_ids {
    LAUNCH_IDS_CHOOSE, /* from the range that the caller has on this host */
    LAUNCH_IDS_PAIR, /* these two of the caller's user namespace; the box has namespaces or fails */
    LAUNCH_IDS_SINGLE, /* the caller's own for both; likewise */
};

/*
 * Where an installer box has the folder for its result. The first two fetch: they have a way to the
 * index and its passwords, and run no code of packages. The other two finish what is there: code of
 * packages runs in them, and they have neither.
 */
enum launch_staging {
    STAGING_NONE,
    STAGING_TEMPLATE, /* /bailey/template */
    STAGING_PACKAGES, /* /bailey/packages */
    STAGING_FINISH_TEMPLATE,
    STAGING_FINISH_PACKAGES,
    _STAGING_MAX,
};

static inline bool staging_fetches(enum launch_staging staging)
{
    return staging == STAGING_TEMPLATE || staging == STAGING_PACKAGES;
}

static inline bool staging_is_template(enum launch_staging staging)
{
    return staging == STAGING_TEMPLATE || staging == STAGING_FINISH_TEMPLATE;
}

/* A small file of ours in the box, read-only; borrowed. */
struct launch_file {
    const char *path; /* relative to /bailey */
    const char *text;
    size_t length;
};

struct launch_spec {
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis;
    enum isolation minimum;
    const char *root; /* NULL: the host's /usr */
    const struct launch_bind *binds;
    size_t bind_count;
    const char *data;  /* a host folder that is /tmp/data, read-only; NULL: a folder like others */
    uint64_t id_base;  /* of the range of host ids for boxes of a root start */
    const char *layer; /* host folder that is /bailey/template, read-only; NULL: none */
    const char *packages;       /* host folder that is /bailey/packages, read-only; NULL: none */
    const char *staging;        /* host folder, writable for the guest, at the path `stages` says */
    enum launch_staging stages; /* one that fetches listens for the egress proxy, too */
    const struct launch_file *files; /* below /bailey */
    size_t file_count;
    const char *python; /* in the box: what python, python3 and pip are; NULL: what PATH has */
    bool wants_ruleset; /* of Landlock, for processes that join the box: launched.ruleset_fd */

    /* of an engine; zero for a box that is made directly */
    enum launch_ids ids;
    uint32_t warden_id, guest_id;   /* LAUNCH_IDS_PAIR */
    uint32_t owner_id;              /* of its user namespace: who may enter it; 0: the caller */
    const struct cgroup_site *site; /* where its group is made, and nothing swept; NULL: found */
    uint32_t cpu_share;             /* cgroup_set_share(); 0: the kernel's default */
};

#define LAUNCH_EGRESS_PORT 3128

/* What enforces a limit. */
enum launch_holder {
    HELD_BY_NOTHING,
    HELD_BY_GROUP,
    HELD_BY_RLIMIT,
    HELD_BY_WARDEN,
    HELD_BY_AFFINITY,
    HELD_BY_TMPFS,
    HELD_BY_CONTAINER, /* the engine that made the container */
    _HELD_BY_MAX,
};

#define LAUNCH_TIMINGS_MAX 48
struct launch_timing {
    const char *name; /* static */
    uint64_t ns;
};

struct launched {
    pid_t pid;
    int pid_fd;
    int channel_fd; /* SOCK_SEQPACKET, nonblocking; the caller may take it (and set -1) */
    int ruleset_fd; /* the box's Landlock ruleset, for processes that join it; -1: none */
    int egress_fd;  /* a listening socket on the box's loopback, port LAUNCH_EGRESS_PORT; -1 */
    struct cgroup_site site;
    bool has_tried_group;
    char group_name[32]; /* of an engine's box */
    struct cgroup group;
    int folder_fd;    /* holds the lock on it; -1: none */
    char folder[256]; /* private folder of a box without namespaces; empty: none */
    uint32_t layers, missing;
    enum launch_holder memory, pids, cpu, disk;
    struct launch_timing timings[LAUNCH_TIMINGS_MAX];
    size_t timing_count;
};

struct launch_usage {
    uint64_t cpu_us;
    uint64_t max_rss_bytes;
    uint64_t oom_kills;
};

/*
 * On failure nothing is left; ret->layers and ret->missing still say which layers held, as far as
 * known.
 */
int launch_make(const struct launch_spec *spec, struct launched *ret, struct error *err);

/* Ends all that runs in the box and waits for it. NULL is fine; safe twice. */
void launch_end(struct launched *launched, struct launch_usage *usage);

/* Read from the control group, while the box lives. */
uint64_t launch_oom_kills(const struct launched *launched);

/* The drivers of kernels that this program carries, as files of a box; static. */
const struct launch_file *launch_drivers(size_t *ret_count);
/* The native part of a zygote, for containers that have one: local boxes have none. */
const struct launch_file *launch_zygote_module(void);

/*
 * `bailey` executed as the first process of a container (docs/design, the Docker provider host):
 * argv is {"bailey", WARDEN_INSIDE_WORD}. Frames come on descriptor 0 and go to descriptor 1; an
 * error at the start is also written to 2 as a line. The container's environment may have
 * BAILEY_DISK_BYTES, the total size of its shares; that of its image CONTAINER_VARIABLES, the names
 * of those variables that the guest gets. Does not return.
 */
#define WARDEN_INSIDE_WORD "warden-inside"
#define CONTAINER_VARIABLES "BAILEY_TEMPLATE_ENV"
_Noreturn void warden_inside(void);

/*
 * `bailey` executed beside the engine, in a container that is itself the only box: argv is
 * {"bailey", WARDEN_BESIDE_WORD}. Frames come and go over descriptor 0, a stream socket; an error
 * at the start is written to 2. This process keeps its rights and forks the warden, which has
 * none. When the warden has ended, or SIGTERM came, it ends all that descends from it, removes all
 * that the guest's id has left (boxes/leftovers.c), and exits: then nothing of the box is there.
 * Does not return. The variables of its environment:
 */
#define WARDEN_BESIDE_WORD "warden-beside"
#define BESIDE_GUEST "BAILEY_BOX_GUEST"   /* the guest's id; not set: the caller's */
#define BESIDE_MEMORY "BAILEY_BOX_MEMORY" /* bytes, as the next one */
#define BESIDE_DISK "BAILEY_BOX_DISK"
#define BESIDE_PIDS "BAILEY_BOX_PIDS"
#define BESIDE_CPU "BAILEY_BOX_CPU"         /* thousandths of a processor; 0: all */
#define BESIDE_PYTHON "BAILEY_BOX_PYTHON"   /* path of the interpreter; not set: none */
#define BESIDE_BINDS "BAILEY_BOX_BINDS"     /* folders that the guest may read too; "A:B" */
#define BESIDE_PRIVATE "BAILEY_BOX_PRIVATE" /* set: without the promised paths */
#define BESIDE_LOCK "BAILEY_BOX_LOCK"       /* a file that one such process holds at a time */
_Noreturn void warden_beside(void);

/* argv and environment of this process: a warden must not carry them into its box. */
void launch_remember_arguments(int argc, char **argv, char **env);

#endif
