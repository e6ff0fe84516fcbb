/*
 * pause.c - the tool sandbox_pause {resume}: everything in the session's sandbox stops where it is,
 * or goes on.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "tool/tool_private.h"

static void on_done(void *ctx, const struct error *err)
{
    struct tool_call *call = ctx;

    call->waits_for_pause = false;
    if (err->num < 0) {
        call_fail(call, err, NULL);
        return;
    }
    call->reply.kind = TOOL_REPLY_PAUSED;
    call->reply.is_paused = session_is_paused(call->session);
    call_set_hint(&call->reply, call->reply.is_paused
                                    ? "Files, variables and processes are kept. sandbox_pause with "
                                      "\"resume\": true goes on."
                                    : "The same processes go on.");
    call_reply(call);
}

/* No session is made for it. */
static int find(struct tool_call *call, struct error *err)
{
    if (!call->word)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'session' has to name the session");
    return call_find(call, call->word, false, &call->session, err);
}

void sandbox_pause_start(struct tool_call *call)
{
    struct error err = {0};

    if (find(call, &err) < 0) {
        call_fail(call, &err, NULL);
        return;
    }
    call_use(call, call->session);
    call->waits_for_pause = true;
    if (json_is_true(call_parameter(call, "resume")))
        session_resume(call->session, &call->caller, on_done, call);
    else
        session_pause(call->session, &(struct pause_spec){.caller = &call->caller}, on_done, call);
}
