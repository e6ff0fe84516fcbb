/*
 * uv_reactor.c - base/reactor.h over libuv's loop.
 *
 * Descriptors are in an epoll set of our own, which is the one thing that libuv polls. libuv's own
 * poll handles hide POLLHUP, end the watch at POLLERR and cannot wait for hang-ups only, and they
 * are freed later than they are closed; a set of our own has none of that for one system call more
 * a turn. Timers are libuv's.
 */
#include "broker/uv_reactor.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <uv.h>
#undef MIN /* it brings those of sys/param.h; base/cleanup.h has ours */
#undef MAX

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"

#define BATCH 1024 /* ready descriptors in one turn: what waits for a turn has been looked at */

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLPRI == POLLPRI &&
                   EPOLLHUP == POLLHUP && EPOLLERR == POLLERR && EPOLLRDHUP == POLLRDHUP,
               "events are handed on as they are");

struct reactor_watch {
    struct uv_reactor *owner;
    struct reactor_watch *next, *previous;
    int fd;
    reactor_ready ready;
    void *ctx;
};

struct reactor_timer {
    struct uv_reactor *owner;
    uv_timer_t handle; /* its data is this struct, and the other's */
    uv_idle_t next;    /* due in the loop's next turn */
    unsigned closed;   /* of the two */
    reactor_due due;
    void *ctx;
};

struct uv_reactor {
    struct reactor reactor; /* first: the caller's pointer is this one */
    uv_loop_t loop;
    uv_poll_t poll;
    int epoll_fd;
    struct reactor_watch *watches;
    /* What this turn still has to call; a watch that is removed leaves it. */
    struct reactor_watch *batch[BATCH];
    int batch_count;
    bool is_in_timer;      /* inside due() of one */
    uv_prepare_t sleeping; /* called between two turns, while they are measured */
    uint64_t cpu_ns;       /* of this thread, then */
    void (*turned)(void *ctx, uint64_t cpu_ns);
    void *turned_ctx;
};

static struct reactor_watch *watch_add(struct reactor *reactor, int fd, short events,
                                       reactor_ready ready, void *ctx)
{
    struct uv_reactor *self = (struct uv_reactor *)reactor;
    struct epoll_event event = {.events = (uint32_t)(unsigned short)events};
    struct reactor_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return NULL;
    *watch = (struct reactor_watch){.owner = self, .fd = fd, .ready = ready, .ctx = ctx};
    event.data.ptr = watch;
    if (epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        free(watch);
        return NULL;
    }
    DLIST_PUSH(self->watches, watch);
    return watch;
}

static void watch_change(struct reactor_watch *watch, short events)
{
    struct epoll_event event = {.events = (uint32_t)(unsigned short)events, .data.ptr = watch};

    /* Cannot fail for a descriptor that is in the set. */
    epoll_ctl(watch->owner->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event);
}

