/*
 * stream.c - the attached stream of a container as bytes of frames: unpacks Docker's packets, and
 * logs the warden's standard error.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "http/stream.h"
#include "runtime/docker/docker_private.h"

/*
 * Standard error comes from the warden, but any process may have written it; it becomes one line of
 * the log.
 */
static void tell_words(const uint8_t *data, size_t length)
{
    char words[201], text[201];

    length = MIN(length, sizeof(words) - 1);
    memcpy(words, data, length);
    words[length] = 0;
    docker_clean(words, text, sizeof(text));
    log_debug("a container's warden says: %s", text);
}

/* In place: the result is shorter. Returns its length, or -EPROTO. */
static ssize_t unpack(struct packets *packets, uint8_t *data, size_t length)
{
    size_t at = 0, kept = 0;

    while (at < length) {
        const uint8_t *piece = NULL;
        size_t piece_length = 0;
        int stream = 0;
        ssize_t done =
            packets_take(packets, data + at, length - at, &stream, &piece, &piece_length);

        if (done < 0)
            return -EPROTO;
        at += (size_t)done;
        if (piece_length == 0)
            continue;
        if (stream == PACKET_STDERR) {
            tell_words(piece, piece_length);
            continue;
        }
        memmove(data + kept, piece, piece_length);
        kept += piece_length;
    }
    return (ssize_t)kept;
}

static ssize_t stream_read(void *ctx, void *to, size_t size)
{
    struct docker_stream *stream = ctx;

    for (;;) {
        ssize_t length = http_stream_read(stream->http, to, size);

        if (length <= 0)
            return length;
        length = unpack(&stream->packets, to, (size_t)length);
        if (length != 0)
            return length;
    }
}

static ssize_t stream_write(void *ctx, const void *data, size_t length)
{
    return http_stream_write(((struct docker_stream *)ctx)->http, data, length);
}

static void stream_want(void *ctx, short events)
{
    http_stream_want(((struct docker_stream *)ctx)->http, events);
}

static void stream_close(void *ctx)
{
    struct docker_stream *stream = ctx;

    http_stream_close(stream->http);
    *stream = (struct docker_stream){0};
}

const struct pump_stream_ops docker_stream_ops = {
    .read = stream_read, .write = stream_write, .want = stream_want, .close = stream_close};
