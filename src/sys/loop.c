/* loop.c - a small epoll loop; see loop.h. */
#include "sys/loop.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fd.h"

int loop_init(struct loop *loop)
{
    memset(loop, 0, sizeof(*loop));
    loop->fd = epoll_create1(EPOLL_CLOEXEC);
    return loop->fd < 0 ? -errno : 0;
}

void loop_close(struct loop *loop)
{
    fd_closep(&loop->fd);
    loop->fd = -1;
}

int loop_add(struct loop *loop, struct loop_source *source, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    if (epoll_ctl(loop->fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return -errno;
    source->fd = fd;
    source->events = events;
    return 0;
}

int loop_change(struct loop *loop, struct loop_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    if (source->fd < 0 || source->events == events)
        return 0;
    if (epoll_ctl(loop->fd, EPOLL_CTL_MOD, source->fd, &event) < 0)
        return -errno;
    source->events = events;
    return 0;
}

void loop_remove(struct loop *loop, struct loop_source *source)
{
    if (source->fd < 0)
        return;
    epoll_ctl(loop->fd, EPOLL_CTL_DEL, source->fd, NULL);
    source->fd = -1;
    for (int i = 0; i < loop->batch_count; i++) {
        if (loop->batch[i] == source)
            loop->batch[i] = NULL;
    }
}

int loop_run(struct loop *loop, void (*before_wait)(void *ctx), void *ctx)
{
    while (!loop->stop) {
        struct epoll_event events[LOOP_BATCH];
        int count;

        if (before_wait)
            before_wait(ctx);
        if (loop->stop)
            break;
        count = epoll_wait(loop->fd, events, LOOP_BATCH, loop->is_busy ? 0 : -1);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        loop->batch_count = count;
        for (int i = 0; i < count; i++)
            loop->batch[i] = events[i].data.ptr;
        for (int i = 0; i < count; i++) {
            if (loop->batch[i])
                loop->batch[i]->ready(loop->batch[i], events[i].events);
        }
        loop->batch_count = 0;
    }
    return 0;
}
