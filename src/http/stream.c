/*
 * stream.c - a connection that HTTP has released; see stream.h.
 *
 * libcurl makes the connection (CURLOPT_CONNECT_ONLY) and does TLS if there is any; the request and
 * the head of its reply are ours. Without TLS the socket is used directly, and only that is kept: a
 * connection that libcurl has made in this way counts as idle, and it closes it at some later call
 * of any client when it is 118 s old or the other side has closed it (curl 7.88,
 * prune_dead_connections()), and its descriptor number is then reused. With TLS the connection has
 * to stay; our duplicate of the socket is then at least ours alone, and from the request on it is
 * not idle any more: curl_easy_send() removes it from the idle ones.
 */
#include "http/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "http/exchange.h"

struct http_stream {
    struct http_client *client;
    struct http_stream *next;
    CURL *easy;
    int fd; /* a duplicate of libcurl's */
    struct reactor_watch *watch;
    const struct http_stream_events *events;
    void *ctx;
    struct buf out; /* the request, as far as it is not sent */
    struct buf in;  /* the head; then what followed it */
    bool is_added, is_closed, is_busy, is_open;
    short wanted;
    bool is_hung_up; /* its end was reported and nothing is wanted: it has no watch, which would
                        report that forever */
    char why[CURL_ERROR_SIZE];
};

/* libcurl closes its own descriptor of the socket, if it still has one. */
static void easy_free(struct http_stream *stream)
{
    if (stream->is_added)
        curl_multi_remove_handle(stream->client->multi, stream->easy);
    curl_easy_cleanup(stream->easy);
    stream->is_added = false;
    stream->easy = NULL;
}

static void stream_free(struct http_stream *stream)
{
    struct http_client *client = stream->client;

    client->reactor->ops->watch_remove(stream->watch);
    easy_free(stream);
    fd_closep(&stream->fd);
    buf_free(&stream->out);
    buf_free(&stream->in);
    free(stream);
}

static int set_request(struct http_stream *stream, const struct http_call *call)
{
    const char *host = strstr(stream->client->base, "://") + 3;
    int r =
        buf_printf(&stream->out, "%s %s HTTP/1.1\r\nHost: %s\r\n", call->method, call->path, host);

    for (const char *const *header = call->headers; r == 0 && header && *header; header++)
        r = buf_printf(&stream->out, "%s\r\n", *header);
    if (r == 0)
        r = buf_append_text(&stream->out, "Connection: Upgrade\r\nUpgrade: tcp\r\n"
                                          "Content-Length: 0\r\n\r\n");
    return r;
}

