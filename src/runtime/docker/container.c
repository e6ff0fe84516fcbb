/*
 * container.c - one container on its way to be a box: created, attached, started, heard, looked at,
 * given.
 *
 * Each step is one call of Docker's and begins when the one before was answered; only the look at
 * it (inspect) goes on while its warden is waited for. Whatever goes wrong ends in
 * container_fail(), and the container is removed before the broker is told.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/isolation.h"
#include "base/log.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "runtime/docker/docker_private.h"
#include "runtime/docker/profile.h"
#include "sandbox/sandbox.h"

#define SEEN_NS UINT64_C(200000000)   /* while it talks, what it used is looked at so often */
#define ASKED_NS UINT64_C(2000000000) /* the same where Docker has to be asked */

static void refuse_make(struct docker_host *docker, uint32_t serial, const struct error *err)
{
    struct launcher_message message = {.type = LAUNCHER_REFUSED,
                                       .refused = {.serial = serial, .error = *err}};

    control_send(docker, &message, -1);
}

static int out_of_memory(struct error *err)
{
    return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
}

/* Whoever waits for it hears that there is none. It is not in any list but the provider host's. */
void container_refuse(struct container *box, const struct error *err)
{
    if (box->is_prewarmed)
        docker_pool_failed(box->docker);
    else if (box->generation == box->docker->generation)
        refuse_make(box->docker, box->make.serial, err);
    container_free(box);
}

void container_free(struct container *box)
{
    struct docker_host *docker = box->docker;

    for (struct container **at = &docker->boxes; *at; at = &(*at)->next) {
        if (*at == box) {
            *at = box->next;
            break;
        }
    }
    container_pump_stop(&box->pump);
    api_cancel(box->call);
    api_cancel(box->usage_call);
    if (box->timer)
        docker->reactor->ops->timer_remove(box->timer);
    if (box->oom_timer)
        docker->reactor->ops->timer_remove(box->oom_timer);
    fd_closep(&box->given_fd);
    free(box);
}

struct container *container_find(struct docker_host *docker, uint32_t number)
{
    struct container *box = docker->boxes;

    while (box && (box->facts.number != number || box->is_prewarmed || !box->is_told))
        box = box->next;
    return box;
}

struct container *container_find_name(struct docker_host *docker, const char *name)
{
    struct container *box = docker->boxes;

    while (box && !str_equal(box->name, name))
        box = box->next;
    return box;
}

/* ---- its channel ---- */

int container_open_channel(struct container *box)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    box->pump.fd = pair[0];
    box->given_fd = pair[1];
    return container_pump_give(&box->pump);
}

void container_tell(struct container *box, uint32_t serial)
{
    struct docker_host *docker = box->docker;
    struct launcher_message message = {.type = LAUNCHER_MADE, .box = box->facts};
    struct error err = {0};
    int fd;

    if (box->given_fd < 0 && container_open_channel(box) < 0) {
        out_of_memory(&err);
        container_fail(box, &err);
        return;
    }
    box->stage = BOX_GIVEN;
    box->measured_ns = clock_now_ns();
    container_group_usage(box);
    box->cpu_before_us = box->cpu_us;
    if (box->generation != docker->generation) {
        box->is_told = true; /* in the inventory of the next one */
        control_check(docker);
        return;
    }
    fd = fcntl(box->given_fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) {
        error_errno(&err, "duplicating the box's channel");
        container_fail(box, &err);
        return;
    }
    box->is_told = true;
    message.box.serial = serial;
    if (box->asked_ns) /* else it stood already */
        log_debug("docker: box %u stands after %llu ms", (unsigned)box->facts.number,
                  (unsigned long long)((clock_now_ns() - box->asked_ns) / 1000000));
    control_send(docker, &message, fd);
    box->facts.kernel = 0; /* from now on the warden knows what lives */
    box->facts.warden_owns_kernel = false;
}

/* ---- it stands ---- */

