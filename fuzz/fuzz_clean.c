/*
 * fuzz_clean.c - a model's text in any pieces: what is shown is the same, and never longer.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/chat/clean.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void clean_in_steps(const uint8_t *data, size_t size, size_t step, struct buf *to)
{
    struct clean clean = CLEAN_INIT;

    for (size_t at = 0; at < size; at += step) {
        if (clean_feed(&clean, (const char *)data + at, size - at < step ? size - at : step, false,
                       to) < 0)
            abort();
        if (clean.held.length > CLEAN_HELD + step)
            abort();
    }
    if (clean_feed(&clean, "", 0, true, to) < 0 || clean.held.length > 0)
        abort();
    clean_free(&clean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = BUF_INIT(1 << 20), bytes = BUF_INIT(1 << 20);

    if (size > 64 * 1024)
        return 0;
    clean_in_steps(data, size, size > 0 ? size : 1, &whole);
    clean_in_steps(data, size, 1, &bytes);
    if (whole.length > size || whole.length != bytes.length ||
        (whole.length > 0 && memcmp(whole.data, bytes.data, whole.length) != 0))
        abort();
    buf_free(&whole);
    buf_free(&bytes);
    return 0;
}
