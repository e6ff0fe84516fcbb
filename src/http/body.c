/* body.c - a request comes in: its row is found, its body collected, handed on or dropped. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/held.h"
#include "base/str.h"
#include "http/http_private.h"

/* Bodies larger than this are refused before they have been read to the end. */
#define PATIENT_BODY (64 * MIB)
/*
 * A chunked body without a Content-Length is read and dropped up to this size before the connection
 * is closed; up to a smaller size when the reply has been sent already.
 */
#define PATIENT_DROP(request) ((request)->early_reply_ms ? LIMIT_HTTP_EARLY_REPLY : 1 * GIB)

static bool has_body(const struct http_request *request)
{
    return request->body_length > 0 || http_header(request, "Transfer-Encoding");
}

static bool waits_for_continue(const struct http_request *request)
{
    const char *expect = http_header(request, "Expect");

    return expect && strcasecmp(expect, "100-continue") == 0;
}

static void handled(const struct http_request *request)
{
    const struct http_server_spec *spec = &request->server->spec;

    if (spec->handled && !request->server->is_late)
        spec->handled(spec->ctx);
}

/*
 * A request without a valid key is refused before its body arrives. A small body is read and
 * dropped, so that the client reads the reply; with a larger one the connection is closed.
 */
static bool is_admitted(struct http_request *request)
{
    const struct http_route *route = request->match.route;
    bool was_closing = request->must_close, is_in;

    if (!route || !route->admit)
        return true;
    if (has_body(request) &&
        (request->body_length < 0 || request->body_length > (int64_t)LIMIT_HTTP_DROP))
        request->must_close = true;
    is_in = route->admit(request, request->server->spec.ctx);
    if (is_in)
        request->must_close = was_closing;
    handled(request);
    return is_in;
}

/* Called whether or not a route matched. */
static void handle(struct http_request *request)
{
    const struct http_server_spec *spec = &request->server->spec;
    const struct http_route *route = request->match.route;
    const char *allow = request->match.allow;
    struct http_server *server = request->server;
    struct link *link = request->link;

    http_turn_begin(server);
    if (route)
        route->handle(request, spec->ctx);
    else
        spec->no_route(request, allow[0] != '\0', allow, spec->ctx);
    http_turn_end(server, link);
    handled(request);
}

static size_t body_limit(const struct http_request *request)
{
    if (request->body_kind == HTTP_NO_BODY)
        return LIMIT_HTTP_DROP;
    return request->match.route->body_max;
}

static bool is_too_long(const struct http_request *request, uint64_t length)
{
    /* A stream without a maximum has none. */
    if (request->body_kind == HTTP_STREAM_BODY && body_limit(request) == 0)
        return false;
    return length > body_limit(request);
}

static void refuse_long(struct http_request *request)
{
    char why[100];

    if (request->body_kind == HTTP_NO_BODY)
        str_format(why, sizeof(why), "the body is too large: no body is expected here");
    else
        str_format(why, sizeof(why), "the body is too large: at most %zu bytes here",
                   body_limit(request));
    /* A body with a Content-Length ends, so its client can read the reply after it. */
    if (request->body_length < 0)
        request->is_early_reply = request->must_close = true;
    http_request_refuse(request, 413, why);
}

/* The next bytes may belong to this body, so the connection is closed. */
static void refuse_for_good(struct http_request *request, unsigned status, const char *why)
{
    request->must_close = true;
    http_request_refuse(request, status, why);
}

/* Checks the headers; false: the request was refused. */
static bool look_at_headers(struct http_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const char *length = http_header(request, "Content-Length");

    if (request->target_error == -ENAMETOOLONG)
        http_request_refuse(request, 414, "the path or query is too long: at most 8 KiB");
    else if (request->target_error == -ENOMEM)
        http_request_refuse(request, 503, "out of memory");
    else if (request->target_error < 0)
        http_request_refuse(request, 400, "the path or query is malformed");
    else if (info && info->header_size > LIMIT_HTTP_HEADERS)
        refuse_for_good(request, 431, "the headers are too large: at most 64 KiB together");
    else if (length && (str_to_i64(length, &request->body_length) < 0 || request->body_length < 0))
        refuse_for_good(request, 400, "the Content-Length is malformed");
    else
        http_request_look(request);
    return !request->was_answered;
}

static void find_row(struct http_request *request)
{
    const struct http_server_spec *spec = &request->server->spec;

    const struct route_table *table =
        spec->table ? spec->table(request, spec->ctx) : request->server->table;

    route_find(table, request->method, &request->target, &request->match);
    request->body_kind = request->match.route ? request->match.route->body : HTTP_NO_BODY;
    if (request->body_kind == HTTP_WHOLE_BODY)
        request->body.maximum = request->match.route->body_max;
}

