/*
 * call.c - one call to the server, with JSON in its reply; see remote_private.h.
 *
 * A call that may be sent twice is tried again while the server cannot be reached, and uses a
 * connection that was kept; a call that must not be (is_once) is tried once, on its own connection.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "config/config.h"
#include "model/json.h"
#include "runtime/remote/remote_private.h"
#include "runtime/remote/settings.h"

#define PAUSE_FIRST_MS 50
#define PAUSE_MAX_MS 1000

struct remote_call {
    struct target *target;
    remote_done done;
    void *ctx;
    struct http_exchange *exchange;
    struct reactor_timer *timer;
    char method[8];
    char *path, *text; /* text: its JSON; NULL: `body` */
    struct buf body, reply;
    char once[ID_MAX + 24]; /* the header Idempotency-Key; empty: none */
    bool is_once, waits, insists, has_body;
    bool is_too_long; /* the reply */
    uint32_t timeout_ms;
    uint64_t began_ms, pause_ms;
};

static void call_free(struct remote_call *call)
{
    if (call->timer)
        call->target->remote->reactor->ops->timer_remove(call->timer);
    free(call->path);
    free(call->text);
    buf_free(&call->body);
    buf_free(&call->reply);
    free(call);
}

/* ---- errors ---- */

static int unauthorized(const struct target *target, const char *said, struct error *err)
{
    bool has_key = target->remote->key || target->remote->config->url.key_file;

    return error_set(err, -EACCES, ERROR_PROVIDER_UNAVAILABLE,
                     REMOTE_UNAVAILABLE ": %.200s %s (%.300s). %s", target->address,
                     has_key ? "does not accept the key of SANDBOX_URL_KEY" : "requires a key",
                     said[0] ? said : "HTTP status 401",
                     has_key ? "Set SANDBOX_URL_KEY, or the file SANDBOX_URL_KEY_FILE, to a key of "
                               "that server with the scopes run, sessions and files"
                             : "Set SANDBOX_URL_KEY or SANDBOX_URL_KEY_FILE");
}

int remote_refused(const struct target *target, unsigned status, const json_t *json,
                   struct error *err)
{
    const json_t *error = json_object_get(json, "error");
    const char *message =
        json_string_value(json_is_string(error) ? error : json_object_get(error, "message"));
    const char *code =
        json_string_value(json_object_get(json_is_string(error) ? json : error, "code"));
    int r;

    if (status == 401 || status == 403) {
        bool is_key = status == 401 || str_equal(code, "forbidden");

        if (is_key)
            r = unauthorized(target, message ? message : "", err);
        else
            r = error_set(err, -EACCES, error_code_find(code), "%.600s",
                          message ? message
                                  : "the server of SANDBOX_URL answered with HTTP status "
                                    "403");
    } else if (message && code) {
        r = error_set(err, status == 404 ? -ENOENT : -EREMOTEIO, error_code_find(code), "%.800s",
                      message);
    } else {
        r = error_set(err, status == 404 ? -ENOENT : -EPROTO, ERROR_ENGINE,
                      "%.200s answered with HTTP status %u%s%.300s", target->address, status,
                      message ? ": " : "", message ? message : "");
    }
    if (err && err->code == ERROR_PROVIDER_UNAVAILABLE)
        err->provider = "url";
    return r;
}

int remote_unreachable(const struct target *target, const struct error *why, struct error *err)
{
    const char *remedy = "Start it, or correct SANDBOX_URL";

    switch (why->num) {
    case -EKEYREJECTED:
        remedy = "Set SANDBOX_URL_CA_FILE to the certificate of the authority that signed the "
                 "server's";
        break;
    case -EREMCHG:
        remedy = "The host in SANDBOX_URL must be in the subjectAltName of the server's "
                 "certificate";
        break;
    case -EPROTOTYPE:
        remedy = "Write http:// for https:// in SANDBOX_URL, or switch TLS on there";
        break;
    default:
        break;
    }
    error_set(err, why->num, ERROR_PROVIDER_UNAVAILABLE, REMOTE_UNAVAILABLE ": %.200s: %.400s. %s",
              target->address, why->text, remedy);
    if (err)
        err->provider = "url";
    return why->num;
}

static void too_long(const struct remote_call *call, struct error *err)
{
    error_set(err, -EFBIG, ERROR_PROVIDER_UNAVAILABLE,
              REMOTE_UNAVAILABLE ": %.200s answered to %s %.200s with more than %zu bytes",
              call->target->address, call->method, call->path, call->reply.maximum);
    err->provider = "url";
}

/* ---- the exchange ---- */

static void attempt(struct remote_call *call);

static void on_pause_over(void *ctx)
{
    attempt(ctx);
}

/* Whether it will be tried again: then nothing is said yet. */
static bool try_again(struct remote_call *call)
{
    uint64_t now_ms = clock_now_ms();

    if (!call->waits || call->is_once || now_ms - call->began_ms >= REMOTE_PATIENCE_MS)
        return false;
    call->pause_ms =
        call->pause_ms ? MIN(2 * call->pause_ms, (uint64_t)PAUSE_MAX_MS) : (uint64_t)PAUSE_FIRST_MS;
    if (!call->timer)
        call->timer = reactor_timer(call->target->remote->reactor, on_pause_over, call);
    if (!call->timer)
        return false;
    call->target->remote->reactor->ops->timer_set(call->timer, call->pause_ms);
    return true;
}

