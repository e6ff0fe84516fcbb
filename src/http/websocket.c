/*
 * websocket.c - a WebSocket's bytes between its socket and its frames (ws_frames.h), on the
 * server's reactor; see websocket.h.
 *
 * Theory of operation. libmicrohttpd hands its socket over once the 101 is sent and gets it back by
 * MHD_upgrade_action(). With TLS it hands over one end of a pair that it moves the bytes to and
 * from; that is not used, and the connection is used directly (raw_conn.h). All work is done in
 * pump(), which moves what can be moved in both directions, calls callbacks and ends the socket
 * when it is closed. Callbacks may call anything of websocket.h; they are only called from pump(),
 * and only pump() and websocket_leave() end it, so that a caller of websocket_send() still has a
 * socket afterwards: an error that it finds ends the socket a turn later.
 *
 * A client that broke the protocol is still read for a while after our close frame: closing with
 * unread bytes would reset the connection, and the client would never see the frame.
 */
#include "http/websocket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "http/http_private.h"
#include "http/raw_conn.h"
#include "http/ws_frames.h"
#include "http/ws_handshake.h"

#define READ_BLOCK (64 * KIB) /* not below RAW_CONN_BLOCK */
#define WRITE_BLOCK (64 * KIB)
/* Bytes read and not processed: a block, or what libmicrohttpd had read after the request. */
#define IN_MAX (512 * KIB)
#define SHORT (64 * KIB) /* held bytes that do not count */
#define SLICE (4 * KIB)  /* of a block, before its tenant's share of the turn is looked at */

struct websocket {
    struct http_server *server;
    struct http_request *request;
    const struct websocket_events *events;
    void *ctx;
    struct ws_frames *frames;

    struct MHD_UpgradeResponseHandle *handle; /* NULL: the 101 is not out yet */
    struct raw_conn conn;
    struct reactor_watch *watch;
    short watched;
    struct reactor_timer *timer; /* until the next ping, or the patience after a close frame */
    struct buf in, out;          /* read and not taken; given and not written */
    size_t own;                  /* bytes that its owner holds: websocket_owns() */

    unsigned depth;  /* inside pump() */
    bool was_alive;  /* bytes moved since the last ping */
    bool is_held;    /* by its owner */
    bool owes_room;  /* drained() is to be called */
    bool is_waiting; /* for the client's close frame, or for its end: the timer says how long */
    bool has_shut;   /* nothing is sent any more */
    bool is_broken;  /* nothing moves any more */
    bool is_over;    /* closed() was called */
    bool is_stopped; /* because its server stops, which may be freed by now */
};

static void set_timer(struct websocket *socket, uint64_t delay_ms)
{
    socket->server->reactor->ops->timer_set(socket->timer, delay_ms);
}

static void websocket_free(struct websocket *socket)
{
    ws_frames_free(socket->frames);
    buf_free(&socket->in);
    buf_free(&socket->out);
    free(socket);
}

/*
 * With TLS libmicrohttpd ends its forwarding in one round and closes the connection in the next,
 * which it does not ask for.
 */
void http_upgrade_give_back(struct http_server *server, struct MHD_UpgradeResponseHandle *handle)
{
    MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
    server->is_woken = true;
    server->end_rounds = 2;
    server->reactor->ops->timer_set(server->timer, 0);
}

/* Returns everything and calls back; the memory is freed when no call is inside any more. */
static void end(struct websocket *socket)
{
    const struct reactor_ops *ops = socket->server->reactor->ops;

    if (socket->is_over)
        return;
    socket->is_over = true;
    socket->is_stopped = socket->server->is_stopping;
    socket->request->websocket = NULL;
    ops->watch_remove(socket->watch);
    ops->timer_remove(socket->timer);
    if (socket->handle)
        http_upgrade_give_back(socket->server, socket->handle);
    socket->events->closed(socket->ctx, ws_frames_status(socket->frames));
    if (socket->depth == 0)
        websocket_free(socket);
}

/*
 * Counts what is held for it. A client that is sent, or sends, more than its tenant's share is
 * closed with 1013 (try again later), and what it has not read is lost.
 */
static void count_held(struct websocket *socket)
{
    size_t bytes = socket->own + ws_frames_held(socket->frames);

    if (socket->is_over)
        return;
    if (ws_frames_has_closed(socket->frames) || bytes <= SHORT)
        http_hold(socket->request, 0);
    else if (http_hold(socket->request, bytes) < 0)
        ws_frames_fail(
            socket->frames, 1013,
            "messages that are not read yet take too much memory of this tenant's share");
}

