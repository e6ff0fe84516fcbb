/*
 * events.c - what an agent does, as items of a response and as events of its stream; see
 * responses.h.
 *
 * One item is open at a time, so that the events of items never interleave. Every event gets its
 * number here, whether a client reads it or not.
 */
#include <string.h>

#include "api/responses/responses.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "http/sse.h"
#include "model/text.h"

#define CITED_PATH_MAX 4200
#define EVENT_MAX (64 * MIB) /* a whole response, with its outputs, is the largest */

/* ---- events of a stream ---- */

/* An event that cannot be made or kept would leave a stream that looks whole: it is cut instead. */
static void queue(struct response *response, const char *type, json_t *event)
{
    struct response_event *made = calloc(1, sizeof(*made));
    CLEANUP(buf_free) struct buf text = BUF_INIT(EVENT_MAX);

    if (made)
        made->text = BUF_INIT(EVENT_MAX);
    if (!made || text_of_json(event, FRONT_JSON, &text) < 0 ||
        sse_write(&made->text, NULL, type, buf_text(&text), text.length) < 0) {
        if (made)
            buf_free(&made->text);
        free(made);
        response->stream.is_broken = true;
        return;
    }
    if (response->last)
        response->last->next = made;
    else
        response->events = made;
    response->last = made;
    response->unread += made->text.length;
    if (!response->is_paused && response->unread > LIMIT_RESPONSE_UNREAD && response->agent) {
        response->is_paused = true;
        agent_pause(response->agent, true);
    }
}

void response_emit(struct response *response, const char *type, json_t *event)
{
    json_int_t number = response->sequence++;

    if (response->has_reader && event) {
        json_t *whole = json_pack("{s:s, s:I}", "type", type, "sequence_number", number);

        if (whole && json_object_update(whole, event) == 0)
            queue(response, type, whole);
        else
            response->stream.is_broken = true;
        json_decref(whole);
        if (response->has_begun)
            http_reply_more(response->stream.http);
    }
    json_decref(event);
}

static json_t *view(struct response *response)
{
    return render_response(response->door->front, response->object, response->has_outputs,
                           response->base);
}

static json_int_t place_of(struct response *response)
{
    return (json_int_t)json_array_size(response->items) - 1;
}

static json_t *id_of(struct response *response)
{
    return json_object_get(response->open, "id");
}

/* ---- items ---- */

static void open_item(struct response *response, json_t *item)
{
    if (!item || json_array_append_new(response->items, item) < 0)
        return;
    response->open = item;
    buf_clear(&response->text);
    response_emit(
        response, "response.output_item.added",
        json_pack("{s:I, s:o}", "output_index", place_of(response), "item",
                  render_item(response->door->front, item, response->has_outputs, response->base)));
}

/* It is complete: its status is set before. A copy is sent, because clients see it as it was. */
static void close_item(struct response *response)
{
    json_t *item = response->open;

    response->open = NULL;
    response_emit(
        response, "response.output_item.done",
        json_pack("{s:I, s:o}", "output_index", place_of(response), "item",
                  render_item(response->door->front, item, response->has_outputs, response->base)));
}

/* An event about the open item; `more` is taken over, and may be NULL. */
static void emit_about(struct response *response, const char *type, json_t *more)
{
    json_t *event =
        json_pack("{s:I, s:O}", "output_index", place_of(response), "item_id", id_of(response));

    if (event && more)
        json_object_update(event, more);
    json_decref(more);
    response_emit(response, type, event);
}

static bool is_open(const struct response *response, const char *type)
{
    return str_equal(json_string_value(json_object_get(response->open, "type")), type);
}

static void new_id(const char *prefix, char id[ID_MAX])
{
    if (id_make(id, prefix) < 0)
        str_format(id, ID_MAX, "%s_0", prefix);
}

/* ---- messages ---- */

