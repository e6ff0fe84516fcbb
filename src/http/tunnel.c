/*
 * tunnel.c - bytes between an upgraded connection and its owner, on the server's reactor; see
 * tunnel.h.
 *
 * libmicrohttpd hands its socket over once the 101 is sent, as for websocket.c, and gets it back at
 * the end. All callbacks are called from pump(), which only the loop calls; everything else only
 * makes the loop call it.
 */
#include "http/tunnel.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "http/http_private.h"
#include "http/raw_conn.h"

#define READ_BLOCK (32 * KIB) /* not below RAW_CONN_BLOCK */
/* What libmicrohttpd had read after the request, at most. */
#define IN_MAX (512 * KIB)
#define KEEPALIVE_S 60 /* a client that vanished without a word is noticed */
#define LEAVE_MS 30000 /* after the client's end, without a byte to it */
#define LINGER_MS 3000 /* after ours, for the client's */

struct http_tunnel {
    struct http_server *server;
    struct http_request *request;
    const struct http_tunnel_events *events;
    void *ctx;

    struct MHD_UpgradeResponseHandle *handle; /* NULL: the 101 is not out yet */
    struct raw_conn conn;
    struct reactor_watch *watch;
    short watched;
    struct reactor_timer *timer;
    struct buf in; /* read and not taken */

    unsigned depth;  /* inside pump() */
    bool is_held;    /* the owner did not take all of `in` */
    bool owes_room;  /* room() is to be called */
    bool has_end;    /* the client's */
    bool was_told;   /* of it: end() was called */
    bool has_moved;  /* bytes to the client since the timer was set */
    bool is_closing; /* nothing is sent any more */
    bool is_broken;
    bool is_over;    /* closed() was called */
    bool is_stopped; /* because its server stops, which may be freed by now */
};

static void set_timer(struct http_tunnel *tunnel, uint64_t delay_ms)
{
    tunnel->server->reactor->ops->timer_set(tunnel->timer, delay_ms);
}

static void tunnel_free(struct http_tunnel *tunnel)
{
    buf_free(&tunnel->in);
    free(tunnel);
}

static void end(struct http_tunnel *tunnel)
{
    const struct reactor_ops *ops = tunnel->server->reactor->ops;

    if (tunnel->is_over)
        return;
    tunnel->is_over = true;
    tunnel->is_stopped = tunnel->server->is_stopping;
    tunnel->request->tunnel = NULL;
    ops->watch_remove(tunnel->watch);
    ops->timer_remove(tunnel->timer);
    if (tunnel->handle)
        http_upgrade_give_back(tunnel->server, tunnel->handle);
    tunnel->events->closed(tunnel->ctx);
    if (tunnel->depth == 0)
        tunnel_free(tunnel);
}

static void watch_again(struct http_tunnel *tunnel)
{
    bool wants_in = !tunnel->has_end && tunnel->in.length == 0;
    bool wants_now = tunnel->in.length > 0 && !tunnel->is_held;
    bool wants_out = tunnel->owes_room || wants_now;
    short events = (short)((wants_in ? POLLIN : 0) | (wants_out ? POLLOUT : 0));

    if (events == tunnel->watched || !tunnel->watch)
        return;
    tunnel->watched = events;
    tunnel->server->reactor->ops->watch_change(tunnel->watch, events);
}

/* One block: a client that never stops has to share the loop. */
static void read_in(struct http_tunnel *tunnel)
{
    CLEANUP(freep) char *block = malloc(READ_BLOCK);
    ssize_t count = block ? raw_conn_receive(&tunnel->conn, block, READ_BLOCK) : -ENOMEM;

    if (count == -EAGAIN)
        return;
    if (count == 0)
        tunnel->has_end = true;
    else if (count < 0 || buf_append(&tunnel->in, block, (size_t)count) < 0)
        tunnel->is_broken = true;
}

static void give(struct http_tunnel *tunnel)
{
    size_t taken;

    if (tunnel->is_closing)
        buf_clear(&tunnel->in);
    if (tunnel->in.length == 0 || tunnel->is_held)
        return;
    taken = tunnel->events->data(tunnel->ctx, tunnel->in.data, tunnel->in.length);
    if (tunnel->is_over)
        return;
    tunnel->is_held = taken < tunnel->in.length;
    buf_consume(&tunnel->in, MIN(taken, tunnel->in.length));
    if (tunnel->in.length == 0)
        buf_free(&tunnel->in);
}

static void tell_end(struct http_tunnel *tunnel)
{
    if (!tunnel->has_end || tunnel->in.length > 0)
        return;
    if (tunnel->is_closing) {
        tunnel->is_broken = true; /* both have said all */
    } else if (!tunnel->was_told) {
        tunnel->was_told = true;
        tunnel->has_moved = false;
        set_timer(tunnel, LEAVE_MS);
        tunnel->events->end(tunnel->ctx);
    }
}

static void pump(struct http_tunnel *tunnel, bool has_room)
{
    struct http_server *server = tunnel->server;
    struct link *link = tunnel->request->link;

    if (tunnel->depth > 0 || !tunnel->handle)
        return;
    tunnel->depth++;
    http_turn_begin(server);
    give(tunnel);
    if (!tunnel->is_over && has_room && tunnel->owes_room && !tunnel->is_closing) {
        tunnel->owes_room = false;
        tunnel->events->room(tunnel->ctx);
    }
    if (!tunnel->is_over)
        tell_end(tunnel);
    if (!tunnel->is_stopped)
        http_turn_end(server, link);
    tunnel->depth--;
    if (tunnel->is_over)
        tunnel_free(tunnel);
    else if (tunnel->is_broken)
        end(tunnel);
    else
        watch_again(tunnel);
}

