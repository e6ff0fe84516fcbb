/*
 * server.c - libmicrohttpd on a reactor: starting, turning, connections, stopping; see
 * http_private.h.
 *
 * libmicrohttpd keeps its connections in an epoll set; the reactor watches that set, and a timer
 * does what libmicrohttpd wants to do later or at once again.
 *
 * A client has left when its socket reports a hang-up. On a unix socket that is the end of both
 * directions, so one that only shut down its sending side (as `nc -N` does) still gets its reply,
 * unless its request is incomplete (timeouts.c); TCP cannot distinguish the two, there the end of
 * its sending counts.
 */
#include "http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/str.h"
#include "base/worker.h"
#include "http/first_byte.h"
#include "http/http_private.h"
#include "http/tls.h"

/*
 * Of one connection; half of it is its read buffer. Must be at least LIMIT_HTTP_HEADERS. It is
 * mapped, but after a connection's first request libmicrohttpd writes zeros over all of it, so that
 * each kept connection costs this much, and each request that writing: 1,000 clients had 256 MB of
 * it when it was 256 KiB. Measured: up and down at 3 GB/s; 256 KiB at 4, more no faster.
 */
#define CONNECTION_MEMORY (128 * KIB)
/* Rounds in one turn of the loop while there is something to do at once. */
#define ROUNDS 8
#define FIRST_BYTE_MS 30000 /* where the head of a request has no time limit */
/*
 * With 1 libmicrohttpd 1.0 itself refuses, with its own page, some requests that 0.9.75 leaves to
 * us (docs/server.md). With 0 it would leave more of them to us, but accept a bare LF as the end of
 * a line, and 1.0.1 leaves the LF of a chunk's line with an extension unread: after "0;x" that LF
 * would end the trailers, and the trailers would be the next request. Seen with 1.0.1; with 1 it is
 * a 400.
 */
#define STRICT 1
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* How long it has nothing to do. */
static uint64_t wait_of(struct MHD_Daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;

    return daemon && MHD_get_timeout(daemon, &timeout_ms) == MHD_YES ? timeout_ms : UINT64_MAX;
}

static void turn(struct http_server *server)
{
    uint64_t wait_ms = 0;

    server->is_turning = true;
    for (int i = 0; i < ROUNDS && wait_ms == 0 && !server->is_stopping; i++) {
        server->is_woken = false;
        MHD_run(server->daemon);
        if (server->plain)
            MHD_run(server->plain);
        websocket_orphans_close(server);
        if (server->end_rounds > 0) {
            server->end_rounds--;
            server->is_woken = true;
        }
        if (server->is_woken)
            wait_ms = 0;
        else
            wait_ms = MIN(wait_of(server->daemon), wait_of(server->plain));
        if (wait_ms == 0 && !server->is_woken)
            http_timeouts_idle_round(server);
        else
            server->still_rounds = 0;
    }
    server->is_turning = false;
    if (server->is_stopping)
        http_server_free(server);
    else
        server->reactor->ops->timer_set(server->timer, wait_ms);
}

static void on_ready(void *ctx, short events)
{
    (void)events;
    turn(ctx);
}

static void on_due(void *ctx)
{
    turn(ctx);
}

static enum MHD_Result on_accept(void *cls, const struct sockaddr *address, socklen_t length)
{
    (void)length;
    return http_keyless_accept(cls, address) ? MHD_YES : MHD_NO;
}

/*
 * Under load libmicrohttpd misses the end of some connections (seen: 293 of 600 that left at once;
 * the cause is unknown, its epoll set is edge-triggered), which then stay until HTTP_IDLE_MS. So
 * this connection's timeout is set to zero and libmicrohttpd made to check its clock.
 */
