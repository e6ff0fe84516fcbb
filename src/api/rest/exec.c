/* exec.c - POST /v1/sessions/{id}/exec: a command, answered with its result, its events, or at
 * once.
 */
#include <errno.h>
#include <string.h>

#include "api/rest/inside.h"
#include "base/cleanup.h"
#include "base/str.h"

#define TIMEOUT_S 60

/* The strings of an array, borrowed; NULL: no memory. */
static const char **argv_of(json_t *array)
{
    const char **argv = calloc(json_array_size(array) + 1, sizeof(*argv));
    json_t *one;
    size_t i;

    json_array_foreach(array, i, one)
    {
        if (argv)
            argv[i] = json_string_value(one);
    }
    return argv;
}

static void fill_spec(json_t *body, struct execution_spec *spec)
{
    json_t *timeout = json_object_get(body, "timeout");
    json_t *pty = json_object_get(body, "pty");
    json_t *input = json_object_get(body, "stdin");
    double seconds = timeout ? json_number_value(timeout) : TIMEOUT_S;

    spec->env = json_object_get(body, "env");
    spec->cwd = json_string_value(json_object_get(body, "cwd"));
    spec->timeout_ms = (uint64_t)(seconds * 1000.0 + 0.5);
    if (seconds > 0 && spec->timeout_ms == 0)
        spec->timeout_ms = 1; /* 0 would mean: until the session ends */
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

bool rest_wants_events(const struct http_request *http)
{
    const char *accept = http_header(http, "Accept");

    return accept && strstr(accept, TYPE_EVENTS);
}

void exec_start(struct rest_call *call)
{
    CLEANUP(freep) const char **argv = argv_of(json_object_get(call->body, "argv"));
    struct execution_spec spec = {.argv = argv};
    struct rest_following following = {
        .is_owner = true, .collects = !json_is_false(json_object_get(call->body, "collect"))};
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
        !rest_session(call, false, &following.session))
        return;
    fill_spec(call->body, &spec);
    if (session_exec(following.session, &spec, &following.execution, &err) < 0) {
        rest_fail(call->rest, call->http, &err, NULL);
        return;
    }
    if (spec.is_background && !rest_wants_events(call->http)) {
        rest_reply(call->http, 202, execution_json(following.execution));
        return;
    }
    if (rest_wants_events(call->http))
        rest_follow(call, &following);
    else
        rest_await(call, &following);
}
