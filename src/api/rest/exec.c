/* exec.c - POST /v1/sessions/{id}/exec: a command, answered with its result, its events, or at
 * once.
 */
#include "api/rest/inside.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

static void fill_spec(json_t *body, struct execution_spec *spec)
{
    json_t *pty = json_object_get(body, "pty");
    json_t *input = json_object_get(body, "stdin");

    spec->env = json_object_get(body, "env");
    spec->cwd = json_string_value(json_object_get(body, "cwd"));
    spec->timeout_ms = rest_timeout_ms(body);
    spec->is_background = json_is_true(json_object_get(body, "background"));
    spec->is_pty = json_is_object(pty);
    if (spec->is_pty) {
        spec->rows = (unsigned)json_number_value(json_object_get(pty, "rows"));
        spec->columns = (unsigned)json_number_value(json_object_get(pty, "columns"));
    }
    spec->stdin_open = json_is_true(input) || spec->is_pty; /* by .../stdin, later */
    if (json_is_string(input)) {
        spec->input = json_string_value(input);
        spec->input_length = json_string_length(input);
    }
}

void exec_start(struct rest_call *call)
{
    CLEANUP(freep) const char **argv = text_list_of_json(json_object_get(call->body, "argv"));
    struct execution_spec spec = {.argv = argv};
    struct execution *execution;
    struct session *session;
    struct error err = {0};

    if (!argv) {
        rest_fail_memory(call->http);
        return;
    }
    if (argv[0][0] == '\0') {
        rest_fail_field(call->http, "argv[0]", "'argv[0]' is empty: name a program");
        return;
    }
    if (!rest_check_env(call->http, json_object_get(call->body, "env")) ||
        !rest_session(call, false, &session))
        return;
    fill_spec(call->body, &spec);
    if (session_exec(session, &spec, &execution, &err) < 0)
        rest_fail(call->rest, call->http, &err, NULL);
    else
        rest_answer_started(call, session, execution);
}
