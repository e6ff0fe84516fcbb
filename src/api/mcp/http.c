/*
 * http.c - MCP's one path: finds the caller, the era and the conversation; see mcp_http_private.h.
 *
 * POST carries one message. GET shows a legacy conversation's stream, DELETE ends a conversation.
 * Every refusal is an error of JSON-RPC.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/front/door.h"
#include "api/front/reply.h"
#include "api/mcp/mcp_http_private.h"
#include "api/mcp/pipe.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/json.h"
#include "model/text.h"
#include "tool/schema.h"

#define LOOK_MS 500         /* interval of the sweep while requests run */
#define IDLE_LOOK_MS 60000  /* and while none runs */
#define ALLOW "Allow: POST" /* the only method for a client without a conversation */

/* ---- refusals ---- */

void mcp_refuse(struct http_request *http, unsigned status, json_t *id, int code,
                const char *header, const char *format, ...)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    CLEANUP(json_decrefp) json_t *json = NULL;
    const char *headers[] = {"Cache-Control: no-store", header, NULL};
    char why[ERROR_TEXT_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    json = mcp_error_json(id, (enum mcp_code)code, NULL, why);
    if (json)
        text_of_json(json, JSON_COMPACT, &text);
    http_reply(http, status, "application/json", headers, buf_text(&text), text.length);
}

void mcp_http_refuse(struct http_request *http, unsigned status, const char *header,
                     const char *why)
{
    mcp_refuse(http, status, NULL, status >= 500 ? MCP_INTERNAL : MCP_INVALID_REQUEST, header, "%s",
               why);
}

void mcp_http_fail(struct http_request *http, const struct error *err)
{
    char retry[48];

    str_format(retry, sizeof(retry), "Retry-After: %u", err->retry_s ? err->retry_s : 1);
    if (err->num == -EACCES)
        mcp_refuse(http, 401, NULL, MCP_INVALID_REQUEST, "WWW-Authenticate: Bearer", "%s",
                   err->text);
    else if (err->num == -EPERM)
        mcp_refuse(http, 403, NULL, MCP_INVALID_REQUEST, NULL, "%s", err->text);
    else if (err->num == -EDQUOT)
        mcp_refuse(http, 429, NULL, MCP_INVALID_REQUEST, retry, "%s", err->text);
    else
        mcp_refuse(http, 500, NULL, MCP_INTERNAL, NULL, "%s", err->text);
}

static void refuse_unknown(struct http_request *http, json_t *id)
{
    mcp_refuse(http, 404, id, MCP_INVALID_REQUEST, NULL,
               "there is no such conversation (Mcp-Session-Id): send initialize again");
}

static const char *short_header(struct http_request *http, const char *name,
                                char to[MCP_HEADER_MAX])
{
    return mcp_header_value(http_header(http, name), to, MCP_HEADER_MAX);
}

/* ---- a message ---- */

struct post {
    struct mcp_http *door;
    struct http_request *http;
    const struct caller *caller;
    json_t *message;
    json_t *id;                    /* id of a request; borrowed, NULL: none */
    const char *version, *session; /* from the headers; NULL: none */
    const char *pinned;            /* the session of calls that name none; NULL: none */
    bool takes_json, takes_events;
};

static struct mcp_stream *begin(struct post *post, struct mcp_dialog *dialog)
{
    struct mcp_stream *stream = mcp_stream_new(post->door, dialog, post->caller, post->http);

