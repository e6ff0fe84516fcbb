/* codebox.c - POST /v1/sessions/{id}/codebox: a cell, and of its result the one thing that counts.
 */
#include <stdlib.h>

#include "api/rest/rest_private.h"
#include "api/simple_output.h"
#include "api/start.h"
#include "base/cleanup.h"
#include "session/await.h"

struct waiting {
    struct http_request *http;
    struct execution_await await;
};

static void waiting_free(void *ctx)
{
    struct waiting *waiting = ctx;

    execution_await_end(&waiting->await);
    free(waiting);
}

static void on_done(void *ctx, struct execution_outcome *outcome)
{
    struct waiting *waiting = ctx;
    CLEANUP(json_decrefp)
    json_t *reply = execution_reply(waiting->await.execution, &outcome->result);

    front_reply(waiting->http, 200, reply ? simple_output(reply) : NULL);
    waiting_free(waiting);
}

void codebox_run(struct door_call *call)
{
    struct waiting *waiting;
    struct execution_await_spec spec = {
        .collects = true, .timeout_ms = UINT64_MAX, .done = on_done};
    struct execution *execution;
    struct session *session;
    struct error err = {0};

    if (!front_session(call, false, &session))
        return;
    waiting = calloc(1, sizeof(*waiting));
    if (!waiting) {
        front_fail_memory(call->http);
        return;
    }
    waiting->http = call->http;
    spec.ctx = waiting;
    if (start_cell(session, &call->caller, call->body, &execution, &err) < 0) {
        front_fail(call->front, call->http, &err, NULL);
        free(waiting);
        return;
    }
    http_on_gone(call->http, waiting_free, waiting);
    if (execution_await(&waiting->await, execution, &spec, NULL) < 0) {
        http_on_gone(call->http, NULL, NULL);
        front_fail_memory(call->http);
        free(waiting);
    }
}
