/*
 * peer.c - a connection: parsing a message, deciding its era, dispatching it, and how answers look.
 *
 * The era is decided for each message alone: a message with the keys of 2026-07-28 in params._meta
 * is modern, every other one is legacy, whatever came before. Clients probe with one era and go on
 * with the other.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/mcp/fixtures.h"
#include "api/mcp/mcp_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/json.h"
#include "model/text.h"

enum { ERA_LEGACY = 1, ERA_MODERN = 2, ERA_BOTH = 3 };

static const struct method_row {
    const char *name;
    int eras;
    void (*handle)(struct mcp_request *request);
} methods[] = {
    {"server/discover", ERA_MODERN, mcp_discover},
    {"initialize", ERA_LEGACY, mcp_initialize},
    {"ping", ERA_LEGACY, mcp_ping},
    {"logging/setLevel", ERA_LEGACY, mcp_set_level},
    {"tools/list", ERA_BOTH, mcp_tools_list},
    {"tools/call", ERA_BOTH, mcp_tools_call},
    {"resources/list", ERA_BOTH, mcp_resources_list},
    {"resources/templates/list", ERA_BOTH, mcp_templates_list},
    {"resources/read", ERA_BOTH, mcp_resources_read},
    {"prompts/list", ERA_BOTH, mcp_prompts_list},
    {"prompts/get", ERA_BOTH, mcp_prompts_get},
    {"completion/complete", ERA_BOTH, mcp_complete},
};

/* ---- answers ------------------------------------------------------------------------------- */

/* Always answers: without memory by a constant text. */
static void send_message(struct mcp_peer *peer, json_t *message, int kind)
{
    static const char no_memory[] =
        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,\"message\":\"out of memory\"}}";
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_MCP_ANSWER);

    if (message && text_of_json(message, JSON_COMPACT, &text) == 0)
        peer->ops->send(peer->ctx, buf_text(&text), text.length, kind);
    else
        peer->ops->send(peer->ctx, no_memory, sizeof(no_memory) - 1, MCP_INTERNAL);
    json_decref(message);
}

void mcp_send_result(struct mcp_peer *peer, const struct mcp_origin *origin, json_t *result)
{
    if (!result) {
        mcp_send_error(peer, origin, MCP_INTERNAL, NULL, "out of memory");
        return;
    }
    if (origin->is_modern) {
        if (!json_object_get(result, "resultType"))
            json_object_set_new(result, "resultType", json_string("complete"));
        json_object_set_new(result, "_meta",
                            json_pack("{s:{s:s,s:s}}", MCP_META_SERVER, "name", "bailey", "version",
                                      BAILEY_VERSION));
    }
    peer->answering = origin->sequence;
    send_message(
        peer, json_pack("{s:s,s:O,s:o}", "jsonrpc", "2.0", "id", origin->id, "result", result), 0);
}

void mcp_send_cached(struct mcp_peer *peer, const struct mcp_origin *origin, json_t *result,
                     long ttl_ms)
{
    if (result && origin->is_modern) {
        json_object_set_new(result, "ttlMs", json_integer(ttl_ms));
        json_object_set_new(result, "cacheScope", json_string(ttl_ms > 0 ? "public" : "private"));
    }
    mcp_send_result(peer, origin, result);
}

/* An id that could not be read is left out: no schema allows null as an id. */
json_t *mcp_error_json(json_t *id, enum mcp_code code, json_t *data, const char *text)
{
    json_t *error =
        json_pack("{s:i,s:o}", "code", (int)code, "message", text_to_json(text, strlen(text)));

    if (data && error)
        json_object_set_new(error, "data", data);
    else
        json_decref(data);
    return json_pack("{s:s,s:O*,s:o}", "jsonrpc", "2.0", "id", id, "error", error);
}

void mcp_send_error(struct mcp_peer *peer, const struct mcp_origin *origin, enum mcp_code code,
                    json_t *data, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    peer->answering = origin->sequence;
    send_message(peer, mcp_error_json(origin->id, code, data, text), code);
}

void mcp_send_notice(struct mcp_peer *peer, const char *method, json_t *params)
{
    json_t *notice =
        json_pack("{s:s,s:s,s:o}", "jsonrpc", "2.0", "method", method, "params", params);

    if (notice) /* a notice has no waiting client */
        send_message(peer, notice, MCP_NOTICE);
}

