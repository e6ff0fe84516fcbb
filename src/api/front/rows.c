/*
 * rows.c - opens the doors and compiles their rows to routes of the servers: once, at start, with
 * every schema. Also finds the door of a request.
 */
#include <stdlib.h>

#include "api/front/front_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "tool/schema.h"

/* ---- compiling ---- */

/* A wrong row is a bug of the program: a test compiles all of them. */
static int compile(const struct door_route *route, const char *text, struct schema **ret,
                   struct error *err)
{
    int r = text ? schema_compile(text, ret) : 0;

    return r < 0 ? error_set(err, r, ERROR_ENGINE, "compiling a schema of %s %s", route->method,
                             route->path)
                 : 0;
}

static int compile_row(struct front_row *row, struct error *err)
{
    const struct door_route *route = row->route;
    int r = 0;

    if (row->door->ops->checks_itself)
        return 0;
    if (route->body == BODY_JSON)
        r = compile(route, route->request, &row->request, err);
    for (size_t i = 0; route->params[i].name && r == 0; i++)
        if (route->params[i].in == IN_QUERY)
            r = compile(route, route->params[i].schema, &row->params[i], err);
    return r;
}

static struct http_route make_route(const struct front_row *row)
{
    static const enum http_body bodies[] = {[BODY_NONE] = HTTP_NO_BODY,
                                            [BODY_JSON] = HTTP_WHOLE_BODY,
                                            [BODY_BYTES] = HTTP_STREAM_BODY,
                                            [BODY_FORM] = HTTP_STREAM_BODY};
    const struct door_route *route = row->route;
    size_t most = route->request_max ? route->request_max : LIMIT_REQUEST_JSON;

    return (struct http_route){
        .method = route->method,
        .pattern = route->path,
        .body = bodies[route->body],
        .body_max = route->body == BODY_JSON ? most : 0,
        .handle = front_dispatch,
        .row = row,
        .admit = front_admit,
    };
}

static int compile_table(const struct http_route *routes, size_t count, struct route_table **ret,
                         struct error *err)
{
    return route_compile(routes, count, ret) < 0 ? error_memory(err) : 0;
}

static int open_door(struct front *front, struct front_door *door, size_t first, struct error *err)
{
    struct front_private *own = front->own;
    int r = door->ops->open ? door->ops->open(front, &door->state, err) : 0;

    for (size_t i = 0; i < door->ops->route_count && r == 0; i++) {
        struct front_row *row = &own->rows[first + i];

        *row = (struct front_row){.route = &door->ops->routes[i], .door = door};
        own->routes[first + i] = make_route(row);
        r = compile_row(row, err);
    }
    if (r == 0 && door->ops->claims)
        r = compile_table(own->routes + first, door->ops->route_count, &door->table, err);
    return r;
}

/* The doors that are searched by path, or those that are not. */
static int open_doors(struct front *front, bool only_claimed, size_t *first, struct error *err)
{
    struct front_private *own = front->own;
    int r = 0;

    for (size_t i = 0; i < front->doors.count && r == 0; i++) {
        const struct door_ops *ops = front->doors.rows[i];

        if (ops->only_claimed != only_claimed)
            continue;
        own->doors[i].ops = ops;
        r = open_door(front, &own->doors[i], *first, err);
        *first += ops->route_count;
    }
    return r;
}

int front_rows_compile(struct front *front, struct error *err)
{
    struct front_private *own = front->own;
    size_t first = 0;
    int r;

    for (size_t i = 0; i < front->doors.count; i++)
        own->route_count += front->doors.rows[i]->route_count;
    own->rows = calloc(own->route_count + 1, sizeof(*own->rows));
    own->routes = calloc(own->route_count + 1, sizeof(*own->routes));
    if (!own->rows || !own->routes)
        return error_memory(err);
    r = open_doors(front, false, &first, err);
    own->searched_count = first;
    if (r == 0)
        r = open_doors(front, true, &first, err);
    return r < 0 ? r : compile_table(own->routes, own->searched_count, &own->table, err);
}

void front_rows_free(struct front *front)
{
    struct front_private *own = front->own;

    for (size_t i = 0; i < front->doors.count; i++) {
        if (own->doors[i].state)
            own->doors[i].ops->close(own->doors[i].state);
        own->doors[i].state = NULL;
        route_table_free(own->doors[i].table);
    }
    route_table_free(own->table);
    for (size_t i = 0; own->rows && i < own->route_count; i++) {
        schema_free(own->rows[i].request);
        for (size_t k = 0; k < DOOR_PARAMS_MAX; k++)
            schema_free(own->rows[i].params[k]);
    }
    free(own->rows);
    free(own->routes);
}

/* ---- the door of a request ---- */

static const struct front_door *claimed_by(const struct front *front,
                                           const struct http_request *http)
{
    for (size_t i = 0; i < front->doors.count; i++) {
        const struct front_door *door = &front->own->doors[i];

        if (door->ops->claims && door->ops->claims(http))
            return door;
    }
    return NULL;
}

static const struct front_row *row_of_path(const struct front *front, const char *path)
{
    for (size_t i = 0; i < front->own->searched_count; i++)
        if (route_has_path(front->own->rows[i].route->path, path))
            return &front->own->rows[i];
    return NULL;
}

const struct route_table *front_table(const struct http_request *http, void *ctx)
{
    const struct front *front = ctx;
    const struct front_door *door = claimed_by(front, http);

    return door ? door->table : front->own->table;
}

const struct front_door *front_door_of(const struct http_request *http)
{
    const struct front *front = http_ctx(http);
    const struct front_row *row = http_row(http);
    const struct front_door *door = row ? row->door : claimed_by(front, http);

    if (!door) {
        row = row_of_path(front, http_path(http));
        door = row ? row->door : &front->own->doors[0];
    }
    return door;
}

const struct door_route *front_route(const struct http_request *http)
{
    const struct front_row *row = http_row(http);

    return row ? row->route : NULL;
}

void *front_door_state(const struct http_request *http)
{
    const struct front_row *row = http_row(http);

    return row ? row->door->state : NULL;
}

const char *front_shown_path(const void *row, const char *path)
{
    const struct front_row *found = row;

    return found && found->door->ops->hides_paths ? found->route->path : path;
}

static const char *label_of(const struct door_ops *ops)
{
    return ops->label ? ops->label : ops->name;
}

const char *front_label(const struct front *front, const struct http_done *done)
{
    const struct front_row *row = done->row ? done->row : row_of_path(front, done->path);

    if (row)
        return row->route->label ? row->route->label : label_of(row->door->ops);
    for (size_t i = 0; i < front->doors.count; i++)
        if (front->doors.rows[i]->prefix && str_starts(done->path, front->doors.rows[i]->prefix))
            return label_of(front->doors.rows[i]);
    return "other";
}
