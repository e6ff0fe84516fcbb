/* request.c - checks the body of POST /v1/responses; see responses.h. */
#include <errno.h>
#include <string.h>

#include "api/responses/responses.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "session/container.h"
#include "session/upload.h"

#define NO_MODEL "default" /* where neither request nor configuration names one */
#define METADATA_MAX 16
#define TOOLS_MAX 256
#define FILE_IDS_MAX 50

static int wrong(struct order *order, const char *param, struct error *err, const char *text)
{
    order->param = param;
    return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s: %s", param, text);
}

/* A member that is null is one that is missing. */
static json_t *member(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);

    return json_is_null(value) ? NULL : value;
}

void order_free(struct order *order)
{
    json_decref(order->base);
    json_decref(order->input);
    json_decref(order->messages);
    json_decref(order->functions);
    json_decref(order->choice);
    json_decref(order->options);
    json_decref(order->place.file_ids);
    json_decref(order->names);
    json_decref(order->taken);
    *order = (struct order){0};
}

/* ---- members by their type ---- */

enum member_type { IS_ANY, IS_TEXT, IS_BOOLEAN, IS_COUNT, IS_NUMBER, IS_OBJECT, IS_ARRAY };

struct member_row {
    const char *name;
    enum member_type type;
    double minimum, maximum; /* of a number */
    const char *passed;      /* its name for the model server; NULL: it is not passed on */
    const char *fallback;    /* JSON text that is echoed; NULL: it is not echoed */
};

static const struct member_row members[] = {
    {"model", IS_TEXT, 0, 0, NULL, NULL},
    {"input", IS_ANY, 0, 0, NULL, NULL},
    {"instructions", IS_TEXT, 0, 0, NULL, "null"},
    {"tools", IS_ARRAY, 0, 0, NULL, NULL},
    {"tool_choice", IS_ANY, 0, 0, NULL, "\"auto\""},
    {"parallel_tool_calls", IS_BOOLEAN, 0, 0, "parallel_tool_calls", "true"},
    {"max_tool_calls", IS_COUNT, 1, 1e9, NULL, "null"},
    {"max_output_tokens", IS_COUNT, 16, 1e9, NULL, "null"},
    {"temperature", IS_NUMBER, 0, 2, "temperature", "1.0"},
    {"top_p", IS_NUMBER, 0, 1, "top_p", "1.0"},
    {"presence_penalty", IS_NUMBER, -2, 2, "presence_penalty", "0.0"},
    {"frequency_penalty", IS_NUMBER, -2, 2, "frequency_penalty", "0.0"},
    {"top_logprobs", IS_COUNT, 0, 0, NULL, "0"},
    {"text", IS_OBJECT, 0, 0, NULL, NULL},
    {"reasoning", IS_OBJECT, 0, 0, NULL, NULL},
    {"truncation", IS_TEXT, 0, 0, NULL, "\"disabled\""},
    {"include", IS_ARRAY, 0, 0, NULL, NULL},
    {"store", IS_BOOLEAN, 0, 0, NULL, "true"},
    {"stream", IS_BOOLEAN, 0, 0, NULL, NULL},
    {"stream_options", IS_OBJECT, 0, 0, NULL, NULL},
    {"previous_response_id", IS_TEXT, 0, 0, NULL, "null"},
    {"conversation", IS_ANY, 0, 0, NULL, NULL},
    {"prompt", IS_ANY, 0, 0, NULL, NULL},
    {"background", IS_BOOLEAN, 0, 0, NULL, "false"},
    {"metadata", IS_OBJECT, 0, 0, NULL, "{}"},
    {"user", IS_TEXT, 0, 0, "user", NULL},
    {"safety_identifier", IS_TEXT, 0, 0, NULL, "null"},
    {"prompt_cache_key", IS_TEXT, 0, 0, NULL, "null"},
    {"prompt_cache_retention", IS_TEXT, 0, 0, NULL, NULL},
    {"prompt_cache_options", IS_OBJECT, 0, 0, NULL, NULL},
    {"service_tier", IS_TEXT, 0, 0, NULL, NULL},
    {"context_management", IS_ANY, 0, 0, NULL, NULL},
};

