/*
 * fuzz_sanitize.c - the terminal filter: any bytes in, the same harmless text out however they are
 * cut.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "cli/sanitize.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void filter(const uint8_t *data, size_t size, size_t chunk, struct buf *text)
{
    struct sanitizer sanitizer = {0};

    for (size_t at = 0; at < size; at += chunk) {
        size_t length = size - at < chunk ? size - at : chunk;

        assert(sanitize_feed(&sanitizer, data + at, length, text) == 0);
    }
    assert(sanitize_finish(&sanitizer, text) == 0);
}

static void check_harmless(const struct buf *text)
{
    for (size_t at = 0; at < text->length;) {
        int length = utf8_length(text->data + at, text->length - at);
        unsigned char first = (unsigned char)text->data[at];

        assert(length > 0);
        assert(first >= 0x20 || first == '\n' || first == '\t' || first == '\r');
        assert(first != 0x7f);
        assert(first != 0xc2 || (unsigned char)text->data[at + 1] >= 0xa0);
        at += (size_t)length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = BUF_INIT(SANITIZE_GROWTH * size + 16);
    struct buf pieces = BUF_INIT(SANITIZE_GROWTH * size + 16);

    if (size == 0)
        return 0;
    filter(data, size, size, &whole);
    check_harmless(&whole);
    for (size_t chunk = 1; chunk <= 3; chunk++) {
        buf_clear(&pieces);
        filter(data, size, chunk, &pieces);
        assert(pieces.length == whole.length);
        assert(memcmp(buf_text(&pieces), buf_text(&whole), whole.length) == 0);
    }
    buf_free(&whole);
    buf_free(&pieces);
    return 0;
}
