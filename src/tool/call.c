/* call.c - a tool call from parameters to reply: envelope, schema, session, audit; see
 * tool_private.h. */
#include "tool/call.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/text.h"
#include "observe/audit.h"
#include "observe/metrics.h"
#include "session/missing.h"
#include "session/refusal_log.h"
#include "session/settings_table.h"
#include "tool/schema.h"
#include "tool/tool_private.h"

static void (*const handlers[_TOOL_ID_MAX])(struct tool_call *call) = {
    [TOOL_SANDBOX_EXEC] = sandbox_exec_start,
    [TOOL_SANDBOX_WRITE_FILE] = sandbox_write_file_start,
    [TOOL_SANDBOX_EDIT_FILE] = sandbox_edit_file_start,
    [TOOL_SANDBOX_WAIT] = sandbox_wait_start,
    [TOOL_RUN_PYTHON_CODE] = run_python_code_start,
    [TOOL_RUN_CODE] = run_code_start,
    [TOOL_SANDBOX_INSTALL] = sandbox_install_start,
    [TOOL_SANDBOX_PAUSE] = sandbox_pause_start,
};

/* Hints for an agent about errors that no tool has a better hint for. */
static const struct {
    const char *code;
    const char *hint;
} hints[] = {
    {ERROR_BAD_INPUT, "Correct the parameters and call again."},
    {ERROR_UNKNOWN_PARAMETER, "Correct the parameters and call again."},
    {ERROR_SESSION_NOT_FOUND, "Use the session_id of an earlier reply, or leave 'session' out."},
    {ERROR_SESSION_AMBIGUOUS, "Give more of the session's id."},
    {ERROR_SESSION_PAUSED, "Nothing in the session is lost, and nothing in it runs until it is "
                           "resumed: sandbox_pause with resume true. Leave 'session' "
                           "out for a new one."},
    {ERROR_SESSION_ENDED, "The session is gone with its files. Leave 'session' out for a new one "
                          "and write the files again."},
    {ERROR_TOO_MANY_SESSIONS, "Use a session that is there, or wait until one has ended."},
    {ERROR_QUOTA, "Wait for retry_after_s, or end what is not needed."},
    {ERROR_BUSY, "The engine has too much to do. Call again in a second."},
    {ERROR_EXECUTION_NOT_FOUND, "Use the execution_id that sandbox_exec gave."},
    {ERROR_PATH_INVALID, "Invalid path. Use /tmp/ or /workspace/ only."},
    {ERROR_PATH_IS_FOLDER, "Name a file in that folder."},
    {ERROR_PATH_NOT_FOLDER, "List the folder with sandbox_exec and choose another path."},
    {ERROR_PATH_NOT_FOUND, "List the folder with sandbox_exec, or write the file first."},
    {ERROR_PATH_REFUSED, "Choose another path; links that lead elsewhere are not followed."},
    {ERROR_READ_ONLY, "Write to /workspace/ or /tmp/ instead."},
    {ERROR_DISK_FULL, "Delete files that are no longer needed with sandbox_exec."},
    {ERROR_TOO_LARGE, "Make it smaller and call again."},
    {ERROR_COMMAND_NOT_FOUND, "Check the program's name; 'command' is a list of arguments, not a "
                              "shell line."},
    {ERROR_BLOCKED_IMPORT, "Nothing was run. Write it without that module and call again."},
    {ERROR_NO_INTERPRETER, "Use another language, or tell the user."},
    {ERROR_REFUSED, "Nothing was run. Tell the user to run 'bailey doctor'."},
    {ERROR_BOX_FAILED, "Nothing was run. Tell the user to run 'bailey doctor'."},
    {ERROR_BOX_LOST, "The sandbox was lost. Leave 'session' out for a new one."},
    {ERROR_CONTEXT_NOT_FOUND, "Leave 'context' out for the default one of the language."},
    {ERROR_TOO_MANY_CONTEXTS, "Use a context that is there."},
    {ERROR_INSTALL_DENIED, "Write it without that module: it may not be installed here."},
    {ERROR_INSTALL_FAILED, "Check the module's name, or write it without that module."},
    {ERROR_NO_NETWORK, "Packages cannot be fetched now. Write it without that module, or tell the "
                       "user."},
    {ERROR_SETTING_DIFFERS, "Tell the user: only the user can change these settings."},
    {ERROR_SHUTTING_DOWN, "The engine is being stopped. Call again later."},
};

