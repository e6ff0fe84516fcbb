/*
 * turner.c - the loop of one engine: descriptors and moments, over epoll(7).
 *
 * The loop itself is a descriptor that a caller's loop can wait for: a timerfd in it becomes
 * readable at the next moment. It is set when a turn ends, because libcurl changes its mind about
 * moments several times in each.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/reactor.h"
#include "lib/lib_private.h"

#define BATCH 32
#define NEVER UINT64_MAX

struct reactor_watch {
    struct reactor_watch *next; /* of those that are removed */
    struct turner *turner;
    int fd;
    bool is_removed;
    reactor_ready ready;
    void *ctx;
};

struct reactor_timer {
    struct reactor_timer *next;
    struct turner *turner;
    uint64_t at_ns;
    bool is_removed;
    reactor_due due;
    void *ctx;
};

struct turner {
    struct reactor reactor;
    int epoll_fd, timer_fd;
    uint64_t armed_ns; /* what timer_fd is set to */
    bool is_turning;
    struct reactor_timer *timers;
    struct reactor_watch *removed;
};

static uint32_t to_epoll(short events)
{
    return (events & POLLIN ? EPOLLIN : 0u) | (events & POLLOUT ? EPOLLOUT : 0u);
}

static short from_epoll(uint32_t events)
{
    return (short)((events & EPOLLIN ? POLLIN : 0) | (events & EPOLLOUT ? POLLOUT : 0) |
                   (events & EPOLLHUP ? POLLHUP : 0) | (events & EPOLLERR ? POLLERR : 0));
}

static void free_removed(struct turner *turner)
{
    struct reactor_timer **at = &turner->timers;

    while (turner->removed) {
        struct reactor_watch *watch = turner->removed;

        turner->removed = watch->next;
        free(watch);
    }
    while (*at) {
        struct reactor_timer *timer = *at;

        if (timer->is_removed) {
            *at = timer->next;
            free(timer);
        } else {
            at = &timer->next;
        }
    }
}

static uint64_t next_moment(const struct turner *turner)
{
    uint64_t next = NEVER;

    for (const struct reactor_timer *timer = turner->timers; timer; timer = timer->next)
        next = timer->is_removed ? next : MIN(next, timer->at_ns);
    return next;
}

