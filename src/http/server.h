/*
 * server.h - an HTTP/1.1 server on a listening socket: routes as rows, bodies and replies that
 * stream, clients that leave.
 *
 * libmicrohttpd on the caller's reactor. One thread, never blocks. Knows no tool and no JSON: a row
 * says which handler gets which method and path, the handler answers now or later. A request lives
 * until its reply is out or its client left; `gone` (at most once) reports that the client has
 * left, after which the handler must not touch the request. Every size has a ceiling.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_SERVER_H
#define BAILEY_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/reactor.h"

struct held;
struct http_server;
struct http_request;
struct buf;
struct route_table;
struct trace;

enum http_body {
    HTTP_NO_BODY,     /* one that comes is read and dropped up to 64 KiB, then 413 */
    HTTP_WHOLE_BODY,  /* collected up to body_max, then 413; handle() is called when it is there */
    HTTP_STREAM_BODY, /* handle() is called at once and takes it by http_body_read() */
};

struct http_route {
    const char *method; /* "GET"; HEAD is answered by GET rows */
    /* "/v1/sessions/{id}/outputs/{name*}": {x} one segment, {x*} the rest, {x**} the rest where
     * segments may be empty, "." and ".." too */
    const char *pattern;
    enum http_body body;
    size_t body_max; /* of a stream: 0 is no limit */
    void (*handle)(struct http_request *request, void *ctx);
    const void *row; /* the caller's own */
    /* Called with the headers, before the body. false: the request was answered, and a large body
     * is not read. May be NULL. */
    bool (*admit)(struct http_request *request, void *ctx);
};

/* Certificate chain and key, PEM. */
struct http_tls {
    const char *certificate, *key;
};

/*
 * Names under which browsers may reach this server, and pages that may. A request with an Origin
 * that is neither in `origins` nor the server's own is refused (403) before any handler; so is a
 * Host that is none of `hosts`, unless the list is empty or the listener is a unix socket.
 */
struct http_browsers {
    const char *const *hosts;   /* NULL-terminated "name", "name:port", "*.name"; NULL: any */
    const char *const *origins; /* NULL-terminated "https://a.example"; "*": any; NULL: none */
};

/* A request that is over. */
struct http_done {
    const char *method, *path; /* without its query, where links have their signatures */
    unsigned status;           /* 0: its client left before there was one */
    uint64_t bytes_in, bytes;  /* of bodies */
    uint64_t duration_us;
    const char *id, *trace_id, *tenant; /* empty: none */
    const void *row;                    /* NULL: there was none */
};

struct http_server_spec {
    int listen_fd;              /* borrowed; unix or TCP */
    const struct http_tls *tls; /* NULL: plain */
    bool takes_plain;           /* with `tls`: plain HTTP too, by a connection's first byte */
    /* Read for each request: what it points to may change between two turns of the loop. */
    const struct http_browsers *browsers; /* NULL: nothing is checked (a unix socket) */
    const struct http_route *routes;
    size_t route_count;
    void *ctx; /* of the handlers */
    unsigned client_max;
    struct held *held; /* what requests and replies may take together (held.h); NULL: anything */
    /*
     * Over TCP: connections of one address on which no request was http_set_admitted() yet; one
     * more closes the oldest. 0: no bound.
     */
    unsigned keyless_max;
    /*
     * Connections of one tenant, from the first http_set_admitted() on; half of them are kept open
     * after a reply. 0: no bound.
     */
    unsigned tenant_max;
    /* A head, a body that is collected: come by then, or the connection is closed; 0: HTTP_..._MS.
     */
    uint64_t head_ms, body_ms;
    /* Which rows a request is looked up in, by its head (a header, its Host); compiled by route.h.
     * NULL: `routes`. */
    const struct route_table *(*table)(const struct http_request *request, void *ctx);
    /*
     * Reads a large body (WHOLE_BODY) in a thread of its own, before the handler is called, which
     * finds the result in http_prepared(); `row` as http_row(). Shares nothing that changes with
     * the loop. unprepare() is called on the loop, when the request ends. NULL: handlers read all.
     */
    void *(*prepare)(const void *row, const char *text, size_t length);
    void (*unprepare)(void *prepared);
    /* No route: is_path says whether the path exists with another method (405 and `allow`). */
    void (*no_route)(struct http_request *request, bool is_path, const char *allow, void *ctx);
    /* A request that no handler sees: 400, 403, 413, 414, 431; and 429 or 503 where too much is
     * held already. NULL: `why` as plain text. */
    void (*refuse)(struct http_request *request, unsigned status, const char *why, void *ctx);
    /* A handler, no_route() or admit() has returned; what it started may go on. May be NULL. */
    void (*handled)(void *ctx);
    /* The request is over: for logs and counts. The strings live until it returns. May be NULL. */
    void (*done)(void *ctx, const struct http_done *done);
};
int http_server_start(struct reactor *reactor, const struct http_server_spec *spec,
                      struct http_server **ret, struct error *err);
void http_server_quiesce(struct http_server *server); /* no new connections */
unsigned http_server_clients(const struct http_server *server);
uint64_t http_server_clients_ever(const struct http_server *server);
const char *http_library_version(void); /* of libmicrohttpd, e.g. "1.0.1" */
/* Every request is gone(). May be called in a callback; no callback follows. NULL is fine. */
void http_server_stop(struct http_server *server);

/* New certificate for connections that come from now on; those that are there keep theirs. */
int http_server_set_tls(struct http_server *server, const struct http_tls *tls, struct error *err);

/* The request. Strings are valid while it lives. */
bool http_is_local(const struct http_request *request);    /* over a unix socket */
const char *http_peer(const struct http_request *request); /* "127.0.0.1:4711", "" if local */

