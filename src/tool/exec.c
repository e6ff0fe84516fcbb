/* exec.c - the tool sandbox_exec {command, timeout, background}: a command in the session's box. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/tool_private.h"

/* Adds the outputs of one kind, at most LIMIT_TOOL_OUTPUTS of them. */
static int add(json_t *array, struct session *session, const struct execution_outcome *outcome,
               bool is_saved)
{
    size_t added = 0;

    for (size_t i = 0; i < outcome->changed_count && added < LIMIT_TOOL_OUTPUTS; i++) {
        const struct session_output *output = &outcome->changed[i];

        if (output->is_saved != is_saved)
            continue;
        if (json_array_append_new(array, session_output_json(session, output)) < 0)
            return -1;
        added++;
    }
    return 0;
}

/* A file of the command; a link or a device in /tmp/output is not. */
static bool is_file(const struct session_output *output)
{
    return !output->skipped || output->is_later;
}

static json_t *names_of(const struct execution_outcome *outcome)
{
    CLEANUP(json_decrefp) json_t *array = json_array();

    for (size_t i = 0; i < outcome->changed_count; i++) {
        const char *name = outcome->changed[i].name;

        if (is_file(&outcome->changed[i]) && json_array_size(array) < LIMIT_OUTPUT_FILES &&
            json_array_append_new(array, text_to_json(name, strlen(name))) < 0)
            return NULL;
    }
    return ptr_take(&array);
}

static size_t count_files(const struct execution_outcome *outcome)
{
    size_t count = 0;

    for (size_t i = 0; i < outcome->changed_count; i++)
        count += is_file(&outcome->changed[i]);
    return count;
}

static json_t *outputs_of(struct session *session, const struct execution_outcome *outcome)
{
    CLEANUP(json_decrefp) json_t *array = json_array();

    if (!array || add(array, session, outcome, true) < 0 || add(array, session, outcome, false) < 0)
        return NULL;
    return ptr_take(&array);
}

static void set_hint(struct tool_reply *reply, size_t count)
{
    const struct result *result = &reply->result;
    unsigned long long total = result->total_output_files;

    if (result->error.code)
        call_set_hint(reply, call_hint(result->error.code));
    else if (result->exit_code != 0)
        call_set_hint(reply, "Execution failed. Review stderr and use sandbox_edit_file to fix "
                             "errors.");
    else if (count > 0)
        str_format(reply->hint, sizeof(reply->hint),
                   "Code executed successfully. %zu output files created. Consider using "
                   "'complete' to present results.",
                   count);
    else if (total > 0)
        str_format(reply->hint, sizeof(reply->hint),
                   "Code executed. No new outputs in /tmp/output/; %llu are there from before.",
                   total);
    else
        call_set_hint(reply,
                      "Code executed but no outputs in /tmp/output/. Verify script saves results.");
}

void call_reply_exec(struct tool_call *call, struct execution_outcome *outcome)
{
    struct tool_reply *reply = &call->reply;

    reply->kind = TOOL_REPLY_COMMAND;
    reply->names = names_of(outcome);
    reply->outputs = outputs_of(call->session, outcome);
    call_take_result(call, outcome);
    set_hint(reply, count_files(outcome));
    call_hint_missing(call);
    call_reply(call);
}

static void reply_background(struct tool_call *call, struct execution *execution)
{
    call->reply.kind = TOOL_REPLY_STARTED;
    str_format(call->reply.execution_id, sizeof(call->reply.execution_id), "%s.%u",
               call->reply.session_id, execution_number(execution));
    call_set_hint(&call->reply, "Started in the background. Use sandbox_wait with the execution_id "
                                "to get its result.");
    call_reply(call);
}

void sandbox_exec_start(struct tool_call *call)
{
    json_t *command = call_parameter(call, "command");
    CLEANUP(freep) const char **argv = text_list_of_json(command);
    bool is_background = json_is_true(call_parameter(call, "background"));
    struct execution *execution;
    struct error err = {0};

    if (!argv || argv[0][0] == '\0') {
        if (argv)
            error_set(&err, -EINVAL, ERROR_BAD_INPUT, "'command[0]' is empty: name a program");
        else
            error_memory(&err);
        call_fail(call, &err, NULL);
        return;
    }
    if (!call_session(call))
        return;
    if (session_exec(
            call->session,
            &(struct execution_spec){
                .caller = &call->caller,
                .argv = argv,
                .timeout_ms = call_timeout_ms(call, call->row->default_timeout_s * 1000ULL),
                .is_background = is_background,
            },
            &execution, &err) < 0)
        call_fail(call, &err, NULL);
    else if (is_background)
        reply_background(call, execution);
    else
        call_await(call, execution, UINT64_MAX, call_reply_exec);
}
