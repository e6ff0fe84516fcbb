/*
 * rest.h - the REST door: docs/rest.md over http/server.h. Started once by the broker.
 *
 * Owns the server and the tool calls under way. One thread, never blocks but where session.h does.
 */
#ifndef BAILEY_API_REST_REST_H
#define BAILEY_API_REST_REST_H

#include "base/error.h"
#include "base/reactor.h"
#include "http/server.h"

struct engine;
struct rest;

/* What GET /v1/info tells beside the engine's own; borrowed. */
struct rest_info {
    const char *socket, *state;
    int launcher_pid, broker_pid; /* as the host sees them; 0: unknown */
    unsigned generation;
    bool has_fixtures; /* those of MCP's conformance suite: only tests ask for them */
};

/* listen_fd is borrowed. */
int rest_serve(struct reactor *reactor, struct engine *engine, int listen_fd,
               const struct rest_info *info, struct rest **ret, struct error *err);
struct http_server *rest_server(struct rest *rest); /* for quiesce and the number of clients */
void rest_stop(struct rest *rest);                  /* every request is gone; NULL is fine */

#endif
