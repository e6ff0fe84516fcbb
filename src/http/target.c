/* target.c - path segments and query arguments, decoded; see target.h. */
#include "http/target.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "http/client.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/*
 * Writes the decoded bytes and a NUL at *to, and moves *to past them. False: a bad escape, or NUL.
 */
static bool decode(char **to, const char *text, size_t length, bool has_plus)
{
    char *out = *to;

    for (size_t i = 0; i < length; i++) {
        char c = text[i];

        if (c == '%') {
            int high = length - i > 2 ? hex_value(text[i + 1]) : -1;
            int low = length - i > 2 ? hex_value(text[i + 2]) : -1;

            if (high < 0 || low < 0 || high + low == 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && has_plus) {
            c = ' ';
        }
        *out++ = c;
    }
    *out++ = '\0';
    *to = out;
    return true;
}

/* `path` begins with a slash; each segment is what follows one. */
static int parse_path(struct http_target *target, const char *path, size_t length, char **to)
{
    const char *end = path + length;

    while (path < end) {
        const char *start = path + 1;
        const char *stop = memchr(start, '/', (size_t)(end - start));

        if (!stop)
            stop = end;
        if (target->segment_count == LIMIT_HTTP_SEGMENTS)
            return -ENAMETOOLONG;
        target->segments[target->segment_count++] = *to;
        if (!decode(to, start, (size_t)(stop - start), false))
            return -EINVAL;
        path = stop;
    }
    return 0;
}

static int parse_argument(struct http_target *target, const char *text, size_t length, char **to)
{
    const char *equals = memchr(text, '=', length);
    size_t name_length = equals ? (size_t)(equals - text) : length;
    struct http_pair *pair;

    if (length == 0)
        return 0; /* "a=1&&b=2" */
    if (target->argument_count == LIMIT_HTTP_ARGUMENTS)
        return -ENAMETOOLONG;
    pair = &target->arguments[target->argument_count++];
    pair->name = *to;
    if (!decode(to, text, name_length, true))
        return -EINVAL;
    pair->value = *to - 1; /* the name's NUL: "" */
    if (!equals)
        return 0;
    pair->value = *to;
    return decode(to, equals + 1, length - name_length - 1, true) ? 0 : -EINVAL;
}

static int parse_query(struct http_target *target, const char *query, char **to)
{
    for (;;) {
        size_t length = strcspn(query, "&");
        int r = parse_argument(target, query, length, to);

        if (r < 0 || query[length] == '\0')
            return r;
        query += length + 1;
    }
}

int target_parse(struct http_target *target, const char *text)
{
    size_t length = strnlen(text, LIMIT_HTTP_TARGET + 1);
    size_t path_length = strcspn(text, "?");
    char *to;
    int r;

    memset(target, 0, sizeof(*target));
    if (path_length > LIMIT_HTTP_TARGET)
        return -ENAMETOOLONG;
    if (text[0] != '/')
        return -EINVAL;
    /*
     * Path and query as they came, each with its NUL, then everything decoded: that never grows,
     * and whatever ends a piece (a slash, "=", "&", the end) leaves room for the piece's NUL.
     */
    target->memory = malloc(path_length + 1 + length + 1 + length + 1);
    if (!target->memory)
        return -ENOMEM;
    memcpy(target->memory, text, path_length);
    target->memory[path_length] = '\0';
    target->path = target->memory;
    if (length > LIMIT_HTTP_TARGET)
        return -ENAMETOOLONG; /* with its path, so that the right door says so */
    to = target->memory + path_length + 1;
    if (text[path_length] == '?') {
        size_t query_length = length - path_length - 1;

        memcpy(to, text + path_length + 1, query_length);
        to[query_length] = '\0';
        target->query = to;
        to += query_length + 1;
    }
    r = parse_path(target, text, path_length, &to);
    if (r == 0 && text[path_length] == '?')
        r = parse_query(target, text + path_length + 1, &to);
    return r;
}

void target_free(struct http_target *target)
{
    free(target->memory);
    memset(target, 0, sizeof(*target));
}

int http_encode(struct buf *text, const char *value)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    size_t before = text->length;
    int r = 0;

    for (const char *at = value; *at && r == 0; at++) {
        if (strchr(plain, *at))
            r = buf_append(text, at, 1);
        else
            r = buf_printf(text, "%%%02X", (unsigned char)*at);
    }
    if (r < 0 && text->data) {
        text->length = before;
        text->data[before] = '\0';
    }
    return r;
}
