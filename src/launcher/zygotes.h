/*
 * zygotes.h - shared by the files about zygotes; the rest of launcher/ uses launcher_private.h.
 *
 * A zygote belongs to a (tenant, layer, tier); its id is its owner's (zygote_owner.c). States:
 * WAITING (to be started, after a pause), STARTING (it imports; killed if it takes too long),
 * READY, RETIRED (forks no more, lives while it has kernels to reap). It is replaced after many
 * forks, and retired when its successor is ready.
 *
 * A kernel is listed here from the request until it has ended. Its parent is its zygote; if that
 * dies it becomes a child of the launcher, which then waits for it itself: no status is ever lost.
 *
 * Runs in: launcher
 */
#ifndef BAILEY_LAUNCHER_ZYGOTES_H
#define BAILEY_LAUNCHER_ZYGOTES_H

#include "launcher/launcher_private.h"
#include "zygote/zygote.h"

#define FORK_PATIENCE_MS 10000

enum zygote_state { ZYGOTE_IS_WAITING, ZYGOTE_IS_STARTING, ZYGOTE_IS_READY, ZYGOTE_IS_RETIRED };

struct zygote {
    struct loop_source control, end; /* its socket; its pidfd. Both are owned */
    struct loop_source said;         /* its standard output and error, owned too */
    size_t said_bytes;
    struct launcher *launcher;
    struct zygote *next;
    struct zygote_owner *owner; /* its id and namespaces; has the tenant and the layer */
    struct cgroup group;        /* its own, with limits */
    char mounts[64];            /* name of its mount namespace; empty: unknown */
    int mounts_fd;              /* that namespace, owned: its name stays its own; or -1 */
    uint8_t tier;
    enum zygote_state state;
    pid_t pid; /* 0: no process */
    uint32_t forks;
    uint64_t words;   /* messages received from it */
    uint32_t kernels; /* requested or alive */
    uint64_t at_ms;   /* WAITING: when it is started; STARTING: when it is given up */
    uint64_t pause_ms, used_ms;
    uint64_t started_ns, ready_ns;
    uint64_t told_us; /* of its CPU time, to the broker */
};

struct zygote_kernel {
    struct loop_source end; /* its pidfd, once it is the launcher's own child; else -1 */
    struct launcher *launcher;
    struct zygote *zygote; /* its parent; NULL: the launcher */
    struct zygote_kernel *next;
    uint32_t serial;
    uint32_t number, kernel; /* number of the box; the broker's id of the kernel */
    pid_t pid;               /* 0: unknown yet; until it has joined: what the zygote claims */
    int pid_fd;              /* once it has joined, while a zygote is its parent; else -1 */
    int fds[3];              /* the warden's ends, until it has them */
    uint64_t at_ms;          /* deadline to be in its box */
    bool is_late;            /* it missed the deadline, and it or its zygote was killed */
};

/* zygote_start.c: the process. 0, or a negative errno with nothing left. */
struct zygote_process {
    pid_t pid;
    int pid_fd, control_fd, said_fd;
};
int zygote_spawn(struct launcher *launcher, struct zygote *zygote, struct zygote_process *ret,
                 struct error *err);

/* zygote_spent.c: tells the broker how much CPU time it used since the last time. */
void zygote_spent(struct zygote *zygote);

/* zygote_strays.c */
/* Its process is gone; takes over its control group. Its process group was killed. */
void zygote_strays_end(struct zygote *zygote, pid_t process_group);
void zygote_strays_tick(struct launcher *launcher, uint64_t now_ms);
uint64_t zygote_strays_deadline(const struct launcher *launcher); /* 0: none */
void zygote_strays_leave(struct launcher *launcher); /* waits for them, half a second at most */

/* zygote_kernel.c */
int zygote_ask(struct zygote *zygote, struct managed_box *box, uint32_t kernel);
/*
 * A message of a zygote about one of its kernels; `sender`: pid of the sender from the Linux
 * kernel.
 */
void zygote_heard(struct zygote *zygote, const struct zygote_word *word, pid_t sender);
/* Kills it if it is the zygote's child; false: it is not, or is gone. */
bool zygote_kernel_kill(const struct zygote_kernel *kernel);
void zygote_orphans(
    struct zygote *zygote); /* the zygote is gone: its kernels are the launcher's children now */
void zygote_kernels_end(struct launcher *launcher); /* kills all and waits for them */

#endif