static const struct member_row *find_member(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        if (str_equal(members[i].name, name))
            return &members[i];
    return NULL;
}

static int check_number(struct order *order, const struct member_row *row, json_t *value,
                        struct error *err)
{
    double number = json_number_value(value);

    order->param = row->name;
    if (row->type == IS_COUNT ? !json_is_integer(value) : !json_is_number(value))
        return wrong(order, row->name, err,
                     row->type == IS_COUNT ? "has to be a whole number" : "has to be a number");
    if (number < row->minimum)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s: has to be at least %g", row->name,
                         row->minimum);
    if (number > row->maximum)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s: has to be at most %g%s", row->name,
                         row->maximum,
                         str_equal(row->name, "top_logprobs")
                             ? "; the model server's log probabilities are not passed on"
                             : "");
    return 0;
}

static int check_member(struct order *order, const struct member_row *row, json_t *value,
                        struct error *err)
{
    switch (row->type) {
    case IS_TEXT:
        return json_is_string(value) ? 0 : wrong(order, row->name, err, "has to be a string");
    case IS_BOOLEAN:
        return json_is_boolean(value) ? 0 : wrong(order, row->name, err, "has to be true or false");
    case IS_OBJECT:
        return json_is_object(value) ? 0 : wrong(order, row->name, err, "has to be an object");
    case IS_ARRAY:
        return json_is_array(value) ? 0 : wrong(order, row->name, err, "has to be an array");
    case IS_COUNT:
    case IS_NUMBER:
        return check_number(order, row, value, err);
    case IS_ANY:
        break;
    }
    return 0;
}

static int check_members(struct order *order, json_t *body, struct error *err)
{
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach(body, name, value)
    {
        const struct member_row *row = find_member(name);

        if (r < 0)
            break;
        if (!row) {
            const char *words[ARRAY_SIZE(members) + 1] = {0};
            const char *nearest;

            for (size_t i = 0; i < ARRAY_SIZE(members); i++)
                words[i] = members[i].name;
            nearest = str_nearest(name, words);
            str_format(order->param_text, sizeof(order->param_text), "%.100s", name);
            order->param = order->param_text;
            r = error_set(
                err, -EINVAL, ERROR_UNKNOWN_PARAMETER, "unknown parameter: '%.100s'%s%s%s", name,
                nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
        } else if (!json_is_null(value)) {
            r = check_member(order, row, value, err);
        }
    }
    return r;
}

/* What is there and cannot be honoured is an error. */
static int check_unserved(struct order *order, json_t *body, struct error *err)
{
    const char *truncation = json_string_value(member(body, "truncation"));
    const char *tier = json_string_value(member(body, "service_tier"));

    if (member(body, "conversation"))
        return wrong(order, "conversation", err,
                     "conversations are not kept here; use previous_response_id");
    if (member(body, "prompt"))
        return wrong(order, "prompt", err,
                     "stored prompts do not exist here; send instructions and input");
    if (member(body, "context_management"))
        return wrong(order, "context_management", err, "is not served here");
    if (truncation && !str_equal(truncation, "disabled"))
        return wrong(order, "truncation", err,
                     "only 'disabled' is served: a conversation is not shortened here");
    if (tier && !str_equal(tier, "auto") && !str_equal(tier, "default"))
        return wrong(order, "service_tier", err, "there is one tier here: 'auto' or 'default'");
    if (json_is_true(member(body, "background")) && json_is_false(member(body, "store")))
        return wrong(order, "background", err, "a background response has to be stored");
    return 0;
}

static int read_include(struct order *order, json_t *list, struct error *err)
{
    /* Those of tools that are not offered here name nothing that could be in the response. */
    static const char *const nothing[] = {"file_search_call.results",
                                          "web_search_call.results",
                                          "web_search_call.action.sources",
                                          "message.input_image.image_url",
                                          "computer_call_output.output.image_url",
                                          "reasoning.encrypted_content"};
    json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        const char *word = json_string_value(one);
        bool is_known = false;

        for (size_t k = 0; word && k < ARRAY_SIZE(nothing); k++)
            is_known |= str_equal(word, nothing[k]);
        if (str_equal(word, "code_interpreter_call.outputs"))
            order->has_outputs = is_known = true;
        if (is_known)
            continue;
        str_format(order->param_text, sizeof(order->param_text), "include[%zu]", i);
        order->param = order->param_text;
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "%s: '%.80s' is not served here; code_interpreter_call.outputs is",
                         order->param, word ? word : "?");
    }
    return 0;
}