/*
 * The reply is ready before the body. Clients that sent Expect, or that have a large body, get it
 * now, and libmicrohttpd then closes the connection. Other clients send first and read afterwards:
 * their body is dropped, so that they read the reply.
 */
static bool is_answered_early(const struct http_request *request)
{
    return request->response &&
           (request->must_close ||
            (has_body(request) &&
             (waits_for_continue(request) || request->body_length > (int64_t)PATIENT_BODY)));
}

/* Whether the body that is announced could be held now; nothing is reserved for it. */
static int check_held(const struct http_request *request)
{
    if (request->body_kind != HTTP_WHOLE_BODY || request->body_length <= 0)
        return 0;
    return held_check(request->server->spec.held, request->tenant, request->server->is_local,
                      (size_t)request->body_length);
}

static void begin_body(struct http_request *request)
{
    int r = 0;

    if (request->body_length > 0 && is_too_long(request, (uint64_t)request->body_length)) {
        refuse_long(request);
    } else if ((r = check_held(request)) < 0) {
        http_request_refuse_held(request, r);
    } else if (request->body_kind == HTTP_STREAM_BODY) {
        request->was_handled = true;
        handle(request);
    }
}

enum MHD_Result http_request_begin(struct http_request *request, const char *method)
{
    request->has_begun = true;
    request->method = method;
    http_request_name(request);
    if (look_at_headers(request)) {
        find_row(request);
        if (is_admitted(request))
            begin_body(request);
    }
    return is_answered_early(request) ? http_request_queue(request) : MHD_YES;
}

/* Gives the taker what it takes; returns how much that is. */
static size_t hand_on(struct http_request *request, const char *data, size_t length)
{
    size_t done = 0;

    while (done < length && !request->was_answered && !request->is_gone) {
        size_t taken;

        request->was_called_on = false;
        if (!request->taker) {
            http_request_pause(request);
            break;
        }
        taken = request->taker->data(request->taker_ctx, data + done, length - done);
        done += MIN(taken, length - done);
        if (done < length && !request->was_called_on && !request->was_answered) {
            http_request_pause(request);
            break;
        }
    }
    return request->was_answered ? length : done;
}

static int keep(struct http_request *request, const char *data, size_t length)
{
    int r = http_request_take(request, &request->held_body, length);

    return r < 0 ? r : buf_append(&request->body, data, length);
}

enum MHD_Result http_request_data(struct http_request *request, const char *data, size_t *length)
{
    size_t taken = *length;
    int r = 0;

    if (request->was_answered) {
        request->body_dropped += *length;
        *length = 0;
        return request->body_length < 0 && request->body_dropped > PATIENT_DROP(request) ? MHD_NO
                                                                                         : MHD_YES;
    }
    if (is_too_long(request, request->body_received + taken))
        r = -EFBIG;
    else if (request->body_kind == HTTP_WHOLE_BODY)
        r = keep(request, data, taken);
    else if (request->body_kind == HTTP_STREAM_BODY)
        taken = hand_on(request, data, taken);
    if (r < 0) {
        buf_free(&request->body);
        http_request_give(request, &request->held_body);
        if (r == -EFBIG)
            refuse_long(request);
        else if (r == -EDQUOT || r == -ENOBUFS)
            http_request_refuse_held(request, r);
        else
            http_request_refuse(request, 503, "out of memory");
    }
    request->body_received += taken;
    *length -= taken;
    return MHD_YES;
}

enum MHD_Result http_request_end(struct http_request *request)
{
    request->is_body_whole = true;
    if (request->early_reply_ms)
        return MHD_NO; /* it has its answer */
    if (!request->was_answered) {
        if (request->body_kind != HTTP_STREAM_BODY && !request->was_handled) {
            request->was_handled = !http_prepare_start(request) && !http_turn_wait(request->link);
            if (request->was_handled)
                handle(request);
        } else if (request->taker) {
            const struct http_body_events *taker = ptr_take(&request->taker);

            taker->end(request->taker_ctx);
        }
    }
    if (request->response && (!request->held_ms || request->is_gone))
        return http_request_queue(request);
    if (request->is_gone)
        return MHD_NO;
    http_request_pause(request);
    return MHD_YES;
}

void http_body_read(struct http_request *request, const struct http_body_events *events, void *ctx)
{
    request->taker = events;
    request->taker_ctx = ctx;
    http_request_wake(request);
}

void http_body_resume(struct http_request *request)
{
    request->was_called_on = true;
    if (!request->is_body_whole)
        http_request_wake(request);
}
