/*
 * pump.c - moves whole frames between a box's channel and its backend's stream.
 *
 * Buffers are bounded: while one side does not take data, the other is not read. A frame that the
 * channel has no room for stays in `frames`; one that the stream has no room for stays in `out`.
 * The stream's own watch asks for the events it needs; TLS may hold bytes that make no socket
 * ready, so reading goes on until -EAGAIN. But not without limit: one busy box must not keep the
 * others from being served. After READS_PER_TURN the rest waits for the loop's next turn.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "runtime/host/host_private.h"

#define READS_PER_TURN 4

static void over(struct pump *pump, int num)
{
    if (pump->is_over)
        return;
    pump->is_over = true;
    pump->ended(pump->ctx, num);
}

static void update(struct pump *pump)
{
    short stream = 0, fd = 0;

    if (pump->is_over)
        return;
    if (!pump->has_frame)
        stream |= POLLIN;
    if (pump->out_length > pump->out_at)
        stream |= POLLOUT;
    else if (pump->is_attached)
        fd |= POLLIN;
    if (pump->has_frame)
        fd |= POLLOUT;
    if (stream != pump->wants_stream)
        pump->ops->want(pump->stream, stream);
    if (pump->watch && fd != pump->wants_fd)
        pump->reactor->ops->watch_change(pump->watch, fd);
    pump->wants_stream = stream;
    pump->wants_fd = fd;
}

/* ---- from the box ---- */

/* 1: taken; 0: no room; negative: the box is lost. */
static int deliver(struct pump *pump, const struct frame *frame)
{
    ssize_t sent;

    if (frame->type == FRAME_LOST) /* only the host may send it */
        return -EPROTO;
    if (!pump->is_attached) {
        int r = pump->early(pump->ctx, frame);

        return r < 0 ? r : 1;
    }
    sent = send(pump->fd, pump->frames.data, FRAME_HEADER + frame->length,
                MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0 && pump->passed)
        pump->passed(pump->ctx, frame);
    if (sent >= 0)
        return 1;
    /* The host holds the other end too, so it can fail only after a shutdown. */
    return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? 0 : -EPIPE;
}

/* Bytes of frames; fewer are taken if the channel is full. */
static ssize_t feed(struct pump *pump, const uint8_t *data, size_t length)
{
    size_t taken = 0;

    while (taken < length && !pump->has_frame && !pump->is_over) {
        struct frame frame;
        int r;

        taken += frame_stream_feed(&pump->frames, data + taken, length - taken);
        r = frame_stream_next(&pump->frames, &frame);
        if (r > 0) {
            r = deliver(pump, &frame);
            pump->has_frame = r == 0;
        }
        if (r < 0)
            return r;
    }
    return (ssize_t)taken;
}

/* Handles bytes that were read before. */
static int digest(struct pump *pump)
{
    while (pump->in_at < pump->in_length && !pump->has_frame && !pump->is_over) {
        ssize_t fed = feed(pump, pump->in + pump->in_at, pump->in_length - pump->in_at);

        if (fed < 0)
            return (int)fed;
        pump->in_at += (size_t)fed;
    }
    return 0;
}

static void on_more(void *ctx)
{
    host_pump_ready(ctx, POLLIN);
}

/*
 * True: continues later. Not by the socket's events: bytes that TLS has decoded are not in the
 * socket any more.
 */
static bool rest_waits(struct pump *pump)
{
    if (!pump->more)
        pump->more = reactor_timer(pump->reactor, on_more, pump);
    if (pump->more)
        pump->reactor->ops->timer_set(pump->more, 0);
    return pump->more;
}

static void pull(struct pump *pump)
{
    for (unsigned reads = 1; !pump->is_over && !pump->has_frame; reads++) {
        ssize_t length;
        int r = digest(pump);

        if (pump->is_over)
            return;
        if (r < 0) {
            over(pump, r);
            return;
        }
        if (pump->has_frame || (reads > READS_PER_TURN && rest_waits(pump)))
            return;
        length = pump->ops->read(pump->stream, pump->in, sizeof(pump->in));
        if (length == -EAGAIN)
            return;
        if (length <= 0) {
            over(pump, (int)length);
            return;
        }
        pump->in_at = 0;
        pump->in_length = (size_t)length;
    }
}

