/*
 * raw_id.c - the id of a message that the JSON parser refuses: invalid UTF-8, half a surrogate
 * pair, too deep. A client that gets an error without its id would wait forever, so the id is
 * searched in the bytes, by a walk over strings and brackets that allocates nothing.
 */
#include <string.h>

#include "api/mcp/mcp_private.h"
#include "model/json.h"

#define ID_TEXT_MAX 512

/* The offset after the string that begins at `at` with a quote; `length` if it does not end. */
static size_t string_end(const char *text, size_t length, size_t at)
{
    for (at++; at < length; at++) {
        if (text[at] == '\\')
            at++;
        else if (text[at] == '"')
            return at + 1;
    }
    return length;
}

static size_t blanks_end(const char *text, size_t length, size_t at)
{
    while (at < length && memchr(" \t\r\n", text[at], 4))
        at++;
    return at;
}

/* An id is a string or an integer. */
static json_t *read_id(const char *text, size_t length, size_t at)
{
    size_t end = at;
    json_t *id;

    if (at < length && text[at] == '"')
        end = string_end(text, length, at);
    else
        while (end < length && (text[end] == '-' || (text[end] >= '0' && text[end] <= '9')))
            end++;
    if (end - at > ID_TEXT_MAX)
        return NULL;
    id = json_parse(text + at, end - at, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (json_is_string(id) || json_is_integer(id))
        return id;
    json_decref(id);
    return NULL;
}

json_t *mcp_raw_id(const char *text, size_t length)
{
    size_t depth = 0, at = 0;

    while (at < length) {
        if (text[at] == '"') {
            size_t end = string_end(text, length, at);
            bool is_id = depth == 1 && end - at == 4 && memcmp(text + at, "\"id\"", 4) == 0;

            at = blanks_end(text, length, end);
            if (is_id && at < length && text[at] == ':')
                return read_id(text, length, blanks_end(text, length, at + 1));
            continue;
        }
        if (text[at] == '{' || text[at] == '[')
            depth++;
        else if (text[at] == '}' || text[at] == ']')
            depth -= depth > 0;
        at++;
    }
    return NULL;
}