static int check_metadata(struct order *order, json_t *metadata, struct error *err)
{
    const char *name;
    json_t *value;

    if (json_object_size(metadata) > METADATA_MAX)
        return wrong(order, "metadata", err, "has more than 16 members");
    json_object_foreach(metadata, name, value)
    {
        if (!json_is_string(value) || strlen(name) > 64 || json_string_length(value) > 512)
            return wrong(order, "metadata", err,
                         "has strings of at most 512 bytes, with names of at most 64");
    }
    return 0;
}

/* ---- text and reasoning ---- */

static int read_format(struct order *order, json_t *format, struct error *err)
{
    const char *type = json_string_value(member(format, "type"));
    json_t *schema, *passed;

    if (!format || str_equal(type, "text"))
        return 0;
    if (str_equal(type, "json_object")) {
        passed = json_pack("{s:s}", "type", "json_object");
    } else if (str_equal(type, "json_schema")) {
        if (!json_is_string(member(format, "name")) || !json_is_object(member(format, "schema")))
            return wrong(order, "text.format", err, "a json_schema needs 'name' and 'schema'");
        schema = json_copy(format);
        json_object_del(schema, "type");
        passed = json_pack("{s:s, s:o}", "type", "json_schema", "json_schema", schema);
    } else {
        return wrong(order, "text.format.type", err, "has to be text, json_object or json_schema");
    }
    return json_object_set_new(order->options, "response_format", passed) < 0 ? error_memory(err)
                                                                              : 0;
}

static int read_text(struct order *order, json_t *body, struct error *err)
{
    json_t *text = member(body, "text"), *format = member(text, "format");
    json_t *verbosity = member(text, "verbosity");
    json_t *echo;
    int r = read_format(order, format, err);

    if (r < 0)
        return r;
    echo = json_pack("{s:o}", "format",
                     format ? json_incref(format) : json_pack("{s:s}", "type", "text"));
    if (verbosity) {
        json_object_set(echo, "verbosity", verbosity);
        json_object_set(order->options, "verbosity", verbosity);
    }
    return json_object_set_new(order->base, "text", echo) < 0 ? error_memory(err) : 0;
}

static int read_reasoning(struct order *order, json_t *body, struct error *err)
{
    json_t *reasoning = member(body, "reasoning");
    json_t *effort = member(reasoning, "effort"), *summary = member(reasoning, "summary");
    json_t *echo =
        reasoning ? json_pack("{s:O?, s:O?}", "effort", effort, "summary", summary) : json_null();

    if (effort && !json_is_string(effort)) {
        json_decref(echo);
        return wrong(order, "reasoning.effort", err, "has to be a string");
    }
    if (effort)
        json_object_set(order->options, "reasoning_effort", effort);
    return json_object_set_new(order->base, "reasoning", echo) < 0 ? error_memory(err) : 0;
}

/* ---- tools ---- */

