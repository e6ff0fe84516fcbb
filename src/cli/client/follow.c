/*
 * follow.c - reads the events of an execution, without loss over broken connections; see follow.h.
 */
#include "cli/client/follow.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "model/text.h"

#define EVENT_MAX LIMIT_REPLY_JSON /* the last event contains the whole result */
#define RETRY_MS 50

void follow_init(struct follow *follow, struct client *client, const struct follow_events *events,
                 void *ctx)
{
    *follow = (struct follow){
        .client = client,
        .events = events,
        .ctx = ctx,
        .exec_path = {.maximum = 64 * KIB},
        .path = {.maximum = 64 * KIB},
        .reader = SSE_READER_INIT(EVENT_MAX),
        .body = {.maximum = LIMIT_REQUEST_JSON},
        .reply = {.maximum = MIB},
    };
}

void follow_free(struct follow *follow)
{
    if (follow->exchange)
        http_call_cancel(follow->exchange);
    buf_free(&follow->exec_path);
    buf_free(&follow->path);
    buf_free(&follow->body);
    buf_free(&follow->reply);
    sse_reader_free(&follow->reader);
    json_decref(follow->result);
    *follow = (struct follow){0};
}

/* ---- events ---- */

static void fail(struct follow *follow, int num, const char *code, const char *text)
{
    if (!follow->err.code)
        error_set(&follow->err, num, code, "%s", text);
}

/* "s_ab12.3" is execution 3 of session s_ab12. */
static void take_name(struct follow *follow, const char *id)
{
    const char *dot = strrchr(id, '.');
    char session[128];

    if (follow->path.length > 0)
        return;
    if (!dot || str_format(session, sizeof(session), "%.*s", (int)(dot - id), id) < 0)
        fail(follow, -EPROTO, ERROR_ENGINE, "the daemon named no execution");
    else if (client_session_path(&follow->path, session, "/processes/", &follow->err) < 0 ||
             http_encode(&follow->path, dot + 1) < 0)
        fail(follow, -ENOMEM, ERROR_ENGINE, "out of memory");
}

static void take_started(struct follow *follow, json_t *process)
{
    take_name(follow, member_text(process, "execution_id"));
    if (!follow->has_started && follow->events->started)
        follow->events->started(follow->ctx, process);
    follow->has_started = true;
}

/* Passes on the new part of a piece: after a reconnection its beginning may be known already. */
static void take_piece(struct follow *follow, int stream, uint64_t offset, const char *data,
                       size_t length)
{
    uint64_t *at = &follow->at[stream - 1];
    uint64_t known;
    int result;

    if (offset > *at) {
        follow->missed[stream - 1] += offset - *at;
        *at = offset;
    }
    known = *at - offset;
    if (known >= length)
        return;
    result = follow->events->output(follow->ctx, stream, data + known, length - known);
    *at += length - known;
    if (result < 0)
        fail(follow, result, ERROR_CANCELLED, "the reader of the output has gone");
}

static void take_output(struct follow *follow, int stream, json_t *json)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(EVENT_MAX);
    json_t *data = json_object_get(json, "data"), *offset = json_object_get(json, "offset");
    const char *text = json_string_value(data);
    size_t length = json_string_length(data);

    if (!text || !json_is_integer(offset) || json_integer_value(offset) < 0) {
        fail(follow, -EPROTO, ERROR_ENGINE, "the daemon sent an event that is not one");
        return;
    }
    if (str_equal(member_text(json, "encoding"), "base64")) {
        if (base64_decode(text, length, &bytes) < 0) {
            fail(follow, -EPROTO, ERROR_ENGINE, "the daemon sent bytes that are not base64");
            return;
        }
        text = buf_text(&bytes);
        length = bytes.length;
    }
    take_piece(follow, stream, (uint64_t)json_integer_value(offset), text, length);
}

static bool is_value(const char *event)
{
    return str_equal(event, "result") || str_equal(event, "display") || str_equal(event, "error") ||
           str_equal(event, "install");
}

