/* watch.c - a tool call waits for an execution and fetches what it left; see tool_private.h. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "tool/outputs.h"
#include "tool/tool_private.h"

static void read_result(struct tool_call *call, struct result *result)
{
    execution_result(call->execution,
                     session_manager_config(call->tools->manager)->limits.output_bytes, result);
    str_copy(result->session_id, sizeof(result->session_id), call->session_id);
}

static void on_collected(void *ctx, const struct session_output *changed, size_t count,
                         uint64_t total, const struct error *err)
{
    struct tool_call *call = ctx;
    struct result result;

    call->is_collecting = false;
    read_result(call, &result);
    outputs_to_result(call->session, changed, count, total, err, &result);
    call->exec_done(call, &result, outputs_to_json(call->session, changed, count));
    result_free(&result);
}

static void on_more(void *ctx)
{
    struct tool_call *call = ctx;

    if (call->is_collecting || !execution_has_ended(call->execution))
        return;
    if (call->timer)
        call->tools->reactor->ops->timer_remove(ptr_take(&call->timer));
    /* A session that has ended meanwhile has nothing to fetch from. */
    if (session_state(call->session) >= SESSION_ENDING ||
        !session_has_output(call->session, call->execution)) {
        on_collected(call, NULL, 0, 0, NULL);
        return;
    }
    call->is_collecting = true;
    session_collect(call->session, on_collected, call);
}

static void on_due(void *ctx)
{
    struct tool_call *call = ctx;
    struct result result;

    read_result(call, &result);
    call->exec_done(call, &result, NULL);
    result_free(&result);
}

static void no_memory(struct tool_call *call)
{
    struct error err = {0};

    error_set(&err, -ENOMEM, ERROR_ENGINE, "out of memory");
    call_fail(call, &err, NULL);
}

void call_watch(struct tool_call *call, struct execution *execution, uint64_t timeout_ms,
                void (*done)(struct tool_call *call, struct result *result, json_t *outputs))
{
    static const struct execution_watch_events events = {.more = on_more};

    call->execution = execution;
    call->exec_done = done;
    str_format(call->execution_id, sizeof(call->execution_id), "%s.%u", call->session_id,
               execution_number(execution));
    call->watcher = execution_watch(execution, false, &events, call);
    if (!call->watcher) {
        no_memory(call);
        return;
    }
    if (execution_has_ended(execution)) {
        on_more(call);
        return;
    }
    if (timeout_ms == UINT64_MAX)
        return;
    call->timer = reactor_timer(call->tools->reactor, on_due, call);
    if (!call->timer)
        no_memory(call);
    else
        call->tools->reactor->ops->timer_set(call->timer, timeout_ms);
}
