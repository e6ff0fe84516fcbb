/* fuzz_code_text.c - arguments of a tool call in any pieces: the same source, and where they are
 * valid JSON the one that a parser finds. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/code_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const char *text, size_t length, size_t step, struct buf *ret)
{
    struct code_text decoder = {0};

    for (size_t at = 0; at < length; at += step)
        if (code_text_feed(&decoder, text + at, length - at < step ? length - at : step, ret) < 0)
            abort();
}

/* Without escaped names and without a second "code", which a parser takes last. */
static void compare(const char *text, size_t length, const struct buf *whole)
{
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    json_t *code = json_object_get(json, "code");

    if (json_is_string(code) && memmem(text, length, "\"code\"", 6) &&
        (json_string_length(code) != whole->length ||
         (whole->length > 0 && memcmp(json_string_value(code), whole->data, whole->length) != 0)))
        abort();
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = BUF_INIT(1 << 20), bytes = BUF_INIT(1 << 20);

    if (size > 1 << 16)
        return 0;
    decode((const char *)data, size, size > 0 ? size : 1, &whole);
    decode((const char *)data, size, 1, &bytes);
    if (whole.length != bytes.length ||
        (whole.length > 0 && memcmp(whole.data, bytes.data, whole.length) != 0))
        abort();
    compare((const char *)data, size, &whole);
    buf_free(&whole);
    buf_free(&bytes);
    return 0;
}
