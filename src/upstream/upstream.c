/* upstream.c - the process that speaks to the model server; see upstream.h. */
#include "upstream/upstream.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "http/client.h"
#include "http/sse.h"
#include "launcher/launcher.h"
#include "model/text.h"
#include "sys/packet.h"
#include "upstream/channel.h"

#define PATH_MAX_BYTES 1024

struct request {
    struct request *next;
    struct upstream *upstream;
    uint32_t number;
    struct buf body;
    struct http_exchange *exchange; /* NULL: none under way */
    struct reactor_timer *timer;    /* the first byte, or the next try */
    uint64_t first_by_ms;
    unsigned tries;
    unsigned status;
    bool has_begun;  /* with success */
    bool is_events;  /* the answer is a stream of events */
    bool has_data;   /* of the answer */
    bool is_marked;  /* [DONE] was read */
    bool is_waiting; /* for the next try */
    bool is_paused;  /* by the broker */
    struct sse_reader reader;
    struct buf text; /* of an answer that is no stream, or of an error */
};

struct upstream {
    struct reactor *reactor;
    struct upstream_spec spec;
    struct reactor_watch *rendezvous;
    struct upstream_channel *channel;
    struct http_client *client;
    struct request *requests;
    unsigned count;
    bool is_full; /* the broker does not read: nothing is read from the model server */
    char path[PATH_MAX_BYTES];
    char *key;
};

int upstream_split(const char *url, char *ret_place, size_t place_size, char *ret_path,
                   size_t path_size)
{
    const char *host = strstr(url, "://");
    const char *slash = host ? strchr(host + 3, '/') : NULL;
    size_t length = strlen(url);

    if (!host)
        return -EINVAL;
    while (slash && length > 0 && url + length - 1 >= slash && url[length - 1] == '/')
        length--;
    if (!slash || slash >= url + length) {
        ret_path[0] = '\0';
        return str_format(ret_place, place_size, "%.*s", (int)(slash ? slash - url : (long)length),
                          url) < 0
                   ? -EINVAL
                   : 0;
    }
    if (str_format(ret_place, place_size, "%.*s", (int)(slash - url), url) < 0 ||
        str_format(ret_path, path_size, "%.*s", (int)(url + length - slash), slash) < 0)
        return -EINVAL;
    return 0;
}

uint64_t upstream_retry_ms(const char *header)
{
    uint64_t ms = 0;

    /* "2", and "0.5" where a server means it so */
    if (!header || header[strspn(header, "0123456789.")] || str_to_millis(header, &ms) < 0)
        return 0;
    return ms;
}

/* ---- the end of a request ---- */

static void request_free(struct request *request)
{
    struct upstream *upstream = request->upstream;

    LIST_UNLINK(upstream->requests, request);
    upstream->count--;
    if (request->exchange)
        http_call_cancel(request->exchange);
    upstream->reactor->ops->timer_remove(request->timer);
    buf_free(&request->body);
    buf_free(&request->text);
    sse_reader_free(&request->reader);
    free(request);
}

/* A server that quotes the key in its errors does not tell it to clients. */
static void hide_key(const struct upstream *upstream, char *text)
{
    size_t length = upstream->key ? strlen(upstream->key) : 0;

    for (char *at = text; length >= 4 && (at = strstr(at, upstream->key)); at += length)
        memset(at, '*', length);
}

static void fail(struct request *request, unsigned status, const char *text)
{
    struct upstream *upstream = request->upstream;
    CLEANUP(buf_free) struct buf reply = BUF_INIT(LIMIT_UPSTREAM_ERROR * 8);
    CLEANUP(freep) char *copy = strdup(text);
    json_t *json;

    if (copy)
        hide_key(upstream, copy);
    json = json_pack("{s:i, s:o*, s:i}", "status", (int)status, "message",
                     copy ? text_to_json(copy, strlen(copy)) : NULL, "tries", (int)request->tries);
    if (json && text_of_json(json, JSON_COMPACT, &reply) == 0 && reply.length <= CHANNEL_DATA_MAX)
        upstream_channel_send(upstream->channel, CHANNEL_FAILED, CHANNEL_FAILED, request->number,
                              buf_text(&reply), reply.length);
    else
        upstream_channel_send(upstream->channel, CHANNEL_FAILED, CHANNEL_FAILED, request->number,
                              "{}", 2);
    json_decref(json);
    request_free(request);
}

