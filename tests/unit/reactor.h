/*
 * reactor.h - base/reactor.h over poll(2), for unit tests of rooms that need a loop.
 *
 * `struct poll_reactor loop = {0}; poll_reactor_init(&loop);` then hand out &loop.reactor and call
 * poll_reactor_turn() until what is waited for has happened. poll_reactor_free() fails the test
 * when a watch or timer was left.
 */
#ifndef BAILEY_TESTS_REACTOR_H
#define BAILEY_TESTS_REACTOR_H

#include "unit.h"

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/reactor.h"

#define POLL_REACTOR_MAX 256

struct reactor_watch {
    struct poll_reactor *owner;
    int fd;
    short events;
    reactor_ready ready;
    void *ctx;
    struct reactor_watch *next;
    bool is_removed;
};

struct reactor_timer {
    struct poll_reactor *owner;
    uint64_t due_ms; /* UINT64_MAX: not set */
    reactor_due due;
    void *ctx;
    struct reactor_timer *next;
    bool is_removed;
};

struct poll_reactor {
    struct reactor reactor; /* first */
    struct reactor_watch *watches;
    struct reactor_timer *timers;
};

static inline struct reactor_watch *poll_watch(struct reactor *reactor, int fd, short events,
                                               reactor_ready ready, void *ctx)
{
    struct poll_reactor *self = (struct poll_reactor *)reactor;
    struct reactor_watch *watch = calloc(1, sizeof(*watch));

    assert_non_null(watch);
    *watch = (struct reactor_watch){.owner = self,
                                    .fd = fd,
                                    .events = events,
                                    .ready = ready,
                                    .ctx = ctx,
                                    .next = self->watches};
    self->watches = watch;
    return watch;
}

static inline void poll_watch_change(struct reactor_watch *watch, short events)
{
    assert_false(watch->is_removed);
    watch->events = events;
}

/* Freed by the next turn: it may be one that is just being looked at. */
static inline void poll_watch_remove(struct reactor_watch *watch)
{
    if (watch)
        watch->is_removed = true;
}

static inline struct reactor_timer *poll_timer(struct reactor *reactor, reactor_due due, void *ctx)
{
    struct poll_reactor *self = (struct poll_reactor *)reactor;
    struct reactor_timer *timer = calloc(1, sizeof(*timer));

    assert_non_null(timer);
    *timer = (struct reactor_timer){
        .owner = self, .due_ms = UINT64_MAX, .due = due, .ctx = ctx, .next = self->timers};
    self->timers = timer;
    return timer;
}

static inline void poll_timer_set(struct reactor_timer *timer, uint64_t delay_ms)
{
    assert_false(timer->is_removed);
    timer->due_ms = delay_ms == UINT64_MAX ? UINT64_MAX : clock_now_ms() + delay_ms;
}

static inline void poll_timer_remove(struct reactor_timer *timer)
{
    if (timer)
        timer->is_removed = true;
}

static const struct reactor_ops poll_reactor_ops = {
    .watch = poll_watch,
    .watch_change = poll_watch_change,
    .watch_remove = poll_watch_remove,
    .timer = poll_timer,
    .timer_set = poll_timer_set,
    .timer_remove = poll_timer_remove,
};

static inline void poll_reactor_init(struct poll_reactor *self)
{
    *self = (struct poll_reactor){.reactor = {.ops = &poll_reactor_ops}};
}

static inline void poll_reactor_sweep(struct poll_reactor *self)
{
    for (struct reactor_watch **at = &self->watches; *at;) {
        struct reactor_watch *watch = *at;

        if (!watch->is_removed) {
            at = &watch->next;
            continue;
        }
        *at = watch->next;
        free(watch);
    }
    for (struct reactor_timer **at = &self->timers; *at;) {
        struct reactor_timer *timer = *at;

        if (!timer->is_removed) {
            at = &timer->next;
            continue;
        }
        *at = timer->next;
        free(timer);
    }
}

/* How long poll(2) may wait: no longer than asked, nor than until the first timer. */
static inline int poll_reactor_patience(const struct poll_reactor *self, int timeout_ms)
{
    uint64_t now = clock_now_ms(), patience = timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms;

    for (const struct reactor_timer *timer = self->timers; timer; timer = timer->next) {
        uint64_t left = timer->due_ms > now ? timer->due_ms - now : 0;

        if (timer->due_ms != UINT64_MAX && left < patience)
            patience = left;
    }
    return patience > 1000000 ? (timeout_ms < 0 ? -1 : 1000000) : (int)patience;
}

/* One wait and what became ready in it. Returns how many callbacks were called. */
static inline unsigned poll_reactor_turn(struct poll_reactor *self, int timeout_ms)
{
    struct pollfd fds[POLL_REACTOR_MAX];
    struct reactor_watch *watches[POLL_REACTOR_MAX];
    unsigned count = 0, called = 0;
    uint64_t now;

    poll_reactor_sweep(self);
    for (struct reactor_watch *watch = self->watches; watch; watch = watch->next) {
        assert_true(count < POLL_REACTOR_MAX);
        fds[count] = (struct pollfd){.fd = watch->fd, .events = watch->events};
        watches[count++] = watch;
    }
    assert_true(poll(fds, count, poll_reactor_patience(self, timeout_ms)) >= 0);
    for (unsigned i = 0; i < count; i++) {
        if (!fds[i].revents || watches[i]->is_removed)
            continue;
        watches[i]->ready(watches[i]->ctx, fds[i].revents);
        called++;
    }
    now = clock_now_ms();
    for (struct reactor_timer *timer = self->timers; timer; timer = timer->next) {
        if (timer->is_removed || timer->due_ms > now)
            continue;
        timer->due_ms = UINT64_MAX;
        timer->due(timer->ctx);
        called++;
    }
    poll_reactor_sweep(self);
    return called;
}

static inline void poll_reactor_free(struct poll_reactor *self)
{
    poll_reactor_sweep(self);
    assert_null(self->watches);
    assert_null(self->timers);
}

#endif
