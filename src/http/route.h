/*
 * route.h - which row a request belongs to, or was probably meant for. Pure.
 *
 * The first row that fits wins, so a row with a plain word stands before one with {x} in its place.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_ROUTE_H
#define BAILEY_HTTP_ROUTE_H

#include "base/limits.h"
#include "http/server.h"
#include "http/target.h"

#define ROUTE_ALLOW_MAX 128

struct route_param {
    const char *name; /* in the pattern, not terminated */
    size_t name_length;
    const char *value; /* in the target */
};

struct route_match {
    const struct http_route *route; /* NULL: none */
    struct route_param params[LIMIT_HTTP_PARAMS];
    size_t param_count;
    char allow[ROUTE_ALLOW_MAX]; /* no route: the methods that the path has, "GET, HEAD"; or "" */
};

/* Rows with their patterns taken apart, once; borrows the rows. */
struct route_table;
int route_compile(const struct http_route *routes, size_t count,
                  struct route_table **ret);      /* -ENOMEM */
void route_table_free(struct route_table *table); /* NULL is fine */

/* {x*} joins its segments in the memory of `target`; those are not valid afterwards. */
void route_find(const struct route_table *table, const char *method, struct http_target *target,
                struct route_match *ret);
/* Whether a path is one of this pattern, whatever the method. */
bool route_has_path(const char *pattern, const char *path);
#define ROUTE_SUGGEST_MAX 256
/* The path that was probably meant by one that fits no row; "": none is near. */
void route_suggest(const struct http_route *routes, size_t count, const char *path,
                   char ret[ROUTE_SUGGEST_MAX]);
const char *route_param(const struct route_match *match, const char *name); /* or NULL */

#endif
