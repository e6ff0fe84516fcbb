/*
 * run_code.c - the tools run_code {code, language, context, timeout} and run_python_code {code,
 * timeout} in the broker.
 *
 * Without a session the code runs in a new box (session_manager_run). In a session it is a cell,
 * and variables stay for the next call.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/tool_private.h"

#define FRESH "fresh interpreter: variables are not kept between calls"
#define KEPT "variables are kept for the next call in this session"
#define LOST                                                                                       \
    "the interpreter ended with this call: its variables are gone, files are kept; the next call " \
    "starts a new one"
#define REPLACED                                                                               \
    "this is a new interpreter, because the one before ended: variables of earlier calls are " \
    "gone, files are kept"

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

/* Sets the result of the call, with a note for the agent about a missing module. */
static void take_result(struct tool_call *call, struct result *result)
{
    struct tool_reply *reply = &call->reply;
    json_t *error = json_object_get(result->install, "install_error");
    const char *code = json_string_value(json_object_get(error, "code"));

    reply->note = json_incref(json_object_get(result->install, "install_note"));
    if (code)
        call_set_hint(reply, call_hint(code));
    reply->result = *result;
    reply->has_result = true;
    *result = (struct result){0}; /* its owner may free it */
    call_hint_missing(call);
}

/* ---- without a session: a new box ---- */

static void on_run(void *ctx, struct result *result)
{
    struct tool_call *call = ctx;

    call->run = NULL;
    call->reply.kind = TOOL_REPLY_RESULT;
    call->reply.state = FRESH;
    call->reply.is_state_news = true; /* for a caller whose other calls have a session */
    str_copy(call->reply.execution_id, sizeof(call->reply.execution_id), result->execution_id);
    take_result(call, result);
    call_reply(call);
}

static void on_python(void *ctx, struct result *result)
{
    struct tool_call *call = ctx;
    bool is_fine = result->exit_code == 0 && !result->error.code;

    call->run = NULL;
    call->reply.kind = TOOL_REPLY_TEXT;
    call->reply.text = BUF_INIT(TOOL_REPLY_MAX);
    str_copy(call->reply.execution_id, sizeof(call->reply.execution_id), result->execution_id);
    call_set_hint(&call->reply, is_fine ? "Code executed successfully."
                                        : "The output says what went wrong. Correct the code and "
                                          "call again.");
    take_result(call, result);
    if (run_python_code_reply(&call->reply.result, &call->reply.text) < 0)
        call_fail_memory(call);
    else
        call_reply(call);
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
                                .keeper = code,
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

/* Whether variables are kept, as the kernel's end says: out of memory, exit, a deadline. */
static const char *state_of(json_t *meta)
{
    if (json_is_true(json_object_get(meta, "kernel_lost")))
        return LOST;
    return str_equal(json_string_value(json_object_get(meta, "kernel")), "replaced") ? REPLACED
                                                                                     : KEPT;
}

static void on_ran(struct tool_call *call, struct execution_outcome *outcome)
{
    struct tool_reply *reply = &call->reply;

    reply->kind = TOOL_REPLY_RESULT;
    reply->cell = execution_cell_json(call->await.execution);
    reply->cell_meta = execution_cell_meta(call->await.execution);
    reply->state = state_of(reply->cell_meta);
    reply->is_state_news = !str_equal(reply->state, KEPT);
    outcome->is_taken = true;
    take_result(call, &outcome->result);
    if (!reply->cell || !reply->cell_meta)
        call_fail_memory(call);
    else
        call_reply(call);
}

static void start_in_session(struct tool_call *call)
{
    const char *context = json_string_value(call_parameter(call, "context"));
    json_t *language = call_parameter(call, "language");
    json_t *code = call_parameter(call, "code");
    struct cell_request request = {
        .caller = &call->caller,
        .keeper = code,
        .code = json_string_value(code),
        .code_length = json_string_length(code),
    };
    struct execution *execution;
    struct error err = {0};
    uint64_t fallback_ms;

    if (!call_session(call))
        return;
    fallback_ms =
        session_timeout_ms(call->session, &call->caller,
                           session_manager_config(call->tools->manager)->limits.timeout_ms);
    request.timeout_ms = MAX(call_timeout_ms(call, fallback_ms), 1u); /* 0 would mean no timeout */
    if (session_find_context(call->session, context, json_string_value(language), &request.context,
                             &err) < 0 ||
        session_cell(call->session, &request, &execution, &err) < 0)
        call_fail(call, &err, NULL);
    else
        call_await(call, execution, UINT64_MAX, on_ran);
}

/* Checks that can refuse the call before a session is created for it. */
static int check_interpreter(const struct tool_call *call, struct error *err)
{
    const struct session_language *language =
        session_manager_language(call->tools->manager, language_of(call));

    const struct config *config = NULL;
    const char *program;
    int r = session_manager_config_of(call->tools->manager, &call->caller, &config, err);

    if (r < 0)
        return r;
    if (!language)
        return error_set(err, -ENOENT, ERROR_NO_INTERPRETER,
                         "there is no interpreter for this language");
    return session_manager_interpreter(call->tools->manager, config, config_provider(config),
                                       language, &program, NULL, err);
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