static int wrong_tool(struct order *order, size_t index, const char *rest, struct error *err,
                      const char *text)
{
    str_format(order->param_text, sizeof(order->param_text), "tools[%zu]%s", index, rest);
    order->param = order->param_text;
    return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s: %s", order->param, text);
}

/* The static text of a size; NULL: none of OpenAI's. */
static const char *memory_word(const char *text)
{
    static const char *const known[] = {"1g", "4g", "16g", "64g"};

    for (size_t i = 0; text && i < ARRAY_SIZE(known); i++)
        if (str_equal(text, known[i]))
            return known[i];
    return NULL;
}

/* The memory of a container is what the server gives; more than that is an error. */
static int check_memory(struct order *order, size_t index, json_t *value,
                        const struct config *config, struct error *err)
{
    const char *text = json_string_value(value);
    uint64_t bytes = 0;
    char most[32];

    if (!memory_word(text) || str_to_bytes(text, &bytes) < 0)
        return wrong_tool(order, index, ".container.memory_limit", err,
                          "has to be 1g, 4g, 16g or 64g");
    if (bytes <= config->limits.memory_bytes)
        return 0;
    str_from_bytes(config->limits.memory_bytes, most, sizeof(most));
    wrong_tool(order, index, ".container.memory_limit", err, "");
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "%s: '%s' is more than this server's maximum of %s (SANDBOX_MEMORY_LIMIT)",
                     order->param, text, most);
}

/* It is there, and not expired: a call would be late to say so. */
static int check_container(struct door_call *call, struct order *order, size_t index,
                           struct error *err)
{
    struct container_row row;
    struct session *session;
    int r = container_find(call->front->manager, call->caller.who.tenant, order->place.container,
                           &row, err);

    if (r == 0)
        r = container_session(call->front->manager, &row, &session, err);
    str_format(order->param_text, sizeof(order->param_text), "tools[%zu].container", index);
    order->param = order->param_text;
    return r;
}

int order_add_file(struct door_call *call, struct order *order, const char *id, struct error *err)
{
    char name[UPLOAD_NAME_MAX + 16];
    struct upload_row row;
    int r;

    if (json_object_get(order->names, id))
        return 0;
    if (json_array_size(order->place.file_ids) >= FILE_IDS_MAX)
        return error_set(err, -E2BIG, ERROR_BAD_INPUT, "%s: more than %d files", order->param,
                         FILE_IDS_MAX);
    r = upload_find(call->front->manager, call->caller.who.tenant, id, &row, err);
    if (r < 0)
        return r;
    order->place.needs_files = true;
    container_fill_name(order->taken, row.filename, name, sizeof(name));
    return json_object_set_new(order->names, id, json_string(name)) < 0 ||
                   json_array_append_new(order->place.file_ids, json_string(id)) < 0
               ? error_memory(err)
               : 0;
}

static int read_file_ids(struct door_call *call, struct order *order, size_t index, json_t *list,
                         struct error *err)
{
    json_t *one;
    size_t i;

    if (list && !json_is_array(list))
        return wrong_tool(order, index, ".container.file_ids", err, "has to be an array of ids");
    json_array_foreach(list, i, one)
    {
        if (!json_is_string(one))
            return wrong_tool(order, index, ".container.file_ids", err,
                              "has to be an array of ids");
        str_format(order->param_text, sizeof(order->param_text),
                   "tools[%zu].container.file_ids[%zu]", index, i);
        order->param = order->param_text;
        if (order_add_file(call, order, json_string_value(one), err) < 0)
            return err->num;
    }
    return 0;
}

static int read_auto(struct door_call *call, struct order *order, size_t index, json_t *container,
                     const struct config *config, struct error *err)
{
    json_t *memory = member(container, "memory_limit");
    json_t *policy = member(container, "network_policy");
    const char *word = json_string_value(member(policy, "type"));

    if (policy && str_equal(word, "allowlist"))
        return wrong_tool(order, index, ".container.network_policy", err,
                          "containers have no network here; only 'disabled' is served");
    if (policy && !str_equal(word, "disabled"))
        return wrong_tool(order, index, ".container.network_policy", err,
                          "has to be {\"type\":\"disabled\"}");
    if (memory && check_memory(order, index, memory, config, err) < 0)
        return err->num;
    order->place.has_policy = policy;
    order->place.memory = memory_word(json_string_value(memory));
    return read_file_ids(call, order, index, member(container, "file_ids"), err);
}

