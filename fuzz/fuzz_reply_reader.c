/*
 * fuzz_reply_reader.c - any bytes as the reply of a guest's server, in pieces of any size. What is
 * accepted is framed in one way only, and no more of the body comes out than went in.
 *
 * Input: flags (1 byte; 1: HEAD, 2: may switch), the size of the pieces (1), the reply.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/reply_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

static void check_head(const struct reply_reader *reader)
{
    check((reader->status >= 200 && reader->status <= 599) ||
          (reader->status == 101 && reader->may_switch));
    check(reader->header_count <= LIMIT_PORT_HEADERS);
    for (size_t i = 0; i < reader->header_count; i++) {
        check(reader->headers[i].name[0] && !strpbrk(reader->headers[i].name, ": \t\r\n"));
        check(!strpbrk(reader->headers[i].value, "\r\n"));
    }
    check(!(reply_reader_header(reader, "Content-Length") &&
            reply_reader_header(reader, "Transfer-Encoding")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reply_reader reader;
    const char *text = (const char *)data + 2;
    size_t step, at = 0, body = 0;
    ssize_t taken = 1;

    if (size < 2)
        return 0;
    step = (size_t)data[1] + 1;
    size -= 2;
    reply_reader_init(&reader, data[0] & 1, data[0] & 2);
    while (at < size && taken > 0) {
        size_t part = size - at < step ? size - at : step, length = 0;
        const char *piece = NULL;

        if (reader.has_head)
            taken = reply_reader_body(&reader, text + at, part, &piece, &length);
        else
            taken = reply_reader_head(&reader, text + at, part);
        check(taken <= (ssize_t)part && (length == 0 || (piece >= text + at && taken > 0)));
        body += length;
        at += taken > 0 ? (size_t)taken : 0;
    }
    check(body <= size);
    if (taken >= 0 && reader.has_head)
        check_head(&reader);
    if (taken < 0 || reply_reader_close(&reader) < 0)
        check(reader.why != NULL);
    else if (reader.body == REPLY_LENGTH)
        check(body == reader.length);
    reply_reader_free(&reader);
    return 0;
}
