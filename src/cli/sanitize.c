/*
 * sanitize.c - the terminal filter.
 *
 * Bytes that pass are copied in runs; only what is changed costs a call. C1 controls (U+0080-009F)
 * are escape sequences of one character for terminals that honour them, and bidirectional controls
 * make text read differently from what it is (CVE-2021-42574), so both are shown by their number.
 */
#include "cli/sanitize.h"

#include <stdint.h>
#include <string.h>

#include "base/str.h"

static uint32_t decode(const unsigned char *data, int length)
{
    uint32_t point = length == 1 ? data[0] : data[0] & (0xffu >> (length + 1));

    for (int i = 1; i < length; i++)
        point = point << 6 | (data[i] & 0x3fu);
    return point;
}

static bool is_harmless(const struct sanitizer *sanitizer, uint32_t point)
{
    if (point == '\n' || point == '\t' || point == '\r')
        return !sanitizer->one_line;
    if (point < 0x20 || (point >= 0x7f && point <= 0x9f))
        return false;
    if (point == 0x061c || point == 0x200e || point == 0x200f)
        return false; /* marks of direction */
    if (point == 0x2028 || point == 0x2029)
        return false; /* line and paragraph separators */
    return !((point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069));
}

static int show_bytes(const unsigned char *data, size_t length, struct buf *to)
{
    for (size_t i = 0; i < length; i++) {
        int result = buf_printf(to, "\\x%02x", data[i]);

        if (result < 0)
            return result;
    }
    return 0;
}

static int show_point(uint32_t point, struct buf *to)
{
    return point < 0x80 ? buf_printf(to, "\\x%02x", point) : buf_printf(to, "\\u%04x", point);
}

/*
 * Completes the sequence that the last chunk cut with bytes of this one. Returns how many of them
 * were used, or a negative errno.
 */
static long finish_held(struct sanitizer *sanitizer, const unsigned char *data, size_t length,
                        struct buf *to)
{
    size_t before = sanitizer->held_count;
    unsigned char whole[4];
    size_t used = 0;
    uint32_t point;
    int size, result;

    memcpy(whole, sanitizer->held, before);
    do {
        whole[before + used] = data[used];
        used++;
        size = utf8_length(whole, before + used);
    } while (size < 0 && used < length && before + used < sizeof(whole));

    if (size < 0) {
        memcpy(sanitizer->held, whole, before + used);
        sanitizer->held_count = before + used;
        return (long)used;
    }
    sanitizer->held_count = 0;
    if (size == 0) {
        /* The held bytes were invalid; the byte that showed it starts something new. */
        result = show_bytes(whole, before + used - 1, to);
        return result < 0 ? result : (long)used - 1;
    }
    point = decode(whole, size);
    result =
        is_harmless(sanitizer, point) ? buf_append(to, whole, (size_t)size) : show_point(point, to);
    return result < 0 ? result : (long)used;
}

/* The bytes at the start that pass unchanged. */
static size_t harmless_run(const struct sanitizer *sanitizer, const unsigned char *data,
                           size_t length)
{
    size_t at = 0;

    while (at < length) {
        int size = utf8_length(data + at, length - at);

        if (size <= 0 || !is_harmless(sanitizer, decode(data + at, size)))
            break;
        at += (size_t)size;
    }
    return at;
}

int sanitize_feed(struct sanitizer *sanitizer, const void *data, size_t length, struct buf *to)
{
    const unsigned char *bytes = data;

    while (length > 0) {
        long used;
        int size, result;

        if (sanitizer->held_count > 0) {
            used = finish_held(sanitizer, bytes, length, to);
            if (used < 0)
                return (int)used;
            bytes += used;
            length -= (size_t)used;
            continue;
        }
        used = (long)harmless_run(sanitizer, bytes, length);
        if (used > 0) {
            result = buf_append(to, bytes, (size_t)used);
            if (result < 0)
                return result;
            bytes += used;
            length -= (size_t)used;
            continue;
        }
        size = utf8_length(bytes, length);
        if (size < 0) {
            memcpy(sanitizer->held, bytes, length); /* at most three: it is cut */
            sanitizer->held_count = length;
            return 0;
        }
        result = size == 0 ? show_bytes(bytes, 1, to) : show_point(decode(bytes, size), to);
        if (result < 0)
            return result;
        bytes += size == 0 ? 1 : size;
        length -= size == 0 ? 1 : (size_t)size;
    }
    return 0;
}

int sanitize_finish(struct sanitizer *sanitizer, struct buf *to)
{
    size_t count = sanitizer->held_count;

    sanitizer->held_count = 0;
    return show_bytes(sanitizer->held, count, to);
}

int sanitize_line(const char *text, struct buf *to)
{
    struct sanitizer sanitizer = {.one_line = true};
    int result = sanitize_feed(&sanitizer, text, strlen(text), to);

    return result < 0 ? result : sanitize_finish(&sanitizer, to);
}
