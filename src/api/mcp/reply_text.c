/*
 * reply_text.c - a tool's reply as the text a model reads: one line of facts, stdout, stderr under
 * a marker, how to read on, a hint where it helps. Pure.
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

/* The execution as a later call may name it. */
static const char *execution_of(const struct tool_reply *reply, const struct mcp_view *view)
{
    const char *id = is_result(reply) ? reply->result.execution_id : reply->execution_id;
    const char *number = strrchr(id, '.');

    return view->is_own && number ? number + 1 : id;
}

/* Output that was cut and whose rest was not kept. */
static int append_cut(const struct tool_reply *reply, struct buf *text)
{
    const struct capture *const streams[] = {&reply->result.out, &reply->result.err};
    int failed = 0;

    for (int i = 0; i < 2 && !reply->session_id[0]; i++)
        if (streams[i]->is_truncated)
            failed |=
                buf_printf(text, ", %s was cut (%llu bytes in all)", i == 0 ? "stdout" : "stderr",
                           (unsigned long long)streams[i]->total_bytes);
    return failed;
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

/* [exit code 0, 12 ms] */
static int append_header(const struct tool_reply *reply, const struct mcp_view *view,
                         struct buf *text)
{
    int failed = buf_append_text(text, "[");

    failed |= append_ending(reply, text);
    if (reply->kind != TOOL_REPLY_RUNNING)
        failed |= buf_printf(text, ", %.0f ms", (double)reply->result.duration_ns / 1e6);
    if (reply->kind != TOOL_REPLY_TEXT)
        failed |= append_cut(reply, text);
    if (reply->result.disk_full && (is_result(reply) || reply->kind == TOOL_REPLY_COMMAND))
        failed |= buf_append_text(text, ", the disk was full");
    if (view->names_session && view->session)
        failed |= buf_printf(text, ", session %s", view->session);
    if (reply->kind == TOOL_REPLY_RUNNING)
        failed |= buf_printf(text, ", execution_id %s", execution_of(reply, view));
    return failed | buf_append_text(text, "]\n");
}

/* How to read on in output that was cut. */
static int append_more(const struct tool_reply *reply, const struct mcp_view *view,
                       struct buf *text)
{
    int failed = 0;

    for (int stream = 1; stream <= 2; stream++) {
        CLEANUP(buf_free) struct buf line = BUF_INIT(KIB);

        failed |= tool_reply_read_on(reply, stream, execution_of(reply, view), &line);
        if (line.length > 0) {
            failed |= mcp_end_line(text);
            failed |= buf_printf(text, "[more] %s", buf_text(&line));
        }
    }
    return failed;
}

/* The output: stdout, then stderr under a marker. */
static int append_output(const struct tool_reply *reply, const struct mcp_view *view,
                         struct buf *text)
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
    return failed | append_more(reply, view, text);
}

static int append_run(const struct tool_reply *reply, const struct mcp_view *view, struct buf *text)
{
    int failed = append_header(reply, view, text);

    failed |= append_output(reply, view, text);
    return failed | mcp_values_text(reply->cell, text);
}

/* installed castle 1.2, moat 1.0 */
static int append_installed(json_t *installed, struct buf *text)
{
    json_t *package;
    size_t i;
    int failed = 0;

    if (json_array_size(installed) == 0)
        return buf_append_text(text, "nothing to install: the packages were there already\n");
    json_array_foreach(installed, i, package)
    {
        failed |= buf_append_text(text, i == 0 ? "installed " : ", ");
        failed |= mcp_append_clean(text, json_object_get(package, "name"));
        failed |= buf_append_text(text, " ");
        failed |= mcp_append_clean(text, json_object_get(package, "version"));
    }
    return failed | buf_append_text(text, "\n");
}

/* A reply without output: its text, then its facts as name: value. */
static int append_facts(const struct tool_reply *reply, const struct mcp_view *view,
                        struct buf *text)
{
    int failed = 0;

    if (reply->kind == TOOL_REPLY_FAILED) {
        failed |= buf_append_text(text, "Error: ");
        failed |= append_words(text, reply->error.text);
        failed |= mcp_end_line(text);
    }
    if (reply->kind == TOOL_REPLY_FILE)
        failed |= buf_printf(text, "%llu bytes written to %s\n",
                             (unsigned long long)reply->bytes_written, reply->file_path);
    if (reply->kind == TOOL_REPLY_STARTED)
        failed |= buf_printf(text, "execution_id: %s\n", execution_of(reply, view));
    if (reply->kind == TOOL_REPLY_INSTALLED)
        failed |= append_installed(reply->installed, text);
    if (reply->kind == TOOL_REPLY_PAUSED)
        failed |= buf_append_text(text, reply->is_paused ? "paused\n" : "resumed\n");
    if (reply->field[0]) {
        failed |= buf_append_text(text, "field: ");
        failed |= append_words(text, reply->field);
        failed |= buf_append_text(text, "\n");
    }
    if (reply->nearest[0])
        failed |= buf_printf(text, "nearest: %s\n", reply->nearest);
    if (reply->retry_s)
        failed |= buf_printf(text, "retry_after_s: %u\n", reply->retry_s);
    if (view->names_session && view->session)
        failed |= buf_printf(text, "session: %s\n", view->session);
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

/*
 * A hint is for what the model may not know. The one after a command is not: the exit code, stderr
 * and the list of files say the same.
 */
static const char *hint_of(const struct tool_reply *reply)
{
    bool is_plain = (reply->kind == TOOL_REPLY_COMMAND && !reply->result.error.code) ||
                    reply->kind == TOOL_REPLY_FILE || reply->kind == TOOL_REPLY_TEXT ||
                    reply->kind == TOOL_REPLY_INSTALLED;

    return is_plain && !reply->is_hint_news ? NULL : reply->hint;
}

int mcp_reply_text(const struct tool_reply *reply, const struct mcp_view *view, struct buf *text)
{
    int failed =
        reply->has_result ? append_run(reply, view, text) : append_facts(reply, view, text);

    failed |= append_last(text, "note", reply->session_note);
    if (reply->kind != TOOL_REPLY_TEXT) /* TOOL_REPLY_TEXT contains it already */
        failed |= append_last(text, "note", json_string_value(reply->note));
    failed |= append_last(text, "note", reply->is_state_news ? reply->state : NULL);
    failed |= append_last(text, "hint", hint_of(reply));
    return failed < 0 ? -1 : 0;
}
