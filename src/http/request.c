/* request.c - a request's life, its waiting, and what a handler can ask of it; see http_private.h.
 */
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/held.h"
#include "base/id.h"
#include "base/list.h"
#include "base/str.h"
#include "http/http_private.h"

struct http_request *http_request_new(struct http_server *server, struct MHD_Connection *connection,
                                      const char *target)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_request *request;

    if (!info || !info->socket_context)
        return NULL; /* there was no memory for its link */
    request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    request->server = server;
    request->connection = connection;
    request->link = info->socket_context;
    request->started_ms = clock_now_ms();
    request->started_ns = clock_now_ns();
    request->target_error = target_parse(&request->target, target ? target : "");
    request->method = "";
    request->body_length = -1;
    DLIST_PUSH(server->requests, request);
    request->link->request = request;
    return request;
}

void http_request_free(struct http_request *request)
{
    if (!request)
        return;
    DLIST_UNLINK(request->server->requests, request);
    http_turn_leave(request->link);
    request->link->request = NULL;
    request->link->request_count++;
    request->link->since_ms = clock_now_ms();
    if (request->response)
        MHD_destroy_response(request->response);
    http_prepare_leave(request);
    http_request_give(request, &request->held_body);
    http_request_give(request, &request->held_reply);
    http_request_give(request, &request->held_own);
    target_free(&request->target);
    buf_free(&request->body);
    free(request);
}

int http_request_take(struct http_request *request, size_t *part, size_t bytes)
{
    int r =
        held_take(request->server->spec.held, request->tenant, request->server->is_local, bytes);

    if (r == 0)
        *part += bytes;
    return r;
}

void http_request_give(struct http_request *request, size_t *part)
{
    held_give(request->server->spec.held, request->tenant, *part);
    *part = 0;
}

int http_hold(struct http_request *request, size_t bytes)
{
    if (bytes > request->held_own)
        return http_request_take(request, &request->held_own, bytes - request->held_own);
    held_give(request->server->spec.held, request->tenant, request->held_own - bytes);
    request->held_own = bytes;
    return 0;
}

bool http_watch(struct http_request *request, const struct http_watcher *watcher, void *ctx)
{
    if (request->watcher)
        return false;
    request->watcher = watcher;
    request->watcher_ctx = ctx;
    return true;
}

void *http_watched_by(const struct http_request *request)
{
    return request->watcher ? request->watcher_ctx : NULL;
}

void http_keep_reply(struct http_request *request, const struct http_reply_keeper *keeper,
                     void *ctx)
{
    request->keeper = keeper;
    request->keeper_ctx = ctx;
}

void http_request_keep(struct http_request *request, unsigned status, const char *type,
                       const void *data, size_t length)
{
    if (!request->keeper || request->was_kept)
        return;
    request->was_kept = true;
    request->keeper->whole(request->keeper_ctx, status, type, data, length);
}

void http_request_sent(struct http_request *request, uint64_t bytes)
{
    request->sent += bytes;
    if (request->watcher && bytes > 0)
        request->watcher->sent(request->watcher_ctx, bytes);
}

void http_request_pause(struct http_request *request)
{
    if (request->is_paused || request->is_gone)
        return; /* gone: nothing would resume it */
    request->is_paused = true;
    MHD_suspend_connection(request->connection);
}

void http_request_wake(struct http_request *request)
{
    if (!request->is_paused)
        return;
    request->is_paused = false;
    MHD_resume_connection(request->connection);
    /* Without its own threads libmicrohttpd does not schedule itself for this. */
    request->server->is_woken = true;
    request->server->reactor->ops->timer_set(request->server->timer, 0);
}

void http_request_lose(struct http_request *request)
{
    void (*tell)(void *ctx) = request->gone;
    void *ctx = request->gone_ctx;

    if (request->is_gone)
        return;
    request->is_gone = true;
    request->taker = NULL;
    if (request->websocket)
        websocket_leave(request->websocket);
    if (request->tunnel)
        http_tunnel_leave(request->tunnel);
    if (request->source.freed) {
        tell = request->source.freed;
        ctx = request->source_ctx;
    } else if (request->was_answered) {
        tell = NULL; /* the handler that answered does not exist any more */
    }
    http_request_wake(request); /* to be closed */
    if (tell)
        tell(ctx);
}

bool http_is_local(const struct http_request *request)
{
    return request->server->is_local;
}

const char *http_peer(const struct http_request *request)
{
    return request->link->peer;
}

