/*
 * loop.h - a small epoll loop for launcher and warden: descriptors and their callbacks, nothing
 * else.
 *
 * Single thread. Sources are embedded in their owners, which remove them before they free
 * themselves; removing a source from inside any callback is fine (its pending event is dropped).
 * Never allocates.
 *
 * Runs in: every process
 */
#ifndef BAILEY_SYS_LOOP_H
#define BAILEY_SYS_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#define LOOP_BATCH 32

struct loop_source {
    int fd;          /* borrowed; -1: not in a loop */
    uint32_t events; /* EPOLLIN | EPOLLOUT wanted; 0 still reports EPOLLHUP and EPOLLERR */
    void (*ready)(struct loop_source *source, uint32_t events);
};

struct loop {
    int fd;
    bool stop;
    bool is_busy; /* there is work that no descriptor announces: the next turn follows at once */
    struct loop_source *batch[LOOP_BATCH]; /* events of this turn that were not delivered yet */
    int batch_count;
};

int loop_init(struct loop *loop); /* 0 or a negative errno */
void loop_close(struct loop *loop);
int loop_add(struct loop *loop, struct loop_source *source, int fd, uint32_t events);
int loop_change(struct loop *loop, struct loop_source *source, uint32_t events);
void loop_remove(struct loop *loop, struct loop_source *source);

/* Runs until loop->stop, or a negative errno from epoll. `before_wait` (may be NULL) runs each
 * turn. */
int loop_run(struct loop *loop, void (*before_wait)(void *ctx), void *ctx);

#endif
