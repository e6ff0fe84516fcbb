/* mask.c - secrets of keys out of texts; see mask.h. */
#include "base/mask.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#define PREFIX "bly_"

static bool is_secret(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

void mask_keys(char *text, size_t length)
{
    char *end = text + length, *at = text, *found;

    while ((found = memmem(at, (size_t)(end - at), PREFIX, sizeof(PREFIX) - 1))) {
        at = found + sizeof(PREFIX) - 1;
        for (found = at; found < end && isxdigit((unsigned char)*found);)
            found++;
        if (found == at || found == end || *found != '.')
            continue; /* no id of a key; what follows may be one */
        for (at = found + 1; at < end && is_secret(*at); at++)
            *at = '*';
    }
}
