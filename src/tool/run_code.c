/*
 * run_code.c - the tools run_code {code, language, context, timeout} and run_python_code {code,
 * timeout} in the broker.
 *
 * Without a session a run has a box of its own (session_manager_run). With one it is a cell:
 * variables stay for the next.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/tool_private.h"

#define FRESH "fresh interpreter: variables are not kept between calls"
#define KEPT "variables are kept for the next call in this session"

static const char *language_of(const struct tool_call *call)
{
    json_t *language = call_parameter(call, "language");

    return language ? json_string_value(language) : "python";
}

static int check_code(const struct tool_call *call, struct error *err)
{
    const struct config *config = session_manager_config(call->tools->manager);
    json_t *code = call_parameter(call, "code");
    const char *text = json_string_value(code);
    bool is_enabled = false;

    for (size_t i = 0; i < strv_length(config->languages); i++)
        is_enabled |= str_equal(config->languages[i], language_of(call));
    if (!is_enabled)
        return error_set(err, -EPERM, ERROR_NO_INTERPRETER,
                         "%s is switched off here: it is not among SANDBOX_SUPPORTED_LANGUAGES",
                         language_of(call));
    if (text[strspn(text, " \t\r\n\f\v")] == '\0')
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "code is empty: there is nothing to run");
    if (json_string_length(code) > LIMIT_CODE_BYTES)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE, "code is larger than %llu MB",
                         LIMIT_CODE_BYTES / MIB);
    return 0;
}

/* A module was missing: what was done about it is for the agent too. */
static void add_install(json_t *reply, json_t *install)
{
    json_t *error = json_object_get(install, "install_error");
    const char *code = json_string_value(json_object_get(error, "code"));

    if (!reply || !install)
        return;
    json_object_set(reply, "note", json_object_get(install, "install_note"));
    if (code)
        json_object_set_new(reply, "hint", json_string(call_hint(code)));
}

/* ---- in a box of its own ---- */

static void on_run(void *ctx, struct result *result)
{
    struct tool_call *call = ctx;
    json_t *reply = result_to_json(result);

    call->run = NULL;
    str_copy(call->execution_id, sizeof(call->execution_id), result->execution_id);
    if (reply)
        json_object_set_new(reply, "state", json_string(FRESH));
    add_install(reply, result->install);
    result_free(result);
    call_reply(call, reply);
}

static void on_python(void *ctx, struct result *result)
{
    struct tool_call *call = ctx;
    CLEANUP(buf_free) struct buf text = BUF_INIT(TOOL_REPLY_MAX);
    bool is_fine = result->exit_code == 0 && !result->error.code;
    json_t *reply = NULL;

    call->run = NULL;
    str_copy(call->execution_id, sizeof(call->execution_id), result->execution_id);
    if (run_python_code_reply(result, &text) == 0)
        reply = json_pack("{s:b, s:o, s:i, s:b, s:f}", "success", is_fine, "output",
                          text_to_json(buf_text(&text), text.length), "exit_code",
                          result->exit_code, "timed_out", result->timed_out, "execution_time",
                          (double)result->duration_ns / 1e9);
    if (reply && result->error.code) {
        json_object_set_new(reply, "error",
                            text_to_json(result->error.text, strlen(result->error.text)));
        json_object_set_new(reply, "code", json_string(result->error.code));
    }
    if (reply)
        json_object_set_new(reply, "hint",
                            json_string(is_fine ? "Code executed successfully."
                                                : "The output says what went wrong. Correct the "
                                                  "code and call again."));
    add_install(reply, result->install);
    result_free(result);
    call_reply(call, reply);
}

static void start_alone(struct tool_call *call, void (*done)(void *ctx, struct result *result))
{
    json_t *code = call_parameter(call, "code");
    uint64_t timeout_ms = call_timeout_ms(call, 0);
    struct error err = {0};

    if (call_parameter(call, "timeout") && timeout_ms == 0)
        timeout_ms = 1; /* 0 would mean: as configured */
    if (session_manager_run(call->tools->manager,
                            &(struct run_spec){
                                .caller = &call->caller,
                                .tenant = call->caller.who.tenant,
                                .language = language_of(call),
                                .code = json_string_value(code),
                                .code_length = json_string_length(code),
                                .timeout_ms = timeout_ms,
                            },
                            done, call, &call->run, &err) < 0) {
        call->run = NULL;
        call_fail(call, &err, NULL);
    }
}

void run_python_code_start(struct tool_call *call)
{
    struct error err = {0};

    if (check_code(call, &err) < 0)
        call_fail(call, &err, NULL);
    else
        start_alone(call, on_python);
}

/* ---- in a session ---- */

static void on_ran(struct tool_call *call, struct result *result, json_t *outputs)
{
    json_t *reply = execution_reply(call->execution, result);

    if (reply)
        json_object_set_new(reply, "state", json_string(KEPT));
    add_install(reply, result->install);
    json_decref(outputs);
    call_reply(call, reply);
}

static void start_in_session(struct tool_call *call)
{
    const char *context = json_string_value(call_parameter(call, "context"));
    uint64_t fallback_ms = session_manager_config(call->tools->manager)->limits.timeout_ms;
    json_t *language = call_parameter(call, "language");
    json_t *code = call_parameter(call, "code");
    struct cell_request request = {
        .caller = &call->caller,
        .code = json_string_value(code),
        .code_length = json_string_length(code),
        .timeout_ms = MAX(call_timeout_ms(call, fallback_ms), 1u), /* 0 would mean: for ever */
    };
    struct execution *execution;
    struct error err = {0};

    if (!call_session(call))
        return;
    if (session_find_context(call->session, context, json_string_value(language), &request.context,
                             &err) < 0 ||
        session_cell(call->session, &request, &execution, &err) < 0)
        call_fail(call, &err, NULL);
    else
        call_watch(call, execution, UINT64_MAX, on_ran);
}

/* What can be refused before a session is made for it. */
static int check_interpreter(const struct tool_call *call, struct error *err)
{
    const struct session_language *language =
        session_manager_language(call->tools->manager, language_of(call));

    if (language && language->program)
        return 0;
    return error_set(err, -ENOENT, ERROR_NO_INTERPRETER, "%s",
                     language && language->missing ? language->missing
                                                   : "there is no interpreter for this language");
}

void run_code_start(struct tool_call *call)
{
    struct error err = {0};
    int r = check_code(call, &err);

    if (r == 0 && call->word && !call_parameter(call, "context"))
        r = check_interpreter(call, &err);
    if (r == 0 && !call->word && call_parameter(call, "context"))
        r = error_set(&err, -EINVAL, ERROR_BAD_INPUT,
                      "context: a run without a session has none; give 'session' too");
    if (r < 0)
        call_fail(call, &err, NULL);
    else if (call->word)
        start_in_session(call);
    else
        start_alone(call, on_run);
}
