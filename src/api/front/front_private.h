/*
 * front_private.h - what the files of the front hall share: servers, doors that are open, rows with
 * their schemas compiled.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_FRONT_FRONT_PRIVATE_H
#define BAILEY_API_FRONT_FRONT_PRIVATE_H

#include "api/front/door.h"
#include "http/route.h"

struct schema;

struct front_door {
    const struct door_ops *ops;
    void *state;               /* what open() made */
    struct route_table *table; /* its rows alone, of a door that claims requests; NULL: of others */
};

/* A row of a door, compiled; http_row() of a request. */
struct front_row {
    const struct door_route *route;
    struct front_door *door;
    struct schema *request; /* NULL: there is none to check */
    struct schema *params[DOOR_PARAMS_MAX];
};

struct front_private {
    struct http_server *server; /* of the socket */
    struct http_server *others[FRONT_ADDRESSES_MAX];
    size_t other_count;
    struct front_door doors[FRONT_DOORS_MAX];
    struct front_row *rows;
    struct http_route *routes; /* the same rows, for the servers */
    struct route_table *table; /* compiled */
    size_t route_count;
};

/* ---- doors and rows (rows.c) ---- */

int front_rows_compile(struct front *front, struct error *err);
void front_rows_free(struct front *front); /* safe after half a compilation */
const struct route_table *front_table(const struct http_request *http, void *ctx);
/* Whose request this is: by claims(), by its row, by its path; the first door's otherwise. */
const struct front_door *front_door_of(const struct http_request *http);
/* `door` of the metrics for a request that is over. */
const char *front_label(const struct front *front, const struct http_done *done);

/* ---- requests (dispatch.c, refuse.c) ---- */

bool front_admit(struct http_request *http, void *ctx);
void front_dispatch(struct http_request *http, void *ctx);
void front_no_route(struct http_request *http, bool is_path, const char *allow, void *ctx);
void front_server_refuses(struct http_request *http, unsigned status, const char *why, void *ctx);

/* ---- what is said of them (observe.c) ---- */

void front_handled(void *ctx);
void front_done(void *ctx, const struct http_done *done);
void front_page_refused(struct front *front, struct http_request *http); /* Host or Origin */

#endif