int http_stream_open(struct http_client *client, const struct http_call *call,
                     const struct http_stream_events *events, void *ctx, struct http_stream **ret,
                     struct error *err)
{
    struct http_stream *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return error_memory(err);
    *stream = (struct http_stream){.client = client,
                                   .fd = -1,
                                   .events = events,
                                   .ctx = ctx,
                                   .out = BUF_INIT(LIMIT_HTTP_HEADERS),
                                   .in = BUF_INIT(LIMIT_HTTP_HEAD)};
    stream->easy = curl_easy_init();
    if (!stream->easy || !client_place_apply(client, stream->easy, "/") ||
        curl_easy_setopt(stream->easy, CURLOPT_CONNECT_ONLY, 1L) != CURLE_OK ||
        set_request(stream, call) < 0) {
        stream_free(stream);
        return error_memory(err);
    }
    curl_easy_setopt(stream->easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(stream->easy, CURLOPT_ERRORBUFFER, stream->why);
    stream->next = client->streams;
    client->streams = stream;
    drive_soon(client);
    *ret = stream;
    return 0;
}

void http_stream_close(struct http_stream *stream)
{
    if (!stream)
        return;
    stream->is_closed = true; /* libcurl may be calling: client_settle() frees it */
    stream->client->reactor->ops->watch_remove(stream->watch);
    stream->watch = NULL;
    if (stream->fd >= 0)
        shutdown(stream->fd, SHUT_RDWR); /* the other side may know at once */
    drive_soon(stream->client);
}

int streams_settle(struct http_client *client)
{
    struct http_stream **at = &client->streams;

    while (*at) {
        struct http_stream *stream = *at;

        if (stream->is_closed && !stream->is_busy) {
            *at = stream->next;
            stream_free(stream);
            continue;
        }
        if (stream->easy && !stream->is_added && !stream->is_closed) {
            if (curl_multi_add_handle(client->multi, stream->easy) != CURLM_OK)
                return -ENOMEM;
            stream->is_added = true;
        }
        at = &stream->next;
    }
    return 0;
}

void streams_end(struct http_client *client)
{
    while (client->streams) {
        struct http_stream *stream = client->streams;

        client->streams = stream->next;
        stream_free(stream);
    }
}

/* ---- bytes ---- */

static ssize_t raw_read(struct http_stream *stream, void *data, size_t size)
{
    size_t length = 0;
    CURLcode r;

    if (!stream->client->has_tls) {
        ssize_t got = recv(stream->fd, data, size, MSG_DONTWAIT);

        return got < 0 ? (errno == EINTR ? -EAGAIN : -errno) : got;
    }
    r = curl_easy_recv(stream->easy, data, size, &length);
    if (r == CURLE_AGAIN)
        return -EAGAIN;
    return r == CURLE_OK ? (ssize_t)length : -ECONNRESET;
}

ssize_t http_stream_read(struct http_stream *stream, void *data, size_t size)
{
    if (stream->in.length > 0) {
        size_t part = MIN(size, stream->in.length);

        memcpy(data, stream->in.data, part);
        buf_consume(&stream->in, part);
        return (ssize_t)part;
    }
    return raw_read(stream, data, size);
}

ssize_t http_stream_write(struct http_stream *stream, const void *data, size_t length)
{
    size_t sent = 0;
    CURLcode r;

    if (!stream->client->has_tls) {
        ssize_t put = send(stream->fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);

        return put < 0 ? (errno == EINTR ? -EAGAIN : -errno) : put;
    }
    r = curl_easy_send(stream->easy, data, length, &sent);
    if (r == CURLE_AGAIN)
        return -EAGAIN;
    return r == CURLE_OK ? (ssize_t)sent : -ECONNRESET;
}

static void on_ready(void *ctx, short events);

void http_stream_want(struct http_stream *stream, short events)
{
    stream->wanted = events;
    if (stream->watch) {
        stream->client->reactor->ops->watch_change(stream->watch, events);
    } else if (stream->is_hung_up && events) {
        stream->watch =
            reactor_watch(stream->client->reactor, stream->fd, events, on_ready, stream);
        stream->is_hung_up = !stream->watch; /* no memory: the next time */
    }
}

/* ---- the request and the head of its reply ---- */

static void fail_with(struct http_stream *stream, const struct error *err)
{
    if (stream->watch)
        stream->client->reactor->ops->watch_remove(stream->watch);
    stream->watch = NULL;
    stream->events->failed(stream->ctx, err);
}

static void fail(struct http_stream *stream, int num, const char *why)
{
    struct error err = {0};

    error_set(&err, num, ERROR_ENGINE, "%s", why);
    fail_with(stream, &err);
}

/* The status of a complete head, whose bytes are removed; 0: not yet; -EPROTO. */
static int take_head(struct http_stream *stream)
{
    const char *end =
        stream->in.length ? memmem(stream->in.data, stream->in.length, "\r\n\r\n", 4) : NULL;
    unsigned status;

    if (!end)
        return stream->in.length < stream->in.maximum ? 0 : -EPROTO;
    if (sscanf(stream->in.data, "HTTP/1.%*1[01] %3u", &status) != 1 || status < 100)
        return -EPROTO;
    buf_consume(&stream->in, (size_t)(end + 4 - stream->in.data));
    return (int)status;
}

static void read_head(struct http_stream *stream)
{
    char data[2048];
    int status = 0;

    while (status == 0) {
        size_t room = MIN(sizeof(data), stream->in.maximum - stream->in.length);
        ssize_t length = raw_read(stream, data, room);

        if (length == -EAGAIN)
            return;
        if (length <= 0 || buf_append(&stream->in, data, (size_t)length) < 0) {
            fail(stream, -ECONNRESET, "the connection was closed");
            return;
        }
        status = take_head(stream);
    }
    if (status < 0) {
        fail(stream, -EPROTO, "the answer is not HTTP");
        return;
    }
    stream->is_open = true;
    http_stream_want(stream, POLLIN);
    stream->events->opened(stream->ctx, (unsigned)status);
}

static void send_request(struct http_stream *stream)
{
    while (stream->out.length > 0) {
        ssize_t sent = http_stream_write(stream, stream->out.data, stream->out.length);

        if (sent == -EAGAIN)
            return;
        if (sent < 0) {
            fail(stream, -ECONNRESET, "the connection was closed");
            return;
        }
        buf_consume(&stream->out, (size_t)sent);
    }
    http_stream_want(stream, POLLIN);
    read_head(stream);
}

static void ready(struct http_stream *stream, short events)
{
    stream->events->ready(stream->ctx, events);
    if (!(events & (POLLHUP | POLLERR)) || stream->wanted || !stream->watch)
        return;
    stream->client->reactor->ops->watch_remove(stream->watch);
    stream->watch = NULL;
    stream->is_hung_up = true;
}

static void on_ready(void *ctx, short events)
{
    struct http_stream *stream = ctx;

    stream->is_busy = true;
    if (stream->is_open)
        ready(stream, events);
    else if (stream->out.length > 0)
        send_request(stream);
    else
        read_head(stream);
    stream->is_busy = false;
}

static void connected(struct http_stream *stream)
{
    curl_socket_t fd = CURL_SOCKET_BAD;

    curl_easy_getinfo(stream->easy, CURLINFO_ACTIVESOCKET, &fd);
    stream->fd = fd == CURL_SOCKET_BAD ? -1 : fcntl((int)fd, F_DUPFD_CLOEXEC, 3);
    if (!stream->client->has_tls)
        easy_free(stream);
    if (stream->fd >= 0)
        stream->watch =
            reactor_watch(stream->client->reactor, stream->fd, POLLOUT, on_ready, stream);
    if (!stream->watch)
        fail(stream, -ENOMEM, "out of memory");
}

bool streams_done(struct http_client *client, CURL *easy, CURLcode code)
{
    struct http_stream *stream = client->streams;
    struct error err = {0};

    while (stream && stream->easy != easy)
        stream = stream->next;
    if (!stream || stream->is_closed)
        return stream != NULL;
    if (code == CURLE_OK) {
        connected(stream);
    } else {
        client_curl_error(client, easy, code, stream->why, &err);
        fail_with(stream, &err);
    }
    return true;
}