static void on_ready(void *ctx, short events)
{
    struct http_tunnel *tunnel = ctx;

    if (events & (POLLERR | POLLHUP))
        tunnel->is_broken = true;
    else if (http_turn_wait(tunnel->request->link))
        return; /* it is reported again */
    if (events & POLLIN && tunnel->in.length == 0 && !tunnel->has_end)
        read_in(tunnel);
    pump(tunnel, events & POLLOUT);
}

static void on_due(void *ctx)
{
    struct http_tunnel *tunnel = ctx;

    if (!tunnel->is_closing && tunnel->has_moved) {
        tunnel->has_moved = false;
        set_timer(tunnel, LEAVE_MS);
        return;
    }
    end(tunnel);
}

static void keep_alive(const struct http_tunnel *tunnel)
{
    int on = 1, seconds = KEEPALIVE_S;

    if (tunnel->server->is_local)
        return;
    (void)setsockopt(tunnel->conn.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(tunnel->conn.fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
}

/* libmicrohttpd has sent the 101. */
static void on_upgraded(void *cls, struct MHD_Connection *connection, void *context,
                        const char *extra, size_t extra_length, MHD_socket fd,
                        struct MHD_UpgradeResponseHandle *handle)
{
    struct http_request *request = cls;
    struct http_tunnel *tunnel = request->tunnel;

    (void)context;
    (void)fd;
    if (!tunnel) { /* the client left, or the server stops */
        request->orphan = handle;
        request->server->has_orphans = true;
        return;
    }
    /* One descriptor is watched once. */
    tunnel->server->reactor->ops->watch_remove(ptr_take(&request->link->watch));
    tunnel->handle = handle;
    tunnel->conn = raw_conn_of(connection);
    tunnel->watched = POLLIN | POLLOUT;
    tunnel->watch =
        reactor_watch(tunnel->server->reactor, tunnel->conn.fd, tunnel->watched, on_ready, tunnel);
    raw_conn_take(&tunnel->conn);
    keep_alive(tunnel);
    if (tunnel->is_closing)
        raw_conn_shut(&tunnel->conn); /* before there was a connection */
    if (!tunnel->watch || (extra_length > 0 && buf_append(&tunnel->in, extra, extra_length) < 0)) {
        tunnel->is_closing = true;
        set_timer(tunnel, 0);
    } else if (raw_conn_waiting(&tunnel->conn) > 0) {
        read_in(tunnel);
    }
}

int http_tunnel_open(struct http_request *request, const char *const *headers,
                     const struct http_tunnel_events *events, void *ctx, struct http_tunnel **ret,
                     struct error *err)
{
    struct http_tunnel *tunnel;
    struct MHD_Response *response;

    if (request->was_answered || request->is_gone)
        return error_set(err, -EPIPE, ERROR_ENGINE, "the request has its answer already");
    tunnel = calloc(1, sizeof(*tunnel));
    response = tunnel ? MHD_create_response_for_upgrade(on_upgraded, request) : NULL;
    if (!response) {
        free(tunnel);
        return error_memory(err);
    }
    *tunnel = (struct http_tunnel){
        .server = request->server,
        .request = request,
        .events = events,
        .ctx = ctx,
        .in = BUF_INIT(IN_MAX),
        .owes_room = true,
        .timer = reactor_timer(request->server->reactor, on_due, tunnel),
    };
    if (!tunnel->timer) {
        MHD_destroy_response(response);
        free(tunnel);
        return error_memory(err);
    }
    request->tunnel = tunnel;
    http_request_answer(request, 101, NULL, headers, response);
    if (request->stop)
        http_tunnel_close(tunnel); /* its key became invalid while its owner waited */
    *ret = tunnel;
    return 0;
}

size_t http_tunnel_send(struct http_tunnel *tunnel, const void *data, size_t length)
{
    size_t sent = 0;

    if (tunnel->is_over || tunnel->is_closing || tunnel->is_broken)
        return length;
    while (tunnel->handle && sent < length) {
        ssize_t count = raw_conn_send(&tunnel->conn, (const char *)data + sent, length - sent);

        if (count == -EAGAIN)
            break;
        if (count < 0) {
            tunnel->is_closing = true;
            set_timer(tunnel, 0);
            return length;
        }
        sent += (size_t)count;
        tunnel->has_moved = true;
        http_request_sent(tunnel->request, (uint64_t)count);
    }
    tunnel->owes_room |= sent < length;
    if (tunnel->depth == 0)
        watch_again(tunnel);
    return sent;
}

void http_tunnel_resume(struct http_tunnel *tunnel)
{
    if (tunnel->is_over)
        return;
    tunnel->is_held = false;
    if (tunnel->depth == 0)
        watch_again(tunnel);
}

void http_tunnel_close(struct http_tunnel *tunnel)
{
    if (tunnel->is_over || tunnel->is_closing)
        return;
    tunnel->is_closing = true;
    tunnel->is_held = false;
    if (tunnel->handle && !tunnel->is_broken)
        raw_conn_shut(&tunnel->conn);
    /* Closing with unread bytes would reset the connection, and what was sent would be lost. */
    set_timer(tunnel, tunnel->has_end ? 0 : LINGER_MS);
    if (tunnel->depth == 0)
        watch_again(tunnel);
}

void http_tunnel_leave(struct http_tunnel *tunnel)
{
    end(tunnel);
}
