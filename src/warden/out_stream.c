/* out_stream.c - a ring of output between the guest's pipe or terminal and the host; see command.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "warden/kernel.h"

void out_stream_init(struct out_stream *stream, struct command *command, int index)
{
    stream->source.fd = -1;
    stream->fd = -1;
    stream->command = command;
    stream->number = (uint8_t)(index + 1);
    stream->stop = UINT64_MAX;
}

bool out_stream_is_full(const struct out_stream *stream)
{
    return stream->read - stream->acked == WIRE_STREAM_WINDOW;
}

bool out_stream_is_done(const struct out_stream *stream)
{
    return stream->fd < 0 && stream->sent == stream->read;
}

/* Bytes of a ring that were ever written to: memory that the kernel has given us. */
#define RING_LITTLE (16 * KIB)

/*
 * Most commands and cells write little. Their rings are handed on: getting half a megabyte and
 * giving it back costs a cell four system calls and its page faults (10 us of 60).
 */
static void free_ring(struct out_stream *stream)
{
    struct warden *warden = stream->command->warden;

    for (size_t i = 0; i < ARRAY_SIZE(warden->spare_rings) && stream->ring; i++) {
        if (!warden->spare_rings[i] && stream->read <= RING_LITTLE)
            warden->spare_rings[i] = ptr_take(&stream->ring);
    }
    free(stream->ring);
    stream->ring = NULL;
}

static void need_ring(struct out_stream *stream)
{
    struct warden *warden = stream->command->warden;

    for (size_t i = 0; i < ARRAY_SIZE(warden->spare_rings) && !stream->ring; i++)
        stream->ring = ptr_take(&warden->spare_rings[i]);
    if (!stream->ring)
        stream->ring = malloc(WIRE_STREAM_WINDOW);
    if (!stream->ring)
        warden_end(warden);
}

/*
 * A ring that will not be read any more is freed as soon as possible: ended commands may be many.
 */
static void drop_ring(struct out_stream *stream)
{
    if (stream->fd >= 0 || stream->acked < stream->read)
        return;
    free_ring(stream);
}

/* The pipe stays where it is, in its kernel's hands and in the loop: the next cell wants it. */
static void give_back(struct out_stream *stream)
{
    stream->pipe = NULL;
    stream->fd = -1;
    drop_ring(stream);
    cell_settle(stream->command);
}

void out_stream_close(struct out_stream *stream)
{
    struct kernel_pipe *pipe = stream->pipe;

    if (pipe) {
        kernel_pipe_close(pipe);
        give_back(stream);
        return;
    }
    loop_remove(&stream->command->warden->loop, &stream->source);
    fd_closep(&stream->fd);
    stream->fd = -1;
    drop_ring(stream);
}

void out_stream_let_go(struct out_stream *stream)
{
    struct warden *warden = stream->command->warden;

    loop_remove(&warden->loop, &stream->source);
    drain_take(warden, fd_take(&stream->fd));
    drop_ring(stream);
}

void out_stream_free(struct out_stream *stream)
{
    out_stream_close(stream);
    free_ring(stream);
}

/* A full ring is taken out of the loop, which would go on reporting a hung-up pipe. */
static int out_stream_watch(struct out_stream *stream)
{
    struct loop *loop = &stream->command->warden->loop;
    struct loop_source *source = stream->pipe ? &stream->pipe->source : &stream->source;

    if (stream->fd < 0)
        return 0;
    if (out_stream_is_full(stream)) {
        loop_remove(loop, source);
        return 0;
    }
    return source->fd >= 0 ? 0 : loop_add(loop, source, stream->fd, EPOLLIN);
}

/*
 * Reads what the guest wrote and the ring can take; closes the stream at its end (EIO of a
 * terminal: no process has it open any more).
 */
