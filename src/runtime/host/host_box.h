/*
 * host_box.h - a box of a provider host as the host and its backend see it, and the stream of
 * frames to its warden. For files of runtime/host and of backends.
 *
 * Owned by the host, from host_box_make() to host_box_free(). A backend's own box begins with this
 * one (backend_ops.box_size) and has its own members after it.
 *
 * Runs in: hosts
 */
#ifndef BAILEY_RUNTIME_HOST_HOST_BOX_H
#define BAILEY_RUNTIME_HOST_HOST_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/reactor.h"
#include "launcher/protocol.h"
#include "runtime/host/backend.h"
#include "runtime/host/host.h"
#include "wire/frame.h"
#include "wire/message.h"

#define HOST_BOX_NAME 96
/* Folder in a box with bin/bailey, driver/ and the zygote's script */
#define HOST_FILES_AT "/bailey"

/* ---- pump.c: frames between a channel and a stream ---- */

/* The backend's stream: bytes of frames, either way. */
struct pump_stream_ops {
    ssize_t (*read)(void *stream, void *to, size_t size); /* -EAGAIN; 0: its end; or negative */
    ssize_t (*write)(void *stream, const void *data, size_t length); /* -EAGAIN, or negative */
    void (*want)(void *stream, short events); /* host_pump_ready() must be called for these */
    void (*close)(void *stream);              /* no callback follows; NULL is fine */
};

struct pump {
    struct reactor *reactor;
    const struct pump_stream_ops *ops;
    void *stream; /* owned; NULL: none */
    int fd;       /* the host's end of the channel; owned */
    struct reactor_watch *watch;
    struct reactor_timer *more; /* the rest waits for the next turn of the loop */
    struct frame_stream frames;
    bool has_frame;                 /* `frames` has one that the channel does not take yet */
    uint8_t in[2 * WIRE_FRAME_MAX]; /* received from the stream */
    size_t in_at, in_length;
    uint8_t out[WIRE_FRAME_MAX]; /* to be sent to the stream */
    size_t out_at, out_length;
    bool is_attached; /* frames go to the channel; before, to `early` */
    bool is_over;
    short wants_stream, wants_fd;
    /* A frame of a box that was not given yet. */
    int (*early)(void *ctx, const struct frame *frame);
    void (*passed)(void *ctx, const struct frame *frame); /* to the channel; may be NULL */
    void (*ended)(void *ctx, int num); /* 0: the box's end; -EPROTO: invalid frames; once */
    void *ctx;
};
void host_pump_start(struct pump *pump);               /* the stream is open */
int host_pump_give(struct pump *pump);                 /* from now on frames go to the channel */
void host_pump_ready(struct pump *pump, short events); /* the stream is ready */
int host_pump_send(
    struct pump *pump, enum frame_type type, uint32_t id, const void *payload,
    size_t length); /* sends the host's own frame, before it is given; -ENOBUFS: no room */
void host_pump_halt(struct pump *pump); /* no frame moves any more; the channel stays open */
/*
 * The reader of the channel gets the reason, or only its end (WHY_UNKNOWN), after the last frame.
 */
void host_pump_farewell(struct pump *pump, enum launcher_why why);
void host_pump_stop(struct pump *pump);

/* ---- box.c, box_end.c ---- */

enum box_stage {
    BOX_CREATING,
    BOX_ATTACHING,
    BOX_STARTING,
    BOX_LOOKING, /* inspect is under way, READY is waited for */
    BOX_WARMING, /* a kernel is being started in it */
    BOX_IDLE,    /* in the pool */
    BOX_GIVEN,
    BOX_REMOVING,
};

struct host_seen { /* the result of inspect(): active layers, and limits */
    uint32_t layers;
    bool has_memory, has_pids, has_cpu;
    /* Without a container made for it: what holds them, and the disk; enum launch_holder. */
    uint8_t memory_by, pids_by, cpu_by, disk_by;
};

struct host_box {
    struct host *host;
    struct host_box *next;
    struct launcher_make make;
    struct launcher_box facts;
    enum box_stage stage;
    char name[HOST_BOX_NAME]; /* the provider's name of it: [a-z0-9_-]+, never used again */
    uint32_t generation;      /* of the broker that requested it */
    bool is_prewarmed;        /* not given to a broker yet */
    bool was_asked;           /* END came */
    bool is_told;             /* MADE was sent, or an inventory had it */
    bool is_waiting;          /* waits for the provider */
    bool is_there;            /* it was created, or may have been */
    bool is_creating;         /* create() was not answered yet */
    bool is_ready, is_checked;
    int given_fd; /* the broker's end of the channel, for the next broker */
    struct message_ready ready;
    struct host_seen seen;
    bool is_seen; /* usage() reads the kernel's own counters */
    struct pump pump;
    struct reactor_timer *timer, *oom_timer;
    unsigned remove_tries, usages_asked;
    bool was_killed; /* a program in it, and the provider may be about to report why */
    uint8_t counted; /* enum launcher_counted: source of the next two */
    uint64_t cpu_us, peak_bytes, oom_kills, oom_events;
    uint64_t asked_ns, measured_ns;
    uint64_t
        cpu_before_us;   /* of its bring-up and of a prewarmed kernel: not counted for its user */
    uint8_t why;         /* enum launcher_why */
    struct error failed; /* the error to report once it is removed */
    bool begins_again,
        was_again; /* the provider lost a part of it: created once more, from the start */
};

/* For backends: outcomes of the operations of backend_ops. */
void host_box_begin(struct host_box *box); /* the provider is prepared */
void host_box_refuse(struct host_box *box,
                     const struct error *err); /* the provider is not available; frees the box */
void host_box_created(struct host_box *box);
void host_box_attached(struct host_box *box, const struct pump_stream_ops *ops, void *stream);
void host_box_started(struct host_box *box);
void host_box_inspected(struct host_box *box);
void host_box_removed(struct host_box *box, int num);
void host_box_fail(struct host_box *box, const struct error *err); /* an error during bring-up */
void host_box_oom(struct host_box *box); /* memory ended a program in it */
void host_box_end(struct host_box *box); /* whatever state it is in; freed at last */
struct host_box *host_box_find_name(struct host *host, const char *name);

/* For backends: the host. */
void *host_backend(const struct host *host);
struct reactor *host_reactor(const struct host *host);
const struct host_spec *host_spec(const struct host *host);
struct host_box *host_boxes(const struct host *host); /* the first; the newest */
/*
 * Labels that identify boxes later: the engine's id, and the state folder's ("none": there is
 * none).
 */
const char *host_engine(const struct host *host);
const char *host_state(const struct host *host);
bool host_is_leaving(const struct host *host);
void host_set_cpu_count(struct host *host, uint32_t count); /* of the machine with the boxes */
/*
 * Something that is_busy() or a waiting box depended on is over: the host may stop, or answer
 * HELLO.
 */
void host_check_left(struct host *host);
void host_check_greeting(struct host *host);

#endif
