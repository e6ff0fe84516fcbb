/* route.c - which row a request belongs to; see route.h. */
#include "http/route.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

/* Nothing is normalised, so what a normaliser would remove fits no pattern. */
static bool segment_is_odd(const char *segment)
{
    return segment[0] == '\0' || str_equal(segment, ".") || str_equal(segment, "..");
}

static bool has_odd_segment(const struct http_target *target)
{
    if (str_equal(target->path, "/"))
        return false; /* the one path with an empty segment; it fits no {x} */
    for (size_t i = 0; i < target->segment_count; i++) {
        if (segment_is_odd(target->segments[i]))
            return true;
    }
    return false;
}

/* One piece of a pattern, "{x}", "{x*}" or a word. */
struct piece {
    const char *text;
    size_t length;
    bool is_param, is_rest;
};

static struct piece piece_at(const char *pattern)
{
    struct piece piece = {.text = pattern, .length = strcspn(pattern, "/")};

    if (piece.length > 2 && pattern[0] == '{' && pattern[piece.length - 1] == '}') {
        piece.is_param = true;
        piece.text++;
        piece.length -= 2;
        if (piece.text[piece.length - 1] == '*') {
            piece.is_rest = true;
            piece.length--;
        }
    }
    return piece;
}

static bool word_fits(const struct piece *piece, const char *segment)
{
    return strlen(segment) == piece->length && memcmp(segment, piece->text, piece->length) == 0;
}

/* Whether the pattern fits; fills the params. `ret_rest` is the first segment of {x*}, or count. */
static bool pattern_fits(const char *pattern, const struct http_target *target,
                         struct route_match *match, size_t *ret_rest)
{
    size_t at = 0;

    match->param_count = 0;
    *ret_rest = target->segment_count;
    while (*pattern == '/') {
        struct piece piece = piece_at(++pattern);

        if (at == target->segment_count)
            return false;
        if (!piece.is_param && !word_fits(&piece, target->segments[at]))
            return false;
        if (piece.is_param) {
            if (match->param_count == LIMIT_HTTP_PARAMS || target->segments[at][0] == '\0')
                return false;
            match->params[match->param_count++] =
                (struct route_param){piece.text, piece.length, target->segments[at]};
        }
        if (piece.is_rest) {
            *ret_rest = at;
            return true;
        }
        at++;
        pattern += strcspn(pattern, "/");
    }
    return at == target->segment_count;
}

bool route_has_path(const char *pattern, const char *path)
{
    while (*pattern == '/' && *path == '/') {
        struct piece piece = piece_at(++pattern);
        size_t length = strcspn(++path, "/");

        if (piece.is_param ? length == 0
                           : length != piece.length || memcmp(path, piece.text, length) != 0)
            return false;
        if (piece.is_rest)
            return true;
        pattern += strcspn(pattern, "/");
        path += length;
    }
    return *pattern == '\0' && *path == '\0';
}

/* Segments stand one behind the other: a slash instead of a NUL makes two of them one. */
static void join(struct http_target *target, size_t first)
{
    for (size_t i = first + 1; i < target->segment_count; i++)
        target->segments[i][-1] = '/';
    if (first < target->segment_count)
        target->segment_count = first + 1;
}

static void allow_add(struct route_match *match, const char *method)
{
    size_t used = strlen(match->allow);

    /* Whole words: GET and GET do not come twice, and none is the end of another one here. */
    if (strstr(match->allow, method))
        return;
    str_format(match->allow + used, sizeof(match->allow) - used, "%s%s", used > 0 ? ", " : "",
               method);
}

void route_find(const struct http_route *routes, size_t count, const char *method,
                struct http_target *target, struct route_match *ret)
{
    const char *wanted = str_equal(method, "HEAD") ? "GET" : method;
    size_t rest;

    ret->route = NULL;
    ret->allow[0] = '\0';
    if (!has_odd_segment(target)) {
        for (size_t i = 0; i < count; i++) {
            if (!pattern_fits(routes[i].pattern, target, ret, &rest))
                continue;
            if (str_equal(routes[i].method, wanted)) {
                ret->route = &routes[i];
                ret->allow[0] = '\0';
                join(target, rest);
                return;
            }
            allow_add(ret, routes[i].method);
            if (str_equal(routes[i].method, "GET"))
                allow_add(ret, "HEAD");
        }
    }
    ret->param_count = 0;
}

const char *route_param(const struct route_match *match, const char *name)
{
    for (size_t i = 0; i < match->param_count; i++) {
        const struct route_param *param = &match->params[i];

        if (strlen(name) == param->name_length && memcmp(name, param->name, strlen(name)) == 0)
            return param->value;
    }
    return NULL;
}