static void watch_remove(struct reactor_watch *watch)
{
    struct uv_reactor *self;

    if (!watch)
        return;
    self = watch->owner;
    epoll_ctl(self->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    for (int i = 0; i < self->batch_count; i++) {
        if (self->batch[i] == watch)
            self->batch[i] = NULL;
    }
    DLIST_UNLINK(self->watches, watch);
    free(watch);
}

static void on_poll(uv_poll_t *poll, int status, int uv_events)
{
    struct uv_reactor *self = poll->data;
    struct epoll_event events[BATCH];
    int count;

    (void)status;
    (void)uv_events;
    count = epoll_wait(self->epoll_fd, events, BATCH, 0);
    if (count <= 0)
        return; /* a signal, or the ready one was removed; the set stays readable if not */
    for (int i = 0; i < count; i++)
        self->batch[i] = events[i].data.ptr;
    self->batch_count = count;
    for (int i = 0; i < count; i++) {
        if (self->batch[i])
            self->batch[i]->ready(self->batch[i]->ctx, (short)events[i].events);
    }
    self->batch_count = 0;
}

static void run_timer(struct reactor_timer *timer)
{
    struct uv_reactor *self = timer->owner;

    self->is_in_timer = true;
    timer->due(timer->ctx);
    self->is_in_timer = false;
}

static void on_timer(uv_timer_t *handle)
{
    run_timer(handle->data);
}

static void on_next(uv_idle_t *handle)
{
    uv_idle_stop(handle);
    run_timer(handle->data);
}

static struct reactor_timer *timer_add(struct reactor *reactor, reactor_due due, void *ctx)
{
    struct uv_reactor *self = (struct uv_reactor *)reactor;
    struct reactor_timer *timer = calloc(1, sizeof(*timer));

    if (!timer)
        return NULL;
    timer->owner = self;
    timer->due = due;
    timer->ctx = ctx;
    uv_timer_init(&self->loop, &timer->handle); /* never fails */
    uv_idle_init(&self->loop, &timer->next);
    timer->handle.data = timer->next.data = timer;
    return timer;
}

static void timer_set(struct reactor_timer *timer, uint64_t delay_ms)
{
    uv_timer_stop(&timer->handle);
    uv_idle_stop(&timer->next);
    if (delay_ms == UINT64_MAX)
        return;
    /* libuv (1.44) runs timers that are due until none is: one that sets itself to now, again and
     * again, or two that set each other, would be all that it does. */
    if (delay_ms == 0 && timer->owner->is_in_timer) {
        uv_idle_start(&timer->next, on_next);
        return;
    }
    /* libuv's clock does not advance while a callback runs, which may have taken a while. */
    if (delay_ms > 0)
        uv_update_time(timer->handle.loop);
    uv_timer_start(&timer->handle, on_timer, delay_ms, 0);
}

static void timer_closed(uv_handle_t *handle)
{
    struct reactor_timer *timer = handle->data;

    if (++timer->closed == 2)
        free(timer);
}

static void timer_remove(struct reactor_timer *timer)
{
    if (!timer)
        return;
    uv_close((uv_handle_t *)&timer->handle, timer_closed);
    uv_close((uv_handle_t *)&timer->next, timer_closed);
}

/* The loop has done everything and goes to sleep. */
static void on_sleeping(uv_prepare_t *handle)
{
    struct uv_reactor *self = handle->data;
    uint64_t now = clock_thread_ns(), before = self->cpu_ns;

    self->turned(self->turned_ctx, now - before);
    self->cpu_ns = now;
}

void uv_reactor_measure(struct reactor *reactor, void (*turned)(void *ctx, uint64_t cpu_ns),
                        void *ctx)
{
    struct uv_reactor *self = (struct uv_reactor *)reactor;

    self->turned = turned;
    self->turned_ctx = ctx;
    self->cpu_ns = clock_thread_ns();
    uv_prepare_start(&self->sleeping, on_sleeping); /* never fails */
}

static const struct reactor_ops operations = {
    .watch = watch_add,
    .watch_change = watch_change,
    .watch_remove = watch_remove,
    .timer = timer_add,
    .timer_set = timer_set,
    .timer_remove = timer_remove,
};

static int failed(struct error *err, int uv_error)
{
    return error_set(err, uv_error, ERROR_ENGINE, "event loop: %s", uv_strerror(uv_error));
}

/* Closes the loop's own handles and every timer that is left, and lets libuv forget them. */
static void close_handle(uv_handle_t *handle, void *ctx)
{
    struct uv_reactor *self = ctx;

    bool is_timer =
        handle != (uv_handle_t *)&self->poll && handle != (uv_handle_t *)&self->sleeping;

    if (!uv_is_closing(handle))
        uv_close(handle, is_timer ? timer_closed : NULL);
}

static void loop_close(struct uv_reactor *self)
{
    uv_walk(&self->loop, close_handle, self);
    while (uv_run(&self->loop, UV_RUN_NOWAIT) != 0)
        ;
    uv_loop_close(&self->loop);
}

int uv_reactor_new(struct reactor **ret, struct error *err)
{
    CLEANUP(freep) struct uv_reactor *self = calloc(1, sizeof(*self));
    CLEANUP(fd_closep) int epoll_fd = -1;
    int r;

    if (!self)
        return error_memory(err);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        return error_errno(err, "event loop");
    r = uv_loop_init(&self->loop);
    if (r < 0)
        return failed(err, r);
    r = uv_poll_init(&self->loop, &self->poll, epoll_fd);
    if (r < 0) {
        uv_loop_close(&self->loop);
        return failed(err, r);
    }
    self->poll.data = self;
    uv_prepare_init(&self->loop, &self->sleeping); /* never fails */
    self->sleeping.data = self;
    r = uv_poll_start(&self->poll, UV_READABLE, on_poll);
    if (r < 0) {
        loop_close(self);
        return failed(err, r);
    }
    self->reactor.ops = &operations;
    self->epoll_fd = fd_take(&epoll_fd);
    *ret = &ptr_take(&self)->reactor;
    return 0;
}

int uv_reactor_run(struct reactor *reactor)
{
    struct uv_reactor *self = (struct uv_reactor *)reactor;
    int r = uv_run(&self->loop, UV_RUN_DEFAULT);

    return r < 0 ? r : 0;
}

void uv_reactor_stop(struct reactor *reactor)
{
    uv_stop(&((struct uv_reactor *)reactor)->loop);
}

void uv_reactor_free(struct reactor *reactor)
{
    struct uv_reactor *self = (struct uv_reactor *)reactor;

    if (!self)
        return;
    while (self->watches)
        watch_remove(self->watches);
    loop_close(self);
    fd_closep(&self->epoll_fd);
    free(self);
}
