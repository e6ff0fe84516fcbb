/*
 * call.h - tool calls as the broker runs them: started, answered once, cancelled when nobody waits.
 *
 * A call is never broken: what is wrong with it, or with the session, is a reply of the kind
 * TOOL_REPLY_FAILED. One thread, never blocks. Called by api/.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_TOOL_CALL_H
#define BAILEY_TOOL_CALL_H

#include "model/caller.h"
#include "tool/reply.h"
#include "tool/tool.h"

struct session_manager;
struct execution;
struct reactor;
struct tool_call;
struct tools;

#define TOOL_TRACE_MAX (4 * KIB) /* bytes of a reasoning trace that are kept */

/* What the calls of one engine share: who writes which file now. NULL: no memory. */
struct tools *tools_new(struct session_manager *manager, struct reactor *reactor);
void tools_free(struct tools *tools); /* after every call has ended; NULL is fine */

/*
 * Starts a call of `caller` (copied; what it makes is its tenant's, and nothing else is there for
 * it) with an object: bare parameters, or the envelope. `session` is the id or name that counts
 * when the parameters name none; NULL: none (a session is made where a tool needs one). A name that
 * nobody has makes a session of that name.
 *
 * done() comes exactly once unless the call is cancelled, perhaps from inside tool_start(), and
 * *ret is then NULL. The reply is borrowed until done() returns; NULL: no memory for it.
 */
void tool_start(struct tools *tools, const struct caller *caller, const struct tool_row *row,
                json_t *input, const char *session,
                void (*done)(void *ctx, const struct tool_reply *reply), void *ctx,
                struct tool_call **ret);

/* Nobody waits any more: what only this call was waiting for is killed; done() does not come. */
void tool_cancel(struct tool_call *call); /* NULL is fine */

/* What it waits for, to look at its output; NULL: nothing that runs in a session. */
struct execution *tool_call_execution(const struct tool_call *call);

/* The id of a session that it made and that has no name: only its reply tells. NULL: none. */
const char *tool_call_made(const struct tool_call *call);

#endif
