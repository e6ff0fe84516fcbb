/* containers.c - /v1/containers: made, listed, shown, deleted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/containers/containers.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "observe/audit.h"
#include "observe/metrics.h"

#define LIST_LIMIT 20

json_t *containers_json(struct session_manager *manager, const struct container_row *row)
{
    return json_pack("{s:s, s:s, s:o, s:I, s:s, s:I, s:{s:s, s:i}, s:o, s:o}", "id", row->id,
                     "object", "container", "name", text_to_json(row->name, strlen(row->name)),
                     "created_at", (json_int_t)(row->created_ms / 1000), "status",
                     container_is_running(manager, row) ? "running" : "expired", "last_active_at",
                     (json_int_t)(row->used_ms / 1000), "expires_after", "anchor", "last_active_at",
                     "minutes", (int)row->minutes, "memory_limit",
                     row->memory_limit[0] ? json_string(row->memory_limit) : json_null(),
                     "network_policy",
                     row->has_policy ? json_pack("{s:s}", "type", "disabled") : json_null());
}

bool containers_take(struct door_call *call, struct container_row *ret)
{
    struct error err = {0};

    if (container_find(call->front->manager, call->caller.who.tenant, http_param(call->http, "id"),
                       ret, &err) < 0) {
        openai_fail(call->front, call->http, &err, NULL);
        return false;
    }
    container_touch(call->front->manager, ret);
    return true;
}

void containers_changed(struct front *front, const struct http_request *http,
                        const struct caller *caller, const char *change, const char *container,
                        const char *path, uint64_t bytes, const struct error *err)
{
    const struct door_route *route = front_route(http);
    const char *const values[] = {route ? route->name : "other", err ? "error" : "ok"};
    const char *in = "in";
    json_t *fields;

    metrics_add(session_manager_metrics(front->manager), METRIC_FILE_OPERATIONS, values, 1);
    if (bytes)
        metrics_add(session_manager_metrics(front->manager), METRIC_FILE_BYTES, &in, bytes);
    fields =
        json_pack("{s:s*, s:s, s:o, s:I, s:s, s:s*}", "container_id", container, "change", change,
                  "path", text_to_json(path, strlen(path)), "bytes", (json_int_t)bytes, "result",
                  err ? "error" : "ok", "error", err ? err->code ? err->code : ERROR_ENGINE : NULL);
    caller_describe(caller, fields);
    if (fields)
        audit_write(session_manager_audit(front->manager), "file", fields);
}

/* ---- POST ---- */

/* A container that is being filled; its client may leave. */
struct creating {
    struct front *front;
    struct http_request *http;
    struct caller caller;
    struct container_row row;
    struct container_job *job;
};

static void creating_undo(struct creating *creating)
{
    struct error ignored = {0};

    container_job_cancel(creating->job);
    container_remove(creating->front->manager, &creating->row, &creating->caller, &ignored);
    free(creating);
}

static void on_gone(void *ctx)
{
    creating_undo(ctx);
}

static void on_filled(void *ctx, const struct container_file *files, size_t count,
                      const struct error *err)
{
    struct creating *creating = ctx;

    creating->job = NULL;
    for (size_t i = 0; i < count; i++)
        containers_changed(creating->front, creating->http, &creating->caller, "written",
                           creating->row.id, files[i].path, files[i].bytes, NULL);
    if (err->num < 0) {
        openai_fail(creating->front, creating->http, err, "file_ids");
        creating_undo(creating);
        return;
    }
    front_reply(creating->http, 200, containers_json(creating->front->manager, &creating->row));
    free(creating);
}

static void fill(struct door_call *call, const struct container_row *row, json_t *file_ids)
{
    struct creating *creating = calloc(1, sizeof(*creating));
    struct error err = {0};

    if (!creating) {
        container_remove(call->front->manager, row, &call->caller, &err);
        openai_fail_memory(call->http);
        return;
    }
    *creating = (struct creating){
        .front = call->front, .http = call->http, .caller = call->caller, .row = *row};
    if (container_fill(call->front->manager, row, file_ids, on_filled, creating, &creating->job,
                       &err) < 0) {
        openai_fail(call->front, call->http, &err, "file_ids");
        creating_undo(creating);
        return;
    }
    http_on_gone(call->http, on_gone, creating);
}

/* "memory_limit: ..." of container_create(): the member that an error is about. */
static const char *param_of(const struct error *err, char param[32])
{
    size_t length = strcspn(err->text, ": ");

    if (err->code == ERROR_FILE_NOT_FOUND)
        return "file_ids";
    if (err->text[length] != ':' || length >= 32)
        return NULL;
    str_format(param, 32, "%.*s", (int)length, err->text);
    return param;
}

void containers_create(struct door_call *call)
{
    json_t *file_ids = json_object_get(call->body, "file_ids");
    json_t *expires = json_object_get(call->body, "expires_after");
    struct container_spec spec = {
        .caller = &call->caller,
        .name = json_string_value(json_object_get(call->body, "name")),
        .memory_limit = json_string_value(json_object_get(call->body, "memory_limit")),
        .minutes = (unsigned)json_integer_value(json_object_get(expires, "minutes")),
        .file_ids = json_is_array(file_ids) ? file_ids : NULL,
    };
    struct container_row row;
    struct error err = {0};
    char param[32];
    int r = container_check_policy(json_object_get(call->body, "network_policy"), &spec.has_policy,
                                   &err);

    /* anyOf of the row's schema is for readers of the document; it is not checked by the hall. */
    if (r == 0 && file_ids && !json_is_array(file_ids) && !json_is_null(file_ids))
        r = error_set(&err, -EINVAL, ERROR_BAD_INPUT, "file_ids: has to be an array of file ids");
    if (r == 0)
        r = container_create(call->front->manager, &spec, &row, &err);
    if (r < 0)
        openai_fail(call->front, call->http, &err, param_of(&err, param));
    else if (json_array_size(spec.file_ids) > 0)
        fill(call, &row, spec.file_ids);
    else
        front_reply(call->http, 200, containers_json(call->front->manager, &row));
}

/* ---- GET, DELETE ---- */

struct listing {
    struct session_manager *manager;
    const char *name;
    json_t *all;
};

static void on_row(void *ctx, const struct container_row *row)
{
    struct listing *listing = ctx;

    if (!listing->name || str_equal(listing->name, row->name))
        json_array_append_new(listing->all, containers_json(listing->manager, row));
}

void containers_list(struct door_call *call)
{
    struct listing listing = {.manager = call->front->manager,
                              .name = front_query_text(call, "name"),
                              .all = json_array()};
    struct error err = {0};

    if (container_each(call->front->manager, call->caller.who.tenant, on_row, &listing, &err) < 0) {
        json_decref(listing.all);
        openai_fail(call->front, call->http, &err, NULL);
        return;
    }
    containers_reply_list(call, listing.all, LIST_LIMIT, false);
}

void containers_get(struct door_call *call)
{
    struct container_row row;

    if (containers_take(call, &row))
        front_reply(call->http, 200, containers_json(call->front->manager, &row));
}

void containers_delete(struct door_call *call)
{
    struct container_row row;
    struct error err = {0};

    if (!containers_take(call, &row))
        return;
    if (container_remove(call->front->manager, &row, &call->caller, &err) < 0)
        openai_fail(call->front, call->http, &err, NULL);
    else
        front_reply(call->http, 200,
                    json_pack("{s:s, s:s, s:b}", "id", row.id, "object", "container.deleted",
                              "deleted", 1));
}
