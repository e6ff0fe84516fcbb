/* await.c - a request that waits for an execution's end and answers with the one result. */
#include "api/rest/rest_private.h"
#include "base/str.h"
#include "tool/outputs.h"

struct waiting {
    struct front *front;
    struct http_request *http;
    struct rest_following following;
    struct execution_watcher *watcher;
    bool is_collecting;
};

static void waiting_free(struct waiting *waiting)
{
    if (waiting->is_collecting)
        session_collect_cancel(waiting->following.exec_stream.session, waiting);
    if (waiting->watcher)
        execution_unwatch(waiting->watcher, true);
    free(waiting);
}

static void on_collected(void *ctx, const struct session_output *changed, size_t count,
                         uint64_t total, const struct error *err)
{
    struct waiting *waiting = ctx;
    const struct exec_stream_spec *following = &waiting->following.exec_stream;
    struct result result;

    waiting->is_collecting = false;
    execution_result(following->execution,
                     session_manager_config(waiting->front->manager)->limits.output_bytes, &result);
    str_copy(result.session_id, sizeof(result.session_id), session_id(following->session));
    outputs_to_result(following->session, changed, count, total, err, &result);
    front_reply(waiting->http, 200, execution_reply(following->execution, &result));
    result_free(&result);
    waiting_free(waiting);
}

static void on_more(void *ctx)
{
    struct waiting *waiting = ctx;

    if (waiting->is_collecting || !execution_has_ended(waiting->following.exec_stream.execution))
        return;
    if (!waiting->following.exec_stream.collects ||
        session_state(waiting->following.exec_stream.session) != SESSION_READY ||
        !session_has_output(waiting->following.exec_stream.session,
                            waiting->following.exec_stream.execution)) {
        on_collected(waiting, NULL, 0, 0, NULL);
        return;
    }
    waiting->is_collecting = true;
    session_collect(waiting->following.exec_stream.session, on_collected, waiting);
}

static void on_gone(void *ctx)
{
    waiting_free(ctx);
}

void rest_await(struct door_call *call, const struct rest_following *following)
{
    static const struct execution_watch_events events = {.more = on_more};
    struct waiting *waiting = calloc(1, sizeof(*waiting));

    if (waiting) {
        *waiting =
            (struct waiting){.front = call->front, .http = call->http, .following = *following};
        waiting->watcher =
            execution_watch(following->exec_stream.execution, false, &events, waiting);
    }
    if (!waiting || !waiting->watcher) {
        free(waiting);
        front_fail_memory(call->http);
        return;
    }
    http_on_gone(call->http, on_gone, waiting);
    on_more(waiting); /* it may have failed at once */
}
