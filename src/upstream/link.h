/*
 * link.h - the broker's side of the process `upstream`: calls of the model server.
 *
 * Each call is one Chat Completions request, whose body the caller has made, and the events of its
 * answer. The process is started when the first call is made, and again when it died; its calls
 * have failed then. A call that is made while there is no process waits for it, at most
 * LINK_PATIENCE_MS. One thread, never blocks; callbacks come from the loop only.
 *
 * Runs in: broker
 */
#ifndef BAILEY_UPSTREAM_LINK_H
#define BAILEY_UPSTREAM_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/reactor.h"

#define LINK_PATIENCE_MS 10000

struct upstream_link;
struct upstream_call;

struct upstream_link *upstream_link_new(struct reactor *reactor); /* NULL: no memory */
void upstream_link_free(struct upstream_link *link); /* its calls have to be over; NULL is fine */
/* A channel to the process, which replaces the one before. Takes the descriptor. */
void upstream_link_set(struct upstream_link *link, int fd);

struct upstream_call_events {
    void (*begun)(void *ctx); /* the model server answers; errors from now on are late ones */
    /* The data of one event of the answer (or all of an answer that is no stream). */
    void (*event)(void *ctx, const char *data, size_t length);
    /* Complete; is_marked: its end was said ([DONE]), so that nothing is missing. */
    void (*done)(void *ctx, bool is_marked);
    /* status: of the model server's answer; 0: there was none. Last, as done() is. */
    void (*failed)(void *ctx, unsigned status, const char *text);
};
/* 0 or -ENOMEM. The body's memory is taken over: `body` is empty then. */
int upstream_call_start(struct upstream_link *link, struct buf *body,
                        const struct upstream_call_events *events, void *ctx,
                        struct upstream_call **ret);
/* The client is slow: no events until the call goes on. */
void upstream_call_pause(struct upstream_call *call, bool is_paused);
/* After done() or failed() too: frees it. NULL is fine. */
void upstream_call_end(struct upstream_call *call);

#endif
