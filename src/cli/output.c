/*
 * output.c - the streaming sink of `run` and `exec`.
 *
 * A plain write() to a full pipe would sleep with SIGINT blocked, and Ctrl-C would do nothing while
 * a pager waits for a key. So with a cancel descriptor every write waits in poll() for either side,
 * and writes no more than PIPE_BUF: pipe(7) promises that this much does not block once POLLOUT is
 * there.
 */
#include "cli/output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"

/* Guest bytes that go through the filter at a time; its buffer is SANITIZE_GROWTH times that. */
#define FILTER_CHUNK 4096

void output_init(struct output *output, bool is_raw, int cancel_fd)
{
    *output = (struct output){.cancel_fd = cancel_fd};
    for (int i = 0; i < 2; i++) {
        output->streams[i].fd = STDOUT_FILENO + i;
        output->streams[i].is_filtered = !is_raw && isatty(STDOUT_FILENO + i);
    }
}

/* Waits until fd takes bytes. 0, -ECANCELED or the negative errno of poll(). */
static int wait_writable(int fd, int cancel_fd)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLOUT}, {.fd = cancel_fd, .events = POLLIN}};

    for (;;) {
        int ready = poll(fds, 2, -1);

        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready <= 0)
            continue;
        if (fds[0].revents)
            return 0; /* also POLLERR: the write that follows says what is wrong */
        if (fds[1].revents)
            return -ECANCELED;
    }
}

int stream_write(int fd, const void *data, size_t length, int cancel_fd)
{
    const char *bytes = data;

    while (length > 0) {
        size_t chunk = cancel_fd >= 0 ? MIN(length, (size_t)PIPE_BUF) : length;
        ssize_t written;
        int result;

        if (cancel_fd >= 0) {
            result = wait_writable(fd, cancel_fd);
            if (result < 0)
                return result;
        }
        written = write(fd, bytes, chunk);
        if (written < 0 && errno == EAGAIN) {
            result = wait_writable(fd, cancel_fd);
            if (result < 0)
                return result;
            continue;
        }
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        bytes += written;
        length -= (size_t)written;
    }
    return 0;
}

static int write_filtered(struct output_stream *stream, const char *data, size_t length,
                          int cancel_fd)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(SANITIZE_GROWTH * (FILTER_CHUNK + 4));

    while (length > 0) {
        size_t chunk = MIN(length, (size_t)FILTER_CHUNK);
        int result = sanitize_feed(&stream->sanitizer, data, chunk, &text);

        if (result == 0)
            result = stream_write(stream->fd, buf_text(&text), text.length, cancel_fd);
        if (result < 0)
            return result;
        buf_clear(&text);
        data += chunk;
        length -= chunk;
    }
    return 0;
}

int output_write(void *ctx, int stream, const void *data, size_t length)
{
    struct output *output = ctx;
    struct output_stream *to = &output->streams[stream == 2];
    int result;

    if (output->failure < 0)
        return output->failure;
    if (to->is_filtered)
        result = write_filtered(to, data, length, output->cancel_fd);
    else
        result = stream_write(to->fd, data, length, output->cancel_fd);
    if (result < 0) {
        output->failure = result;
        output->failed_stream = stream;
    }
    return result;
}

void output_finish(struct output *output)
{
    for (int i = 0; i < 2; i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(64);

        sanitize_finish(&output->streams[i].sanitizer, &text);
        if (text.length > 0 && output->failure == 0)
            stream_write(output->streams[i].fd, buf_text(&text), text.length, output->cancel_fd);
    }
}
