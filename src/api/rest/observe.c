/*
 * observe.c - what the REST door says of itself: whose request is handled, lines of the log, counts
 * of requests, refusals in the audit, and GET /metrics.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "model/caller.h"
#include "model/text.h"
#include "observe/audit.h"
#include "observe/metrics.h"
#include "session/refusal_log.h"

#define TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8"

/* ---- a request while it is handled ---- */

void rest_caller(const struct rest_call *call, struct caller *ret)
{
    *ret = (struct caller){.who = call->who, .trace = *http_trace(call->http)};
    str_copy(ret->request, sizeof(ret->request), http_request_id(call->http));
}

/* "s_..." of "/v1/sessions/s_.../files"; false: it is not about one session. */
static bool session_of(const char *path, char *ret, size_t size)
{
    static const char prefix[] = "/v1/sessions/";
    size_t length;

    if (!str_starts(path, prefix))
        return false;
    path += sizeof(prefix) - 1;
    length = strcspn(path, "/");
    return length > 0 && str_format(ret, size, "%.*s", (int)MIN(length, size), path) == 0;
}

void rest_handled(void *ctx)
{
    auth_leave(&((struct rest *)ctx)->auth);
}

/* ---- and when it is over ---- */

static const char *door_of(const char *path)
{
    static const struct {
        const char *prefix, *door;
    } doors[] = {
        {"/v1/", "rest"},        {"/mcp", "mcp"},        {"/execute", "execute"},
        {"/metrics", "metrics"}, {"/healthz", "health"}, {"/health", "health"},
        {"/docs", "docs"},       {"/openapi", "docs"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(doors); i++)
        if (str_starts(path, doors[i].prefix))
            return doors[i].door;
    return "other";
}

static void count(struct metrics *metrics, const struct http_done *done)
{
    static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    const char *door = door_of(done->path), *in = "in", *out = "out";
    const char *const values[] = {door, classes[MIN(done->status / 100, 5u)]};

    metrics_add(metrics, METRIC_REQUESTS, values, 1);
    metrics_observe(metrics, METRIC_REQUEST_TIME, &door, (double)done->duration_us / 1e6);
    metrics_add(metrics, METRIC_HTTP_BYTES, &in, done->bytes_in);
    metrics_add(metrics, METRIC_HTTP_BYTES, &out, done->bytes);
}

/* The path only: a query has signatures of links, headers have keys, bodies have code. */
void rest_done(void *ctx, const struct http_done *done)
{
    struct rest *rest = ctx;
    char session[LIMIT_NAME + 1] = "";
    const struct log_field fields[] = {
        {"method", done->method, 0},     {"path", done->path, 0},
        {"status", NULL, done->status},  {"ms", NULL, done->duration_us / 1000},
        {"bytes", NULL, done->bytes},    {"request_id", done->id, 0},
        {"tenant", done->tenant, 0},     {"session", session, 0},
        {"trace_id", done->trace_id, 0}, {NULL, NULL, 0}};

    if (!session_of(done->path, session, sizeof(session)))
        session[0] = '\0';
    count(session_manager_metrics(rest->manager), done);
    log_fields(LOG_INFO, "request", fields);
}

/* By what the request itself says: it may be told when another one is being handled. */
static void tell_refusal(struct rest *rest, struct http_request *http, const struct error *err,
                         const char *reason)
{
    char session[LIMIT_NAME + 1] = "";
    struct caller caller = {.trace = *http_trace(http)};

    if (!http_tell_once(http))
        return; /* auth.c did */
    if (!session_of(http_path(http), session, sizeof(session)))
        session[0] = '\0';
    str_copy(caller.who.tenant, sizeof(caller.who.tenant), http_tenant(http));
    str_copy(caller.who.key, sizeof(caller.who.key), http_key(http));
    caller.who.is_local = http_is_local(http);
    str_copy(caller.request, sizeof(caller.request), http_request_id(http));
    refusal_log_add(rest->manager, &(struct refusal){.caller = &caller,
                                                     .err = err,
                                                     .reason = reason,
                                                     .method = http_method(http),
                                                     .path = http_path(http),
                                                     .peer = http_peer(http),
                                                     .session = session});
}

void rest_denied(struct rest *rest, struct http_request *http, const struct error *err)
{
    if (refusal_is(err))
        tell_refusal(rest, http, err, NULL);
}

void rest_page_refused(struct rest *rest, struct http_request *http)
{
    tell_refusal(rest, http, &(struct error){.num = -EPERM, .code = ERROR_FORBIDDEN}, "origin");
}

/* ---- files ---- */

void rest_file_bytes(struct rest *rest, const char *direction, uint64_t bytes)
{
    metrics_add(session_manager_metrics(rest->manager), METRIC_FILE_BYTES, &direction, bytes);
}

void rest_file_over(struct rest *rest, const struct http_request *http,
                    const struct rest_file_over *over)
{
    const struct rest_route *route = http_row(http);
    const char *const values[] = {route ? route->name : "other", over->error ? "error" : "ok"};
    json_t *fields;

    metrics_add(session_manager_metrics(rest->manager), METRIC_FILE_OPERATIONS, values, 1);
    if (!over->change)
        return;
    fields = json_pack("{s:s, s:s, s:o, s:I, s:s, s:s*}", "session_id", over->session, "change",
                       over->change, "path", text_to_json(over->path, strlen(over->path)), "bytes",
                       (json_int_t)over->bytes, "result", over->error ? "error" : "ok", "error",
                       over->error);
    caller_describe(over->caller, fields);
    if (fields)
        audit_write(session_manager_audit(rest->manager), "file", fields);
}

/* ---- GET /metrics ---- */

struct scrape {
    struct rest *rest;
    struct http_request *http;
    struct reactor_timer *timer; /* until the launcher has answered */
};

static void scrape_free(struct scrape *scrape)
{
    scrape->rest->reactor->ops->timer_remove(scrape->timer);
    free(scrape);
}

static void measure_warm(struct metrics *metrics, json_t *state)
{
    json_t *pool = json_object_get(state, "pool"), *zygote;
    const char *ready = "ready", *wanted = "wanted";
    size_t i;

    metrics_set(metrics, METRIC_POOL, &ready, json_number_value(json_object_get(pool, "boxes")));
    metrics_set(metrics, METRIC_POOL, &wanted, json_number_value(json_object_get(pool, "size")));
    metrics_zero(metrics, METRIC_ZYGOTES);
    json_array_foreach(json_object_get(state, "zygotes"), i, zygote)
    {
        char tier[32];
        const char *const values[] = {
            tier, json_is_true(json_object_get(zygote, "ready")) ? "ready" : "starting"};

        str_format(tier, sizeof(tier), "%d",
                   (int)json_integer_value(json_object_get(zygote, "tier")));
        metrics_move(metrics, METRIC_ZYGOTES, values, 1);
    }
}

static void answer(struct scrape *scrape)
{
    struct rest *rest = scrape->rest;
    struct metrics *metrics = session_manager_metrics(rest->manager);
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_METRICS_TEXT);

    session_manager_measure(rest->manager);
    metrics_set(metrics, METRIC_CONNECTIONS, NULL, rest_clients(rest));
    if (metrics_write(metrics, &text) < 0)
        rest_fail_memory(scrape->http);
    else
        http_reply(scrape->http, 200, TYPE_METRICS, NULL, buf_text(&text), text.length);
    scrape_free(scrape);
}

