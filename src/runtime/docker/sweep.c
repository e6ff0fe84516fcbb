/*
 * sweep.c - what is left of others, and of us: containers that carry our state folder's label and
 * nobody's living box are removed, nothing else ever is. And Docker's events: memory that ran out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/docker/inside.h"

#define RETRY_MS 500
#define OLD_S 300 /* a container that was never started in this time never will be */

/* ---- graves ---- */

static void dig(struct grave *grave);

static void grave_free(struct grave *grave)
{
    struct docker_wall *wall = grave->wall;

    for (struct grave **at = &wall->graves; *at; at = &(*at)->next) {
        if (*at == grave) {
            *at = grave->next;
            break;
        }
    }
    api_cancel(grave->call);
    free(grave);
}

static void on_retry(void *ctx)
{
    struct docker_wall *wall = ctx;

    for (struct grave *grave = wall->graves; grave; grave = grave->next) {
        if (!grave->call)
            dig(grave);
    }
}

static void later(struct docker_wall *wall)
{
    if (!wall->grave_timer)
        wall->grave_timer = reactor_timer(wall->reactor, on_retry, wall);
    if (wall->grave_timer)
        wall->reactor->ops->timer_set(wall->grave_timer, RETRY_MS);
}

static void on_dug(void *ctx, const struct api_reply *reply)
{
    struct grave *grave = ctx;
    struct docker_wall *wall = grave->wall;

    grave->call = NULL;
    /* Nobody answers and we are leaving: Docker itself removes it (AutoRemove) when it is back. */
    if (reply->err.num < 0 && reply->status != 404 && (reply->status || !wall->is_leaving)) {
        later(wall);
        return;
    }
    grave_free(grave);
    wall_check_left(wall);
}

static void dig(struct grave *grave)
{
    char path[160];
    struct api_request request = {.method = "DELETE", .path = path};

    str_format(path, sizeof(path), "/containers/%s?force=1&v=1", grave->name);
    if (api_start(&grave->wall->api, &request, on_dug, grave, &grave->call) < 0)
        later(grave->wall);
}

void grave_add(struct docker_wall *wall, const char *name)
{
    struct grave *grave;

    for (grave = wall->graves; grave; grave = grave->next) {
        if (str_equal(grave->name, name))
            return;
    }
    grave = calloc(1, sizeof(*grave));
    if (!grave)
        return; /* the next wall removes it */
    grave->wall = wall;
    str_copy(grave->name, sizeof(grave->name), name);
    grave->next = wall->graves;
    wall->graves = grave;
    later(wall);
}

/* ---- the sweep ---- */

/*
 * "/name" of the list is "name" of ours. The helper that fills the volume is none of them: it is
 * made behind the sweep, so one that is found here is a dead wall's.
 */
static bool is_living(struct docker_wall *wall, const json_t *container)
{
    const json_t *names = json_object_get(container, "Names");

    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_text(json_array_get(names, i));

        if (name[0] == '/' && docked_find_name(wall, name + 1))
            return true;
    }
    return false;
}

static bool is_left_over(struct docker_wall *wall, const json_t *container)
{
    const json_t *labels = json_object_get(container, "Labels");
    const char *engine = json_text(json_object_get(labels, "bailey.engine"));
    int64_t made = json_integer_value(json_object_get(container, "Created"));

    if (!str_equal(json_text(json_object_get(labels, "bailey.state")), wall->state) || !engine[0])
        return false;
    if (str_equal(engine, wall->engine))
        return !is_living(wall, container);
    if (wall->spec.state)
        return !is_living(wall, container);
    return str_equal(json_text(json_object_get(container, "State")), "created") &&
           made < (int64_t)time(NULL) - OLD_S;
}

static void on_listed(void *ctx, const struct api_reply *reply)
{
    struct docker_wall *wall = ctx;
    unsigned count = 0;

    wall->sweep_call = NULL;
    for (size_t i = 0; reply->err.num == 0 && i < json_array_size(reply->json); i++) {
        const json_t *container = json_array_get(reply->json, i);
        const char *id = json_text(json_object_get(container, "Id"));

        if (!id[0] || !is_left_over(wall, container))
            continue;
        grave_add(wall, id);
        count++;
    }
    if (reply->err.num < 0)
        log_warning("docker: what an earlier engine left cannot be listed: %s, continuing without "
                    "removing it",
                    reply->err.text);
    if (count > 0)
        log_info("docker: %u containers of an earlier engine are removed", count);
    prepare_swept(wall, &reply->err);
}

/* ---- volumes ---- */

static void drop_next(struct docker_wall *wall);

/* One that a container has is refused by Docker, and stays. */
static void on_volume_gone(void *ctx, const struct api_reply *reply)
{
    struct docker_wall *wall = ctx;

    wall->stale.call = NULL;
    if (reply->err.num == 0)
        log_info("docker: volume %s, with the warden of another version, is removed",
                 wall->stale.names[wall->stale.count]);
    drop_next(wall);
}