static json_t *text_part(struct response *response, json_t *annotations)
{
    return json_pack("{s:s, s:o, s:o, s:[]}", "type", "output_text", "text",
                     json_stringn_nocheck(buf_text(&response->text), response->text.length),
                     "annotations", annotations, "logprobs");
}

static void open_message(struct response *response)
{
    char id[ID_MAX];

    new_id("msg", id);
    open_item(response, json_pack("{s:s, s:s, s:s, s:s, s:[]}", "id", id, "type", "message",
                                  "status", "in_progress", "role", "assistant", "content"));
    emit_about(
        response, "response.content_part.added",
        json_pack("{s:i, s:o}", "content_index", 0, "part", text_part(response, json_array())));
}

/* Characters, not bytes, as clients count. */
static json_int_t characters(const char *text, size_t length)
{
    json_int_t count = 0;

    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* A file that code wrote: over the link to it in the text, or over nothing. */
static json_t *citation(struct response *response, json_t *file)
{
    const char *path = json_string_value(json_object_get(file, "path"));
    const char *text = buf_text(&response->text), *at = NULL;
    char link[CITED_PATH_MAX];
    json_int_t start = 0, end = 0;

    if (path && str_format(link, sizeof(link), "sandbox:%s", path) == 0)
        at = strstr(text, link);
    if (at) {
        start = characters(text, (size_t)(at - text));
        end = start + characters(link, strlen(link));
    }
    return json_pack("{s:s, s:s, s:O, s:O, s:I, s:I}", "type", "container_file_citation",
                     "container_id", response->container, "file_id", json_object_get(file, "id"),
                     "filename", json_object_get(file, "name"), "start_index", start, "end_index",
                     end);
}

static json_t *cite(struct response *response)
{
    json_t *annotations = json_array(), *file;
    size_t i;

    json_array_foreach(response->files, i, file)
    {
        json_t *made = citation(response, file);

        json_array_append(annotations, made);
        emit_about(response, "response.output_text.annotation.added",
                   json_pack("{s:i, s:i, s:o}", "content_index", 0, "annotation_index", (int)i,
                             "annotation", made));
    }
    json_array_clear(response->files);
    return annotations;
}

static void close_message(struct response *response, const char *status)
{
    json_t *part = text_part(response, cite(response));

    emit_about(response, "response.output_text.done",
               json_pack("{s:i, s:O, s:[]}", "content_index", 0, "text",
                         json_object_get(part, "text"), "logprobs"));
    emit_about(response, "response.content_part.done",
               json_pack("{s:i, s:O}", "content_index", 0, "part", part));
    json_object_set_new(response->open, "content", json_pack("[o]", part));
    json_object_set_new(response->open, "status", json_string(status));
    close_item(response);
}

static void on_text(void *ctx, const char *text, size_t length)
{
    struct response *response = ctx;

    if (!is_open(response, "message"))
        open_message(response);
    buf_append(&response->text, text, length);
    emit_about(
        response, "response.output_text.delta",
        json_pack("{s:i, s:s%, s:[]}", "content_index", 0, "delta", text, length, "logprobs"));
}

/* ---- calls ---- */

static void close_function(struct response *response, const char *status)
{
    json_t *arguments = json_stringn_nocheck(buf_text(&response->text), response->text.length);

    json_object_set(response->open, "arguments", arguments);
    emit_about(response, "response.function_call_arguments.done",
               json_pack("{s:O, s:O}", "arguments", arguments, "name",
                         json_object_get(response->open, "name")));
    json_object_set_new(response->open, "status", json_string(status));
    json_decref(arguments);
    close_item(response);
}

/* Whatever is open when a call begins, or the response ends. */
static void close_open(struct response *response, const char *status)
{
    if (!response->open)
        return;
    if (is_open(response, "message")) {
        close_message(response, status);
    } else if (is_open(response, "function_call")) {
        close_function(response, status);
    } else {
        json_object_set_new(response->open, "status",
                            json_string(str_equal(status, "completed") ? status : "incomplete"));
        close_item(response);
    }
}

static void on_call_began(void *ctx, const struct agent_call *call)
{
    struct response *response = ctx;
    char id[ID_MAX];

    close_open(response, "completed");
    new_id(call->is_code ? "ci" : "fc", id);
    if (!call->is_code) {
        open_item(response, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "id", id, "type",
                                      "function_call", "status", "in_progress", "call_id", call->id,
                                      "name", call->name, "arguments", ""));
        return;
    }
    str_copy(response->container, sizeof(response->container), call->container);
    open_item(response, json_pack("{s:s, s:s, s:s, s:s, s:[], s:s}", "id", id, "type",
                                  "code_interpreter_call", "status", "in_progress", "code", "",
                                  "outputs", "container_id", call->container));
    emit_about(response, "response.code_interpreter_call.in_progress", NULL);
}