struct tools *tools_new(struct session_manager *manager, struct reactor *reactor)
{
    static const char envelope[] =
        "{\"type\":\"object\",\"properties\":{\"tool\":{\"type\":\"string\"},\"parameters\":{"
        "\"type\":\"object\"},\"reasoning_trace\":{\"type\":[\"string\",\"null\"],"
        "\"contentMediaType\":\"text/plain\"}},\"required\":[\"tool\",\"parameters\"],"
        "\"additionalProperties\":false}";
    struct tools *tools = calloc(1, sizeof(*tools));
    int r = 0;

    if (!tools)
        return NULL;
    *tools = (struct tools){.manager = manager, .reactor = reactor};
    r = schema_compile(envelope, &tools->envelope);
    for (size_t i = 0; i < tool_count && r == 0; i++)
        r = schema_compile(tool_table[i].schema, &tools->schemas[i]);
    if (r < 0) {
        tools_free(tools);
        return NULL;
    }
    return tools;
}

void tools_free(struct tools *tools)
{
    if (!tools)
        return;
    for (size_t i = 0; i < tool_count; i++)
        schema_free(tools->schemas[i]);
    schema_free(tools->envelope);
    free(tools);
}

json_t *call_parameter(const struct tool_call *call, const char *name)
{
    return json_object_get(call->parameters, name);
}

uint64_t call_timeout_ms(const struct tool_call *call, uint64_t fallback_ms)
{
    json_t *value = call_parameter(call, "timeout");
    uint64_t ms = value ? (uint64_t)(json_number_value(value) * 1000.0 + 0.5) : fallback_ms;

    return ms;
}

void call_release(struct tool_call *call)
{
    if (call->waits_for_box)
        session_box_cancel(call->session, call);
    call->waits_for_box = false;
    if (call->op)
        box_cancel(call->box, call->op);
    call->op = 0;
    execution_await_end(&call->await);
    if (call->run)
        session_manager_run_cancel(ptr_take(&call->run));
    if (call->installation)
        installer_cancel(ptr_take(&call->installation));
    if (call->waits_for_pause)
        session_pause_leave(call->session, call);
    call->waits_for_pause = false;
    call_unlock_file(call);
}

static void call_free(struct tool_call *call)
{
    json_decref(call->input);
    tool_reply_free(&call->reply);
    session_manager_release(call->tools->manager, call->caller.who.tenant, call->held);
    buf_free(&call->file);
    free(call->trace);
    free(call);
}

/* NULL where the text is empty: json_pack()'s "s*" leaves the member out. */
static const char *named(const char *text)
{
    return text[0] ? text : NULL;
}

/* The change of a file gets its own audit line, as for a change through any other door. */
static void audit_file(struct tool_call *call, const char *error)
{
    struct metrics *metrics = session_manager_metrics(call->tools->manager);
    json_t *fields = json_pack("{s:s*, s:s, s:o, s:I, s:s, s:s*, s:s}", "session_id",
                               named(call->reply.session_id), "change", "written", "path",
                               text_to_json(call->path, strlen(call->path)), "bytes",
                               (json_int_t)(error ? 0 : call->data_length), "result",
                               error ? "error" : "ok", "error", error, "tool", call->row->name);

    metrics_add(metrics, METRIC_FILE_OPERATIONS,
                (const char *const[]){call->row->name, error ? "error" : "ok"}, 1);
    if (!error)
        metrics_add(metrics, METRIC_FILE_BYTES, &(const char *){"in"}, call->data_length);
    caller_describe(&call->caller, fields);
    if (fields)
        audit_write(session_manager_audit(call->tools->manager), "file", fields);
}

