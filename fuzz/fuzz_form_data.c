/*
 * fuzz_form_data.c - any bytes as a body of multipart/form-data. The first byte says in which
 * pieces they come and how much the reader takes at once: the events are the same for every size.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "http/form_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reader {
    struct buf told;
    size_t at_once; /* 0: everything */
    int is_inside;
};

static void check(int is_true)
{
    if (!is_true)
        abort();
}

static int on_begin(void *ctx, const struct form_data_part *part)
{
    struct reader *reader = ctx;

    check(!reader->is_inside);
    reader->is_inside = 1;
    return buf_printf(&reader->told, "[%s|%s]", part->name, part->filename ? part->filename : "-");
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct reader *reader = ctx;
    size_t taken = reader->at_once && length > reader->at_once ? reader->at_once : length;

    check(reader->is_inside);
    buf_append(&reader->told, data, taken);
    return taken;
}

static int on_end(void *ctx)
{
    struct reader *reader = ctx;

    check(reader->is_inside);
    reader->is_inside = 0;
    return buf_append_text(&reader->told, "[end]");
}

static int read_form(struct reader *reader, const uint8_t *data, size_t size, size_t piece)
{
    static const struct form_data_events events = {on_begin, on_data, on_end};
    struct form_data form;
    ssize_t used = 0;
    int is_whole;

    check(form_data_begin(&form, "multipart/form-data; boundary=\"B\"", &events, reader) == 0);
    for (size_t at = 0; at < size && used >= 0; at += (size_t)used) {
        size_t length = size - at < piece ? size - at : piece;

        used = form_data_feed(&form, data + at, length);
        check(used <= (ssize_t)length);
        if (used < 0)
            break;
    }
    is_whole = used >= 0 && form_data_is_whole(&form);
    form_data_free(&form);
    return used < 0 ? -1 : is_whole;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader whole = {.told = BUF_INIT(1 << 20)}, pieces = {.told = BUF_INIT(1 << 20)};
    int one, two;

    if (size == 0 || size > 100000)
        return 0;
    pieces.at_once = 1 + (data[0] >> 4);
    one = read_form(&whole, data + 1, size - 1, size);
    two = read_form(&pieces, data + 1, size - 1, 1 + (data[0] & 15u));
    check(one == two && whole.told.length == pieces.told.length);
    check(whole.told.length == 0 ||
          memcmp(whole.told.data, pieces.told.data, whole.told.length) == 0);
    buf_free(&whole.told);
    buf_free(&pieces.told);
    return 0;
}
