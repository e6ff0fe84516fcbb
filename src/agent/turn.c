/* turn.c - events of a model server's stream into one answer; see turn.h. */
#include "agent/turn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "model/json.h"

void turn_init(struct turn *turn)
{
    *turn = (struct turn){.text = BUF_INIT(LIMIT_AGENT_TEXT)};
}

void turn_free(struct turn *turn)
{
    buf_free(&turn->text);
    for (size_t i = 0; i < turn->count; i++) {
        buf_free(&turn->calls[i].arguments);
        buf_free(&turn->calls[i].code);
    }
    free(turn->calls);
    turn_init(turn);
}

static int too_large(int r, struct error *err)
{
    if (r == -EFBIG)
        return error_set(err, r, ERROR_TOO_LARGE, "the answer of the model is larger than %llu MB",
                         LIMIT_AGENT_TEXT / MIB);
    return r < 0 ? error_memory(err) : 0;
}

static int grow(struct turn *turn, size_t length)
{
    if (length > LIMIT_AGENT_TEXT - turn->bytes)
        return -EFBIG;
    turn->bytes += length;
    return 0;
}

static int add_text(struct turn *turn, json_t *value)
{
    size_t length = json_string_length(value);
    int r = grow(turn, length);

    return r < 0 || length == 0 ? r : buf_append(&turn->text, json_string_value(value), length);
}

/* A string, or parts {"type":"text","text"}. */
static int add_content(struct turn *turn, json_t *content)
{
    json_t *part;
    size_t i;
    int r = 0;

    if (!json_is_array(content))
        return json_is_string(content) ? add_text(turn, content) : 0;
    json_array_foreach(content, i, part)
    {
        json_t *text = json_object_get(part, "text");

        if (r == 0 && json_is_string(text))
            r = add_text(turn, text);
    }
    return r;
}

/* ---- tool calls ---- */

static struct turn_call *new_call(struct turn *turn, json_int_t index)
{
    struct turn_call *calls;

    if (turn->count == LIMIT_AGENT_CALLS)
        return NULL;
    calls = realloc(turn->calls, (turn->count + 1) * sizeof(*calls));
    if (!calls)
        return NULL;
    turn->calls = calls;
    calls += turn->count++;
    *calls = (struct turn_call){.index = index,
                                .arguments = BUF_INIT(LIMIT_AGENT_TEXT),
                                .code = BUF_INIT(LIMIT_AGENT_TEXT)};
    return calls;
}

/*
 * The call that a fragment belongs to. One with an id of its own that differs from the id under its
 * index is a new call: some servers number each call 0.
 */
static struct turn_call *call_of(struct turn *turn, json_t *fragment, const char *id,
                                 const char *name)
{
    json_t *index = json_object_get(fragment, "index");
    json_int_t wanted = json_is_integer(index) ? json_integer_value(index) : -1;
    struct turn_call *last = turn->count > 0 ? &turn->calls[turn->count - 1] : NULL;

    for (size_t i = turn->count; wanted >= 0 && i > 0; i--) {
        struct turn_call *call = &turn->calls[i - 1];

        if (call->index != wanted)
            continue;
        if (id && name && call->name[0] && !call->has_own_id && !str_equal(call->id, id))
            break;
        return call;
    }
    if (wanted < 0 && last && !(name && last->name[0]) &&
        !(id && !last->has_own_id && !str_equal(last->id, id)))
        return last;
    return new_call(turn, wanted);
}

static int add_arguments(struct turn *turn, struct turn_call *call, json_t *arguments)
{
    CLEANUP(freep) char *dumped = NULL;
    const char *text = json_string_value(arguments);
    size_t length = json_string_length(arguments);
    int r;

    if (json_is_object(arguments)) {
        text = dumped = json_dumps(arguments, JSON_COMPACT);
        if (!text)
            return -ENOMEM;
        length = strlen(text);
    }
    if (!text || length == 0)
        return 0;
    r = grow(turn, length);
    if (r == 0)
        r = buf_append(&call->arguments, text, length);
    return r < 0 ? r : code_text_feed(&call->decoder, text, length, &call->code);
}

