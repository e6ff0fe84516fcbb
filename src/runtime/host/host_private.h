/*
 * host_private.h - what the files of runtime/host share and backends do not see.
 *
 * Who calls whom: host.c holds everything and the rendezvous socket; control.c hears the broker;
 * box.c leads a box from asked for to given over the backend's operations and pump.c, box_end.c to
 * its end; pool.c has prewarmed ones, box_kernel.c starts Python in them.
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
    bool greets_later; /* what an earlier broker asked for has to stand first */
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
    char
        life[8]; /* of this process: an engine's next provider host counts its boxes from 1 again */
    struct reactor_timer *pool_timer, *leave_timer;
    uint64_t pool_pause_ms, next_pause_ms;
    bool wants_pool; /* the broker serves */
    bool is_leaving, has_left;
    bool is_outdated; /* a broker of another version came */
};

/* control.c */
void control_take(struct host *host, int fd); /* a new broker's */
void control_send(struct host *host, const struct launcher_message *message, int fd);
void control_drop(struct host *host);
void control_ended(struct host *host, const struct host_box *box);

/* pool.c */
void host_pool_fill(struct host *host);
struct host_box *host_pool_take(struct host *host, const struct launcher_make *make);
void host_pool_failed(struct host *host); /* one could not be made: later */

/* box.c */
void host_box_make(struct host *host, const struct launcher_make *make, bool is_prewarmed);
struct host_box *host_box_find(struct host *host, uint32_t number); /* that a broker may know */
void host_box_again(struct host_box *box); /* it was removed: from the beginning */
void host_box_free(struct host_box *box);
int host_no_packages(const struct host *host, struct error *err);

/* box_end.c */
void host_box_end(struct host_box *box);           /* by whatever is needed; freed in the end */
void host_box_lost(struct host_box *box, int num); /* its stream has ended */
void host_box_remove_now(struct host_box *box);    /* by its timer */
void host_box_usage(struct host *host, uint32_t number);
uint64_t host_box_cpu_us(const struct host_box *box); /* since somebody has it */
void host_box_measure(struct host_box *box); /* what it used so far, to be told when it is lost */
void host_box_exited(struct host_box *box, const struct frame *frame);

/* box_kernel.c: Python in a prewarmed box */
int host_kernel_start(struct host_box *box);
/* A frame of a box that is warming. 1: that was it, with a kernel or without; or -EPROTO. */
int host_kernel_frame(struct host_box *box, const struct frame *frame);

#endif
