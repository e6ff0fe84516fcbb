/*
 * sweep.c - removes leftovers: only containers that carry this state folder's label and belong to
 * no living box. Also reads Docker's events: out-of-memory kills.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/docker/docker_private.h"

#define RETRY_MS 500
#define OLD_S 300 /* a container that was not started in this time never will be */

/* ---- leftovers ---- */

static void dig(struct leftover *leftover);

static void leftover_free(struct leftover *leftover)
{
    struct docker *docker = leftover->docker;

    LIST_UNLINK(docker->leftovers, leftover);
    api_cancel(leftover->call);
    free(leftover);
}

static void on_retry(void *ctx)
{
    struct docker *docker = ctx;

    for (struct leftover *leftover = docker->leftovers; leftover; leftover = leftover->next) {
        if (!leftover->call)
            dig(leftover);
    }
}

static void later(struct docker *docker)
{
    if (!docker->leftover_timer)
        docker->leftover_timer = reactor_timer(docker->reactor, on_retry, docker);
    if (docker->leftover_timer)
        docker->reactor->ops->timer_set(docker->leftover_timer, RETRY_MS);
}

static void on_dug(void *ctx, const struct api_reply *reply)
{
    struct leftover *leftover = ctx;
    struct docker *docker = leftover->docker;

    leftover->call = NULL;
    /* Docker does not answer and this process stops: Docker itself removes it (AutoRemove) when
     * it is back. */
    if (reply->err.num < 0 && reply->status != 404 &&
        (reply->status || !host_is_leaving(docker->host))) {
        later(docker);
        return;
    }
    leftover_free(leftover);
    host_check_left(docker->host);
}

static void dig(struct leftover *leftover)
{
    char path[160];
    struct api_request request = {.method = "DELETE", .path = path};

    str_format(path, sizeof(path), "/containers/%s?force=1&v=1", leftover->name);
    if (api_start(&leftover->docker->api, &request, on_dug, leftover, &leftover->call) < 0)
        later(leftover->docker);
}

void leftover_add(struct docker *docker, const char *name)
{
    struct leftover *leftover;

    for (leftover = docker->leftovers; leftover; leftover = leftover->next) {
        if (str_equal(leftover->name, name))
            return;
    }
    leftover = calloc(1, sizeof(*leftover));
    if (!leftover)
        return; /* the next provider host removes it */
    leftover->docker = docker;
    str_copy(leftover->name, sizeof(leftover->name), name);
    leftover->next = docker->leftovers;
    docker->leftovers = leftover;
    later(docker);
}

/* ---- the sweep ---- */

/*
 * "/name" of the list is "name" here. The helper that fills the volume is not excluded: it is made
 * after the sweep, so one that is found here belongs to a dead provider host.
 */
static bool is_living(struct docker *docker, const json_t *container)
{
    const json_t *names = json_object_get(container, "Names");

    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_text(json_array_get(names, i));

        if (name[0] == '/' && host_box_find_name(docker->host, name + 1))
            return true;
    }
    return false;
}

static bool is_left_over(struct docker *docker, const json_t *container)
{
    const json_t *labels = json_object_get(container, "Labels");
    const char *engine = json_text(json_object_get(labels, "bailey.engine"));
    int64_t made = json_integer_value(json_object_get(container, "Created"));

    if (!str_equal(json_text(json_object_get(labels, "bailey.state")), host_state(docker->host)) ||
        !engine[0])
        return false;
    if (str_equal(engine, host_engine(docker->host)))
        return !is_living(docker, container);
    if (host_spec(docker->host)->state)
        return !is_living(docker, container);
    return str_equal(json_text(json_object_get(container, "State")), "created") &&
           made < (int64_t)time(NULL) - OLD_S;
}

static void on_listed(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;
    unsigned count = 0;

    docker->sweep_call = NULL;
    for (size_t i = 0; reply->err.num == 0 && i < json_array_size(reply->json); i++) {
        const json_t *container = json_array_get(reply->json, i);
        const char *id = json_text(json_object_get(container, "Id"));

        if (!id[0] || !is_left_over(docker, container))
            continue;
        leftover_add(docker, id);
        count++;
    }
    if (reply->err.num < 0)
        log_warning("docker: what an earlier engine left cannot be listed: %s, continuing without "
                    "removing it",
                    reply->err.text);
    if (count > 0)
        log_info("docker: %u containers of an earlier engine are removed", count);
    prepare_swept(docker, &reply->err);
}

/* ---- volumes ---- */

static void drop_next(struct docker *docker);

/* Docker refuses to remove a volume that a container uses; it stays. */
static void on_volume_gone(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;

    docker->stale.call = NULL;
    if (reply->err.num == 0)
        log_info("docker: volume %s, with the warden of another version, is removed",
                 docker->stale.names[docker->stale.count]);
    drop_next(docker);
}

