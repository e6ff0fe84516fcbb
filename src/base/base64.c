/* base64.c - see base64.h. Written in pieces: an append for each group would cost more than it. */
#include "base/base64.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PIECE_GROUPS 256 /* a group: three bytes, four letters */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void cut_back(struct buf *buf, size_t length)
{
    buf->length = length;
    if (buf->data)
        buf->data[length] = '\0';
}

/* One to three bytes as four letters. */
static void encode_group(const uint8_t *bytes, size_t count, char four[4])
{
    uint32_t bits = (uint32_t)bytes[0] << 16;

    if (count > 1)
        bits |= (uint32_t)bytes[1] << 8;
    if (count > 2)
        bits |= bytes[2];
    four[0] = alphabet[bits >> 18];
    four[1] = alphabet[bits >> 12 & 63];
    four[2] = '=';
    four[3] = '=';
    if (count > 1)
        four[2] = alphabet[bits >> 6 & 63];
    if (count > 2)
        four[3] = alphabet[bits & 63];
}

int base64_encode(const void *data, size_t length, struct buf *text)
{
    const uint8_t *bytes = data;
    const size_t before = text->length;
    char piece[4 * PIECE_GROUPS];
    size_t have = 0;

    for (size_t at = 0; at < length; at += 3) {
        size_t left = length - at;
        int r = 0;

        encode_group(bytes + at, left, piece + have);
        have += 4;
        if (have == sizeof(piece) || left <= 3) {
            r = buf_append(text, piece, have);
            have = 0;
        }
        if (r < 0) {
            cut_back(text, before);
            return r;
        }
    }
    return 0;
}

#define NONE 0xff

/* The six bits of each letter. */
struct letters {
    uint8_t values[256];
};

static void read_letters(struct letters *letters)
{
    memset(letters->values, NONE, sizeof(letters->values));
    for (uint8_t i = 0; i < 64; i++)
        letters->values[(unsigned char)alphabet[i]] = i;
}

/* Four letters, the last `padding` of them not looked at; false: one of the others is none. */
static bool decode_group(const struct letters *letters, const char *four, size_t padding,
                         uint8_t three[3])
{
    uint32_t bits = 0;
    uint8_t wrong = 0; /* has the bits above the sixth of all */

    for (size_t i = 0; i < 4; i++) {
        uint8_t value = i < 4 - padding ? letters->values[(unsigned char)four[i]] : 0;

        wrong |= value;
        bits = bits << 6 | (value & 63);
    }
    if (wrong > 63)
        return false;
    three[0] = (uint8_t)(bits >> 16);
    three[1] = (uint8_t)(bits >> 8);
    three[2] = (uint8_t)bits;
    return true;
}

int base64_decode(const char *text, size_t length, struct buf *data)
{
    const size_t before = data->length;
    uint8_t piece[3 * PIECE_GROUPS];
    struct letters letters;
    size_t have = 0;
    int r = length % 4 == 0 ? 0 : -EINVAL;

    read_letters(&letters);

    for (size_t at = 0; at < length && r == 0; at += 4) {
        bool is_last = length - at == 4;
        size_t padding = 0;

        if (is_last && text[at + 3] == '=')
            padding = text[at + 2] == '=' ? 2 : 1;
        if (!decode_group(&letters, text + at, padding, piece + have))
            r = -EINVAL;
        have += 3 - padding;
        if (r == 0 && (is_last || have == sizeof(piece))) {
            r = buf_append(data, piece, have);
            have = 0;
        }
    }
    if (r < 0)
        cut_back(data, before);
    return r;
}
