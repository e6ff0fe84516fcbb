/*
 * tool.h - the verbs an agent calls: a row each with its schema, and one way in for every door.
 *
 * A tool never fails as a tool: what is wrong with the call is a reply that says so and what to do.
 * Blocks for the run. Called by cli/ (and by the broker's doors later).
 */
#ifndef BAILEY_TOOL_TOOL_H
#define BAILEY_TOOL_TOOL_H

#include <stddef.h>

#include "base/buf.h"
#include "base/limits.h"
#include "config/config.h"
#include "model/result.h"

typedef struct json_t json_t;

#define TOOL_INPUT_MAX (6 * LIMIT_CODE_BYTES + 64 * KIB) /* every byte of the code as \u00XX */
#define TOOL_REPLY_MAX (6 * LIMIT_OUTPUT_MAX + 64 * KIB) /* both streams, every byte as U+FFFD */
#define TOOL_JSON_DEPTH 64

struct tool_context {
    const struct config *config;
    int cancel_fd; /* readable: the caller wants the run to end; -1: never */
};

struct tool_row {
    const char *name;
    const char *category; /* "code_execution", "file_management" */
    const char *description;
    const char *schema; /* JSON Schema of the parameters, as text */
    /* `parameters` has only members that the schema names, and all that it requires. */
    int (*handle)(json_t *parameters, const struct tool_context *context, struct buf *reply);
};
extern const struct tool_row tool_table[];
extern const size_t tool_count;

const struct tool_row *tool_find(const char *name); /* NULL when unknown */

/*
 * Calls a tool with JSON text: bare parameters, or the envelope {"tool", "parameters",
 * "reasoning_trace"}. 0 with a reply, or -ENOMEM when not even that could be had.
 */
int tool_call(const struct tool_row *tool, const char *json, size_t length,
              const struct tool_context *context, struct buf *reply);

/* The handlers, one file each. */
int run_python_code(json_t *parameters, const struct tool_context *context, struct buf *reply);

/* The compact text of a result, for run_python_code. Pure. */
int run_python_code_reply(const struct result *result, struct buf *reply);

#endif