static void on_call_text(void *ctx, const struct agent_call *call, const char *text, size_t length)
{
    struct response *response = ctx;

    buf_append(&response->text, text, length);
    emit_about(response,
               call->is_code ? "response.code_interpreter_call_code.delta"
                             : "response.function_call_arguments.delta",
               json_pack("{s:s%}", "delta", text, length));
}

/* What was shown early is the beginning of it; if not, the whole is what counts. */
static void show_rest(struct response *response, const struct agent_call *call)
{
    size_t shown = response->text.length;

    if (call->length > shown && (shown == 0 || memcmp(call->text, response->text.data, shown) == 0))
        on_call_text(response, call, call->text + shown, call->length - shown);
}

static void on_call_ready(void *ctx, const struct agent_call *call)
{
    struct response *response = ctx;
    json_t *code;

    show_rest(response, call);
    if (!call->is_code) {
        close_function(response, "completed");
        return;
    }
    code = json_stringn_nocheck(call->text ? call->text : "", call->length);
    json_object_set(response->open, "code", code);
    emit_about(response, "response.code_interpreter_call_code.done",
               json_pack("{s:o}", "code", code));
}

static void on_running(void *ctx, const struct agent_call *call)
{
    (void)call;
    emit_about(ctx, "response.code_interpreter_call.interpreting", NULL);
}

/* All logs of a response are in memory until it is over. */
static json_t *logs_of(struct response *response, const struct code_outcome *outcome)
{
    if (outcome->logs.length > LIMIT_RESPONSE_LOGS - response->logs)
        return json_sprintf(
            "[left out: the output of all code of one response has at most %llu MB]",
            LIMIT_RESPONSE_LOGS / MIB);
    response->logs += outcome->logs.length;
    return text_to_json(outcome->logs.data, outcome->logs.length);
}

static json_t *outputs_of(struct response *response, const struct code_outcome *outcome)
{
    json_t *list = json_array(), *image;
    size_t i;

    if (outcome->logs.length > 0)
        json_array_append_new(
            list, json_pack("{s:s, s:o}", "type", "logs", "logs", logs_of(response, outcome)));
    json_array_foreach(outcome->images, i, image) json_array_append_new(
        list, json_pack("{s:s, s:O}", "type", "image", "_id", json_object_get(image, "id")));
    return list;
}

static void on_ran(void *ctx, const struct agent_call *call, const struct code_outcome *outcome)
{
    struct response *response = ctx;

    (void)call;
    json_object_set_new(response->open, "outputs", outputs_of(response, outcome));
    json_object_set_new(response->open, "_told",
                        text_to_json(buf_text(&outcome->told), outcome->told.length));
    json_array_extend(response->files, outcome->files);
    json_object_set_new(response->open, "status",
                        json_string(outcome->is_failed ? "failed" : "completed"));
    if (!outcome->is_failed)
        emit_about(response, "response.code_interpreter_call.completed", NULL);
    close_item(response);
}