    if (stream &&
        mcp_peer_new(post->door->spec.server, &mcp_stream_ops, stream, &stream->peer, NULL) < 0) {
        http_on_gone(post->http, NULL, NULL);
        stream->http = NULL;
        mcp_stream_free(stream);
        stream = NULL;
    }
    if (!stream) {
        mcp_refuse(post->http, 503, post->id, MCP_INTERNAL, NULL, "out of memory");
        return NULL;
    }
    stream->takes_json = post->takes_json;
    stream->takes_events = post->takes_events;
    if (dialog) {
        str_copy(stream->peer->version, sizeof(stream->peer->version), dialog->version);
        mcp_peer_session(stream->peer, dialog->own);
    }
    if (post->pinned) {
        str_copy(stream->pinned, sizeof(stream->pinned), post->pinned);
        stream->asker.own = &stream->pinned;
        stream->asker.is_pinned = true;
        mcp_peer_session(stream->peer, stream->pinned);
    }
    return stream;
}

static void refuse_headers(struct post *post, int code, const char *version, const char *why)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    CLEANUP(json_decrefp) json_t *json = NULL;
    json_t *data = NULL;

    if (code == MCP_UNSUPPORTED_VERSION)
        data = json_pack("{s:[s],s:o}", "supported", MCP_MODERN, "requested",
                         text_to_json(version, strlen(version)));
    json = mcp_error_json(post->id, (enum mcp_code)code, data, why);
    if (json)
        text_of_json(json, JSON_COMPACT, &text);
    http_reply(post->http, 400, "application/json", NULL, buf_text(&text), text.length);
}

/* Whether it is a valid notification or an answer. */
static bool is_telling(json_t *message)
{
    json_t *method = json_object_get(message, "method");

    if (!str_equal(mcp_text(message, "jsonrpc"), "2.0"))
        return false;
    if (json_object_get(message, "id"))
        return !method && (json_object_get(message, "result") || json_object_get(message, "error"));
    return json_is_string(method);
}

static void post_modern(struct post *post)
{
    const struct mcp_headers headers = {
        .version = post->version,
        .method = http_header(post->http, "Mcp-Method"),
        .name = http_header(post->http, "Mcp-Name"),
    };
    char why[256];
    struct mcp_stream *stream;
    int code;

    if (!json_object_get(post->message, "id") && is_telling(post->message)) {
        http_reply(post->http, 202, NULL, NULL, NULL, 0); /* notifications have no effect here */
        return;
    }
    code = mcp_check_headers(post->message, &headers, why, sizeof(why));
    if (code) {
        refuse_headers(post, code, headers.version, why);
        return;
    }
    stream = begin(post, NULL);
    if (stream)
        mcp_peer_take(stream->peer, post->message, clock_now_ms());
}

static void post_initialize(struct post *post)
{
    struct mcp_dialog *dialog;
    struct mcp_stream *stream;
    struct error err = {0};
    unsigned status;

    if (mcp_dialog_new(post->door, post->caller, &dialog, &status, &err) < 0) {
        mcp_refuse(post->http, status, post->id, MCP_INTERNAL, "Retry-After: 60", "%s", err.text);
        return;
    }
    stream = begin(post, dialog);
    if (!stream) {
        mcp_dialog_end(post->door, dialog, post->caller);
        return;
    }
    stream->opens_dialog = true;
    stream->asker.own = NULL;
    mcp_peer_take(stream->peer, post->message, clock_now_ms());
    str_copy(dialog->version, sizeof(dialog->version), stream->peer->version);
    if (stream->has_failed)
        mcp_dialog_end(post->door, dialog, post->caller);
}

/* A request that was cancelled: no answer is sent. */
static void end_silently(struct mcp_stream *stream)
{
    stream->is_over = true;
    if (stream->http && stream->takes_events)
        mcp_stream_show(stream, stream->http, -1);
    else if (stream->http)
        http_reply(ptr_take(&stream->http), 202, NULL, NULL, NULL, 0);
    else if (stream->reader)
        http_reply_more(stream->reader->http);
    mcp_door_wake(stream->door);
}

