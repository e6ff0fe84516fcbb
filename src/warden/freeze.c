/*
 * freeze.c - FREEZE and THAW: the processes of the box stop and go on again.
 *
 * Stop signals hold where no control group can be frozen. The guest can tell: a parent that asks
 * for it sees that its child was stopped, and a handler of SIGCONT is called. A process that was
 * stopped before (a job of a shell) stays stopped at the thaw.
 *
 * No process of the box runs that could send SIGCONT, but the kernel sends it, too: to a process
 * that armed a timer for it (timer_create(2)) or asked for it as the signal of a descriptor
 * (F_SETSIG) before the freeze. So the warden looks while the box is frozen: at the CPU clocks of
 * its processes, one system call each, and at /proc when one has moved. What runs is stopped again,
 * which an interpreter that arrives late from a zygote needs too, and a process that had no turn on
 * a CPU since the freeze. A box that has used CPU time ends.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "warden/warden_private.h"

#define PROCESSES_MAX 4096
#define CPU_NS_MAX UINT64_C(300000000) /* of all processes together, the stopping included */
#define QUIET_LOOKS 16 /* after so many /proc is looked at anyway, for processes that came late */

struct frozen {
    size_t stopped_count;
    pid_t stopped[PROCESSES_MAX]; /* before the freeze */
    size_t count;
    pid_t pids[PROCESSES_MAX]; /* whose CPU time is looked at */
    uint64_t seen_ns, used_ns; /* at the last look; since the freeze */
    unsigned looks;
};

/* A process that is gone has no clock any more: what it used is forgotten. */
static uint64_t cpu_ns(const struct frozen *frozen)
{
    uint64_t total = 0;

    for (size_t i = 0; i < frozen->count; i++) {
        struct timespec used;
        clockid_t clock;

        if (clock_getcpuclockid(frozen->pids[i], &clock) == 0 && clock_gettime(clock, &used) == 0)
            total += (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
    }
    return total;
}

/* Returns how many are not stopped. */
static size_t look_at_all(struct warden *warden, struct frozen *frozen)
{
    size_t running;

    frozen->count = proc_tree_list(warden->sandbox, frozen->pids, PROCESSES_MAX, &running);
    frozen->seen_ns = cpu_ns(frozen);
    return running;
}

void warden_freeze(struct warden *warden, const struct frame *frame)
{
    struct frozen *frozen;

    if (frame->id == 0 || frame->length > 0)
        warden_end(warden);
    if (!warden->frozen) {
        frozen = calloc(1, sizeof(*frozen));
        if (!frozen) {
            channel_done(warden, frame->id, -ENOMEM);
            return;
        }
        frozen->stopped_count = proc_tree_stop(warden->sandbox, frozen->stopped, PROCESSES_MAX);
        look_at_all(warden, frozen);
        warden->frozen = frozen;
        watch_frozen(warden);
    }
    channel_done(warden, frame->id, 0);
}

bool freeze_look(struct warden *warden)
{
    struct frozen *frozen = warden->frozen;
    uint64_t now_ns = cpu_ns(frozen);
    bool has_moved = now_ns != frozen->seen_ns;

    if (!has_moved && ++frozen->looks % QUIET_LOOKS > 0)
        return false;
    frozen->used_ns += now_ns > frozen->seen_ns ? now_ns - frozen->seen_ns : 0;
    if (frozen->used_ns > CPU_NS_MAX)
        warden_end(warden);
    if (look_at_all(warden, frozen) > 0)
        proc_tree_stop(warden->sandbox, NULL, 0);
    return has_moved;
}

void warden_thaw(struct warden *warden, const struct frame *frame)
{
    struct frozen *frozen = ptr_take(&warden->frozen);

    if (frame->id == 0 || frame->length > 0)
        warden_end(warden);
    if (frozen) {
        proc_tree_continue(warden->sandbox, frozen->stopped, frozen->stopped_count);
        watch_clock(warden); /* it rests by itself where nothing runs */
    }
    free(frozen);
    channel_done(warden, frame->id, 0);
}
