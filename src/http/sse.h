/*
 * sse.h - server-sent events, both ways: one event as text, and bytes back into events. Pure.
 *
 * Runs in: broker, hosts, upstream, commands, callers
 */
#ifndef BAILEY_HTTP_SSE_H
#define BAILEY_HTTP_SSE_H

#include <stdbool.h>

#include "base/buf.h"

/*
 * Appends one event; id and event may be NULL; newlines in data become several data lines. 0,
 * -EINVAL (a line's end in id or event), -EFBIG, -ENOMEM; then nothing was appended.
 */
int sse_write(struct buf *text, const char *id, const char *event, const char *data, size_t length);

/*
 * A reader: any pieces in, whole events out. The event's name is "message" when there was none, its
 * id the last one that came, or "". Over a ceiling: -EFBIG (or -ENOMEM), and it stays broken.
 */
struct sse_reader {
    struct buf line, data;
    char event[64];
    char id[96];
    bool was_return; /* the last byte was a carriage return: a newline belongs to it */
    int broken;      /* what sse_read() returns from now on */
};
#define SSE_READER_INIT(maximum_) \
    ((struct sse_reader){.line = {.maximum = (maximum_)}, .data = {.maximum = (maximum_)}})
int sse_read(struct sse_reader *reader, const void *data, size_t length,
             void (*event)(void *ctx, const char *id, const char *event, const char *data,
                           size_t length),
             void *ctx);
void sse_reader_free(struct sse_reader *reader);

#endif
