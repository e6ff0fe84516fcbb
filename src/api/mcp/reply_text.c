/*
 * reply_text.c - a tool's reply as the text a model reads: one line of facts, what was printed, the
 * error output under a marker, what to do next. Pure.
 *
 * Takes every shape that a tool answers with (docs/rest.md, docs/result.md): the reply of
 * sandbox_exec, the one result with `meta`, {success, ...} of the file tools, an error of REST.
 */
#include <string.h>

#include "api/mcp/mcp_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

/* A fact has one of two places: beside the output, or in `meta`. */
static json_t *fact(json_t *reply, const char *name)
{
    json_t *value = json_object_get(reply, name);

    return value && !json_is_null(value) ? value
                                         : json_object_get(json_object_get(reply, "meta"), name);
}

static bool is_set(json_t *reply, const char *name)
{
    return json_is_true(fact(reply, name));
}

static bool has_run(json_t *reply)
{
    return json_is_string(json_object_get(reply, "stdout")) ||
           json_is_integer(json_object_get(reply, "exit_code"));
}

/* Appends text of any kind without NULs, which no client shows. */
int mcp_append_clean(struct buf *text, json_t *value)
{
    const char *from = json_string_value(value);
    size_t left = json_string_length(value);
    int failed = 0;

    while (left > 0 && failed == 0) {
        size_t step = strnlen(from, left);

        failed = buf_append(text, from, step);
        step += step < left;
        from += step;
        left -= step;
    }
    return failed;
}

/* The text stands on lines of its own. */
int mcp_end_line(struct buf *text)
{
    return text->length > 0 && text->data[text->length - 1] != '\n' ? buf_append_text(text, "\n")
                                                                    : 0;
}

static int append_cut(json_t *reply, const char *stream, struct buf *text)
{
    char name[32];
    json_t *bytes;

    str_format(name, sizeof(name), "%s_truncated", stream);
    if (!is_set(reply, name))
        return 0;
    str_format(name, sizeof(name), "%s_bytes", stream);
    bytes = fact(reply, name);
    if (!json_is_integer(bytes))
        return buf_printf(text, ", %s was cut", stream);
    return buf_printf(text, ", %s was cut (%lld bytes in all)", stream,
                      (long long)json_integer_value(bytes));
}

static int append_ending(json_t *reply, struct buf *text)
{
    json_t *signal = fact(reply, "signal");
    json_int_t code = json_integer_value(json_object_get(reply, "exit_code"));

    if (is_set(reply, "running"))
        return buf_append_text(text, "still running");
    if (is_set(reply, "timed_out"))
        return buf_append_text(text, "timed out");
    if (is_set(reply, "oom_killed"))
        return buf_append_text(text, "out of memory, killed");
    if (json_is_string(signal))
        return buf_printf(text, "signal %s, exit code %lld", json_string_value(signal),
                          (long long)code);
    if (json_is_integer(signal))
        return buf_printf(text, "signal %lld, exit code %lld",
                          (long long)json_integer_value(signal), (long long)code);
    return buf_printf(text, "exit code %lld", (long long)code);
}

/* [exit code 0, 12 ms, session s_1] */
static int append_header(json_t *reply, const char *session, struct buf *text)
{
    json_t *seconds = fact(reply, "execution_time");
    json_t *execution = fact(reply, "execution_id");
    int failed = buf_append_text(text, "[");

    if (!json_is_number(seconds))
        seconds = fact(reply, "duration");
    failed |= append_ending(reply, text);
    if (json_is_number(seconds))
        failed |= buf_printf(text, ", %.0f ms", json_number_value(seconds) * 1000.0);
    failed |= append_cut(reply, "stdout", text);
    failed |= append_cut(reply, "stderr", text);
    if (is_set(reply, "disk_full"))
        failed |= buf_append_text(text, ", the disk was full");
    if (session)
        failed |= buf_printf(text, ", session %s", session);
    if (json_is_string(execution) && (is_set(reply, "running") || !has_run(reply)))
        failed |= buf_printf(text, ", execution_id %s", json_string_value(execution));
    return failed | buf_append_text(text, "]\n");
}

