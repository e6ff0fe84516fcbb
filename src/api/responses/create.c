/*
 * create.c - POST /v1/responses: starts a response, sends it as it comes or when it is over, and
 * ends it when its client leaves; see responses.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/responses/responses.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "tool/schema.h"

#define STREAM_MAX (64 * MIB)
#define DONE "data: [DONE]\n\n"

/* ---- the life of a response ---- */

static void drop_events(struct response *response)
{
    while (response->events) {
        struct response_event *event = response->events;

        response->events = event->next;
        buf_free(&event->text);
        free(event);
    }
    response->last = NULL;
    response->unread = 0;
}

void response_free(struct response *response)
{
    if (response->agent || response->http || response->has_reader)
        return;
    LIST_UNLINK(response->door->active, response);
    response->door->count--;
    session_manager_release(response->door->front->manager, response->caller.who.tenant,
                            response->held);
    drop_events(response);
    json_decref(response->object);
    json_decref(response->items);
    json_decref(response->files);
    json_decref(response->input);
    buf_free(&response->text);
    free(response);
}

void response_cancel(struct response *response)
{
    agent_end(ptr_take(&response->agent));
    response_finish(response, "cancelled", NULL);
    response_free(response);
}

struct response *response_find(struct responses *door, const char *tenant, const char *id)
{
    for (struct response *response = door->active; response; response = response->next)
        if (str_equal(response->id, id) && str_equal(response->caller.who.tenant, tenant))
            return response;
    return NULL;
}

/* ---- its client ---- */

/* A response in the background goes on; another one has lost its only reader. */
static void client_left(struct response *response)
{
    if (response->agent && !response->is_background)
        response_cancel(response);
    else
        response_free(response);
}

static void on_gone(void *ctx)
{
    struct response *response = ctx;

    response->http = NULL;
    response->has_reader = false;
    client_left(response);
}

static void on_freed(void *ctx)
{
    struct response *response = ctx;

    response->has_reader = false;
    drop_events(response);
    client_left(response);
}

/* One event for each call: some readers lose an event that comes in two pieces. */
static void on_fill(void *ctx)
{
    struct response *response = ctx;
    struct response_event *event = response->events;

    if (!event) {
        if (response->is_over) {
            buf_append_text(&response->stream.text, DONE);
            response->stream.is_over = true;
        }
        return;
    }
    response->events = event->next;
    if (!response->events)
        response->last = NULL;
    response->unread -= event->text.length;
    if (buf_append(&response->stream.text, event->text.data, event->text.length) < 0)
        response->stream.is_broken = true;
    buf_free(&event->text);
    free(event);
    if (response->is_paused && response->unread < LIMIT_RESPONSE_READ) {
        response->is_paused = false;
        if (response->agent)
            agent_pause(response->agent, false);
    }
}

/* ---- making one ---- */

static struct response *response_new(struct door_call *call, struct order *order)
{
    struct responses *door = call->door;
    struct response *response = calloc(1, sizeof(*response));

    if (!response)
        return NULL;
    *response = (struct response){
        .door = door,
        .caller = call->caller,
        .http = call->http,
        .is_streaming = order->is_stream,
        .has_reader = order->is_stream,
        .is_background = order->is_background,
        .is_stored = order->is_stored,
        .has_outputs = order->has_outputs,
        .created_ms = clock_wall_ms(),
        .object = json_incref(order->base),
        .items = json_array(),
        .files = json_array(),
        .input = json_incref(order->input),
        .text = BUF_INIT(LIMIT_AGENT_TEXT),
        .stream = {.http = call->http,
                   .text = BUF_INIT(STREAM_MAX),
                   .fill = on_fill,
                   .freed = on_freed,
                   .ctx = response},
    };
    str_copy(response->id, sizeof(response->id),
             json_string_value(json_object_get(order->base, "id")));
    render_base(call, response->base, sizeof(response->base));
    json_object_set(response->object, "output", response->items);
    response->next = door->active;
    door->active = response;
    door->count++;
    return response;
}

static int start_agent(struct door_call *call, struct response *response, struct order *order,
                       struct error *err)
{
    struct agent_spec spec = {
        .manager = call->front->manager,
        .reactor = call->front->reactor,
        .link = call->front->info.upstream,
        .caller = &call->caller,
        .messages = ptr_take(&order->messages),
        .functions = ptr_take(&order->functions),
        .choice = ptr_take(&order->choice),
        .options = ptr_take(&order->options),
        .has_code = order->has_code,
        .place = order->place,
        .is_large = response->held > MIB && !response->is_background,
        .max_tokens = order->max_tokens,
        .max_calls = order->max_calls,
    };

