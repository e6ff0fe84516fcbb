/* answer.c - what an agent does becomes events, a log of the code, and the reply; see chat.h. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/chat/chat.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "model/text.h"
#include "session/artifacts.h"
#include "session/output_type.h"

#define PICTURE_MAX (16 * MIB)

/* The model waits while its client reads slowly. */
static void pause_if_unread(struct chat *chat)
{
    if (chat->is_paused || !chat->agent || chat->stream.text.length < LIMIT_RESPONSE_UNREAD)
        return;
    chat->is_paused = true;
    agent_pause(chat->agent, true);
}

void chat_event(struct chat *chat, const char *name, json_t *data)
{
    if (!chat->is_streaming || chat->is_gone) {
        json_decref(data);
        return;
    }
    if (!chat->has_stream) {
        chat->has_stream = true;
        http_on_gone(chat->http, NULL, NULL);
        front_stream_event(&chat->stream, NULL, name, data);
        front_stream_start(&chat->stream, 200, TYPE_EVENTS, front_event_headers, -1);
        return;
    }
    front_stream_event(&chat->stream, NULL, name, data);
    pause_if_unread(chat);
    http_reply_more(chat->stream.http);
}

/* ---- text ---- */

static void add_text(struct chat *chat, const char *text, size_t length, bool is_last)
{
    size_t before = chat->content.length;

    if (chat->has_gap && length > 0) {
        chat->has_gap = false;
        if (before > 0)
            buf_append_text(&chat->content, "\n\n");
    }
    clean_feed(&chat->clean, text, length, is_last, &chat->content);
    if (chat->content.length > before)
        chat_event(
            chat, "text",
            json_pack("{s:o}", "delta",
                      text_to_json(chat->content.data + before, chat->content.length - before)));
}

static void on_begun(void *ctx)
{
    (void)ctx;
}

static void on_text(void *ctx, const char *text, size_t length)
{
    add_text(ctx, text, length, false);
}

/* ---- code ---- */

static void on_call(void *ctx, const struct agent_call *call)
{
    struct chat *chat = ctx;

    if (!call->is_code)
        return;
    add_text(chat, "", 0, true); /* a half link before it stays as it is */
    chat->has_gap = true;
}

static void on_call_text(void *ctx, const struct agent_call *call, const char *text, size_t length)
{
    (void)ctx;
    (void)call;
    (void)text;
    (void)length;
}

static void on_ready(void *ctx, const struct agent_call *call)
{
    struct chat *chat = ctx;
    json_t *code = call->is_code && call->text ? text_to_json(call->text, call->length) : NULL;

    if (!code)
        return;
    json_array_append_new(chat->log, json_pack("{s:O, s:n}", "code", code, "output"));
    chat_event(chat, "code", json_pack("{s:o}", "code", code));
}

static void on_running(void *ctx, const struct agent_call *call)
{
    (void)ctx;
    (void)call;
}

/* The bytes of a saved picture, as base64; NULL: it is not there, or too large. */
static json_t *picture_of(struct chat *chat, const char *id)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(PICTURE_MAX), text = BUF_INIT(2 * PICTURE_MAX);
    struct error ignored = {0};
    CLEANUP(fd_closep) int fd = artifact_open(chat->front->manager, id, &ignored);

    if (fd < 0 || buf_read_fd(&bytes, fd) < 0 ||
        base64_encode(buf_text(&bytes), bytes.length, &text) < 0)
        return NULL;
    return json_pack("{s:s, s:s}", "type", "image/png", "content", buf_text(&text));
}

/* As api/simple_output.h: an error, else a picture, else text. */
static json_t *shown_of(struct chat *chat, const struct code_outcome *outcome)
{
    const char *traceback = json_string_value(json_object_get(outcome->error, "traceback"));
    json_t *image, *json;
    size_t at;

    if (traceback)
        return json_pack("{s:s, s:s}", "type", "error", "content", traceback);
    if (outcome->is_failed || outcome->has_raised)
        return json_pack("{s:s, s:o}", "type", "error", "content",
                         text_to_json(buf_text(&outcome->told), outcome->told.length));
    json_array_foreach(outcome->images, at, image)
    {
        if (!str_equal(json_string_value(json_object_get(image, "mime")), "image/png"))
            continue;
        json = picture_of(chat, json_string_value(json_object_get(image, "id")));
        if (json)
            return json;
    }
    return json_pack("{s:s, s:o}", "type", "text", "content",
                     text_to_json(buf_text(&outcome->logs), outcome->logs.length));
}

/* The same, if it has room in the reply, which is in memory until the end. */
static json_t *output_of(struct chat *chat, const struct code_outcome *outcome)
{
    json_t *output = shown_of(chat, outcome);
    size_t bytes = json_string_length(json_object_get(output, "content"));

    if (bytes <= LIMIT_CHAT_LOG - chat->log_bytes) {
        chat->log_bytes += bytes;
        return output;
    }
    json_decref(output);
    return json_pack("{s:s, s:s}", "type", "text", "content",
                     "[left out: what the code of this message showed is more than a reply has]");
}

