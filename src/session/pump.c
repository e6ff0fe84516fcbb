/* pump.c - connects a box to the reactor: polls its socket, calls box_pump(), keeps its timer. */
#include <poll.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "session/session_private.h"

#define DRAIN_MS 20 /* interval for a lost box whose last output was not read yet */

static void arm(struct pump *pump)
{
    uint64_t next = box_next_deadline_ms(pump->box);
    short events = box_fd(pump->box) >= 0 ? box_poll_events(pump->box) : 0;

    if (pump->watch && events != pump->events) {
        pump->reactor->ops->watch_change(pump->watch, events);
        pump->events = events;
    }
    if (next != pump->armed_ms) {
        uint64_t now = clock_now_ms();

        pump->reactor->ops->timer_set(pump->timer, next == UINT64_MAX ? UINT64_MAX
                                                   : next > now       ? next - now
                                                                      : 0);
        pump->armed_ms = next;
    }
}

static void turn(struct pump *pump)
{
    struct error err = {0};
    int r;

    if (pump->is_inside || !pump->box)
        return;
    pump->is_inside = true;
    r = box_pump(pump->box, &err);
    pump->is_inside = false;
    if (r < 0) {
        pump->reactor->ops->watch_remove(ptr_take(&pump->watch));
        pump->reactor->ops->timer_set(pump->timer, UINT64_MAX);
        pump->lost(pump->ctx, &err);
        return;
    }
    if (box_fd(pump->box) < 0) {
        pump->reactor->ops->watch_remove(ptr_take(&pump->watch));
        pump->reactor->ops->timer_set(pump->timer, DRAIN_MS);
        pump->armed_ms = 0;
        return;
    }
    arm(pump);
}

static void on_ready(void *ctx, short events)
{
    (void)events;
    turn(ctx);
}

static void on_due(void *ctx)
{
    struct pump *pump = ctx;

    pump->armed_ms = 0; /* it fired, so the next deadline must be set again */
    turn(pump);
}

static void on_wake(void *ctx)
{
    struct pump *pump = ctx;

    if (!pump->is_inside && pump->box && pump->watch)
        arm(pump);
}

int pump_start(struct pump *pump, struct reactor *reactor, struct box *box,
               void (*lost)(void *ctx, const struct error *err), void *ctx)
{
    *pump = (struct pump){.reactor = reactor, .box = box, .lost = lost, .ctx = ctx};
    pump->events = POLLIN;
    pump->armed_ms = UINT64_MAX;
    pump->watch = reactor_watch(reactor, box_fd(box), pump->events, on_ready, pump);
    pump->timer = reactor_timer(reactor, on_due, pump);
    if (!pump->watch || !pump->timer) {
        pump_stop(pump);
        return -1;
    }
    box_on_wake(box, on_wake, pump);
    arm(pump);
    return 0;
}

void pump_stop(struct pump *pump)
{
    if (!pump->reactor)
        return;
    if (pump->box)
        box_on_wake(pump->box, NULL, NULL);
    pump->reactor->ops->watch_remove(pump->watch);
    pump->reactor->ops->timer_remove(pump->timer);
    *pump = (struct pump){0};
}