void out_stream_read(struct out_stream *stream)
{
    struct command *command = stream->command;

    need_ring(stream);
    while (stream->fd >= 0 && !out_stream_is_full(stream) && stream->read < stream->stop) {
        size_t start = stream->read % WIRE_STREAM_WINDOW;
        size_t wanted = MIN(out_stream_room(stream), (size_t)WIRE_STREAM_WINDOW - start);
        ssize_t length;

        wanted = (size_t)MIN((uint64_t)wanted, stream->stop - stream->read);
        length = read(stream->fd, stream->ring + start, wanted);
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 && errno == EAGAIN) {
            if (stream->stop != UINT64_MAX)
                stream->stop = stream->read; /* another process in the box has read it before us */
            break;
        }
        if (length <= 0) {
            out_stream_close(stream);
            break;
        }
        stream->read += (uint64_t)length;
        if (command->is_forgotten)
            stream->sent = stream->acked = stream->read;
        if ((size_t)length < wanted && !command->is_pty && stream->stop == UINT64_MAX)
            break; /* a pipe gives all that it has */
    }
    if (stream->fd >= 0 && stream->pipe && stream->read >= stream->stop)
        give_back(stream);
    else if (out_stream_watch(stream) < 0)
        warden_end(command->warden);
}

void out_stream_borrow(struct out_stream *stream, struct kernel_pipe *pipe)
{
    if (pipe->fd < 0)
        return;
    stream->pipe = pipe;
    stream->fd = pipe->fd;
    if (out_stream_watch(stream) < 0)
        warden_end(stream->command->warden);
}

void out_stream_stop(struct out_stream *stream)
{
    int waiting = 0;

    if (stream->fd < 0)
        return;
    if (ioctl(stream->fd, FIONREAD, &waiting) < 0 || waiting <= 0) {
        give_back(stream);
        return;
    }
    stream->stop = stream->read + (uint64_t)waiting;
    out_stream_read(stream);
}

size_t out_stream_room(const struct out_stream *stream)
{
    return WIRE_STREAM_WINDOW - (size_t)(stream->read - stream->acked);
}

void out_stream_put(struct out_stream *stream, const char *data, size_t length)
{
    need_ring(stream);
    while (length > 0) {
        size_t start = stream->read % WIRE_STREAM_WINDOW;
        size_t part = MIN(length, (size_t)WIRE_STREAM_WINDOW - start);

        memcpy(stream->ring + start, data, part);
        stream->read += part;
        data += part;
        length -= part;
    }
    if (stream->command->is_forgotten)
        stream->sent = stream->acked = stream->read;
}

static void out_stream_ready(struct loop_source *source, uint32_t events)
{
    (void)events;
    out_stream_read((struct out_stream *)source); /* its first member */
}

int out_stream_open(struct out_stream *stream, int fd)
{
    stream->source.ready = out_stream_ready;
    stream->fd = fd;
    return out_stream_watch(stream);
}

bool out_stream_produce(struct out_stream *stream)
{
    struct command *command = stream->command;
    bool progress = false;

    while (stream->sent < stream->read && !command->is_silent) {
        size_t start = stream->sent % WIRE_STREAM_WINDOW;
        size_t length = (size_t)(stream->read - stream->sent);

        length = MIN(length, (size_t)WIRE_STREAM_WINDOW - start);
        length = MIN(length, (size_t)FRAME_DATA_MAX);
        if (!channel_bytes(command->warden, FRAME_OUTPUT, command->id, stream->number, stream->sent,
                           stream->ring + start, length))
            break;
        stream->sent += length;
        progress = true;
    }
    return progress;
}

void out_stream_acknowledge(struct out_stream *stream, uint64_t offset)
{
    stream->acked = offset;
    if (stream->fd >= 0)
        out_stream_read(stream);
    else
        drop_ring(stream);
    if (stream->number == 3)
        cell_room(stream->command);
}

void out_stream_rewind(struct out_stream *stream, uint64_t offset)
{
    stream->sent = offset;
    out_stream_acknowledge(stream, offset);
}
