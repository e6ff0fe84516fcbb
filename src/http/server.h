/*
 * server.h - an HTTP/1.1 server on a listening socket: routes as rows, bodies and replies that
 * stream, clients that leave.
 *
 * libmicrohttpd on the caller's reactor. One thread, never blocks. Knows no tool and no JSON: a row
 * says which handler gets which method and path, the handler answers now or later. A request lives
 * until its reply is out or its client left; `gone` (at most once) says that nobody waits any more,
 * after which the handler must not touch the request. Every size has a ceiling.
 */
#ifndef BAILEY_HTTP_SERVER_H
#define BAILEY_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/reactor.h"

struct http_server;
struct http_request;
struct trace;

enum http_body {
    HTTP_NO_BODY,     /* one that comes is read and dropped up to 64 KiB, then 413 */
    HTTP_WHOLE_BODY,  /* collected up to body_max, then 413; handle() is called when it is there */
    HTTP_STREAM_BODY, /* handle() is called at once and takes it by http_body_read() */
};

struct http_route {
    const char *method;  /* "GET"; HEAD is answered by GET rows */
    const char *pattern; /* "/v1/sessions/{id}/outputs/{name*}": {x} one segment, {x*} the rest */
    enum http_body body;
    size_t body_max; /* of a stream: 0 is no limit */
    void (*handle)(struct http_request *request, void *ctx);
    const void *row; /* the caller's own */
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
    const char *const *hosts;   /* NULL-terminated "name" or "name:port"; NULL: not checked */
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
    /* Read for each request: what it points to may change between two turns of the loop. */
    const struct http_browsers *browsers; /* NULL: nothing is checked (a unix socket) */
    const struct http_route *routes;
    size_t route_count;
    void *ctx; /* of the handlers */
    unsigned client_max;
    /* A head, a body that is collected: come by then, or the connection is closed; 0: HTTP_..._MS.
     */
    uint64_t head_ms, body_ms;
    /*
     * Whether a request is somebody's whose body may cost memory; asked once, when a body that is
     * collected gets larger than LIMIT_HTTP_UNKNOWN. If not, it is dropped, and the handler, which
     * has to look at the key before anything else, finds none. NULL: all are.
     */
    bool (*is_known)(struct http_request *request, void *ctx);
    /* No route: is_path says whether the path exists with another method (405 and `allow`). */
    void (*no_route)(struct http_request *request, bool is_path, const char *allow, void *ctx);
    /* A request that no handler sees: 400, 403, 413, 414, 431, 503. NULL: `why` as plain text. */
    void (*refuse)(struct http_request *request, unsigned status, const char *why, void *ctx);
    /* A handler, or no_route(), has returned; what it started may go on. May be NULL. */
    void (*handled)(void *ctx);
    /* The request is over: for logs and counts. The strings live until it returns. May be NULL. */
    void (*done)(void *ctx, const struct http_done *done);
};
int http_server_start(struct reactor *reactor, const struct http_server_spec *spec,
                      struct http_server **ret, struct error *err);
void http_server_quiesce(struct http_server *server); /* no new connections */
unsigned http_server_clients(const struct http_server *server);
uint64_t http_server_clients_ever(const struct http_server *server);
/* Every request is gone(). From inside a callback too: nobody is called after it. NULL is fine. */
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
void http_set_tenant(struct http_request *request, const char *tenant); /* for done() */

void *http_ctx(const struct http_request *request); /* of its server */
const void *http_row(const struct http_request *request);
const char *http_method(const struct http_request *request);
const char *http_path(const struct http_request *request);
const char *http_param(const struct http_request *request, const char *name); /* decoded; or NULL */
const char *http_query(const struct http_request *request, const char *name); /* decoded; or NULL */
/* Calls for each query argument; for finding unknown ones. */
void http_query_each(const struct http_request *request,
                     void (*each)(void *ctx, const char *name, const char *value), void *ctx);
const char *http_header(const struct http_request *request, const char *name); /* or NULL */
const void *http_body(const struct http_request *request, size_t *ret_length); /* WHOLE_BODY */
int64_t http_body_length(const struct http_request *request); /* Content-Length; -1: unknown */

/*
 * Who is told that the client left before there was a reply; set it before handle() returns. After
 * http_reply() and http_reply_stream() nobody is told: a source is freed().
 */
void http_on_gone(struct http_request *request, void (*gone)(void *ctx), void *ctx);

/*
 * Who is told once, when the request is over (answered or not), how many bytes of a reply were
 * sent. Only one can be: false, and nobody is added, for a second.
 */
bool http_on_over(struct http_request *request, void (*over)(void *ctx, uint64_t bytes), void *ctx);

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

/*
 * A reply that is made while it is sent. more() fills at most `size` bytes and returns how many;
 * 0: not now, http_reply_more() calls it again; HTTP_END; HTTP_ABORT breaks the connection so that
 * nobody takes half for the whole. freed() is called once, last, whatever happened (instead of
 * gone()). length -1: unknown (chunked).
 */
#define HTTP_END (-1L)
#define HTTP_ABORT (-2L)
struct http_source {
    long (*more)(void *ctx, void *data, size_t size);
    void (*freed)(void *ctx);
};
void http_reply_stream(struct http_request *request, unsigned status, const char *type,
                       const char *const *headers, int64_t length, const struct http_source *source,
                       void *ctx);
void http_reply_more(struct http_request *request);

#endif
