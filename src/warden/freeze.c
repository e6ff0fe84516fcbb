/*
 * freeze.c - FREEZE and THAW: the processes of the box stop and go on again.
 *
 * Stop signals hold where no control group can be frozen. The guest can tell: a parent that asks
 * for it sees that its child was stopped, and a handler of SIGCONT is called. Nothing in the box
 * can undo it, because nothing but the warden runs. A process that was stopped before (a job of a
 * shell) stays stopped at the thaw.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "warden/warden_private.h"

#define STOPPED_MAX 4096

struct frozen {
    size_t count;
    pid_t stopped[STOPPED_MAX]; /* before the freeze */
};

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
        frozen->count = proc_tree_stop(warden->sandbox, frozen->stopped, STOPPED_MAX);
        warden->frozen = frozen;
        watch_rest(warden);
    }
    channel_done(warden, frame->id, 0);
}

void warden_thaw(struct warden *warden, const struct frame *frame)
{
    struct frozen *frozen = ptr_take(&warden->frozen);

    if (frame->id == 0 || frame->length > 0)
        warden_end(warden);
    if (frozen) {
        proc_tree_continue(warden->sandbox, frozen->stopped, frozen->count);
        if (warden->has_guests)
            watch_clock(warden);
    }
    free(frozen);
    channel_done(warden, frame->id, 0);
}