static void take_event(void *ctx, const char *id, const char *event, const char *data,
                       size_t length)
{
    struct follow *follow = ctx;
    CLEANUP(json_freep) json_t *json = json_loadb(data, length, JSON_ALLOW_NUL, NULL);

    if (follow->err.code || follow->result || !event)
        return;
    if (!json) {
        fail(follow, -EPROTO, ERROR_ENGINE, "the daemon sent an event that is not JSON");
        return;
    }
    if (str_equal(event, "started"))
        take_started(follow, json);
    else if (str_equal(event, "stdout"))
        take_output(follow, 1, json);
    else if (str_equal(event, "stderr"))
        take_output(follow, 2, json);
    else if (str_equal(event, "exit"))
        follow->result = json_incref(json);
    else if (str_equal(event, "error") && json_object_get(json, "error"))
        client_api_error(500, data, length, &follow->err);
    else if (is_value(event) && follow->events->value)
        follow->events->value(follow->ctx, event, json);
    if (id && id[0])
        str_copy(follow->last_id, sizeof(follow->last_id), id);
}

/* ---- the connection ---- */

static int post_exec(struct follow *follow, struct error *err);

static void start_reading(struct follow *follow)
{
    sse_reader_free(&follow->reader);
    follow->reader = SSE_READER_INIT(EVENT_MAX);
    follow->has_replied = false;
    follow->status = 0;
    buf_clear(&follow->reply);
}

static void on_status(void *ctx, unsigned status)
{
    struct follow *follow = ctx;

    const char *name = http_call_header(follow->exchange, "Bailey-Execution");

    follow->status = status;
    follow->has_replied = true;
    if (name && status < 400)
        take_name(follow, name);
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct follow *follow = ctx;
    int result;

    if (follow->status >= 400)
        return buf_append(&follow->reply, data, length) == -ENOMEM ? -ENOMEM : 0;
    result = sse_read(&follow->reader, data, length, take_event, follow);
    if (result < 0)
        fail(follow, result, ERROR_ENGINE, "the daemon sent an event that is too large");
    return follow->err.code ? -ECANCELED : 0;
}

/* The broker or the daemon is gone: events continue over a new connection, or never. */
static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct follow *follow = ctx;

    follow->exchange = NULL;
    if (follow->result || follow->err.code)
        return;
    if (follow->has_replied && status >= 400) {
        client_api_error(status, buf_text(&follow->reply), follow->reply.length, &follow->err);
        if (follow->err.code != ERROR_EXECUTION_NOT_FOUND || follow->has_started ||
            follow->exec_path.length == 0)
            return;
        /* The broker ended before it had started the command, and the next one does not know it. */
        follow->err = (struct error){0};
        buf_clear(&follow->path);
        post_exec(follow, &follow->err);
        return;
    }
    if (follow->path.length == 0) {
        follow->err = *err;
        if (!err->code)
            error_set(&follow->err, -EPROTO, ERROR_ENGINE, "the daemon hung up");
        error_prefix(&follow->err, "the connection to the daemon was lost before the command got a "
                                   "number ('bailey ps' shows whether it runs)");
        return;
    }
    if (follow->lost_ms == 0)
        follow->lost_ms = clock_now_ms();
    follow->retry_at_ms = clock_now_ms() + RETRY_MS;
}

static const struct http_call_events call_events = {
    .status = on_status, .data = on_data, .done = on_done};

static int post_exec(struct follow *follow, struct error *err)
{
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Accept: text/event-stream", NULL};

    start_reading(follow);
    return http_call_start(follow->client->http,
                           &(struct http_call){.method = "POST",
                                               .path = buf_text(&follow->exec_path),
                                               .headers = headers,
                                               .body = buf_text(&follow->body),
                                               .body_length = follow->body.length,
                                               .body_total = -1},
                           &call_events, follow, &follow->exchange, err);
}

