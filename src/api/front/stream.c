/* stream.c - replies that are produced while they are sent, and events in them. */
#include <string.h>

#include "api/front/reply.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "http/sse.h"
#include "model/text.h"
#include "observe/metrics.h"

const char *const front_event_headers[] = {"Cache-Control: no-store", NULL};

/* The first bytes, in no more memory than they need. */
static int keep_only(struct buf *text, size_t length)
{
    struct buf kept = BUF_INIT(text->maximum);
    int r = buf_append(&kept, text->data, length);

    buf_free(text);
    *text = kept;
    return r;
}

/*
 * What came after `before` is more than may wait for readers of this tenant: it is dropped, and the
 * stream ends. A client of events can go on after the last one it has.
 */
static void give_up(struct front_stream *stream, size_t before)
{
    if (!stream->counted) {
        stream->is_broken = true;
        return;
    }
    if (keep_only(&stream->text, before) < 0) {
        stream->is_broken = true;
        return;
    }
    front_stream_event(stream, NULL, "closed",
                       json_pack("{s:s, s:s}", "code", ERROR_QUOTA, "message",
                                 "events that are not read yet take too much memory of this "
                                 "tenant's share; read them, and resume with Last-Event-ID"));
    stream->is_over = stream->was_stopped = true;
}

/* Bytes are moved to the front when a quarter was sent: chunks are small, and moving what is left
 * for each of them was most of a download's time. */
static void consume(struct front_stream *stream, size_t length)
{
    stream->sent += length;
    if (stream->sent == stream->text.length) {
        buf_free(&stream->text); /* a long event may have been in it */
        stream->sent = 0;
    } else if (stream->sent >= stream->text.length / 4) {
        buf_consume(&stream->text, stream->sent);
        stream->sent = 0;
    }
}

static long on_more(void *ctx, void *data, size_t size)
{
    struct front_stream *stream = ctx;
    size_t length;

    if (stream->text.length - stream->sent <= stream->low && !stream->is_over &&
        !stream->is_broken) {
        size_t before = stream->text.length;

        stream->fill(stream->ctx);
        if (http_hold(stream->http, stream->text.capacity) < 0)
            give_up(stream, before);
    }
    if (stream->is_broken)
        return HTTP_ABORT;
    length = MIN(size, stream->text.length - stream->sent);
    if (length == 0)
        return stream->is_over ? HTTP_END : 0;
    memcpy(data, stream->text.data + stream->sent, length);
    consume(stream, length);
    http_hold(stream->http, stream->text.capacity);
    return (long)length;
}

static void on_freed(void *ctx)
{
    struct front_stream *stream = ctx;

    buf_free(&stream->text);
    metrics_move(stream->counted, METRIC_STREAMS, &(const char *){"sse"}, -1); /* NULL: not one */
    stream->freed(stream->ctx);
}

/* Ends a stream of events with an event that names the reason; other streams just end. */
static void on_stop(void *ctx, const struct error *why)
{
    struct front_stream *stream = ctx;

    if (!stream->is_endless || stream->is_over)
        return;
    if (stream->counted)
        front_stream_event(stream, NULL, "closed",
                           json_pack("{s:s, s:s, s:s*}", "code", why->code, "message", why->text,
                                     "quota", why->quota));
    stream->is_over = stream->was_stopped = true;
    http_reply_more(stream->http);
}

void front_stream_start(struct front_stream *stream, unsigned status, const char *type,
                        const char *const *headers, int64_t length)
{
    static const struct http_source source = {.more = on_more, .freed = on_freed, .stop = on_stop};

    /* A reply of bytes that ended early would be taken for complete, so only streams of events and
     * of lines can be stopped. */
    stream->is_endless = str_equal(type, TYPE_EVENTS) || str_equal(type, TYPE_LINES);
    if (str_equal(type, TYPE_EVENTS))
        stream->counted = ((const struct front *)http_ctx(stream->http))->auth.metrics;
    metrics_move(stream->counted, METRIC_STREAMS, &(const char *){"sse"}, 1);
    http_reply_stream(stream->http, status, type, headers, length, &source, stream);
}

void front_stream_event(struct front_stream *stream, const char *id, const char *event,
                        json_t *data)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(stream->text.maximum);

    if (stream->was_stopped)
        ; /* nothing follows the last event */
    else if (!data || text_of_json(data, FRONT_JSON, &text) < 0 ||
             sse_write(&stream->text, id, event, buf_text(&text), text.length) < 0)
        stream->is_broken = true;
    json_decref(data);
}
