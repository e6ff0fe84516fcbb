/*
 * wait.c - the tool sandbox_wait {execution_id, timeout}: waits for a background command, and
 * returns its result or its output so far.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "tool/tool_private.h"

/* The output from `offset` on, of one stream; the other one is not repeated. */
static void look_at(struct tool_call *call, struct result *result)
{
    json_t *offset = call_parameter(call, "offset");
    bool is_stderr = str_equal(json_string_value(call_parameter(call, "stream")), "stderr");
    struct capture *wanted = is_stderr ? &result->err : &result->out;
    struct capture *other = is_stderr ? &result->out : &result->err;

    if (!offset && !is_stderr)
        return;
    call->reply.offset =
        execution_window(call->await.execution, is_stderr ? 2 : 1,
                         (uint64_t)json_number_value(offset), result->limits.output_bytes, wanted);
    capture_free(other);
    *other = (struct capture){0};
}

static void waited(struct tool_call *call, struct execution_outcome *outcome)
{
    look_at(call, &outcome->result);
    if (outcome->has_ended) {
        call_reply_exec(call, outcome);
        return;
    }
    call->reply.kind = TOOL_REPLY_RUNNING;
    call_take_result(call, outcome);
    call_set_hint(&call->reply,
                  "Still running. Call sandbox_wait again, or go on with other work.");
    call_reply(call);
}

/*
 * A call for one session learns nothing about executions of another session, even with their ids.
 */
static int stay_inside(struct tool_call *call, const char *id, struct error *err)
{
    struct session *own = NULL;
    struct error ignored = {0};

    if (call->word &&
        (call_find(call, call->word, true, &own, &ignored) < 0 || own != call->session))
        return error_set(err, -ENOENT, ERROR_EXECUTION_NOT_FOUND,
                         "this session has no execution '%.128s'; give the 'session' that it was "
                         "started in",
                         id);
    return 0;
}

void sandbox_wait_start(struct tool_call *call)
{
    const char *id = json_string_value(call_parameter(call, "execution_id"));
    const char *dot = strrchr(id, '.');
    CLEANUP(freep) char *word = dot ? strndup(id, (size_t)(dot - id)) : NULL;
    struct execution *execution;
    struct error err = {0};
    const char *session = word ? word : call->word;
    int r;

    if (!session)
        r = error_set(
            &err, -ENOENT, ERROR_EXECUTION_NOT_FOUND,
            "'execution_id' has to be the id that sandbox_exec returned: session, dot, number");
    else
        r = call_find(call, session, true, &call->session, &err);
    if (r == 0)
        r = stay_inside(call, id, &err);
    if (r == 0) {
        call_use(call, call->session);
        r = session_find_execution(call->session, dot ? dot + 1 : id, &execution, &err);
    }
    if (r < 0)
        call_fail(call, &err, NULL);
    else
        call_await(call, execution, call_timeout_ms(call, call->row->default_timeout_s * 1000ULL),
                   waited);
}
