/* sse.c - server-sent events as text and back; see sse.h. */
#include "http/sse.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

static size_t line_length(const char *data, size_t length)
{
    size_t count = 0;

    while (count < length && data[count] != '\r' && data[count] != '\n')
        count++;
    return count;
}

static int write_field(struct buf *text, const char *name, const char *value)
{
    if (!value)
        return 0;
    if (value[strcspn(value, "\r\n")] != '\0')
        return -EINVAL; /* it would begin a new field */
    return buf_printf(text, "%s: %s\n", name, value);
}

static int write_data(struct buf *text, const char *data, size_t length)
{
    for (;;) {
        size_t count = line_length(data, length);
        int r = buf_append_text(text, "data: ");

        if (r == 0)
            r = buf_append(text, data, count);
        if (r == 0)
            r = buf_append(text, "\n", 1);
        if (r < 0 || count == length)
            return r;
        if (data[count] == '\r' && length - count > 1 && data[count + 1] == '\n')
            count++;
        data += count + 1;
        length -= count + 1;
    }
}

int sse_write(struct buf *text, const char *id, const char *event, const char *data, size_t length)
{
    size_t before = text->length;
    int r = write_field(text, "id", id);

    if (r == 0)
        r = write_field(text, "event", event);
    if (r == 0)
        r = write_data(text, data, length);
    if (r == 0)
        r = buf_append(text, "\n", 1);
    if (r < 0 && text->data) {
        text->length = before;
        text->data[before] = '\0';
    }
    return r;
}

typedef void (*sse_event)(void *ctx, const char *id, const char *event, const char *data,
                          size_t length);

/* An empty line: what came since the last one is an event, if it had any data. */
static void dispatch(struct sse_reader *reader, sse_event event, void *ctx)
{
    if (reader->data.length > 0) {
        reader->data.data[--reader->data.length] = '\0'; /* the newline of its last line */
        event(ctx, reader->id, reader->event[0] ? reader->event : "message",
              buf_text(&reader->data), reader->data.length);
    }
    buf_clear(&reader->data);
    reader->event[0] = '\0';
}

static int take_text(char *to, size_t size, const char *value, size_t length)
{
    if (length >= size)
        return -EFBIG;
    memcpy(to, value, length);
    to[length] = '\0';
    return 0;
}

static int take_field(struct sse_reader *reader, const char *line, size_t length)
{
    const char *colon = memchr(line, ':', length);
    size_t name_length = colon ? (size_t)(colon - line) : length;
    const char *value = colon ? colon + 1 : line + length;
    size_t value_length = (size_t)(line + length - value);
    int r;

    if (value_length > 0 && value[0] == ' ') {
        value++;
        value_length--;
    }
    if (name_length == 4 && memcmp(line, "data", 4) == 0) {
        r = buf_append(&reader->data, value, value_length);
        return r < 0 ? r : buf_append(&reader->data, "\n", 1);
    }
    if (memchr(value, '\0', value_length))
        return 0; /* ignored, as the standard says of ids */
    if (name_length == 5 && memcmp(line, "event", 5) == 0)
        return take_text(reader->event, sizeof(reader->event), value, value_length);
    if (name_length == 2 && memcmp(line, "id", 2) == 0)
        return take_text(reader->id, sizeof(reader->id), value, value_length);
    return 0; /* a comment, a retry time, or something new */
}

static int take_line(struct sse_reader *reader, sse_event event, void *ctx)
{
    int r = 0;

    if (reader->line.length == 0)
        dispatch(reader, event, ctx);
    else
        r = take_field(reader, reader->line.data, reader->line.length);
    buf_clear(&reader->line);
    return r;
}

int sse_read(struct sse_reader *reader, const void *data, size_t length,
             void (*event)(void *ctx, const char *id, const char *event, const char *data,
                           size_t length),
             void *ctx)
{
    const char *at = data;

    while (length > 0 && reader->broken == 0) {
        size_t count = line_length(at, length);

        if (reader->was_return && at[0] == '\n') {
            reader->was_return = false;
            at++;
            length--;
            continue;
        }
        reader->was_return = count < length && at[count] == '\r';
        if (count > 0)
            reader->broken = buf_append(&reader->line, at, count);
        if (count == length || reader->broken < 0)
            break;
        reader->broken = take_line(reader, event, ctx);
        at += count + 1;
        length -= count + 1;
    }
    return reader->broken;
}

void sse_reader_free(struct sse_reader *reader)
{
    buf_free(&reader->line);
    buf_free(&reader->data);
}
