/*
 * rest.h - the REST door: docs/rest.md over http/server.h. Started once by the broker.
 */
#ifndef BAILEY_API_REST_REST_H
#define BAILEY_API_REST_REST_H

#include "base/error.h"
#include "base/reactor.h"
#include "http/server.h"

struct engine;

/* What GET /v1/info tells beside the engine's own; borrowed. */
struct rest_info {
    const char *socket, *state;
    int launcher_pid, broker_pid; /* as the host sees them; 0: unknown */
    unsigned generation;
};

int rest_start(struct reactor *reactor, struct engine *engine, int listen_fd,
               const struct rest_info *info, struct http_server **ret, struct error *err);

#endif
