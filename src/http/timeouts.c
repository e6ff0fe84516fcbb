/*
 * timeouts.c - how long a client may take (slowloris): for its first request, between two, for
 * headers, for a body, and after it shut down its sending side.
 *
 * libmicrohttpd's own timeout starts again with every byte. So all connections are checked now and
 * then, and one that is overdue is shut down: libmicrohttpd sees its end and closes it. A
 * connection that waits for us (a suspended request, a reply that is made) is never overdue;
 * libmicrohttpd notices a client that does not read its reply.
 *
 * Two more have to be found, both with the line of a chunk's size that fills libmicrohttpd's
 * buffer. 0.9.75 has no maximum for that line, or for trailers: it asks to be run again at once,
 * without end, reads nothing and calls no handler (http_timeouts_idle_round). 1.0.1 refuses the
 * line, but where it has an extension it begins two replies, takes the second for a mistake of its
 * own, and forgets the connection in the state "closed" without closing it (is_forgotten).
 */
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "http/http_private.h"

/* More than any round that leads to something. */
#define STILL_ROUNDS 256

static bool is_body_overdue(const struct http_request *request, uint64_t now)
{
    const struct http_server *server = request->server;
    struct link *link = request->link;

    if (request->is_body_whole || request->is_paused || request->was_queued)
        return false;
    if (request->early_reply_ms)
        return now - request->early_reply_ms > server->head_ms;
    /* It can send no more, and what it has sent should have been read long ago. */
    if (link->half_ms && request->body_received + request->body_dropped == link->half_received &&
        now - link->half_ms > server->head_ms)
        return true;
    if (request->body_received + request->body_dropped != link->half_received) {
        link->half_received = request->body_received + request->body_dropped;
        link->half_ms = link->half_ms ? now : 0;
    }
    return request->body_kind != HTTP_STREAM_BODY && now - request->started_ms > server->body_ms;
}

/* The size of a head that was read is unknown only for a connection in the state "closed". */
static bool is_forgotten(const struct http_request *request)
{
    return !MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
}

static bool is_overdue(const struct link *link, uint64_t now)
{
    const struct http_server *server = link->server;
    const struct http_request *request = link->request;

    if (request && request->has_begun)
        return is_body_overdue(request, now) || is_forgotten(request);
    if (request)
        return now - request->started_ms > server->head_ms;
    if (link->request_count == 0)
        return now - link->since_ms > server->head_ms;
    /* Clients of the unix socket are our own commands: their next request is not far. */
    return now - link->since_ms > (server->is_local ? HTTP_IDLE_MS : HTTP_KEEP_MS);
}

static uint64_t look_ms(const struct http_server *server)
{
    return MIN(server->head_ms, server->body_ms) / 4 + 1;
}

static void on_look(void *ctx)
{
    struct http_server *server = ctx;
    uint64_t now = clock_now_ms();

    for (struct link *link = server->links; link; link = link->next) {
        if (is_overdue(link, now))
            shutdown(link->fd, SHUT_RDWR);
    }
    server->is_looking = server->links != NULL;
    if (server->is_looking)
        server->reactor->ops->timer_set(server->looker, look_ms(server));
}

/* Bytes wait in its socket, and libmicrohttpd, which could take them, does not. */
static bool is_stuck(const struct link *link)
{
    const struct http_request *request = link->request;
    int waiting = 0;

    return request && request->has_begun && !request->is_body_whole && !request->is_paused &&
           !request->was_queued && ioctl(link->fd, FIONREAD, &waiting) == 0 && waiting > 0;
}

void http_timeouts_idle_round(struct http_server *server)
{
    if (++server->still_rounds < STILL_ROUNDS)
        return;
    server->still_rounds = 0;
    for (struct link *link = server->links; link; link = link->next) {
        if (is_stuck(link))
            shutdown(link->fd, SHUT_RDWR);
    }
}

bool http_timeouts_start(struct http_server *server)
{
    server->head_ms = server->spec.head_ms ? server->spec.head_ms : HTTP_HEAD_MS;
    server->body_ms = server->spec.body_ms ? server->spec.body_ms : HTTP_BODY_MS;
    server->looker = reactor_timer(server->reactor, on_look, server);
    return server->looker != NULL;
}

void http_timeouts_watch(struct http_server *server)
{
    if (server->is_looking)
        return;
    server->is_looking = true;
    server->reactor->ops->timer_set(server->looker, look_ms(server));
}
