/* reply.c - a tool's reply as JSON, in the shape of its kind; see reply.h. */
#include "tool/reply.h"

#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "model/text.h"
#include "session/session.h"

static bool is_fine(const struct result *result)
{
    return result->exit_code == 0 && !result->error.code;
}

const char *tool_reply_error(const struct tool_reply *reply)
{
    const char *code = reply->result.error.code;

    switch (reply->kind) {
    case TOOL_REPLY_FAILED:
        return reply->error.code ? reply->error.code : ERROR_ENGINE;
    case TOOL_REPLY_COMMAND:
        return code;
    case TOOL_REPLY_TEXT:
        return is_fine(&reply->result) ? NULL : code ? code : ERROR_ENGINE;
    default:
        return NULL;
    }
}

bool tool_reply_has_exit(const struct tool_reply *reply)
{
    return reply->kind == TOOL_REPLY_COMMAND || reply->kind == TOOL_REPLY_RESULT ||
           reply->kind == TOOL_REPLY_TEXT;
}

void tool_reply_free(struct tool_reply *reply)
{
    if (reply->has_result)
        result_free(&reply->result);
    reply->has_result = false;
    json_decref(ptr_take(&reply->names));
    json_decref(ptr_take(&reply->outputs));
    json_decref(ptr_take(&reply->cell));
    json_decref(ptr_take(&reply->cell_meta));
    json_decref(ptr_take(&reply->note));
    json_decref(ptr_take(&reply->installed));
    buf_free(&reply->text);
}

int tool_reply_read_on(const struct tool_reply *reply, int stream, const char *id, struct buf *text)
{
    const struct capture *capture = stream == 1 ? &reply->result.out : &reply->result.err;
    size_t kept = utf8_floor(buf_text(&capture->kept), capture->kept.length);
    unsigned long long next = reply->offset + kept, total = capture->total_bytes;

    if (!reply->has_result || !capture->is_truncated || !reply->session_id[0] || !id[0] ||
        next >= total)
        return 0;
    return buf_printf(text,
                      "%s has %llu bytes: sandbox_wait {\"execution_id\": \"%s\", %s\"offset\": "
                      "%llu} shows more",
                      stream == 1 ? "stdout" : "stderr", total, id,
                      stream == 1 ? "" : "\"stream\": \"stderr\", ", next);
}

/* ---- JSON ---- */

static void add_read_on(const struct tool_reply *reply, json_t *json)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);

    for (int stream = 1; stream <= 2; stream++) {
        size_t before = text.length;

        tool_reply_read_on(reply, stream, reply->execution_id, &text);
        if (text.length > before && stream == 1 && reply->result.err.is_truncated)
            buf_append_text(&text, "; ");
    }
    if (json && text.length > 0)
        json_object_set_new(json, "read_on", json_stringn(buf_text(&text), text.length));
}

static json_t *text(const char *value)
{
    return text_to_json(value, strlen(value));
}

static json_t *failed(const struct tool_reply *reply)
{
    const struct error *err = &reply->error;
    json_t *json = json_pack("{s:b, s:o, s:s, s:s}", "success", 0, "error", text(err->text), "code",
                             err->code ? err->code : ERROR_ENGINE, "hint", reply->hint);

    if (json && reply->file_path)
        json_object_set_new(json, "file_path", text(reply->file_path));
    if (json && reply->retry_s)
        json_object_set_new(json, "retry_after_s", json_integer(reply->retry_s));
    if (json && err->provider)
        json_object_set_new(json, "provider", json_string(err->provider));
    if (json && err->quota)
        json_object_set_new(json, "quota", json_string(err->quota));
    if (json && err->stage)
        json_object_set_new(json, "stage", json_string(err->stage));
    if (json && reply->field[0])
        json_object_set_new(json, "field", text(reply->field));
    if (json && reply->nearest[0])
        json_object_set_new(json, "nearest", json_string(reply->nearest));
    return json;
}

static json_t *running(const struct tool_reply *reply)
{
    CLEANUP(json_decrefp) json_t *whole = result_to_json(&reply->result);

    if (!whole)
        return NULL;
    return json_pack("{s:b, s:s, s:O, s:O, s:b, s:b, s:s}", "running", 1, "execution_id",
                     reply->execution_id, "stdout", json_object_get(whole, "stdout"), "stderr",
                     json_object_get(whole, "stderr"), "stdout_truncated",
                     reply->result.out.is_truncated, "stderr_truncated",
                     reply->result.err.is_truncated, "hint", reply->hint);
}

/*
 * Outputs that were fetched or are only listed; or (is_skipped) those that were skipped, with the
 * reason.
 */