/* ---- beginning and end ---- */

static void on_begun(void *ctx)
{
    struct response *response = ctx;

    response->has_begun = true;
    if (response->is_streaming && response->http) {
        struct http_request *http = response->http;

        response->http = NULL; /* the stream has it from now on */
        http_on_gone(http, NULL, NULL);
        front_stream_start(&response->stream, 200, TYPE_EVENTS, front_event_headers, -1);
    }
}

static json_t *usage_json(const struct token_usage *usage)
{
    return json_pack("{s:I, s:{s:I, s:I}, s:I, s:{s:I}, s:I}", "input_tokens", usage->input,
                     "input_tokens_details", "cached_tokens", usage->cached, "cache_write_tokens",
                     usage->written, "output_tokens", usage->output, "output_tokens_details",
                     "reasoning_tokens", usage->reasoning, "total_tokens",
                     usage->input + usage->output);
}

static void set_ending(struct response *response, const char *status,
                       const struct agent_ending *why)
{
    json_t *object = response->object;

    json_object_set_new(object, "status", json_string(status));
    if (str_equal(status, "completed"))
        json_object_set_new(object, "completed_at",
                            json_integer((json_int_t)(clock_wall_ms() / 1000)));
    if (why)
        json_object_set_new(object, "usage", usage_json(&why->usage));
    if (str_equal(status, "incomplete"))
        json_object_set_new(object, "incomplete_details",
                            json_pack("{s:s}", "reason",
                                      why && why->reason == AGENT_FILTERED ? "content_filter"
                                                                           : "max_output_tokens"));
    if (str_equal(status, "failed"))
        json_object_set_new(object, "error",
                            json_pack("{s:s, s:o}", "code", "server_error", "message",
                                      why ? text_to_json(why->error.text, strlen(why->error.text))
                                          : json_string("the response was ended")));
}

/* What a client waits for that reads no stream. */
static void answer(struct response *response)
{
    struct http_request *http = response->http;

    if (!http)
        return;
    response->http = NULL;
    http_on_gone(http, NULL, NULL);
    front_reply(http, 200, view(response));
}

void response_finish(struct response *response, const char *status, const struct agent_ending *why)
{
    struct error err = {0};

    if (response->is_over)
        return;
    close_open(response, str_equal(status, "completed") ? "completed" : "incomplete");
    response->is_over = true;
    set_ending(response, status, why);
    if (response->was_stored && response_store(response, &err) < 0)
        log_warning("response %s: %s, continuing without storing its end", response->id, err.text);
    json_decref(ptr_take(&response->input));
    if (response->has_reader) {
        char type[32];

        /* There is no event for a cancelled one. */
        str_format(type, sizeof(type), "response.%s",
                   str_equal(status, "cancelled") ? "incomplete" : status);
        response_emit(response, type, json_pack("{s:o}", "response", view(response)));
    }
    answer(response);
}

static const char *status_of(enum agent_reason reason)
{
    switch (reason) {
    case AGENT_COMPLETED:
        return "completed";
    case AGENT_TOKENS:
    case AGENT_TURNS:
    case AGENT_FILTERED:
        return "incomplete";
    case AGENT_FAILED:
        break;
    }
    return "failed";
}

static void on_ended(void *ctx, const struct agent_ending *ending)
{
    struct response *response = ctx;
    struct agent *agent = response->agent;

    response->agent = NULL;
    if (ending->reason == AGENT_FAILED && !ending->has_begun && response->http)
        response_refused(response, ending);
    else
        response_finish(response, status_of(ending->reason), ending);
    agent_end(agent);
    response_free(response);
}

const struct agent_events response_agent_events = {
    .begun = on_begun,
    .text = on_text,
    .call_began = on_call_began,
    .call_text = on_call_text,
    .call_ready = on_call_ready,
    .running = on_running,
    .ran = on_ran,
    .ended = on_ended,
};