static int read_container(struct door_call *call, struct order *order, size_t index,
                          json_t *container, const struct config *config, struct error *err)
{
    if (!container)
        return 0; /* as auto */
    if (json_is_object(container) &&
        str_equal(json_string_value(member(container, "type")), "auto"))
        return read_auto(call, order, index, container, config, err);
    if (!json_is_string(container))
        return wrong_tool(order, index, ".container", err,
                          "has to be the id of a container, or {\"type\":\"auto\"}");
    if (!str_copy(order->place.container, sizeof(order->place.container),
                  json_string_value(container)) ||
        !str_starts(order->place.container, "cntr_"))
        return wrong_tool(order, index, ".container", err, "is not the id of a container");
    return check_container(call, order, index, err);
}

static int read_code_tool(struct door_call *call, struct order *order, size_t index, json_t *tool,
                          json_t *echo, const struct config *config, struct error *err)
{
    json_t *container = member(tool, "container");
    int r;

    if (!config->code_interpreter.is_enabled)
        return wrong_tool(order, index, "", err,
                          "the code interpreter is switched off here "
                          "(providers.code_interpreter.enabled)");
    if (order->has_code)
        return wrong_tool(order, index, "", err, "the code interpreter is there twice");
    r = read_container(call, order, index, container, config, err);
    if (r < 0)
        return r;
    order->has_code = true;
    order->place.is_fresh = config->code_interpreter.is_per_execution;
    if (order->place.is_fresh && order->place.container[0])
        return wrong_tool(order, index, ".container", err,
                          "this server uses a new sandbox for each execution "
                          "(providers.code_interpreter.settings.per); use auto");
    return json_array_append_new(
               echo, json_pack("{s:s, s:o}", "type", "code_interpreter", "container",
                               order->place.container[0] ? json_string(order->place.container)
                                                         : json_pack("{s:s}", "type", "auto"))) < 0
               ? error_memory(err)
               : 0;
}

static int read_function(struct order *order, size_t index, json_t *tool, json_t *echo,
                         struct error *err)
{
    const char *name = json_string_value(member(tool, "name"));
    json_t *parameters = member(tool, "parameters"), *text = member(tool, "description");
    json_t *strict = member(tool, "strict"), *function;

