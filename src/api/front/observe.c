/*
 * observe.c - log lines, counters and audit records of requests: the caller of the current request,
 * requests by door, refusals.
 */
#include <errno.h>
#include <string.h>

#include "api/front/front_private.h"
#include "api/front/reply.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "model/caller.h"
#include "observe/metrics.h"
#include "session/refusal_log.h"

/* ---- while a request is handled ---- */

void front_handled(void *ctx)
{
    (void)ctx;
    auth_leave();
}

/* ---- when a request is over ---- */

static void count(const struct front *front, const struct http_done *done)
{
    static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    struct metrics *metrics = session_manager_metrics(front->manager);
    const char *door = front_label(front, done), *in = "in", *out = "out";
    const char *const values[] = {door, classes[MIN(done->status / 100, 5u)]};

    metrics_add(metrics, METRIC_REQUESTS, values, 1);
    metrics_observe(metrics, METRIC_REQUEST_TIME, &door, (double)done->duration_us / 1e6);
    metrics_add(metrics, METRIC_HTTP_BYTES, &in, done->bytes_in);
    metrics_add(metrics, METRIC_HTTP_BYTES, &out, done->bytes);
}

/*
 * Logs only the path: queries contain signatures of links, headers contain keys, bodies contain
 * code.
 */
void front_done(void *ctx, const struct http_done *done)
{
    struct front *front = ctx;
    char session[LIMIT_NAME + 1] = "";
    const struct log_field fields[] = {
        {"method", done->method, 0},     {"path", front_shown_path(done->row, done->path), 0},
        {"status", NULL, done->status},  {"ms", NULL, done->duration_us / 1000},
        {"bytes", NULL, done->bytes},    {"request_id", done->id, 0},
        {"tenant", done->tenant, 0},     {"session", session, 0},
        {"trace_id", done->trace_id, 0}, {NULL, NULL, 0}};

    auth_path_session(done->path, session, sizeof(session));
    count(front, done);
    log_fields(LOG_INFO, "request", fields);
}

/* Uses only facts of this request: another request may be being handled at this time. */
static void tell_refusal(struct front *front, struct http_request *http, const struct error *err,
                         const char *reason)
{
    char session[LIMIT_NAME + 1] = "";
    struct caller caller = {.trace = *http_trace(http)};

    if (!http_tell_once(http))
        return; /* auth.c recorded it */
    auth_path_session(http_path(http), session, sizeof(session));
    str_copy(caller.who.tenant, sizeof(caller.who.tenant), http_tenant(http));
    str_copy(caller.who.key, sizeof(caller.who.key), http_key(http));
    caller.who.is_local = http_is_local(http);
    str_copy(caller.request, sizeof(caller.request), http_request_id(http));
    refusal_log_add(front->manager,
                    &(struct refusal){.caller = &caller,
                                      .err = err,
                                      .reason = reason,
                                      .method = http_method(http),
                                      .path = front_shown_path(http_row(http), http_path(http)),
                                      .peer = http_peer(http),
                                      .session = session});
}

void front_denied(struct front *front, struct http_request *http, const struct error *err)
{
    if (refusal_is(err))
        tell_refusal(front, http, err, NULL);
}

void front_page_refused(struct front *front, struct http_request *http)
{
    tell_refusal(front, http, &(struct error){.num = -EPERM, .code = ERROR_FORBIDDEN}, "origin");
}