static json_t *choose(json_t *outputs, bool is_skipped)
{
    json_t *chosen = json_array(), *one;
    size_t i;

    json_array_foreach(outputs, i, one)
    {
        if (json_is_null(json_object_get(one, "skipped")) != is_skipped)
            json_array_append(chosen, one);
    }
    return chosen;
}

static json_t *command(const struct tool_reply *reply)
{
    const struct result *result = &reply->result;
    CLEANUP(json_decrefp) json_t *whole = result_to_json(result);
    json_t *json = NULL;

    if (whole)
        json = json_pack("{s:O, s:O, s:O, s:b, s:b, s:O?, s:o, s:o, s:I, s:O, s:s}", "exit_code",
                         json_object_get(whole, "exit_code"), "stdout",
                         json_object_get(whole, "stdout"), "stderr",
                         json_object_get(whole, "stderr"), "stdout_truncated",
                         result->out.is_truncated, "stderr_truncated", result->err.is_truncated,
                         "output_files", reply->names, "files", choose(reply->outputs, false),
                         "skipped_files", choose(reply->outputs, true), "total_output_files",
                         (json_int_t)result->total_output_files, "execution_time",
                         json_object_get(whole, "duration"), "execution_id", reply->execution_id);
    if (json && result->timed_out)
        json_object_set_new(json, "timed_out", json_true());
    if (json && result->oom_killed)
        json_object_set_new(json, "oom_killed", json_true());
    if (json && result->disk_full)
        json_object_set_new(json, "disk_full", json_true());
    if (json && result->error.code) {
        json_object_set_new(json, "success", json_false());
        json_object_set_new(json, "error", text(result->error.text));
        json_object_set_new(json, "code", json_string(result->error.code));
    }
    if (json)
        json_object_set_new(json, "hint", json_string(reply->hint));
    return json;
}

static json_t *one_result(const struct tool_reply *reply)
{
    json_t *json = cell_reply_json(&reply->result, reply->cell, reply->cell_meta);

    if (json && reply->state)
        json_object_set_new(json, "state", json_string(reply->state));
    if (json && reply->note)
        json_object_set(json, "note", reply->note);
    if (json && reply->hint[0])
        json_object_set_new(json, "hint", json_string(reply->hint));
    return json;
}

static json_t *plain_text(const struct tool_reply *reply)
{
    const struct result *result = &reply->result;
    json_t *json = json_pack("{s:b, s:o, s:i, s:b, s:f}", "success", is_fine(result), "output",
                             text_to_json(buf_text(&reply->text), reply->text.length), "exit_code",
                             result->exit_code, "timed_out", result->timed_out, "execution_time",
                             (double)result->duration_ns / 1e9);

    if (json && result->error.code) {
        json_object_set_new(json, "error", text(result->error.text));
        json_object_set_new(json, "code", json_string(result->error.code));
    }
    if (json)
        json_object_set_new(json, "hint", json_string(reply->hint));
    if (json && reply->note)
        json_object_set(json, "note", reply->note);
    return json;
}

static json_t *of_kind(const struct tool_reply *reply)
{
    switch (reply->kind) {
    case TOOL_REPLY_FAILED:
        return failed(reply);
    case TOOL_REPLY_FILE:
        return json_pack("{s:b, s:s, s:I, s:s}", "success", 1, "file_path", reply->file_path,
                         "bytes_written", (json_int_t)reply->bytes_written, "hint", reply->hint);
    case TOOL_REPLY_STARTED:
        return json_pack("{s:b, s:s, s:b, s:s}", "success", 1, "execution_id", reply->execution_id,
                         "running", 1, "hint", reply->hint);
    case TOOL_REPLY_RUNNING:
        return running(reply);
    case TOOL_REPLY_COMMAND:
        return command(reply);
    case TOOL_REPLY_RESULT:
        return one_result(reply);
    case TOOL_REPLY_TEXT:
        return plain_text(reply);
    case TOOL_REPLY_INSTALLED:
        return json_pack("{s:b, s:O, s:s}", "success", 1, "installed", reply->installed, "hint",
                         reply->hint);
    case TOOL_REPLY_PAUSED:
        return json_pack("{s:b, s:b, s:s}", "success", 1, "paused", reply->is_paused, "hint",
                         reply->hint);
    }
    return NULL;
}

json_t *tool_reply_json(const struct tool_reply *reply)
{
    json_t *json = of_kind(reply);

    add_read_on(reply, json);
    if (json && reply->session_id[0])
        json_object_set_new(json, "session_id", json_string(reply->session_id));
    if (json && reply->session_note[0])
        json_object_set_new(json, "session_note", text(reply->session_note));
    return json;
}
