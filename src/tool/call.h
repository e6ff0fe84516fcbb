/*
 * call.h - tool calls as the broker runs them: each is started, gets one reply, and is cancelled
 * when its client leaves.
 *
 * A call always ends with a reply: an error of the call or of the session is a reply of the kind
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

/* The state that calls of one broker share: which call writes which file. NULL: no memory. */
struct tools *tools_new(struct session_manager *manager, struct reactor *reactor);
void tools_free(struct tools *tools); /* after every call has ended; NULL is fine */

/*
 * Starts a call of `caller` (copied; it creates and sees only objects of its own tenant) with an
 * object: bare parameters, or the envelope. `session` is the id or name to use if the parameters
 * name none; NULL: none (a session is created if the tool needs one). An unknown name creates a
 * session of that name, and so does one whose session has ended; the reply then says what is gone.
 * `note` (NULL: none) is what else the reply says about the session.
 *
 * done() is called exactly once unless the call is cancelled, perhaps before tool_start() returns,
 * and *ret is then NULL. The reply is borrowed until done() returns; NULL: no memory for it.
 */
void tool_start(struct tools *tools, const struct caller *caller, const struct tool_row *row,
                json_t *input, const char *session, const char *note,
                void (*done)(void *ctx, const struct tool_reply *reply), void *ctx,
                struct tool_call **ret);

/*
 * The client has left: an execution that only this call was waiting for is killed; done() is not
 * called.
 */
void tool_cancel(struct tool_call *call); /* NULL is fine */

/* The execution that it waits for, to read its output; NULL: none in a session. */
struct execution *tool_call_execution(const struct tool_call *call);

/*
 * The id of a session without a name that this call created, known only from its reply. NULL: none.
 */
const char *tool_call_made(const struct tool_call *call);

#endif
