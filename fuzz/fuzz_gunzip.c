/*
 * fuzz_gunzip.c - any bytes as gzip. The first byte says in which pieces they come and how much the
 * reader takes at once: what comes out is the same for every size.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/gunzip.h"

#define OUTPUT_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reader {
    struct buf text;
    size_t at_once; /* 0: everything */
};

static void check(int is_true)
{
    if (!is_true)
        abort();
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct reader *reader = ctx;
    size_t taken = reader->at_once && length > reader->at_once ? reader->at_once : length;

    check(length > 0);
    (void)buf_append(&reader->text, data, taken); /* what is over the maximum is dropped */
    return taken;
}

static int unzip(struct reader *reader, const uint8_t *data, size_t size, size_t piece)
{
    struct gunzip *gunzip = gunzip_new(on_data, reader);
    ssize_t used = 0;
    int is_whole;

    check(gunzip != NULL);
    for (size_t at = 0; at < size && used >= 0; at += (size_t)used) {
        size_t length = size - at < piece ? size - at : piece;

        used = gunzip_feed(gunzip, data + at, length);
        check(used <= (ssize_t)length);
        if (used < 0)
            break;
    }
    is_whole = used >= 0 && gunzip_is_whole(gunzip);
    gunzip_free(gunzip);
    return used < 0 ? -1 : is_whole;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader whole = {.text = BUF_INIT(OUTPUT_MAX)}, pieces = {.text = BUF_INIT(OUTPUT_MAX)};
    int one, two;

    if (size == 0 || size > 4096) /* of 4 KiB come at most 4 MiB */
        return 0;
    pieces.at_once = 1 + (size_t)(data[0] >> 4) * 37;
    one = unzip(&whole, data + 1, size - 1, size);
    two = unzip(&pieces, data + 1, size - 1, 1 + (data[0] & 15u));
    check(one == two);
    if (whole.text.length < OUTPUT_MAX / 2 && one > 0)
        check(whole.text.length == pieces.text.length &&
              (whole.text.length == 0 ||
               memcmp(whole.text.data, pieces.text.data, whole.text.length) == 0));
    buf_free(&whole.text);
    buf_free(&pieces.text);
    return 0;
}
