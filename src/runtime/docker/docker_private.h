/*
 * docker_private.h - what the files of runtime/docker share. Private to it.
 *
 * Who calls whom: docker_host.c holds everything and the rendezvous socket; control.c hears the
 * broker; container.c makes and ends one container over api.c, attach.c and pump.c; prepare.c finds
 * out whether there is a Docker, the image (pull.c) and the volume (volume.c) before the first box;
 * pool.c has prewarmed boxes; sweep.c removes what is left of others, and hears of memory that ran
 * out.
 *
 * Runs in: hosts, commands
 */
#ifndef BAILEY_RUNTIME_DOCKER_DOCKER_PRIVATE_H
#define BAILEY_RUNTIME_DOCKER_DOCKER_PRIVATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/reactor.h"
#include "http/client.h"
#include "http/stream.h"
#include "launcher/protocol.h"
#include "runtime/docker/docker_host.h"
#include "sys/cgroup.h"
#include "wire/frame.h"
#include "wire/message.h"

#define DOCKER_API_WANTED "1.41" /* one-shot statistics, cgroup namespaces, v2 groups */
#define DOCKER_USER "1000:1000"
#define DOCKER_VOLUME_AT "/bailey"
#define VOLUME_PREFIX "bailey-warden-"
#define VOLUME_LABEL "bailey.volume"
#define DOCKER_NAME_MAX 96
#define DOCKER_BUCKETS 256

/* ---- errors.c: what Docker says, in our words ---- */

/* `num`: of http/client.h. */
int docker_unavailable(const char *host, int num, const char *why, struct error *err);
/* One line without anything that a terminal obeys. */
void docker_clean(const char *message, char *text, size_t size);
/* A reply that is an error: its status and Docker's `message`. */
int docker_refused(unsigned status, const char *message, struct error *err);
/* Why an image did not come: Docker's words, which may be a registry's. */
int docker_pull_refused(const char *image, const char *message, struct error *err);
/* DOCKER_RUNTIME (NULL or empty: any) against what Docker has, by name. */
int docker_runtime_check(const json_t *runtimes, const char *wanted, struct error *err);
/* 0, or -E2BIG: too deep for a parser, or so many values that they would fill the memory. */
int docker_json_check(const char *data, size_t length);

/* ---- api.c: calls of the Engine API ---- */

struct api {
    struct reactor *reactor;
    struct http_client *client;
    const char *host; /* borrowed, for messages */
    char version[16]; /* "/v1.41"; empty: not known yet */
};

struct api_reply {
    unsigned status;
    json_t *json;          /* borrowed; NULL: none, or it is not JSON */
    const struct buf *raw; /* the body */
    struct error err;      /* num 0: Docker did it */
};
typedef void (*api_done)(void *ctx, const struct api_reply *reply);

struct api_request {
    const char *method;
    const char *path; /* behind the version */
    const json_t *json;
    const struct buf *bytes; /* instead: a tar */
    uint32_t timeout_ms;     /* 0: DOCKER_CALL_MS; UINT32_MAX: none */
    bool is_unversioned;
    /* Each line of a reply that goes on, as an object; the reply has no body then. */
    void (*line)(void *ctx, const json_t *line);
    size_t reply_max; /* 0: LIMIT_DOCKER_REPLY */
};
struct api_call;

int api_open(struct api *api, struct reactor *reactor, const struct docker_host_spec *spec,
             struct error *err);
void api_close(struct api *api);
/* done comes from the loop, once. Negative: it never will. */
int api_start(struct api *api, const struct api_request *request, api_done done, void *ctx,
              struct api_call **ret);
void api_cancel(struct api_call *call); /* NULL is fine */
/* Whole lines are told and go, the rest waits; *looked (at first 0) is how much of it is known. */
void api_take_lines(struct buf *body, size_t *looked, void (*line)(void *ctx, const json_t *line),
                    void *ctx);