    if (!name || !name[0] || strlen(name) > 64 ||
        name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")])
        return wrong_tool(order, index, ".name", err,
                          "has to be 1 to 64 letters, digits, '_' or '-'");
    if (parameters && !json_is_object(parameters))
        return wrong_tool(order, index, ".parameters", err, "has to be a JSON Schema object");
    function =
        json_pack("{s:s, s:O*, s:O*}", "name", name, "description", text, "parameters", parameters);
    if (json_is_true(strict))
        json_object_set(function, "strict", strict);
    if (json_array_append_new(order->functions, json_pack("{s:s, s:o}", "type", "function",
                                                          "function", function)) < 0 ||
        json_array_append_new(echo, json_pack("{s:s, s:s, s:O?, s:O?, s:O?}", "type", "function",
                                              "name", name, "description", text, "parameters",
                                              parameters, "strict", strict)) < 0)
        return error_memory(err);
    return 0;
}

static int read_tools(struct door_call *call, struct order *order, json_t *list,
                      const struct config *config, struct error *err)
{
    json_t *echo = json_array(), *tool;
    size_t i;
    int r = json_object_set_new(order->base, "tools", echo) < 0 ? error_memory(err) : 0;

    if (r == 0 && json_array_size(list) > TOOLS_MAX)
        return wrong(order, "tools", err, "has more than 256 tools");
    json_array_foreach(list, i, tool)
    {
        const char *type = json_string_value(member(tool, "type"));

        if (r < 0)
            break;
        if (str_equal(type, "code_interpreter"))
            r = read_code_tool(call, order, i, tool, echo, config, err);
        else if (str_equal(type, "function"))
            r = read_function(order, i, tool, echo, err);
        else
            r = wrong_tool(order, i, ".type", err,
                           "this server has the tools 'code_interpreter' and 'function'");
    }
    return r;
}

static bool knows_function(const struct order *order, const char *name)
{
    json_t *tool;
    size_t i;

    json_array_foreach(order->functions, i, tool)
    {
        if (str_equal(json_string_value(json_object_get(json_object_get(tool, "function"), "name")),
                      name))
            return true;
    }
    return false;
}

static int check_names(struct order *order, struct error *err)
{
    if (order->has_code && knows_function(order, AGENT_TOOL))
        return wrong(order, "tools", err,
                     "a function cannot be called code_interpreter beside that tool");
    return 0;
}

/* Only these tools, of those in `tools`. */
static int allow_tools(struct order *order, json_t *list, struct error *err)
{
    json_t *allowed, *one;
    bool has_code = false;
    size_t i;

    if (json_array_size(list) > TOOLS_MAX)
        return wrong(order, "tool_choice", err, "has more than 256 tools");
    allowed = json_array();
    json_array_foreach(list, i, one)
    {
        const char *type = json_string_value(member(one, "type"));
        const char *name = json_string_value(member(one, "name"));
        bool is_code = str_equal(type, "code_interpreter") && order->has_code;

        if (!is_code && !(str_equal(type, "function") && knows_function(order, name))) {
            json_decref(allowed);
            return wrong(order, "tool_choice", err, "names a tool that is not among 'tools'");
        }
        has_code |= is_code;
        for (size_t k = 0; !is_code && k < json_array_size(order->functions); k++) {
            json_t *tool = json_array_get(order->functions, k);

            if (str_equal(
                    json_string_value(json_object_get(json_object_get(tool, "function"), "name")),
                    name))
                json_array_append(allowed, tool);
        }
    }
    json_decref(order->functions);
    order->functions = allowed;
    order->has_code = has_code;
    return 0;
}

static int choose(struct order *order, const char *mode, const char *name, struct error *err)
{
    order->choice = name ? json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", name)
                         : json_string(mode);
    return order->choice ? 0 : error_memory(err);
}

static int read_choice(struct order *order, json_t *choice, struct error *err)
{
    const char *word = json_string_value(choice);
    const char *type = json_string_value(member(choice, "type"));
    const char *name = json_string_value(member(choice, "name"));
    const char *mode = json_string_value(member(choice, "mode"));
    bool has_tools = order->has_code || json_array_size(order->functions) > 0;
    int r;

    if (!choice || str_equal(word, "auto"))
        return 0;
    if (str_equal(word, "required") && !has_tools)
        return wrong(order, "tool_choice", err, "'required' needs 'tools'");
    if (str_equal(word, "none") || str_equal(word, "required"))
        return choose(order, word, NULL, err);
    if (str_equal(type, "code_interpreter") && order->has_code)
        return choose(order, NULL, AGENT_TOOL, err);
    if (str_equal(type, "function") && name && knows_function(order, name))
        return choose(order, NULL, name, err);
    if (str_equal(type, "function") || str_equal(type, "code_interpreter"))
        return wrong(order, "tool_choice", err, "names a tool that is not among 'tools'");
    if (!str_equal(type, "allowed_tools") || !json_is_array(member(choice, "tools")) ||
        !(str_equal(mode, "auto") || str_equal(mode, "required")))
        return wrong(order, "tool_choice", err,
                     "has to be none, auto, required, {\"type\":\"code_interpreter\"}, "
                     "{\"type\":\"function\",\"name\"} or {\"type\":\"allowed_tools\",\"mode\","
                     "\"tools\"}");
    r = allow_tools(order, member(choice, "tools"), err);
    return r == 0 && str_equal(mode, "required") ? choose(order, mode, NULL, err) : r;
}

/* ---- the response object, and the whole ---- */

static int make_base(struct order *order, json_t *body, const struct config *config,
                     struct error *err)
{
    const char *model = json_string_value(member(body, "model"));
    char id[ID_MAX];
    int r = id_make(id, "resp");

