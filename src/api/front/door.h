/*
 * door.h - the interface between the front hall and a door: a folder under api/ and one row of
 * api/doors.c.
 *
 * Theory of operation. When a request's head has arrived, claims() of each door may take it, else
 * the rows of all doors are searched in the order of the table. The row's door admits it (a key
 * with the row's scope, unless the door has its own admit()), before a byte of the body is read.
 * When the body is complete dispatch.c checks query and body against the row and calls its handler.
 * The handler answers at once with a function of reply.h, or keeps `http` in its own struct and
 * sets http_on_gone() before it returns. A handler that waits for a session's execution, box or
 * files cancels the wait when its client leaves. The hall counts and logs each request, and refuses
 * a request without a handler in its door's shape.
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
struct schema_problem;
struct tools;

/* ---- the front hall, as doors see it ---- */

struct front {
    struct reactor *reactor;
    struct session_manager *manager;
    struct auth auth;
    struct tools *tools;       /* tool calls under way, of every door */
    struct port_stream *ports; /* port_relay.c: requests that guests' servers answer */
    struct front_info info;
    uint64_t started_ms; /* wall clock */
    struct door_list doors;
    struct front_private *own; /* front/'s: servers, doors, compiled rows */
};
unsigned front_clients(const struct front *front); /* connections of all addresses */

/* ---- rows ---- */

/* Pins the session of calls that name none, as the query argument "session" does. */
#define SESSION_HEADER "Bailey-Session"

enum door_in { IN_PATH, IN_QUERY, IN_HEADER };
/* BODY_FORM: multipart/form-data, which the handler reads as bytes. */
enum door_body { BODY_NONE, BODY_JSON, BODY_BYTES, BODY_FORM };

struct door_param {
    const char *name; /* NULL: the end */
    enum door_in in;
    bool is_required;
    const char *schema; /* JSON Schema, as text */
    const char *help;
};
#define DOOR_PARAMS_MAX 8

/* A group of operations, for the document and the page at /docs. */
struct door_tag {
    const char *name; /* NULL: the end */
    const char *help;
};

/* What a member of a request's body, or of one of the door's schemas, means. */
struct door_field {
    const char *name; /* "limits.memory"; "datasets.name": of each item. NULL: the end */
    const char *help; /* a text for OpenAPI, with Markdown */
};

/* A kind of event of a reply of type TYPE_EVENTS. */
struct door_event {
    const char *name;    /* NULL: the end */
    const char *schema;  /* of its data */
    const char *example; /* of its data, as JSON */
    const char *help;
};

struct door_call;
struct door_route {
    const char *method;
    const char *path; /* "/v1/x/{id}/{name*}", as http_route.pattern */
    const char *name; /* operationId; NULL: the OpenAPI document does not have it */
    const char *summary;
    const char *tag;         /* one of the door's tags */
    const char *description; /* what the summary leaves out: whole sentences, with Markdown */
    struct door_param params[DOOR_PARAMS_MAX];
    enum door_body body;
    const char *request;             /* BODY_JSON: its schema; BODY_FORM: for the document */
    size_t request_max;              /* BODY_JSON: bytes; 0: LIMIT_REQUEST_JSON */
    const struct door_field *fields; /* BODY_JSON: its members; NULL: it has none */
    const char *example;             /* BODY_JSON: a body that the schema accepts */
    unsigned status;                 /* of success */
    const char *type;                /* of the reply */
    const char *reply;               /* its schema; NULL: bytes or events */
    /* Events of the reply; with another `type`, for clients with Accept: text/event-stream. */
    const struct door_event *events;
    bool has_background; /* 202 and a Process, when the body says so */
    const char *errors;  /* codes of its own, separated by blanks; common codes are left out */
    const char *label;   /* `door` of the metrics; NULL: that of the door */
    enum scope scope;    /* the scope that a key needs */
    bool is_open;        /* no key is needed */
    void (*handle)(struct door_call *call);
};

/* A request that matches its row; on dispatch.c's stack. */
struct door_call {
    struct front *front;
    void *door; /* the result of open() */
    struct http_request *http;
    const struct door_route *route;
    struct caller caller; /* tenant, key and scopes; request and trace */
    json_t *query;        /* object: arguments by name, typed as the row says */
    json_t *body;         /* BODY_JSON: valid by the row's schema; NULL otherwise */
    /* In door_ops.fail(): the member or argument that is wrong; NULL: it is not about one. */
    const struct schema_problem *problem;
};
const struct door_route *front_route(const struct http_request *http); /* NULL: no row matches */
void *front_door_state(const struct http_request *http); /* open()'s, of its row; NULL: likewise */
uint64_t front_query_u64(const struct door_call *call, const char *name, uint64_t fallback);
bool front_query_bool(const struct door_call *call, const char *name);
const char *front_query_text(const struct door_call *call, const char *name); /* or NULL */

/* ---- doors ---- */

/* A request without a handler: no row matches (404, 405), or the server itself refuses it. */
struct door_refusal {
    unsigned status;
    const char *code, *text;
    const char *header;  /* "Allow: GET, HEAD"; NULL: none */
    const char *nearest; /* a path that is similar; NULL: none */
};

struct door_ops {
    const char *name;
    const char *label; /* `door` of the metrics; NULL: its name */
    const char
        *prefix; /* paths below it belong to this door even where no row matches; NULL: none */
    const struct door_route *routes;
    size_t route_count;
    const struct door_tag *tags; /* in the order of the document; NULL: none */
    const char *schemas;         /* members of components.schemas of OpenAPI, as text; NULL: none */
    const struct door_field *schema_fields; /* "Session.name": what their members mean */
    /* The door has its own rules for query and body: they are not checked, and `body` of a call
     * is NULL. */
    bool checks_itself;
    bool only_claimed; /* its rows are searched for requests that claims() takes, not for others */
    bool hides_paths;  /* ids in them are secrets: logs show the row's path instead */
    bool allows_duplicates; /* members of its JSON: the last one counts */
    bool bearer_is_user;    /* beside X-API-Key, Authorization has no key but a user's name */
    /* Whether a request belongs to this door whatever its path says: by a header, by its Host.
     * NULL: only the path decides. */
    bool (*claims)(const struct http_request *http);
    /* *ret is closed even if open() fails, unless it is NULL. Opened before the servers start,
     * closed when they have stopped. May be NULL. */
    int (*open)(struct front *front, void **ret, struct error *err);
    void (*close)(void *door);
    /* Sets call->caller.who, with auth.h. NULL: a key with the row's scope is needed, or none
     * where the row is open. */
    int (*admit)(struct door_call *call, struct error *err);
    /* Answers with an error that the hall found: the caller is not admitted, or query or body do
     * not match the row. NULL: front_fail(). */
    void (*fail)(struct door_call *call, const struct error *err);
    /* Sends what a handler gave to front_reply() in another shape, with front_reply_json(); takes
     * it over. NULL: as it is. */
    void (*reply)(struct http_request *http, unsigned status, const char *const *headers,
                  json_t *json);
    /* NULL: {"error":{"code","message"}}, as front_fail(). */
    void (*refuse)(struct http_request *http, const struct door_refusal *refusal);
    /* `responses` of an operation of OpenAPI. NULL: the row's status and errors. */
    json_t *(*responses)(const struct door_route *route);
};

#endif