/* ---- an answer ---- */

static void look_full(struct upstream *upstream)
{
    bool is_full =
        upstream->channel && upstream_channel_waiting(upstream->channel) > LIMIT_UPSTREAM_WAITING;

    if (is_full == upstream->is_full)
        return;
    upstream->is_full = is_full;
    for (struct request *request = upstream->requests; request; request = request->next)
        if (request->exchange)
            http_call_pause(request->exchange, is_full || request->is_paused);
}

static void on_event(void *ctx, const char *id, const char *event, const char *data, size_t length)
{
    struct request *request = ctx;

    (void)id;
    (void)event;
    if (request->is_marked)
        return;
    if (length == strlen("[DONE]") && memcmp(data, "[DONE]", length) == 0) {
        request->is_marked = true;
        return;
    }
    upstream_channel_send(request->upstream->channel, CHANNEL_EVENT, CHANNEL_PART, request->number,
                          data, length);
}

static void on_status(void *ctx, unsigned status)
{
    struct request *request = ctx;
    const char *type = http_call_header(request->exchange, "Content-Type");

    request->status = status;
    if (status < 200 || status > 299)
        return;
    request->has_begun = true;
    request->is_events =
        type && strncasecmp(type, "text/event-stream", strlen("text/event-stream")) == 0;
    request->upstream->reactor->ops->timer_set(request->timer, UINT64_MAX);
    upstream_channel_send(request->upstream->channel, CHANNEL_BEGUN, CHANNEL_BEGUN, request->number,
                          NULL, 0);
}

/* Some servers send events under another type, or without one: JSON never begins like this. */
static bool looks_like_events(const char *data, size_t length)
{
    while (length > 0 && (*data == '\n' || *data == '\r')) {
        data++;
        length--;
    }
    return length > 0 && (*data == ':' || *data == 'd' || *data == 'e');
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct request *request = ctx;
    int r;

    if (request->has_begun && !request->has_data && length > 0) {
        request->has_data = true;
        request->is_events |= looks_like_events(data, length);
    }

    if (!request->has_begun) { /* an error: as much of it as is wanted */
        size_t left = LIMIT_UPSTREAM_ERROR - request->text.length;

        buf_append(&request->text, data, MIN(left, length));
        return 0;
    }
    r = request->is_events ? sse_read(&request->reader, data, length, on_event, request)
                           : buf_append(&request->text, data, length);
    look_full(request->upstream);
    return r;
}

/* The message in {"error":{"message"}}, {"error":"..."}, {"message"} or {"detail"}; or the text. */
static void error_text(struct request *request, char *text, size_t size)
{
    json_t *json = json_loadb(buf_text(&request->text), request->text.length, 0, NULL);
    json_t *error = json_object_get(json, "error");
    const char *said = json_string_value(json_object_get(error, "message"));

    said = said ? said : json_string_value(error);
    said = said ? said : json_string_value(json_object_get(json, "message"));
    said = said ? said : json_string_value(json_object_get(json, "detail"));
    if (!said && !json)
        said = buf_text(&request->text);
    str_format(text, size, "the model server answered with status %u%s%.2000s", request->status,
               said && said[0] ? ": " : "", said ? said : "");
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
    json_decref(json);
}

/* ---- tries ---- */

static void start_try(struct request *request);

static bool may_repeat(unsigned status)
{
    return status == 0 || status == 408 || status == 409 || status == 429 || status >= 500;
}