void http_request_name(struct http_request *request)
{
    const char *given = http_header(request, "X-Request-Id");
    const char *trace = http_header(request, "traceparent");
    char made[ID_MAX];

    if (given && request_id_is_valid(given))
        str_copy(request->id, sizeof(request->id), given);
    else if (id_make(made, "req") == 0)
        str_copy(request->id, sizeof(request->id), made);
    if (trace)
        (void)trace_parse(trace, &request->trace); /* a malformed one is none */
}

const char *http_request_id(const struct http_request *request)
{
    return request->id;
}

const struct trace *http_trace(const struct http_request *request)
{
    return &request->trace;
}

/* Said with the head, and again with the body: what is held meanwhile stays that tenant's. */
void http_set_who(struct http_request *request, const char *tenant, const char *key)
{
    size_t body = request->held_body;

    http_request_give(request, &request->held_body);
    str_copy(request->tenant, sizeof(request->tenant), tenant);
    str_copy(request->key, sizeof(request->key), key);
    if (body > 0)
        http_request_take(request, &request->held_body, body);
}

const char *http_tenant(const struct http_request *request)
{
    return request->tenant;
}

const char *http_key(const struct http_request *request)
{
    return request->key;
}

int http_set_admitted(struct http_request *request, const char *tenant)
{
    int r = http_share_join(request->link, tenant);

    if (r == 0) {
        http_keyless_leave(request->link);
        http_keyless_known(request->link);
    }
    return r;
}

bool http_tell_once(struct http_request *request)
{
    bool is_first = !request->was_told;

    request->was_told = true;
    return is_first;
}

void *http_ctx(const struct http_request *request)
{
    return request->server->spec.ctx;
}

const void *http_row(const struct http_request *request)
{
    return request->match.route ? request->match.route->row : NULL;
}

const char *http_method(const struct http_request *request)
{
    return request->method;
}

const char *http_path(const struct http_request *request)
{
    return request->target.path ? request->target.path : "";
}

const char *http_query_text(const struct http_request *request)
{
    return request->target.query;
}

const char *http_param(const struct http_request *request, const char *name)
{
    return route_param(&request->match, name);
}

const char *http_query(const struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->target.argument_count; i++) {
        if (str_equal(request->target.arguments[i].name, name))
            return request->target.arguments[i].value;
    }
    return NULL;
}

void http_query_each(const struct http_request *request,
                     void (*each)(void *ctx, const char *name, const char *value), void *ctx)
{
    for (size_t i = 0; i < request->target.argument_count; i++)
        each(ctx, request->target.arguments[i].name, request->target.arguments[i].value);
}

const char *http_header(const struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

struct walking {
    void (*each)(void *ctx, const char *name, const char *value);
    void *ctx;
};

static enum MHD_Result walk_value(void *cls, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    const struct walking *walking = cls;

    (void)kind;
    walking->each(walking->ctx, name, value ? value : "");
    return MHD_YES;
}

void http_header_each(const struct http_request *request,
                      void (*each)(void *ctx, const char *name, const char *value), void *ctx)
{
    struct walking walking = {each, ctx};

    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, walk_value, &walking);
}

struct comparing {
    const char *name, *first;
    bool differs;
};

static enum MHD_Result compare_value(void *cls, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    struct comparing *comparing = cls;

    (void)kind;
    if (strcasecmp(name, comparing->name) != 0)
        return MHD_YES;
    if (!value)
        value = "";
    if (!comparing->first)
        comparing->first = value;
    comparing->differs |= !str_equal(comparing->first, value);
    return MHD_YES;
}

bool http_header_differs(const struct http_request *request, const char *name)
{
    struct comparing comparing = {.name = name};

    MHD_get_connection_values(request->connection, MHD_HEADER_KIND, compare_value, &comparing);
    return comparing.differs;
}

const void *http_body(const struct http_request *request, size_t *ret_length)
{
    *ret_length = request->body.length;
    return buf_text(&request->body);
}

void http_body_drop(struct http_request *request)
{
    buf_free(&request->body);
}

size_t http_body_take(struct http_request *request)
{
    size_t length = MAX(request->body.length, request->held_body);

    buf_free(&request->body);
    http_request_give(request, &request->held_body);
    return length;
}

int64_t http_body_length(const struct http_request *request)
{
    return request->body_length;
}

void http_on_gone(struct http_request *request, void (*gone)(void *ctx), void *ctx)
{
    request->gone = gone;
    request->gone_ctx = ctx;
}