static void audit(struct tool_call *call, const char *error)
{
    const struct tool_reply *reply = &call->reply;
    json_t *fields =
        json_pack("{s:s, s:s, s:s*, s:s*, s:s*, s:s, s:s*}", "tool", call->row->name, "tenant",
                  call->caller.who.tenant, "session_id", named(reply->session_id), "execution_id",
                  named(reply->execution_id), "file_path", named(call->path), "result",
                  error ? "error" : "ok", "error", error);

    if (fields && tool_reply_has_exit(reply))
        json_object_set_new(fields, "exit_code", json_integer(reply->result.exit_code));
    if (fields)
        json_object_set_new(fields, "duration_ms",
                            json_integer((json_int_t)(clock_now_ms() - call->started_ms)));
    if (fields && call->trace)
        json_object_set_new(fields, "reasoning_trace",
                            text_to_json(call->trace, strlen(call->trace)));
    if (call->path[0])
        audit_file(call, error);
    caller_describe(&call->caller, fields);
    if (fields)
        audit_write(session_manager_audit(call->tools->manager), "tool", fields);
}

void call_reply(struct tool_call *call)
{
    call_release(call);
    call->has_ended = true;
    audit(call, tool_reply_error(&call->reply));
    if (call->is_starting)
        return;
    call->done(call->ctx, &call->reply);
    call_free(call);
}

void call_set_hint(struct tool_reply *reply, const char *hint)
{
    str_copy(reply->hint, sizeof(reply->hint), hint);
}

const char *call_hint(const char *code)
{
    for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
        if (str_equal(hints[i].code, code))
            return hints[i].hint;
    return "Call again; if it stays, tell the user.";
}

/* The module that the code did not find, as a cell's error or the output names it. */
static bool missing_module(const struct tool_reply *reply, char module[LIMIT_MODULE + 1])
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(SIZE_MAX / 2); /* bounded when captured */
    json_t *error = json_object_get(reply->cell, "error");
    json_t *value = json_object_get(error, "value");
    uint64_t invalid;

    if (json_is_string(value))
        return str_equal(json_string_value(json_object_get(error, "name")),
                         "ModuleNotFoundError") &&
               missing_from_value(json_string_value(value), json_string_length(value), module);
    return capture_text(&reply->result.err, &text, &invalid) == 0 &&
           missing_from_output(buf_text(&text), text.length, module);
}

void call_hint_missing(struct tool_call *call)
{
    struct tool_reply *reply = &call->reply;
    struct session_manager *manager = call->tools->manager;
    const struct config *config =
        call->session ? session_config(call->session) : session_manager_config(manager);
    CLEANUP(buf_free) struct buf text = BUF_INIT(sizeof(reply->hint) - 1);
    char module[LIMIT_MODULE + 1];

    /* After an attempt to install it, the note says how that ended. */
    if (reply->result.exit_code == 0 || reply->result.error.code || reply->result.install ||
        !missing_module(reply, module) ||
        !session_manager_missing_hint(manager, config, module, call->session != NULL, &text))
        return;
    call_set_hint(reply, buf_text(&text));
    reply->is_hint_news = true;
}

/* The file that the call is about: normalised if it was accepted, else as it was given. */
static const char *path_of(const struct tool_call *call)
{
    return call->path[0] ? call->path : json_string_value(call_parameter(call, "file_path"));
}

static void set_failed(struct tool_call *call, const struct error *err, const char *hint)
{
    struct tool_reply *reply = &call->reply;

    reply->kind = TOOL_REPLY_FAILED;
    reply->error = *err;
    reply->file_path = path_of(call);
    call_set_hint(reply, hint ? hint : call_hint(err->code));
}

void call_fail(struct tool_call *call, const struct error *err, const char *hint)
{
    struct tool_reply *reply = &call->reply;

    set_failed(call, err, hint);
    /* If a program was started, its own audit line reports the error. */
    if (refusal_is(err) && !reply->execution_id[0])
        refusal_log_add(call->tools->manager, &(struct refusal){.caller = &call->caller,
                                                                .err = err,
                                                                .session = reply->session_id,
                                                                .tool = call->row->name});
    reply->retry_s = str_equal(err->code, ERROR_TOO_MANY_SESSIONS)
                         ? session_manager_retry_s(call->tools->manager)
                         : err->retry_s;
    call_reply(call);
}

