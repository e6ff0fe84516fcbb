/*
 * door.h - what a door is to the front hall: a folder under api/ and one row of api/doors.c.
 *
 * Theory of operation. A request's head is here: claims() of each door may take it, else the rows
 * of all doors are looked through in the order of the table. The row's door admits it (a key with
 * the row's scope, unless the door has an admit() of its own), before a byte of the body is taken.
 * When the body is there dispatch.c checks query and body against the row and calls its handler.
 * The handler answers at once with one of reply.h, or keeps `http` in a struct of its own and sets
 * http_on_gone() before it returns. Whatever waits for a session's execution, box or files gives
 * it up when its client leaves. The hall counts and logs each request, and a request that no
 * handler sees is refused in its door's shape.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_FRONT_DOOR_H
#define BAILEY_API_FRONT_DOOR_H

#include <jansson.h>

#include "api/front/auth.h"
#include "api/front/front.h"
#include "base/limits.h"
#include "http/server.h"
#include "model/caller.h"
#include "session/session.h"
#include "session/session_manager.h"

struct front_door;
struct tools;

/* ---- the hall, as doors see it ---- */

struct front {
    struct reactor *reactor;
    struct session_manager *manager;
    struct auth auth;
    struct tools *tools; /* calls of tools under way, of every door */
    struct front_info info;
    uint64_t started_ms; /* wall clock */
    struct door_list doors;
    struct front_private *own; /* front/'s: servers, doors, compiled rows */
};
unsigned front_clients(const struct front *front); /* connections of all addresses */

/* ---- rows ---- */

enum door_in { IN_PATH, IN_QUERY, IN_HEADER };
enum door_body { BODY_NONE, BODY_JSON, BODY_BYTES };

struct door_param {
    const char *name; /* NULL: the end */
    enum door_in in;
    bool is_required;
    const char *schema; /* JSON Schema, as text */
    const char *help;
};
#define DOOR_PARAMS_MAX 8

struct door_call;
struct door_route {
    const char *method;
    const char *path; /* "/v1/x/{id}/{name*}", as http_route.pattern */
    const char *name; /* operationId; NULL: the OpenAPI document does not have it */
    const char *summary;
    struct door_param params[DOOR_PARAMS_MAX];
    enum door_body body;
    const char *request; /* BODY_JSON: its schema */
    size_t request_max;  /* BODY_JSON: bytes; 0: LIMIT_REQUEST_JSON */
    unsigned status;     /* of success */
    const char *type;    /* of the reply */
    const char *reply;   /* its schema; NULL: bytes or events */
    bool has_events;     /* the reply may be events too (Accept: text/event-stream) */
    bool has_background; /* 202 and a Process, when the body says so */
    const char *errors;  /* codes of its own, divided by blanks; the common ones are not named */
    const char *label;   /* `door` of the metrics; NULL: that of the door */
    enum scope scope;    /* that a key needs for it */
    bool is_open;        /* nobody is asked for a key */
    void (*handle)(struct door_call *call);
};

/* A request that fits its row; on dispatch.c's stack. */
struct door_call {
    struct front *front;
    void *door; /* what open() made */
    struct http_request *http;
    const struct door_route *route;
    struct caller caller; /* tenant, key and scopes; request and trace */
    json_t *query;        /* object: arguments by name, typed as the row says */
    json_t *body;         /* BODY_JSON: what fits the row's schema; NULL otherwise */
};
const struct door_route *front_route(const struct http_request *http); /* NULL: none fits */
uint64_t front_query_u64(const struct door_call *call, const char *name, uint64_t fallback);
bool front_query_bool(const struct door_call *call, const char *name);
const char *front_query_text(const struct door_call *call, const char *name); /* or NULL */

/* ---- doors ---- */

/* A request that no handler sees: no row fits (404, 405), or the server itself refuses it. */
struct door_refusal {
    unsigned status;
    const char *code, *text;
    const char *header;  /* "Allow: GET, HEAD"; NULL: none */
    const char *nearest; /* the path that was probably meant; NULL: none */
};

struct door_ops {
    const char *name;
    const char *label;  /* `door` of the metrics; NULL: its name */
    const char *prefix; /* paths below it are this door's too where no row fits; NULL: none */
    const struct door_route *routes;
    size_t route_count;
    const char *schemas; /* members of components.schemas of OpenAPI, as text; NULL: none */
    /* Rules of its own for query and body: they are not checked, and `body` of a call is NULL. */
    bool checks_itself;
    /* Whether a request is this door's whatever its path says: by a header, by its Host. NULL: by
     * the path only. */
    bool (*claims)(const struct http_request *http);
    /* *ret is closed also when it fails, unless it is NULL. Opened before the servers, closed when
     * these have stopped. May be NULL. */
    int (*open)(struct front *front, void **ret, struct error *err);
    void (*close)(void *door);
    /* Fills in call->caller.who, with auth.h. NULL: a key with the row's scope, or nobody where it
     * is open. */
    int (*admit)(struct door_call *call, struct error *err);
    /* Answers with an error that the hall found: who asks may not, or query and body do not fit the
     * row. NULL: front_fail(). */
    void (*fail)(struct door_call *call, const struct error *err);
    /* NULL: {"error":{"code","message"}}, as front_fail(). */
    void (*refuse)(struct http_request *http, const struct door_refusal *refusal);
    /* `responses` of an operation of OpenAPI. NULL: the row's status and errors. */
    json_t *(*responses)(const struct door_route *route);
};

#endif
