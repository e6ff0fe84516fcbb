/* image_name.c - parses image references, part by part; see image_name.h. */
#include "config/image_name.h"

#include <stddef.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"

#define DIGITS "0123456789"
#define SMALL "abcdefghijklmnopqrstuvwxyz" DIGITS
#define LETTERS SMALL "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGEST "@sha256:"

static bool is_of(char byte, const char *letters)
{
    return byte && strchr(letters, byte);
}

/* Lower-case letters and digits, separated by one `.`, `_`, `__` or any number of `-`. */
static bool is_component(const char *text, size_t length)
{
    if (length == 0 || !is_of(text[0], SMALL) || !is_of(text[length - 1], SMALL))
        return false;
    for (size_t i = 0; i < length; i++) {
        size_t dashes = strspn(text + i, "-"), lines = strspn(text + i, "_");

        if (is_of(text[i], SMALL))
            continue;
        if (dashes)
            i += dashes - 1;
        else if (lines == 1 || lines == 2)
            i += lines - 1;
        else if (text[i] != '.')
            return false;
        if (!is_of(text[i + 1], SMALL))
            return false;
    }
    return true;
}

/* A host name or address, with an optional port. */
static bool is_registry(const char *text, size_t length)
{
    const char *colon = memchr(text, ':', length);
    size_t host = colon ? (size_t)(colon - text) : length, port = colon ? length - host - 1 : 0;

    if (host == 0 || (colon && (port == 0 || port > 5 || strspn(colon + 1, DIGITS) != port)))
        return false;
    for (size_t i = 0; i < host; i++) {
        bool is_edge = i == 0 || i == host - 1 || text[i - 1] == '.' || text[i + 1] == '.';

        if (!is_of(text[i], LETTERS) && (is_edge || !is_of(text[i], "-.")))
            return false;
    }
    return true;
}

/* As Docker decides it: text that cannot be part of a name, or localhost. */
static bool looks_like_registry(const char *text, size_t length)
{
    if (length == 9 && memcmp(text, "localhost", 9) == 0)
        return true;
    for (size_t i = 0; i < length; i++) {
        if (!is_of(text[i], SMALL "-_"))
            return true;
    }
    return false;
}

static bool is_path(const char *text, size_t length)
{
    const char *end = text + length, *slash = memchr(text, '/', length);

    if (slash && looks_like_registry(text, (size_t)(slash - text))) {
        if (!is_registry(text, (size_t)(slash - text)))
            return false;
        text = slash + 1;
    }
    for (;;) {
        slash = memchr(text, '/', (size_t)(end - text));
        if (!is_component(text, (size_t)((slash ? slash : end) - text)))
            return false;
        if (!slash)
            return true;
        text = slash + 1;
    }
}

static bool is_tag(const char *text, size_t length)
{
    return length > 0 && length <= 128 && is_of(text[0], LETTERS "_") &&
           strspn(text, LETTERS "_.-") >= length;
}

bool image_name_is_valid(const char *text)
{
    const char *at = strchr(text, '@'), *slash, *colon;
    size_t length = at ? (size_t)(at - text) : strlen(text);

    if (strlen(text) > LIMIT_IMAGE_NAME)
        return false;
    if (at && (!str_starts(at, DIGEST) || strlen(at + strlen(DIGEST)) != 64 ||
               strspn(at + strlen(DIGEST), DIGITS "abcdef") != 64))
        return false;
    slash = memrchr(text, '/', length);
    colon = memrchr(text, ':', length);
    if (colon && (!slash || colon > slash)) {
        if (!is_tag(colon + 1, (size_t)(text + length - colon - 1)))
            return false;
        length = (size_t)(colon - text);
    }
    return is_path(text, length);
}
