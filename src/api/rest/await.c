/* await.c - a request that waits for an execution's end and replies with its result. */
#include "session/await.h"

#include <errno.h>

#include "api/rest/rest_private.h"

struct waiting {
    struct front *front;
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
    struct execution *execution = waiting->await.execution;
    struct error err = {0};

    if (outcome->has_ended) {
        front_reply(waiting->http, 200, execution_reply(execution, &outcome->result));
    } else { /* its session is being paused */
        error_set(&err, -EBUSY, ERROR_SESSION_PAUSED,
                  "the session was paused before the command ended; it goes on when the session is "
                  "resumed");
        front_fail(waiting->front, waiting->http, &err,
                   json_pack("{s:s}", "execution_id", outcome->result.execution_id));
    }
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
    waiting->front = call->front;
    waiting->http = call->http;
    http_on_gone(call->http, on_gone, waiting);
    if (execution_await(&waiting->await, following->exec_stream.execution, &spec, NULL) < 0) {
        http_on_gone(call->http, NULL, NULL);
        front_fail_memory(call->http);
        free(waiting);
    }
}