/*
 * What Docker did, and what the warden sees of it. Where it looked and it is not so (EXDEV: another
 * runtime has another idea of it) Docker's word is not repeated; it says so before any guest runs.
 */
static uint32_t layers_held(const struct container *box)
{
    uint32_t docker = box->seen.layers;

    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++) {
        if (box->ready.missing & ISOLATION_LAYER_BIT(i) && box->ready.lack_errno[i] == EXDEV)
            docker &= ~ISOLATION_LAYER_BIT(i);
    }
    return docker | (box->ready.layers & ISOLATION_LAYER_ALL);
}

static void note_facts(struct container *box)
{
    const struct launcher_make *make = &box->make;
    uint32_t layers = layers_held(box);

    /* Docker tells how it was configured, the warden which ids its container has: one without the
     * other is no user namespace of the box's. */
    if (!(box->seen.layers & box->ready.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS)))
        layers &= ~ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS);
    box->facts.memory_bytes = make->memory_bytes;
    box->facts.disk_bytes = make->disk_bytes;
    box->facts.pids = make->pids;
    box->facts.cpu_millis = make->cpu_millis;
    box->facts.layers = layers;
    box->facts.missing = ISOLATION_LAYER_ALL & ~layers;
    box->facts.memory_by = box->seen.has_memory ? HELD_BY_CONTAINER : HELD_BY_NOTHING;
    box->facts.pids_by = box->seen.has_pids ? HELD_BY_CONTAINER : HELD_BY_NOTHING;
    box->facts.cpu_by = box->seen.has_cpu ? HELD_BY_CONTAINER : HELD_BY_NOTHING;
    box->facts.disk_by = HELD_BY_TMPFS;
    box->facts.made_ns = clock_now_ns();
    box->facts.tier = TIER_NONE;
    box->facts.is_pooled = box->is_prewarmed;
    str_copy(box->facts.key, sizeof(box->facts.key), make->key);
}

static int check_minimum(struct container *box, struct error *err)
{
    uint32_t lacking = isolation_lacking(box->facts.layers, box->make.minimum);
    const char *runtime = box->docker->spec.runtime;
    char list[256], hint[256] = "";

    if (!lacking)
        return 0;
    isolation_layer_list(lacking, list, sizeof(list));
    if (runtime && runtime[0]) /* gVisor and machines have a kernel of their own, and no Landlock */
        str_format(
            hint, sizeof(hint),
            ". If you trust the walls that DOCKER_RUNTIME=%.64s has of its own, which nobody "
            "here can see, set SANDBOX_ISOLATION=process",
            runtime);
    return error_set(err, -EPERM, ERROR_REFUSED,
                     "isolation '%s' needs what this container does not have: %s%s",
                     isolation_name(box->make.minimum), list, hint);
}

static void stands(struct container *box)
{
    struct docker_host *docker = box->docker;
    struct error err = {0};

    docker->reactor->ops->timer_set(box->timer, UINT64_MAX);
    note_facts(box);
    if (check_minimum(box, &err) < 0) {
        container_fail(box, &err);
        return;
    }
    if (!box->is_prewarmed) {
        container_tell(box, box->make.serial);
        return;
    }
    docker->next_pause_ms = 0;
    box->stage = BOX_IDLE;
    if (docker->spec.has_kernels && container_kernel_start(box) == 0)
        box->stage = BOX_WARMING;
    docker_pool_fill(docker);
}

static void check_stands(struct container *box)
{
    if (box->stage == BOX_LOOKING && box->is_ready && box->is_checked)
        stands(box);
}

/* ---- frames before it is given ---- */

static int bring_up_failed(struct container *box, const struct frame *frame)
{
    struct message_fail fail;
    struct error err = {0};

    if (message_fail_unpack(frame, &fail) < 0)
        return -EPROTO;
    error_stage(&err, sandbox_stage_name(fail.stage), -(int)fail.error);
    container_fail(box, &err);
    return 0;
}

