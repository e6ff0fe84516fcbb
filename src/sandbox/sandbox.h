/*
 * sandbox.h - from a plan to a confined process.
 *
 * sandbox_bring_up() runs in the cloned child and makes it the warden of a box;
 * sandbox_enter_guest() runs in a child of the warden and makes it the guest, up to the exec. Both
 * walk a table of stages, one kernel facility each, and stop at the first that fails: the caller
 * reports {stage, step, errno}. Between clone and exec nothing allocates, locks or uses stdio.
 *
 * Order, learned from vulnerabilities of other sandboxes: ids, mounts, control group, capabilities,
 * no_new_privs, Landlock, seccomp last. No guest exists before all of it is done.
 *
 * Runs in: box child, zygote, launcher, box, hosts, commands
 */
#ifndef BAILEY_SANDBOX_SANDBOX_H
#define BAILEY_SANDBOX_SANDBOX_H

#include <stdint.h>
#include <sys/types.h>

#include "base/isolation.h"
#include "sandbox/plan.h"
#include "sys/cgroup.h"

#define SANDBOX_STAGES_MAX 32

/* The engine, as the child sees it. */
struct sandbox_host {
    int (*wait_maps)(void *ctx);
    int (*wait_group)(void *ctx);
    void *ctx;
};

/* What the warden keeps after the bring-up. */
struct sandbox {
    const struct sandbox_plan *plan;
    const struct sandbox_host *host; /* during bring-up */
    uint32_t layers;
    uint32_t missing;
    uint16_t lack_errno[_ISOLATION_LAYER_MAX];
    uint32_t stage_ns[SANDBOX_STAGES_MAX];
    unsigned stage_count;
    uint16_t failed_stage, failed_step; /* valid if bring-up returned an error */
    bool has_bounding_set;              /* the bounding set could not be emptied */
    int root_fd; /* the new root while it is assembled; -1 before and after */
    pid_t network_pid;
    int network_fd;    /* the network helper writes here when it is done */
    int proc_fd;       /* a writable /proc; -1: none */
    int oom_fd;        /* the warden's own oom_score_adj; -1: none */
    char oom_score[8]; /* its value while no guest is being forked */
    bool has_overlay;  /* the plan's overlay is mounted, and is the working folder */
    bool has_scope;    /* without namespaces: kill(-1) reaches the box's processes and no others */
    int outer_proc_fd; /* the host's /proc, kept only if the box has none; -1 */
    pid_t outer_pid;   /* the warden's pid there */
    int ruleset_fd;    /* Landlock; -1: missing */
    int egress_fd;     /* listens on the box's loopback for the proxy; -1: none */
    int share_fd[_SHARE_MAX]; /* -1: not available (SHARE_DATA) */
    int disk_fd; /* the disk that contains them, as one mount that is attached nowhere; -1: none */
};

void sandbox_init(struct sandbox *sandbox, const struct sandbox_plan *plan);

/*
 * Must run in a new child with one thread. Work outside goes on meanwhile: wait_maps() blocks until
 * the id maps are written, wait_group() until the control group exists; both may change the plan.
 */
int sandbox_bring_up(struct sandbox *sandbox, const struct sandbox_host *host);
const char *sandbox_stage_name(unsigned stage);

/* Parameters of one guest. */
struct guest_start {
    int stdio[3];
    bool has_terminal; /* stdio is a terminal: it becomes the controlling terminal */
    bool has_socket;   /* a kernel: socket_fd becomes descriptor 3 right before the exec */
    int socket_fd;     /* note_fd is not 3 then */
    bool has_packets;  /* its socket is SOCK_SEQPACKET: a zygote's */
    const char *const *argv;
    const char *const *env;
    const char *cwd; /* NULL: the workspace */
    int note_fd;     /* gets the monotonic time (8 bytes) right before the exec */
};

/* Only returns on failure: the negative errno, with the stage (sandbox/guest_stage.h) in
 * *ret_stage.
 */
int sandbox_enter_guest(const struct sandbox *sandbox, const struct guest_start *start,
                        uint16_t *ret_stage);

/*
 * Parameters of a guest that was forked outside the box, into its namespaces (join.c); or inside,
 * by another guest, whose isolation it inherits.
 */
struct guest_join {
    bool is_from_outside;          /* it has all capabilities in the box, and its zygote's filter */
    int group_fd[_CONTROLLER_MAX]; /* files of its control group to write "0" into; -1: none */
    int out_fd, err_fd, socket_fd; /* become 1, 2 and 3; 0 is /dev/null */
    int told_fd;                   /* stays open, under another number: the caller closes it */
    int ruleset_fd;                /* Landlock; -1: the box lacks it */
};

/*
 * Everything from the control group to seccomp, by system calls only; `layers` are those that the
 * warden has and the caller has not yet (inside: none). A negative errno, with the stage in
 * *ret_stage: the caller must exit, because it is only partly isolated. The caller must be
 * single-threaded, not dumpable, and in all namespaces of the box, and must not become dumpable
 * before this returned.
 */
int sandbox_join_guest(const struct sandbox_plan *plan, uint32_t layers, struct guest_join *join,
                       uint16_t *ret_stage);
const char *sandbox_join_stage_name(unsigned stage);

/*
 * Mounts and enters a root from the plan's steps, for an engine process that stays outside a box.
 */
int sandbox_enter_root(struct sandbox *sandbox);
/*
 * Installs the filter of a zygote, before its interpreter is executed. *ret_is_on is false if this
 * kernel has no seccomp filters, which boxes then lack too. Requires no_new_privs.
 */
int sandbox_zygote_filter(bool has_one_id, bool *ret_is_on);

#endif