const char *mcp_text(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

/* ---- messages ------------------------------------------------------------------------------ */

/* Whether the message belongs to 2026-07-28; discover exists only there. */
static bool is_modern(const char *method, json_t *meta)
{
    return json_object_get(meta, MCP_META_VERSION) ||
           json_object_get(meta, MCP_META_CAPABILITIES) || str_equal(method, "server/discover");
}

/* Whether a modern request has its required members; otherwise it is answered. */
static bool is_modern_valid(struct mcp_request *request, json_t *meta)
{
    const char *version = mcp_text(meta, MCP_META_VERSION);

    if (!version || !json_is_object(json_object_get(meta, MCP_META_CAPABILITIES))) {
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL,
                       "params._meta needs the string '%s' and the object '%s'", MCP_META_VERSION,
                       MCP_META_CAPABILITIES);
        return false;
    }
    if (!str_equal(version, MCP_MODERN)) {
        mcp_send_error(request->peer, &request->origin, MCP_UNSUPPORTED_VERSION,
                       json_pack("{s:[s],s:s}", "supported", MCP_MODERN, "requested", version),
                       "unsupported protocol version '%.40s'", version);
        return false;
    }
    return true;
}

static void dispatch(struct mcp_request *request)
{
    json_t *meta = json_object_get(request->params, "_meta");
    int era;

    request->origin.is_modern = is_modern(request->method, meta);
    if (request->origin.is_modern && !is_modern_valid(request, meta))
        return;
    if (request->peer->server->has_fixtures && mcp_fixtures_handle(request))
        return;
    era = request->origin.is_modern ? ERA_MODERN : ERA_LEGACY;
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        if (str_equal(methods[i].name, request->method) && methods[i].eras & era) {
            methods[i].handle(request);
            return;
        }
    }
    mcp_send_error(request->peer, &request->origin, MCP_NO_METHOD, NULL, "unknown method '%.80s'",
                   request->method);
}

static void notified(struct mcp_peer *peer, const char *method, json_t *params)
{
    if (str_equal(method, "notifications/cancelled"))
        mcp_work_cancel(peer, json_object_get(params, "requestId"));
    /* initialized, roots/list_changed and unknown notifications need no action */
}

/* Only fixtures ask a client. */
static void answered(struct mcp_peer *peer, json_t *message)
{
    if (peer->server->has_fixtures)
        mcp_fixtures_answered(peer, message);
}

void mcp_peer_take(struct mcp_peer *peer, json_t *message, uint64_t now_ms)
{
    struct mcp_request request = {
        .peer = peer,
        .origin = {.sequence = peer->sequence, .lost_ms = peer->lost_ms},
        .now_ms = now_ms,
    };
    json_t *id = json_object_get(message, "id");
    json_t *params = json_object_get(message, "params");

    if (json_is_string(id) || json_is_integer(id))
        request.origin.id = id;
    if (json_is_null(params))
        params = NULL;
    request.method = mcp_text(message, "method");
    request.params = params;
    if (!json_is_object(message))
        mcp_send_error(peer, &request.origin, MCP_INVALID_REQUEST, NULL,
                       json_is_array(message) ? "batches are not taken: send one message at a time"
                                              : "a message has to be a JSON object");
    else if (!json_object_get(message, "method") && id &&
             (json_object_get(message, "result") || json_object_get(message, "error")))
        answered(peer, message);
    else if (!str_equal(mcp_text(message, "jsonrpc"), "2.0"))
        mcp_send_error(peer, &request.origin, MCP_INVALID_REQUEST, NULL,
                       "'jsonrpc' has to be \"2.0\"");
    else if (!request.method)
        mcp_send_error(peer, &request.origin, MCP_INVALID_REQUEST, NULL,
                       "'method' has to be a string");
    else if (!id)
        notified(peer, request.method, params);
    else if (!request.origin.id)
        mcp_send_error(peer, &request.origin, MCP_INVALID_REQUEST, NULL,
                       "'id' has to be a string or an integer");
    else if (params && !json_is_object(params))
        mcp_send_error(peer, &request.origin, MCP_INVALID_PARAMS, NULL,
                       "'params' has to be an object");
    else
        dispatch(&request);
}

