/*
 * rest_private.h - what the files of the REST door share: rows, requests, replies, streams.
 *
 * Theory of operation. dispatch.c checks a request against its row (query arguments, body) and
 * calls the handler with what it found. A handler answers at once with one of the rest_reply*() and
 * rest_fail*(), or keeps `http` in a struct of its own and sets http_on_gone() before it returns.
 * Whatever waits for a session's execution, box or files gives it up when its client leaves.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_REST_REST_PRIVATE_H
#define BAILEY_API_REST_REST_PRIVATE_H

#include <jansson.h>

#include "api/auth.h"
#include "api/exec_stream.h"
#include "api/execute/execute.h"
#include "api/rest/doors.h"
#include "api/rest/rest.h"
#include "base/buf.h"
#include "base/limits.h"
#include "http/server.h"
#include "model/principal.h"
#include "session/session.h"
#include "session/session_manager.h"

struct schema_problem;
struct tools;

struct rest {
    struct reactor *reactor;
    struct session_manager *manager;
    struct auth auth;
    struct tools *tools;
    struct rest_info info;
    uint64_t started_ms; /* wall clock */
    struct execute execute;
    struct http_server *server; /* of the socket */
    struct http_server *others[REST_ADDRESSES_MAX];
    size_t other_count;
    struct http_route *routes;
    size_t route_count;
    void *doors[REST_DOORS_MAX]; /* doors.c */
};

/* ---- rows (routes.c) ---- */

enum rest_in { IN_PATH, IN_QUERY, IN_HEADER };
enum rest_body { BODY_NONE, BODY_JSON, BODY_BYTES };

struct rest_param {
    const char *name; /* NULL: the end */
    enum rest_in in;
    bool is_required;
    const char *schema; /* JSON Schema, as text */
    const char *help;
};
#define REST_PARAMS_MAX 8

struct rest_call;
struct rest_route {
    const char *method;
    const char *path;
    const char *name; /* operationId */
    const char *summary;
    struct rest_param params[REST_PARAMS_MAX];
    enum rest_body body;
    const char *request; /* BODY_JSON: its schema */
    unsigned status;     /* of success */
    const char *type;    /* of the reply */
    const char *reply;   /* its schema; NULL: bytes or events */
    const char *errors;  /* codes of its own, divided by blanks; the common ones are not named */
    enum scope scope;    /* that a key needs for it */
    bool is_open;        /* nobody is asked for a key */
    void (*handle)(struct rest_call *call);
};
extern const struct rest_route rest_routes[];
extern const size_t rest_route_count;
extern const struct rest_route execute_rows[]; /* api/execute/rows.c */
extern const size_t execute_row_count;

#define REST_JSON (JSON_COMPACT | JSON_REAL_PRECISION(15)) /* how replies are written */
#define TYPE_JSON "application/json"
#define TYPE_BYTES "application/octet-stream"
#define TYPE_EVENTS "text/event-stream"
#define TYPE_LINES "application/x-ndjson"

/* A request that fits its row; on dispatch.c's stack. */
struct rest_call {
    struct rest *rest;
    struct http_request *http;
    const struct rest_route *route;
    struct principal who;
    json_t *query; /* object: arguments by name, typed as the row says */
    json_t *body;  /* BODY_JSON: what fits the row's schema; NULL otherwise */
};

unsigned rest_clients(const struct rest *rest); /* connections of all addresses */
void rest_dispatch(struct http_request *http, void *ctx);
/* Who asks, before anything else of the request is there; false: it was answered. */
bool rest_admit(struct rest_call *call);
bool rest_front_admit(struct http_request *http, void *ctx);
/* What fits no row, or no handler sees, in the words of its door (front.c). */
void rest_front_no_route(struct http_request *http, bool is_path, const char *allow, void *ctx);
void rest_front_refuse(struct http_request *http, unsigned status, const char *why, void *ctx);
uint64_t rest_query_u64(const struct rest_call *call, const char *name, uint64_t fallback);
bool rest_query_bool(const struct rest_call *call, const char *name);
const char *rest_query_text(const struct rest_call *call, const char *name); /* or NULL */

extern const char openapi_components[]; /* schemas.c: the nouns, as JSON text */

/* ---- replies (reply.c) ---- */

void rest_reply(struct http_request *http, unsigned status, json_t *json); /* takes it over */
void rest_reply_with(struct http_request *http, unsigned status, const char *const *headers,
                     json_t *json);
void rest_time(uint64_t ms, char *text, size_t size); /* RFC 3339; ms since 1970 */
/* Takes over `extra`: members beside code and message; NULL: none. */
void rest_fail(struct rest *rest, struct http_request *http, const struct error *err,
               json_t *extra);