static int on_early(void *ctx, const struct frame *frame)
{
    struct container *box = ctx;
    int r;

    if (box->stage == BOX_WARMING) {
        r = container_kernel_frame(box, frame);
        if (r > 0) {
            box->stage = BOX_IDLE;
            docker_pool_fill(box->docker); /* only so many are made at once */
        }
        return r;
    }
    if (frame->type == FRAME_FAILED && !box->is_ready)
        return bring_up_failed(box, frame);
    if (frame->type != FRAME_READY || box->is_ready)
        return -EPROTO;
    if (message_ready_unpack(frame, &box->ready) < 0 || box->ready.version != WIRE_VERSION)
        return -EPROTO;
    box->is_ready = true;
    check_stands(box);
    return 0;
}

/* ---- the steps, from the last to the first ---- */

void container_describe(const struct container *box, struct container_spec *ret)
{
    struct docker_host *docker = box->docker;

    *ret = (struct container_spec){
        .docker = &docker->spec,
        .engine = docker->engine,
        .state = docker->state,
        .key = box->make.key,
        .volume = docker->volume.name,
        .volume_hash = docker->volume.hash,
        .seccomp = docker_seccomp_profile(),
        .memory_bytes = box->make.memory_bytes,
        .disk_bytes = box->make.disk_bytes,
        .pids = box->make.pids,
        .cpu_millis = box->make.cpu_millis,
        .cpu_count = docker->prepare.cpu_count,
    };
}

/* "<before><name><behind>" */
static int step(struct container *box, const char *method, const char *before, const char *behind,
                const json_t *json, api_done done)
{
    char path[256];
    struct api_request request = {.method = method, .path = path, .json = json};

    str_format(path, sizeof(path), "%s%s%s", before, box->name, behind);
    return api_start(&box->docker->api, &request, done, box, &box->call);
}

void container_checked(struct container *box)
{
    box->is_checked = true;
    check_stands(box);
}

static void on_inspected(void *ctx, const struct api_reply *reply)
{
    struct container *box = ctx;
    struct container_spec spec;
    struct error err = reply->err;

    box->call = NULL;
    container_describe(box, &spec);
    if (err.num < 0 ||
        create_check(reply->json, &spec, box->docker->prepare.has_userns, &box->seen, &err) < 0) {
        container_fail(box, &err);
        return;
    }
    container_group_find(box, reply->json);
    if (!container_limits_ask(box))
        container_checked(box);
}

/* Its one timer: until it stands for who is late, at its end for removing it. */
static void on_time(void *ctx)
{
    struct container *box = ctx;
    struct error err = {0};

    if (box->stage == BOX_REMOVING) {
        container_remove_now(box);
        return;
    }
    if (box->is_waiting) {
        prepare_late(box);
        return;
    }
    if (box->stage == BOX_ATTACHING)
        docker_unavailable(box->docker->spec.host, -ETIMEDOUT, "", &err);
    else
        error_set(&err, -ETIMEDOUT, ERROR_BOX_FAILED,
                  "the container's warden did not answer in %d s", DOCKER_BRINGUP_MS / 1000);
    container_fail(box, &err);
}

static void on_started(void *ctx, const struct api_reply *reply)
{
    struct container *box = ctx;
    struct error err = reply->err;

    box->call = NULL;
    if (err.num < 0) {
        /* The volume went away under us: the mount made an empty one. */
        if (strstr(err.text, DOCKER_VOLUME_AT "/bin/bailey")) {
            prepare_again(box->docker);
            box->begins_again = !box->was_again;
        }
        container_fail(box, &err);
        return;
    }
    box->stage = BOX_LOOKING;
    if (step(box, "GET", "/containers/", "/json", NULL, on_inspected) < 0) {
        out_of_memory(&err);
        container_fail(box, &err);
    }
}

