/*
 * port.c - connections to the ports of the box's loopback, for the host: CONNECT, and bytes both
 * ways.
 *
 * Theory of operation. Bytes of the host wait in `waiting` until the guest's server takes them, at
 * most a window of them. Bytes of the server stay in the kernel's socket until the channel has room
 * and the host's window too: they are looked at (MSG_PEEK), sent, and only then taken, so that
 * nothing is kept here. DONE follows the server's last byte. Only 127.0.0.1 and ::1 are ever
 * connected to, and only where the box has a network of its own: without one they would be the
 * host's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/list.h"
#include "warden/warden_private.h"

struct port_stream {
    struct loop_source source; /* its first member */
    struct port_stream *next;
    struct warden *warden;
    uint32_t id;
    int fd;
    uint16_t port;
    bool is_connected;
    bool is_ipv6;
    bool is_readable;        /* the server sent something, or has closed */
    bool is_hung_up;         /* both ways: out of the loop, which would report it without end */
    struct buf waiting;      /* bytes that the server has not taken yet */
    uint64_t received, told; /* from the host; acknowledged to it */
    bool has_end;            /* the host sends no more */
    bool is_shut;            /* and the server knows */
    uint64_t sent, acked;    /* to the host */
};

static struct port_stream *find(const struct warden *warden, uint32_t id)
{
    struct port_stream *stream = warden->ports;

    while (stream && stream->id != id)
        stream = stream->next;
    return stream;
}

static void stream_free(struct port_stream *stream)
{
    struct warden *warden = stream->warden;

    LIST_UNLINK(warden->ports, stream);
    loop_remove(&warden->loop, &stream->source);
    fd_closep(&stream->fd);
    buf_free(&stream->waiting);
    free(stream);
}

static void end(struct port_stream *stream, int negative_errno)
{
    channel_done(stream->warden, stream->id, negative_errno);
    stream_free(stream);
}

/* ---- what is watched ---- */

static uint32_t wanted_events(const struct port_stream *stream)
{
    if (!stream->is_connected)
        return EPOLLOUT;
    return (stream->is_readable ? 0 : (uint32_t)EPOLLIN) |
           (stream->waiting.length > 0 ? (uint32_t)EPOLLOUT : 0);
}

static void watch(struct port_stream *stream)
{
    struct loop *loop = &stream->warden->loop;

    if (stream->is_hung_up)
        loop_remove(loop, &stream->source);
    else if (loop_change(loop, &stream->source, wanted_events(stream)) < 0)
        warden_end(stream->warden);
}

/* ---- to the server ---- */

/* What it reads no more is dropped: the host learns of it by DONE. */
static void write_waiting(struct port_stream *stream)
{
    while (stream->waiting.length > 0) {
        ssize_t length =
            send(stream->fd, stream->waiting.data, stream->waiting.length, MSG_NOSIGNAL);

        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 && errno == EAGAIN)
            break;
        if (length < 0)
            buf_clear(&stream->waiting);
        else
            buf_consume(&stream->waiting, (size_t)length);
    }
    if (stream->waiting.length == 0 && stream->has_end && !stream->is_shut) {
        stream->is_shut = true;
        shutdown(stream->fd, SHUT_WR);
    }
}

static void pass_on(struct port_stream *stream)
{
    uint64_t taken;

    if (!stream->is_connected)
        return;
    write_waiting(stream);
    taken = stream->received - stream->waiting.length;
    if (taken != stream->told) {
        stream->told = taken;
        channel_ack(stream->warden, stream->id, 0, taken);
    }
    watch(stream);
}

void port_data(struct warden *warden, const struct frame *frame)
{
    struct port_stream *stream = find(warden, frame->id);
    struct message_bytes bytes;

    if (message_bytes_unpack(frame, &bytes) < 0 || bytes.stream != 0)
        warden_end(warden);
    if (!stream)
        return; /* it has ended meanwhile */
    if (bytes.offset != stream->received || stream->has_end ||
        buf_append(&stream->waiting, bytes.data, bytes.length) < 0)
        warden_end(warden);
    stream->received += bytes.length;
    pass_on(stream);
}

void port_end(struct warden *warden, const struct frame *frame)
{
    struct port_stream *stream = find(warden, frame->id);

    if (frame->length != 0)
        warden_end(warden);
    if (!stream)
        return;
    stream->has_end = true;
    pass_on(stream);
}

/* ---- from the server ---- */