/* What rest_fail() answers, {"error":{...}}; takes over `extra`. New reference, or NULL. */
json_t *rest_error_json(struct rest *rest, const struct error *err, json_t *extra);
json_t *rest_problem_json(const struct schema_problem *problem); /* such an `extra`; or NULL */
bool rest_is_json_type(const char *type); /* a Content-Type; NULL: none was sent */
void rest_fail_memory(struct http_request *http);
/* bad_input about a member. */
void rest_fail_field(struct http_request *http, const char *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rest_fail_problem(struct rest_call *call, const struct schema_problem *problem);
/* What the schema cannot say of an environment (NULL: none); false: it was answered. */
bool rest_check_env(struct http_request *http, json_t *env);
/* The session of {id}; false: it was answered. `with_ended`: also one that has ended. */
bool rest_session(const struct rest_call *call, bool with_ended, struct session **ret);
/* ... and the execution of {execution}. */
bool rest_execution(const struct rest_call *call, struct session **ret_session,
                    struct execution **ret);
void rest_no_route(struct http_request *http, bool is_path, const char *allow, void *ctx);
const char *rest_refuse_code(unsigned status); /* of what no handler sees */
void rest_refuse(struct http_request *http, unsigned status, const char *why, void *ctx);

/* ---- what is said of it (observe.c) ---- */

struct caller;
void rest_handled(void *ctx);
/* Of this request; for a door whose messages come later (session_manager_set_caller()). */
void rest_caller(const struct rest_call *call, struct caller *ret);
/* An operation on a file, or on a dataset, is over. */
struct rest_file_over {
    const struct caller *caller;
    const char *session; /* its id */
    const char *change;  /* "written", ...; NULL: nothing was changed */
    const char *path;
    uint64_t bytes;    /* that it wrote */
    const char *error; /* NULL: it went well */
};
void rest_file_over(struct rest *rest, const struct http_request *http,
                    const struct rest_file_over *over);
void rest_file_bytes(struct rest *rest, const char *direction, uint64_t bytes); /* "in", "out" */
void rest_done(void *ctx, const struct http_done *done);
void rest_page_refused(struct rest *rest, struct http_request *http); /* Host or Origin */
/* Where it is a refusal, and nobody told it yet. */
void rest_denied(struct rest *rest, struct http_request *http, const struct error *err);

/* ---- changes of files (file_call.c, file_watch.c) ---- */

const char *file_change_name(unsigned kind); /* of wire/file_message.h; NULL: there is none */
void file_change_publish(struct session *session, const char *kind, const char *path,
                         bool is_folder);

/* ---- errors (errors.c) ---- */

struct rest_error_row {
    const char *code;
    unsigned status;
    const char *help;
};
extern const struct rest_error_row rest_errors[];
extern const size_t rest_error_count;
unsigned rest_error_status(const char *code); /* 500 for a word that is not in the table */

/* ---- streams of text (stream.c) ---- */

/* A reply that is filled while it is sent: fill() appends to `text` when little is left in it. */
struct rest_stream {
    struct http_request *http;
    struct buf text;
    struct metrics *counted; /* as one of the streams of events; NULL: it is none */
    size_t low;              /* this little: 0 when it is empty */
    bool is_over;            /* what is in `text` is the last */
    bool is_broken;          /* nobody may take what was sent for the whole */
    bool is_endless;         /* it can be stopped */
    bool was_stopped;        /* by http_stop() */
    void (*fill)(void *ctx);
    void (*freed)(void *ctx); /* frees the owner; text is freed before */
    void *ctx;
};
void rest_stream_start(struct rest_stream *stream, unsigned status, const char *type,
                       const char *const *headers, int64_t length);
extern const char *const rest_event_headers[]; /* of every stream of events */
/* One event with JSON as data, which is taken over; a failure breaks the stream. */
void rest_stream_event(struct rest_stream *stream, const char *id, const char *event, json_t *data);

/* ---- executions (follow.c, await.c, started.c) ---- */

/* How an execution is followed to its end. */
struct rest_following {
    struct exec_stream_spec exec_stream;
    bool is_owner; /* it was asked for by this call: who leaves does not want it any more */
};
/* Answers with its events. A client that leaves does not wait for it any more. */
void rest_follow(struct rest_call *call, const struct rest_following *following);
/* Answers with the one result. */
void rest_await(struct rest_call *call, const struct rest_following *following);

/* Whether the client asked for events instead of the result. */
bool rest_wants_events(const struct http_request *http);
/* One that this call started: its events, itself when it is left in the background, or its result.
 */
void rest_answer_started(struct rest_call *call, struct session *session,
                         struct execution *execution);

/* ---- handlers, by subject ---- */
#define HANDLER(name) void name(struct rest_call *call)
HANDLER(info_health);
HANDLER(info_get);
HANDLER(warm_get);
HANDLER(metrics_get);
HANDLER(audit_get);
HANDLER(reload_post);
HANDLER(tools_list);
HANDLER(tools_call);
HANDLER(run_start);
HANDLER(run_stop);
HANDLER(sessions_create);
HANDLER(sessions_list);
HANDLER(sessions_get);
HANDLER(sessions_extend);
HANDLER(sessions_delete);
HANDLER(exec_start);
HANDLER(code_start);
HANDLER(contexts_list);
HANDLER(contexts_create);
HANDLER(contexts_restart);
HANDLER(contexts_interrupt);
HANDLER(contexts_delete);
HANDLER(processes_list);
HANDLER(processes_get);
HANDLER(processes_output);
HANDLER(processes_events);
HANDLER(processes_signal);
HANDLER(processes_stdin);
HANDLER(processes_resize);
HANDLER(files_get);
HANDLER(files_put);
HANDLER(files_delete);
HANDLER(files_stat);
HANDLER(files_list);
HANDLER(files_watch);
HANDLER(files_mkdir);
HANDLER(files_move);
HANDLER(files_chmod);
HANDLER(datasets_list);
HANDLER(datasets_put);
HANDLER(outputs_list);
HANDLER(outputs_get);
HANDLER(artifacts_get);
HANDLER(artifacts_info);
HANDLER(artifacts_list_all);
HANDLER(artifacts_link);
HANDLER(artifacts_keep);
HANDLER(artifacts_delete);
HANDLER(docs_openapi);
HANDLER(docs_page);
HANDLER(packages_list);
HANDLER(packages_install);
HANDLER(templates_list);
HANDLER(templates_get);
HANDLER(templates_build);
HANDLER(templates_delete);
HANDLER(templates_verify);
HANDLER(events_all);
HANDLER(events_session);
HANDLER(keys_list);
HANDLER(keys_create);
HANDLER(keys_rotate_one);
HANDLER(keys_delete);
#undef HANDLER

#endif
