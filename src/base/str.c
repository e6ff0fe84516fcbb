/* str.c - comparing, copying, numbers, "did you mean" and UTF-8; see str.h. Lists are in strv.c. */
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

#define FRACTION_DIGITS_MAX 9
#define NEAREST_WORD_MAX 64

bool str_equal(const char *a, const char *b)
{
    if (!a || !b)
        return a == b;
    return strcmp(a, b) == 0;
}

bool str_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *text, const char *suffix)
{
    size_t length = strlen(text), wanted = strlen(suffix);

    return length >= wanted && memcmp(text + length - wanted, suffix, wanted) == 0;
}

bool str_copy(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);
    bool fits = length < size;

    if (size == 0)
        return false;
    if (!fits)
        length = size - 1;
    memcpy(to, from, length);
    to[length] = '\0';
    return fits;
}

int str_format(char *to, size_t size, const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(to, size, format, args);
    va_end(args);
    return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

/* Eats the digits at *text, at least one. A number that does not fit eats all of them: -ERANGE. */
static int eat_digits(const char **text, uint64_t *ret)
{
    const char *next = *text;
    uint64_t value = 0;
    int r = 0;

    if (*next < '0' || *next > '9')
        return -EINVAL;
    for (; *next >= '0' && *next <= '9'; next++) {
        uint64_t digit = (uint64_t)(*next - '0');

        if (value > (UINT64_MAX - digit) / 10)
            r = -ERANGE;
        else
            value = value * 10 + digit;
    }
    *text = next;
    *ret = value;
    return r;
}

int str_to_u64(const char *text, uint64_t *ret)
{
    uint64_t value = 0;
    int r = eat_digits(&text, &value);

    if (r == -EINVAL || *text != '\0')
        return -EINVAL;
    if (r == 0)
        *ret = value;
    return r;
}

bool str_is_canonical(const char *digits)
{
    return digits[0] != '0' || digits[1] == '\0' || digits[1] == '.';
}

int str_to_i64(const char *text, int64_t *ret)
{
    bool is_negative = text[0] == '-';
    uint64_t value;
    int r = str_to_u64(text + is_negative, &value);

    if (r < 0)
        return r;
    if (value > (uint64_t)INT64_MAX + is_negative)
        return -ERANGE;
    *ret = is_negative ? (int64_t)(0 - value) : (int64_t)value;
    return 0;
}

/* A number with units: "1.5g". The first row is the unit of a bare number. */
struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit byte_units[] = {
    {"", 1},
    {"b", 1},
    {"k", UINT64_C(1) << 10},
    {"m", UINT64_C(1) << 20},
    {"g", UINT64_C(1) << 30},
    {"t", UINT64_C(1) << 40},
    {"kb", UINT64_C(1) << 10},
    {"mb", UINT64_C(1) << 20},
    {"gb", UINT64_C(1) << 30},
    {"tb", UINT64_C(1) << 40},
    {"kib", UINT64_C(1) << 10},
    {"mib", UINT64_C(1) << 20},
    {"gib", UINT64_C(1) << 30},
    {"tib", UINT64_C(1) << 40},
};

static const struct unit milli_units[] = {
    {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000},
};

static const struct unit *find_unit(const struct unit *units, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(units[i].name, name) == 0)
            return &units[i];
    }
    return NULL;
}

/* Fractions round up, so that a small value never becomes 0, which often means something else. */
static int parse_with_unit(const char *text, const struct unit *units, size_t count, uint64_t *ret)
{
    uint64_t whole = 0, fraction = 0, scale = 1;
    const struct unit *unit;
    unsigned __int128 value;
    int r = eat_digits(&text, &whole);

    if (r == -EINVAL)
        return r;
    if (*text == '.') {
        const char *start = ++text;

        if (eat_digits(&text, &fraction) < 0 || text - start > FRACTION_DIGITS_MAX)
            return -EINVAL;
        for (; start < text; start++)
            scale *= 10;
    }
    unit = find_unit(units, count, text);
    if (!unit || (scale > 1 && unit->factor == 1))
        return -EINVAL; /* half a byte, half a millisecond */
    if (r < 0)
        return r;
    value = (unsigned __int128)whole * unit->factor +
            ((unsigned __int128)fraction * unit->factor + scale - 1) / scale;
    if (value > UINT64_MAX)
        return -ERANGE;
    *ret = (uint64_t)value;
    return 0;
}