int api_negotiate(struct api *api, const json_t *version, struct error *err);
/* A member of an object of objects, by its path; NULL when there is none. */
const json_t *json_at(const json_t *json, const char *first, const char *second);
const char *json_text(const json_t *json); /* "" for what is no text */

/* ---- attach.c: the packets of a container without a terminal ---- */

#define PACKET_STDOUT 1
#define PACKET_STDERR 2
struct packets {
    uint8_t head[8];
    size_t have;   /* of the head */
    uint32_t left; /* of the payload behind it */
};
/*
 * Takes one piece from the front of `data`: *ret is of the stream *ret_stream, *ret_length bytes
 * (0: none yet). Returns the bytes that are done with, or -EPROTO.
 */
ssize_t packets_take(struct packets *packets, const uint8_t *data, size_t length, int *ret_stream,
                     const uint8_t **ret, size_t *ret_length);

/* ---- tar.c: an archive in memory ---- */

int tar_folder(struct buf *tar, const char *path);
int tar_link(struct buf *tar, const char *path, const char *target); /* symbolic */
int tar_file(struct buf *tar, const char *path, unsigned mode, const void *data, size_t length);
int tar_end(struct buf *tar);
/* The first plain file's contents; NULL: there is none. */
const char *tar_first(const struct buf *tar, size_t *ret_length);

/* ---- create.c: what a container is made of, and whether Docker did it ---- */

struct container_spec {
    const struct docker_host_spec *docker;
    const char *engine, *state, *key, *volume;
    const char *volume_hash; /* its label, should the mount have to make it */
    const char *seccomp;     /* a profile; NULL: Docker's own */
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis; /* cpu 0: all */
    uint32_t cpu_count;        /* that Docker has; 0: not known */
};
json_t *create_json(const struct container_spec *spec); /* NULL: no memory */
/* What `inspect` says of it. Layers that hold are added; -EPERM with what Docker did not do. */
struct container_facts {
    uint32_t layers;
    bool has_memory, has_pids, has_cpu;
};
int create_check(const json_t *inspect, const struct container_spec *spec, bool has_userns,
                 struct container_facts *ret, struct error *err);

/* ---- pump.c: frames between a channel and a stream ---- */

struct pump {
    struct reactor *reactor;
    struct http_stream *stream; /* owned */
    int fd;                     /* our end of the channel; owned */
    struct reactor_watch *watch;
    struct reactor_timer *more; /* there was more than one turn of the loop takes */
    struct packets packets;
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
    void (*ended)(void *ctx, int num); /* 0: the container's end; -EPROTO: nonsense; once */
    void *ctx;
};
void container_pump_start(struct pump *pump);               /* the stream is open */
int container_pump_give(struct pump *pump);                 /* from now on to the channel */
void container_pump_ready(struct pump *pump, short events); /* the stream's */
int container_pump_send(struct pump *pump, enum frame_type type, uint32_t id, const void *payload,
                        size_t length); /* our own frame, before it is given; -ENOBUFS: no room */
void container_pump_halt(struct pump *pump); /* no frame moves any more; the channel stays open */
/* Whoever has the channel reads why, or only its end (WHY_UNKNOWN), behind the last frame. */
void container_pump_farewell(struct pump *pump, enum launcher_why why);
void container_pump_stop(struct pump *pump);

/* ---- container.c ---- */

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

struct container {
    struct docker_host *docker;
    struct container *next;
    struct launcher_make make;
    struct launcher_box facts;
    enum box_stage stage;
    char name[DOCKER_NAME_MAX]; /* of the container */
    uint32_t generation;        /* of the broker that asked */
    bool is_prewarmed;          /* nobody's yet */
    bool was_asked;             /* END came */
    bool is_told;               /* MADE was sent, or an inventory had it */
    bool is_waiting;            /* for Docker to be there */
    bool is_there;              /* the container was made, or may have been */
    bool is_ready, is_checked;
    int given_fd; /* the broker's end of the channel, for the next one */
    struct message_ready ready;
    struct container_facts seen;
    struct cgroup group; /* CGROUP_NONE: it cannot be seen from here */
    struct pump pump;
    struct api_call *call, *usage_call;
    struct reactor_timer *timer, *oom_timer;
    unsigned remove_tries, usages_asked;
    bool was_killed; /* something in it, and Docker may be about to say why */
    uint8_t counted; /* enum launcher_counted: of the next two */
    uint64_t cpu_us, peak_bytes, oom_kills, oom_events;
    uint64_t asked_ns, measured_ns;
    uint64_t cpu_before_us;       /* of its making, and of a kernel that was prewarmed: nobody's */
    uint8_t why;                  /* enum launcher_why */
    struct error failed;          /* what its provider is told, once it is removed */
    bool begins_again, was_again; /* its volume went away: once more, with a new one */
};

