/*
 * templates.c - templates: lists, shows, builds with progress events, removes, verifies.
 *
 * A build belongs to its request: if the client leaves it is cancelled, unless another client waits
 * for the same build.
 */
#include <errno.h>
#include <string.h>

#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "session/template.h"

/* Only the local owner learns how many sessions use it. */
static void hide_users(const struct door_call *call, json_t *template)
{
    if (auth_tenant(&call->caller.who))
        json_object_del(template, "used_by");
}

void templates_list(struct door_call *call)
{
    json_t *list = template_list_json(call->front->manager), *template;
    size_t i;

    json_array_foreach(list, i, template)
    {
        hide_users(call, template);
    }
    front_reply(call->http, 200, json_pack("{s:o}", "templates", list));
}

void templates_get(struct door_call *call)
{
    struct error err = {0};
    json_t *json;

    if (template_json(call->front->manager, http_param(call->http, "name"), &json, &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else {
        hide_users(call, json);
        front_reply(call->http, 200, json);
    }
}

void templates_delete(struct door_call *call)
{
    const char *name = http_param(call->http, "name");
    struct error err = {0};

    if (template_remove(call->front->manager, name, &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        front_reply(call->http, 200, json_pack("{s:s}", "name", name));
}

/* ---- building ---- */

struct building {
    struct front *front;
    struct http_request *http;    /* NULL: the reply is a stream now */
    struct template_build *build; /* NULL: it has ended */
    struct front_stream stream;
};

static void building_free(void *ctx)
{
    struct building *building = ctx;

    if (building->build)
        template_build_cancel(building->build);
    free(building);
}

static void on_progress(void *ctx, const char *line)
{
    struct building *building = ctx;

    if (building->http)
        return;
    front_stream_event(&building->stream, NULL, "progress",
                       json_pack("{s:o}", "line", text_to_json(line, strlen(line))));
    http_reply_more(building->stream.http);
}

static json_t *error_json(const struct error *err)
{
    return json_pack("{s:{s:s, s:o}}", "error", "code", err->code, "message",
                     text_to_json(err->text, strlen(err->text)));
}

static void on_built(void *ctx, json_t *template, const struct error *err)
{
    struct building *building = ctx;

    building->build = NULL;
    if (!building->http) {
        front_stream_event(&building->stream, NULL, template ? "built" : "error",
                           template ? json_incref(template) : error_json(err));
        building->stream.is_over = true;
        http_reply_more(building->stream.http);
        return;
    }
    if (template)
        front_reply(building->http, 200, json_incref(template));
    else
        front_fail(building->front, building->http, err, NULL);
    building_free(building);
}

static void on_fill(void *ctx)
{
    (void)ctx; /* events are sent when there are some */
}

void templates_build(struct door_call *call)
{
    static const struct template_build_events events = {.progress = on_progress, .done = on_built};
    const char *accept = http_header(call->http, "Accept");
    const struct config *config = NULL;
    struct building *building;
    struct error err = {0};

    if (session_manager_config_of(call->front->manager, &call->caller, &config, &err) < 0 ||
        session_manager_own_python(call->front->manager, config, "templates are built", &err) < 0) {
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    building = calloc(1, sizeof(*building));
    if (!building) {
        front_fail_memory(call->http);
        return;
    }
    building->front = call->front;
    building->http = call->http;
    if (template_build(call->front->manager, call->body, &events, building, &building->build,
                       &err) < 0) {
        building->build = NULL;
        front_fail(call->front, call->http, &err, NULL);
        building_free(building);
        return;
    }
    if (!accept || !strstr(accept, TYPE_EVENTS)) {
        http_on_gone(call->http, building_free, building);
        return;
    }
    building->http = NULL;
    building->stream = (struct front_stream){.http = call->http,
                                             .text = BUF_INIT(64 * MIB),
                                             .fill = on_fill,
                                             .freed = building_free,
                                             .ctx = building};
    front_stream_start(&building->stream, 200, TYPE_EVENTS, front_event_headers, -1);
}

/* ---- verifying ---- */

struct verifying {
    struct front *front;
    struct http_request *http;
    struct template_verify *verify;
    char name[LIMIT_NAME + 1];
};

static void on_verified(void *ctx, const struct error *err)
{
    struct verifying *verifying = ctx;

    front_reply(
        verifying->http, 200,
        json_pack("{s:s, s:b, s:o}", "name", verifying->name, "intact", err->num == 0, "problem",
                  err->num == 0 ? json_null() : text_to_json(err->text, strlen(err->text))));
    free(verifying);
}

static void on_gone(void *ctx)
{
    struct verifying *verifying = ctx;

    template_verify_cancel(verifying->verify);
    free(verifying);
}

void templates_verify(struct door_call *call)
{
    struct verifying *verifying = calloc(1, sizeof(*verifying));
    struct error err = {0};

    if (!verifying) {
        front_fail_memory(call->http);
        return;
    }
    verifying->front = call->front;
    verifying->http = call->http;
    str_copy(verifying->name, sizeof(verifying->name), http_param(call->http, "name"));
    if (template_verify(call->front->manager, http_param(call->http, "name"), on_verified,
                        verifying, &verifying->verify, &err) < 0) {
        front_fail(call->front, call->http, &err, NULL);
        free(verifying);
        return;
    }
    http_on_gone(call->http, on_gone, verifying);
}
