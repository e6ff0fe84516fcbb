/*
 * stream.c - the channel as two byte streams: a pipe to read from, one to write to.
 *
 * Theory of operation. A pipe may accept only a part of a frame. The remainder is in `rest` and is
 * sent before anything else; until then the channel counts as blocked, so there is never more than
 * one such frame, and control frames still come before bytes. A new host that sends HELLO makes us
 * drop the frames that wait, but never the remainder of one that has begun.
 *
 * Frames arrive in any pieces and are assembled by wire/frame.h. End of file is the end of the box.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "warden/warden_private.h"

#define READ_BYTES (128 * KIB)

struct stream {
    struct loop_source out; /* the reading one is warden->channel */
    struct warden *warden;
    struct buf rest;
    struct frame_stream in;
};

bool stream_is_clear(const struct stream *stream)
{
    return stream->rest.length == 0;
}

/* Bytes that were accepted, 0 if there is no room; a host that has gone ends the box. */
static size_t put(struct warden *warden, const struct iovec *parts, size_t count)
{
    ssize_t written;

    do
        written = writev(warden->stream->out.fd, parts, (int)count);
    while (written < 0 && errno == EINTR);
    if (written < 0 && errno != EAGAIN)
        warden_end(warden);
    return written < 0 ? 0 : (size_t)written;
}

static bool put_rest(struct warden *warden)
{
    struct buf *rest = &warden->stream->rest;

    while (rest->length > 0) {
        struct iovec part = {.iov_base = rest->data, .iov_len = rest->length};
        size_t written = put(warden, &part, 1);

        if (written == 0)
            return false;
        buf_consume(rest, written);
    }
    return true;
}

/* A frame that has begun counts as sent: we send its remainder later. */
static void keep_rest(struct warden *warden, const struct iovec *parts, size_t count,
                      size_t written)
{
    for (size_t i = 0; i < count; i++) {
        size_t skip = MIN(written, parts[i].iov_len);

        written -= skip;
        if (buf_append(&warden->stream->rest, (const char *)parts[i].iov_base + skip,
                       parts[i].iov_len - skip) < 0)
            warden_end(warden);
    }
    warden->is_blocked = warden->stream->rest.length > 0;
}

int stream_send(struct warden *warden, struct iovec *parts, size_t count)
{
    size_t written = put_rest(warden) ? put(warden, parts, count) : 0;

    if (written == 0) {
        warden->is_blocked = true;
        return 0;
    }
    keep_rest(warden, parts, count, written);
    return 1;
}

/* No other watch reports that the host has closed its end. */
void stream_watch(struct warden *warden)
{
    loop_change(&warden->loop, &warden->stream->out, warden->is_blocked ? (uint32_t)EPOLLOUT : 0);
}

static void out_ready(struct loop_source *source, uint32_t events)
{
    struct stream *stream = (struct stream *)source; /* its first member */

    if (events & EPOLLERR)
        warden_end(stream->warden);
    if (put_rest(stream->warden))
        stream->warden->is_blocked = false;
}

static void take(struct warden *warden, const uint8_t *data, size_t length)
{
    struct frame_stream *in = &warden->stream->in;

    while (length > 0) {
        size_t taken = frame_stream_feed(in, data, length);
        struct frame frame;
        int r = frame_stream_next(in, &frame);

        /* KERNEL comes with descriptors, which this channel cannot carry. */
        if (r < 0 || (r == 1 && frame.type == FRAME_KERNEL))
            warden_end(warden);
        if (r == 1)
            dispatch_frame(warden, &frame);
        data += taken;
        length -= taken;
    }
}

static void in_ready(struct loop_source *source, uint32_t events)
{
    struct warden *warden = (struct warden *)((char *)source - offsetof(struct warden, channel));
    static uint8_t data[READ_BYTES]; /* one reader, one thread */
    ssize_t length = read(source->fd, data, sizeof(data));

    (void)events;
    if (length < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (length <= 0)
        warden_end(warden);
    take(warden, data, (size_t)length);
}

int stream_open(struct warden *warden, int in_fd, int out_fd)
{
    struct stream *stream = calloc(1, sizeof(*stream));
    int r;

    if (!stream)
        return -ENOMEM;
    stream->warden = warden;
    stream->rest = BUF_INIT(WIRE_FRAME_MAX);
    stream->out = (struct loop_source){.fd = -1, .ready = out_ready};
    warden->stream = stream;
    warden->channel.ready = in_ready;
    r = fd_set_nonblocking(in_fd, true);
    if (r == 0)
        r = fd_set_nonblocking(out_fd, true);
    if (r == 0)
        r = loop_add(&warden->loop, &stream->out, out_fd, 0);
    return r < 0 ? r : loop_add(&warden->loop, &warden->channel, in_fd, EPOLLIN);
}
