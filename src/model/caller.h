/*
 * caller.h - the caller of a run or a command and its request: kept with the execution, for its
 * result, the audit and the log. Plain data.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_MODEL_CALLER_H
#define BAILEY_MODEL_CALLER_H

#include "base/trace.h"
#include "model/principal.h"

typedef struct json_t json_t;

struct caller {
    struct principal who;
    char request[REQUEST_ID_MAX]; /* empty: by none */
    struct trace trace;
    uint32_t settings; /* number of its settings (session/settings_table.h); 0: none */
};

/* The engine itself, or an unknown caller. */
extern const struct caller caller_engine;

/*
 * Adds what is known of tenant, key, local, request_id, trace_id and parent_id to an object, unless
 * it has them; NULL is fine.
 */
void caller_describe(const struct caller *caller, json_t *object);

#endif