static void on_opened(void *ctx, unsigned status)
{
    struct container *box = ctx;
    struct error err = {0};

    if (status != 101 && status != 200) {
        docker_refused(status, "", &err);
        container_fail(box, &err);
        return;
    }
    box->stage = BOX_STARTING;
    if (step(box, "POST", "/containers/", "/start", NULL, on_started) < 0) {
        out_of_memory(&err);
        container_fail(box, &err);
        return;
    }
    box->docker->reactor->ops->timer_set(box->timer, DOCKER_BRINGUP_MS);
    container_pump_start(&box->pump);
}

static void on_stream_failed(void *ctx, const struct error *failure)
{
    struct container *box = ctx;
    struct error err = {0};

    docker_unavailable(box->docker->spec.host, failure->num, failure->text, &err);
    container_fail(box, &err);
}

static void on_stream_ready(void *ctx, short events)
{
    container_pump_ready(&((struct container *)ctx)->pump, events);
}

static void on_pump_ended(void *ctx, int num)
{
    container_lost(ctx, num);
}

/*
 * What it used so far: a container that goes by itself takes its numbers with it. Where its group
 * cannot be seen Docker has to be asked, which a short run is not worth.
 */
static void on_passed(void *ctx, const struct frame *frame)
{
    struct container *box = ctx;
    bool is_seen = box->group.flavour != CGROUP_NONE;
    bool is_mark = frame->type == FRAME_STARTED || frame->type == FRAME_EXITED;
    uint64_t now = clock_now_ns();

    if (frame->type == FRAME_EXITED)
        container_exited(box, frame);
    if (!(is_seen && is_mark) && now - box->measured_ns < (is_seen ? SEEN_NS : ASKED_NS))
        return;
    box->measured_ns = now;
    container_measure(box);
}

static const struct http_stream_events stream_events = {on_opened, on_stream_failed,
                                                        on_stream_ready};

static void attach(struct container *box)
{
    char path[256];
    struct http_call call = {.method = "POST", .path = path};
    struct error err = {0};

    str_format(path, sizeof(path), "%s/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1",
               box->docker->api.version, box->name);
    box->stage = BOX_ATTACHING;
    box->pump.reactor = box->docker->reactor;
    box->pump.early = on_early;
    box->pump.passed = on_passed;
    box->pump.ended = on_pump_ended;
    box->pump.ctx = box;
    box->docker->reactor->ops->timer_set(box->timer, DOCKER_CALL_MS);
    if (http_stream_open(box->docker->api.client, &call, &stream_events, box, &box->pump.stream,
                         &err) < 0)
        container_fail(box, &err);
}

static void on_created(void *ctx, const struct api_reply *reply)
{
    struct container *box = ctx;
    const json_t *warnings = json_object_get(reply->json, "Warnings");

    box->call = NULL;
    for (size_t i = 0; i < json_array_size(warnings); i++)
        log_debug("docker: %.300s", json_text(json_array_get(warnings, i)));
    if (reply->err.num < 0) {
        if (reply->err.code == ERROR_IMAGE_NOT_FOUND || reply->err.num == -ENOENT)
            prepare_again(box->docker); /* it was there */
        /* Refused, nothing was made: what has this name (409) is not ours to remove. */
        if (reply->status >= 400 && reply->status < 500)
            box->is_there = false;
        container_fail(box, &reply->err);
    } else if (box->failed.num < 0 || box->was_asked || box->docker->is_leaving) {
        container_end(box);
    } else {
        attach(box);
    }
}

void container_begin(struct container *box)
{
    struct container_spec spec;
    struct error err = {0};
    json_t *json;
    int r;

    container_describe(box, &spec);
    json = create_json(&spec);
    box->stage = BOX_CREATING;
    box->is_there = true;
    r = json ? step(box, "POST", "/containers/create?name=", "", json, on_created) : -ENOMEM;
    json_decref(json);
    if (r < 0) {
        box->is_there = false;
        out_of_memory(&err);
        container_refuse(box, &err);
    }
}

