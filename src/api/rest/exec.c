/*
 * exec.c - POST /v1/sessions/{id}/exec: a command, answered with its result, with its events, or
 * immediately (background).
 */
#include "api/rest/rest_private.h"
#include "api/start.h"

void exec_start(struct door_call *call)
{
    struct schema_problem problem = {0};
    struct execution *execution;
    struct session *session;
    struct error err = {0};

    if (!start_command_check(call->body, &problem)) {
        front_fail_problem(call, &problem);
        return;
    }
    if (!front_session(call, false, &session))
        return;
    if (start_command(session, &call->caller, call->body, &execution, &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        rest_answer_started(call, session, execution);
}