static void drop_next(struct docker_wall *wall)
{
    char path[96];
    struct api_request request = {.method = "DELETE", .path = path};

    if (wall->stale.count == 0)
        return;
    str_format(path, sizeof(path), "/volumes/%s", wall->stale.names[--wall->stale.count]);
    if (api_start(&wall->api, &request, on_volume_gone, wall, &wall->stale.call) < 0)
        wall->stale.count = 0; /* the next wall does */
}

/* Ours by its label, and not the one that this wall fills; its name goes into a path. */
static bool is_stale(const struct docker_wall *wall, const json_t *volume)
{
    const char *name = json_text(json_object_get(volume, "Name"));
    const char *hash = json_text(json_at(volume, "Labels", VOLUME_LABEL));

    return hash[0] && !str_equal(hash, wall->volume.hash) && str_starts(name, VOLUME_PREFIX) &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name);
}

static void on_volumes(void *ctx, const struct api_reply *reply)
{
    struct docker_wall *wall = ctx;
    struct stale *stale = &wall->stale;
    const json_t *volumes = json_object_get(reply->json, "Volumes");

    stale->call = NULL;
    for (size_t i = 0; i < json_array_size(volumes) && stale->count < STALE_VOLUMES; i++) {
        const json_t *volume = json_array_get(volumes, i);

        if (is_stale(wall, volume) && str_copy(stale->names[stale->count], sizeof(stale->names[0]),
                                               json_text(json_object_get(volume, "Name"))))
            stale->count++;
    }
    drop_next(wall);
}

/* ---- events ---- */

static void on_event(void *ctx, const json_t *event)
{
    struct docker_wall *wall = ctx;
    const json_t *actor = json_object_get(event, "Actor");
    const char *name = json_text(json_at(actor, "Attributes", "name"));
    struct wall_box *box = name[0] ? docked_find_name(wall, name) : NULL;

    if (box && str_equal(json_text(json_object_get(event, "Action")), "oom"))
        docked_oom(box);
}

static void on_events_end(void *ctx, const struct api_reply *reply)
{
    struct docker_wall *wall = ctx;

    (void)reply;
    wall->events_call = NULL;
    prepare_gone(wall); /* Docker went, or is going */
}

static int ask_filtered(struct docker_wall *wall, struct api_request *request, const char *path,
                        json_t *filters, api_done done, struct api_call **ret)
{
    CLEANUP(buf_free) struct buf target = BUF_INIT(LIMIT_HTTP_TARGET);
    CLEANUP(freep) char *text = filters ? json_dumps(filters, JSON_COMPACT) : NULL;

    json_decref(filters);
    if (!text || buf_append_text(&target, path) < 0 || http_encode(&target, text) < 0)
        return -ENOMEM;
    request->method = "GET";
    request->path = buf_text(&target);
    return api_start(&wall->api, request, done, wall, ret);
}

void sweep_start(struct docker_wall *wall)
{
    struct api_request list = {0}, volumes = {0};
    struct api_request events = {.line = on_event, .timeout_ms = UINT32_MAX};
    char state[64], engine[96];
    bool is_listing = true;

    str_format(state, sizeof(state), "bailey.state=%s", wall->state);
    str_format(engine, sizeof(engine), "bailey.engine=%s", wall->engine);
    api_cancel(wall->sweep_call);
    wall->sweep_call = NULL;
    if (ask_filtered(wall, &list, "/containers/json?all=1&filters=",
                     json_pack("{s:[s]}", "label", state), on_listed, &wall->sweep_call) < 0)
        is_listing = false;
    api_cancel(wall->stale.call);
    wall->stale = (struct stale){0};
    if (ask_filtered(wall, &volumes,
                     "/volumes?filters=", json_pack("{s:[s]}", "label", VOLUME_LABEL), on_volumes,
                     &wall->stale.call) < 0)
        log_warning("docker: out of memory, continuing without removing old volumes");
    api_cancel(wall->events_call);
    wall->events_call = NULL;
    if (ask_filtered(wall, &events, "/events?filters=",
                     json_pack("{s:[s], s:[s], s:[s]}", "label", engine, "event", "oom", "type",
                               "container"),
                     on_events_end, &wall->events_call) < 0)
        log_warning("docker: out of memory, continuing without its events");
    on_retry(wall);
    if (!is_listing) {
        struct error none = {0};

        log_warning("docker: out of memory, continuing without removing what was left");
        prepare_swept(wall, &none);
    }
}

void sweep_stop(struct docker_wall *wall)
{
    api_cancel(wall->sweep_call);
    api_cancel(wall->events_call);
    api_cancel(wall->stale.call);
    wall->sweep_call = wall->events_call = wall->stale.call = NULL;
    while (wall->graves)
        grave_free(wall->graves);
    if (wall->grave_timer)
        wall->reactor->ops->timer_remove(wall->grave_timer);
    wall->grave_timer = NULL;
}