/* ---- to the box ---- */

/* False: the stream is full or closed. */
static bool flush(struct pump *pump)
{
    while (pump->out_at < pump->out_length) {
        ssize_t sent = pump->ops->write(pump->stream, pump->out + pump->out_at,
                                        pump->out_length - pump->out_at);

        if (sent == -EAGAIN)
            return false;
        if (sent < 0) {
            over(pump, (int)sent);
            return false;
        }
        pump->out_at += (size_t)sent;
    }
    pump->out_at = pump->out_length = 0;
    return true;
}

/* Sends as many frames as there are; small ones together. */
static void push(struct pump *pump)
{
    while (!pump->is_over && flush(pump) && pump->is_attached) {
        ssize_t length = recv(pump->fd, pump->out, sizeof(pump->out), MSG_DONTWAIT | MSG_TRUNC);
        struct frame frame;

        if (length < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (length <= 0 || length > (ssize_t)sizeof(pump->out) ||
            frame_decode(pump->out, (size_t)length, &frame) < 0) {
            over(pump, length < 0 ? -errno : -EPROTO);
            return;
        }
        pump->out_length = (size_t)length;
    }
}

int host_pump_send(struct pump *pump, enum frame_type type, uint32_t id, const void *payload,
                   size_t length)
{
    if (pump->is_over)
        return -EPIPE;
    if (length + FRAME_HEADER > sizeof(pump->out) - pump->out_length)
        return -ENOBUFS;
    frame_header(pump->out + pump->out_length, type, id, length);
    if (length > 0)
        memcpy(pump->out + pump->out_length + FRAME_HEADER, payload, length);
    pump->out_length += FRAME_HEADER + length;
    flush(pump);
    update(pump);
    return pump->is_over ? -EPIPE : 0;
}

/* ---- events ---- */

static void on_channel(void *ctx, short events)
{
    struct pump *pump = ctx;

    if ((events & POLLOUT) && pump->has_frame) {
        struct frame frame;
        int r = frame_stream_next(&pump->frames, &frame) > 0 ? deliver(pump, &frame) : -EPROTO;

        if (r < 0) {
            over(pump, r);
            return;
        }
        pump->has_frame = r == 0;
        pull(pump);
    }
    if (events & POLLIN)
        push(pump);
    else if (events & (POLLHUP | POLLERR) && !(events & POLLOUT))
        over(pump, -EPIPE); /* impossible, because the host holds the other end too */
    update(pump);
}

void host_pump_ready(struct pump *pump, short events)
{
    if (pump->is_over)
        return;
    if (events & POLLOUT)
        push(pump);
    if (!pump->is_over && (events & (POLLIN | POLLHUP | POLLERR)))
        pull(pump);
    update(pump);
}

void host_pump_start(struct pump *pump)
{
    pump->wants_stream = -1;
    host_pump_ready(pump, POLLIN);
}

int host_pump_give(struct pump *pump)
{
    pump->is_attached = true;
    pump->wants_fd = POLLIN;
    pump->watch = reactor_watch(pump->reactor, pump->fd, POLLIN, on_channel, pump);
    if (!pump->watch)
        return -ENOMEM;
    update(pump);
    return 0;
}

void host_pump_halt(struct pump *pump)
{
    pump->is_over = true;
    if (pump->reactor) {
        pump->reactor->ops->watch_remove(pump->watch);
        pump->reactor->ops->timer_remove(pump->more);
    }
    pump->watch = NULL;
    pump->more = NULL;
    if (pump->stream)
        pump->ops->close(pump->stream);
    pump->stream = NULL;
}

void host_pump_farewell(struct pump *pump, enum launcher_why why)
{
    uint8_t header[FRAME_HEADER];

    frame_header(header, FRAME_LOST, why, 0);
    if (why != WHY_UNKNOWN &&
        pump->fd >= 0) /* without room the end of the channel has to suffice */
        (void)!send(pump->fd, header, sizeof(header), MSG_DONTWAIT | MSG_NOSIGNAL);
    fd_closep(&pump->fd);
    pump->fd = -1;
}

void host_pump_stop(struct pump *pump)
{
    host_pump_halt(pump);
    fd_closep(&pump->fd);
    pump->fd = -1;
}