static int open_events(struct follow *follow)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    char last[128];
    const char *headers[3] = {"Accept: text/event-stream"};

    if (buf_printf(&path, "%s/events", buf_text(&follow->path)) < 0)
        return error_memory(&follow->err);
    if (follow->last_id[0]) {
        str_format(last, sizeof(last), "Last-Event-ID: %s", follow->last_id);
        headers[1] = last;
    }
    start_reading(follow);
    return http_call_start(
        follow->client->http,
        &(struct http_call){
            .method = "GET", .path = buf_text(&path), .headers = headers, .body_total = -1},
        &call_events, follow, &follow->exchange, &follow->err);
}

static int post(struct follow *follow, const char *session, const char *tail, json_t *body,
                struct error *err)
{
    CLEANUP(json_freep) json_t *taken = body;
    int result = client_session_path(&follow->exec_path, session, tail, err);

    if (result == 0 && (!taken || text_of_json(taken, JSON_COMPACT, &follow->body) < 0))
        result = error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory writing the request");
    return result < 0 ? result : post_exec(follow, err);
}

int follow_exec(struct follow *follow, const char *session, json_t *body, struct error *err)
{
    return post(follow, session, "/exec", body, err);
}

int follow_code(struct follow *follow, const char *session, json_t *body, struct error *err)
{
    return post(follow, session, "/code", body, err);
}

int follow_attach(struct follow *follow, const char *session, const char *execution,
                  struct error *err)
{
    int result = client_session_path(&follow->path, session, "/processes/", err);

    if (result == 0 && http_encode(&follow->path, execution) < 0)
        result = error_set(err, -EFBIG, ERROR_BAD_INPUT, "an argument is too long");
    if (result == 0)
        result = open_events(follow);
    if (result < 0 && follow->err.code)
        *err = follow->err;
    return result;
}

/* After a break: repeats until the daemon is back or known to be gone. */
static void reconnect(struct follow *follow)
{
    uint64_t now_ms = clock_now_ms();

    if (now_ms < follow->retry_at_ms)
        return;
    if (!client_is_alive(follow->client))
        fail(follow, -ECONNRESET, ERROR_NO_DAEMON,
             "the daemon has ended, and with it its sessions");
    else if (now_ms - follow->lost_ms > RECONNECT_PATIENCE_MS)
        fail(follow, -ETIMEDOUT, ERROR_NO_DAEMON,
             "the connection to the daemon was lost and could not be made again");
    else
        open_events(follow);
}

int follow_turn(struct follow *follow, struct pollfd *fds, size_t fd_count, int timeout_ms)
{
    bool is_waiting = !follow->exchange;
    int result;

    /* Another call (e.g. a signal) may have run the client's loop and received the end. */
    for (size_t i = 0; i < fd_count; i++)
        fds[i].revents = 0;
    if (follow->result)
        return 1;
    if (follow->err.code)
        return follow->err.num;
    if (is_waiting)
        timeout_ms = timeout_ms < 0 ? RETRY_MS : MIN(timeout_ms, RETRY_MS);
    result = http_client_wait(follow->client->http, fds, fd_count, timeout_ms);
    if (result < 0 && result != -EINTR)
        return error_set(&follow->err, result, ERROR_ENGINE, "waiting for the daemon: %s",
                         strerror(-result));
    if (follow->exchange && follow->has_replied && follow->status < 400)
        follow->lost_ms = 0;
    if (is_waiting && !follow->exchange && !follow->err.code)
        reconnect(follow);
    if (follow->result)
        return 1;
    return follow->err.code ? follow->err.num : 0;
}

int follow_signal(struct follow *follow, const char *name, struct error *err)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;

    if (buf_printf(&path, "%s/signal", buf_text(&follow->path)) < 0)
        return error_memory(err);
    return client_call(follow->client, "POST", buf_text(&path), json_pack("{s:s}", "signal", name),
                       NULL, err);
}