/* The answer was an error, or there was none. */
static void try_failed(struct request *request, const char *text, uint64_t retry_ms)
{
    uint64_t now = clock_now_ms();
    uint64_t left = request->first_by_ms > now ? request->first_by_ms - now : 0;
    uint64_t pause = retry_ms ? retry_ms : (uint64_t)UPSTREAM_PAUSE_MS << (request->tries - 1);
    char said[2400];

    if (may_repeat(request->status) && request->tries < UPSTREAM_TRIES && pause < left) {
        request->is_waiting = true;
        request->upstream->reactor->ops->timer_set(request->timer, pause);
        return;
    }
    str_format(said, sizeof(said), "%s%s", text,
               request->tries > 1 ? " (it was tried several times)" : "");
    fail(request, request->status, said);
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct request *request = ctx;
    uint64_t retry_ms = upstream_retry_ms(http_call_header(request->exchange, "Retry-After"));
    char text[2300];

    (void)status;
    request->exchange = NULL;
    if (!request->has_begun) {
        if (request->status)
            error_text(request, text, sizeof(text));
        else
            str_format(text, sizeof(text), "the model server cannot be reached: %.1000s",
                       err->text);
        try_failed(request, text, retry_ms);
        return;
    }
    if (err->num < 0 && !request->is_marked) {
        str_format(text, sizeof(text), "the answer of the model server broke off: %.1000s",
                   err->text);
        fail(request, request->status, text);
        return;
    }
    if (!request->is_events)
        upstream_channel_send(request->upstream->channel, CHANNEL_EVENT, CHANNEL_PART,
                              request->number, buf_text(&request->text), request->text.length);
    upstream_channel_send(request->upstream->channel, CHANNEL_DONE, CHANNEL_DONE, request->number,
                          request->is_marked || !request->is_events ? "1" : "0", 1);
    request_free(request);
}

static void on_time(void *ctx)
{
    struct request *request = ctx;

    if (request->is_waiting) {
        request->is_waiting = false;
        start_try(request);
    } else if (!request->has_begun) {
        fail(request, 0, "the model server did not answer in time");
    }
}

static void start_try(struct request *request)
{
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Accept: text/event-stream, application/json", NULL};
    static const struct http_call_events events = {
        .status = on_status, .data = on_data, .done = on_done};
    struct upstream *upstream = request->upstream;
    struct http_call call = {
        .method = "POST",
        .path = upstream->path,
        .headers = headers,
        .body = buf_text(&request->body),
        .body_length = request->body.length,
        .timeout_ms = (uint32_t)MIN(upstream->spec.timeout_ms, (uint64_t)UINT32_MAX / 2),
        .may_repeat = true,
    };
    uint64_t now = clock_now_ms();
    struct error err = {0};

    request->tries++;
    request->status = 0;
    buf_clear(&request->text);
    upstream->reactor->ops->timer_set(request->timer,
                                      request->first_by_ms > now ? request->first_by_ms - now : 0);
    if (http_call_start(upstream->client, &call, &events, request, &request->exchange, &err) < 0) {
        request->exchange = NULL;
        fail(request, 0, err.text);
        return;
    }
    http_call_pause(request->exchange, upstream->is_full || request->is_paused);
}

/* ---- the broker ---- */

static struct request *find(struct upstream *upstream, uint32_t number)
{
    for (struct request *request = upstream->requests; request; request = request->next)
        if (request->number == number)
            return request;
    return NULL;
}

static struct request *request_new(struct upstream *upstream, uint32_t number)
{
    struct request *request =
        upstream->count < LIMIT_UPSTREAM_CALLS ? calloc(1, sizeof(*request)) : NULL;

    if (!request)
        return NULL;
    *request = (struct request){.upstream = upstream,
                                .number = number,
                                .body = BUF_INIT(LIMIT_AGENT_HISTORY + MIB),
                                .text = BUF_INIT(LIMIT_UPSTREAM_EVENT),
                                .reader = SSE_READER_INIT(LIMIT_UPSTREAM_EVENT)};
    request->timer = reactor_timer(upstream->reactor, on_time, request);
    if (!request->timer) {
        free(request);
        return NULL;
    }
    request->next = upstream->requests;
    upstream->requests = request;
    upstream->count++;
    return request;
}

static void leave(struct upstream *upstream, int status)
{
    upstream->spec.left(upstream->spec.ctx, status);
}

static void go(struct request *request)
{
    request->first_by_ms =
        clock_now_ms() + MIN((uint64_t)UPSTREAM_FIRST_MS, request->upstream->spec.timeout_ms);
    start_try(request);
}

