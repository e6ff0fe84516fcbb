/*
 * tool.c - a tool call without a daemon: parses JSON and the envelope, checks names, runs the tool.
 * The rows are in table.c.
 */
#include "tool/tool.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/json.h"
#include "tool/schema.h"

#define WORDS_MAX 32

/* The names of an object's members, for "did you mean" and for lists. */
static void member_names(json_t *object, const char *names[WORDS_MAX + 1])
{
    const char *name;
    json_t *value;
    size_t count = 0;

    json_object_foreach(object, name, value)
    {
        if (count < WORDS_MAX)
            names[count++] = name;
    }
    names[count] = NULL;
}

/* Replies about an unknown member. */
static int unknown_member(const char *what, const char *name, json_t *known, struct buf *reply)
{
    const char *names[WORDS_MAX + 1];
    const char *nearest;
    int failed;

    member_names(known, names);
    nearest = str_nearest(name, names);
    failed = buf_printf(reply, "Error: unknown %s '%.60s'", what, name);
    if (nearest)
        failed |= buf_printf(reply, "; did you mean '%s'?", nearest);
    failed |= buf_append_text(reply, nearest ? " Known:" : ". Known:");
    for (size_t i = 0; names[i]; i++)
        failed |= buf_printf(reply, "%s %s", i > 0 ? "," : "", names[i]);
    return failed | buf_append_text(reply, ".\n");
}

/* Whether `parameters` matches the schema; otherwise a reply is written. */
static bool fits_schema(const struct tool_row *tool, json_t *parameters, struct buf *reply,
                        int *failed)
{
    CLEANUP(json_decrefp) json_t *schema = json_loads(tool->schema, 0, NULL);
    json_t *properties = json_object_get(schema, "properties");
    json_t *value;
    const char *name;
    size_t index;

    if (!schema) {
        *failed = -ENOMEM;
        return false;
    }
    json_object_foreach(parameters, name, value)
    {
        if (!json_object_get(properties, name)) {
            *failed = unknown_member("parameter", name, properties, reply);
            return false;
        }
    }
    json_array_foreach(json_object_get(schema, "required"), index, value)
    {
        if (!json_object_get(parameters, json_string_value(value))) {
            *failed = buf_printf(reply,
                                 "Error: the parameter '%s' is missing. Call %s again with "
                                 "it.\n",
                                 json_string_value(value), tool->name);
            return false;
        }
    }
    return true;
}

/* The parameters out of an envelope, or the object itself. NULL: a reply is written. */
static json_t *open_envelope(const struct tool_row *tool, json_t *call, struct buf *reply,
                             int *failed)
{
    json_t *parameters = json_object_get(call, "parameters");
    json_t *name = json_object_get(call, "tool");
    const char *member;
    json_t *value;

    if (!parameters || !name)
        return call;
    json_object_foreach(call, member, value)
    {
        if (!str_equal(member, "tool") && !str_equal(member, "parameters") &&
            !str_equal(member, "reasoning_trace")) {
            *failed = buf_printf(reply,
                                 "Error: unknown member '%.60s' of the call. Known: tool, "
                                 "parameters, reasoning_trace.\n",
                                 member);
            return NULL;
        }
    }
    if (!str_equal(json_string_value(name), tool->name)) {
        *failed = buf_printf(reply,
                             "Error: the call is for another tool, not for %s. Name the "
                             "same tool in both places.\n",
                             tool->name);
        return NULL;
    }
    if (!json_is_object(parameters)) {
        *failed = buf_append_text(reply, "Error: 'parameters' has to be a JSON object.\n");
        return NULL;
    }
    return parameters;
}

int tool_call(const struct tool_row *tool, const char *json, size_t length,
              const struct tool_context *context, struct buf *reply)
{
    CLEANUP(json_decrefp) json_t *call = NULL;
    json_t *parameters;
    struct json_problem where;
    int failed = 0;

    if (!tool->is_alone) {
        failed = buf_printf(reply,
                            "Error: %s works in a session, and sessions need the daemon. Start "
                            "it with 'bailey serve'.\n",
                            tool->name);
        return failed < 0 ? -ENOMEM : 0;
    }
    call = json_parse(json, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
    if (!call)
        failed = buf_printf(reply,
                            "Error: the parameters are not valid JSON: line %d, column %d: "
                            "%s. Send one JSON object.\n",
                            where.line, where.column, where.text);
    else if (!json_is_object(call))
        failed = buf_append_text(reply, "Error: the parameters have to be a JSON object, such as "
                                        "{\"code\": \"print(1)\"}.\n");
    else if ((parameters = open_envelope(tool, call, reply, &failed)) &&
             fits_schema(tool, parameters, reply, &failed))
        failed = run_python_code(parameters, context, reply);
    return failed < 0 ? -ENOMEM : 0;
}
