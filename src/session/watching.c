/*
 * watching.c - the watchers of an execution: how far each has read, and what happens when one
 * leaves.
 */
#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "session/session_private.h"

#define PACE_BYTES (LIMIT_SPOOL_BYTES / 2) /* how far a pacing watcher may be behind */

static void sweep_watchers(struct execution *execution)
{
    for (struct execution_watcher **at = &execution->watchers; *at;) {
        struct execution_watcher *watcher = *at;

        if (!watcher->has_left) {
            at = &watcher->next;
            continue;
        }
        *at = watcher->next;
        free(watcher);
    }
}

void execution_tell(struct execution *execution, bool has_started)
{
    execution->users++; /* a callback may remove itself and other watchers, and be the last */
    execution->telling++;
    for (struct execution_watcher *watcher = execution->watchers; watcher;
         watcher = watcher->next) {
        if (watcher->has_left)
            continue;
        if (!has_started)
            watcher->events->more(watcher->ctx);
        else if (watcher->events->started)
            watcher->events->started(watcher->ctx);
    }
    if (--execution->telling == 0)
        sweep_watchers(execution);
    execution->users--;
}

void execution_tell_paused(struct execution *execution)
{
    execution->users++; /* as in execution_tell() */
    execution->telling++;
    for (struct execution_watcher *watcher = execution->watchers; watcher;
         watcher = watcher->next) {
        if (!watcher->has_left && watcher->events->paused)
            watcher->events->paused(watcher->ctx);
    }
    if (--execution->telling == 0)
        sweep_watchers(execution);
    execution->users--;
}

static bool is_watched(const struct execution *execution)
{
    for (const struct execution_watcher *at = execution->watchers; at; at = at->next) {
        if (!at->has_left)
            return true;
    }
    return false;
}

struct execution_watcher *execution_watch(struct execution *execution, bool paces,
                                          const struct execution_watch_events *events, void *ctx)
{
    struct execution_watcher *watcher = calloc(1, sizeof(*watcher));

    if (!watcher)
        return NULL;
    *watcher = (struct execution_watcher){
        .next = execution->watchers,
        .execution = execution,
        .paces = paces,
        .events = events,
        .ctx = ctx,
        .offset = {execution_written(execution, 1), execution_written(execution, 2),
                   execution_written(execution, 3)},
    };
    execution->watchers = watcher;
    execution->users++;
    return watcher;
}

void execution_watch_at(struct execution_watcher *watcher, const uint64_t offset[BOX_STREAMS])
{
    struct execution *execution = watcher->execution;

    for (int i = 0; i < BOX_STREAMS; i++) {
        watcher->offset[i] = offset[i];
        if (execution->is_held[i])
            session_manager_later(execution->session->manager);
    }
}

static bool is_held(const struct execution *execution)
{
    return execution->is_held[0] || execution->is_held[1] || execution->is_held[2];
}

/*
 * No client waits for the execution. A cell is interrupted first, so that its kernel can keep its
 * variables.
 */
static void give_up(struct execution *execution)
{
    if (execution->cell)
        cell_abandon(execution);
    else
        execution_signal(execution, SIGKILL, NULL);
}

void execution_unwatch(struct execution_watcher *watcher, bool ends_it)
{
    struct execution *execution = watcher->execution;

    watcher->has_left = true;
    if (execution->telling == 0)
        sweep_watchers(execution);
    execution->users--;
    if (is_held(execution) || execution->session->manager->is_stopping)
        session_manager_later(execution->session->manager);
    execution->is_abandoned |= ends_it;
    if (execution_has_ended(execution))
        execution_forget(execution);
    else if (execution->is_abandoned && !is_watched(execution) &&
             !execution_is_background(execution))
        give_up(execution);
}

/* How many more bytes the slowest pacing watcher allows. */
uint64_t execution_room(const struct execution *execution, int stream)
{
    uint64_t room = UINT64_MAX;

    if (execution->session->state >= SESSION_ENDING)
        return room; /* no watcher is waited for any more */
    for (const struct execution_watcher *at = execution->watchers; at; at = at->next) {
        uint64_t length = execution->out[stream].length;
        uint64_t behind =
            length -
            MIN(length, at->offset[stream]); /* the watcher may have read further than `length` */

        if (at->paces && !at->has_left)
            room = MIN(room, behind < PACE_BYTES ? PACE_BYTES - behind : 0);
    }
    return room;
}
