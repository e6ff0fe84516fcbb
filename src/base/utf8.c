/* utf8.c - where UTF-8 sequences begin and end; see str.h. Strict: RFC 3629, no surrogates. */
#include <stdint.h>

#include "base/str.h"

/* Lead bytes, a row each: how long the sequence is and what its second byte may be. */
static const struct {
    uint8_t first, last, length, second_min, second_max;
} leads[] = {
    {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

int utf8_length(const void *data, size_t length)
{
    const uint8_t *bytes = data;
    size_t row = 0;

    if (length == 0)
        return -1;
    while (row < sizeof(leads) / sizeof(leads[0]) &&
           (bytes[0] < leads[row].first || bytes[0] > leads[row].last))
        row++;
    if (row == sizeof(leads) / sizeof(leads[0]))
        return 0;
    for (size_t i = 1; i < leads[row].length; i++) {
        uint8_t min = i == 1 ? leads[row].second_min : 0x80;
        uint8_t max = i == 1 ? leads[row].second_max : 0xbf;

        if (i == length)
            return -1;
        if (bytes[i] < min || bytes[i] > max)
            return 0;
    }
    return leads[row].length;
}

size_t utf8_floor(const void *data, size_t length)
{
    const uint8_t *bytes = data;

    /* A sequence that is cut has at most three of its bytes here, the first of them a lead. */
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        if ((bytes[length - back] & 0xc0) == 0x80)
            continue;
        return utf8_length(bytes + length - back, back) < 0 ? length - back : length;
    }
    return length;
}