/*
 * Every request has an id: the client's X-Request-Id where that is a sound one, else a new one. It
 * stands in the reply. The trace is that of a valid traceparent; empty: there was none.
 */
const char *http_request_id(const struct http_request *request);
const struct trace *http_trace(const struct http_request *request);
/* Tenant and id of the key, for done() and for http_tenant(), http_key(). */
void http_set_who(struct http_request *request, const char *tenant, const char *key);
const char *http_tenant(const struct http_request *request); /* empty: not set */
const char *http_key(const struct http_request *request);
/*
 * Its connection is one of this tenant's from now on. -EDQUOT: the tenant has as many as it may
 * (tenant_max); -ENOMEM.
 */
int http_set_admitted(struct http_request *request, const char *tenant);
bool http_tell_once(struct http_request *request); /* true the first time */

void *http_ctx(const struct http_request *request); /* of its server */
const void *http_row(const struct http_request *request);
const char *http_method(const struct http_request *request);
const char *http_path(const struct http_request *request);
const char *http_query_text(const struct http_request *request); /* as received; NULL: none */
const char *http_param(const struct http_request *request, const char *name); /* decoded; or NULL */
const char *http_query(const struct http_request *request, const char *name); /* decoded; or NULL */
/* Calls for each query argument; for finding unknown ones. */
void http_query_each(const struct http_request *request,
                     void (*each)(void *ctx, const char *name, const char *value), void *ctx);
const char *http_header(const struct http_request *request, const char *name); /* or NULL */
/* Calls for each header; for those whose names begin alike. */
void http_header_each(const struct http_request *request,
                      void (*each)(void *ctx, const char *name, const char *value), void *ctx);
/* Whether the header is there more than once, with different values. */
bool http_header_differs(const struct http_request *request, const char *name);
const void *http_body(const struct http_request *request, size_t *ret_length); /* WHOLE_BODY */
void *http_prepared(const struct http_request *request);      /* NULL: the handler reads the body */
int64_t http_body_length(const struct http_request *request); /* Content-Length; -1: unknown */
/* The body was read: its memory is free, and http_body() is empty. It counts until the reply. */
void http_body_drop(struct http_request *request);
/*
 * The same, and it counts no longer: for a handler that keeps what was in it beyond the reply, and
 * counts that itself. The bytes that it had.
 */
size_t http_body_take(struct http_request *request);
/*
 * How many bytes the handler holds for this request besides its body, in place of what it said
 * before: 0, or -EDQUOT and -ENOBUFS of held.h, and nothing changes. Given back at its end.
 */
int http_hold(struct http_request *request, size_t bytes);

/*
 * Sets the callback for a client that leaves before the reply; call it before handle() returns. It
 * is not called after http_reply() or http_reply_stream(): a source gets freed() instead.
 */
void http_on_gone(struct http_request *request, void (*gone)(void *ctx), void *ctx);

/*
 * Sets callbacks for the bytes of the reply that were sent and for the end of the request (answered
 * or not). They must not use the request. One watcher per request; false: there is one already.
 */
struct http_watcher {
    void (*sent)(void *ctx, uint64_t bytes); /* so many more */
    void (*over)(void *ctx);
};
bool http_watch(struct http_request *request, const struct http_watcher *watcher, void *ctx);
void *http_watched_by(const struct http_request *request); /* its ctx; NULL: none */

/*
 * Sets callbacks for the reply itself, to keep a copy: whole() with a reply that is there at once,
 * or none (data NULL) for one that is made while it is sent; over() at the end of the request, also
 * without a reply. They must not use the request. One for each request.
 */
struct http_reply_keeper {
    void (*whole)(void *ctx, unsigned status, const char *type, const void *data, size_t length);
    void (*over)(void *ctx);
};
void http_keep_reply(struct http_request *request, const struct http_reply_keeper *keeper,
                     void *ctx);

/*
 * STREAM_BODY: data() takes what it can (less than length: it is called again after
 * http_body_resume()), end() comes once after the last byte. A reply may be sent at any time; what
 * still comes is then dropped.
 */
struct http_body_events {
    size_t (*data)(void *ctx, const void *data, size_t length);
    void (*end)(void *ctx);
};
void http_body_read(struct http_request *request, const struct http_body_events *events, void *ctx);
void http_body_resume(struct http_request *request);

/* A whole reply; the bytes are copied. Headers: NULL-terminated "Name: value", may be NULL. */
void http_reply(struct http_request *request, unsigned status, const char *type,
                const char *const *headers, const void *data, size_t length);

/* The same with the memory of `text`, which is empty then: nothing is copied. */
void http_reply_text(struct http_request *request, unsigned status, const char *type,
                     const char *const *headers, struct buf *text);

/*
 * A reply that is made while it is sent. more() fills at most `size` bytes and returns how many;
 * 0: not now, http_reply_more() calls it again; HTTP_END; HTTP_ABORT breaks the connection, so that
 * a partial reply is not taken for a whole one. freed() is called once, last, whatever happened
 * (instead of gone()). length -1: unknown (chunked).
 */
#define HTTP_END (-1L)
#define HTTP_ABORT (-2L)
struct http_source {
    long (*more)(void *ctx, void *data, size_t size);
    void (*freed)(void *ctx);
    /* http_stop() was called: it says its last words and ends. NULL: it ends soon by itself. */
    void (*stop)(void *ctx, const struct error *why);
};
void http_reply_stream(struct http_request *request, unsigned status, const char *type,
                       const char *const *headers, int64_t length, const struct http_source *source,
                       void *ctx);
void http_reply_more(struct http_request *request);

/*
 * Ends what would stay open: a stream with a stop(), now or when it begins; a WebSocket by 1008.
 * What has an end of its own goes on. `why` is static.
 */
void http_stop(struct http_request *request, const struct error *why);

#endif