static void on_message(void *ctx, const struct upstream_message *message)
{
    struct upstream *upstream = ctx;
    struct request *request = find(upstream, message->call);
    static const char refused[] = "{\"status\":0,\"message\":\"too many calls of the model server "
                                  "at once\"}";

    switch (message->type) {
    case CHANNEL_HELLO:
        if (message->length != 1 || ((const char *)message->data)[0] != '0' + CHANNEL_VERSION)
            leave(upstream, HOST_STATUS_OUTDATED); /* of another version: the installed one */
        return;
    case CHANNEL_BODY:
        request = request ? request : request_new(upstream, message->call);
        if (request && buf_append(&request->body, message->data, message->length) < 0)
            fail(request, 0, "the request for the model server is too large");
        return;
    case CHANNEL_GO:
        if (request && request->tries == 0)
            go(request);
        else if (!request)
            upstream_channel_send(upstream->channel, CHANNEL_FAILED, CHANNEL_FAILED, message->call,
                                  refused, strlen(refused));
        return;
    case CHANNEL_CANCEL:
        if (request)
            request_free(request);
        return;
    case CHANNEL_PAUSE:
    case CHANNEL_RESUME:
        if (request)
            request->is_paused = message->type == CHANNEL_PAUSE;
        if (request && request->exchange)
            http_call_pause(request->exchange, upstream->is_full || request->is_paused);
        return;
    default:
        return;
    }
}

static void drop_channel(struct upstream *upstream)
{
    while (upstream->requests)
        request_free(upstream->requests);
    upstream_channel_close(upstream->channel);
    upstream->channel = NULL;
    upstream->is_full = false;
}

static void on_closed(void *ctx)
{
    drop_channel(ctx); /* the next broker gets another one */
}

static void on_drained(void *ctx)
{
    look_full(ctx);
}

static void on_rendezvous(void *ctx, short events)
{
    static const struct upstream_events channel_events = {
        .message = on_message, .drained = on_drained, .closed = on_closed};
    struct upstream *upstream = ctx;
    int fd = -1;
    char word;
    ssize_t length;

    (void)events;
    while ((length = packet_take(upstream->spec.rendezvous_fd, &word, 1, &fd)) > 0) {
        if (fd < 0)
            continue;
        drop_channel(upstream);
        upstream->channel =
            upstream_channel_open(upstream->reactor, fd, false, &channel_events, upstream);
        fd = -1;
    }
    if (length < 0)
        leave(upstream, 0);
}

/* ---- life ---- */

int upstream_open(struct reactor *reactor, const struct upstream_spec *spec, struct upstream **ret,
                  struct error *err)
{
    struct upstream *upstream = calloc(1, sizeof(*upstream));
    char place[PATH_MAX_BYTES], path[PATH_MAX_BYTES - 32];
    struct http_place at = {.address = place, .key = spec->key, .reactor = reactor};
    int r;

    if (!upstream)
        return error_memory(err);
    *upstream = (struct upstream){.reactor = reactor, .spec = *spec};
    r = upstream_split(spec->url, place, sizeof(place), path, sizeof(path));
    if (r < 0)
        error_set(err, r, ERROR_BAD_CONFIG, UPSTREAM_ENV_URL ": '%.200s' is not an address",
                  spec->url);
    else
        str_format(upstream->path, sizeof(upstream->path), "%s/chat/completions", path);
    if (r == 0 && spec->key && !(upstream->key = strdup(spec->key)))
        r = error_memory(err);
    if (r == 0)
        r = http_client_open_at(&at, &upstream->client, err);
    if (r == 0)
        r = fd_set_nonblocking(spec->rendezvous_fd, true);
    if (r == 0) {
        upstream->rendezvous =
            reactor_watch(reactor, spec->rendezvous_fd, POLLIN, on_rendezvous, upstream);
        r = upstream->rendezvous ? 0 : error_memory(err);
    }
    if (r < 0) {
        upstream_close(upstream);
        return r;
    }
    *ret = upstream;
    return 0;
}

void upstream_close(struct upstream *upstream)
{
    if (!upstream)
        return;
    drop_channel(upstream);
    http_client_close(upstream->client);
    upstream->reactor->ops->watch_remove(upstream->rendezvous);
    if (upstream->key)
        explicit_bzero(upstream->key, strlen(upstream->key));
    free(upstream->key);
    free(upstream);
}
