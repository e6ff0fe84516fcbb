/*
 * json_write.c - a document as text; see text.h.
 *
 * The compact form, which every reply has, is written here: jansson 2.14 takes 10 ns for each byte
 * of a string, so that a result with a few pictures would keep other clients waiting. Other forms
 * (indented, sorted) are jansson's.
 */
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "model/text.h"

#define NUMBER_MAX 64
#define PIECE 1024

#define EACH(byte) (0x0101010101010101ULL * (byte))
#define HAS_ZERO(word) (((word)-EACH(1)) & ~(word)&EACH(0x80))

#define FAST (JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(31)) /* flags known here */

static int write_value(const json_t *json, size_t flags, struct buf *to);

/* Bytes from `text` on that need no escape. */
static size_t plain_length(const char *text, size_t length)
{
    size_t at = 0;

    for (uint64_t word; length - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, text + at, sizeof(word));
        if (HAS_ZERO(word ^ EACH('"')) | HAS_ZERO(word ^ EACH('\\')) |
            ((word - EACH(0x20)) & ~word & EACH(0x80)))
            break;
    }
    while (at < length && text[at] != '"' && text[at] != '\\' && (unsigned char)text[at] >= 0x20)
        at++;
    return at;
}

/* The escape of a byte, as jansson writes it; returns its length. */
static size_t put_escape(unsigned char byte, char to[8])
{
    static const char names[256] = {['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
                                    ['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't'};
    static const char digits[] = "0123456789ABCDEF";

    to[0] = '\\';
    if (names[byte]) {
        to[1] = names[byte];
        return 2;
    }
    memcpy(to + 1, "u00", 3);
    to[4] = digits[byte >> 4];
    to[5] = digits[byte & 15];
    return 6;
}

/* Short pieces between escapes are put together before they are appended. */
static int write_string(const char *text, size_t length, struct buf *to)
{
    char piece[PIECE];
    size_t used = 1;
    int r = 0;

    piece[0] = '"';
    while (r == 0 && length > 0) {
        size_t plain = plain_length(text, length);

        if (plain > sizeof(piece) - used - 8) {
            r = buf_append(to, piece, used);
            used = 0;
        }
        if (r == 0 && plain > sizeof(piece) - 8) {
            r = buf_append(to, text, plain);
        } else {
            memcpy(piece + used, text, plain);
            used += plain;
        }
        text += plain;
        length -= plain;
        if (length > 0) {
            used += put_escape((unsigned char)*text, piece + used);
            text++;
            length--;
        }
        if (r == 0 && used > sizeof(piece) - 16) {
            r = buf_append(to, piece, used);
            used = 0;
        }
    }
    piece[used++] = '"';
    return r < 0 ? r : buf_append(to, piece, used);
}

static int write_array(const json_t *array, size_t flags, struct buf *to)
{
    int r = buf_append(to, "[", 1);

    for (size_t i = 0; r == 0 && i < json_array_size(array); i++) {
        if (i > 0)
            r = buf_append(to, ",", 1);
        if (r == 0)
            r = write_value(json_array_get(array, i), flags, to);
    }
    return r < 0 ? r : buf_append(to, "]", 1);
}

static int write_object(json_t *object, size_t flags, struct buf *to)
{
    int r = buf_append(to, "{", 1);
    const char *key;
    json_t *value;
    bool is_first = true;

    json_object_foreach(object, key, value)
    {
        if (r == 0 && !is_first)
            r = buf_append(to, ",", 1);
        is_first = false;
        if (r == 0)
            r = write_string(key, strlen(key), to);
        if (r == 0)
            r = buf_append(to, ":", 1);
        if (r == 0)
            r = write_value(value, flags, to);
    }
    return r < 0 ? r : buf_append(to, "}", 1);
}

/* With a dot or an exponent, so that it is read as a real again; the exponent without '+' and
 * zeros. */
static int write_real(const json_t *json, size_t flags, struct buf *to)
{
    int precision = (int)(flags >> 11 & 31); /* JSON_REAL_PRECISION() */
    char text[NUMBER_MAX], *exponent;
    int length =
        snprintf(text, sizeof(text) - 3, "%.*g", precision ? precision : 17, json_real_value(json));

    if (length <= 0 || (size_t)length >= sizeof(text) - 3)
        return -EINVAL;
    exponent = strchr(text, 'e');
    if (exponent) {
        char *digits = exponent + 1 + (exponent[1] == '-' || exponent[1] == '+');
        char *keep = exponent + 1 + (exponent[1] == '-');

        digits += strspn(digits, "0");
        memmove(keep, digits, strlen(digits) + 1);
    } else if (!strchr(text, '.')) {
        memcpy(text + length, ".0", 3);
    }
    return buf_append(to, text, strlen(text));
}

static int write_integer(const json_t *json, struct buf *to)
{
    char text[24];
    char *at = text + sizeof(text);
    json_int_t value = json_integer_value(json);
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        *--at = '-';
    return buf_append(to, at, (size_t)(text + sizeof(text) - at));
}

static int write_value(const json_t *json, size_t flags, struct buf *to)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return write_object((json_t *)json, flags, to);
    case JSON_ARRAY:
        return write_array(json, flags, to);
    case JSON_STRING:
        return write_string(json_string_value(json), json_string_length(json), to);
    case JSON_INTEGER:
        return write_integer(json, to);
    case JSON_REAL:
        return write_real(json, flags, to);
    case JSON_TRUE:
        return buf_append(to, "true", 4);
    case JSON_FALSE:
        return buf_append(to, "false", 5);
    default:
        return buf_append(to, "null", 4);
    }
}

/* ---- other forms ---- */

/* Where a document is put together. */
struct sink {
    struct buf *text;
    int failure; /* kept here: jansson 2.14 does not pass every failure on */
};

static int sink_add(const char *data, size_t length, void *ctx)
{
    struct sink *sink = ctx;

    if (sink->failure == 0)
        sink->failure = buf_append(sink->text, data, length);
    return sink->failure;
}

int text_of_json(json_t *json, size_t flags, struct buf *to)
{
    struct sink sink = {.text = to};

    if (json && flags & JSON_COMPACT && !(flags & ~(size_t)FAST) &&
        (flags & JSON_ENCODE_ANY || json_is_object(json) || json_is_array(json)))
        return write_value(json, flags, to);
    if (json_dump_callback(json, sink_add, &sink, flags) < 0 && sink.failure == 0)
        return -ENOMEM;
    return sink.failure;
}
