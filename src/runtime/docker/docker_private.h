/*
 * docker_private.h - shared by the files of runtime/docker only.
 *
 * Who calls whom: container.c has the operations that runtime/host calls for a box, using api.c and
 * stream.c; prepare.c finds Docker, the image (pull.c) and the volume (volume.c) before the first
 * box; sweep.c removes leftovers, and reads Docker's events about out-of-memory kills.
 *
 * Runs in: hosts
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
#include "runtime/docker/docker.h"
#include "runtime/host/host_box.h"
#include "sys/cgroup.h"
#include "wire/frame.h"
#include "wire/message.h"

#define DOCKER_API_WANTED "1.41" /* one-shot statistics, cgroup namespaces, v2 groups */
#define DOCKER_USER "1000:1000"
#define DOCKER_VOLUME_AT HOST_FILES_AT
#define VOLUME_PREFIX "bailey-warden-"
#define VOLUME_LABEL "bailey.volume"
#define DOCKER_NAME_MAX 96

/* From the configuration: DOCKER_*. Borrowed from it. */
struct docker_spec {
    const char *image;
    const char *host;      /* unix:///path or tcp://host:port */
    const char *cert_path; /* NULL or empty: no TLS */
    bool verifies_tls;
    const char *runtime; /* NULL or empty: Docker's default */
    bool has_network;
};

/* ---- errors.c: Docker's errors as errors of Bailey ---- */

/* `num`: of http/client.h. */
int docker_unavailable(const char *host, int num, const char *why, struct error *err);
/* One line without control characters. */
void docker_clean(const char *message, char *text, size_t size);
/* A reply that is an error: its status and Docker's `message`. */
int docker_refused(unsigned status, const char *message, struct error *err);
/*
 * The error for an image that could not be pulled: Docker's text, which may come from a registry.
 */
int docker_pull_refused(const char *image, const char *message, struct error *err);
/* Compares DOCKER_RUNTIME (NULL or empty: any) with the runtimes that Docker has, by name. */
int docker_runtime_check(const json_t *runtimes, const char *wanted, struct error *err);

/* ---- api.c: calls of the Engine API ---- */

struct api {
    struct reactor *reactor;
    struct http_client *client;
    const char *host; /* borrowed, for messages */
    char version[16]; /* "/v1.41"; empty: unknown */
};

struct api_reply {
    unsigned status;
    json_t *json;          /* borrowed; NULL: none, or it is not JSON */
    const struct buf *raw; /* the body */
    struct error err;      /* num 0: success */
};
typedef void (*api_done)(void *ctx, const struct api_reply *reply);

struct api_request {
    const char *method;
    const char *path; /* after the version */
    const json_t *json;
    const struct buf *bytes; /* instead of JSON: a tar archive */
    uint32_t timeout_ms;     /* 0: DOCKER_CALL_MS; UINT32_MAX: none */
    bool is_unversioned;
    /* Called for each line of a streaming reply, as an object; the reply has no body then. */
    void (*line)(void *ctx, const json_t *line);
    size_t reply_max; /* 0: LIMIT_DOCKER_REPLY */
};
struct api_call;

int api_open(struct api *api, struct reactor *reactor, const struct docker_spec *spec,
             struct error *err);
void api_close(struct api *api);
/* done is called from the loop, once. Negative: it will not be called. */
int api_start(struct api *api, const struct api_request *request, api_done done, void *ctx,
              struct api_call **ret);
void api_cancel(struct api_call *call); /* NULL is fine */
/*
 * Passes on whole lines and removes them, the rest stays; *looked (at first 0) is how much of the
 * rest was searched.
 */
void api_take_lines(struct buf *body, size_t *looked, void (*line)(void *ctx, const json_t *line),
                    void *ctx);
int api_negotiate(struct api *api, const json_t *version, struct error *err);
/* A member of an object of objects, by its path; NULL: none. */
const json_t *json_at(const json_t *json, const char *first, const char *second);
const char *json_text(const json_t *json); /* "" if it is not a string */

/* ---- attach.c: the packets of a container without a terminal ---- */

#define PACKET_STDOUT 1
#define PACKET_STDERR 2
struct packets {
    uint8_t head[8];
    size_t have;   /* bytes of the header */
    uint32_t left; /* bytes of the payload that follow */
};
/*
 * Takes one piece from the front of `data`: *ret is of the stream *ret_stream, *ret_length bytes
 * (0: none yet). Returns the bytes consumed, or -EPROTO.
 */
ssize_t packets_take(struct packets *packets, const uint8_t *data, size_t length, int *ret_stream,
                     const uint8_t **ret, size_t *ret_length);

/* ---- create.c: the request for a container, and the check of the result ---- */

struct container_spec {
    const struct docker_spec *docker;
    const char *engine, *state, *key, *volume;
    const char *volume_hash; /* its label, in case that the mount creates it */
    const char *seccomp;     /* a profile; NULL: Docker's own */
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis; /* cpu 0: all */
    uint32_t cpu_count;        /* of Docker's machine; 0: unknown */
};
json_t *create_json(const struct container_spec *spec); /* NULL: no memory */
/* Checks what `inspect` reports. Adds the active layers; -EPERM names what Docker did not apply. */
int create_check(const json_t *inspect, const struct container_spec *spec, bool has_userns,
                 struct host_seen *ret, struct error *err);