static void let_go(struct link *link)
{
    struct http_server *server = link->server;

    MHD_set_connection_option(link->connection, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
    server->is_woken = true;
    server->reactor->ops->timer_set(server->timer, 0);
}

static void on_goodbye(void *ctx, short events)
{
    struct link *link = ctx;
    struct reactor_watch *watch;

    if (link->server->is_local && !(events & (POLLHUP | POLLERR)) && !link->half_ms) {
        link->half_ms = clock_now_ms(); /* timeouts.c */
        link->server->reactor->ops->watch_change(link->watch, 0);
        return;
    }
    /* It would be reported again and again. libmicrohttpd sees it too, unless it is suspended. */
    watch = ptr_take(&link->watch);
    link->server->reactor->ops->watch_remove(watch);
    link->is_gone = true; /* a request that it sent before may not have been read yet */
    if (link->request)
        http_request_lose(link->request);
    let_go(link);
}

/* Its address for logs, and as one that has no key yet. */
static bool name_peer(struct link *link)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } from = {0};
    socklen_t length = sizeof(from);
    char text[INET6_ADDRSTRLEN] = "";

    if (getpeername(link->fd, &from.any, &length) < 0)
        return true;
    if (from.any.sa_family == AF_INET && inet_ntop(AF_INET, &from.v4.sin_addr, text, sizeof(text)))
        str_format(link->peer, sizeof(link->peer), "%s:%u", text, ntohs(from.v4.sin_port));
    else if (from.any.sa_family == AF_INET6 &&
             inet_ntop(AF_INET6, &from.v6.sin6_addr, text, sizeof(text)))
        str_format(link->peer, sizeof(link->peer), "[%s]:%u", text, ntohs(from.v6.sin6_port));
    return http_keyless_add(link, &from.any);
}

static void link_free(struct link *link)
{
    struct http_server *server = link->server;

    http_keyless_leave(link);
    http_share_leave(link);
    server->evicted -= link->is_evicted;
    DLIST_UNLINK(server->links, link);
    server->reactor->ops->watch_remove(link->watch);
    tls_identity_drop(link->identity);
    free(link);
}

/* Whether it is one without TLS at an address that has both. */
static bool is_plain(const struct http_server *server, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_DAEMON);

    return server->plain && info && info->daemon == server->plain;
}

/* NULL: a request on this connection is not answered, and the connection closed. */
static struct link *link_new(struct http_server *server, struct MHD_Connection *connection)
{
    /* Read at once: libmicrohttpd 1.0 fills the same union for the next question. */
    int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    struct link *link = calloc(1, sizeof(*link));
    bool has_tls = server->identity && !is_plain(server, connection);

    if (!link)
        return NULL;
    link->server = server;
    link->connection = connection;
    link->fd = fd;
    link->since_ms = clock_now_ms();
    link->watch = reactor_watch(server->reactor, link->fd, POLLRDHUP, on_goodbye, link);
    if (link->watch && has_tls)
        link->identity = tls_identity_show(server->identity, connection);
    if (!link->watch || (has_tls && !link->identity) || !name_peer(link)) {
        link_free(link);
        return NULL;
    }
    DLIST_PUSH(server->links, link);
    http_timeouts_watch(server);
    return link;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = cls;
    struct link *link = *context;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        server->client_count--;
        if (link)
            link_free(link);
        *context = NULL;
        return;
    }
    server->client_count++;
    server->client_total++;
    *context = link_new(server, connection);
}

/* Called first, with the target as it was received. */
static void *on_target(void *cls, const char *target, struct MHD_Connection *connection)
{
    return http_request_new(cls, connection, target);
}

/* We decode targets (target.c), because only the undecoded one distinguishes %2F from a slash. */
static size_t keep_escaped(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls;
    (void)connection;
    return strlen(text);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *length, void **context)
{
    struct http_request *request = *context;

    (void)connection;
    (void)url;
    ((struct http_server *)cls)->still_rounds = 0;
    if (!request || request->is_gone || request->link->is_gone || request->server->is_stopping)
        return MHD_NO;
    if (!request->has_begun) {
        request->is_old = str_equal(version, MHD_HTTP_VERSION_1_0);
        return http_request_begin(request, method);
    }
    if (*length > 0)
        return http_request_data(request, data, length);
    return http_request_end(request);
}