static int add_call(struct turn *turn, json_t *fragment)
{
    json_t *function = json_object_get(fragment, "function");
    const char *id = json_string_value(json_object_get(fragment, "id"));
    const char *name = json_string_value(json_object_get(function, "name"));
    struct turn_call *call;

    id = id && id[0] ? id : NULL;
    name = name && name[0] ? name : NULL;
    call = call_of(turn, fragment, id, name);
    if (!call)
        return turn->count == LIMIT_AGENT_CALLS ? -EFBIG : -ENOMEM;
    if (!call->id[0]) {
        char made[ID_MAX];

        call->has_own_id = !id || strlen(id) >= sizeof(call->id);
        if (call->has_own_id && id_make(made, "call") < 0)
            return -ENOMEM;
        str_copy(call->id, sizeof(call->id), call->has_own_id ? made : id);
    }
    if (name && !call->name[0])
        str_copy(call->name, sizeof(call->name), name);
    return add_arguments(turn, call, json_object_get(function, "arguments"));
}

static int add_calls(struct turn *turn, json_t *list)
{
    json_t *fragment;
    size_t i;
    int r = 0;

    json_array_foreach(list, i, fragment)
    {
        if (r == 0 && json_is_object(fragment))
            r = add_call(turn, fragment);
    }
    return r;
}

/* ---- an event ---- */

static json_int_t count_of(json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));

    return value > 0 ? value : 0;
}

static void take_usage(struct turn *turn, json_t *usage)
{
    if (!json_is_object(usage))
        return;
    turn->usage = (struct token_usage){
        .input = count_of(usage, "prompt_tokens"),
        .cached = count_of(json_object_get(usage, "prompt_tokens_details"), "cached_tokens"),
        .written = count_of(json_object_get(usage, "prompt_tokens_details"), "cache_write_tokens"),
        .output = count_of(usage, "completion_tokens"),
        .reasoning =
            count_of(json_object_get(usage, "completion_tokens_details"), "reasoning_tokens"),
    };
}

static void take_finish(struct turn *turn, json_t *reason)
{
    const char *word = json_string_value(reason);

    if (!word || !word[0])
        return;
    turn->finish = str_equal(word, "length")           ? TURN_LENGTH
                   : str_equal(word, "content_filter") ? TURN_FILTERED
                                                       : TURN_STOPPED;
}

/* {"error": {"message"}}, {"error": "..."}, {"object": "error", "message"} */
static int take_error(json_t *event, struct error *err)
{
    json_t *error = json_object_get(event, "error");
    const char *text = json_string_value(json_object_get(error, "message"));

    if (!error && str_equal(json_string_value(json_object_get(event, "object")), "error"))
        error = event;
    if (!error || json_is_null(error))
        return 0;
    text = text ? text : json_string_value(error);
    text = text ? text : json_string_value(json_object_get(event, "message"));
    return error_set(err, -EREMOTEIO, ERROR_ENGINE, "the model server reports: %.600s",
                     text ? text : "an error");
}

static int take_choice(struct turn *turn, json_t *choice)
{
    json_t *delta = json_object_get(choice, "delta");
    json_t *function;
    int r;

    delta = json_is_object(delta) ? delta : json_object_get(choice, "message");
    function = json_object_get(delta, "function_call");
    r = add_content(turn, json_object_get(delta, "content"));
    if (r == 0 && json_is_string(json_object_get(delta, "refusal")))
        r = add_text(turn, json_object_get(delta, "refusal"));
    if (r == 0)
        r = add_calls(turn, json_object_get(delta, "tool_calls"));
    if (r == 0 && json_is_object(function)) { /* of servers from before tools */
        CLEANUP(json_decrefp)
        json_t *call = json_pack("{s:i, s:O}", "index", 0, "function", function);

        r = call ? add_call(turn, call) : -ENOMEM;
    }
    take_finish(turn, json_object_get(choice, "finish_reason"));
    return r;
}

int turn_event(struct turn *turn, const char *data, size_t length, struct error *err)
{
    CLEANUP(json_decrefp) json_t *event = json_parse(data, length, 0, NULL);
    json_t *choices = json_object_get(event, "choices");
    int r;

    if (!json_is_object(event))
        return error_set(err, -EPROTO, ERROR_ENGINE,
                         "the model server sent something that is not an event of Chat "
                         "Completions");
    r = take_error(event, err);
    if (r < 0)
        return r;
    take_usage(turn, json_object_get(event, "usage"));
    turn->has_choice |= json_array_size(choices) > 0;
    return too_large(
        json_array_size(choices) > 0 ? take_choice(turn, json_array_get(choices, 0)) : 0, err);
}
