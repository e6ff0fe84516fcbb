/* stream.c - replies made while they are sent, and events in them. */
#include <string.h>

#include "api/rest/inside.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "http/sse.h"
#include "model/text.h"
#include "observe/metrics.h"

const char *const rest_event_headers[] = {"Cache-Control: no-store", NULL};

static long on_more(void *ctx, void *data, size_t size)
{
    struct rest_stream *stream = ctx;
    size_t length;

    if (stream->text.length <= stream->low && !stream->is_over && !stream->is_broken)
        stream->fill(stream->ctx);
    if (stream->is_broken)
        return HTTP_ABORT;
    length = MIN(size, stream->text.length);
    if (length == 0)
        return stream->is_over ? HTTP_END : 0;
    memcpy(data, stream->text.data, length);
    buf_consume(&stream->text, length);
    return (long)length;
}

static void on_freed(void *ctx)
{
    struct rest_stream *stream = ctx;

    buf_free(&stream->text);
    metrics_move(stream->counted, METRIC_STREAMS, &(const char *){"sse"}, -1); /* NULL: not one */
    stream->freed(stream->ctx);
}

void rest_stream_start(struct rest_stream *stream, unsigned status, const char *type,
                       const char *const *headers, int64_t length)
{
    static const struct http_source source = {.more = on_more, .freed = on_freed};

    if (str_equal(type, TYPE_EVENTS))
        stream->counted = ((const struct rest *)http_ctx(stream->http))->gate.metrics;
    metrics_move(stream->counted, METRIC_STREAMS, &(const char *){"sse"}, 1);
    http_reply_stream(stream->http, status, type, headers, length, &source, stream);
}

void rest_stream_event(struct rest_stream *stream, const char *id, const char *event, json_t *data)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(stream->text.maximum);

    if (!data || text_of_json(data, REST_JSON, &text) < 0 ||
        sse_write(&stream->text, id, event, buf_text(&text), text.length) < 0)
        stream->is_broken = true;
    json_decref(data);
}
