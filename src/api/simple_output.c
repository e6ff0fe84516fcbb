/* simple_output.c - what a cell gave, as one thing; see simple_output.h. */
#include "api/simple_output.h"

#include "base/str.h"

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static json_t *output(const char *type, const char *content)
{
    return json_pack("{s:s, s:s}", "type", type, "content", content);
}

/* The first value of a type among the results. */
static const char *value_of(const json_t *reply, const char *mime)
{
    const json_t *results = json_object_get(reply, "results"), *result;
    size_t at;

    json_array_foreach(results, at, result)
    {
        const char *text =
            json_string_value(json_object_get(json_object_get(result, "data"), mime));

        if (text)
            return text;
    }
    return NULL;
}

json_t *simple_output(const json_t *reply)
{
    const json_t *error = json_object_get(reply, "error");
    const char *traceback = text_of(error, "traceback"), *text;

    if (json_is_object(error) && *traceback)
        return output("error", traceback);
    if (json_is_object(error))
        return json_pack("{s:s, s:o}", "type", "error", "content",
                         json_sprintf("%s: %s", text_of(error, "name"), text_of(error, "value")));
    if (json_integer_value(json_object_get(reply, "exit_code")) != 0) {
        text = text_of(reply, "stderr");
        return output("error", *text ? text : "the code was ended before it was done");
    }
    text = value_of(reply, "image/png");
    if (text)
        return output("image/png", text);
    text = text_of(reply, "stdout");
    if (!*text)
        text = value_of(reply, "text/plain");
    return output("text", text ? text : "");
}
