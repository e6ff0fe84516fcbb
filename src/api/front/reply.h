/*
 * reply.h - replies that the doors share: JSON, errors as {"error":{"code","message",...}},
 * streams. A door with its own shape replies through http/server.h.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_FRONT_REPLY_H
#define BAILEY_API_FRONT_REPLY_H

#include "api/front/door.h"
#include "base/buf.h"

struct metrics;
struct schema_problem;

#define FRONT_JSON (JSON_COMPACT | JSON_REAL_PRECISION(15)) /* format of all replies */
#define TYPE_JSON "application/json"
#define TYPE_BYTES "application/octet-stream"
#define TYPE_EVENTS "text/event-stream"
#define TYPE_LINES "application/x-ndjson"

/* ---- complete replies (reply.c) ---- */

void front_reply(struct http_request *http, unsigned status, json_t *json); /* takes it over */
void front_reply_with(struct http_request *http, unsigned status, const char *const *headers,
                      json_t *json);
/* The same without the shape of its door (door_ops.reply). */
void front_reply_json(struct http_request *http, unsigned status, const char *const *headers,
                      json_t *json);
void front_time(uint64_t ms, char *text, size_t size); /* RFC 3339; ms since 1970 */
/* Takes over `extra`: members beside code and message; NULL: none. */
void front_fail(struct front *front, struct http_request *http, const struct error *err,
                json_t *extra);
/* The body that front_fail() sends, {"error":{...}}; takes over `extra`. New reference, or NULL. */
json_t *front_error_json(struct front *front, const struct error *err, json_t *extra);
json_t *
front_problem_json(const struct schema_problem *problem); /* an `extra` for the above; or NULL */
/*
 * The JSON of a request's body, which is read now or was in a thread, with the row's schema where
 * there is one. NULL: the problem says why. To be called once.
 */
json_t *front_body_json(struct http_request *http, struct schema_problem *problem);
bool front_is_json_type(const char *type); /* of a Content-Type; NULL: none was sent */
void front_fail_memory(struct http_request *http);
/* bad_input about a member. */
void front_fail_field(struct http_request *http, const char *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void front_fail_problem(struct door_call *call, const struct schema_problem *problem);
/* door_ops.refuse of a door that has none of its own. */
void front_refuse(struct http_request *http, const struct door_refusal *refusal);
/* The session of {id}; false: the request was answered. `with_ended`: an ended one is accepted. */
bool front_session(const struct door_call *call, bool with_ended, struct session **ret);
/* One that something is done with: it has the caller's settings too (session_check_settings()). */
bool front_session_to_use(const struct door_call *call, struct session **ret);
/* The session, and the execution of {execution}. */
bool front_execution(const struct door_call *call, struct session **ret_session,
                     struct execution **ret);
/*
 * For a door that sends errors itself: records a refusal in log, metrics and audit, unless it was
 * recorded already (observe.c).
 */
void front_denied(struct front *front, struct http_request *http, const struct error *err);

/* ---- errors (errors.c) ---- */

struct front_error_row {
    const char *code;
    unsigned status;
    const char *help;
};
extern const struct front_error_row front_errors[];
extern const size_t front_error_count;
unsigned front_error_status(const char *code); /* 500 for an unknown code */

/* ---- streams of text (stream.c) ---- */

/* A reply that is produced while it is sent: fill() appends to `text` when little is left in it. */
struct front_stream {
    struct http_request *http;
    struct buf text;         /* what fill() appends; the first `sent` bytes of it are gone */
    size_t sent;             /* of `text`; at most a quarter of it when fill() is called */
    struct metrics *counted; /* counts it among the streams of events; NULL: not counted */
    size_t low;              /* fill() is called at this many unsent bytes; 0: when it is empty */
    bool is_over;            /* `text` is the last part */
    bool is_broken;          /* the reply is cut visibly, so that it is not taken for complete */
    bool is_endless;         /* http_stop() may end it */
    bool was_stopped;        /* http_stop() ended it */
    void (*fill)(void *ctx);
    void (*freed)(void *ctx); /* frees the owner; text is freed before */
    void *ctx;
};
void front_stream_start(struct front_stream *stream, unsigned status, const char *type,
                        const char *const *headers, int64_t length);
extern const char *const front_event_headers[]; /* headers of every stream of events */
/* Sends one event with JSON as data, which is taken over; a failure breaks the stream. */
void front_stream_event(struct front_stream *stream, const char *id, const char *event,
                        json_t *data);

#endif
