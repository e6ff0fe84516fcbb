/* input.c - items of the Responses API into messages of Chat Completions; see responses.h. */
#include <errno.h>
#include <string.h>

#include "api/responses/responses.h"
#include "base/cleanup.h"
#include "base/str.h"

static int wrong_item(struct order *order, size_t index, struct error *err, const char *text)
{
    str_format(order->param_text, sizeof(order->param_text), "input[%zu]", index);
    order->param = order->param_text;
    return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s: %s", order->param, text);
}

static json_t *member(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);

    return json_is_null(value) ? NULL : value;
}

static const char *text_of(json_t *object, const char *name)
{
    return json_string_value(member(object, name));
}

/* ---- content ---- */

/* The text of a part; NULL: it has another type. */
static json_t *part_text(json_t *part)
{
    const char *type = text_of(part, "type");

    if (str_equal(type, "input_text") || str_equal(type, "output_text") || str_equal(type, "text"))
        return member(part, "text");
    return str_equal(type, "refusal") ? member(part, "refusal") : NULL;
}

static json_t *image_part(json_t *part)
{
    json_t *url = member(part, "image_url"), *detail = member(part, "detail");

    if (!url)
        url = member(part, "_data");
    if (json_is_object(url)) /* as Chat Completions has it */
        url = member(url, "url");
    return json_is_string(url) ? json_pack("{s:s, s:{s:O, s:O*}}", "type", "image_url", "image_url",
                                           "url", url, "detail", detail)
                               : NULL;
}

static json_t *file_part(json_t *part)
{
    json_t *data = member(part, "file_data"), *name = member(part, "filename");
    json_t *note = member(part, "_note");

    if (note)
        return json_pack("{s:s, s:O}", "type", "text", "text", note);
    if (!data)
        data = member(part, "_data");
    return json_is_string(data) ? json_pack("{s:s, s:{s:O*, s:O}}", "type", "file", "file",
                                            "filename", name, "file_data", data)
                                : NULL;
}

static int add_part(struct order *order, size_t index, json_t *part, json_t *parts,
                    struct error *err)
{
    const char *type = text_of(part, "type");
    json_t *text = part_text(part), *made = NULL;

    if (json_is_string(text))
        made = json_pack("{s:s, s:O}", "type", "text", "text", text);
    else if (str_equal(type, "input_image"))
        made = image_part(part);
    else if (str_equal(type, "input_file"))
        made = file_part(part);
    if (!made && str_equal(type, "input_image"))
        return wrong_item(order, index, err, "an input_image needs 'image_url'");
    if (!made && str_equal(type, "input_file"))
        return wrong_item(order, index, err,
                          "an input_file needs 'file_data'; addresses are not fetched here");
    if (!made)
        return wrong_item(order, index, err,
                          "has content of an unknown type; input_text, input_image, input_file, "
                          "output_text and refusal are served");
    if (json_array_append_new(parts, made) < 0)
        return error_memory(err);
    /* A picture is in the container, too. */
    if (str_equal(type, "input_image") && member(part, "_note") &&
        json_array_append_new(
            parts, json_pack("{s:s, s:O}", "type", "text", "text", member(part, "_note"))) < 0)
        return error_memory(err);
    return 0;
}

/* Text alone becomes a string: simple servers take nothing else. */
static json_t *simplify(json_t *parts)
{
    struct buf text = BUF_INIT(LIMIT_AGENT_HISTORY);
    json_t *part, *result;
    size_t i;

    json_array_foreach(parts, i, part)
    {
        json_t *one = json_object_get(part, "text");

        if (!json_is_string(one) || (i > 0 && buf_append_text(&text, "\n") < 0) ||
            buf_append(&text, json_string_value(one), json_string_length(one)) < 0) {
            buf_free(&text);
            return json_incref(parts);
        }
    }
    result = json_stringn(buf_text(&text), text.length);
    buf_free(&text);
    return result;
}

static int read_content(struct order *order, size_t index, json_t *content, json_t **ret,
                        struct error *err)
{
    json_t *parts, *part;
    size_t i;
    int r = 0;

    if (json_is_string(content)) {
        *ret = json_incref(content);
        return 0;
    }
    if (!json_is_array(content))
        return wrong_item(order, index, err, "has no 'content': a string or an array of parts");
    parts = json_array();
    json_array_foreach(content, i, part)
    {
        if (r == 0)
            r = add_part(order, index, part, parts, err);
    }
    *ret = r == 0 ? simplify(parts) : NULL;
    json_decref(parts);
    return r < 0 || *ret ? r : error_memory(err);
}