void call_fail_memory(struct tool_call *call)
{
    call_fail(call, &(struct error){.num = -ENOMEM, .code = ERROR_ENGINE, .text = "out of memory"},
              NULL);
}

/* ---- an execution ---- */

void call_take_result(struct tool_call *call, struct execution_outcome *outcome)
{
    call->reply.result = outcome->result;
    call->reply.has_result = outcome->is_taken = true;
}

static void on_awaited(void *ctx, struct execution_outcome *outcome)
{
    struct tool_call *call = ctx;

    call->exec_done(call, outcome);
}

void call_await(struct tool_call *call, struct execution *execution, uint64_t timeout_ms,
                void (*done)(struct tool_call *call, struct execution_outcome *outcome))
{
    const struct execution_await_spec spec = {
        .collects = true, .timeout_ms = timeout_ms, .done = on_awaited, .ctx = call};
    struct error err = {0};

    call->exec_done = done;
    str_format(call->reply.execution_id, sizeof(call->reply.execution_id), "%s.%u",
               call->reply.session_id, execution_number(execution));
    if (execution_await(&call->await, execution, &spec, &err) < 0)
        call_fail(call, &err, NULL);
}

/* ---- the session ---- */

int call_find(const struct tool_call *call, const char *word, bool with_ended, struct session **ret,
              struct error *err)
{
    /* The local caller may use any tenant's session by its id; a name always means one of its
     * own tenant. */
    bool is_any = call->caller.who.is_local && str_starts(word, "s_");

    return session_manager_find_of(call->tools->manager, is_any ? NULL : call->caller.who.tenant,
                                   word, with_ended, ret, err);
}

void call_use(struct tool_call *call, struct session *session)
{
    call->session = session;
    str_copy(call->reply.session_id, sizeof(call->reply.session_id), session_id(session));
}

/* Whether `word` is the name (not the id) of an ended session. */
static bool was_name(struct tool_call *call, const char *word)
{
    CLEANUP(json_decrefp) json_t *json = NULL;
    struct session *session;
    struct error ignored;

    if (call_find(call, word, true, &session, &ignored) < 0)
        return false;
    json = session_json(session);
    return str_equal(json_string_value(json_object_get(json, "name")), word);
}

static int make(struct tool_call *call, const char *word, struct error *err)
{
    struct session_manager *manager = call->tools->manager;
    const struct session_spec spec = {.caller = &call->caller,
                                      .tenant = call->caller.who.tenant,
                                      .name = word,
                                      .is_spare = !word};

    call->has_made = !word;
    return word ? session_manager_succeed(manager, word, &spec, &call->session,
                                          call->reply.session_note, err)
                : session_manager_create(manager, &spec, &call->session, err);
}

static int find_or_make(struct tool_call *call, const char *word, struct error *err)
{
    int r = word ? call_find(call, word, false, &call->session, err) : -ENOENT;

    if (r == 0) {
        r = session_check_settings(call->session, &call->caller, err);
        if (r < 0)
            return r;
    }
    if (r < 0 && word && str_starts(word, "s_"))
        return r; /* an id: no session is created for it */
    if (r < 0 && word && !str_equal(err->code, ERROR_SESSION_NOT_FOUND) &&
        !(str_equal(err->code, ERROR_SESSION_ENDED) && was_name(call, word)))
        return r;
    if (r < 0)
        r = make(call, word, err);
    else
        session_promote(call->session);
    if (r < 0)
        call->has_made = false;
    else
        call_use(call, call->session);
    return r;
}

bool call_session(struct tool_call *call)
{
    struct error err = {0};

    if (find_or_make(call, call->word, &err) == 0)
        return true;
    call_fail(call, &err, NULL);
    return false;
}

/* ---- the start of a call ---- */

/* The reasoning trace of the envelope, or beside the parameters; the first that is given counts. */
static void keep_trace(struct tool_call *call)
{
    json_t *trace = call_parameter(call, "reasoning_trace");
    const char *text = json_string_value(trace);

    if (text && !call->trace)
        call->trace =
            strndup(text, utf8_floor(text, MIN(json_string_length(trace), (size_t)TOOL_TRACE_MAX)));
}

