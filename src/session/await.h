/*
 * await.h - waits for the end of an execution, fetches the outputs it left and builds its result.
 *
 * Every door that replies with an execution's result uses this: REST, the event streams, the tools.
 * The struct belongs to the caller, zeroed before the first use; done() comes at most once for each
 * execution_await(), perhaps before it returns. One thread, never blocks.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_AWAIT_H
#define BAILEY_SESSION_AWAIT_H

#include "session/session.h"

struct reactor_timer;

/* What done() gets, borrowed until it returns. */
struct execution_outcome {
    struct result result; /* done() may take it over by copying it and setting is_taken */
    bool is_taken;
    bool has_ended; /* false: the timeout came first, and this is what is known so far */
    const struct session_output *changed; /* outputs that are new or changed */
    size_t changed_count;
};

struct execution_await_spec {
    bool collects;       /* fetch the outputs at the end */
    uint64_t timeout_ms; /* done() comes after this time at the latest; UINT64_MAX: at the end */
    void (*done)(void *ctx, struct execution_outcome *outcome);
    void *ctx;
};

struct execution_await {
    struct execution *execution; /* NULL: nothing is awaited */
    struct execution_await_spec spec;
    struct execution_watcher *watcher;
    struct reactor_timer *timer;
    bool is_collecting;
};

/*
 * The execution stays valid until execution_await_end(), also inside done() and after it. -ENOMEM:
 * nothing is awaited, done() does not come.
 */
int execution_await(struct execution_await *await, struct execution *execution,
                    const struct execution_await_spec *spec, struct error *err);

/*
 * The caller leaves, before or after done(): an execution without any other watcher is killed, as
 * execution_unwatch() says. May be called twice.
 */
void execution_await_end(struct execution_await *await);

#endif
