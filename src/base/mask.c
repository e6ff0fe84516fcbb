/* mask.c - secrets of keys out of texts; see mask.h. */
#include "base/mask.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define PREFIX "bly_"
#define PREFIX_E2B "e2b_"
#define ID_DIGITS 16 /* of a key in E2B's spelling, which has no dot after its id */

static bool is_secret(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* The number of hexadecimal digits here. */
static size_t digits(const char *at, const char *end)
{
    size_t count = 0;

    while (at + count < end && isxdigit((unsigned char)at[count]))
        count++;
    return count;
}

static void mask_ours(char *text, size_t length)
{
    char *end = text + length, *at = text, *found;

    while ((found = memmem(at, (size_t)(end - at), PREFIX, sizeof(PREFIX) - 1))) {
        at = found + sizeof(PREFIX) - 1;
        found = at + digits(at, end);
        if (found == at || found == end || *found != '.')
            continue; /* no id of a key; what follows may be one */
        for (at = found + 1; at < end && is_secret(*at); at++)
            *at = '*';
    }
}

/* What follows the id, however long it is: a key that was cut is one too. */
static void mask_e2b(char *text, size_t length)
{
    char *end = text + length, *at = text, *found;

    while ((found = memmem(at, (size_t)(end - at), PREFIX_E2B, sizeof(PREFIX_E2B) - 1))) {
        size_t count;

        at = found + sizeof(PREFIX_E2B) - 1;
        count = digits(at, end);
        if (count > ID_DIGITS)
            memset(at + ID_DIGITS, '*', count - ID_DIGITS);
        at += count;
    }
}

void mask_keys(char *text, size_t length)
{
    mask_ours(text, length);
    mask_e2b(text, length);
}
