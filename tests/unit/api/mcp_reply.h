/*
 * mcp_reply.h - a tool's reply for the tests of MCP, written as the JSON that REST shows of it.
 * Static on purpose: each test program has its own.
 */
#ifndef BAILEY_TESTS_MCP_REPLY_H
#define BAILEY_TESTS_MCP_REPLY_H

#include <jansson.h>
#include <string.h>

#include "api/mcp/mcp.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/reply.h"

/* A fact has one of two places: beside the output, or in `meta`. */
static json_t *fact_of(json_t *json, const char *name)
{
    json_t *value = json_object_get(json, name);

    return value ? value : json_object_get(json_object_get(json, "meta"), name);
}

static enum tool_reply_kind kind_of(json_t *json)
{
    bool has_exit = json_object_get(json, "exit_code");

    if (!json_is_object(json) || json_object_get(json, "output"))
        return TOOL_REPLY_TEXT;
    if (json_is_true(json_object_get(json, "running")))
        return TOOL_REPLY_RUNNING;
    if (json_object_get(json, "meta"))
        return TOOL_REPLY_RESULT;
    if (json_object_get(json, "error") && !has_exit)
        return TOOL_REPLY_FAILED;
    if (json_object_get(json, "file_path"))
        return TOOL_REPLY_FILE;
    return has_exit ? TOOL_REPLY_COMMAND : TOOL_REPLY_STARTED;
}

static void take_stream(json_t *json, const char *stream, struct capture *capture)
{
    json_t *text = json_object_get(json, stream);
    char name[32];

    capture_add(capture, json_string_value(text), json_string_length(text), 1000000);
    str_format(name, sizeof(name), "%s_truncated", stream);
    capture->is_truncated = json_is_true(json_object_get(json, name));
    str_format(name, sizeof(name), "%s_bytes", stream);
    if (json_object_get(json, name))
        capture->total_bytes = (uint64_t)json_integer_value(json_object_get(json, name));
}

static void take_error(json_t *json, struct error *err)
{
    json_t *error = fact_of(json, "error");
    const char *text = json_is_object(error) ? json_string_value(json_object_get(error, "message"))
                                             : json_string_value(error);

    if (!text)
        return;
    err->code = ERROR_ENGINE;
    str_copy(err->text, sizeof(err->text), text);
}

static void take_run(json_t *json, struct tool_reply *reply)
{
    json_t *seconds = json_object_get(json, "execution_time");
    struct result *result = &reply->result;

    result_init(result, &(struct limits){.output_bytes = 1000000});
    reply->has_result = true;
    take_stream(json, "stdout", &result->out);
    take_stream(json, "stderr", &result->err);
    result->exit_code = (int)json_integer_value(json_object_get(json, "exit_code"));
    result->duration_ns = (uint64_t)(json_number_value(seconds) * 1e9);
    result->timed_out = json_is_true(fact_of(json, "timed_out"));
    result->oom_killed = json_is_true(fact_of(json, "oom_killed"));
    result->signal = (int)json_integer_value(fact_of(json, "signal"));
    take_error(json, &result->error);
}

static void take_outputs(json_t *json, struct tool_reply *reply)
{
    json_t *one;
    size_t i;

    reply->outputs = json_array();
    json_array_foreach(json_object_get(json, "output_files"), i, one)
    {
        if (json_is_string(one))
            json_array_append_new(reply->outputs, json_pack("{s:O}", "name", one));
        else
            json_array_append(reply->outputs, one);
    }
}

static void text_into(json_t *json, const char *name, char *to, size_t size)
{
    const char *text = json_string_value(json_object_get(json, name));

    str_copy(to, size, text ? text : "");
}

/* The work is answered with the reply that REST would show like this. What is not JSON is text. */
static void answer_with(struct mcp_work *work, const char *session, const char *body)
{
    CLEANUP(json_decrefp)
    json_t *json = json_loads(body, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    json_t *output = json_is_string(json) ? json : json_object_get(json, "output");
    CLEANUP(tool_reply_free) struct tool_reply reply = {.kind = kind_of(json)};

    text_into(json, "hint", reply.hint, sizeof(reply.hint));
    text_into(json, "session_note", reply.session_note, sizeof(reply.session_note));
    text_into(json, "execution_id", reply.execution_id, sizeof(reply.execution_id));
    text_into(json_object_get(json, "error"), "field", reply.field, sizeof(reply.field));
    text_into(json, "session_id", reply.session_id, sizeof(reply.session_id));
    reply.state = json_string_value(json_object_get(json, "state"));
    if (json_object_get(json, "news")) {
        reply.state = json_string_value(json_object_get(json, "news"));
        reply.is_state_news = true;
    }
    reply.file_path = json_string_value(json_object_get(json, "file_path"));
    reply.bytes_written = (uint64_t)json_integer_value(json_object_get(json, "bytes_written"));
    reply.text = BUF_INIT(1000000);
    if (reply.kind == TOOL_REPLY_TEXT)
        buf_append(&reply.text, output ? json_string_value(output) : body,
                   output ? json_string_length(output) : strlen(body));
    if (reply.kind == TOOL_REPLY_FAILED)
        take_error(json, &reply.error);
    else if (reply.kind != TOOL_REPLY_FILE && reply.kind != TOOL_REPLY_STARTED)
        take_run(json, &reply);
    take_outputs(json, &reply);
    mcp_work_called(work, session, &reply);
}

#endif
