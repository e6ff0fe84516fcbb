/* in_stream.c - a command's standard input: bytes of the host until the guest has taken them. */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "warden/command.h"

void in_stream_init(struct in_stream *input, struct command *command)
{
    input->source.fd = -1;
    input->command = command;
    input->waiting = BUF_INIT(WIRE_STREAM_WINDOW);
    input->last = '\n';
}

void in_stream_close(struct in_stream *input)
{
    int fd = input->source.fd;

    if (fd < 0)
        return;
    loop_remove(&input->command->warden->loop, &input->source);
    close(fd);
}

void in_stream_tell(struct in_stream *input)
{
    struct command *command = input->command;

    if (!command->is_silent)
        channel_ack(command->warden, command->id, 0, input->taken);
}

/* Writes what waits, as much as the guest takes. */
static void write_waiting(struct in_stream *input)
{
    while (input->source.fd >= 0 && input->waiting.length > 0) {
        ssize_t length = write(input->source.fd, input->waiting.data, input->waiting.length);

        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 && errno == EAGAIN)
            break;
        if (length < 0) { /* the guest reads no more; further input is dropped */
            in_stream_close(input);
            break;
        }
        buf_consume(&input->waiting, (size_t)length);
        /* The end of file of a terminal is bytes too, but not of the host's. */
        input->taken = MIN(input->received, input->taken + (uint64_t)length);
    }
}

/* All input was passed on and no more follows. A terminal stays open: its output continues. */
static void write_end(struct in_stream *input)
{
    char end[2];
    size_t length;

    if (!input->command->is_pty) {
        in_stream_close(input);
        return;
    }
    if (input->is_end_written)
        return;
    input->is_end_written = true;
    length = pty_pair_end(input->source.fd, input->last, end);
    if (buf_append(&input->waiting, end, length) < 0)
        warden_end(input->command->warden);
    write_waiting(input);
}

/* Hands waiting bytes to the guest; acknowledges what it took. */
static void in_stream_write(struct in_stream *input)
{
    struct command *command = input->command;
    uint64_t before = input->taken;

    write_waiting(input);
    if (input->source.fd >= 0 && input->waiting.length == 0 && input->has_end)
        write_end(input);
    if (input->source.fd < 0) {
        buf_clear(&input->waiting);
        input->taken = input->received;
    }
    if (input->taken != before)
        in_stream_tell(input);
    loop_change(&command->warden->loop, &input->source,
                input->waiting.length > 0 ? (uint32_t)EPOLLOUT : 0);
}

static void in_stream_ready(struct loop_source *source, uint32_t events)
{
    struct in_stream *input = (struct in_stream *)source; /* its first member */

    /* A pipe without a reader, or a terminal that no process has open. */
    if (events & (EPOLLERR | EPOLLHUP))
        in_stream_close(input);
    in_stream_write(input);
}

int in_stream_open(struct in_stream *input, int fd)
{
    int r;

    input->source.ready = in_stream_ready;
    r = loop_add(&input->command->warden->loop, &input->source, fd, 0);
    if (r < 0)
        close(fd);
    return r;
}

void command_stdin(struct warden *warden, const struct frame *frame)
{
    struct command *command = command_by_id(warden, frame->id);
    struct message_bytes bytes;
    struct in_stream *input;

    if (message_bytes_unpack(frame, &bytes) < 0)
        warden_end(warden);
    if (!command || command->is_end_told)
        return; /* it has ended meanwhile */
    input = &command->in;
    if (bytes.offset != input->received || input->has_end ||
        buf_append(&input->waiting, bytes.data, bytes.length) < 0)
        warden_end(warden);
    input->received += bytes.length;
    if (bytes.length > 0)
        input->last = ((const char *)bytes.data)[bytes.length - 1];
    in_stream_write(input);
}

void command_stdin_end(struct warden *warden, uint32_t id)
{
    struct command *command = command_by_id(warden, id);

    if (!command)
        return;
    command->in.has_end = true;
    in_stream_write(&command->in);
}