static bool is_worth_trying(const struct error *err)
{
    return err->num == -ECONNREFUSED || err->num == -ECONNRESET || err->num == -ETIMEDOUT ||
           err->num == -EHOSTUNREACH || err->num == -EPIPE || err->num == -EIO;
}

static void finish(struct remote_call *call, const struct remote_reply *reply)
{
    remote_done done = call->done;
    void *ctx = call->ctx;

    call_free(call);
    done(ctx, reply);
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct remote_call *call = ctx;
    struct target *target = call->target;
    struct remote_reply reply = {.status = err->num == 0 ? status : 0};
    CLEANUP(json_decrefp) json_t *json = NULL;

    call->exchange = NULL;
    if (err->num < 0) {
        if (is_worth_trying(err) && try_again(call))
            return;
        if (call->is_too_long)
            too_long(call, &reply.err);
        else
            remote_unreachable(target, err, &reply.err);
        finish(call, &reply);
        return;
    }
    if (status == 401 && remote_target_renew_key(target->remote)) {
        attempt(call);
        return;
    }
    if (call->insists && (status == 429 || status >= 500) && try_again(call))
        return;
    if (call->reply.length > 0)
        json = json_parse(buf_text(&call->reply), call->reply.length, JSON_ALLOW_NUL, NULL);
    reply.json = json;
    if (status >= 300) {
        const json_t *error = json_object_get(json, "error");

        remote_refused(target, status, json, &reply.err);
        reply.field = json_string_value(json_object_get(error, "field"));
        if (status == 409 && reply.err.code == ERROR_KEY_RUNNING && try_again(call))
            return;
    }
    finish(call, &reply);
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct remote_call *call = ctx;
    int r = buf_append(&call->reply, data, length);

    call->is_too_long = r == -EFBIG;
    return r;
}

static void fail_later(void *ctx)
{
    struct remote_call *call = ctx;
    struct remote_reply reply = {0};

    error_memory(&reply.err);
    finish(call, &reply);
}

static void attempt(struct remote_call *call)
{
    static const struct http_call_events events = {.data = on_data, .done = on_done};
    const char *headers[] = {"Content-Type: application/json", NULL, NULL};
    struct http_call http = {.method = call->method,
                             .path = call->path,
                             .headers = headers,
                             .body_total = -1,
                             .timeout_ms = call->timeout_ms,
                             .may_repeat = !call->is_once};
    struct error err = {0};

    buf_clear(&call->reply);
    if (call->text) {
        http.body = call->text;
        http.body_length = strlen(call->text);
    } else if (call->has_body) {
        http.body = buf_text(&call->body);
        http.body_length = call->body.length;
        headers[0] = "Content-Type: application/octet-stream";
    }
    if (call->once[0])
        headers[1] = call->once;
    if (http_call_start(call->target->client, &http, &events, call, &call->exchange, &err) == 0)
        return;
    call->exchange = NULL;
    if (call->timer)
        call->target->remote->reactor->ops->timer_remove(call->timer);
    call->timer = reactor_timer(call->target->remote->reactor, fail_later, call);
    if (call->timer)
        call->target->remote->reactor->ops->timer_set(call->timer, 0);
}

static int fill(struct remote_call *call, const struct remote_request *request)
{
    char id[ID_MAX];

    if (!str_copy(call->method, sizeof(call->method), request->method) ||
        !(call->path = strdup(request->path)))
        return -ENOMEM;
    if (request->json && !(call->text = json_dumps(request->json, JSON_COMPACT)))
        return -ENOMEM;
    if (!request->json && str_equal(request->method, "POST") && !request->body)
        call->has_body = true; /* an empty one */
    if (request->body) {
        call->has_body = true;
        if (buf_append(&call->body, request->body, request->length) < 0)
            return -ENOMEM;
    }
    /* A POST is told apart from its repetition by a key. */
    if (str_equal(request->method, "POST") && !request->is_once) {
        if (id_make(id, "i") < 0)
            return -EIO;
        str_format(call->once, sizeof(call->once), "Idempotency-Key: %s", id);
    }
    return 0;
}

struct remote_call *remote_call_start(struct target *target, const struct remote_request *request,
                                      remote_done done, void *ctx)
{
    struct remote_call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    *call = (struct remote_call){
        .target = target,
        .done = done,
        .ctx = ctx,
        .body = BUF_INIT(LIMIT_MEMORY_MAX),
        .reply = BUF_INIT(request->reply_max ? request->reply_max : (size_t)REMOTE_REPLY_MAX),
        .is_once = request->is_once,
        .waits = request->waits,
        .insists = request->insists,
        .timeout_ms = request->timeout_ms ? request->timeout_ms : REMOTE_PATIENCE_MS,
        .began_ms = clock_now_ms()};
    if (fill(call, request) < 0) {
        call_free(call);
        return NULL;
    }
    attempt(call);
    return call;
}

void remote_call_cancel(struct remote_call *call)
{
    if (!call)
        return;
    if (call->exchange)
        http_call_cancel(call->exchange);
    call_free(call);
}