/* ---- items ---- */

static int add_message(struct order *order, json_t *messages, size_t index, json_t *item,
                       struct error *err)
{
    const char *role = text_of(item, "role");
    json_t *content = NULL;
    int r;

    if (str_equal(role, "developer"))
        role = "system"; /* which every server knows */
    if (!str_equal(role, "user") && !str_equal(role, "assistant") && !str_equal(role, "system"))
        return wrong_item(order, index, err,
                          "'role' has to be user, assistant, system or developer");
    r = read_content(order, index, member(item, "content"), &content, err);
    if (r < 0)
        return r;
    return json_array_append_new(messages,
                                 json_pack("{s:s, s:o}", "role", role, "content", content)) < 0
               ? error_memory(err)
               : 0;
}

/*
 * The assistant's message that a call belongs to: that of the calls just before it, whose results
 * may be there already, or of the text that came with it; else a new one. `place`: which message
 * has the calls just before, counted from 1; 0: there are none.
 */
static json_t *calls_of(json_t *messages, size_t *place)
{
    size_t at = *place ? *place : json_array_size(messages);
    json_t *message = json_array_get(messages, at - 1), *calls;

    if (!str_equal(text_of(message, "role"), "assistant")) {
        message = json_pack("{s:s, s:n}", "role", "assistant", "content");
        if (!message || json_array_append_new(messages, message) < 0)
            return NULL;
        at = json_array_size(messages);
    }
    *place = at;
    calls = json_object_get(message, "tool_calls");
    if (!calls) {
        calls = json_array();
        json_object_set_new(message, "tool_calls", calls);
    }
    return calls;
}

static int add_call(json_t *messages, size_t *place, const char *id, const char *name,
                    json_t *arguments, struct error *err)
{
    json_t *calls = calls_of(messages, place);

    return calls && json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:s, s:O}}", "id", id,
                                                           "type", "function", "function", "name",
                                                           name, "arguments", arguments)) == 0
               ? 0
               : error_memory(err);
}

static int add_result(json_t *messages, const char *id, json_t *content, struct error *err)
{
    return json_array_append_new(messages, json_pack("{s:s, s:s, s:o}", "role", "tool",
                                                     "tool_call_id", id, "content", content)) < 0
               ? error_memory(err)
               : 0;
}

static int add_function_call(struct order *order, json_t *messages, size_t index, json_t *item,
                             size_t *place, struct error *err)
{
    const char *id = text_of(item, "call_id"), *name = text_of(item, "name");
    json_t *arguments = member(item, "arguments");

    if (!id || !name || !json_is_string(arguments))
        return wrong_item(order, index, err,
                          "a function_call needs 'call_id', 'name' and 'arguments' as strings");
    return add_call(messages, place, id, name, arguments, err);
}

static int add_function_output(struct order *order, json_t *messages, size_t index, json_t *item,
                               struct error *err)
{
    const char *id = text_of(item, "call_id");
    json_t *content = NULL;
    int r;

    if (!id || !member(item, "output"))
        return wrong_item(order, index, err, "a function_call_output needs 'call_id' and 'output'");
    r = read_content(order, index, member(item, "output"), &content, err);
    return r < 0 ? r : add_result(messages, id, content, err);
}

/* What the model read: kept beside the item, or of an item that a client sends back, its logs. */
static json_t *told_of(json_t *item)
{
    json_t *told = member(item, "_told"), *outputs = member(item, "outputs"), *one;
    struct buf text = BUF_INIT(LIMIT_AGENT_HISTORY);
    json_t *result;
    size_t i;

    if (!outputs)
        outputs = member(member(item, "code_interpreter"), "outputs");
    if (json_is_string(told))
        return json_incref(told);
    json_array_foreach(outputs, i, one)
    {
        json_t *logs = member(one, "logs");

        if (json_is_string(logs))
            buf_append(&text, json_string_value(logs), json_string_length(logs));
        else if (str_equal(text_of(one, "type"), "image"))
            buf_append_text(&text, "[image: the user sees it]\n");
    }
    result = json_stringn(text.length > 0 ? buf_text(&text) : "[no output kept]",
                          text.length > 0 ? text.length : strlen("[no output kept]"));
    buf_free(&text);
    return result;
}

