/*
 * freeze.c - FREEZE and THAW: the processes of the box stop and go on again.
 *
 * Stop signals hold where no control group can be frozen. The guest can tell: a parent that asks
 * for it sees that its child was stopped, and a handler of SIGCONT is called. A process that was
 * stopped before (a job of a shell) stays stopped at the thaw.
 *
 * No process of the box runs that could send SIGCONT, but the kernel sends it, too: to a process
 * that armed a timer for it (timer_create(2)) or asked for it as the signal of a descriptor
 * (F_SETSIG) before the freeze. So the warden looks while the box is frozen. What runs is stopped
 * again, which an interpreter that arrives late from a zygote needs too; a box in which something
 * runs again and again, or that has used CPU time, ends.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "warden/warden_private.h"

#define STOPPED_MAX 4096
#define STOPS_MAX 3      /* looks that find something running */
#define CPU_TIME_MS 300 /* of all processes together, the stopping included */

struct frozen {
    uint64_t ticks;
    unsigned stops;
    size_t count;
    pid_t stopped[STOPPED_MAX]; /* before the freeze */
};

void warden_freeze(struct warden *warden, const struct frame *frame)
{
    struct proc_tree_life life;
    struct frozen *frozen;

    if (frame->id == 0 || frame->length > 0)
        warden_end(warden);
    if (!warden->frozen) {
        frozen = calloc(1, sizeof(*frozen));
        if (!frozen) {
            channel_done(warden, frame->id, -ENOMEM);
            return;
        }
        frozen->count = proc_tree_stop(warden->sandbox, frozen->stopped, STOPPED_MAX);
        proc_tree_look(warden->sandbox, &life);
        frozen->ticks = life.ticks;
        warden->frozen = frozen;
        watch_frozen(warden);
    }
    channel_done(warden, frame->id, 0);
}

void freeze_look(struct warden *warden)
{
    const uint64_t most = CPU_TIME_MS * (uint64_t)sysconf(_SC_CLK_TCK) / 1000;
    struct frozen *frozen = warden->frozen;
    struct proc_tree_life life;

    proc_tree_look(warden->sandbox, &life);
    if (life.ticks > frozen->ticks + most || (life.running > 0 && ++frozen->stops > STOPS_MAX))
        warden_end(warden);
    if (life.running > 0)
        proc_tree_stop(warden->sandbox, NULL, 0);
}

void warden_thaw(struct warden *warden, const struct frame *frame)
{
    struct frozen *frozen = ptr_take(&warden->frozen);

    if (frame->id == 0 || frame->length > 0)
        warden_end(warden);
    if (frozen) {
        proc_tree_continue(warden->sandbox, frozen->stopped, frozen->count);
        watch_clock(warden); /* it rests by itself where nothing runs */
    }
    free(frozen);
    channel_done(warden, frame->id, 0);
}
