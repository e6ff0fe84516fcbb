/* base64.c - RFC 4648 section 4, both ways; strict. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "api/rest/inside.h"
#include "base/cleanup.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_encode(const void *data, size_t length, struct buf *text)
{
    const uint8_t *bytes = data;
    int r = 0;

    for (size_t at = 0; at < length && r == 0; at += 3) {
        size_t count = MIN(length - at, (size_t)3);
        uint32_t bits = (uint32_t)bytes[at] << 16;
        char four[4];

        if (count > 1)
            bits |= (uint32_t)bytes[at + 1] << 8;
        if (count > 2)
            bits |= bytes[at + 2];
        for (size_t i = 0; i < 4; i++)
            four[i] = i <= count ? letters[bits >> (18 - 6 * i) & 63] : '=';
        r = buf_append(text, four, sizeof(four));
    }
    return r;
}

/* The six bits of a letter; -1: it is none. */
static int value_of(char letter)
{
    const char *found = letter ? strchr(letters, letter) : NULL;

    return found ? (int)(found - letters) : -1;
}

int base64_decode(const char *text, size_t length, struct buf *data)
{
    int r = 0;

    if (length % 4 != 0)
        return -EINVAL;
    for (size_t at = 0; at < length && r == 0; at += 4) {
        size_t padding = 0;
        uint32_t bits = 0;
        uint8_t three[3];

        if (at + 4 == length && text[at + 3] == '=')
            padding = text[at + 2] == '=' ? 2 : 1;
        for (size_t i = 0; i < 4; i++) {
            int value = i < 4 - padding ? value_of(text[at + i]) : 0;

            if (value < 0)
                return -EINVAL;
            bits = bits << 6 | (uint32_t)value;
        }
        for (size_t i = 0; i < 3; i++)
            three[i] = (uint8_t)(bits >> (16 - 8 * i));
        r = buf_append(data, three, 3 - padding);
    }
    return r;
}
