/* start.c - see start.h. */
#include "api/start.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

#define TIMEOUT_S 60

static bool wrong(struct schema_problem *problem, const char *field, const char *text)
{
    str_copy(problem->field, sizeof(problem->field), field);
    error_set(&problem->err, -EINVAL, ERROR_BAD_INPUT, "'%s'%s", field, text);
    return false;
}

bool start_env_check(json_t *env, struct schema_problem *problem)
{
    const char *name;
    json_t *value;

    json_object_foreach(env, name, value)
    {
        char field[100];

        if (name[0] && !strchr(name, '='))
            continue;
        str_format(field, sizeof(field), "env.%.60s", name);
        return wrong(problem, field, ": the name of a variable is empty or has a '=' in it");
    }
    return true;
}

bool start_command_check(json_t *body, struct schema_problem *problem)
{
    json_t *program = json_array_get(json_object_get(body, "argv"), 0);

    if (json_string_length(program) == 0)
        return wrong(problem, "argv[0]", " is empty: name a program");
    return start_env_check(json_object_get(body, "env"), problem);
}

bool start_cell_check(json_t *body, struct schema_problem *problem)
{
    json_t *code = json_object_get(body, "code");
    const char *text = json_string_value(code);
    size_t blank = strspn(text, " \t\r\n\f\v");

    if (text[blank] == '\0' && blank == json_string_length(code))
        return wrong(problem, "code", " is empty: there is nothing to run");
    return start_env_check(json_object_get(body, "env"), problem);
}

/*
 * `timeout` of the body; else SANDBOX_TIMEOUT_SEC of the caller or of the session, if one of them
 * set it; else 60 s. Only an explicit 0 is 0, "until the session ends".
 */
static uint64_t timeout_ms(struct session *session, const struct caller *caller, json_t *body)
{
    json_t *timeout = json_object_get(body, "timeout");
    double seconds = json_number_value(timeout);
    uint64_t ms = (uint64_t)(seconds * 1000.0 + 0.5);

    if (!timeout)
        return session_timeout_ms(session, caller, TIMEOUT_S * 1000);
    return seconds > 0 && ms == 0 ? 1 : ms;
}

static void fill_spec(json_t *body, struct execution_spec *spec)
{
    json_t *pty = json_object_get(body, "pty");
    json_t *input = json_object_get(body, "stdin");

    spec->env = json_object_get(body, "env");
    spec->cwd = json_string_value(json_object_get(body, "cwd"));
    spec->is_background = json_is_true(json_object_get(body, "background"));
    spec->is_pty = json_is_object(pty);
    if (spec->is_pty) {
        spec->rows = (unsigned)json_number_value(json_object_get(pty, "rows"));
        spec->columns = (unsigned)json_number_value(json_object_get(pty, "columns"));
    }
    spec->stdin_open = json_is_true(input) || spec->is_pty; /* sent by another call, later */
    if (json_is_string(input)) {
        spec->input = json_string_value(input);
        spec->input_length = json_string_length(input);
        spec->keeper = input;
    }
}

int start_command(struct session *session, const struct caller *caller, json_t *body,
                  struct execution **ret, struct error *err)
{
    CLEANUP(freep) const char **argv = text_list_of_json(json_object_get(body, "argv"));
    struct execution_spec spec = {.caller = caller, .argv = argv};

    if (!argv)
        return error_memory(err);
    fill_spec(body, &spec);
    spec.timeout_ms = timeout_ms(session, caller, body);
    return session_exec(session, &spec, ret, err);
}

int start_cell(struct session *session, const struct caller *caller, json_t *body,
               struct execution **ret, struct error *err)
{
    const char *context = json_string_value(json_object_get(body, "context"));
    const char *language = json_string_value(json_object_get(body, "language"));
    json_t *code = json_object_get(body, "code");
    json_t *input = json_object_get(body, "stdin");
    struct cell_request request = {
        .caller = caller,
        .keeper = body,
        .code = json_string_value(code),
        .code_length = json_string_length(code),
        .input = json_string_value(input),
        .input_length = input ? json_string_length(input) : 0,
        .env = json_object_get(body, "env"),
        .is_background = json_is_true(json_object_get(body, "background")),
        .timeout_ms = timeout_ms(session, caller, body),
    };
    int r = session_find_context(session, context, language, &request.context, err);

    return r < 0 ? r : session_cell(session, &request, ret, err);
}

int start_signal(json_t *value)
{
    const char *word = json_string_value(value);

    if (!word)
        return json_integer_value(value) > 0 && json_integer_value(value) < NSIG
                   ? (int)json_integer_value(value)
                   : 0;
    word += str_starts(word, "SIG") ? 3 : 0;
    for (int i = 1; i < NSIG; i++)
        if (str_equal(sigabbrev_np(i), word))
            return i;
    return 0;
}