/* ---- bytes -------------------------------------------------------------------------------------
 */

static void write_out(struct websocket *socket)
{
    CLEANUP(freep) char *block = NULL;

    while (socket->handle && !socket->is_broken && !socket->has_shut) {
        ssize_t count;

        if (socket->out.length == 0) {
            if (!ws_frames_wants_give(socket->frames))
                return;
            if (!block)
                block = malloc(WRITE_BLOCK);
            count = block ? ws_frames_give(socket->frames, block, WRITE_BLOCK) : -ENOMEM;
            if (count == 0)
                return;
            if (count < 0 || buf_append(&socket->out, block, (size_t)count) < 0) {
                socket->is_broken = true;
                return;
            }
        }
        count = raw_conn_send(&socket->conn, socket->out.data, socket->out.length);
        if (count < 0) {
            socket->is_broken = count != -EAGAIN;
            return;
        }
        socket->was_alive = true;
        http_request_sent(socket->request, (uint64_t)count);
        buf_consume(&socket->out, (size_t)count);
        if (socket->out.length == 0)
            buf_free(&socket->out); /* one that is idle has nothing */
        count_held(socket);
    }
}

static bool may_read(const struct websocket *socket)
{
    if (ws_frames_has_closed(socket->frames))
        return true; /* to be dropped, until its close frame */
    return !socket->is_held && !ws_frames_is_full(socket->frames);
}

/* One block: a client that never stops has to share the loop. */
static void read_in(struct websocket *socket)
{
    CLEANUP(freep) char *block = malloc(READ_BLOCK);
    ssize_t count;

    if (!block) {
        socket->is_broken = true;
        return;
    }
    count = raw_conn_receive(&socket->conn, block, READ_BLOCK);
    if (count == -EAGAIN)
        return;
    if (count <= 0 || buf_append(&socket->in, block, (size_t)count) < 0) {
        socket->is_broken = true;
        return;
    }
    socket->was_alive = true;
}

static void take_in(struct websocket *socket)
{
    ssize_t count;

    if (socket->in.length == 0 || !may_read(socket))
        return;
    count = ws_frames_take(socket->frames, socket->in.data, MIN(socket->in.length, (size_t)SLICE));
    if (socket->is_over)
        return;
    if (count < 0)
        socket->is_broken = true;
    else
        buf_consume(&socket->in, (size_t)count);
    if (socket->in.length == 0)
        buf_free(&socket->in);
    count_held(socket);
}

/* ---- the loop ----------------------------------------------------------------------------------
 */

static bool may_tell_room(const struct websocket *socket)
{
    return socket->owes_room && ws_frames_waiting(socket->frames) <= LIMIT_WS_QUEUE / 2 &&
           !ws_frames_has_closed(socket->frames);
}

static void tell_room(struct websocket *socket)
{
    if (!may_tell_room(socket))
        return;
    socket->owes_room = false;
    if (socket->events->drained)
        socket->events->drained(socket->ctx);
}

/* After a close frame of either side. */
static void look_for_end(struct websocket *socket)
{
    if (ws_frames_is_over(socket->frames) && socket->out.length == 0) {
        if (ws_frames_was_closed(socket->frames))
            socket->is_broken = true; /* both have said all */
        else if (!socket->has_shut)
            raw_conn_shut(&socket->conn);
        socket->has_shut = true;
    }
    if (ws_frames_has_closed(socket->frames) && !socket->is_waiting) {
        socket->is_waiting = true;
        set_timer(socket, LIMIT_WS_CLOSE_MS);
    }
}

static void watch_again(struct websocket *socket)
{
    /*
     * Room that its owner has used up at once is reported in the next turn, so that others get one
     * too.
     */
    bool wants_out =
        socket->out.length > 0 || ws_frames_wants_give(socket->frames) || may_tell_room(socket);
    bool wants_in = socket->in.length == 0 && may_read(socket);
    short events = (short)((wants_in ? POLLIN : POLLRDHUP) | (wants_out ? POLLOUT : 0));

    if (events == socket->watched)
        return;
    socket->watched = events;
    socket->server->reactor->ops->watch_change(socket->watch, events);
}

/* One round in both directions; true: what was in the way of more is not there any more. */
static bool move(struct websocket *socket)
{
    size_t before = socket->in.length;
    bool was_stuck = !may_read(socket);

    take_in(socket);
    if (!socket->is_over)
        write_out(socket);
    if (!socket->is_over)
        tell_room(socket);
    return !socket->is_over && !socket->is_broken && socket->in.length > 0 && may_read(socket) &&
           (socket->in.length < before || was_stuck);
}

