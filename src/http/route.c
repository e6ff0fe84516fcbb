/* route.c - which row a request belongs to; see route.h. */
#include "http/route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

/* Nothing is normalised, so what a normaliser would remove fits no pattern. */
static bool segment_is_odd(const char *segment)
{
    return segment[0] == '\0' || str_equal(segment, ".") || str_equal(segment, "..");
}

/* The first odd segment; their count if there is none. */
static size_t first_odd_segment(const struct http_target *target)
{
    size_t i = 0;

    if (str_equal(target->path, "/"))
        return 1; /* the one path with an empty segment; it fits no {x} */
    while (i < target->segment_count && !segment_is_odd(target->segments[i]))
        i++;
    return i;
}

/* One piece of a pattern, "{x}", "{x*}", "{x**}" or a word. */
struct piece {
    const char *text;
    size_t length;
    bool is_param, is_rest;
    bool is_any; /* a rest whose segments may be odd */
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
        if (piece.is_rest && piece.text[piece.length - 1] == '*') {
            piece.is_any = true;
            piece.length--;
        }
    }
    return piece;
}

static bool word_fits(const struct piece *piece, const char *segment)
{
    return strlen(segment) == piece->length && memcmp(segment, piece->text, piece->length) == 0;
}

struct compiled {
    const struct http_route *route;
    const struct piece *pieces;
    size_t count;
    bool has_rest; /* its last piece is {x*} */
    bool has_any;  /* it is {x**} */
};

struct route_table {
    struct piece *pieces; /* of all rows, one behind the other */
    size_t count;
    struct compiled rows[];
};

/* Into `to`, unless that is NULL; how many they are. */
static size_t take_apart(const char *pattern, struct piece *to)
{
    size_t count = 0;

    while (*pattern == '/') {
        struct piece piece = piece_at(++pattern);

        if (to)
            to[count] = piece;
        count++;
        if (piece.is_rest)
            break;
        pattern += strcspn(pattern, "/");
    }
    return count;
}

int route_compile(const struct http_route *routes, size_t count, struct route_table **ret)
{
    struct route_table *table = calloc(1, sizeof(*table) + count * sizeof(table->rows[0]));
    size_t total = 0;

    for (size_t i = 0; i < count; i++)
        total += take_apart(routes[i].pattern, NULL);
    if (table)
        table->pieces = calloc(total + 1, sizeof(*table->pieces));
    if (!table || !table->pieces) {
        free(table);
        return -ENOMEM;
    }
    total = 0;
    for (size_t i = 0; i < count; i++) {
        struct compiled *row = &table->rows[i];

        row->route = &routes[i];
        row->pieces = table->pieces + total;
        row->count = take_apart(routes[i].pattern, table->pieces + total);
        row->has_rest = row->count > 0 && row->pieces[row->count - 1].is_rest;
        row->has_any = row->has_rest && row->pieces[row->count - 1].is_any;
        total += row->count;
    }
    table->count = count;
    *ret = table;
    return 0;
}

void route_table_free(struct route_table *table)
{
    if (!table)
        return;
    free(table->pieces);
    free(table);
}

/* Whether the row's path fits; fills the params. `ret_rest` is the first segment of {x*}, or count.
 */
static bool row_fits(const struct compiled *row, const struct http_target *target,
                     struct route_match *match, size_t *ret_rest)
{
    *ret_rest = row->has_rest ? row->count - 1 : target->segment_count;
    match->param_count = 0;
    if (row->has_rest ? target->segment_count < row->count : target->segment_count != row->count)
        return false;
    for (size_t i = 0; i < row->count; i++) {
        const struct piece *piece = &row->pieces[i];

        if (!piece->is_param && !word_fits(piece, target->segments[i]))
            return false;
        if (!piece->is_param)
            continue;
        if (match->param_count == LIMIT_HTTP_PARAMS ||
            (target->segments[i][0] == '\0' && !piece->is_any))
            return false;
        match->params[match->param_count++] =
            (struct route_param){piece->text, piece->length, target->segments[i]};
    }
    return true;
}

bool route_has_path(const char *pattern, const char *path)
{
    while (*pattern == '/' && *path == '/') {
        struct piece piece = piece_at(++pattern);
        size_t length = strcspn(++path, "/");

        if (piece.is_param ? length == 0 && !piece.is_any
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

    /* Each method is listed once; no method is part of another one. */
    if (strstr(match->allow, method))
        return;
    str_format(match->allow + used, sizeof(match->allow) - used, "%s%s", used > 0 ? ", " : "",
               method);
}

void route_find(const struct route_table *table, const char *method, struct http_target *target,
                struct route_match *ret)
{
    const char *wanted = str_equal(method, "HEAD") ? "GET" : method;
    size_t rest, odd = first_odd_segment(target);

    ret->route = NULL;
    ret->allow[0] = '\0';
    for (size_t i = 0; i < table->count; i++) {
        const struct compiled *row = &table->rows[i];
        const struct http_route *route = row->route;

        if (odd < (row->has_any ? row->count - 1 : target->segment_count) ||
            !row_fits(row, target, ret, &rest))
            continue;
        if (str_equal(route->method, wanted)) {
            ret->route = route;
            ret->allow[0] = '\0';
            join(target, rest);
            return;
        }
        allow_add(ret, route->method);
        if (str_equal(route->method, "GET"))
            allow_add(ret, "HEAD");
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