    if (!model || !model[0])
        model = config->upstream.model ? config->upstream.model : NO_MODEL;
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "no random numbers");
    order->base =
        json_pack("{s:s, s:s, s:I, s:n, s:s, s:n, s:s, s:n, s:[], s:n, s:s}", "id", id, "object",
                  "response", "created_at", (json_int_t)(clock_wall_ms() / 1000), "completed_at",
                  "status", "in_progress", "incomplete_details", "model", model, "error", "output",
                  "usage", "service_tier", "default");
    order->options = json_pack("{s:s}", "model", model);
    order->functions = json_array();
    order->messages = json_array();
    order->place.file_ids = json_array();
    order->names = json_object();
    order->taken = json_object();
    if (!order->base || !order->options || !order->functions || !order->messages ||
        !order->place.file_ids || !order->names || !order->taken)
        return error_memory(err);
    for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
        json_t *value = member(body, members[i].name);

        if (members[i].fallback)
            r |=
                json_object_set_new(order->base, members[i].name,
                                    value ? json_incref(value)
                                          : json_loads(members[i].fallback, JSON_DECODE_ANY, NULL));
        if (members[i].passed && value)
            r |= json_object_set(order->options, members[i].passed, value);
    }
    return r < 0 ? error_memory(err) : 0;
}

/* The container that the conversation has used already, for `auto`. */
static void keep_container(struct order *order, json_t *items)
{
    json_t *item;
    size_t i;

    json_array_foreach(items, i, item)
    {
        const char *id = json_string_value(json_object_get(item, "container_id"));

        if (id &&
            str_equal(json_string_value(json_object_get(item, "type")), "code_interpreter_call"))
            str_copy(order->place.used, sizeof(order->place.used), id);
    }
}

/*
 * What came before: the responses from the first one on, each with its input and its output. One
 * that is gone leaves nothing to go on from.
 */
static int add_previous(struct door_call *call, struct order *order, const char *id, unsigned depth,
                        struct error *err)
{
    json_t *object = NULL, *input = NULL;
    const char *before;
    size_t room = LIMIT_CONVERSATION - order->earlier, left = room;
    int r = response_load(call->door, call->caller.who.tenant, id, &left, &object, &input, err);

    order->earlier += room - left;
    if (r < 0) {
        order->param = "previous_response_id";
        if (r == -EFBIG)
            return error_set(err, r, ERROR_BAD_INPUT,
                             "previous_response_id: the conversation is larger than %llu MB; begin "
                             "a new one",
                             LIMIT_CONVERSATION / MIB);
        return r == -ENOENT ? error_set(err, r, ERROR_PREVIOUS_NOT_FOUND,
                                        "previous_response_id: no stored response '%.60s'", id)
                            : r;
    }
    before = json_string_value(json_object_get(object, "previous_response_id"));
    if (str_equal(json_string_value(json_object_get(object, "status")), "in_progress"))
        r = wrong(order, "previous_response_id", err,
                  "that response is not over yet; wait for its end, or cancel it");
    else if (depth >= LIMIT_RESPONSES)
        r = wrong(order, "previous_response_id", err, "the conversation is too long");
    if (r == 0 && before)
        r = add_previous(call, order, before, depth + 1, err);
    if (r == 0)
        r = input_add(order, order->messages, input, err);
    if (r == 0)
        r = input_add(order, order->messages, json_object_get(object, "output"), err);
    if (r == 0)
        keep_container(order, json_object_get(object, "output"));
    json_decref(object);
    json_decref(input);
    return r;
}