static void drop_next(struct docker *docker)
{
    char path[96];
    struct api_request request = {.method = "DELETE", .path = path};

    if (docker->stale.count == 0)
        return;
    str_format(path, sizeof(path), "/volumes/%s", docker->stale.names[--docker->stale.count]);
    if (api_start(&docker->api, &request, on_volume_gone, docker, &docker->stale.call) < 0)
        docker->stale.count = 0; /* the next provider host removes them */
}

/*
 * Has Bailey's label, and is not the volume of this provider host; its name becomes part of a path.
 */
static bool is_stale(const struct docker *docker, const json_t *volume)
{
    const char *name = json_text(json_object_get(volume, "Name"));
    const char *hash = json_text(json_at(volume, "Labels", VOLUME_LABEL));

    return hash[0] && !str_equal(hash, docker->volume.hash) && str_starts(name, VOLUME_PREFIX) &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name);
}

static void on_volumes(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;
    struct stale *stale = &docker->stale;
    const json_t *volumes = json_object_get(reply->json, "Volumes");

    stale->call = NULL;
    for (size_t i = 0; i < json_array_size(volumes) && stale->count < STALE_VOLUMES; i++) {
        const json_t *volume = json_array_get(volumes, i);

        if (is_stale(docker, volume) &&
            str_copy(stale->names[stale->count], sizeof(stale->names[0]),
                     json_text(json_object_get(volume, "Name"))))
            stale->count++;
    }
    drop_next(docker);
}

/* ---- events ---- */

static void on_event(void *ctx, const json_t *event)
{
    struct docker *docker = ctx;
    const json_t *actor = json_object_get(event, "Actor");
    const char *name = json_text(json_at(actor, "Attributes", "name"));
    struct host_box *box = name[0] ? host_box_find_name(docker->host, name) : NULL;

    if (box && str_equal(json_text(json_object_get(event, "Action")), "oom"))
        host_box_oom(box);
}

static void on_events_end(void *ctx, const struct api_reply *reply)
{
    struct docker *docker = ctx;

    (void)reply;
    docker->events_call = NULL;
    prepare_gone(docker); /* Docker stopped, or is stopping */
}

static int ask_filtered(struct docker *docker, struct api_request *request, const char *path,
                        json_t *filters, api_done done, struct api_call **ret)
{
    CLEANUP(buf_free) struct buf target = BUF_INIT(LIMIT_HTTP_TARGET);
    CLEANUP(freep) char *text = filters ? json_dumps(filters, JSON_COMPACT) : NULL;

    json_decref(filters);
    if (!text || buf_append_text(&target, path) < 0 || http_encode(&target, text) < 0)
        return -ENOMEM;
    request->method = "GET";
    request->path = buf_text(&target);
    return api_start(&docker->api, request, done, docker, ret);
}

void sweep_start(struct docker *docker)
{
    struct api_request list = {0}, volumes = {0};
    struct api_request events = {.line = on_event, .timeout_ms = UINT32_MAX};
    char state[64], engine[96];
    bool is_listing = true;

    str_format(state, sizeof(state), "bailey.state=%s", host_state(docker->host));
    str_format(engine, sizeof(engine), "bailey.engine=%s", host_engine(docker->host));
    api_cancel(docker->sweep_call);
    docker->sweep_call = NULL;
    if (ask_filtered(docker, &list, "/containers/json?all=1&filters=",
                     json_pack("{s:[s]}", "label", state), on_listed, &docker->sweep_call) < 0)
        is_listing = false;
    api_cancel(docker->stale.call);
    docker->stale = (struct stale){0};
    if (ask_filtered(docker, &volumes,
                     "/volumes?filters=", json_pack("{s:[s]}", "label", VOLUME_LABEL), on_volumes,
                     &docker->stale.call) < 0)
        log_warning("docker: out of memory, continuing without removing old volumes");
    api_cancel(docker->events_call);
    docker->events_call = NULL;
    if (ask_filtered(docker, &events, "/events?filters=",
                     json_pack("{s:[s], s:[s], s:[s]}", "label", engine, "event", "oom", "type",
                               "container"),
                     on_events_end, &docker->events_call) < 0)
        log_warning("docker: out of memory, continuing without its events");
    on_retry(docker);
    if (!is_listing) {
        struct error none = {0};

        log_warning("docker: out of memory, continuing without removing what was left");
        prepare_swept(docker, &none);
    }
}

void sweep_stop(struct docker *docker)
{
    api_cancel(docker->sweep_call);
    api_cancel(docker->events_call);
    api_cancel(docker->stale.call);
    docker->sweep_call = docker->events_call = docker->stale.call = NULL;
    while (docker->leftovers)
        leftover_free(docker->leftovers);
    if (docker->leftover_timer)
        docker->reactor->ops->timer_remove(docker->leftover_timer);
    docker->leftover_timer = NULL;
}
