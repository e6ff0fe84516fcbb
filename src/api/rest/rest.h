/*
 * rest.h - the REST door: docs/rest.md over http/server.h. Started once by the broker.
 *
 * Owns the servers, one for each address, and the tool calls under way. One thread, never blocks
 * but where session.h does.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_REST_REST_H
#define BAILEY_API_REST_REST_H

#include "base/error.h"
#include "base/reactor.h"
#include "http/server.h"

struct session_manager;
struct rest;
typedef struct json_t json_t;

#define REST_ADDRESSES_MAX 16 /* beside the socket */

/* What GET /v1/info tells beside the engine's own; borrowed. */
struct rest_info {
    const char *socket, *state;
    int launcher_pid, broker_pid; /* as the host sees them; 0: unknown */
    unsigned generation;
    /* POST /v1/reload: `body` fits its row; *ret is a new reference. NULL: it is refused. */
    int (*reload)(void *ctx, json_t *body, json_t **ret, struct error *err);
    void *reload_ctx;
    bool has_fixtures; /* those of MCP's conformance suite: only tests ask for them */
};

/* listen_fd is borrowed. */
int rest_serve(struct reactor *reactor, struct session_manager *manager, int listen_fd,
               const struct rest_info *info, struct rest **ret, struct error *err);
/* One more address with the same rows; `tls` and `browsers` as http/server.h has them. */
int rest_listen(struct rest *rest, int listen_fd, const struct http_tls *tls,
                const struct http_browsers *browsers, struct error *err);
/* For new connections of every address that was opened with TLS. */
int rest_set_tls(struct rest *rest, const struct http_tls *tls, struct error *err);
struct http_server *rest_server(struct rest *rest); /* of the socket: the number of clients */
void rest_quiesce(struct rest *rest);               /* no new connections; NULL is fine */
void rest_stop(struct rest *rest);                  /* every request is gone; NULL is fine */

#endif