static void pump(struct websocket *socket)
{
    struct http_server *server = socket->server;
    struct link *link = socket->request->link;
    bool is_late = false;

    if (socket->depth > 0 || !socket->handle)
        return;
    socket->depth++;
    http_turn_begin(server);
    while (move(socket)) {
        http_turn_end(server, link);
        is_late = http_turn_wait(link);
        http_turn_begin(server);
        if (is_late)
            break;
    }
    if (!socket->is_over && !socket->is_broken)
        write_out(socket);
    if (!socket->is_over)
        look_for_end(socket);
    if (!socket->is_stopped)
        http_turn_end(server, link);
    socket->depth--;
    if (socket->is_over)
        websocket_free(socket);
    else if (socket->is_broken)
        end(socket);
    else
        watch_again(socket);
}

static void on_ready(void *ctx, short events)
{
    struct websocket *socket = ctx;

    if (!(events & (POLLERR | POLLHUP)) && http_turn_wait(socket->request->link))
        return; /* it is reported again */
    if (events & POLLIN && socket->in.length == 0 && may_read(socket))
        read_in(socket);
    else if (events & (POLLERR | POLLHUP | POLLRDHUP))
        socket->is_broken = true;
    pump(socket);
}

void websocket_go_on(struct websocket *socket)
{
    pump(socket);
}

/* A client that has neither sent nor received a byte since the last ping has gone. */
static void on_due(void *ctx)
{
    struct websocket *socket = ctx;

    if (socket->is_waiting || (!socket->was_alive && !socket->is_held)) {
        socket->is_broken = true;
    } else if (!socket->is_broken) {
        socket->was_alive = false;
        ws_frames_ping(socket->frames);
        set_timer(socket, LIMIT_WS_PING_MS);
    }
    if (socket->handle)
        pump(socket);
    else if (socket->is_broken)
        end(socket);
}

static void on_message(void *ctx, bool is_text, const void *data, size_t length)
{
    struct websocket *socket = ctx;

    if (!socket->is_over)
        socket->events->message(socket->ctx, is_text, data, length);
}

/* ---- beginning ---------------------------------------------------------------------------------
 */

/* libmicrohttpd has sent the 101. It is not called back from in here: the watch is ready at once.
 */
static void on_upgraded(void *cls, struct MHD_Connection *connection, void *context,
                        const char *extra, size_t extra_length, MHD_socket fd,
                        struct MHD_UpgradeResponseHandle *handle)
{
    struct http_request *request = cls;
    struct websocket *socket = request->websocket;
    struct link *link = request->link;

    (void)context;
    (void)fd;
    if (!socket) { /* the client left, or the server stops */
        request->orphan = handle;
        request->server->has_orphans = true;
        return;
    }
    /* One descriptor is watched once. */
    socket->server->reactor->ops->watch_remove(ptr_take(&link->watch));
    socket->handle = handle;
    socket->conn = raw_conn_of(connection);
    socket->watched = POLLIN | POLLOUT;
    socket->watch =
        reactor_watch(socket->server->reactor, socket->conn.fd, socket->watched, on_ready, socket);
    raw_conn_take(&socket->conn);
    if (!socket->watch || (extra_length > 0 && buf_append(&socket->in, extra, extra_length) < 0)) {
        socket->is_broken = true;
        set_timer(socket, 0);
    } else if (raw_conn_waiting(&socket->conn) > 0) {
        read_in(socket);
    }
}

static struct websocket *websocket_new(struct http_request *request,
                                       const struct websocket_spec *spec)
{
    static const struct ws_frames_events events = {.message = on_message};
    struct websocket *socket = calloc(1, sizeof(*socket));

    if (!socket)
        return NULL;
    *socket = (struct websocket){
        .server = request->server,
        .request = request,
        .events = spec->events,
        .ctx = spec->ctx,
        .was_alive = true,
        .in = BUF_INIT(IN_MAX),
        .out = BUF_INIT(WRITE_BLOCK),
        .frames = ws_frames_new(spec->message_max, &events, socket),
        .timer = reactor_timer(request->server->reactor, on_due, socket),
    };
    if (socket->frames && socket->timer)
        return socket;
    request->server->reactor->ops->timer_remove(socket->timer);
    websocket_free(socket);
    return NULL;
}

int http_upgrade(struct http_request *request, const struct websocket_spec *spec,
                 struct websocket **ret, struct error *err)
{
    char accept[WS_ACCEPT_MAX + 32], protocol[128];
    const char *headers[] = {"Upgrade: websocket", accept, protocol, NULL};
    struct MHD_Response *response = NULL;
    struct websocket *socket;