static bool is_blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!memchr(" \t\r\n", text[i], 4))
            return false;
    return true;
}

void mcp_peer_message(struct mcp_peer *peer, const char *text, size_t length, uint64_t now_ms)
{
    CLEANUP(json_decrefp) json_t *message = NULL;
    CLEANUP(json_decrefp) json_t *id = NULL;
    struct json_problem problem;

    if (is_blank(text, length))
        return;
    /* Of duplicate members the last wins, as usual in JSON. */
    message = json_parse(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
    if (message) {
        mcp_peer_take(peer, message, now_ms);
        return;
    }
    id = mcp_raw_id(text, length);
    mcp_send_error(peer, &(struct mcp_origin){.id = id, .sequence = peer->sequence},
                   MCP_PARSE_ERROR, NULL,
                   problem.num == -EINVAL ? "not JSON: byte %zu: %s"
                                          : "the message is refused at byte %zu: %s",
                   problem.position, problem.text);
}

void mcp_peer_too_long(struct mcp_peer *peer, const char *text, size_t length)
{
    CLEANUP(json_decrefp) json_t *id = mcp_raw_id(text, length);

    mcp_send_error(peer, &(struct mcp_origin){.id = id, .sequence = peer->sequence},
                   MCP_INVALID_REQUEST, NULL, "the message is longer than %llu MB",
                   LIMIT_MCP_LINE / MIB);
}

void mcp_peer_refuse(struct mcp_peer *peer, const char *text, size_t length, const char *why)
{
    CLEANUP(json_decrefp) json_t *id = mcp_raw_id(text, length);

    mcp_send_error(peer, &(struct mcp_origin){.id = id, .sequence = peer->sequence}, MCP_INTERNAL,
                   NULL, "%s", why);
}

/* ---- life ---------------------------------------------------------------------------------- */

int mcp_server_new(const struct mcp_settings *settings, struct mcp_server **ret, struct error *err)
{
    CLEANUP(mcp_server_freep) struct mcp_server *server = calloc(1, sizeof(*server));

    if (!server)
        return error_memory(err);
    server->tools = settings->tools;
    server->tool_count = settings->tool_count;
    server->can_install = settings->can_install;
    server->is_structured = settings->is_structured;
    server->is_http = settings->is_http;
    server->has_fixtures = settings->has_fixtures;
    if (settings->prompt && !(server->prompt = strdup(settings->prompt)))
        return error_memory(err);
    server->tool_list = mcp_tools_build(settings, false, err);
    if (server->tool_list && settings->is_http)
        server->stateless_list = mcp_tools_build(settings, true, err);
    if (!server->tool_list || (settings->is_http && !server->stateless_list))
        return err && err->num < 0 ? err->num : -ENOMEM;
    if (server->has_fixtures) {
        mcp_fixtures_list("tools", server->tool_list);
        if (server->stateless_list)
            mcp_fixtures_list("tools", server->stateless_list);
    }
    *ret = ptr_take(&server);
    return 0;
}

void mcp_server_freep(struct mcp_server **server)
{
    if (!*server)
        return;
    json_decref((*server)->tool_list);
    json_decref((*server)->stateless_list);
    free((*server)->prompt);
    free(*server);
    *server = NULL;
}

int mcp_peer_new(const struct mcp_server *server, const struct mcp_ops *ops, void *ctx,
                 struct mcp_peer **ret, struct error *err)
{
    struct mcp_peer *peer = calloc(1, sizeof(*peer));

    if (!peer)
        return error_memory(err);
    peer->server = server;
    peer->ops = ops;
    peer->ctx = ctx;
    str_copy(peer->version, sizeof(peer->version), MCP_LEGACY_NEWEST);
    *ret = peer;
    return 0;
}

void mcp_peer_freep(struct mcp_peer **peer)
{
    if (!*peer)
        return;
    while ((*peer)->works) {
        struct mcp_work *work = (*peer)->works;

        (*peer)->ops->cancel((*peer)->ctx, work);
        mcp_work_free(work);
    }
    free(*peer);
    *peer = NULL;
}

void mcp_peer_session(struct mcp_peer *peer, const char *session)
{
    str_copy(peer->session, sizeof(peer->session), session);
}
