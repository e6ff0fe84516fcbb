/*
 * turn.h - one answer of a model server, put together from the events of its stream.
 *
 * Reads what servers of Chat Completions really send: fragments of tool calls by index, without an
 * index or with the same one for each; calls without an id; arguments as an object; an answer that
 * is no stream at all; usage in any event. The caller reads the struct after each event, and keeps
 * its own marks of what it has seen. Pure; hostile input; fuzzed.
 *
 * Runs in: broker
 */
#ifndef BAILEY_AGENT_TURN_H
#define BAILEY_AGENT_TURN_H

#include <jansson.h>

#include "agent/code_text.h"
#include "base/error.h"
#include "base/id.h"

enum turn_finish { TURN_OPEN, TURN_STOPPED, TURN_LENGTH, TURN_FILTERED };

struct turn_call {
    json_int_t index; /* the server's; -1: it has none */
    char id[128];     /* the server's, or one that was made here */
    char name[128];
    bool has_own_id; /* it came without one */
    struct buf arguments;
    struct code_text decoder;
    struct buf code; /* the source as far as it has arrived */
};

struct token_usage {
    json_int_t input, cached, written, output, reasoning; /* cached, written: of the input */
};

struct turn {
    struct buf text;
    struct turn_call *calls;
    size_t count;
    bool has_choice; /* an event had one; else it was no answer */
    enum turn_finish finish;
    struct token_usage usage; /* as the server last said */
    size_t bytes;             /* of text and arguments */
};

void turn_init(struct turn *turn);
void turn_free(struct turn *turn);
/*
 * One event's data. 0, or an error with a text for the caller of the model: -EPROTO (not an event
 * of Chat Completions), -EREMOTEIO (the server reports an error), -EFBIG, -ENOMEM.
 */
int turn_event(struct turn *turn, const char *data, size_t length, struct error *err);

#endif