/* At most one frame; true when it did something. The stream may be gone afterwards. */
static bool produce(struct port_stream *stream)
{
    static char data[FRAME_DATA_MAX]; /* one thread */
    struct warden *warden = stream->warden;
    size_t room = WIRE_PORT_WINDOW - (size_t)(stream->sent - stream->acked);
    ssize_t length;

    if (!stream->is_readable || room == 0 || !file_has_room(warden))
        return false;
    do
        length = recv(stream->fd, data, MIN(room, sizeof(data)), MSG_PEEK);
    while (length < 0 && errno == EINTR);
    if (length < 0 && errno == EAGAIN) {
        stream->is_readable = false;
        watch(stream);
        return false;
    }
    if (length <= 0) {
        end(stream, length < 0 ? -errno : 0);
        return true;
    }
    if (!channel_bytes(warden, FRAME_PORT_DATA, stream->id, 0, stream->sent, data, (size_t)length))
        return false; /* looked at again when there is room */
    stream->sent += (uint64_t)length;
    (void)!recv(stream->fd, data, (size_t)length, 0); /* they are there: nothing else reads it */
    return true;
}

bool port_produce(struct warden *warden)
{
    struct port_stream *next;
    bool progress = false;

    for (struct port_stream *stream = warden->ports; stream; stream = next) {
        next = stream->next;
        progress |= produce(stream);
    }
    return progress;
}

bool port_ack(struct warden *warden, uint32_t id, const struct message_ack *ack)
{
    struct port_stream *stream = find(warden, id);

    if (!stream)
        return false;
    if (ack->stream != 0 || ack->offset < stream->acked || ack->offset > stream->sent)
        warden_end(warden);
    stream->acked = ack->offset;
    return true;
}

/* ---- connecting ---- */

/* Begins; 0, or a negative errno. */
static int dial(struct port_stream *stream)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_port = htons(stream->port),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons(stream->port),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct sockaddr *address =
        stream->is_ipv6 ? (const struct sockaddr *)&v6 : (const struct sockaddr *)&v4;
    socklen_t length = stream->is_ipv6 ? sizeof(v6) : sizeof(v4);

    loop_remove(&stream->warden->loop, &stream->source);
    fd_closep(&stream->fd);
    stream->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (stream->fd < 0)
        return -errno;
    if (connect(stream->fd, address, length) < 0 && errno != EINPROGRESS)
        return -errno;
    return loop_add(&stream->warden->loop, &stream->source, stream->fd, EPOLLOUT);
}

/* A server may listen on one of the two addresses only. */
static int dial_any(struct port_stream *stream)
{
    int r = dial(stream);

    if (r != -ECONNREFUSED || stream->is_ipv6)
        return r;
    stream->is_ipv6 = true;
    r = dial(stream);
    return r < 0 ? -ECONNREFUSED : 0; /* a box without IPv6 says something else */
}

static void connected(struct port_stream *stream)
{
    int error = 0;
    socklen_t length = sizeof(error);

    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        error = errno;
    if (error == ECONNREFUSED && !stream->is_ipv6) {
        stream->is_ipv6 = true;
        if (dial(stream) == 0)
            return;
    }
    if (error) {
        end(stream, -error);
        return;
    }
    stream->is_connected = true;
    channel_control(stream->warden, FRAME_CONNECTED, stream->id, NULL, 0);
    pass_on(stream);
}

static void on_ready(struct loop_source *source, uint32_t events)
{
    struct port_stream *stream = (struct port_stream *)source; /* its first member */

    if (!stream->is_connected) {
        connected(stream);
        return;
    }
    if (events & (EPOLLHUP | EPOLLERR))
        stream->is_hung_up = true;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        stream->is_readable = true; /* produce() finds out what it is */
    pass_on(stream);
}

static unsigned count(const struct warden *warden)
{
    unsigned count = 0;

    for (const struct port_stream *stream = warden->ports; stream; stream = stream->next)
        count++;
    return count;
}

/* 0: a connection may be made for the host now. */
static int check(const struct warden *warden)
{
    if (!(warden->sandbox->layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS)))
        return -EPERM;
    return count(warden) >= LIMIT_PORT_STREAMS ? -EAGAIN : 0;
}

void port_connect(struct warden *warden, const struct frame *frame)
{
    struct port_stream *stream;
    uint16_t port;
    int r;

    if (message_port_unpack(frame, &port) < 0 || frame->id == 0 || find(warden, frame->id))
        warden_end(warden);
    r = check(warden);
    if (r < 0) {
        channel_done(warden, frame->id, r);
        return;
    }
    stream = calloc(1, sizeof(*stream));
    if (!stream)
        warden_end(warden);
    *stream = (struct port_stream){
        .source = {.fd = -1, .ready = on_ready},
        .next = warden->ports,
        .warden = warden,
        .id = frame->id,
        .fd = -1,
        .port = port,
        .waiting = BUF_INIT(WIRE_PORT_WINDOW),
    };
    warden->ports = stream;
    r = dial_any(stream);
    if (r < 0)
        end(stream, r);
}

bool port_cancel(struct warden *warden, uint32_t id)
{
    struct port_stream *stream = find(warden, id);

    if (stream)
        end(stream, -ECANCELED);
    return stream;
}

void port_forget_all(struct warden *warden)
{
    while (warden->ports)
        stream_free(warden->ports);
}
