/*
 * upstream.h - the process `upstream` (`bailey-engine host upstream`): the only one that speaks to
 * the model server, and that has its key.
 *
 * Theory of operation. The supervisor starts it as it starts a provider host, under an id of its
 * own; it confines itself as the egress proxy does. Over the rendezvous socket comes a channel for
 * each broker (channel.h), which replaces the one before: calls of the earlier broker end. A call
 * is a body for POST <base>/chat/completions. Until the model server has answered with success, a
 * call is tried again, UPSTREAM_TRIES times and UPSTREAM_FIRST_MS in all: after a connection that
 * failed and after 408, 409, 429 and 5xx, when Retry-After says so. From the answer on, server-sent
 * events are taken apart here and their data is passed on; nothing is tried again. What the broker
 * does not read is not read from the model server. The key is removed from error texts.
 *
 * One thread (and libcurl's for names). Ends when the rendezvous socket does.
 *
 * Runs in: upstream, commands
 */
#ifndef BAILEY_UPSTREAM_UPSTREAM_H
#define BAILEY_UPSTREAM_UPSTREAM_H

#include <stdint.h>

#include "base/error.h"
#include "base/reactor.h"

/* In its environment; each is removed when it was read. */
#define UPSTREAM_ENV_URL "BAILEY_UPSTREAM_URL"
#define UPSTREAM_ENV_KEY "BAILEY_UPSTREAM_KEY"
#define UPSTREAM_ENV_TIMEOUT "BAILEY_UPSTREAM_TIMEOUT"

struct upstream_spec {
    int rendezvous_fd;                   /* borrowed */
    const char *url;                     /* "https://host:port/v1" */
    const char *key;                     /* NULL: none; copied */
    uint64_t timeout_ms;                 /* for one answer */
    void (*left)(void *ctx, int status); /* the process ends with this status */
    void *ctx;
};

struct upstream;
int upstream_open(struct reactor *reactor, const struct upstream_spec *spec, struct upstream **ret,
                  struct error *err);
void upstream_close(struct upstream *upstream); /* NULL is fine */

/*
 * The base address in its two parts, "https://host:port" and "/v1", without a last slash. 0 or
 * -EINVAL. Pure.
 */
int upstream_split(const char *url, char *ret_place, size_t place_size, char *ret_path,
                   size_t path_size);
/* Milliseconds that a Retry-After asks for (seconds; a date counts as unknown); 0: unknown. Pure.
 */
uint64_t upstream_retry_ms(const char *header);

#endif