    return agent_start(&spec, &response_agent_events, response, &response->agent, err);
}

static json_t *view(struct response *response)
{
    return render_response(response->door->front, response->object, response->has_outputs,
                           response->base);
}

/* The client of a response in the background has its answer at once. */
static void answer_background(struct response *response)
{
    struct http_request *http = response->http;
    json_t *object;

    response->http = NULL;
    if (response->is_streaming) {
        response->has_begun = true;
        front_stream_start(&response->stream, 200, TYPE_EVENTS, front_event_headers, -1);
        return;
    }
    object = view(response);
    if (object)
        json_object_set_new(object, "status", json_string("queued"));
    front_reply(http, 200, object);
}

static void fail(struct response *response, const struct error *err)
{
    struct http_request *http = response->http;

    if (response->was_stored)
        response_drop(response->door->front, response->caller.who.tenant, response->id, NULL);
    response->http = NULL;
    response->has_reader = false;
    if (http) {
        http_on_gone(http, NULL, NULL);
        openai_fail(response->door->front, http, err, NULL);
    }
}

void response_refused(struct response *response, const struct agent_ending *why)
{
    bool is_callers =
        why->status == 400 || why->status == 404 || why->status == 413 || why->status == 422;
    struct error err = why->error;

    err.code = is_callers || err.num == -EFBIG ? ERROR_BAD_INPUT : ERROR_UPSTREAM;
    fail(response, &err);
}

/*
 * What of the request, and of those before it, is in memory until the response is over. A large one
 * takes nearly the whole share of its tenant, never more.
 */
static int hold(struct response *response, size_t bytes, struct error *err)
{
    int r;

    bytes = MIN(bytes, (size_t)(LIMIT_HELD_TENANT - MIB));
    r = session_manager_hold(response->door->front->manager, response->caller.who.tenant, bytes,
                             err);

    if (r == 0)
        response->held = bytes;
    return r;
}

static void start(struct door_call *call, struct order *order, size_t bytes)
{
    struct response *response = response_new(call, order);
    struct error err = {0};
    int r;

    if (!response) {
        openai_fail_memory(call->http);
        return;
    }
    r = hold(response, bytes + order->earlier, &err);
    if (r == 0 && response->is_stored)
        r = response_store(response, &err);
    if (r == 0) {
        response_emit(response, "response.created", json_pack("{s:o}", "response", view(response)));
        response_emit(response, "response.in_progress",
                      json_pack("{s:o}", "response", view(response)));
        if (!response->is_background)
            http_on_gone(call->http, on_gone, response);
        r = start_agent(call, response, order, &err);
    }
    if (r < 0) {
        fail(response, &err);
        response_free(response);
    } else if (response->is_background) {
        answer_background(response);
    }
}

static int check_server(struct door_call *call, struct error *err)
{
    const struct responses *door = call->door;
    const struct config *config = session_manager_config(call->front->manager);
    unsigned count = 0;

    if (!config->upstream.url)
        return error_set(err, -ENOTCONN, ERROR_NO_UPSTREAM,
                         "no model server is configured: start 'bailey serve' with "
                         "BAILEY_UPSTREAM_URL, the base address of its Chat Completions API with "
                         "its /v1, and BAILEY_UPSTREAM_KEY if it needs one");
    for (const struct response *at = door->active; at; at = at->next)
        count += str_equal(at->caller.who.tenant, call->caller.who.tenant);
    if (door->count < LIMIT_RESPONSES_ACTIVE && count < LIMIT_RESPONSES_TENANT)
        return 0;
    error_set(err, -EAGAIN, ERROR_BUSY,
              "%d responses %sare under way, which is the most: try again",
              count < LIMIT_RESPONSES_TENANT ? LIMIT_RESPONSES_ACTIVE : LIMIT_RESPONSES_TENANT,
              count < LIMIT_RESPONSES_TENANT ? "" : "of this tenant ");
    err->retry_s = 1;
    return err->num;
}

void responses_create(struct door_call *call)
{
    struct order order = {0};
    struct schema_problem problem = {0};
    struct error err = {0};
    json_t *body = front_body_json(call->http, &problem);
    size_t bytes = http_body_take(call->http);
    int r = check_server(call, &err);

    if (!body && r == 0) {
        err = problem.err;
        r = err.num < 0 ? err.num : error_set(&err, -EINVAL, ERROR_BAD_JSON, "the body is no JSON");
    }
    if (r == 0)
        r = order_read(call, body, &order, &err);
    if (r < 0)
        openai_fail(call->front, call->http, &err, order.param);
    else
        start(call, &order, bytes);
    json_decref(body);
    order_free(&order);
}
