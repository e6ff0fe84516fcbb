/*
 * client.h - HTTP over a unix socket, TCP or TLS, for the command line, the MCP door and the Docker
 * provider host: calls that wait, and exchanges that run beside other descriptors.
 *
 * libcurl's multi interface. One thread. Callbacks come from http_client_wait() or, when the client
 * has a reactor, from its loop only; they may start and cancel exchanges.
 *
 * Runs in: broker, hosts, upstream, commands, callers
 */
#ifndef BAILEY_HTTP_CLIENT_H
#define BAILEY_HTTP_CLIENT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/reactor.h"

struct http_client;
struct http_exchange;

int http_client_open(const char *socket_path, struct http_client **ret, struct error *err);
/*
 * A server that may be on another machine. `address`: "unix:///path", "tcp://host:port"
 * ("http://..." and "https://..." too). `tls_folder`: with ca.pem, cert.pem and key.pem; NULL or
 * empty: no TLS (https: the system's authorities). A missing cert.pem or key.pem is left out, and
 * so is a ca.pem when the server is not verified. -EINVAL with ERROR_BAD_CONFIG: the address is
 * malformed.
 */
struct http_place {
    const char *address;
    const char *tls_folder;
    bool is_unverified;      /* with a tls_folder: TLS without verifying the server */
    const char *ca_file;     /* authorities instead of the system's; NULL: those */
    const char *key;         /* "Authorization: Bearer KEY" with every request; NULL: none */
    const char *proxy;       /* "http://host:port" of an HTTP proxy; NULL: none */
    struct reactor *reactor; /* drives all exchanges; NULL: http_client_wait() does */
};
int http_client_open_at(const struct http_place *place, struct http_client **ret,
                        struct error *err);
/* "Name: value": a header of every call from now on; empty: none. 0 or -ENOMEM. */
int http_client_set_header(struct http_client *client, const char *header);
/* Another key for every call from now on: 0, -EINVAL (it cannot be one) or -ENOMEM. */
int http_client_set_key(struct http_client *client, const char *key);
void http_client_close(struct http_client *client); /* cancels everything; NULL is fine */

struct http_call {
    const char *method;
    const char *path;           /* with its query, encoded */
    const char *const *headers; /* NULL-terminated "Name: value"; may be NULL */
    const void *body;           /* NULL and length 0: none; copied */
    size_t body_length;
    /* A body that is read while it is sent, instead: bytes, 0 at the end, -1 to abort, -EAGAIN: not
     * yet, until http_call_more(). */
    long (*body_read)(void *ctx, void *data, size_t size);
    void *body_ctx;      /* of body_read() */
    int64_t body_total;  /* -1: unknown */
    uint32_t timeout_ms; /* for all of it; 0: none */
    /* Sent twice it does no harm: a connection that was used before may carry it. */
    bool may_repeat;
};
struct http_call_events {
    /* Before the first byte; may be NULL, as the others may. */
    void (*status)(void *ctx, unsigned status);
    int (*data)(void *ctx, const void *data, size_t length); /* <0 aborts */
    /*
     * Last. err->num 0: the reply is complete; -ECONNREFUSED, -ENOENT: no process listens; -EACCES:
     * no permission for the socket; -EHOSTUNREACH: no such host; -ETIMEDOUT; -ECONNRESET: the other
     * side closed; -ECANCELED: data() or body_read() cancelled. Of TLS: -EPROTOTYPE, the server
     * does not use it; -EKEYREJECTED, the server cannot be verified; -EREMCHG, its certificate has
     * another name; -ENOKEY, ours is missing, refused or unusable. The exchange ends with it.
     */
    void (*done)(void *ctx, unsigned status, const struct error *err);
};
int http_call_start(struct http_client *client, const struct http_call *call,
                    const struct http_call_events *events, void *ctx, struct http_exchange **ret,
                    struct error *err);
/* A response header of a running exchange, inside status(), data() or done(); or NULL. */
const char *http_call_header(struct http_exchange *exchange, const char *name);
/* From the loop only: data() gets nothing until it goes on. */
void http_call_pause(struct http_exchange *exchange, bool is_paused);
void http_call_more(struct http_exchange *exchange);   /* body_read() has more now */
void http_call_cancel(struct http_exchange *exchange); /* no callback is called any more */
/* With a reactor: ends connections of cancelled exchanges now instead of in the loop's next turn.
 * Inside of a callback it is left to that turn. */
void http_client_drop(struct http_client *client);

/*
 * Not for a client with a reactor. Waits for the exchanges and for `fds` (revents are filled) at
 * most timeout_ms (-1: no limit) and calls back. Returns the number of exchanges that still run, or
 * a negative errno.
 */
int http_client_wait(struct http_client *client, struct pollfd *fds, size_t fd_count,
                     int timeout_ms);

/* One call from beginning to end, not for a client with a reactor; `reply` gets the body up to its
 * maximum (then -EFBIG). */
int http_call(struct http_client *client, const struct http_call *call, unsigned *ret_status,
              struct buf *reply, struct error *err);

/* Percent-encodes a path segment or query value. 0, -EFBIG, -ENOMEM. */
int http_encode(struct buf *text, const char *value);

#endif
