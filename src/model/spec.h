/*
 * spec.h - what a caller asks for: limits, a box, a command. Plain structs, borrowed pointers: the
 * caller keeps everything alive until the call that took the struct returns. No I/O.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_MODEL_SPEC_H
#define BAILEY_MODEL_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/isolation.h"

/* The limits of a box and of one command in it. config/ has checked them. */
struct limits {
    uint64_t timeout_ms;
    uint64_t memory_bytes;
    uint64_t disk_bytes;   /* part of memory_bytes */
    uint64_t output_bytes; /* of each stream, kept in the result */
    uint32_t pids;         /* processes and threads */
    uint32_t cpu_millis;   /* 1000 = one core; 0 = all of them */
};

/* Which mechanism enforces a limit: the values of meta.resource_limits.*_by. */
enum limit_by {
    LIMIT_BY_NONE,      /* "none": nothing holds it */
    LIMIT_BY_CGROUP_V2, /* "cgroup-v2" */
    LIMIT_BY_CGROUP_V1, /* "cgroup-v1" */
    LIMIT_BY_RLIMIT,    /* "rlimit" */
    LIMIT_BY_WATCHDOG,  /* "watchdog (approximate)" */
    LIMIT_BY_AFFINITY,  /* "affinity (approximate)" */
    LIMIT_BY_TMPFS,     /* "tmpfs" */
    LIMIT_BY_ENGINE,    /* "engine" */
    LIMIT_BY_CONTAINER, /* "container": the provider's, read back from it */
    _LIMIT_BY_MAX,
};
const char *limit_by_name(enum limit_by by);

/* A host folder or file that is shown in the box, read-only, under its own path or another. */
struct box_bind {
    const char *host;
    const char *box; /* NULL: the same path */
};

/* What a box is made of. */
struct box_spec {
    struct limits limits;
    enum isolation minimum;
    const char *root;             /* a folder to take the root from; NULL: the host's /usr */
    const struct box_bind *binds; /* e.g. the interpreter's prefix */
    size_t bind_count;
    uint64_t id_base;   /* SANDBOX_ID_BASE */
    const char *layer;  /* the host folder of a template's layer; NULL: the host's own Python */
    const char *python; /* in the box: what python, python3 and pip mean; NULL: what it has */
    bool has_drivers;   /* a kernel may be started in it: its drivers are below /bailey */

    /* where a provider host makes it (runtime/host/hosted.h) */
    const char *engine;            /* path of bailey-engine */
    const char *warden;            /* path of `bailey` */
    const char *const *engine_env; /* NULL-terminated "K=V": the effective configuration */
    int cancel_fd; /* readable when the caller does not want it any more; -1: never */
};

/* One command in a box. */
struct exec_spec {
    const char *const
        *argv;              /* NULL-terminated; argv[0] without '/' is searched in the box's PATH */
    const char *const *env; /* NULL-terminated "K=V", added to the box's own short list */
    const char *cwd;        /* NULL: /workspace */
    bool stdin_open;        /* the caller will send standard input; else it is /dev/null */
    bool ends_box;          /* when it ends, all that runs in the box ends too (one-shot) */
    uint64_t timeout_ms;    /* 0: none */
    bool keeps;             /* stays known to the warden after its end, until box_forget() */
    bool is_pty;            /* on a terminal of its own; implies stdin_open */
    unsigned rows, columns; /* of it */
    bool may_fork;          /* a kernel of Python's: from the box's own zygote, if it has one */
};

#endif
