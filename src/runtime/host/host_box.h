/*
 * host_box.h - a box of a provider host as the host and its backend see it, and the stream of
 * frames to its warden. For files of runtime/host and of backends.
 *
 * Owned by the host, from host_box_make() to host_box_free(). A backend's own box begins with this
 * one (backend_ops.box_size) and has all that only it knows behind it.
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
#define HOST_FILES_AT "/bailey" /* where a box has bin/bailey, driver/ and the zygote's script */

/* ---- pump.c: frames between a channel and a stream ---- */

/* The backend's stream: bytes of frames, either way. */
struct pump_stream_ops {
    ssize_t (*read)(void *stream, void *to, size_t size); /* -EAGAIN; 0: its end; or negative */
    ssize_t (*write)(void *stream, const void *data, size_t length); /* -EAGAIN, or negative */
    void (*want)(void *stream, short events); /* host_pump_ready() is to be called for these */
    void (*close)(void *stream);              /* nothing is called any more; NULL is fine */
};

struct pump {
    struct reactor *reactor;
    const struct pump_stream_ops *ops;
    void *stream; /* owned; NULL: none */
    int fd;       /* our end of the channel; owned */
    struct reactor_watch *watch;
    struct reactor_timer *more; /* there was more than one turn of the loop takes */
    struct frame_stream frames;
    bool has_frame;                 /* `frames` has one that the channel does not take yet */
    uint8_t in[2 * WIRE_FRAME_MAX]; /* of the stream */
    size_t in_at, in_length;
    uint8_t out[WIRE_FRAME_MAX]; /* for the stream */
    size_t out_at, out_length;
    bool is_given; /* frames go to the channel; before, to `early` */
    bool is_over;
    short wants_stream, wants_fd;
    /* A frame of a box that nobody has yet. */
    int (*early)(void *ctx, const struct frame *frame);
    void (*passed)(void *ctx, const struct frame *frame); /* to the channel; may be NULL */
    void (*ended)(void *ctx, int num); /* 0: the box's end; -EPROTO: nonsense; once */
    void *ctx;
};
void host_pump_start(struct pump *pump);               /* the stream is open */
int host_pump_give(struct pump *pump);                 /* from now on to the channel */
void host_pump_ready(struct pump *pump, short events); /* the stream's */
int host_pump_send(struct pump *pump, enum frame_type type, uint32_t id, const void *payload,
                   size_t length);      /* our own frame, before it is given; -ENOBUFS: no room */
void host_pump_halt(struct pump *pump); /* no frame moves any more; the channel stays open */
/* Whoever has the channel reads why, or only its end (WHY_UNKNOWN), behind the last frame. */
void host_pump_farewell(struct pump *pump, enum launcher_why why);
void host_pump_stop(struct pump *pump);

/* ---- box.c, box_end.c ---- */

enum box_stage {
    BOX_CREATING,
    BOX_ATTACHING,
    BOX_STARTING,
    BOX_LOOKING, /* inspect is asked, READY is waited for */
    BOX_WARMING, /* a kernel is being started in it */
    BOX_IDLE,    /* in the pool */
    BOX_GIVEN,
    BOX_REMOVING,
};

struct host_seen { /* what inspect() found: layers that hold, and limits */
    uint32_t layers;
    bool has_memory, has_pids, has_cpu;
};

struct host_box {
    struct host *host;
    struct host_box *next;
    struct launcher_make make;
    struct launcher_box facts;
    enum box_stage stage;
    char name[HOST_BOX_NAME]; /* for the provider: [a-z0-9_-]+, never used again */
    uint32_t generation;      /* of the broker that asked */
    bool is_prewarmed;        /* nobody's yet */
    bool was_asked;           /* END came */
    bool is_told;             /* MADE was sent, or an inventory had it */
    bool is_waiting;          /* for the provider to be there */
    bool is_there;            /* it was made, or may have been */
    bool is_creating;         /* create() was not answered yet */
    bool is_ready, is_checked;
    int given_fd; /* the broker's end of the channel, for the next one */
    struct message_ready ready;
    struct host_seen seen;
    bool is_seen; /* usage() has the kernel's own numbers */
    struct pump pump;
    struct reactor_timer *timer, *oom_timer;
    unsigned remove_tries, usages_asked;
    bool was_killed; /* something in it, and the provider may be about to say why */
    uint8_t counted; /* enum launcher_counted: of the next two */
    uint64_t cpu_us, peak_bytes, oom_kills, oom_events;
    uint64_t asked_ns, measured_ns;
    uint64_t cpu_before_us;       /* of its making, and of a kernel that was prewarmed: nobody's */
    uint8_t why;                  /* enum launcher_why */
    struct error failed;          /* what its provider is told, once it is removed */
    bool begins_again, was_again; /* its provider lost a part of it: once more, from the start */
};

/* For backends: what came of an operation of backend_ops. */
void host_box_begin(struct host_box *box);                           /* the provider is prepared */
void host_box_refuse(struct host_box *box, const struct error *err); /* it is not; frees the box */
void host_box_created(struct host_box *box);
void host_box_attached(struct host_box *box, const struct pump_stream_ops *ops, void *stream);
void host_box_started(struct host_box *box);
void host_box_inspected(struct host_box *box);
void host_box_removed(struct host_box *box, int num);
void host_box_fail(struct host_box *box, const struct error *err); /* while it is made */
void host_box_oom(struct host_box *box); /* memory ended something in it */
struct host_box *host_box_find_name(struct host *host, const char *name);

/* For backends: the host. */
void *host_backend(const struct host *host);
struct reactor *host_reactor(const struct host *host);
const struct host_spec *host_spec(const struct host *host);
struct host_box *host_boxes(const struct host *host); /* the first; the newest */
/* What boxes carry so that they are known later: the engine's id, and of the state folder ("none":
 * there is none). */
const char *host_engine(const struct host *host);
const char *host_state(const struct host *host);
bool host_is_leaving(const struct host *host);
void host_set_cpu_count(struct host *host, uint32_t count); /* of the machine with the boxes */
/* Something that is_busy() or a waiting box hung on is over: the host may leave, or greet. */
void host_check_left(struct host *host);
void host_check_greeting(struct host *host);

#endif
