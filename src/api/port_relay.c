/* port_relay.c - a request and its connection to a guest's server; see port_relay.h. */
#include "api/port_relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/front/reply.h"
#include "api/port_head.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/str.h"
#include "http/tunnel.h"
#include "http/websocket.h"

#define PIECE (16 * KIB)                         /* of a body, before the guest takes it */
#define OUT_MAX (LIMIT_HTTP_HEADERS + 4 * PIECE) /* what the guest has not taken */
#define CHUNK_HEAD 16

struct port_stream {
    struct port_stream *next, *previous;
    struct port_call call;
    char tenant[TENANT_MAX]; /* of its session, which may end before the reply does */
    struct box *box;
    uint32_t op; /* of the connection; 0: there is none */
    bool waits_for_box;
    bool is_open; /* the guest's server has accepted */
    struct reactor_timer *patience;

    struct buf out; /* to the guest */
    bool is_chunked;
    bool body_is_over;

    struct reply_reader reply;
    bool has_replied;
    bool is_broken; /* the reply is cut, so that it is not taken for a whole one */
    char *room;     /* inside more(): where the body goes */
    size_t room_size, room_used;

    struct http_tunnel *tunnel;
    bool has_tunnel;
};

uint16_t port_read(const char *text)
{
    uint64_t port;

    if (!text || str_to_u64(text, &port) < 0 || !str_is_canonical(text) || port > UINT16_MAX)
        return 0;
    return (uint16_t)port;
}

static void stream_free(struct port_stream *stream)
{
    const struct reactor_ops *ops = stream->call.front->reactor->ops;

    DLIST_UNLINK(stream->call.front->ports, stream);
    if (stream->waits_for_box)
        session_box_cancel(stream->call.session, stream);
    if (stream->op)
        box_cancel(stream->box, stream->op);
    ops->timer_remove(stream->patience);
    reply_reader_free(&stream->reply);
    buf_free(&stream->out);
    free(stream);
}

static void on_freed(void *ctx)
{
    stream_free(ctx);
}

/* Answers with the error and ends everything. */
static void fail(struct port_stream *stream, const struct error *err)
{
    struct error told = *err;

    stream->call.fail(&stream->call, &told);
    stream_free(stream);
}

static void fail_reply(struct port_stream *stream, const char *why)
{
    struct error err = {0};

    error_set(&err, -EPROTO, ERROR_PORT_REPLY,
              "the server on port %u of session %s did not answer as HTTP has it: %s",
              stream->call.port, session_id(stream->call.session), why);
    fail(stream, &err);
}

/* Ends a reply that has begun. */
static void break_off(struct port_stream *stream)
{
    stream->is_broken = true;
    http_reply_more(stream->call.http);
}

/* ---- to the guest ---- */

/* True: nothing waits any more. */
static bool flush(struct port_stream *stream)
{
    long taken = 0;

    if (stream->out.length > 0 && stream->op)
        taken = box_port_write(stream->box, stream->op, stream->out.data, stream->out.length);
    if (taken < 0 || !stream->op)
        buf_clear(&stream->out); /* it does not read any more; how it ends is about to be told */
    else
        buf_consume(&stream->out, (size_t)taken);
    return stream->out.length == 0;
}

static int put_piece(struct port_stream *stream, const void *data, size_t length)
{
    int r = 0;

    if (stream->is_chunked)
        r = buf_printf(&stream->out, "%zx\r\n", length);
    if (r == 0)
        r = buf_append(&stream->out, data, length);
    if (r == 0 && stream->is_chunked)
        r = buf_append_text(&stream->out, "\r\n");
    return r;
}

static size_t on_body(void *ctx, const void *data, size_t length)
{
    struct port_stream *stream = ctx;
    size_t taken = 0;

    while (taken < length && flush(stream)) {
        size_t part = MIN(length - taken, (size_t)PIECE);

        if (put_piece(stream, (const char *)data + taken, part) < 0)
            return taken;
        taken += part;
    }
    flush(stream);
    return taken;
}

static void on_body_end(void *ctx)
{
    struct port_stream *stream = ctx;

    stream->body_is_over = true;
    if (stream->is_chunked)
        (void)buf_append_text(&stream->out, "0\r\n\r\n"); /* there is room: PIECE */
    flush(stream);
}

/* ---- the tunnel ---- */

static size_t on_tunnel_data(void *ctx, const void *data, size_t length)
{
    struct port_stream *stream = ctx;
    long taken = stream->op ? box_port_write(stream->box, stream->op, data, length) : -EPIPE;

    return taken < 0 ? length : (size_t)taken;
}

static void on_tunnel_end(void *ctx)
{
    struct port_stream *stream = ctx;

    if (stream->op)
        box_port_end(stream->box, stream->op);
}

static void on_tunnel_room(void *ctx)
{
    struct port_stream *stream = ctx;

    if (stream->op)
        box_port_resume(stream->box, stream->op);
    else if (stream->tunnel)
        http_tunnel_close(stream->tunnel); /* the guest's server was faster */
}