static void on_ran(void *ctx, const struct agent_call *call, const struct code_outcome *outcome)
{
    struct chat *chat = ctx;
    size_t count = json_array_size(chat->log);
    json_t *last = count > 0 ? json_array_get(chat->log, count - 1) : NULL;
    json_t *output;

    (void)call;
    if (!json_is_null(json_object_get(last, "output")))
        return; /* its arguments were no code: the model was told, and nothing ran */
    output = output_of(chat, outcome);
    if (!output)
        return;
    json_object_set(last, "output", output);
    chat_event(chat, "output", output);
}

/* ---- the end ---- */

static json_t *file_json(const struct chat *chat, const struct container_file *file)
{
    const char *name = container_file_name(file->path);

    return json_pack("{s:o, s:s, s:o, s:s, s:I}", "name", text_to_json(name, strlen(name)), "id",
                     file->id, "url",
                     json_sprintf("/v1/containers/%s/files/%s/content", chat->row.id, file->id),
                     "mime", output_type_find(name)->mime, "bytes", (json_int_t)file->bytes);
}

static json_t *reply_json(struct chat *chat, json_t *files)
{
    json_t *json =
        json_pack("{s:o, s:o, s:O, s:s, s:s}", "content",
                  text_to_json(buf_text(&chat->content), chat->content.length), "files", files,
                  "code_log", chat->log, "session", chat->row.session, "container", chat->row.id);

    if (json && chat->note)
        json_object_set_new(json, "note", json_string(chat->note));
    if (json && chat->is_verbose) {
        json_t *log = json_array();

        for (size_t i = chat->first; i < json_array_size(chat->messages); i++)
            json_array_append(log, json_array_get(chat->messages, i));
        json_object_set_new(json, "log", log);
        json_object_set_new(json, "usage",
                            json_pack("{s:I, s:I}", "input_tokens", chat->ending.usage.input,
                                      "output_tokens", chat->ending.usage.output));
    }
    return json;
}

static void send(struct chat *chat, json_t *files)
{
    json_t *reply = reply_json(chat, files);

    if (chat->is_streaming) {
        chat_event(chat, "done", reply);
        if (!chat->is_gone) {
            chat->stream.is_over = true;
            http_reply_more(chat->stream.http);
        }
        return;
    }
    http_on_gone(chat->http, NULL, NULL);
    front_reply(chat->http, 200, reply);
    chat_leave(chat);
}

static void on_looked(void *ctx, const struct container_file *files, size_t count,
                      const struct error *err)
{
    struct chat *chat = ctx;
    json_t *list = json_array();

    chat->job = NULL;
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, file_json(chat, &files[i]));
    if (err->num < 0 && !chat->note)
        chat->note = err->num == -E2BIG
                         ? "The code left too many files to list: ask for an archive."
                         : "The session ended with the code, and its files are gone.";
    send(chat, list);
}

/* A failure in words of the person who asked. */
static void fail_of_model(struct chat *chat, const struct agent_ending *ending)
{
    struct error err = ending->error;

    if (ending->status == 401 || ending->status == 403)
        error_set(&err, -EREMOTEIO, ERROR_UPSTREAM,
                  "the model server refuses the key: set BAILEY_UPSTREAM_KEY where 'bailey serve' "
                  "is started");
    else if (ending->status == 429)
        error_set(&err, -EREMOTEIO, ERROR_UPSTREAM,
                  "the model server is busy, or a quota there is used up: try again in a while");
    else if (err.code != ERROR_TOO_LARGE)
        err.code = ERROR_UPSTREAM;
    chat_fail(chat, &err);
}

static void on_ended(void *ctx, const struct agent_ending *ending)
{
    struct chat *chat = ctx;
    struct error err = {0};

    chat->ending = *ending;
    add_text(chat, "", 0, true);
    if (chat->is_gone)
        return;
    if (ending->reason == AGENT_FAILED) {
        fail_of_model(chat, ending);
        return;
    }
    if (ending->reason == AGENT_TOKENS)
        chat->note = "The answer is cut: the limit of tokens was reached.";
    else if (ending->reason == AGENT_TURNS)
        chat->note = "The model ran code too many times without an answer, and was stopped.";
    else if (ending->reason == AGENT_FILTERED)
        chat->note = "The model server's filter cut the answer.";
    chat_remember(chat);
    if (container_look(chat->front->manager, &chat->row, chat->started_ms, on_looked, chat,
                       &chat->job, &err) < 0)
        on_looked(chat, NULL, 0, &err);
}

const struct agent_events chat_agent_events = {
    .begun = on_begun,
    .text = on_text,
    .call_began = on_call,
    .call_text = on_call_text,
    .call_ready = on_ready,
    .running = on_running,
    .ran = on_ran,
    .ended = on_ended,
};