int str_to_bytes(const char *text, uint64_t *ret)
{
    return parse_with_unit(text, byte_units, ARRAY_SIZE(byte_units), ret);
}

int str_to_millis(const char *text, uint64_t *ret)
{
    return parse_with_unit(text, milli_units, ARRAY_SIZE(milli_units), ret);
}

int str_to_bool(const char *text, bool *ret)
{
    static const char *const words[2][4] = {
        {"false", "no", "off", "0"},
        {"true", "yes", "on", "1"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(words[0]); i++) {
        for (int value = 0; value < 2; value++) {
            if (strcasecmp(text, words[value][i]) == 0) {
                *ret = value;
                return 0;
            }
        }
    }
    return -EINVAL;
}

/* bytes / 2^shift in tenths, rounded to the nearest */
static uint64_t tenths_of(uint64_t bytes, unsigned int shift)
{
    return (uint64_t)(((unsigned __int128)bytes * 10 + (UINT64_C(1) << (shift - 1))) >> shift);
}

void str_from_bytes(uint64_t bytes, char *text, size_t size)
{
    static const char suffixes[] = "kmgt";
    unsigned int unit = 0;
    uint64_t tenths;

    if (bytes < 1024) {
        str_format(text, size, "%llu", (unsigned long long)bytes);
        return;
    }
    tenths = tenths_of(bytes, 10);
    while (tenths >= 10 * 1024 && suffixes[unit + 1]) {
        unit++;
        tenths = tenths_of(bytes, 10 * (unit + 1));
    }
    if (tenths % 10 == 0)
        str_format(text, size, "%llu%c", (unsigned long long)(tenths / 10), suffixes[unit]);
    else
        str_format(text, size, "%llu.%llu%c", (unsigned long long)(tenths / 10),
                   (unsigned long long)(tenths % 10), suffixes[unit]);
}

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/*
 * Optimal string alignment distance (insert, delete, replace, swap neighbours), ignoring case.
 * Three rows are enough: a swap looks two rows back.
 */
static unsigned int distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned int rows[3][NEAREST_WORD_MAX + 1];

    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = (unsigned int)j;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned int *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

        row[0] = (unsigned int)i;
        for (size_t j = 1; j <= b_length; j++) {
            unsigned int differs = lower(a[i - 1]) != lower(b[j - 1]);
            unsigned int best = MIN(above[j], row[j - 1]) + 1;

            best = MIN(best, above[j - 1] + differs);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                best = MIN(best, before[j - 2] + 1);
            row[j] = best;
        }
    }
    return rows[a_length % 3][b_length];
}

const char *str_nearest(const char *word, const char *const *words)
{
    size_t length = strlen(word);
    /*
     * Up to a third of the letters may be wrong, at least one; two wrong letters of two are not a
     * hint.
     */
    unsigned int best = (unsigned int)MAX(length / 3, (size_t)1) + 1;
    const char *nearest = NULL;

    if (length == 0 || length > NEAREST_WORD_MAX)
        return NULL;
    for (; *words; words++) {
        size_t other = strlen(*words);
        unsigned int found;

        if (other > NEAREST_WORD_MAX)
            continue;
        found = distance(word, length, *words, other);
        if (found < best && found < MAX(length, other)) {
            best = found;
            nearest = *words;
        }
    }
    return nearest;
}

/* ---- where UTF-8 sequences begin and end; strict: RFC 3629, no surrogates ---- */

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
