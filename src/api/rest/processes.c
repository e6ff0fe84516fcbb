/* processes.c - executions of a session: lists them, waits for one, signals and resizes it. */
#include <errno.h>
#include <signal.h>

#include "api/rest/rest_private.h"
#include "api/start.h"

static void add_process(void *ctx, struct execution *execution)
{
    json_array_append_new(ctx, execution_json(execution));
}

void processes_list(struct door_call *call)
{
    struct session *session;
    json_t *processes;

    if (!front_session(call, true, &session))
        return;
    processes = json_array();
    if (processes)
        session_each_execution(session, add_process, processes);
    front_reply(call->http, 200, processes ? json_pack("{s:o}", "processes", processes) : NULL);
}

/* ---- ?wait=SECONDS ---- */

struct waiting {
    struct front *front;
    struct http_request *http;
    struct execution *execution;
    struct execution_watcher *watcher;
    struct reactor_timer *timer;
};

static void waiting_free(struct waiting *waiting)
{
    waiting->front->reactor->ops->timer_remove(waiting->timer);
    if (waiting->watcher)
        execution_unwatch(waiting->watcher, false);
    free(waiting);
}

static void on_due(void *ctx)
{
    struct waiting *waiting = ctx;

    front_reply(waiting->http, 200, execution_json(waiting->execution));
    waiting_free(waiting);
}

static void on_more(void *ctx)
{
    struct waiting *waiting = ctx;

    if (execution_has_ended(waiting->execution))
        on_due(waiting);
}

static void on_gone(void *ctx)
{
    waiting_free(ctx);
}

static void wait_for(struct door_call *call, struct execution *execution, uint64_t wait_ms)
{
    static const struct execution_watch_events events = {.more = on_more};
    struct waiting *waiting = calloc(1, sizeof(*waiting));

    if (!waiting) {
        front_fail_memory(call->http);
        return;
    }
    *waiting = (struct waiting){.front = call->front, .http = call->http, .execution = execution};
    waiting->watcher = execution_watch(execution, false, &events, waiting);
    waiting->timer = reactor_timer(call->front->reactor, on_due, waiting);
    if (!waiting->watcher || !waiting->timer) {
        waiting_free(waiting);
        front_fail_memory(call->http);
        return;
    }
    call->front->reactor->ops->timer_set(waiting->timer, wait_ms);
    http_on_gone(call->http, on_gone, waiting);
}

void processes_get(struct door_call *call)
{
    json_t *wait = json_object_get(call->query, "wait");
    struct execution *execution;
    struct session *session;

    if (!front_execution(call, &session, &execution))
        return;
    if (wait && json_number_value(wait) > 0 && !execution_has_ended(execution))
        wait_for(call, execution, (uint64_t)(json_number_value(wait) * 1000.0 + 0.5));
    else
        front_reply(call->http, 200, execution_json(execution));
}

void processes_events(struct door_call *call)
{
    struct rest_following following = {0};
    struct exec_stream_spec *exec_stream = &following.exec_stream;
    struct error err = {0};
    uint64_t first;
    int r;

    if (!front_execution(call, &exec_stream->session, &exec_stream->execution))
        return;
    r = exec_stream_resume(exec_stream, http_header(call->http, "Last-Event-ID"), &first, &err);
    if (r == -EINVAL)
        front_fail_field(call->http, "Last-Event-ID", "Last-Event-ID: %s", err.text);
    else if (r < 0)
        front_fail(call->front, call->http, &err, json_pack("{s:I}", "first", (json_int_t)first));
    else
        rest_follow(call, &following);
}

/* ---- signal, resize ---- */

void processes_signal(struct door_call *call)
{
    int number = start_signal(json_object_get(call->body, "signal"));
    struct execution *execution;
    struct session *session;
    struct error err = {0};

    if (number == 0) {
        front_fail_field(call->http, "signal",
                         "'signal' has to be a name such as TERM, or a number from 1 to %d",
                         NSIG - 1);
        return;
    }
    if (!front_execution(call, &session, &execution))
        return;
    if (execution_signal(execution, number, &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        front_reply(call->http, 200, execution_json(execution));
}

void processes_resize(struct door_call *call)
{
    struct execution *execution;
    struct session *session;
    struct error err = {0};

    if (!front_execution(call, &session, &execution))
        return;
    if (execution_resize(
            execution, (unsigned)json_number_value(json_object_get(call->body, "rows")),
            (unsigned)json_number_value(json_object_get(call->body, "columns")), &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        front_reply(call->http, 200, execution_json(execution));
}
