/*
 * follow.h - one execution's output as it comes, over connections that may break.
 *
 * Every byte is handed on once and in order: an event's id says how far both streams are, and when
 * the connection breaks (the broker was killed, say) the events behind the last id are asked for
 * again until the daemon is back, it is gone, or patience is over. One thread; callbacks come from
 * follow_turn() only.
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
    int (*output)(void *ctx, int stream, const void *data, size_t length); /* <0: not any more */
    /* A cell's "result", "display", "error" or "install", as docs/kernels.md has it; or NULL. */
    void (*value)(void *ctx, const char *type, json_t *value);
};

struct follow {
    struct client *client;
    const struct follow_events *events;
    void *ctx;
    struct buf exec_path; /* that a command is started by; empty: it was attached to */
    struct buf path; /* of the execution, "/v1/sessions/ID/processes/N"; empty: not known yet */
    char last_id[96];
    uint64_t at[2];     /* bytes of each stream that were handed on */
    uint64_t missed[2]; /* bytes that were not kept until we came */
    json_t *result;     /* the one result, once it has ended; owned */
    struct error err;   /* why it cannot go on */

    /* inside */
    struct http_exchange *exchange;
    struct sse_reader reader;
    struct buf body;  /* of the request; has to live as long as it is sent */
    struct buf reply; /* of a status that is an error */
    unsigned status;
    bool has_started, has_replied;
    uint64_t lost_ms; /* when the connection broke; 0: it is there */
    uint64_t retry_at_ms;
};

void follow_init(struct follow *follow, struct client *client, const struct follow_events *events,
                 void *ctx);

/* Starts a command in a session; `body` as POST .../exec takes it, taken over. */
int follow_exec(struct follow *follow, const char *session, json_t *body, struct error *err);
/* The same for a cell: POST .../code. */
int follow_code(struct follow *follow, const char *session, json_t *body, struct error *err);

/* Goes on with one that is there: its output from the beginning, or behind last_id when set. */
int follow_attach(struct follow *follow, const char *session, const char *execution,
                  struct error *err);

/*
 * Waits for more, and for `fds`, at most timeout_ms (-1: no limit). 0: goes on; 1: it has ended and
 * `result` is there; negative: `err` says why.
 */
int follow_turn(struct follow *follow, struct pollfd *fds, size_t fd_count, int timeout_ms);

/* A signal to the command, by name: "INT". */
int follow_signal(struct follow *follow, const char *name, struct error *err);

void follow_free(struct follow *follow); /* for CLEANUP() */

#endif
