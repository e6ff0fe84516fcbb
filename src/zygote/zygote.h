/*
 * zygote.h - the protocol between the launcher and a zygote; in a container, between the warden and
 * its zygote.
 *
 * A zygote is a warm Python that the launcher started: guest/python/zygote.py imports modules and
 * then stays in one native call (module.c), which forks a kernel for each request and reaps it.
 * Both sides are of one program (the shared object is embedded in it), so structs go over the
 * socket as they are: one SOCK_SEQPACKET message each, requests with descriptors.
 *
 * The launcher does not trust these messages: package code has run in the zygote and may send
 * anything on its socket. It can lie about kernels of its own tenant and template; the sender of a
 * message is known from the Linux kernel (SCM_CREDENTIALS), and a pid that is only claimed is never
 * signalled.
 *
 * The messages about one kernel come in any order except: FORKED before ENDED, JOINED or FAILED
 * before ENDED. JOINED and FAILED are sent by the new process itself, not dumpable yet, before any
 * code that the guest can influence has run in it.
 *
 * In a container the zygote is a guest: none of its messages is trusted, and it can only harm
 * itself. Requests have no box there. FORKED has no pid, and comes when the warden has become the
 * kernel's parent, so the zygote never reports its end; JOINED has the pid.
 *
 * Runs in: zygote, launcher, hosts, box
 */
#ifndef BAILEY_ZYGOTE_ZYGOTE_H
#define BAILEY_ZYGOTE_ZYGOTE_H

#include <stddef.h>
#include <stdint.h>

#include "sandbox/plan.h"
#include "sys/cgroup.h"

/* Descriptors of a zygote, by number. */
#define ZYGOTE_CONTROL_FD 3
#define ZYGOTE_OOM_FD 4 /* its own oom_score_adj; may be closed: not available */

/* Paths of its files. */
#define ZYGOTE_SCRIPT "driver/zygote.py"
#define ZYGOTE_MODULE "driver/_zygote.so"
#define ZYGOTE_TIERS "tiers"

/* Libraries read them at import, and start this many threads at their first use. */
#define ZYGOTE_THREAD_NAMES                                                              \
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_MAX_THREADS", \
        "POLARS_MAX_THREADS", "RAYON_NUM_THREADS"

#define ZYGOTE_RLIMITS_MAX 12
#define ZYGOTE_OOM_SCORE "500" /* oom_score_adj of a kernel, as of every guest */

/* The descriptors of a request, in this order; missing ones are left out. */
enum zygote_fd {
    /* The box's namespaces, in the order in which they are entered; without a user namespace the
     * zygote is in the box itself. */
    ZYGOTE_FD_USER,
    ZYGOTE_FD_PID,
    ZYGOTE_FD_IPC,
    ZYGOTE_FD_UTS,
    ZYGOTE_FD_NET,    /* may be missing, like its isolation layer */
    ZYGOTE_FD_CGROUP, /* likewise */
    ZYGOTE_FD_MNT,
    ZYGOTE_FD_SOCKET,
    ZYGOTE_FD_OUT,
    ZYGOTE_FD_ERR,
    ZYGOTE_FD_RULESET,
    ZYGOTE_FD_GROUP, /* this and the following: the control group, one for each controller */
    _ZYGOTE_FD_MAX = ZYGOTE_FD_GROUP + _CONTROLLER_MAX,
};

/* Launcher to zygote: fork a kernel into this box. */
struct zygote_request {
    uint32_t serial; /* repeated in every message about it */
    uint32_t fds;    /* bits of enum zygote_fd */
    uint32_t layers; /* isolation layers that the warden has */
    uint32_t cpu_count;
    uint32_t is_prewarmed; /* for the pool: it has time to run warm-up code */
    uint32_t rlimit_count;
    struct plan_rlimit rlimits[ZYGOTE_RLIMITS_MAX];
};

enum zygote_word_type {
    ZYGOTE_READY,  /* everything is imported */
    ZYGOTE_FORKED, /* pid; or 0 and an error */
    ZYGOTE_JOINED, /* pid: it is in the box */
    ZYGOTE_FAILED, /* stage (sandbox_join_stage_name()) and error; it ends with status 127 */
    ZYGOTE_ENDED,  /* pid, status, usage; serial 0: identified by the pid */
    _ZYGOTE_WORD_MAX,
};

struct zygote_word {
    uint32_t type;
    uint32_t serial;
    int32_t pid;
    int32_t status; /* as from wait(2) */
    uint16_t stage, error;
    uint64_t cpu_us, max_rss_bytes;
    uint64_t heard_ns, forked_ns, joined_ns; /* JOINED: times for diagnostics (monotonic) */
};

#endif