void container_make(struct docker_host *docker, const struct launcher_make *make,
                    bool is_prewarmed);
void container_end(struct container *box); /* by whatever is needed; freed in the end */
void container_usage(struct docker_host *docker, uint32_t number);
uint64_t container_cpu_us(const struct container *box); /* since somebody has it */
void container_measure(struct container *box); /* what it used so far, to be told when it is lost */
void container_exited(struct container *box, const struct frame *frame);
void container_oom(struct container *box); /* Docker says so */
struct container *container_find(struct docker_host *docker,
                                 uint32_t number); /* that a broker may know */
struct container *container_find_name(struct docker_host *docker, const char *name);
void container_begin(struct container *box); /* Docker, image and volume are there */
void container_refuse(struct container *box, const struct error *err); /* they are not */
void container_again(struct container *box); /* it was removed: from the beginning */
void container_tell(struct container *box, uint32_t serial); /* MADE */
void container_free(struct container *box);
int container_open_channel(struct container *box);
void container_describe(const struct container *box, struct container_spec *ret);

void container_checked(struct container *box); /* what Docker did is known */

/* container_limits.c */
bool container_limits_hold(const json_t *stats, uint64_t memory_bytes, uint64_t pids);
/* True: container_checked() follows; else `seen` says by now what holds. */
bool container_limits_ask(struct container *box);

/* container_end.c */
void container_fail(struct container *box, const struct error *err); /* while it is made */
void container_lost(struct container *box, int num);                 /* its stream has ended */
void container_remove_now(struct container *box);                    /* by its timer */

/* group.c */
void container_group_parse(char *text, const char *id, struct cgroup *ret);
/* Below a folder like /sys/fs/cgroup: the group that carries its name, one folder down. */
void container_group_search(const char *top, const char *id, struct cgroup *ret);
void container_group_find(struct container *box, const json_t *inspect);
bool container_group_usage(struct container *box);

/* container_kernel.c: Python in a prewarmed box */
int container_kernel_start(struct container *box);
/* A frame of a box that is warming. 1: that was it, with a kernel or without; or -EPROTO. */
int container_kernel_frame(struct container *box, const struct frame *frame);

/* ---- prepare.c, volume.c ---- */

enum prepare_stage { PREPARE_NOT, PREPARE_RUNS, PREPARE_DONE };
enum limits_word { LIMITS_UNKNOWN, LIMITS_HOLD, LIMITS_DO_NOT };
struct prepare {
    enum prepare_stage stage;
    struct api_call *call;
    struct reactor_timer *timer, *look_timer;
    bool is_look; /* nobody waits for it */
    uint32_t look_pause_ms;
    uint64_t reached_ns; /* when Docker last answered */
    bool has_pulled;
    char arch[32];           /* Docker's */
    char runtime[65];        /* below Docker, of every box */
    enum limits_word limits; /* whether it holds those that Docker gives it */
    bool has_userns;
    uint32_t cpu_count;
};
void prepare_add(struct docker_host *docker, struct container *box); /* begins it, or later */
void prepare_late(struct container *box);        /* it waited as long as one may for a pull */
void prepare_pulled(struct docker_host *docker); /* the image should be there now */
void prepare_again(struct docker_host *docker);  /* something that was there is not any more */
void prepare_look(struct docker_host *docker);   /* for Docker, and for what was left in it */
void prepare_gone(struct docker_host *docker);   /* Docker itself: looked for until it is back */
void prepare_leave(struct docker_host *docker); /* what nobody waits for, or takes long, is ended */
void prepare_swept(struct docker_host *docker,
                   const struct error *err); /* what was left is known */
