/* code.c - POST /v1/sessions/{id}/code and .../contexts: code that keeps its variables. */
#include "api/rest/rest_private.h"
#include "api/start.h"

void code_start(struct door_call *call)
{
    struct schema_problem problem = {0};
    struct execution *execution;
    struct session *session;
    struct error err = {0};

    if (!start_cell_check(call->body, &problem)) {
        front_fail_problem(call, &problem);
        return;
    }
    if (!front_session(call, false, &session))
        return;
    if (start_cell(session, &call->caller, call->body, &execution, &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        rest_answer_started(call, session, execution);
}

/* ---- contexts ---- */

static void add_context(void *ctx, struct context *context)
{
    json_array_append_new(ctx, context_json(context));
}

void contexts_list(struct door_call *call)
{
    struct session *session;
    json_t *contexts;

    if (!front_session(call, false, &session))
        return;
    contexts = json_array();
    if (contexts)
        session_each_context(session, add_context, contexts);
    front_reply(call->http, 200, contexts ? json_pack("{s:o}", "contexts", contexts) : NULL);
}

void contexts_create(struct door_call *call)
{
    struct context_spec spec = {
        .language = json_string_value(json_object_get(call->body, "language")),
        .name = json_string_value(json_object_get(call->body, "name")),
        .cwd = json_string_value(json_object_get(call->body, "cwd")),
    };
    struct context *context;
    struct session *session;
    struct error err = {0};

    if (!front_session_to_use(call, &session))
        return;
    if (session_create_context(session, &spec, &context, &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        front_reply(call->http, 201, context_json(context));
}

/* The context of {context}; false: the request was answered. */
static bool find_context(const struct door_call *call, struct context **ret)
{
    struct session *session;
    struct error err = {0};

    if (!front_session(call, false, &session))
        return false;
    if (session_check_pause(session, &err) == 0 &&
        session_find_context(session, http_param(call->http, "context"), NULL, ret, &err) == 0)
        return true;
    front_fail(call->front, call->http, &err, NULL);
    return false;
}

void contexts_restart(struct door_call *call)
{
    struct context *context;

    if (!find_context(call, &context))
        return;
    context_restart(context);
    front_reply(call->http, 200, context_json(context));
}

void contexts_interrupt(struct door_call *call)
{
    struct context *context;
    struct error err = {0};

    if (!find_context(call, &context))
        return;
    if (context_interrupt(context, &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        front_reply(call->http, 200, context_json(context));
}

void contexts_delete(struct door_call *call)
{
    struct context *context;
    json_t *json;

    if (!find_context(call, &context))
        return;
    json = context_json(context);
    context_remove(context);
    front_reply(call->http, 200, json);
}
