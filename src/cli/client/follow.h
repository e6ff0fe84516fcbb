/*
 * follow.h - one execution's output as it comes, over connections that may break.
 *
 * Every byte is passed on once and in order: an event's id has the offsets of both streams, and if
 * the connection breaks (e.g. the broker was killed) the events after the last id are requested
 * again until the daemon is back, is known to be gone, or the time limit is over. One thread;
 * callbacks come from follow_turn() only.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_FOLLOW_H
#define BAILEY_CLI_CLIENT_FOLLOW_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/client/client.h"
#include "http/sse.h"

struct follow_events {
    /* The process as the API shows it; once. May be NULL. */
    void (*started)(void *ctx, json_t *process);
    int (*output)(void *ctx, int stream, const void *data, size_t length); /* <0: stop */
    /* A cell's "result", "display", "error" or "install", as in docs/kernels.md; or NULL. */
    void (*value)(void *ctx, const char *type, json_t *value);
};

struct follow {
    struct client *client;
    const struct follow_events *events;
    void *ctx;
    struct buf exec_path; /* address that starts the command; empty: attached to a running one */
    struct buf path;      /* of the execution, "/v1/sessions/ID/processes/N"; empty: unknown yet */
    char last_id[96];
    uint64_t at[2];     /* bytes of each stream that were passed on */
    uint64_t missed[2]; /* bytes that were deleted before they could be read */
    json_t *result;     /* the result, once it has ended; owned */
    struct error err;   /* why it cannot go on */

    /* private */
    struct http_exchange *exchange;
    struct sse_reader reader;
    struct buf body;  /* of the request; must live while it is sent */
    struct buf reply; /* body of an error reply */
    unsigned status;
    bool has_started, has_replied;
    uint64_t lost_ms; /* when the connection broke; 0: connected */
    uint64_t retry_at_ms;
};

void follow_init(struct follow *follow, struct client *client, const struct follow_events *events,
                 void *ctx);

/* Starts a command in a session; `body` as for POST .../exec, taken over. */
int follow_exec(struct follow *follow, const char *session, json_t *body, struct error *err);
/* The same for a cell: POST .../code. */
int follow_code(struct follow *follow, const char *session, json_t *body, struct error *err);

/* Follows an existing execution: its output from the beginning, or after last_id if set. */
int follow_attach(struct follow *follow, const char *session, const char *execution,
                  struct error *err);

/*
 * Waits for more, and for `fds`, at most timeout_ms (-1: no limit). 0: continues; 1: it has ended
 * and `result` is set; negative: `err` says why.
 */
int follow_turn(struct follow *follow, struct pollfd *fds, size_t fd_count, int timeout_ms);

/* A signal to the command, by name: "INT". */
int follow_signal(struct follow *follow, const char *name, struct error *err);

void follow_free(struct follow *follow); /* for CLEANUP() */

#endif