static void on_seen(void *ctx, json_t *state)
{
    struct scrape *scrape = ctx;

    if (state)
        measure_warm(session_manager_metrics(scrape->rest->manager), state);
    json_decref(state);
    answer(scrape);
}

/* A launcher that is stuck is a reason to look: the rest is told, and of the pool what was known.
 */
static void on_late(void *ctx)
{
    struct scrape *scrape = ctx;

    session_manager_look_cancel(scrape->rest->manager, scrape);
    answer(scrape);
}

static void on_gone(void *ctx)
{
    struct scrape *scrape = ctx;

    session_manager_look_cancel(scrape->rest->manager, scrape);
    scrape_free(scrape);
}

void metrics_get(struct rest_call *call)
{
    struct scrape *scrape = calloc(1, sizeof(*scrape));

    if (scrape)
        *scrape = (struct scrape){.rest = call->rest,
                                  .http = call->http,
                                  .timer = reactor_timer(call->rest->reactor, on_late, scrape)};
    if (!scrape || !scrape->timer) {
        free(scrape);
        rest_fail_memory(call->http);
        return;
    }
    http_on_gone(call->http, on_gone, scrape);
    call->rest->reactor->ops->timer_set(scrape->timer, LIMIT_SCRAPE_WAIT_MS);
    session_manager_look(call->rest->manager, on_seen, scrape);
}