/* The parameters out of an envelope, or the object itself; false: `problem` is set. */
static bool open_envelope(struct tool_call *call, struct schema_problem *problem)
{
    json_t *parameters = json_object_get(call->input, "parameters");
    json_t *name = json_object_get(call->input, "tool");

    call->parameters = call->input;
    keep_trace(call);
    if (!parameters || !name)
        return true;
    if (!schema_check(call->tools->envelope, call->input, problem))
        return false;
    if (!str_equal(json_string_value(name), call->row->name)) {
        str_copy(problem->field, sizeof(problem->field), "tool");
        error_set(&problem->err, -EINVAL, ERROR_BAD_INPUT,
                  "'tool' names another tool, not %s: name the same one in both places",
                  call->row->name);
        return false;
    }
    call->parameters = parameters;
    keep_trace(call);
    return true;
}

/* A shell line in place of a list of arguments: shows it as a list. */
static void show_command(struct tool_call *call)
{
    json_t *command = call_parameter(call, "command");
    CLEANUP(json_decrefp) json_t *list = NULL;
    CLEANUP(freep) char *text = NULL;

    if (call->row->id != TOOL_SANDBOX_EXEC || !json_is_string(command))
        return;
    list = json_pack("[s, s, O]", "bash", "-c", command);
    text = list ? json_dumps(list, 0) : NULL;
    if (!text || str_format(call->reply.hint, sizeof(call->reply.hint),
                            "Give a list of strings: {\"command\": %s}", text) < 0)
        call_set_hint(&call->reply, "Give a list of strings, such as {\"command\": [\"bash\", "
                                    "\"-c\", \"ls -l /tmp | head\"]}");
}

static void fail_schema(struct tool_call *call, const struct schema_problem *problem)
{
    set_failed(call, &problem->err, NULL);
    if (str_equal(problem->field, "command"))
        show_command(call);
    str_copy(call->reply.field, sizeof(call->reply.field), problem->field);
    str_copy(call->reply.nearest, sizeof(call->reply.nearest), problem->nearest);
    call_reply(call);
}

static void begin(struct tool_call *call, const char *session)
{
    struct schema_problem problem = {0};
    struct error err = {0};
    json_t *word;

    if (!json_is_object(call->input)) {
        error_set(&err, -EINVAL, ERROR_BAD_INPUT, "the parameters have to be a JSON object");
        call_fail(call, &err, NULL);
        return;
    }
    if (!open_envelope(call, &problem) ||
        !schema_check(call->tools->schemas[call->row - tool_table], call->parameters, &problem)) {
        fail_schema(call, &problem);
        return;
    }
    word = call_parameter(call, "session");
    call->word = word ? json_string_value(word) : session;
    handlers[call->row->id](call);
}

void tool_start(struct tools *tools, const struct caller *caller, const struct tool_row *row,
                json_t *input, const char *session, const char *note,
                void (*done)(void *ctx, const struct tool_reply *reply), void *ctx,
                struct tool_call **ret)
{
    struct tool_call *call = calloc(1, sizeof(*call));

    *ret = NULL;
    if (!call) {
        done(ctx, NULL);
        return;
    }
    *call = (struct tool_call){
        .tools = tools,
        .row = row,
        .input = json_incref(input),
        .started_ms = clock_now_ms(),
        .caller = *caller,
        .done = done,
        .ctx = ctx,
        .is_starting = true,
        .file = BUF_INIT(LIMIT_EDIT_BYTES + LIMIT_REQUEST_JSON),
    };
    if (note)
        str_copy(call->reply.session_note, sizeof(call->reply.session_note), note);
    begin(call, session);
    call->is_starting = false;
    if (call->has_ended) {
        done(ctx, &call->reply);
        call_free(call);
        return;
    }
    *ret = call;
}

const char *tool_call_made(const struct tool_call *call)
{
    return call && call->has_made ? call->reply.session_id : NULL;
}

void tool_cancel(struct tool_call *call)
{
    if (!call)
        return;
    call_release(call);
    audit(call, ERROR_CANCELLED);
    call_free(call);
}

struct execution *tool_call_execution(const struct tool_call *call)
{
    return call->await.execution; /* valid only while it is awaited */
}
