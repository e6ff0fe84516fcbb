/*
 * front_private.h - the state of the front hall: servers, open doors, rows with their compiled
 * schemas. For the files of front/ only.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_FRONT_FRONT_PRIVATE_H
#define BAILEY_API_FRONT_FRONT_PRIVATE_H

#include "api/front/door.h"
#include "base/sha256.h"
#include "http/route.h"

struct idempotency;
struct schema;

struct front_door {
    const struct door_ops *ops;
    void *state; /* the result of open() */
    struct route_table
        *table; /* its rows alone, for a door that claims requests; NULL: other doors */
};

/* A row of a door, compiled; http_row() of a request. */
struct front_row {
    const struct door_route *route;
    struct front_door *door;
    struct schema *request; /* NULL: nothing to check */
    struct schema *params[DOOR_PARAMS_MAX];
};

struct front_private {
    struct http_server *server; /* of the unix socket */
    struct http_server *others[FRONT_ADDRESSES_MAX];
    size_t other_count;
    struct front_door doors[FRONT_DOORS_MAX];
    struct front_row *rows;
    struct http_route *routes; /* the same rows, for the servers */
    struct route_table *table; /* compiled */
    size_t route_count;
    size_t searched_count; /* the first so many are searched by path (door_ops.only_claimed) */
    struct idempotency *idempotency;
};

/* ---- doors and rows (rows.c) ---- */

int front_rows_compile(struct front *front, struct error *err);
void front_rows_free(struct front *front); /* safe after an incomplete compilation */
const struct route_table *front_table(const struct http_request *http, void *ctx);
/* The door of a request: by claims(), by its row, by its path; otherwise the first door. */
const struct front_door *front_door_of(const struct http_request *http);
/* The path as logs may show it; row: of the request, or NULL. */
const char *front_shown_path(const void *row, const char *path);
/* The metrics label `door` of a finished request. */
const char *front_label(const struct front *front, const struct http_done *done);

/* ---- requests (dispatch.c, refuse.c) ---- */

bool front_admit(struct http_request *http, void *ctx);
void front_dispatch(struct http_request *http, void *ctx);
void *front_prepare(const void *row, const char *text, size_t length); /* in a thread */
void front_unprepare(void *prepared);
/* SHA-256 of a request's body, before it is read; of a large one the thread has made it. */
void front_body_digest(const struct http_request *http, uint8_t digest[SHA256_BYTES]);
void front_no_route(struct http_request *http, bool is_path, const char *allow, void *ctx);
void front_server_refuses(struct http_request *http, unsigned status, const char *why, void *ctx);

/* ---- log, metrics and audit of requests (observe.c) ---- */

void front_handled(void *ctx);
void front_done(void *ctx, const struct http_done *done);
void front_page_refused(struct front *front, struct http_request *http); /* Host or Origin */

#endif