/* Each output belongs to a call, and each call has an output: model servers need both. */
static int check_calls(struct order *order, struct error *err)
{
    CLEANUP(json_decrefp) json_t *known = json_object(), *open = json_object();
    json_t *message, *call;
    const char *id;
    size_t i, k;

    json_array_foreach(order->messages, i, message)
    {
        json_array_foreach(json_object_get(message, "tool_calls"), k, call)
        {
            json_object_set_new(known, json_string_value(json_object_get(call, "id")), json_true());
            json_object_set_new(open, json_string_value(json_object_get(call, "id")), json_true());
        }
        id = json_string_value(json_object_get(message, "tool_call_id"));
        if (!id)
            continue;
        order->param = "input";
        if (!json_object_get(known, id))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "input: there is no function_call for the function_call_output with "
                             "call_id '%.100s'",
                             id);
        json_object_del(open, id);
    }
    id = json_object_iter_key(json_object_iter(open));
    if (!id)
        return 0;
    order->param = "input";
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "input: there is no function_call_output for the function_call with call_id "
                     "'%.100s'",
                     id);
}

static int read_conversation(struct door_call *call, struct order *order, json_t *body,
                             struct error *err)
{
    json_t *instructions = member(body, "instructions");
    const char *previous = json_string_value(member(body, "previous_response_id"));
    int r = 0;

    if (instructions &&
        json_array_append_new(order->messages, json_pack("{s:s, s:O}", "role", "system", "content",
                                                         instructions)) < 0)
        return error_memory(err);
    if (previous && !str_copy(order->previous, sizeof(order->previous), previous))
        previous = order->previous; /* cut: it is not found */
    if (previous)
        r = add_previous(call, order, previous, 0, err);
    if (r == 0)
        r = input_items(order, member(body, "input"), &order->input, err);
    if (r == 0)
        r = response_resolve(call, order, order->input, err);
    if (r == 0)
        r = input_files(call, order, order->input, err);
    if (r == 0)
        r = input_add(order, order->messages, order->input, err);
    if (r == 0)
        keep_container(order, order->input);
    if (r == 0 && json_array_size(order->messages) == (instructions ? 1u : 0u))
        r = wrong(order, "input", err, "is missing or empty: there is nothing to answer");
    return r == 0 ? check_calls(order, err) : r;
}

int order_read(struct door_call *call, json_t *body, struct order *order, struct error *err)
{
    const struct config *config = session_manager_config(call->front->manager);
    int r = json_is_object(body)
                ? check_members(order, body, err)
                : error_set(err, -EINVAL, ERROR_BAD_INPUT, "the body has to be a JSON object");

    if (r == 0)
        r = check_unserved(order, body, err);
    if (r == 0)
        r = check_metadata(order, member(body, "metadata"), err);
    if (r == 0)
        r = read_include(order, member(body, "include"), err);
    if (r == 0)
        r = make_base(order, body, config, err);
    if (r == 0)
        r = read_text(order, body, err);
    if (r == 0)
        r = read_reasoning(order, body, err);
    if (r == 0)
        r = read_tools(call, order, member(body, "tools"), config, err);
    if (r == 0)
        r = check_names(order, err);
    if (r == 0)
        r = read_choice(order, member(body, "tool_choice"), err);
    if (r == 0)
        r = read_conversation(call, order, body, err);
    order->is_stream = json_is_true(member(body, "stream"));
    order->is_background = json_is_true(member(body, "background"));
    order->is_stored = !json_is_false(member(body, "store"));
    order->max_tokens = json_integer_value(member(body, "max_output_tokens"));
    order->max_calls = json_integer_value(member(body, "max_tool_calls"));
    return r;
}