/* Passes a message that expects no answer to the running requests of the conversation. */
static void tell_all(struct post *post, const struct mcp_dialog *dialog)
{
    if (!is_telling(post->message)) {
        mcp_refuse(post->http, 400, post->id, MCP_INVALID_REQUEST, NULL,
                   "neither a request, nor a notification, nor an answer of JSON-RPC 2.0");
        return;
    }
    for (struct mcp_stream *stream = post->door->streams; stream; stream = stream->next) {
        if (stream->dialog != dialog || !stream->peer || stream->is_over)
            continue;
        mcp_peer_take(stream->peer, post->message, clock_now_ms());
        if (!stream->peer->works && !stream->is_over)
            end_silently(stream);
    }
    http_reply(post->http, 202, NULL, NULL, NULL, 0);
}

static void post_legacy(struct post *post)
{
    const char *method = mcp_text(post->message, "method");
    bool is_request =
        json_object_get(post->message, "id") && json_object_get(post->message, "method");
    struct mcp_dialog *dialog;
    struct mcp_stream *stream;

    if (is_request && str_equal(method, "initialize")) {
        post_initialize(post);
        return;
    }
    if (!post->session) {
        mcp_refuse(post->http, 400, post->id, MCP_INVALID_REQUEST, NULL,
                   "the header Mcp-Session-Id is missing: send initialize first, or speak "
                   "2026-07-28 (MCP-Protocol-Version and params._meta)");
        return;
    }
    dialog = mcp_dialog_find(post->door, &post->caller->who, post->session);
    if (!dialog) {
        refuse_unknown(post->http, post->id);
    } else if (!is_request) {
        tell_all(post, dialog);
    } else if (dialog->live_count >= LIMIT_MCP_CALLS) {
        mcp_refuse(post->http, 429, post->id, MCP_INTERNAL, "Retry-After: 1",
                   "%d requests are running already; wait for one of them", LIMIT_MCP_CALLS);
    } else {
        stream = begin(post, dialog);
        if (stream)
            mcp_peer_take(stream->peer, post->message, clock_now_ms());
    }
}

/* Not JSON, or nested too deep: a temporary peer makes the error. */
static void refuse_text(struct post *post, const char *text, size_t length)
{
    struct mcp_stream *stream;

    post->takes_json = true;
    stream = begin(post, NULL);
    if (!stream)
        return;
    mcp_peer_message(stream->peer, text, length, clock_now_ms());
    if (stream->http) /* only blanks: not a message */
        mcp_refuse(ptr_take(&stream->http), 400, NULL, MCP_PARSE_ERROR, NULL,
                   "the body is empty: it has to be one message of JSON-RPC");
    stream->is_over = true;
}

/* Checks the headers Content-Type and Accept; false: it was refused. */
static bool check_types(struct post *post)
{
    const char *accept = http_header(post->http, "Accept");

    post->takes_json = mcp_accepts(accept, "application/json");
    /* "*" "/" "*" alone comes from a client that does not know streams. */
    post->takes_events = accept && strcasestr(accept, "text/event-stream");
    if (!mcp_is_json_type(http_header(post->http, "Content-Type")))
        mcp_refuse(post->http, 415, NULL, MCP_INVALID_REQUEST, NULL,
                   "the Content-Type has to be application/json");
    else if (!post->takes_json && !post->takes_events)
        mcp_refuse(post->http, 406, NULL, MCP_INVALID_REQUEST, NULL,
                   "the Accept header has to allow application/json and text/event-stream");
    else
        return true;
    return false;
}

/* ?session=NAME or Bailey-Session: NAME; false: it was refused. */
static bool take_pin(struct post *post)
{
    const char *query = http_query(post->http, "session");
    const char *header = http_header(post->http, SESSION_HEADER);

    post->pinned = query ? query : header;
    if (!post->pinned)
        return true;
    if (query && header && !str_equal(query, header))
        mcp_refuse(post->http, 400, NULL, MCP_INVALID_REQUEST, NULL,
                   "the header " SESSION_HEADER " and the query argument 'session' name different "
                   "sessions");
    else if (!post->pinned[0] || strlen(post->pinned) > LIMIT_NAME)
        mcp_refuse(post->http, 400, NULL, MCP_INVALID_REQUEST, NULL,
                   "'session' has to be the name or the id of a session, of 1 to %d bytes",
                   LIMIT_NAME);
    else
        return true;
    return false;
}