/* ---- stream.c: the stream of a container, behind the pump of host/ ---- */

struct docker_stream {
    struct http_stream *http; /* NULL: none */
    struct packets packets;
};
extern const struct pump_stream_ops docker_stream_ops;

/* ---- container.c ---- */

struct container {
    struct host_box box; /* first: the host allocates it */
    struct docker *docker;
    struct docker_stream stream;
    struct api_call *call, *usage_call;
    struct cgroup group; /* CGROUP_NONE: not readable from here */
};

void container_checked(struct container *container); /* the result of the inspection is complete */
void container_describe(const struct container *container, struct container_spec *ret);

/* container_limits.c */
bool container_limits_hold(const json_t *stats, uint64_t memory_bytes, uint64_t pids);
/* True: container_checked() follows; else `seen` is complete. */
bool container_limits_ask(struct container *container);

/* group.c */
void container_group_parse(char *text, const char *id, struct cgroup *ret);
/* Searches below a folder such as /sys/fs/cgroup for the group with its name, one level down. */
void container_group_search(const char *top, const char *id, struct cgroup *ret);
void container_group_find(struct container *container, const json_t *inspect);
bool container_group_usage(struct container *container);

/* ---- prepare.c, volume.c ---- */

enum prepare_stage { PREPARE_NOT, PREPARE_RUNS, PREPARE_DONE };
enum limits_word { LIMITS_UNKNOWN, LIMITS_HOLD, LIMITS_DO_NOT };
struct prepare {
    enum prepare_stage stage;
    struct api_call *call;
    struct reactor_timer *timer, *look_timer;
    bool is_look; /* no box waits for it */
    uint32_t look_pause_ms;
    uint64_t reached_ns; /* when Docker last answered */
    bool has_pulled;
    char arch[32];              /* of Docker's machine */
    char runtime[65];           /* the runtime below Docker, of every box */
    struct error runtime_error; /* Docker does not have it; num 0: it has */
    enum limits_word limits;    /* whether that runtime enforces limits */
    bool has_userns;
    uint32_t cpu_count;
};
void prepare_add(struct docker *docker,
                 struct host_box *box);     /* begins the preparation, or joins it */
void prepare_late(struct host_box *box);    /* it waited as long as allowed for a pull */
void prepare_pulled(struct docker *docker); /* the image should exist now */
void prepare_again(struct docker *docker);  /* something that was prepared is gone */
void prepare_look(struct docker *docker);   /* looks for Docker, and for leftovers in it */
void prepare_gone(struct docker *docker);   /* Docker itself is gone: looked for until it is back */
void prepare_leave(struct docker *docker);  /* ends what no box waits for or what takes long */
void prepare_swept(struct docker *docker, const struct error *err); /* leftovers are known */
void prepare_failed(struct docker *docker, const struct error *err);
void prepare_succeeded(struct docker *docker);
void prepare_stop(struct docker *docker);

/* ---- pull.c ---- */

#define DOCKER_PULL_WORDS 128
struct pull_layer {
    char id[16]; /* twelve hexadecimal digits */
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
int pull_start(struct docker *docker); /* prepare_pulled() or prepare_failed() follows */
void pull_stop(struct docker *docker); /* its call was cancelled */
void pull_note(struct pull *pull, const json_t *line);
void pull_words(const struct pull *pull, char *text, size_t size); /* its progress as text */
void pull_busy(const struct docker *docker,
               struct error *err); /* the error for a box that waits no longer */

struct volume {
    char hash[65];
    char name[64], helper[80];
    struct buf tar; /* while it is filled */
    bool was_filled, was_stale;
    unsigned tries;
    struct error failed;
};
int volume_describe(struct volume *volume, int program_fd, struct error *err);
void volume_start(struct docker *docker);

/* ---- sweep.c ---- */

#define STALE_VOLUMES 16
struct stale { /* volumes with wardens of other versions */
    struct api_call *call;
    unsigned count;
    char names[STALE_VOLUMES][64];
};
/* Docker was reached: removes leftovers; prepare_swept() follows. */
void sweep_start(struct docker *docker);
void sweep_stop(struct docker *docker);
void leftover_add(struct docker *docker,
                  const char *name); /* a container to remove when possible */

struct leftover {
    struct leftover *next;
    struct docker *docker;
    struct api_call *call;
    char name[DOCKER_NAME_MAX];
};

/* ---- container.c: the backend ---- */

struct docker {
    struct host *host;
    struct docker_spec spec;
    struct reactor *reactor;
    struct api api;
    struct prepare prepare;
    struct pull pull;
    struct volume volume;
    struct leftover *leftovers;
    struct stale stale;
    struct reactor_timer *leftover_timer;
    struct api_call *sweep_call, *events_call;
};

#endif