static void tell_done(struct http_server *server, const struct http_request *request)
{
    struct http_done done = {
        .method = request->method,
        .path = http_path(request),
        .status = request->status,
        .bytes_in = request->body_received,
        .bytes = request->sent,
        .duration_us = (clock_now_ns() - request->started_ns) / 1000,
        .id = request->id,
        .trace_id = request->trace.id,
        .tenant = request->tenant,
        .row = http_row(request),
    };

    server->spec.done(server->spec.ctx, &done);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct http_server *server = cls;
    struct http_request *request = *context;

    (void)connection;
    (void)code;
    *context = NULL;
    if (!request)
        return;
    request->is_paused = false; /* it can not be woken any more */
    http_request_lose(request); /* unless it was answered, or for the end of its stream */
    if (server->spec.done && request->has_begun && !server->is_late)
        tell_done(server, request);
    if (request->watcher)
        request->watcher->over(request->watcher_ctx);
    if (request->keeper)
        request->keeper->over(request->keeper_ctx);
    http_request_free(request);
}

/* `listen_fd` -1: connections are given to it. */
static int start_daemon(struct http_server *server, const struct http_tls *tls, int listen_fd,
                        struct MHD_Daemon **ret, struct error *err)
{
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE |
                     (tls ? MHD_USE_TLS : 0) | (listen_fd < 0 ? MHD_USE_NO_LISTEN_SOCKET : 0);
    struct MHD_OptionItem options[] = {
        /* One over the maximum is closed by on_accept; here it would wait to be accepted. */
        {MHD_OPTION_CONNECTION_LIMIT,
         (intptr_t)server->spec.client_max + EVICTED_MAX + LATELY_RESERVE + 1, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, HTTP_IDLE_MS / 1000, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)on_completed, server},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, server},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)on_target, server},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)keep_escaped, server},
        {MHD_OPTION_STRICT_FOR_CLIENT, STRICT, NULL},
        {MHD_OPTION_END, 0, NULL}, /* room for what depends */
        {MHD_OPTION_END, 0, NULL},
        {MHD_OPTION_END, 0, NULL},
        {MHD_OPTION_END, 0, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem *at = options + ARRAY_SIZE(options) - 5;

    if (listen_fd >= 0)
        *at++ = (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, listen_fd, NULL};
    if (tls) {
        *at++ = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)tls->certificate};
        *at++ = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)tls->key};
        *at++ = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, TLS_PRIORITIES};
    }

    errno = 0;
    *ret = MHD_start_daemon(flags, 0, on_accept, server, on_request, server, MHD_OPTION_ARRAY,
                            options, MHD_OPTION_END);
    if (!*ret)
        return error_set(err, errno ? -errno : -EIO, ERROR_ENGINE, "the HTTP server did not start");
    return 0;
}

static int start_daemons(struct http_server *server, struct error *err)
{
    const struct http_tls *tls = server->spec.tls;
    bool has_both = tls && server->spec.takes_plain;
    int r = start_daemon(server, tls, has_both ? -1 : server->listen_fd, &server->daemon, err);

    return r == 0 && has_both ? start_daemon(server, NULL, -1, &server->plain, err) : r;
}

/* A connection of an address with both. One that is refused is closed by libmicrohttpd. */
static void on_first_byte(void *ctx, int fd, bool is_tls, const struct sockaddr *from,
                          socklen_t length)
{
    struct http_server *server = ctx;

    MHD_add_connection(is_tls ? server->daemon : server->plain, fd, from, length);
    server->reactor->ops->timer_set(server->timer, 0);
}

static struct reactor_watch *watch_daemon(struct http_server *server, struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);

    return info ? reactor_watch(server->reactor, info->epoll_fd, POLLIN, on_ready, server) : NULL;
}

static int attach_plain(struct http_server *server)
{
    const struct first_byte_spec spec = {
        .reactor = server->reactor,
        .listen_fd = server->listen_fd,
        .wait_ms = server->spec.head_ms ? server->spec.head_ms : FIRST_BYTE_MS,
        .accepted = on_first_byte,
        .ctx = server,
    };

    server->plain_watch = watch_daemon(server, server->plain);
    server->first_byte = server->plain_watch ? first_byte_new(&spec) : NULL;
    return server->first_byte ? 0 : -ENOMEM;
}

