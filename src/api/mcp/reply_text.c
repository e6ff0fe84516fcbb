/*
 * reply_text.c - a tool's reply as the text a model reads: one line of facts, stdout, stderr under
 * a marker, a hint. Pure.
 */
#include <string.h>

#include "api/mcp/mcp_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/reply.h"

/* Appends bytes without NULs, which clients do not show. */
static int append_bytes(struct buf *text, const char *from, size_t left)
{
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

int mcp_append_clean(struct buf *text, json_t *value)
{
    return append_bytes(text, json_string_value(value), json_string_length(value));
}

/* An engine's text that may quote a guest's bytes. */
static int append_words(struct buf *text, const char *words)
{
    uint64_t invalid = 0;

    return text_clean(text, words, strlen(words), false, &invalid);
}

/* Ends the current line, so that the next text begins on its own line. */
int mcp_end_line(struct buf *text)
{
    return text->length > 0 && text->data[text->length - 1] != '\n' ? buf_append_text(text, "\n")
                                                                    : 0;
}

/* The full result has more facts than the other kinds. */
static bool is_result(const struct tool_reply *reply)
{
    return reply->kind == TOOL_REPLY_RESULT;
}

static const struct capture *stream_of(const struct tool_reply *reply, int stream)
{
    return stream == 1 ? &reply->result.out : &reply->result.err;
}

static const char *stream_name(int stream)
{
    return stream == 1 ? "stdout" : "stderr";
}

static int append_cut(const struct tool_reply *reply, int stream, struct buf *text)
{
    const struct capture *capture = stream_of(reply, stream);

    if (!capture->is_truncated)
        return 0;
    if (!is_result(reply))
        return buf_printf(text, ", %s was cut", stream_name(stream));
    return buf_printf(text, ", %s was cut (%llu bytes in all)", stream_name(stream),
                      (unsigned long long)capture->total_bytes);
}

static int append_ending(const struct tool_reply *reply, struct buf *text)
{
    const struct result *result = &reply->result;

    if (reply->kind == TOOL_REPLY_RUNNING)
        return buf_append_text(text, "still running");
    if (result->timed_out)
        return buf_append_text(text, "timed out");
    if (result->oom_killed && reply->kind != TOOL_REPLY_TEXT)
        return buf_append_text(text, "out of memory, killed");
    if (result->signal && is_result(reply))
        return buf_printf(text, "signal %d, exit code %d", result->signal, result->exit_code);
    return buf_printf(text, "exit code %d", result->exit_code);
}

/* [exit code 0, 12 ms, session s_1] */
static int append_header(const struct tool_reply *reply, const char *session, struct buf *text)
{
    int failed = buf_append_text(text, "[");

    failed |= append_ending(reply, text);
    if (reply->kind != TOOL_REPLY_RUNNING)
        failed |= buf_printf(text, ", %.0f ms", (double)reply->result.duration_ns / 1e6);
    for (int stream = 1; stream <= 2 && reply->kind != TOOL_REPLY_TEXT; stream++)
        failed |= append_cut(reply, stream, text);
    if (reply->result.disk_full && (is_result(reply) || reply->kind == TOOL_REPLY_COMMAND))
        failed |= buf_append_text(text, ", the disk was full");
    if (session)
        failed |= buf_printf(text, ", session %s", session);
    if (reply->kind == TOOL_REPLY_RUNNING)
        failed |= buf_printf(text, ", execution_id %s", reply->execution_id);
    return failed | buf_append_text(text, "]\n");
}

/* Where to read output that was cut: sandbox://s_1/.log/3/stdout */
static int append_log(const struct tool_reply *reply, int stream, const char *session,
                      struct buf *text)
{
    const char *execution = is_result(reply) ? reply->result.execution_id : reply->execution_id;
    const char *number = strrchr(execution, '.');
    int failed;

    if (!stream_of(reply, stream)->is_truncated || !number || !session ||
        !str_starts(execution, session))
        return 0;
    failed = mcp_end_line(text);
    return failed | buf_printf(text, "[whole %s] " MCP_SCHEME "%s" MCP_LOG_FOLDER "%s/%s",
                               stream_name(stream), session, number + 1, stream_name(stream));
}

/* The output: stdout, then stderr under a marker. */
static int append_output(const struct tool_reply *reply, const char *session, struct buf *text)
{
    CLEANUP(buf_free) struct buf printed = BUF_INIT(SIZE_MAX / 2); /* bounded when captured */
    int failed;

    if (reply->kind == TOOL_REPLY_TEXT) {
        uint64_t invalid = 0;

        failed = text_clean(&printed, buf_text(&reply->text), reply->text.length, false, &invalid);
        return failed | append_bytes(text, buf_text(&printed), printed.length);
    }
    failed = result_stdout(&reply->result, &printed);
    failed |= append_bytes(text, buf_text(&printed), printed.length);
    failed |= result_stderr(&reply->result, &printed);
    if (printed.length > 0) {
        failed |= mcp_end_line(text);
        failed |= buf_append_text(text, "[stderr]\n");
        failed |= append_bytes(text, buf_text(&printed), printed.length);
    }
    failed |= append_log(reply, 1, session, text);
    return failed | append_log(reply, 2, session, text);
}

static int append_run(const struct tool_reply *reply, const char *session, struct buf *text)
{
    int failed = append_header(reply, session, text);

    failed |= append_output(reply, session, text);
    failed |= mcp_values_text(reply->cell, text);
    if (reply->result.error.code) {
        failed |= mcp_end_line(text);
        failed |= buf_append_text(text, "Error: ");
        failed |= append_words(text, reply->result.error.text);
    }
    return failed;
}

/* A reply without output: its text, then its facts as name: value. */
static int append_facts(const struct tool_reply *reply, const char *session, struct buf *text)
{
    int failed = 0;

    if (reply->kind == TOOL_REPLY_FAILED) {
        failed |= buf_append_text(text, "Error: ");
        failed |= append_words(text, reply->error.text);
        failed |= mcp_end_line(text);
    }
    if (reply->kind == TOOL_REPLY_FILE)
        failed |= buf_printf(text, "file_path: %s\nbytes_written: %llu\n", reply->file_path,
                             (unsigned long long)reply->bytes_written);
    if (reply->kind == TOOL_REPLY_STARTED)
        failed |= buf_printf(text, "execution_id: %s\n", reply->execution_id);
    if (reply->field[0]) {
        failed |= buf_append_text(text, "field: ");
        failed |= append_words(text, reply->field);
        failed |= buf_append_text(text, "\n");
    }
    if (reply->nearest[0])
        failed |= buf_printf(text, "nearest: %s\n", reply->nearest);
    if (reply->retry_s)
        failed |= buf_printf(text, "retry_after_s: %u\n", reply->retry_s);
    if (session)
        failed |= buf_printf(text, "session: %s\n", session);
    return failed;
}

static int append_last(struct buf *text, const char *label, const char *words)
{
    int failed;

    if (!words || !words[0])
        return 0;
    failed = mcp_end_line(text);
    failed |= buf_printf(text, "[%s] ", label);
    return failed | append_words(text, words);
}

/*
 * Whether the tool itself failed. A command that failed is not an error of the tool: its exit code
 * says so.
 */
bool mcp_reply_is_error(const struct tool_reply *reply)
{
    return reply->kind == TOOL_REPLY_FAILED ||
           (reply->has_result && reply->kind != TOOL_REPLY_RUNNING &&
            (reply->result.error.code || reply->result.timed_out));
}

int mcp_reply_text(const struct tool_reply *reply, const char *session, struct buf *text)
{
    int failed =
        reply->has_result ? append_run(reply, session, text) : append_facts(reply, session, text);

    failed |= append_last(text, "note", reply->session_note);
    if (reply->kind != TOOL_REPLY_TEXT) /* TOOL_REPLY_TEXT contains it already */
        failed |= append_last(text, "note", json_string_value(reply->note));
    failed |= append_last(text, "note", reply->state);
    failed |= append_last(text, "hint", reply->hint);
    return failed < 0 ? -1 : 0;
}
