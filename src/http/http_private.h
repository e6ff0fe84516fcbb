/*
 * http_private.h - a server's own structs, shared by its files. The flow of one request:
 *
 * libmicrohttpd calls on_request() once with the headers (http_request_begin), for each piece of
 * the body (http_request_data) and once after it (http_request_end). It can take a reply only in
 * the first and in the last of these, so a reply that comes in between waits for the end of the
 * body, which is dropped (unless it says that the body is too long: early_reply.c). Where a request
 * must wait (for a reader of the body, for the reply, for more of a stream) its connection is
 * suspended, because libmicrohttpd would otherwise call again without end; the event that was
 * waited for resumes it. libmicrohttpd does not look at a suspended connection, so the server
 * itself watches every connection for its end (struct link).
 *
 * A request that became a WebSocket stays in the list, answered, until that is closed: its
 * connection belongs to websocket.c meanwhile, and libmicrohttpd only keeps it. The same holds for
 * one that became a tunnel (tunnel.c).
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_HTTP_PRIVATE_H
#define BAILEY_HTTP_HTTP_PRIVATE_H

#include <microhttpd.h>

#include "base/buf.h"
#include "base/trace.h"
#include "http/route.h"
#include "http/server.h"
#include "http/target.h"

#define ADDRESS_BYTES 8 /* an IPv4 address, or the first half of an IPv6 address */

/* A connection. */
struct link {
    struct MHD_Connection *connection;
    struct http_server *server;
    struct reactor_watch *watch;
    struct link *next, *previous; /* all of the server */
    struct http_request *request; /* the one that is under way, or NULL */
    struct tls_identity *identity;
    int fd;
    uint64_t since_ms; /* it began, or its last request ended */
    uint64_t half_ms;  /* when its client shut down its sending side, if nothing came since; 0: it
                          did not */
    uint64_t half_received;          /* of the body by then */
    uint64_t request_count;          /* that have ended */
    bool is_gone;                    /* its client */
    bool is_evicted;                 /* closed for a newer one (keyless.c) */
    struct keyless_address *address; /* no key was admitted on it yet; NULL: one was, or none is
                                        counted (keyless.c) */
    struct link *older, *newer;      /* of the same address, likewise */
    uint8_t from[ADDRESS_BYTES];     /* its address (keyless.c) */
    bool has_from;
    struct tenant_share *share; /* NULL: no key was admitted on it yet (tenant_share.c) */
    bool is_kept;               /* in the share: stays open after its reply */
    bool waits;                 /* for its tenant's next turn (turn_share.c) */
    struct link *next_waiting;  /* likewise */
    char peer[64];
};

#define KEYLESS_CHAINS 256
#define KEYED_SHARE 4 /* a quarter of the connections is for those with a key */
#define SHARE_CHAINS 256
#define KEPT_SHARE 2      /* half of a tenant's connections stay open between two requests */
#define LATELY_MAX 1024   /* addresses of keys that are remembered */
#define LATELY_MS 3600000 /* for so long */
#define LATELY_RESERVE 64 /* connections over the maximum that these may open all the same */
#define EVICTED_MAX 256   /* connections over the maximum, while others are being closed for them */

/* tenant_share.c, turn_share.c: the connections of one tenant */
struct tenant_share {
    struct tenant_share *next;
    struct http_server *server;
    unsigned count, kept;
    unsigned users;         /* calls that are inside */
    uint64_t turn, turn_ns; /* in that turn it has taken so much of the processor */
    struct link *waiting, *last_waiting;
    char tenant[64];
};