static int attach(struct http_server *server)
{
    server->timer = reactor_timer(server->reactor, on_due, server);
    server->worker = worker_new(server->reactor);
    if (!server->timer || !server->worker || !http_turns_start(server) ||
        !http_timeouts_start(server) || !http_refusal_delay_start(server))
        return -ENOMEM;
    server->watch = watch_daemon(server, server->daemon);
    if (!server->watch)
        return -ENOMEM;
    return server->plain ? attach_plain(server) : 0;
}

static bool is_unix(int fd)
{
    int domain = 0;
    socklen_t length = sizeof(domain);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

int http_server_start(struct reactor *reactor, const struct http_server_spec *spec,
                      struct http_server **ret, struct error *err)
{
    struct http_server *server = calloc(1, sizeof(*server));
    int r;

    if (!server)
        return error_memory(err);
    server->reactor = reactor;
    server->spec = *spec;
    server->is_local = is_unix(spec->listen_fd);
    server->listen_fd = fcntl(spec->listen_fd, F_DUPFD_CLOEXEC, 3);
    r = server->listen_fd < 0 ? error_errno(err, "the HTTP server's socket") : 0;
    if (r == 0)
        r = fd_set_nonblocking(server->listen_fd, true);
    if (r == 0 && route_compile(spec->routes, spec->route_count, &server->table) < 0)
        r = error_memory(err);
    if (r == 0 && spec->tls)
        r = tls_identity_new(spec->tls, &server->identity, err);
    if (r == 0)
        r = start_daemons(server, err);
    server->spec.tls = NULL; /* libmicrohttpd has read it, and it is the caller's */
    if (r == 0 && attach(server) < 0)
        r = error_memory(err);
    if (r < 0) {
        http_server_stop(server);
        return r;
    }
    *ret = server;
    return 0;
}

void http_server_quiesce(struct http_server *server)
{
    if (server->listen_fd < 0)
        return;
    first_byte_free(ptr_take(&server->first_byte));
    if (server->daemon && !server->plain)
        MHD_quiesce_daemon(server->daemon); /* gives the socket back */
    fd_closep(&server->listen_fd);
    server->listen_fd = -1;
}

uint64_t http_server_clients_ever(const struct http_server *server)
{
    return server->client_total;
}

unsigned http_server_clients(const struct http_server *server)
{
    return server->client_count;
}

const char *http_library_version(void)
{
    return MHD_get_version();
}

void http_server_free(struct http_server *server)
{
    if (server->daemon) {
        /*
         * Closed WebSockets are dismantled here; over TLS that takes libmicrohttpd more than one
         * round.
         */
        for (int i = 0; i < ROUNDS; i++) {
            websocket_orphans_close(server);
            MHD_run(server->daemon);
            if (server->plain)
                MHD_run(server->plain);
        }
        websocket_orphans_close(server);
        MHD_stop_daemon(server->daemon);
        if (server->plain)
            MHD_stop_daemon(server->plain);
    }
    worker_free(server->worker);
    http_turns_stop(server);
    server->reactor->ops->watch_remove(server->watch);
    server->reactor->ops->watch_remove(server->plain_watch);
    server->reactor->ops->timer_remove(server->timer);
    server->reactor->ops->timer_remove(server->looker);
    server->reactor->ops->timer_remove(server->holder);
    tls_identity_drop(server->identity);
    route_table_free(server->table);
    free(server->lately);
    free(server);
}

int http_server_set_tls(struct http_server *server, const struct http_tls *tls, struct error *err)
{
    struct tls_identity *identity = NULL;
    int r;

    if (!server->identity)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "a listener without TLS cannot be switched to TLS");
    r = tls_identity_new(tls, &identity, err);
    if (r < 0)
        return r;
    tls_identity_drop(server->identity);
    server->identity = identity;
    return 0;
}

void http_server_stop(struct http_server *server)
{
    if (!server || server->is_stopping)
        return;
    server->is_stopping = true;
    http_server_quiesce(server);
    /* libmicrohttpd does not survive being stopped with suspended connections. */
    for (struct http_request *next, *request = server->requests; request; request = next) {
        next = request->next;
        http_request_lose(request);
    }
    if (server->is_turning)
        server->is_late = true; /* turn() does the rest, and the handlers' ctx may be gone then */
    else
        http_server_free(server);
}
