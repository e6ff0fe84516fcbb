/* mcp_rest.c - calls to the daemon beside each other; see mcp_rest.h. */
#include "cli/client/mcp_rest.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/daemon.h"
#include "model/text.h"

#define RETRY_MS 100

struct rest_call {
    struct rest_call *next;
    struct rest *rest;
    const char *method; /* static */
    char *path;
    struct buf body, reply;
    bool may_repeat, is_too_large;
    struct http_exchange *exchange; /* NULL: waits for its next attempt */
    uint64_t retry_ms, give_up_ms;  /* give_up_ms: set by the first failure */
    void (*done)(void *ctx, const struct rest_reply *reply);
    void *ctx;
};

static void call_free(struct rest_call *call)
{
    struct rest_call **at = &call->rest->calls;

    while (*at && *at != call)
        at = &(*at)->next;
    if (*at)
        *at = call->next;
    free(call->path);
    buf_free(&call->body);
    buf_free(&call->reply);
    free(call);
}

/* The last word about a call: it is gone before anybody hears it. */
static void call_finish(struct rest_call *call, unsigned status, const struct error *err)
{
    CLEANUP(buf_free) struct buf body = call->reply;
    struct rest_reply reply = {.status = status,
                               .body = buf_text(&body),
                               .length = body.length,
                               .is_too_large = call->is_too_large,
                               .err = err};
    void (*done)(void *ctx, const struct rest_reply *reply) = call->done;
    void *ctx = call->ctx;

    call->reply = (struct buf){0};
    call_free(call);
    done(ctx, &reply);
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct rest_call *call = ctx;
    int r = buf_append(&call->reply, data, length);

    call->is_too_large |= r == -EFBIG;
    return r;
}

/* Nobody was reached, so nothing was begun; or it does not matter that it was. */
static bool may_try_again(const struct rest_call *call, int failure)
{
    return call->may_repeat || failure == -ECONNREFUSED || failure == -ENOENT;
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct rest_call *call = ctx;
    uint64_t now_ms = clock_now_ms();

    call->exchange = NULL;
    if (call->give_up_ms == 0)
        call->give_up_ms = now_ms + RECONNECT_PATIENCE_MS;
    if (err->num == 0 || call->is_too_large) {
        call_finish(call, status, NULL);
        return;
    }
    if (!may_try_again(call, err->num) || now_ms > call->give_up_ms) {
        call_finish(call, 0, err);
        return;
    }
    buf_clear(&call->reply);
    call->retry_ms = now_ms + RETRY_MS;
}

static int call_send(struct rest_call *call, struct error *err)
{
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    static const struct http_call_events events = {.data = on_data, .done = on_done};
    const struct http_call request = {
        .method = call->method,
        .path = call->path,
        .headers = call->body.length > 0 ? headers : NULL,
        .body = call->body.length > 0 ? call->body.data : NULL,
        .body_length = call->body.length,
        .body_total = -1,
    };

    return http_call_start(call->rest->client.http, &request, &events, call, &call->exchange, err);
}

/* Somebody listens, also when a daemon has to be started for that. */
static int reach(struct rest *rest, struct error *err)
{
    int r = daemon_reach(&rest->client.paths, rest->config_file, true, err);

    if (r == 0 && !rest->client.http)
        r = http_client_open(rest->client.paths.socket, &rest->client.http, err);
    return r;
}

int mcp_rest_start(struct rest *rest, const struct rest_spec *spec, struct rest_call **ret,
                   struct error *err)
{
    struct rest_call *call;
    int r = 0;

    if (!rest->client.http)
        r = reach(rest, err);
    if (r < 0)
        return r;
    call = calloc(1, sizeof(*call));
    if (!call || !(call->path = strdup(spec->path))) {
        free(call);
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    }
    call->rest = rest;
    call->method = spec->method;
    call->body = BUF_INIT(LIMIT_REQUEST_JSON);
    call->reply = BUF_INIT(spec->maximum);
    call->may_repeat = spec->may_repeat;
    call->done = spec->done;
    call->ctx = spec->ctx;
    call->next = rest->calls;
    rest->calls = call;
    if (spec->body && (r = text_of_json(spec->body, JSON_COMPACT, &call->body)) < 0)
        error_set(err, r, ERROR_TOO_LARGE, "the arguments are larger than %llu MB",
                  LIMIT_REQUEST_JSON / MIB);
    if (r == 0)
        r = call_send(call, err);
    if (r < 0) {
        call_free(call);
        return r;
    }
    if (ret)
        *ret = call;
    return 0;
}

void rest_cancel(struct rest_call *call)
{
    if (!call)
        return;
    if (call->exchange)
        http_call_cancel(call->exchange);
    call_free(call);
}

/* Makes the attempts that are due; returns when the next one is. */
static uint64_t retry(struct rest *rest)
{
    uint64_t now_ms = clock_now_ms(), next_ms = UINT64_MAX;
    struct rest_call *call = rest->calls;

    while (call) {
        struct rest_call *next = call->next;
        struct error err = {0};

        if (!call->exchange && call->retry_ms <= now_ms) {
            /* A broker comes back by itself; a daemon that ended is started again. */
            if ((!client_is_alive(&rest->client) && reach(rest, &err) < 0) ||
                call_send(call, &err) < 0) {
                call_finish(call, 0, &err);
                return now_ms; /* done() may have changed the list */
            }
        } else if (!call->exchange) {
            next_ms = MIN(next_ms, call->retry_ms);
        }
        call = next;
    }
    return next_ms;
}

void rest_wait(struct rest *rest, struct pollfd *fds, size_t fd_count, uint64_t until_ms)
{
    uint64_t wake_ms = MIN(until_ms, retry(rest)), now_ms = clock_now_ms();
    int timeout_ms = -1;

    if (wake_ms != UINT64_MAX)
        timeout_ms = wake_ms > now_ms ? (int)MIN(wake_ms - now_ms, (uint64_t)60000) : 0;
    for (size_t i = 0; i < fd_count; i++)
        fds[i].revents = 0;
    if (rest->client.http)
        http_client_wait(rest->client.http, fds, fd_count, timeout_ms);
    else
        poll(fds, fd_count, timeout_ms);
}

void rest_close(struct rest *rest)
{
    while (rest->calls)
        rest_cancel(rest->calls);
    client_close(&rest->client);
}