struct http_server {
    struct reactor *reactor;
    struct http_server_spec spec;
    struct route_table *table; /* of spec.routes */
    struct MHD_Daemon *daemon;
    struct reactor_watch *watch; /* libmicrohttpd's epoll set */
    struct MHD_Daemon *plain;    /* beside `daemon`, which has TLS; NULL: there is one only */
    struct reactor_watch *plain_watch;
    struct first_byte *first_byte; /* accepts connections of the two */
    struct reactor_timer *timer;
    int listen_fd;                 /* a duplicate: libmicrohttpd closes it */
    bool is_local;                 /* a unix socket */
    struct tls_identity *identity; /* of new connections; NULL: plain */
    struct link *links;
    struct reactor_timer *looker; /* timeouts.c */
    uint64_t head_ms, body_ms;
    bool is_looking;
    struct reactor_timer *holder; /* refusal_delay.c */
    bool is_holding;
    unsigned
        still_rounds; /* rounds that were requested at once and called no handler: timeouts.c */
    unsigned client_count;                           /* connections */
    struct keyless_address *keyless[KEYLESS_CHAINS]; /* keyless.c */
    struct lately {
        uint8_t from[ADDRESS_BYTES];
        uint64_t at_ms; /* 0: the place is free */
    } * lately;         /* [LATELY_MAX], addresses from which a key was used; NULL: none yet */
    unsigned keyless_count, evicted; /* connections that have no key yet; that are being closed */
    struct tenant_share *shares[SHARE_CHAINS]; /* tenant_share.c */
    struct reactor_timer *next_turn;           /* turn_share.c */
    bool awaits_turn;                          /* it is set */
    uint64_t turn;                             /* counts them */
    unsigned work_depth;                       /* what is measured is inside of itself */
    uint64_t work_ns;                          /* when it began, in CPU time */
    uint64_t told_ms;                          /* when the log last said so; 0: never */
    uint64_t client_total;                     /* that there ever were */
    bool is_woken;       /* a connection was resumed: there is something to do at once */
    unsigned end_rounds; /* that the end of a WebSocket still takes: websocket.c */
    struct http_request *requests;
    struct worker *worker; /* reads large bodies (prepare.c) */
    bool is_turning;       /* inside libmicrohttpd, which can not be stopped from there */
    bool is_stopping; /* http_server_stop() was called: only waiting requests are called back */
    bool is_late;     /* it was called from inside */
    bool has_orphans; /* a request has one */
};

struct http_request {
    struct http_server *server;
    struct link *link;
    struct MHD_Connection *connection;
    struct http_request *next, *previous; /* all that are under way */
    uint64_t started_ms, started_ns;
    uint64_t held_ms; /* its reply leaves then (refusal_delay.c); 0: at once */
    char id[REQUEST_ID_MAX];
    struct trace trace;
    char tenant[64]; /* its tenant; empty: not set */
    char key[64];    /* the id of its key; likewise */
    bool was_told;   /* its refusal was recorded in a log of refusals */

    struct http_target target;
    int target_error; /* what target_parse() said */
    const char *method;
    struct route_match match;
    enum http_body body_kind;
    int64_t body_length; /* -1: not said */
    const char *page;    /* the Origin that may read the reply; NULL: none asks */

    struct buf body;         /* WHOLE_BODY */
    uint64_t body_received;  /* bytes that were taken */
    uint64_t body_dropped;   /* bytes received after the reply */
    uint64_t early_reply_ms; /* it was answered in the middle of its body (early_reply.c); 0: no */
    size_t held_body, held_reply, held_own; /* counted in spec.held; own: by http_hold() */
    struct http_prepare *prepare; /* its body is being read (prepare.c); NULL: it is not */
    void *prepared;               /* what came of it */
    bool was_prepared;            /* it was, or is being */
    const struct http_body_events *taker;
    void *taker_ctx;

    void (*gone)(void *ctx);
    void *gone_ctx;
    const struct http_watcher *watcher;
    void *watcher_ctx;
    const struct http_reply_keeper *keeper; /* NULL: none, or the request is over */
    void *keeper_ctx;
    bool was_kept; /* keeper->whole() was called */

    struct MHD_Response *response; /* made and not queued yet */
    unsigned status;
    uint64_t sent;
    struct http_source source;
    void *source_ctx;
    bool has_length;             /* of a stream: its head has said how many bytes follow */
    const struct error *stop;    /* why it has to end; NULL: it may go on */
    struct websocket *websocket; /* that it has become, or is about to */
    struct http_tunnel *tunnel;  /* the same (tunnel.c) */
    struct MHD_UpgradeResponseHandle *orphan; /* it left before libmicrohttpd handed it over */

    bool is_old;         /* HTTP/1.0 */
    bool must_close;     /* what follows on the connection is not to be trusted */
    bool is_early_reply; /* its answer does not wait for the end of the body */
    bool has_begun;      /* the headers were looked at */
    bool is_body_whole;  /* its last byte is here */
    bool was_handled;    /* the handler, or end(), was called for the whole body */
    bool was_answered;   /* http_reply() or http_reply_stream() was called */
    bool was_queued;     /* libmicrohttpd has the reply */
    bool is_paused;      /* suspended */
    bool was_called_on;  /* inside data() or more(): the thing to wait for has already come */
    bool is_gone;        /* no client waits any more, and every callback was called */
};

void http_server_free(struct http_server *server); /* server.c: it has stopped */