    if (http_wants_websocket(request) <= 0 || request->was_answered || request->is_gone)
        return error_set(err, -EPROTO, ERROR_BAD_INPUT, "the request is not a WebSocket handshake");
    if (str_format(protocol, sizeof(protocol), "Sec-WebSocket-Protocol: %s",
                   spec->protocol ? spec->protocol : "") < 0)
        return error_set(err, -EINVAL, ERROR_ENGINE, "the protocol's name is too long");
    if (!spec->protocol)
        headers[2] = NULL;
    str_copy(accept, sizeof(accept), "Sec-WebSocket-Accept: ");
    ws_accept(http_header(request, "Sec-WebSocket-Key"), accept + strlen(accept));
    socket = websocket_new(request, spec);
    if (socket)
        response = MHD_create_response_for_upgrade(on_upgraded, request);
    if (!response) {
        if (socket) {
            request->server->reactor->ops->timer_remove(socket->timer);
            websocket_free(socket);
        }
        return error_memory(err);
    }
    request->websocket = socket;
    set_timer(socket, LIMIT_WS_PING_MS);
    http_request_answer(request, 101, NULL, headers, response);
    *ret = socket;
    return 0;
}

void websocket_orphans_close(struct http_server *server)
{
    if (!server->has_orphans)
        return;
    server->has_orphans = false;
    for (struct http_request *request = server->requests; request; request = request->next) {
        if (!request->orphan)
            continue;
        http_upgrade_give_back(server, request->orphan);
        request->orphan = NULL;
    }
}

/* ---- for its owner -----------------------------------------------------------------------------
 */

/* From outside pump(): sends what can be sent; an error ends the socket in the next turn. */
static void push(struct websocket *socket)
{
    if (socket->depth > 0 || socket->is_over || !socket->handle)
        return;
    write_out(socket);
    if (socket->is_broken)
        set_timer(socket, 0);
    else
        watch_again(socket);
}

void websocket_message_take(struct websocket *socket, struct buf *ret)
{
    ws_frames_message_take(socket->frames, ret);
}

bool websocket_has_turn(const struct websocket *socket)
{
    return http_turn_may(socket->request->link);
}

void websocket_turn_begin(struct websocket *socket)
{
    http_turn_begin(socket->server);
}

void websocket_turn_end(struct websocket *socket)
{
    http_turn_end(socket->server, socket->request->link);
}

bool websocket_has_room(struct websocket *socket)
{
    if (ws_frames_waiting(socket->frames) <= LIMIT_WS_QUEUE)
        return true;
    socket->owes_room = true;
    return false;
}

int websocket_send(struct websocket *socket, bool is_text, const void *data, size_t length)
{
    int r;

    if (socket->is_over || ws_frames_has_closed(socket->frames))
        return -EPIPE;
    if (!websocket_has_room(socket))
        return -EAGAIN;
    r = ws_frames_send(socket->frames, is_text, data, length);
    if (r == 0)
        count_held(socket);
    if (r == 0)
        push(socket);
    return r;
}

void websocket_owns(struct websocket *socket, size_t bytes)
{
    if (socket->is_over || socket->own == bytes)
        return;
    socket->own = bytes;
    count_held(socket);
    if (ws_frames_has_closed(socket->frames))
        push(socket);
}

void websocket_hold(struct websocket *socket, bool is_held)
{
    if (socket->is_over || socket->is_held == is_held)
        return;
    socket->is_held = is_held;
    ws_frames_hold(socket->frames, is_held);
    socket->was_alive = true;
    if (socket->depth > 0 || !socket->handle)
        return;
    /* Bytes that were read already are processed in the next turn: this one may be its owner's. */
    if (!is_held && socket->in.length > 0) {
        socket->watched |= POLLOUT;
        socket->server->reactor->ops->watch_change(socket->watch, socket->watched);
    } else {
        watch_again(socket);
    }
}

void websocket_close(struct websocket *socket, unsigned status, const char *reason)
{
    if (socket->is_over || ws_frames_has_closed(socket->frames))
        return;
    websocket_hold(socket, false); /* its close frame has to be read */
    ws_frames_close(socket->frames, status, reason);
    socket->is_waiting = true;
    set_timer(socket, LIMIT_WS_CLOSE_MS);
    push(socket);
}

void websocket_leave(struct websocket *socket)
{
    if (socket->handle && !socket->is_over) {
        ws_frames_close(socket->frames, 1001, "the server is stopping");
        write_out(socket);
    }
    end(socket);
}