void container_again(struct container *box)
{
    container_pump_stop(&box->pump);
    memset(&box->pump, 0, sizeof(box->pump));
    box->pump.fd = -1;
    box->stage = BOX_CREATING;
    box->is_there = box->is_ready = box->is_checked = box->begins_again = false;
    box->was_again = true;
    box->remove_tries = 0;
    box->failed = (struct error){0};
    box->why = WHY_UNKNOWN;
    box->docker->reactor->ops->timer_set(box->timer, UINT64_MAX);
    prepare_add(box->docker, box);
}

/* ---- asked for ---- */

static bool is_over(uint64_t asked, uint64_t allowed)
{
    return allowed && asked > allowed;
}

static unsigned count_boxes(const struct docker_host *docker)
{
    unsigned count = 0;

    for (const struct container *box = docker->boxes; box; box = box->next)
        count += !box->is_prewarmed;
    return count;
}

/* The broker is not trusted with numbers either. */
static int check_make(const struct docker_host *docker, const struct launcher_make *make,
                      struct error *err)
{
    const struct docker_host_spec *spec = &docker->spec;

    if (docker->is_leaving)
        return error_set(err, -ESHUTDOWN, ERROR_CANCELLED, "the daemon is stopping");
    if (count_boxes(docker) >= LIMIT_SESSIONS)
        return error_set(err, -EUSERS, ERROR_TOO_LARGE, "there are %u boxes already",
                         (unsigned)LIMIT_SESSIONS);
    if (make->staging || make->layer[0])
        return error_set(err, -ENOTSUP, ERROR_BAD_INPUT,
                         "packages of a Docker box are those of its image: 'bailey image build'");
    if (make->memory_bytes < LIMIT_MEMORY_MIN || make->memory_bytes > LIMIT_MEMORY_MAX ||
        make->disk_bytes < LIMIT_DISK_MIN || make->disk_bytes > make->memory_bytes ||
        make->pids < LIMIT_PIDS_MIN || make->pids > LIMIT_PIDS_MAX ||
        make->cpu_millis > LIMIT_CPU_MILLIS_MAX)
        return error_set(err, -ERANGE, ERROR_BAD_INPUT, "a limit of the box is out of range");
    if (is_over(make->memory_bytes, spec->memory_bytes) ||
        is_over(make->disk_bytes, spec->disk_bytes) || is_over(make->pids, spec->pids) ||
        (spec->cpu_millis && (make->cpu_millis == 0 || make->cpu_millis > spec->cpu_millis)) ||
        make->minimum < spec->minimum)
        return error_set(err, -EPERM, ERROR_REFUSED, "more than the configuration allows a box");
    return 0;
}

static struct container *container_new(struct docker_host *docker, const struct launcher_make *make,
                                       bool is_prewarmed)
{
    struct container *box = calloc(1, sizeof(*box));

    if (!box)
        return NULL;
    box->docker = docker;
    box->make = *make;
    box->is_prewarmed = is_prewarmed;
    box->generation = docker->generation;
    box->given_fd = box->pump.fd = -1;
    box->asked_ns = clock_now_ns();
    box->timer = reactor_timer(docker->reactor, on_time, box);
    if (!box->timer) {
        free(box);
        return NULL;
    }
    if (++docker->next_number == 0)
        docker->next_number = 1;
    box->facts.number = docker->next_number;
    str_format(box->name, sizeof(box->name), "bailey-%.24s-%s-%u", docker->engine, docker->life,
               (unsigned)box->facts.number);
    box->next = docker->boxes;
    docker->boxes = box;
    return box;
}

void container_make(struct docker_host *docker, const struct launcher_make *make, bool is_prewarmed)
{
    struct container *box = NULL;
    struct error err = {0};

    if (check_make(docker, make, &err) == 0) {
        box = is_prewarmed ? NULL : docker_pool_take(docker, make);
        if (box) {
            container_tell(box, make->serial);
            docker_pool_fill(docker);
            return;
        }
        box = container_new(docker, make, is_prewarmed);
        if (!box)
            out_of_memory(&err);
    }
    if (box)
        prepare_add(docker, box);
    else if (!is_prewarmed)
        refuse_make(docker, make->serial, &err);
}