static void take_post(struct post *post)
{
    json_t *id = json_object_get(post->message, "id");

    if (json_is_string(id) || json_is_integer(id))
        post->id = id;
    if (!json_is_object(post->message))
        mcp_refuse(post->http, 400, NULL, MCP_INVALID_REQUEST, NULL,
                   json_is_array(post->message)
                       ? "batches are not taken: send one message at a time"
                       : "a message has to be a JSON object");
    else if (mcp_is_modern_post(post->message, post->version))
        post_modern(post);
    else
        post_legacy(post);
}

static void on_post(struct mcp_http *door, struct http_request *http, const struct caller *caller)
{
    CLEANUP(json_decrefp) json_t *message = NULL;
    struct post post = {.door = door, .http = http, .caller = caller};
    char version[MCP_HEADER_MAX], session[MCP_HEADER_MAX];
    struct schema_problem problem = {0};
    const char *text;
    bool is_prepared;
    size_t length;

    post.version = short_header(http, "MCP-Protocol-Version", version);
    post.session = short_header(http, "Mcp-Session-Id", session);
    if (!check_types(&post) || !take_pin(&post))
        return;
    text = http_body(http, &length);
    is_prepared = http_prepared(http);
    message = is_prepared ? front_body_json(http, &problem)
                          : json_parse(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    post.message = message;
    if (message) {
        http_body_drop(http);
        take_post(&post);
    } else if (is_prepared) { /* large: it is not read again for its id */
        mcp_refuse(http, 400, NULL, MCP_PARSE_ERROR, NULL, "%s", problem.err.text);
    } else {
        refuse_text(&post, text, length);
    }
}

/* ---- GET and DELETE ---- */

/* The conversation that the header names; NULL: the request was answered. */
static struct mcp_dialog *named_dialog(struct mcp_http *door, struct http_request *http,
                                       const struct principal *who)
{
    char named[MCP_HEADER_MAX], spoken[MCP_HEADER_MAX];
    const char *session = short_header(http, "Mcp-Session-Id", named);
    const char *version = short_header(http, "MCP-Protocol-Version", spoken);
    struct mcp_dialog *dialog = NULL;

    if (!session || str_equal(http_method(http), "HEAD"))
        mcp_refuse(http, 405, NULL, MCP_INVALID_REQUEST, ALLOW,
                   "%s is only for a conversation (Mcp-Session-Id); send messages by POST",
                   http_method(http));
    else if (version && !mcp_is_legacy(version))
        mcp_refuse(http, 400, NULL, MCP_INVALID_REQUEST, NULL,
                   "the MCP-Protocol-Version '%.40s' has no conversations", version);
    else if (!(dialog = mcp_dialog_find(door, who, session)))
        refuse_unknown(http, NULL);
    return dialog;
}

/* The stream for messages outside of requests: there is one, and the newest reader gets it. */
static void show_unasked(struct mcp_http *door, struct mcp_dialog *dialog,
                         const struct caller *caller, struct http_request *http)
{
    struct mcp_stream *stream;

    for (struct mcp_stream *old = door->streams, *next; old; old = next) {
        next = old->next;
        if (old->dialog == dialog && !old->peer && !old->is_over)
            mcp_stream_free(old);
    }
    stream = mcp_stream_new(door, dialog, caller, NULL);
    if (!stream) {
        mcp_refuse(http, 503, NULL, MCP_INTERNAL, NULL, "out of memory");
        return;
    }
    stream->takes_events = true;
    mcp_stream_show(stream, http, -1);
}

static void resume(struct mcp_http *door, struct mcp_dialog *dialog, struct http_request *http,
                   const char *last)
{
    struct mcp_stream *stream = NULL;
    uint64_t number, event;

    if (mcp_event_id(last, &number, &event))
        stream = mcp_dialog_stream(door, dialog, number);
    if (!stream || event > INT64_MAX || !mcp_stream_has(stream, event))
        mcp_refuse(http, 400, NULL, MCP_INVALID_REQUEST, NULL,
                   "events after '%.60s' are no longer stored", last);
    else
        mcp_stream_show(stream, http, (int64_t)event);
}

static void on_get(struct mcp_http *door, struct http_request *http, const struct caller *caller)
{
    const char *accept = http_header(http, "Accept");
    char number[MCP_HEADER_MAX];
    const char *last = short_header(http, "Last-Event-ID", number);
    struct mcp_dialog *dialog = named_dialog(door, http, &caller->who);

    if (!dialog)
        return;
    if (!accept || !strcasestr(accept, "text/event-stream"))
        mcp_refuse(http, 406, NULL, MCP_INVALID_REQUEST, NULL,
                   "the Accept header has to allow text/event-stream");
    else if (last && last[0])
        resume(door, dialog, http, last);
    else
        show_unasked(door, dialog, caller, http);
}

static void on_delete(struct mcp_http *door, struct http_request *http, const struct caller *caller)
{
    struct mcp_dialog *dialog = named_dialog(door, http, &caller->who);

    if (!dialog)
        return;
    mcp_dialog_end(door, dialog, caller);
    http_reply(http, 204, NULL, NULL, NULL, 0);
}

void mcp_http_handle(struct mcp_http *door, struct http_request *http, const struct caller *caller)
{
    if (str_equal(http_path(http), MCP_PIPE_PATH))
        mcp_pipe_open(door, http, caller);
    else if (str_equal(http_method(http), "POST"))
        on_post(door, http, caller);
    else if (str_equal(http_method(http), "DELETE"))
        on_delete(door, http, caller);
    else
        on_get(door, http, caller);
}

/* ---- the periodic sweep ---- */

void mcp_door_wake(struct mcp_http *door)
{
    door->is_due = true;
    if (!door->is_closing)
        door->spec.reactor->ops->timer_set(door->timer, 0);
}

static void on_due(void *ctx)
{
    struct mcp_http *door = ctx;
    uint64_t now_ms = clock_now_ms(), wait_ms = UINT64_MAX;

    door->is_due = false;
    for (struct mcp_stream *stream = door->streams, *next; stream; stream = next) {
        next = stream->next;
        if (mcp_stream_tick(stream, now_ms) && !stream->is_over)
            wait_ms = LOOK_MS;
    }
    mcp_dialogs_expire(door, now_ms);
    if (door->dialogs)
        wait_ms = MIN(wait_ms, (uint64_t)IDLE_LOOK_MS);
    door->spec.reactor->ops->timer_set(door->timer, door->is_due ? 0 : wait_ms);
}

/* ---- creation and end ---- */

int mcp_http_new(const struct mcp_http_spec *spec, struct mcp_http **ret, struct error *err)
{
    struct mcp_http *door = calloc(1, sizeof(*door));

    if (door) {
        door->spec = *spec;
        door->timer = reactor_timer(spec->reactor, on_due, door);
    }
    if (!door || !door->timer) {
        free(door);
        return error_memory(err);
    }
    *ret = door;
    return 0;
}

size_t mcp_http_sessions(const struct mcp_http *door)
{
    return door->dialog_count;
}

void mcp_http_free(struct mcp_http *door)
{
    if (!door)
        return;
    door->is_closing = true;
    mcp_pipes_free(door);
    while (door->streams)
        mcp_stream_free(door->streams);
    while (door->dialogs)
        mcp_dialog_end(door, door->dialogs, NULL);
    door->spec.reactor->ops->timer_remove(door->timer);
    free(door);
}
