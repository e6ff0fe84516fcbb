/* await.c - a request that waits for an execution's end and replies with its result. */
#include "session/await.h"

#include "api/rest/rest_private.h"

struct waiting {
    struct http_request *http;
    struct execution_await await;
};

static void waiting_free(struct waiting *waiting)
{
    execution_await_end(&waiting->await);
    free(waiting);
}

static void on_done(void *ctx, struct execution_outcome *outcome)
{
    struct waiting *waiting = ctx;

    front_reply(waiting->http, 200, execution_reply(waiting->await.execution, &outcome->result));
    waiting_free(waiting);
}

static void on_gone(void *ctx)
{
    waiting_free(ctx);
}

void rest_await(struct door_call *call, const struct rest_following *following)
{
    struct waiting *waiting = calloc(1, sizeof(*waiting));
    const struct execution_await_spec spec = {.collects = following->exec_stream.collects,
                                              .timeout_ms = UINT64_MAX,
                                              .done = on_done,
                                              .ctx = waiting};

    if (!waiting) {
        front_fail_memory(call->http);
        return;
    }
    waiting->http = call->http;
    http_on_gone(call->http, on_gone, waiting);
    if (execution_await(&waiting->await, following->exec_stream.execution, &spec, NULL) < 0) {
        http_on_gone(call->http, NULL, NULL);
        front_fail_memory(call->http);
        free(waiting);
    }
}
