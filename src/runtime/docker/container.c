/*
 * container.c - Docker's Engine API as the backend of a provider host (host/backend.h): one call
 * for each step of a container's life.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config.h"
#include "runtime/docker/docker_private.h"
#include "runtime/docker/profile.h"

static struct docker *docker_of(const struct host *host)
{
    return host_backend(host);
}

/* The box and the container are one struct; its own members are set at the host's first request. */
static struct container *container_of(struct host_box *box)
{
    struct container *container = (struct container *)box;

    container->docker = docker_of(box->host);
    return container;
}

static int out_of_memory(struct error *err)
{
    return error_memory(err);
}

static void fail_memory(struct host_box *box)
{
    struct error err = {0};

    out_of_memory(&err);
    host_box_fail(box, &err);
}

void container_describe(const struct container *container, struct container_spec *ret)
{
    const struct host_box *box = &container->box;
    struct docker *docker = container->docker;

    *ret = (struct container_spec){
        .docker = &docker->spec,
        .engine = host_engine(docker->host),
        .state = host_state(docker->host),
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

/* Calls "<before><name><behind>". */
static int step(struct container *container, const char *method, const char *before,
                const char *behind, const json_t *json, api_done done)
{
    char path[256];
    struct api_request request = {.method = method, .path = path, .json = json};

    str_format(path, sizeof(path), "%s%s%s", before, container->box.name, behind);
    return api_start(&container->docker->api, &request, done, container, &container->call);
}

/* ---- creation ---- */

static void on_created(void *ctx, const struct api_reply *reply)
{
    struct container *container = ctx;
    const json_t *warnings = json_object_get(reply->json, "Warnings");

    container->call = NULL;
    for (size_t i = 0; i < json_array_size(warnings); i++)
        log_debug("docker: %.300s", json_text(json_array_get(warnings, i)));
    if (reply->err.num == 0) {
        host_box_created(&container->box);
        return;
    }
    if (reply->err.code == ERROR_IMAGE_NOT_FOUND || reply->err.num == -ENOENT)
        prepare_again(container->docker); /* it existed before */
    /* Refused, so nothing was created: a container that has this name (409) must not be removed. */
    if (reply->status >= 400 && reply->status < 500)
        container->box.is_there = false;
    host_box_fail(&container->box, &reply->err);
}

static void container_create(struct host_box *box)
{
    struct container *container = container_of(box);
    struct container_spec spec;
    struct error err = {0};
    json_t *json;
    int r;

    container_describe(container, &spec);
    json = create_json(&spec);
    r = json ? step(container, "POST", "/containers/create?name=", "", json, on_created) : -ENOMEM;
    json_decref(json);
    if (r < 0) {
        box->is_there = false;
        out_of_memory(&err);
        host_box_refuse(box, &err);
    }
}

/* ---- the stream ---- */

static void on_opened(void *ctx, unsigned status)
{
    struct container *container = ctx;
    struct error err = {0};

    if (status == 101 || status == 200) {
        host_box_attached(&container->box, &docker_stream_ops, &container->stream);
        return;
    }
    docker_refused(status, "", &err);
    host_box_fail(&container->box, &err);
}

static void on_stream_failed(void *ctx, const struct error *failure)
{
    struct container *container = ctx;
    struct error err = {0};

    docker_unavailable(container->docker->spec.host, failure->num, failure->text, &err);
    host_box_fail(&container->box, &err);
}

static void on_stream_ready(void *ctx, short events)
{
    host_pump_ready(&((struct container *)ctx)->box.pump, events);
}

static const struct http_stream_events stream_events = {on_opened, on_stream_failed,
                                                        on_stream_ready};

static void container_attach(struct host_box *box)
{
    struct container *container = container_of(box);
    char path[256];
    struct http_call call = {.method = "POST", .path = path};
    struct error err = {0};

    str_format(path, sizeof(path), "%s/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1",
               container->docker->api.version, box->name);
    container->stream = (struct docker_stream){0};
    if (http_stream_open(container->docker->api.client, &call, &stream_events, container,
                         &container->stream.http, &err) < 0)
        host_box_fail(box, &err);
}

/* ---- start and inspect ---- */

static void on_started(void *ctx, const struct api_reply *reply)
{
    struct container *container = ctx;
    struct host_box *box = &container->box;

    container->call = NULL;
    if (reply->err.num == 0) {
        host_box_started(box);
        return;
    }
    /* The volume was removed meanwhile: the mount created an empty one. */
    if (strstr(reply->err.text, DOCKER_VOLUME_AT "/bin/bailey")) {
        prepare_again(container->docker);
        box->begins_again = !box->was_again;
    }
    host_box_fail(box, &reply->err);
}

static void container_start(struct host_box *box)
{
    if (step(container_of(box), "POST", "/containers/", "/start", NULL, on_started) < 0)
        fail_memory(box);
}

void container_checked(struct container *container)
{
    host_box_inspected(&container->box);
}

static void on_inspected(void *ctx, const struct api_reply *reply)
{
    struct container *container = ctx;
    struct container_spec spec;
    struct error err = reply->err;

    container->call = NULL;
    container_describe(container, &spec);
    if (err.num < 0 || create_check(reply->json, &spec, container->docker->prepare.has_userns,
                                    &container->box.seen, &err) < 0) {
        host_box_fail(&container->box, &err);
        return;
    }
    container_group_find(container, reply->json);
    if (!container_limits_ask(container))
        container_checked(container);
}

static void container_inspect(struct host_box *box)
{
    if (step(container_of(box), "GET", "/containers/", "/json", NULL, on_inspected) < 0)
        fail_memory(box);
}

/* ---- usage ---- */

static uint64_t number_at(const json_t *json, const char *first, const char *second)
{
    json_int_t value = json_integer_value(json_at(json, first, second));

    return value > 0 ? (uint64_t)value : 0;
}

static void note_usage(struct host_box *box, const struct api_reply *reply)
{
    const json_t *cpu = json_object_get(reply->json, "cpu_stats");
    uint64_t peak = number_at(reply->json, "memory_stats", "max_usage");

    if (reply->err.num < 0 || number_at(cpu, "cpu_usage", "total_usage") == 0)
        return;
    box->counted = MAX(box->counted, COUNTED_SOME);
    box->cpu_us = MAX(box->cpu_us, number_at(cpu, "cpu_usage", "total_usage") / 1000);
    box->peak_bytes = MAX(box->peak_bytes, peak);
    box->peak_bytes = MAX(box->peak_bytes, number_at(reply->json, "memory_stats", "usage"));
}

static int ask_usage(struct container *container, api_done done)
{
    char path[256];
    struct api_request request = {.method = "GET", .path = path};

    str_format(path, sizeof(path), "/containers/%s/stats?stream=false&one-shot=true",
               container->box.name);
    return api_start(&container->docker->api, &request, done, container, &container->usage_call);
}

static void on_used(void *ctx, const struct api_reply *reply)
{
    struct container *container = ctx;

    container->usage_call = NULL;
    note_usage(&container->box, reply);
}

static bool container_usage(struct host_box *box)
{
    return container_group_usage(container_of(box));
}

static void container_measure(struct host_box *box)
{
    struct container *container = container_of(box);

    if (!container->usage_call)
        (void)ask_usage(container, on_used); /* no memory: next time */
}

/* ---- removal ---- */

/* AutoRemove may be faster, which is fine. */
static void on_removed(void *ctx, const struct api_reply *reply)
{
    struct container *container = ctx;
    int num = -EAGAIN;

    container->call = NULL;
    if (reply->err.num == 0 || reply->status == 404)
        num = 0;
    else if (reply->status == 0)
        num = -ECONNREFUSED;
    host_box_removed(&container->box, num);
}

static int container_remove(struct host_box *box)
{
    return step(container_of(box), "DELETE", "/containers/", "?force=1&v=1", NULL, on_removed);
}

/* Also closes the stream, if the pump does not own it yet. */
static void container_cancel(struct host_box *box)
{
    struct container *container = (struct container *)box;

    api_cancel(container->call);
    container->call = NULL;
    if (container->stream.http && !box->pump.stream)
        docker_stream_ops.close(&container->stream);
}

static void container_free(struct host_box *box)
{
    struct container *container = (struct container *)box;

    api_cancel(container->usage_call);
    container->usage_call = NULL;
}

static void container_leave_behind(struct host_box *box)
{
    leftover_add(docker_of(box->host), box->name);
}

/* ---- the backend ---- */

static void docker_prepare(struct host_box *box)
{
    prepare_add(docker_of(box->host), box);
}

static void docker_again(struct host *host)
{
    prepare_again(docker_of(host));
}

static bool docker_is_slow(const struct host *host)
{
    return docker_of(host)->pull.is_running;
}

static void docker_sweep(struct host *host)
{
    prepare_look(docker_of(host));
}

static void docker_leave(struct host *host)
{
    prepare_leave(docker_of(host));
}

static bool docker_is_busy(const struct host *host)
{
    const struct docker *docker = docker_of(host);

    return docker->leftovers || docker->prepare.stage == PREPARE_RUNS;
}

static void docker_timed_out(const struct host *host, struct error *err)
{
    docker_unavailable(docker_of(host)->spec.host, -ETIMEDOUT, "", err);
}

/* gVisor and virtual machines have their own kernel without Landlock. */
static void docker_hint(const struct host *host, char *text, size_t size)
{
    const char *runtime = docker_of(host)->spec.runtime;

    if (runtime && runtime[0])
        str_format(text, size,
                   ". If you trust the isolation of DOCKER_RUNTIME=%.64s, which Bailey cannot "
                   "verify, set SANDBOX_ISOLATION=process",
                   runtime);
}

static void docker_close(struct docker *docker)
{
    prepare_stop(docker);
    sweep_stop(docker);
    api_close(&docker->api);
    buf_free(&docker->volume.tar);
    free(docker);
}

static void docker_backend_close(struct host *host)
{
    docker_close(docker_of(host));
}

/* Clients of a daemon do not wait without limit. */
static void docker_fill(const struct config *config, struct host_spec *spec)
{
    spec->pool_size = config->docker.pool_size;
    spec->wait_ms = config->docker.pull_wait_ms;
}

static int docker_open(struct host *host, const struct config *config, void **ret,
                       struct error *err)
{
    struct docker *docker = calloc(1, sizeof(*docker));
    int r;

    if (!docker)
        return out_of_memory(err);
    docker->host = host;
    docker->reactor = host_reactor(host);
    docker->spec = (struct docker_spec){.image = config->docker.image,
                                        .host = config->docker.host,
                                        .cert_path = config->docker.cert_path,
                                        .verifies_tls = config->docker.verifies_tls,
                                        .runtime = config->docker.runtime,
                                        .has_network = config->docker.has_network};
    r = volume_describe(&docker->volume, host_spec(host)->program_fd, err);
    if (r == 0)
        r = api_open(&docker->api, docker->reactor, &docker->spec, err);
    if (r < 0) {
        docker_close(docker);
        return r;
    }
    *ret = docker;
    return 0;
}

const struct backend_ops docker_ops = {
    .box_size = sizeof(struct container),
    .fill = docker_fill,
    .open = docker_open,
    .close = docker_backend_close,
    .sweep = docker_sweep,
    .prepare = docker_prepare,
    .again = docker_again,
    .late = prepare_late,
    .is_slow = docker_is_slow,
    .create = container_create,
    .attach = container_attach,
    .start = container_start,
    .inspect = container_inspect,
    .remove = container_remove,
    .cancel = container_cancel,
    .leave_behind = container_leave_behind,
    .free_box = container_free,
    .usage = container_usage,
    .measure = container_measure,
    .tells_oom = true,
    .timed_out = docker_timed_out,
    .hint = docker_hint,
    .leave = docker_leave,
    .is_busy = docker_is_busy,
};
