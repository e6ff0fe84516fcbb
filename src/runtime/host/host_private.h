/*
 * host_private.h - shared by the files of runtime/host; not for backends.
 *
 * Who calls whom: host.c owns everything and the rendezvous socket; control.c handles the broker's
 * messages; box.c brings up a box by the backend's operations and pump.c, box_end.c ends it; pool.c
 * has prewarmed boxes, box_kernel.c starts Python in them.
 *
 * Runs in: hosts
 */
#ifndef BAILEY_RUNTIME_HOST_HOST_PRIVATE_H
#define BAILEY_RUNTIME_HOST_HOST_PRIVATE_H

#include "base/limits.h"
#include "runtime/host/host_box.h"
#include "runtime/provider.h"

struct note;
struct control {
    int fd; /* -1: no broker */
    struct reactor_watch *watch;
    struct note *notes, **notes_end;
    bool has_said_hello;
    bool greets_later; /* requests of an earlier broker must be ready or failed first */
};

struct host {
    struct host_spec spec;
    const struct provider_row *row;
    const struct backend_ops *ops;
    void *backend;
    struct reactor *reactor;
    struct reactor_watch *rendezvous;
    struct control control;
    uint32_t generation, next_number, cpu_count;
    struct host_box *boxes;
    char engine[64], state[24];
    char life[8]; /* of this process: an engine's next provider host numbers its boxes from 1 again
                   */
    struct reactor_timer *pool_timer, *leave_timer;
    uint64_t pool_pause_ms, next_pause_ms;
    bool wants_pool; /* the broker has started to serve */
    bool is_leaving, has_left;
    bool is_outdated; /* a broker of another version connected */
};

/* control.c */
void control_take(struct host *host, int fd); /* a new broker's channel */
void control_send(struct host *host, const struct launcher_message *message, int fd);
void control_drop(struct host *host);
void control_ended(struct host *host, const struct host_box *box);

/* pool.c */
void host_pool_fill(struct host *host);
struct host_box *host_pool_take(struct host *host, const struct launcher_make *make);
void host_pool_failed(struct host *host); /* one could not be made: retried later */

/* box.c */
void host_box_make(struct host *host, const struct launcher_make *make, bool is_prewarmed);
struct host_box *host_box_find(struct host *host,
                               uint32_t number); /* a box that a broker may know */
void host_box_again(struct host_box *box);       /* it was removed: starts from the beginning */
void host_box_free(struct host_box *box);
int host_no_packages(const struct host *host, struct error *err);

/* box_end.c */
void host_box_lost(struct host_box *box, int num); /* its stream has ended */
void host_box_remove_now(struct host_box *box);    /* called by its timer */
void host_box_usage(struct host *host, uint32_t number);
uint64_t host_box_cpu_us(const struct host_box *box); /* since it was given */
void host_box_measure(struct host_box *box); /* measures its usage, for the case that it is lost */
void host_box_exited(struct host_box *box, const struct frame *frame);

/* box_kernel.c: Python in a prewarmed box */
int host_kernel_start(struct host_box *box);
/* A frame of a box that is warming. 1: done, with or without a kernel; or -EPROTO. */
int host_kernel_frame(struct host_box *box, const struct frame *frame);

#endif