static void open_tunnel(struct port_stream *stream, const char *const *headers)
{
    static const struct http_tunnel_events events = {
        .data = on_tunnel_data, .end = on_tunnel_end, .room = on_tunnel_room, .closed = on_freed};
    struct error err = {0};

    if (http_tunnel_open(stream->call.http, headers, &events, stream, &stream->tunnel, &err) < 0) {
        fail(stream, &err);
        return;
    }
    stream->has_replied = stream->has_tunnel = true;
}

/* ---- the reply ---- */

static long on_more(void *ctx, void *data, size_t size)
{
    struct port_stream *stream = ctx;
    size_t used;

    stream->room = data;
    stream->room_size = size;
    stream->room_used = 0;
    if (stream->op && !stream->is_broken && !stream->reply.is_over)
        box_port_resume(stream->box, stream->op);
    used = stream->room_used;
    stream->room = NULL;
    if (used > 0)
        return (long)used;
    if (stream->is_broken)
        return HTTP_ABORT;
    return stream->reply.is_over ? HTTP_END : 0;
}

/* Its key is not valid any more. */
static void on_stop(void *ctx, const struct error *why)
{
    (void)why;
    break_off(ctx);
}

/* Fills the room; the bytes of the guest that were taken. */
static size_t take_body(struct port_stream *stream, const char *data, size_t length)
{
    size_t taken = 0;

    while (taken < length && !stream->reply.is_over && stream->room_used < stream->room_size) {
        size_t part = MIN(length - taken, stream->room_size - stream->room_used);
        const char *piece;
        size_t piece_length;
        ssize_t count =
            reply_reader_body(&stream->reply, data + taken, part, &piece, &piece_length);

        if (count < 0) {
            stream->is_broken = true;
            return length;
        }
        memcpy(stream->room + stream->room_used, piece, piece_length);
        stream->room_used += piece_length;
        taken += (size_t)count;
    }
    return stream->reply.is_over ? length : taken; /* what follows a reply is no part of it */
}

static void start_reply(struct port_stream *stream, const char *const *headers)
{
    static const struct http_source source = {.more = on_more, .freed = on_freed, .stop = on_stop};
    const struct reply_reader *reply = &stream->reply;
    unsigned status = reply->status;

    stream->has_replied = true;
    if (status == 204 || status == 304) {
        http_reply(stream->call.http, status, NULL, headers, "", 0);
        stream_free(stream);
        return;
    }
    http_reply_stream(stream->call.http, status, NULL, headers,
                      reply->has_length ? (int64_t)reply->length : -1, &source, stream);
}

/* The head is whole. The stream may be gone afterwards. */
static void begin_reply(struct port_stream *stream)
{
    CLEANUP(buf_free) struct buf memory = BUF_INIT(0);
    const char *headers[PORT_HEADERS_MAX];
    bool switches = stream->reply.status == 101;
    int r = switches ? port_switch_headers(&stream->call, &stream->reply, &memory, headers)
                     : port_reply_headers(&stream->call, &stream->reply, &memory, headers);

    if (r == -EPROTO)
        fail_reply(stream, "its answer does not fit the WebSocket's handshake");
    else if (r < 0)
        fail_reply(stream, "there is no memory for its headers");
    else if (switches)
        open_tunnel(stream, headers);
    else
        start_reply(stream, headers);
}

static size_t take_head(struct port_stream *stream, const char *data, size_t length)
{
    ssize_t taken = reply_reader_head(&stream->reply, data, length);

    if (taken < 0)
        fail_reply(stream, taken == -EPROTO ? stream->reply.why : "there is no memory for it");
    else if (stream->reply.has_head)
        begin_reply(stream);
    return taken < 0 ? length : (size_t)taken;
}

/*
 * The connection is over. Whether the reply is cut: one that says where it ends is whole by its own
 * word, however its connection ended.
 */
static bool is_cut(struct port_stream *stream, const struct error *err)
{
    struct reply_reader *reply = &stream->reply;

    return reply_reader_close(reply) < 0 || (err->num < 0 && reply->body == REPLY_UNTIL_CLOSE);
}

/* ---- events of the connection ---- */

static void on_open(void *ctx)
{
    static const struct http_body_events body = {.data = on_body, .end = on_body_end};
    static const char *const raw[] = {"Upgrade: tcp", NULL};
    struct port_stream *stream = ctx;
    struct http_request *http = stream->call.http;
    struct error err = {0};

    stream->is_open = true;
    stream->call.front->reactor->ops->timer_set(stream->patience, UINT64_MAX);
    if (stream->call.is_raw) {
        open_tunnel(stream, raw);
        return;
    }
    if (port_request_head(&stream->call, &stream->out, &err) < 0) {
        fail(stream, &err);
        return;
    }
    stream->is_chunked = http_body_length(http) < 0 && http_header(http, "Transfer-Encoding");
    flush(stream);
    http_body_read(http, &body, stream);
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct port_stream *stream = ctx;

    if (stream->has_tunnel)
        return http_tunnel_send(stream->tunnel, data, length);
    if (!stream->reply.has_head)
        return take_head(stream, data, length);
    if (stream->room)
        return take_body(stream, data, length);
    http_reply_more(stream->call.http);
    return 0;
}

