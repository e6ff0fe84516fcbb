/*
 * reactor.h - the event loop as rooms use it, without knowing which one it is.
 *
 * The broker implements it with libuv, unit tests with poll(2). One thread; callbacks are called
 * from the loop, never from inside these calls. A watch or timer that was removed is never called
 * again, even if it was already due in this turn.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_REACTOR_H
#define BAILEY_BASE_REACTOR_H

#include <stdint.h>

struct reactor;
struct reactor_watch; /* a descriptor */
struct reactor_timer; /* fires once, until it is set again */

typedef void (*reactor_ready)(void *ctx, short events); /* POLLIN, POLLOUT, POLLHUP, POLLERR */
typedef void (*reactor_due)(void *ctx);

struct reactor_ops {
    /* NULL: no memory. The descriptor is borrowed and must stay open until removed. */
    struct reactor_watch *(*watch)(struct reactor *reactor, int fd, short events,
                                   reactor_ready ready, void *ctx);
    void (*watch_change)(struct reactor_watch *watch, short events); /* 0: only hang-ups */
    void (*watch_remove)(struct reactor_watch *watch);               /* NULL is fine */
    struct reactor_timer *(*timer)(struct reactor *reactor, reactor_due due, void *ctx);
    void (*timer_set)(struct reactor_timer *timer, uint64_t delay_ms); /* UINT64_MAX: stop */
    void (*timer_remove)(struct reactor_timer *timer);                 /* NULL is fine */
};

struct reactor {
    const struct reactor_ops *ops;
};

static inline struct reactor_watch *reactor_watch(struct reactor *reactor, int fd, short events,
                                                  reactor_ready ready, void *ctx)
{
    return reactor->ops->watch(reactor, fd, events, ready, ctx);
}

static inline struct reactor_timer *reactor_timer(struct reactor *reactor, reactor_due due,
                                                  void *ctx)
{
    return reactor->ops->timer(reactor, due, ctx);
}

#endif