static void arm(struct turner *turner)
{
    uint64_t next = next_moment(turner);
    struct itimerspec when = {0};

    if (turner->is_turning || next == turner->armed_ns)
        return;
    turner->armed_ns = next;
    if (next != NEVER) { /* 0 would disarm it */
        when.it_value.tv_sec = (time_t)(next / 1000000000);
        when.it_value.tv_nsec = (long)(next % 1000000000) + (next == 0);
    }
    timerfd_settime(turner->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static struct reactor_watch *watch_new(struct reactor *reactor, int fd, short events,
                                       reactor_ready ready, void *ctx)
{
    struct turner *turner = (struct turner *)reactor;
    struct reactor_watch *watch = calloc(1, sizeof(*watch));
    struct epoll_event event = {.events = to_epoll(events), .data.ptr = watch};

    if (!watch)
        return NULL;
    *watch = (struct reactor_watch){.turner = turner, .fd = fd, .ready = ready, .ctx = ctx};
    if (epoll_ctl(turner->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        free(watch);
        return NULL;
    }
    return watch;
}

static void watch_change(struct reactor_watch *watch, short events)
{
    struct epoll_event event = {.events = to_epoll(events), .data.ptr = watch};

    epoll_ctl(watch->turner->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event);
}

static void watch_remove(struct reactor_watch *watch)
{
    struct turner *turner;

    if (!watch)
        return;
    turner = watch->turner;
    epoll_ctl(turner->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->is_removed = true;
    watch->next = turner->removed;
    turner->removed = watch;
    if (!turner->is_turning)
        free_removed(turner);
}

static struct reactor_timer *timer_new(struct reactor *reactor, reactor_due due, void *ctx)
{
    struct turner *turner = (struct turner *)reactor;
    struct reactor_timer *timer = calloc(1, sizeof(*timer));

    if (!timer)
        return NULL;
    *timer = (struct reactor_timer){
        .next = turner->timers, .turner = turner, .at_ns = NEVER, .due = due, .ctx = ctx};
    turner->timers = timer;
    return timer;
}

static void timer_set(struct reactor_timer *timer, uint64_t delay_ms)
{
    timer->at_ns = delay_ms == UINT64_MAX ? NEVER : clock_now_ns() + delay_ms * 1000000;
    arm(timer->turner);
}

static void timer_remove(struct reactor_timer *timer)
{
    struct turner *turner;

    if (!timer)
        return;
    turner = timer->turner;
    timer->is_removed = true;
    if (!turner->is_turning)
        free_removed(turner);
    arm(turner);
}

static const struct reactor_ops ops = {
    .watch = watch_new,
    .watch_change = watch_change,
    .watch_remove = watch_remove,
    .timer = timer_new,
    .timer_set = timer_set,
    .timer_remove = timer_remove,
};

int turner_new(struct turner **ret, struct error *err)
{
    struct turner *turner = calloc(1, sizeof(*turner));
    struct epoll_event event = {.events = EPOLLIN}; /* data.ptr NULL: the timer */

    if (!turner)
        return error_memory(err);
    *turner = (struct turner){.reactor = {.ops = &ops}, .armed_ns = NEVER};
    turner->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    turner->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (turner->epoll_fd < 0 || turner->timer_fd < 0 ||
        epoll_ctl(turner->epoll_fd, EPOLL_CTL_ADD, turner->timer_fd, &event) < 0) {
        int r = error_errno(err, "making the event loop");

        turner_free(turner);
        return r;
    }
    *ret = turner;
    return 0;
}

void turner_free(struct turner *turner)
{
    if (!turner)
        return;
    free_removed(turner);
    while (turner->timers) {
        struct reactor_timer *timer = turner->timers;

        turner->timers = timer->next;
        free(timer);
    }
    fd_closep(&turner->epoll_fd);
    fd_closep(&turner->timer_fd);
    free(turner);
}

struct reactor *turner_reactor(struct turner *turner)
{
    return &turner->reactor;
}

int turner_fd(const struct turner *turner)
{
    return turner->epoll_fd;
}

/* Whether one was called. */
static bool call_due(struct turner *turner)
{
    uint64_t now = clock_now_ns();
    bool has_called = false;

    for (struct reactor_timer *timer = turner->timers; timer; timer = timer->next) {
        if (timer->is_removed || timer->at_ns > now)
            continue;
        timer->at_ns = NEVER;
        timer->due(timer->ctx);
        has_called = true;
    }
    return has_called;
}

static int patience(const struct turner *turner, int timeout_ms)
{
    uint64_t next = next_moment(turner), now = clock_now_ns(), left_ms;

    if (next == NEVER)
        return timeout_ms;
    left_ms = next <= now ? 0 : (next - now) / 1000000 + 1;
    if (timeout_ms >= 0 && left_ms > (uint64_t)timeout_ms)
        return timeout_ms;
    return (int)MIN(left_ms, (uint64_t)INT32_MAX);
}

int turner_turn(struct turner *turner, int timeout_ms)
{
    struct epoll_event events[BATCH];
    int count;

    if (turner->is_turning)
        return -EDEADLK; /* a callback that waits */
    turner->is_turning = true;
    if (call_due(turner))
        timeout_ms = 0; /* what the caller waits for may have happened */
    count = epoll_wait(turner->epoll_fd, events, BATCH, patience(turner, timeout_ms));
    count = count < 0 ? (errno == EINTR ? 0 : -errno) : count;
    for (int i = 0; i < count; i++) {
        struct reactor_watch *watch = events[i].data.ptr;

        if (watch && !watch->is_removed)
            watch->ready(watch->ctx, from_epoll(events[i].events));
    }
    call_due(turner);
    turner->is_turning = false;
    free_removed(turner);
    arm(turner);
    return MIN(count, 0);
}