/* request.c */
struct http_request *http_request_new(struct http_server *server, struct MHD_Connection *connection,
                                      const char *target);
void http_request_free(struct http_request *request);
void http_request_name(struct http_request *request); /* its id and trace, from its headers */
void http_request_lose(struct http_request *request); /* the client left; safe twice */
void http_request_pause(struct http_request *request);
void http_request_wake(struct http_request *request);
void http_request_sent(struct http_request *request, uint64_t bytes); /* so many more */

/*
 * `bytes` more of *part (held_body, held_reply, held_own), or all of it back. take(): 0, or the
 * number of held.h.
 */
int http_request_take(struct http_request *request, size_t *part, size_t bytes);
void http_request_give(struct http_request *request, size_t *part);

/* body.c: libmicrohttpd's three calls */
enum MHD_Result http_request_begin(struct http_request *request, const char *method);
enum MHD_Result http_request_data(struct http_request *request, const char *data, size_t *length);
enum MHD_Result http_request_end(struct http_request *request);

/*
 * prepare.c: whether the body, which is whole, is being read: then http_request_end() comes again
 * afterwards; the request is freed.
 */
bool http_prepare_start(struct http_request *request);
void http_prepare_leave(struct http_request *request);

/* origin.c: false: it was answered (a refusal, or a preflight) */
bool http_request_look(struct http_request *request);
void http_request_let_page(const struct http_request *request, struct MHD_Response *response);

/* refusal_delay.c */
bool http_refusal_delay_start(struct http_server *server); /* false: no memory */
bool http_refusal_delay(
    struct http_request *request); /* whether its reply, which is there, waits */

/* keyless.c: whether a new connection may be there; and one that has no key yet, or not any more */
bool http_keyless_accept(struct http_server *server, const struct sockaddr *from);
bool http_keyless_add(struct link *link, const struct sockaddr *from); /* false: no memory */
void http_keyless_leave(struct link *link);
void http_keyless_known(struct link *link); /* a key was used on it: its address has a reserve */

/*
 * tenant_share.c: the connection counts for the tenant (0, -EDQUOT: that has too many, -ENOMEM), or
 * not any more; whether it may stay open after its reply; and how many its tenant has.
 */
int http_share_join(struct link *link, const char *tenant);
void http_share_leave(struct link *link);
bool http_share_keep(struct link *link);
unsigned http_share_count(const struct link *link);
void http_share_drop(struct http_server *server, struct tenant_share *share); /* if it is unused */

/*
 * turn_share.c: whether more may be done for its tenant in this turn of the loop; waits for the
 * next one if not (true: it does: its request is woken then, or websocket_go_on() called), or not
 * any more; what is between begin() and end() is measured.
 */
bool http_turn_may(const struct link *link);
bool http_turn_wait(struct link *link);
void http_turn_leave(struct link *link);
void http_turn_begin(struct http_server *server);
void http_turn_end(struct http_server *server, struct link *link);
bool http_turns_start(struct http_server *server); /* false: no memory */
void http_turns_stop(struct http_server *server);

/* timeouts.c */
bool http_timeouts_start(struct http_server *server);      /* false: no memory */
void http_timeouts_watch(struct http_server *server);      /* there is a connection */
void http_timeouts_idle_round(struct http_server *server); /* a round in which nothing happened */

/* request.c: tells the keeper, once */
void http_request_keep(struct http_request *request, unsigned status, const char *type,
                       const void *data, size_t length);

/* reply.c */
void http_request_answer(struct http_request *request, unsigned status, const char *type,
                         const char *const *headers, struct MHD_Response *response);
void http_request_refuse(struct http_request *request, unsigned status, const char *why);
void http_request_refuse_held(struct http_request *request, int num); /* of held.h */
enum MHD_Result http_request_queue(struct http_request *request);     /* its response is there */

/* early_reply.c: sends the response with its body, and ends the connection's sending */
void http_request_reply_early(struct http_request *request, const void *data, size_t length);

/* websocket.c */
void websocket_go_on(struct websocket *socket); /* its tenant's next turn has come */
void websocket_leave(struct websocket *socket); /* its request is gone: closed() is called */
void websocket_orphans_close(struct http_server *server);
/* The connection of an upgraded request, which is closed. */
void http_upgrade_give_back(struct http_server *server, struct MHD_UpgradeResponseHandle *handle);

/* tunnel.c */
void http_tunnel_leave(struct http_tunnel *tunnel); /* its request is gone: closed() is called */

#endif
