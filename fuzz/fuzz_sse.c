/* fuzz_sse.c - a hostile stream of events: any pieces give the same, and what is written is read.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "http/sse.h"

#define MAXIMUM 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hear(void *ctx, const char *id, const char *event, const char *data, size_t length)
{
    if (data[length] != '\0' || event[0] == '\0')
        abort();
    buf_printf(ctx, "[%s|%s|%zu|", id, event, length);
    buf_append(ctx, data, length);
}

static int read_in_steps(const uint8_t *data, size_t size, size_t step, struct buf *heard)
{
    struct sse_reader reader = SSE_READER_INIT(MAXIMUM);
    int r = 0;

    for (size_t at = 0; at < size; at += step)
        r = sse_read(&reader, data + at, size - at < step ? size - at : step, hear, heard);
    sse_reader_free(&reader);
    return r;
}

static void write_and_read(const uint8_t *data, size_t size)
{
    struct buf text = BUF_INIT(16 * MAXIMUM), heard = BUF_INIT(16 * MAXIMUM);
    struct buf wanted = BUF_INIT(16 * MAXIMUM);

    if (size < MAXIMUM && sse_write(&text, "1", "e", (const char *)data, size) == 0) {
        if (read_in_steps((const uint8_t *)text.data, text.length, text.length, &heard) < 0)
            abort();
        buf_printf(&wanted, "[1|e|%zu|", size);
        buf_append(&wanted, data, size);
        /* carriage returns come back as newlines */
        if (!memchr(data, '\r', size) &&
            (heard.length != wanted.length || memcmp(heard.data, wanted.data, wanted.length) != 0))
            abort();
    }
    buf_free(&text);
    buf_free(&heard);
    buf_free(&wanted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = BUF_INIT(64 * MAXIMUM), bytes = BUF_INIT(64 * MAXIMUM);

    if (size > 16 * MAXIMUM)
        return 0;
    if (read_in_steps(data, size, size > 0 ? size : 1, &whole) !=
            read_in_steps(data, size, 1, &bytes) ||
        whole.length != bytes.length ||
        (whole.length > 0 && memcmp(whole.data, bytes.data, whole.length) != 0))
        abort();
    write_and_read(data, size);
    buf_free(&whole);
    buf_free(&bytes);
    return 0;
}
