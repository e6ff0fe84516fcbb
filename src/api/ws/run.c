/* run.c - commands and cells that a client of the WebSocket door starts, signals and resizes. */
#include <errno.h>
#include <signal.h>

#include "api/start.h"
#include "api/ws/ws_private.h"
#include "base/str.h"

static void answer_started(struct ws_request *request, struct session *session,
                           struct execution *execution)
{
    const struct exec_stream_spec spec = {
        .session = session,
        .execution = execution,
        .collects = !json_is_false(json_object_get(request->body, "collect")),
    };
    json_t *process = execution_json(execution);
    uint64_t number;

    /* The reply is sent before the first event: events wait for the next turn of the loop. */
    if (ws_follow(request, &spec, true, &number))
        ws_reply(request->peer, request->id,
                 json_pack("{s:I, s:O?}", "subscription", (json_int_t)number, "execution_id",
                           json_object_get(process, "execution_id")));
    json_decref(process);
}

static void start(struct ws_request *request,
                  bool (*check)(json_t *body, struct schema_problem *problem),
                  int (*begin)(struct session *session, const struct caller *caller, json_t *body,
                               struct execution **ret, struct error *err))
{
    struct schema_problem problem = {0};
    struct execution *execution;
    struct session *session;
    struct error err = {0};

    if (!check(request->body, &problem)) {
        ws_fail_problem(request->peer, request->id, &problem);
        return;
    }
    if (!ws_find_session(request, false, &session))
        return;
    if (begin(session, &request->peer->caller, request->body, &execution, &err) < 0)
        ws_fail(request->peer, request->id, &err, NULL);
    else
        answer_started(request, session, execution);
}

void ws_exec(struct ws_request *request)
{
    start(request, start_command_check, start_command);
}

void ws_cell(struct ws_request *request)
{
    start(request, start_cell_check, start_cell);
}

static void answer(struct ws_request *request, const struct error *err, const char *name,
                   json_t *json)
{
    if (err->num < 0) {
        json_decref(json);
        ws_fail(request->peer, request->id, err, NULL);
    } else {
        ws_reply(request->peer, request->id, json ? json_pack("{s:o}", name, json) : NULL);
    }
}

void ws_signal(struct ws_request *request)
{
    int number = start_signal(json_object_get(request->body, "signal"));
    struct execution *execution;
    struct session *session;
    struct error err = {0};

    if (number == 0) {
        error_set(&err, -EINVAL, ERROR_BAD_INPUT,
                  "'signal' has to be a name such as TERM, or a number from 1 to %d", NSIG - 1);
        ws_fail(request->peer, request->id, &err, json_pack("{s:s}", "field", "signal"));
        return;
    }
    if (!ws_find_execution(request, &session, &execution))
        return;
    execution_signal(execution, number, &err);
    answer(request, &err, "process", execution_json(execution));
}

void ws_resize(struct ws_request *request)
{
    struct execution *execution;
    struct session *session;
    struct error err = {0};

    if (!ws_find_execution(request, &session, &execution))
        return;
    execution_resize(execution,
                     (unsigned)json_integer_value(json_object_get(request->body, "rows")),
                     (unsigned)json_integer_value(json_object_get(request->body, "columns")), &err);
    answer(request, &err, "process", execution_json(execution));
}

void ws_interrupt(struct ws_request *request)
{
    const char *word = json_string_value(json_object_get(request->body, "context"));
    const char *language = json_string_value(json_object_get(request->body, "language"));
    struct context *context = NULL;
    struct session *session;
    struct error err = {0};

    if (!ws_find_session(request, false, &session))
        return;
    if (session_find_context(session, word, language, &context, &err) == 0)
        context_interrupt(context, &err);
    answer(request, &err, "context", context ? context_json(context) : NULL);
}

void ws_ping(struct ws_request *request)
{
    ws_reply(request->peer, request->id, json_object());
}