static int add_code_call(struct order *order, json_t *messages, size_t index, json_t *item,
                         size_t *place, struct error *err)
{
    const char *id = text_of(item, "id");
    json_t *code = member(item, "code"), *packed, *arguments;
    char *text;
    int r;

    if (!code)
        code = member(member(item, "code_interpreter"), "code");
    if (!id)
        return wrong_item(order, index, err, "a code_interpreter_call needs 'id'");
    packed = json_pack("{s:o}", "code", json_is_string(code) ? json_incref(code) : json_string(""));
    text = packed ? json_dumps(packed, JSON_COMPACT) : NULL;
    arguments = text ? json_string(text) : NULL;
    r = arguments ? add_call(messages, place, id, AGENT_TOOL, arguments, err) : error_memory(err);
    if (r == 0)
        r = add_result(messages, id, told_of(item), err);
    free(text);
    json_decref(packed);
    json_decref(arguments);
    return r;
}

static int add_item(struct order *order, json_t *messages, size_t index, json_t *item,
                    size_t *place, struct error *err)
{
    const char *type = text_of(item, "type");

    if (!json_is_object(item))
        return wrong_item(order, index, err, "has to be an object");
    if ((!type && member(item, "role")) || str_equal(type, "message"))
        return add_message(order, messages, index, item, err);
    if (str_equal(type, "function_call"))
        return add_function_call(order, messages, index, item, place, err);
    if (str_equal(type, "function_call_output"))
        return add_function_output(order, messages, index, item, err);
    if (str_equal(type, "code_interpreter_call"))
        return add_code_call(order, messages, index, item, place, err);
    if (str_equal(type, "reasoning"))
        return 0; /* Chat Completions has no place for it */
    return wrong_item(order, index, err,
                      "is of a type that is not served; message, function_call, "
                      "function_call_output, code_interpreter_call, item_reference and reasoning "
                      "are");
}

int input_add(struct order *order, json_t *messages, json_t *items, struct error *err)
{
    json_t *item;
    size_t place = 0; /* see calls_of() */
    size_t i;
    int r = 0;

    json_array_foreach(items, i, item)
    {
        const char *type = text_of(item, "type");

        if (r == 0)
            r = add_item(order, messages, i, item, &place, err);
        if (!str_equal(type, "function_call") && !str_equal(type, "code_interpreter_call"))
            place = 0;
    }
    return r;
}

/* The id that an item without one gets; its prefix is that of OpenAI's. */
static int give_id(json_t *item)
{
    const char *type = text_of(item, "type");
    char id[ID_MAX];

    if (member(item, "id"))
        return 0;
    if (!type)
        json_object_set_new(item, "type", json_string("message"));
    if (id_make(id, !type || str_equal(type, "message")        ? "msg"
                    : str_equal(type, "function_call")         ? "fc"
                    : str_equal(type, "function_call_output")  ? "fco"
                    : str_equal(type, "code_interpreter_call") ? "ci"
                                                               : "item") < 0)
        return -1;
    return json_object_set_new(item, "id", json_string(id));
}

/* For GET .../input_items: a message there has parts, and a status. */
static void complete(json_t *item)
{
    json_t *content = member(item, "content");
    const char *role = text_of(item, "role");

    if (!role)
        return;
    if (json_is_string(content))
        json_object_set_new(item, "content",
                            str_equal(role, "assistant")
                                ? json_pack("[{s:s, s:O, s:[]}]", "type", "output_text", "text",
                                            content, "annotations")
                                : json_pack("[{s:s, s:O}]", "type", "input_text", "text", content));
    if (!member(item, "status"))
        json_object_set_new(item, "status", json_string("completed"));
}

int input_items(struct order *order, json_t *input, json_t **ret, struct error *err)
{
    json_t *items, *item;
    size_t i;

    if (!input || json_is_string(input))
        items = input ? json_pack("[{s:s, s:s, s:O}]", "type", "message", "role", "user", "content",
                                  input)
                      : json_array();
    else if (json_is_array(input))
        items = json_deep_copy(input);
    else {
        order->param = "input";
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "input: has to be a string or an array of items");
    }
    json_array_foreach(items, i, item)
    {
        if (!json_is_object(item)) {
            json_decref(items);
            return wrong_item(order, i, err, "has to be an object");
        }
        json_object_del(item, "_told"); /* ours only */
        if (give_id(item) < 0) {
            json_decref(items);
            return error_memory(err);
        }
        complete(item);
    }
    *ret = items;
    return items ? 0 : error_memory(err);
}