/* Where the rest of an output is that was cut: sandbox://s_1/.log/3/stdout */
static int append_log(json_t *reply, const char *stream, const char *session, struct buf *text)
{
    const char *execution = json_string_value(fact(reply, "execution_id"));
    const char *number = execution ? strrchr(execution, '.') : NULL;
    char flag[32];
    int failed;

    str_format(flag, sizeof(flag), "%s_truncated", stream);
    if (!is_set(reply, flag) || !number || !session || !str_starts(execution, session))
        return 0;
    failed = mcp_end_line(text);
    return failed | buf_printf(text, "[whole %s] " MCP_SCHEME "%s" MCP_LOG_FOLDER "%s/%s", stream,
                               session, number + 1, stream);
}

static int append_run(json_t *reply, const char *session, struct buf *text)
{
    json_t *err = json_object_get(reply, "stderr");
    json_t *error = fact(reply, "error");
    int failed = append_header(reply, session, text);

    failed |= mcp_append_clean(text, json_object_get(reply, "stdout"));
    failed |= mcp_append_clean(text, json_object_get(reply, "output")); /* of run_python_code */
    if (json_string_length(err) > 0) {
        failed |= mcp_end_line(text);
        failed |= buf_append_text(text, "[stderr]\n");
        failed |= mcp_append_clean(text, err);
    }
    failed |= append_log(reply, "stdout", session, text);
    failed |= append_log(reply, "stderr", session, text);
    failed |= mcp_values_text(reply, text);
    if (mcp_is_cell_error(error))
        error = json_object_get(json_object_get(reply, "meta"), "error");
    if (json_is_object(error))
        error = json_object_get(error, "message");
    if (json_is_string(error)) {
        failed |= mcp_end_line(text);
        failed |= buf_append_text(text, "Error: ");
        failed |= mcp_append_clean(text, error);
    }
    return failed;
}

/* A reply that has no output of its own: its words, then its facts as name: value. */
static int append_facts(json_t *reply, const char *session, struct buf *text)
{
    static const char *const names[] = {"file_path", "bytes_written", "execution_id", "field",
                                        "nearest",   "retry_after_s", "reason",       "ended_at"};
    json_t *error = json_object_get(reply, "error");
    json_t *facts = json_is_object(error) ? error : reply;
    json_t *message = json_is_object(error) ? json_object_get(error, "message") : error;
    int failed = 0;

    if (json_is_string(message)) {
        failed |= buf_append_text(text, "Error: ");
        failed |= mcp_append_clean(text, message);
        failed |= mcp_end_line(text);
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        json_t *value = json_object_get(facts, names[i]);

        if (json_is_string(value))
            failed |= buf_printf(text, "%s: %s\n", names[i], json_string_value(value));
        else if (json_is_integer(value))
            failed |=
                buf_printf(text, "%s: %lld\n", names[i], (long long)json_integer_value(value));
    }
    if (session)
        failed |= buf_printf(text, "session: %s\n", session);
    return failed;
}

/*
 * Whether the tool could not do its job. A command that failed is no error of the tool: with an
 * exit code, success:false only repeats that.
 */
static bool is_error(json_t *reply)
{
    json_t *error = fact(reply, "error");

    if (mcp_is_cell_error(error)) /* an exception of the code */
        error = json_object_get(json_object_get(reply, "meta"), "error");
    return (error && !json_is_null(error)) || is_set(reply, "timed_out") ||
           (json_is_false(json_object_get(reply, "success")) && !has_run(reply));
}

int mcp_reply_text(json_t *reply, const char *session, struct buf *text, bool *ret_is_error)
{
    static const struct {
        const char *name, *label;
    } last[] = {{"session_note", "note"}, {"note", "note"}, {"state", "note"}, {"hint", "hint"}};
    int failed;

    *ret_is_error = is_error(reply);
    if (has_run(reply))
        failed = append_run(reply, session, text);
    else
        failed = append_facts(reply, session, text);
    for (size_t i = 0; i < ARRAY_SIZE(last); i++) {
        json_t *value = json_object_get(reply, last[i].name);

        if (!json_is_string(value) ||
            (str_equal(last[i].name, "note") && json_object_get(reply, "output")))
            continue; /* the output of run_python_code has it already */
        failed |= mcp_end_line(text);
        failed |= buf_printf(text, "[%s] ", last[i].label);
        failed |= mcp_append_clean(text, value);
    }
    return failed < 0 ? -1 : 0;
}
