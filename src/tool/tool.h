/*
 * tool.h - the tools an agent calls: one row each, with its schema. Shared by both programs.
 *
 * A tool never fails without a reply: an error of the call is a reply that names the error and what
 * to do. The broker runs all of them (call.h, never blocks). The static program runs
 * run_python_code by itself, without a daemon: tool_call() here, which blocks for the run. Called
 * by cli/ and api/.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_TOOL_TOOL_H
#define BAILEY_TOOL_TOOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/limits.h"
#include "config/config.h"
#include "model/result.h"

typedef struct json_t json_t;
struct oneshot_elsewhere;

/* Every byte of the code escaped as \u00XX */
#define TOOL_INPUT_MAX (6 * LIMIT_CODE_BYTES + 64 * KIB)
/* Both streams, every byte replaced by U+FFFD */
#define TOOL_REPLY_MAX (6 * LIMIT_OUTPUT_MAX + 64 * KIB)
#define TOOL_MAX 32 /* rows, for lists on the stack */

enum tool_id {
    TOOL_SANDBOX_EXEC,
    TOOL_SANDBOX_WRITE_FILE,
    TOOL_SANDBOX_EDIT_FILE,
    TOOL_SANDBOX_WAIT,
    TOOL_RUN_PYTHON_CODE,
    TOOL_RUN_CODE,
    TOOL_SANDBOX_PAUSE,
    TOOL_SANDBOX_INSTALL,
    _TOOL_ID_MAX,
};

struct tool_row {
    enum tool_id id; /* which handler runs it (call.c) */
    const char *name;
    const char *title;
    const char *category; /* "code_execution", "file_management" */
    const char *description;
    const char *own_description; /* for a client whose calls share a session; NULL: the same */
    const char *schema;          /* JSON Schema of the parameters, as text */
    /* MCP's annotations: readOnlyHint, destructiveHint, ... */
    bool is_read_only, is_destructive, is_idempotent, is_open_world;
    bool needs_session;  /* a call of a conversation without `session` uses the conversation's own
                            session */
    bool is_core;        /* MCP clients that load tools lazily are asked to load this one at once */
    bool is_alone;       /* tool_call() can run it, without a daemon */
    bool needs_install;  /* offered only where the runtime can install packages */
    bool is_found_again; /* it starts a command, which a client finds again after its connection was
                            lost */
    unsigned default_timeout_s; /* 0: none, or SANDBOX_TIMEOUT_SEC */
    unsigned
        mcp_timeout_s; /* the default over MCP, whose clients give up after 60 s; 0: the same */
};
extern const struct tool_row tool_table[];
extern const size_t tool_count;

const struct tool_row *tool_find(const char *name); /* NULL: unknown tool */
const struct tool_row *tool_of(enum tool_id id);
const char *tool_nearest(const char *name); /* for "did you mean"; NULL: no similar name */

/* Whether lists show it under this configuration. A call of another tool is refused with the
 * reason. */
bool tool_is_offered(const struct tool_row *row, const struct config *config);

/* {name,title,category,description,parameters,annotations}; new reference or NULL. */
json_t *tool_row_json(const struct tool_row *row);

struct tool_context {
    const struct config *config;
    int cancel_fd;                             /* readable: the caller cancels the run; -1: never */
    const struct oneshot_elsewhere *elsewhere; /* a daemon that may run the code; NULL: none */
    const char *state;                         /* the state folder, for templates; NULL: none */
    const char *engine, *warden;               /* as in struct oneshot */
};

/*
 * Calls a tool with JSON text: bare parameters, or the envelope {"tool", "parameters",
 * "reasoning_trace"}. Returns 0 with a reply, or -ENOMEM without one. A tool that needs a daemon
 * replies with that error.
 */
int tool_call(const struct tool_row *tool, const char *json, size_t length,
              const struct tool_context *context, struct buf *reply);

/* The blocking handler. */
int run_python_code(json_t *parameters, const struct tool_context *context, struct buf *reply);

/* The reply to a call that an error of the engine or its configuration prevented. Pure. */
int run_python_code_failed(const struct error *err, struct buf *reply);

/*
 * What to do about a module that a run without a daemon did not find; appended. False: nothing to
 * say. `state` is the state folder, for its templates; NULL: none.
 */
bool tool_missing_hint(const struct result *result, const struct config *config, const char *state,
                       struct buf *text);

/* The compact text of a result, for run_python_code. Pure. */
int run_python_code_reply(const struct result *result, struct buf *reply);

#endif
