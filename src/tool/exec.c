/* exec.c - the tool sandbox_exec {command, timeout, background}: a command in the session's box. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/tool_private.h"

static json_t *hint(const struct result *result, json_t *outputs)
{
    size_t count = 0, i;
    json_t *one;

    json_array_foreach(outputs, i, one)
    {
        count += json_is_null(json_object_get(one, "skipped"));
    }
    if (result->exit_code != 0)
        return json_string("Execution failed. Review stderr and use sandbox_edit_file to fix "
                           "errors.");
    if (count > 0)
        return json_sprintf("Code executed successfully. %zu output files created. Consider using "
                            "'complete' to present results.",
                            count);
    if (result->total_output_files > 0)
        return json_sprintf("Code executed. No new outputs in /tmp/output/; %llu are there from "
                            "before.",
                            (unsigned long long)result->total_output_files);
    return json_string(
        "Code executed but no outputs in /tmp/output/. Verify script saves results.");
}

/* What was fetched, or stays and is only listed; or else what was passed over, with the reason. */
static json_t *choose(json_t *outputs, bool is_skipped)
{
    json_t *chosen = json_array(), *one;
    size_t i;

    json_array_foreach(outputs, i, one)
    {
        if (json_is_null(json_object_get(one, "skipped")) != is_skipped &&
            json_array_size(chosen) < LIMIT_TOOL_OUTPUTS)
            json_array_append(chosen, one);
    }
    return chosen;
}

static json_t *exec_reply(const struct tool_call *call, const struct result *result,
                          json_t *outputs)
{
    CLEANUP(json_decrefp) json_t *whole = result_to_json(result);
    json_t *meta = json_object_get(whole, "meta");
    json_t *reply = NULL;

    if (whole)
        reply = json_pack(
            "{s:O, s:O, s:O, s:O, s:O, s:o, s:o, s:I, s:O, s:s}", "exit_code",
            json_object_get(whole, "exit_code"), "stdout", json_object_get(whole, "stdout"),
            "stderr", json_object_get(whole, "stderr"), "stdout_truncated",
            json_object_get(meta, "stdout_truncated"), "stderr_truncated",
            json_object_get(meta, "stderr_truncated"), "output_files", choose(outputs, false),
            "skipped_files", choose(outputs, true), "total_output_files",
            (json_int_t)result->total_output_files, "execution_time",
            json_object_get(whole, "duration"), "execution_id", call->execution_id);
    if (reply && result->timed_out)
        json_object_set_new(reply, "timed_out", json_true());
    if (reply && result->oom_killed)
        json_object_set_new(reply, "oom_killed", json_true());
    if (reply && result->disk_full)
        json_object_set_new(reply, "disk_full", json_true());
    return reply;
}

void call_reply_exec(struct tool_call *call, struct result *result, json_t *outputs)
{
    json_t *reply = exec_reply(call, result, outputs);

    if (reply && result->error.code) {
        json_object_set_new(reply, "success", json_false());
        json_object_set_new(reply, "error",
                            text_to_json(result->error.text, strlen(result->error.text)));
        json_object_set_new(reply, "code", json_string(result->error.code));
    }
    if (reply)
        json_object_set_new(reply, "hint",
                            result->error.code ? json_string(call_hint(result->error.code))
                                               : hint(result, outputs));
    json_decref(outputs);
    call_reply(call, reply);
}

static void reply_background(struct tool_call *call, struct execution *execution)
{
    str_format(call->execution_id, sizeof(call->execution_id), "%s.%u", call->session_id,
               execution_number(execution));
    call_reply(call, json_pack("{s:b, s:s, s:b, s:s}", "success", 1, "execution_id",
                               call->execution_id, "running", 1, "hint",
                               "Started in the background. Use sandbox_wait with the execution_id "
                               "to get its result."));
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
            error_set(&err, -ENOMEM, ERROR_ENGINE, "out of memory");
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
        call_watch(call, execution, UINT64_MAX, call_reply_exec);
}
