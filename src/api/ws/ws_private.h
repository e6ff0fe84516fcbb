/*
 * ws_private.h - the structs and functions of the WebSocket door, for the files of ws/ only.
 *
 * Theory of operation. A peer is one connection: messages come in (request.c finds their row and
 * checks them), replies and events go out through one queue (peer.c). A subscription is a source of
 * events: it calls ws_ready() when it has some, and its more() is called only while the client
 * reads, so that a slow client holds back its own guest and nothing else.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_WS_WS_PRIVATE_H
#define BAILEY_API_WS_WS_PRIVATE_H

#include <jansson.h>

#include "api/exec_stream.h"
#include "api/front/door.h"
#include "api/front/reply.h"
#include "http/websocket.h"
#include "model/caller.h"
#include "tool/schema.h"

struct ws_peer;
struct ws_input;

extern const struct door_ops ws_door; /* rows.c */

/* ---- the door (request.c) ---- */

#define WS_ROWS_MAX 16
struct ws_schemas {
    struct schema *rows[WS_ROWS_MAX]; /* of messages, in the order of ws_rows */
    struct schema *resize, *signal;   /* of a terminal's messages */
    struct worker *worker;            /* reads long messages (long_message.c) */
};
int ws_compile(struct front *front, void **ret, struct error *err);
void ws_forget(void *schemas);

void ws_all(struct door_call *call);     /* GET /v1/ws */
void ws_session(struct door_call *call); /* GET /v1/sessions/{id}/ws */
void ws_pty(struct door_call *call);     /* GET /v1/sessions/{id}/pty/ws */

enum ws_more {
    WS_MORE,   /* an event was sent, and there may be more */
    WS_WAITS,  /* nothing now */
    WS_OVER,   /* the last event was sent */
    WS_BROKEN, /* it cannot go on */
};

struct ws_subscription {
    struct ws_peer *peer;
    struct ws_subscription *next;
    uint64_t number; /* the number that the client uses */
    bool is_ready;
    enum ws_more (*more)(struct ws_subscription *subscription);
    /* is_clean: the client closed with 1000 and wants nothing more of this. */
    void (*free)(struct ws_subscription *subscription, bool is_clean);
};

struct ws_peer {
    struct front *front;
    const struct ws_schemas *schemas;
    struct caller caller; /* the principal and the request that opened it */
    bool is_open;
    char session[ID_MAX]; /* the session of its address; empty: none */
    struct websocket *socket;
    struct reactor_timer *timer; /* fires when there is something to send */
    struct ws_subscription *subscriptions;
    unsigned subscription_count;
    uint64_t last_number;
    struct buf out;     /* messages that wait for room, each followed by a newline */
    size_t reply_bytes; /* the replies' part of it */
    bool is_held;
    struct ws_input *inputs;
    unsigned input_count;
    struct ws_long_message *long_message; /* that is being read; nothing else is meanwhile */
    size_t long_bytes;
};

/* ---- open.c ---- */

void ws_count(struct front *front, int number); /* adds to the number of open streams */

/* Whether the request is a WebSocket handshake; false: it was answered. */
bool ws_is_asked(struct door_call *call);
/* False: it was answered. */
bool ws_open(struct door_call *call, size_t message_max, const struct websocket_events *events,
             void *ctx, struct websocket **ret);

/* ---- peer.c ---- */

void ws_say(struct ws_peer *peer, json_t *message, bool is_reply); /* takes it over */
/* An event of a subscription; takes over `data`. `id` NULL: none. */
void ws_event(struct ws_subscription *subscription, const char *id, const char *name, json_t *data);
/* Adds to the peer's list; -EBUSY: there are too many (and it is not added). */
int ws_subscribe(struct ws_peer *peer, struct ws_subscription *subscription, struct error *err);
void ws_ready(struct ws_subscription *subscription);
void ws_listen(struct ws_peer *peer); /* reads it or does not, and counts what is held for it */
void ws_drop(struct ws_subscription *subscription, bool is_clean);

/* ---- request.c ---- */

/* A message that matches its row. */
struct ws_request {
    struct ws_peer *peer;
    json_t *id;          /* the client's, or NULL */
    json_t *body;        /* without type, id and session */
    const char *session; /* NULL: not named */
};

struct ws_row {
    const char *type;
    const char *schema;
    enum scope scope;
    bool is_counted; /* counts in the tenant's quota of requests */
    void (*handle)(struct ws_request *request);
};
extern const struct ws_row ws_rows[];
extern const size_t ws_row_count;

void ws_message(struct ws_peer *peer, const char *text, size_t length);
/* The message's JSON; NULL: the problem says why. */
void ws_dispatch(struct ws_peer *peer, json_t *body, struct schema_problem *problem);

/* ---- long_message.c ---- */

/* Inside message(): whether it is read by a thread, or waits for one, and dispatched afterwards. */
bool ws_read_long(struct ws_peer *peer, const char *text, size_t length);
void ws_long_leave(struct ws_peer *peer);
void ws_reply(struct ws_peer *peer, json_t *id, json_t *members); /* takes members over */
void ws_fail(struct ws_peer *peer, json_t *id, const struct error *err, json_t *extra);
void ws_fail_problem(struct ws_peer *peer, json_t *id, const struct schema_problem *problem);
/* The session of a message, or of the address. False: it was answered. */
bool ws_find_session(struct ws_request *request, bool with_ended, struct session **ret);
/* ... and the execution that it names. */
bool ws_find_execution(struct ws_request *request, struct session **ret_session,
                       struct execution **ret);

/* ---- handlers: subscribe.c, files.c, run.c, input.c ---- */

void ws_subscribe_any(struct ws_request *request);
void ws_subscribe_files(struct ws_request *request);
void ws_unsubscribe(struct ws_request *request);
/* Follows an execution; `is_owner`: this client started it. False: it was answered. */
bool ws_follow(struct ws_request *request, const struct exec_stream_spec *spec, bool is_owner,
               uint64_t *ret_number);
void ws_exec(struct ws_request *request);
void ws_cell(struct ws_request *request);
void ws_signal(struct ws_request *request);
void ws_resize(struct ws_request *request);
void ws_interrupt(struct ws_request *request);
void ws_ping(struct ws_request *request);
void ws_stdin(struct ws_request *request);
void ws_inputs_free(struct ws_peer *peer);

#endif
