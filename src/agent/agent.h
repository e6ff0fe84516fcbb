/*
 * agent.h - a conversation with a model that runs code in a session: the loop that doors share.
 *
 * Theory of operation. A turn is one request to the model server (upstream/link.h) with the
 * messages so far, and its answer. Calls of the code interpreter in an answer are run one after the
 * other in the agent's place, their results become messages, and the next turn begins. An answer
 * without calls ends it; so does a call of a function of the caller's own, whose result only the
 * caller has. Events come in the order of a response: text, then each call from its beginning to
 * its end; the source of a call is told while it arrives. Errors of the code, of its arguments and
 * of its box are results for the model. The agent knows no door and writes no protocol but that of
 * the model server.
 *
 * Callbacks come from the loop. ended() is the last, once; agent_end() may be called in it or
 * before, which cancels the model server's answer and interrupts the code. One thread, never
 * blocks.
 *
 * Runs in: broker
 */
#ifndef BAILEY_AGENT_AGENT_H
#define BAILEY_AGENT_AGENT_H

#include <jansson.h>

#include "agent/code_run.h"
#include "agent/place.h"
#include "agent/turn.h"
#include "base/error.h"
#include "base/reactor.h"

struct agent;
struct upstream_link;

#define AGENT_TOOL "code_interpreter" /* its name for the model */

struct agent_spec {
    struct session_manager *manager;
    struct reactor *reactor;
    struct upstream_link *link;
    const struct caller *caller; /* copied */
    json_t *messages;            /* of Chat Completions; taken over */
    json_t
        *functions;  /* the caller's tools, as Chat Completions has them; taken over, NULL: none */
    json_t *choice;  /* tool_choice of the first turn; taken over, NULL: none */
    json_t *options; /* further members of each request; taken over, NULL: none */
    bool has_code;   /* the code interpreter is offered */
    struct agent_place place; /* where it runs; copied */
    bool is_large;            /* the first request is made in a turn of the loop of its own */
    json_int_t max_tokens;    /* of all answers together; 0: as the model server has it */
    json_int_t max_calls;     /* of the code interpreter; 0: no limit but that of turns */
};

struct agent_call {
    bool is_code;
    const char *id, *name; /* the model server's */
    const char *text;      /* ready: the source, or the arguments */
    size_t length;
    const char *container; /* is_code: where it runs */
};

enum agent_reason {
    AGENT_COMPLETED,
    AGENT_TOKENS,   /* the limit of tokens */
    AGENT_TURNS,    /* LIMIT_AGENT_TURNS */
    AGENT_FILTERED, /* the model server's filter */
    AGENT_FAILED,
};

struct agent_ending {
    enum agent_reason reason;
    struct error error;       /* AGENT_FAILED */
    unsigned status;          /* of the model server's answer, if that was an error; else 0 */
    bool has_begun;           /* the model server had begun its first answer */
    struct token_usage usage; /* of all turns */
};

struct agent_events {
    void (*begun)(void *ctx); /* the model server answers: what fails now fails late */
    void (*text)(void *ctx, const char *text, size_t length);
    void (*call_began)(void *ctx, const struct agent_call *call);
    void (*call_text)(void *ctx, const struct agent_call *call, const char *text, size_t length);
    void (*call_ready)(void *ctx, const struct agent_call *call);
    void (*running)(void *ctx, const struct agent_call *call);
    void (*ran)(void *ctx, const struct agent_call *call, const struct code_outcome *outcome);
    void (*ended)(void *ctx, const struct agent_ending *ending);
};

/* The members of `spec` that it takes over are gone in any case. Without memory ended() may come
 * before it returns: *ret is valid then until agent_end(). */
int agent_start(const struct agent_spec *spec, const struct agent_events *events, void *ctx,
                struct agent **ret, struct error *err);
/* The reader is slow: the model server is not read until it goes on. */
void agent_pause(struct agent *agent, bool is_paused);
void agent_end(struct agent *agent); /* NULL is fine; no callback any more */

#endif