static void on_room(void *ctx)
{
    struct port_stream *stream = ctx;

    if (stream->has_tunnel)
        http_tunnel_resume(stream->tunnel);
    else if (flush(stream) && !stream->body_is_over && !stream->has_replied)
        http_body_resume(stream->call.http);
}

/* Why there is no connection, for the client. */
static void explain(const struct port_stream *stream, struct error *err)
{
    const char *id = session_id(stream->call.session);
    unsigned port = stream->call.port;

    if (err->code != ERROR_ENGINE)
        return; /* its session is paused, or ends, or is lost */
    if (err->num == -ECONNREFUSED)
        error_set(err, err->num, ERROR_PORT_CLOSED,
                  "no server listens on port %u of session %s: start one there, on 127.0.0.1 or on "
                  "all addresses",
                  port, id);
    else if (err->num == -EPERM)
        error_set(err, err->num, ERROR_PORT_CLOSED,
                  "session %s has no network of its own, so its ports cannot be reached", id);
    else if (err->num == -ENOTSUP)
        error_set(err, err->num, ERROR_PORT_CLOSED,
                  "what runs session %s here does not pass on connections to its ports", id);
    else if (err->num == -EAGAIN)
        error_set(err, err->num, ERROR_BUSY,
                  "session %s has %d connections to its ports, which is all that it may have", id,
                  LIMIT_PORT_STREAMS);
    else
        error_set(err, err->num, ERROR_PORT_CLOSED,
                  "the server on port %u of session %s cannot be reached: %s", port, id,
                  strerror(-err->num));
}

static void on_done(void *ctx, const struct error *err)
{
    struct port_stream *stream = ctx;
    struct error told = *err;

    stream->op = 0;
    if (stream->has_tunnel) {
        http_tunnel_close(stream->tunnel);
    } else if (stream->has_replied) {
        stream->is_broken |= is_cut(stream, err);
        http_reply_more(stream->call.http);
    } else if (!stream->is_open || (err->num < 0 && err->code != ERROR_ENGINE)) {
        explain(stream, &told);
        fail(stream, &told);
    } else {
        (void)reply_reader_close(&stream->reply);
        fail_reply(stream, stream->reply.why);
    }
}

/* ---- beginning ---- */

static void on_impatience(void *ctx)
{
    struct port_stream *stream = ctx;
    struct error err = {0};

    error_set(&err, -ETIMEDOUT, ERROR_PORT_CLOSED,
              "the server on port %u of session %s did not accept a connection for %d s",
              stream->call.port, session_id(stream->call.session), PORT_CONNECT_MS / 1000);
    fail(stream, &err);
}

static void on_box(void *ctx, struct box *box, const struct error *failed)
{
    static const struct port_events events = {
        .opened = on_open, .data = on_data, .room = on_room, .done = on_done};
    struct port_stream *stream = ctx;
    struct error err = {0};

    stream->waits_for_box = false;
    stream->box = box;
    if (!box) {
        fail(stream, failed);
    } else if (box_port_open(box, stream->call.port, &events, stream, &stream->op, &err) < 0) {
        stream->op = 0;
        fail(stream, &err);
    } else {
        stream->call.front->reactor->ops->timer_set(stream->patience, PORT_CONNECT_MS);
    }
}

/* How many connections its tenant may have; what they hold counts too (http_hold()). */
static int check_share(const struct port_call *call, struct error *err)
{
    const char *tenant = session_tenant(call->session);
    unsigned count = 0;

    for (const struct port_stream *other = call->front->ports; other; other = other->next)
        count += str_equal(other->tenant, tenant);
    if (count < LIMIT_TENANT_PORTS && http_hold(call->http, WIRE_PORT_WINDOW) == 0)
        return 0;
    error_set(err, -EDQUOT, ERROR_QUOTA,
              "this tenant has %u connections to ports of its sessions, which take all that it may "
              "have: close some of them, then try again",
              count);
    err->quota = "connections";
    err->retry_s = 1;
    return -EDQUOT;
}

void port_relay(const struct port_call *call)
{
    struct port_stream *stream = NULL;
    struct error err = {0};
    int r = check_share(call, &err);

    if (r == 0)
        stream = calloc(1, sizeof(*stream));
    if (stream)
        stream->patience = reactor_timer(call->front->reactor, on_impatience, stream);
    if (!stream || !stream->patience) {
        if (r == 0)
            error_memory(&err);
        free(stream);
        call->fail(call, &err);
        return;
    }
    stream->call = *call;
    str_copy(stream->tenant, sizeof(stream->tenant), session_tenant(call->session));
    stream->out = BUF_INIT(OUT_MAX);
    reply_reader_init(&stream->reply, str_equal(http_method(call->http), "HEAD"),
                      http_wants_websocket(call->http) > 0);
    DLIST_PUSH(call->front->ports, stream);
    http_on_gone(call->http, on_freed, stream);
    stream->waits_for_box = true;
    session_box(call->session, on_box, stream);
}
