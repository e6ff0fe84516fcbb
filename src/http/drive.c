/*
 * drive.c - a client whose exchanges run in a reactor's loop.
 *
 * libcurl says which sockets and which moment it waits for (curl_multi_socket_action(3)); each
 * socket has a watch, and one timer is for the moment and for exchanges that were started or
 * cancelled since.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/list.h"
#include "http/exchange.h"

struct http_socket {
    struct http_socket *next;
    struct http_client *client;
    struct reactor_watch *watch;
    curl_socket_t fd;
};

/* Events for libcurl, and the exchanges that it then reports. */
static void turn(struct http_client *client, curl_socket_t fd, int events)
{
    int running;

    client->is_inside = true;
    curl_multi_socket_action(client->multi, fd, events, &running);
    client->is_inside = false;
    client_messages(client);
    client_settle(client);
}

static void on_socket(void *ctx, short events)
{
    struct http_socket *socket = ctx;
    int what = 0;

    if (events & (POLLIN | POLLHUP))
        what |= CURL_CSELECT_IN;
    if (events & POLLOUT)
        what |= CURL_CSELECT_OUT;
    if (events & POLLERR)
        what |= CURL_CSELECT_ERR;
    turn(socket->client, socket->fd, what);
}

static void socket_free(struct http_socket *socket)
{
    struct http_client *client = socket->client;

    LIST_UNLINK(client->sockets, socket);
    client->reactor->ops->watch_remove(socket->watch);
    free(socket);
}

/* libcurl: this is what is waited for on a socket. */
static int socket_wanted(CURL *easy, curl_socket_t fd, int what, void *ctx, void *given)
{
    struct http_client *client = ctx;
    struct http_socket *socket = given;
    short events =
        (short)((what & CURL_POLL_IN ? POLLIN : 0) | (what & CURL_POLL_OUT ? POLLOUT : 0));

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (socket)
            socket_free(socket);
        return 0;
    }
    if (socket) {
        client->reactor->ops->watch_change(socket->watch, events);
        return 0;
    }
    socket = calloc(1, sizeof(*socket));
    if (!socket)
        return -1;
    *socket = (struct http_socket){.next = client->sockets, .client = client, .fd = fd};
    socket->watch = reactor_watch(client->reactor, fd, events, on_socket, socket);
    if (!socket->watch) {
        free(socket);
        return -1;
    }
    client->sockets = socket;
    curl_multi_assign(client->multi, fd, socket);
    return 0;
}

static int time_wanted(CURLM *multi, long delay_ms, void *ctx)
{
    struct http_client *client = ctx;

    (void)multi;
    if (client->timer)
        client->reactor->ops->timer_set(client->timer,
                                        delay_ms < 0 ? UINT64_MAX : (uint64_t)delay_ms);
    return 0;
}

/* libcurl learns of the timeout after new ones were added: adding them sets the timer again. */
static void on_time(void *ctx)
{
    struct http_client *client = ctx;

    client_settle(client);
    turn(client, CURL_SOCKET_TIMEOUT, 0);
}

int drive_start(struct http_client *client)
{
    client->timer = reactor_timer(client->reactor, on_time, client);
    if (!client->timer)
        return -ENOMEM;
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, socket_wanted);
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, time_wanted);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
    return 0;
}

void drive_end(struct http_client *client)
{
    while (client->sockets)
        socket_free(client->sockets);
    if (client->timer)
        client->reactor->ops->timer_remove(client->timer);
}

void http_client_drop(struct http_client *client)
{
    if (!client->is_inside)
        client_settle(client);
}

void drive_soon(struct http_client *client)
{
    if (client->timer)
        client->reactor->ops->timer_set(client->timer, 0);
}
