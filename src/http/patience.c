/*
 * patience.c - how long a client may take (slowloris): for its first request, between two, for a
 * head, for a body, and for going on behind the end of its sending.
 *
 * libmicrohttpd's own time begins anew with every byte that comes. So all connections are looked at
 * now and then, and one that is overdue is shut down: libmicrohttpd sees its end and closes it. Who
 * waits for us (a suspended request, a reply that is made) is never overdue; who does not read its
 * reply is libmicrohttpd's to notice.
 */
#include <sys/socket.h>

#include "base/clock.h"
#include "http/inside.h"

static bool is_body_overdue(const struct http_request *request, uint64_t now, uint64_t head_ms)
{
    struct link *link = request->link;

    if (request->is_body_whole || request->is_paused || request->was_queued)
        return false;
    /* It can send no more, and what it has sent should have been read long ago. */
    if (link->half_ms && request->body_received + request->body_dropped == link->half_received &&
        now - link->half_ms > head_ms)
        return true;
    if (request->body_received + request->body_dropped != link->half_received) {
        link->half_received = request->body_received + request->body_dropped;
        link->half_ms = link->half_ms ? now : 0;
    }
    return request->body_kind != HTTP_STREAM_BODY && now - request->started_ms > HTTP_BODY_MS;
}

static bool is_overdue(const struct link *link, uint64_t now)
{
    const struct http_server *server = link->server;
    const struct http_request *request = link->request;

    if (request && request->has_begun)
        return is_body_overdue(request, now, server->head_ms);
    if (request)
        return now - request->started_ms > server->head_ms;
    if (link->request_count == 0)
        return now - link->since_ms > server->head_ms;
    /* Who comes over the unix socket is us: its next request is not far. */
    return now - link->since_ms > (server->is_local ? HTTP_IDLE_MS : HTTP_KEEP_MS);
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
        server->reactor->ops->timer_set(server->looker, server->head_ms / 4 + 1);
}

bool http_patience_start(struct http_server *server)
{
    server->head_ms = server->spec.head_ms ? server->spec.head_ms : HTTP_HEAD_MS;
    server->looker = reactor_timer(server->reactor, on_look, server);
    return server->looker != NULL;
}

void http_patience_look(struct http_server *server)
{
    if (server->is_looking)
        return;
    server->is_looking = true;
    server->reactor->ops->timer_set(server->looker, server->head_ms / 4 + 1);
}
