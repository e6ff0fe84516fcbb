/*
 * run_code.c - the tools run_code {code, language, timeout} and run_python_code {code, timeout} in
 * the broker.
 *
 * Without a session a run has a box of its own (engine_run). With one, the source is a hidden file
 * in /workspace, so that modules beside it can be imported, a fresh interpreter runs it, and it is
 * removed afterwards.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/inside.h"
#include "tool/language.h"

#define FRESH "fresh interpreter: variables are not kept between calls"

static const char *language_of(const struct tool_call *call)
{
    json_t *language = call_parameter(call, "language");

    return language ? json_string_value(language) : "python";
}

static int check_code(const struct tool_call *call, struct error *err)
{
    const struct config *config = engine_config(call->tools->engine);
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

/* ---- in a box of its own ---- */

static void on_run(void *ctx, struct result *result)
{
    struct tool_call *call = ctx;
    json_t *reply = result_to_json(result);

    call->run = NULL;
    str_copy(call->execution_id, sizeof(call->execution_id), result->execution_id);
    if (reply)
        json_object_set_new(reply, "state", json_string(FRESH));
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
    if (engine_run(call->tools->engine,
                   &(struct run_spec){
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

static void on_removed(void *ctx, const struct error *err)
{
    (void)err;
    free(ctx);
}

static void remove_in_box(void *ctx, struct box *box, const struct error *unused)
{
    static const struct done_events events = {.done = on_removed};
    struct error err;
    uint32_t id;

    (void)unused;
    if (!box || box_remove(box, ctx, false, &events, ctx, &id, &err) < 0)
        free(ctx);
}

/* The source is not wanted any more; nobody waits for that. */
static void remove_source(struct tool_call *call)
{
    char *path = strdup(call->path);

    if (path && session_state(call->session) == SESSION_READY)
        session_box(call->session, remove_in_box, path);
    else
        free(path);
}

void run_code_leave(struct tool_call *call)
{
    if (call->session && call->path[0])
        remove_source(call);
}

static void on_ran(struct tool_call *call, struct result *result, json_t *outputs)
{
    json_t *reply = result_to_json(result);

    if (reply)
        json_object_set_new(reply, "state", json_string(FRESH));
    json_decref(outputs);
    remove_source(call);
    call_reply(call, reply);
}

static void on_checked(struct tool_call *call, const struct error *failed)
{
    const struct engine_language *language =
        engine_language(call->tools->engine, language_of(call));
    uint64_t fallback_ms = engine_config(call->tools->engine)->limits.timeout_ms;
    const char *argv[] = {language->program, call->path, NULL};
    struct execution *execution;
    struct error err = {0};

    if (failed) {
        remove_source(call);
        call_fail(call, failed, NULL);
    } else if (session_exec(call->session,
                            &(struct execution_spec){
                                .argv = argv,
                                .timeout_ms = call_timeout_ms(call, fallback_ms),
                            },
                            &execution, &err) < 0) {
        remove_source(call);
        call_fail(call, &err, NULL);
    } else {
        call_watch(call, execution, UINT64_MAX, on_ran);
    }
}

static void on_written(struct tool_call *call, const struct error *failed)
{
    const struct engine_language *language =
        engine_language(call->tools->engine, language_of(call));

    if (failed)
        call_fail(call, failed, NULL);
    else if (engine_config(call->tools->engine)->block_imports &&
             str_equal(language->name, "python"))
        call_lint(call, language->program, on_checked);
    else
        on_checked(call, NULL);
}

static void start_in_session(struct tool_call *call)
{
    const struct engine_language *language =
        engine_language(call->tools->engine, language_of(call));
    const struct language_row *row = language_find(language_of(call));
    json_t *code = call_parameter(call, "code");
    struct error err = {0};
    char id[ID_MAX];

    if (!language || !language->program || !row) {
        error_set(&err, -ENOENT, ERROR_NO_INTERPRETER, "%s",
                  language && language->missing ? language->missing
                                                : "there is no interpreter for this language");
        call_fail(call, &err, NULL);
        return;
    }
    if (id_make(id, "run") < 0) {
        error_set(&err, -EIO, ERROR_ENGINE, "no random numbers");
        call_fail(call, &err, NULL);
        return;
    }
    if (!call_session(call))
        return;
    str_format(call->path, sizeof(call->path), "/workspace/.%s%s", id, row->extension);
    call_put(call, json_string_value(code), json_string_length(code), on_written);
}

void run_code_start(struct tool_call *call)
{
    struct error err = {0};

    if (check_code(call, &err) < 0)
        call_fail(call, &err, NULL);
    else if (call->word)
        start_in_session(call);
    else
        start_alone(call, on_run);
}