void prepare_failed(struct docker_host *docker, const struct error *err);
void prepare_succeeded(struct docker_host *docker);
void prepare_drop(struct docker_host *docker, struct container *box); /* it waits no more */
void prepare_stop(struct docker_host *docker);

/* ---- pull.c ---- */

#define DOCKER_PULL_WORDS 128
struct pull_layer {
    char id[16]; /* twelve digits */
    uint64_t have, total;
    bool is_there;
};
struct pull {
    bool is_running;
    struct reactor_timer *timer;
    char problem[512]; /* empty: none so far */
    unsigned layer_count;
    struct pull_layer layers[LIMIT_DOCKER_LAYERS];
};
int pull_start(struct docker_host *docker); /* prepare_pulled() or prepare_failed() follows */
void pull_stop(struct docker_host *docker); /* its call was cancelled */
void pull_note(struct pull *pull, const json_t *line);
void pull_words(const struct pull *pull, char *text, size_t size);   /* how far it is */
void pull_busy(const struct docker_host *docker, struct error *err); /* for who waits no longer */

struct volume {
    char hash[65];
    char name[64], helper[80];
    struct buf tar; /* while it is filled */
    bool was_filled, was_stale;
    unsigned tries;
    struct error failed;
};
int volume_describe(struct volume *volume, int program_fd, struct error *err);
void volume_start(struct docker_host *docker);

/* ---- pool.c ---- */

void docker_pool_fill(struct docker_host *docker);
struct container *docker_pool_take(struct docker_host *docker, const struct launcher_make *make);
void docker_pool_failed(struct docker_host *docker); /* one could not be made: later */

/* ---- sweep.c ---- */

#define STALE_VOLUMES 16
struct stale { /* volumes with wardens of other versions */
    struct api_call *call;
    unsigned count;
    char names[STALE_VOLUMES][64];
};
/* Docker was reached: what is not ours goes; prepare_swept() follows. */
void sweep_start(struct docker_host *docker);
void sweep_stop(struct docker_host *docker);
void leftover_add(struct docker_host *docker,
                  const char *name); /* a container to remove when it can */

struct leftover {
    struct leftover *next;
    struct docker_host *docker;
    struct api_call *call;
    char name[DOCKER_NAME_MAX];
};

/* ---- control.c ---- */

struct note;
struct control {
    int fd; /* -1: no broker */
    struct reactor_watch *watch;
    struct note *notes, **notes_end;
    bool has_said_hello;
    bool greets_later; /* what an earlier broker asked for has to stand first */
};
void control_take(struct docker_host *docker, int fd); /* a new broker's */
void control_send(struct docker_host *docker, const struct launcher_message *message, int fd);
void control_drop(struct docker_host *docker);
void control_check(struct docker_host *docker); /* a broker may wait to be greeted */
void control_ended(struct docker_host *docker, const struct container *box);

/* ---- docker_host.c ---- */

struct docker_host {
    struct docker_host_spec spec;
    struct reactor *reactor;
    struct api api;
    struct reactor_watch *rendezvous;
    struct control control;
    uint32_t generation, next_number;
    struct container *boxes;
    char engine[64], state[24];
    char
        life[8]; /* of this process: an engine's next provider host counts its boxes from 1 again */
    struct prepare prepare;
    struct pull pull;
    struct volume volume;
    struct leftover *leftovers;
    struct stale stale;
    struct reactor_timer *leftover_timer, *pool_timer, *leave_timer;
    struct api_call *sweep_call, *events_call;
    uint64_t pool_pause_ms, next_pause_ms;
    bool wants_pool; /* the broker serves */
    bool is_leaving, has_left;
    bool is_outdated; /* a broker of another version came */
};
void host_check_left(struct docker_host *docker);

#endif
