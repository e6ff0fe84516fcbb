/* result.c - how a run ended: what the JSON document of docs/result.md says. */
#include <stdlib.h>

#include "base/str.h"
#include "lib/lib_private.h"

struct bailey_result *result_take(json_t *json)
{
    struct bailey_result *result = calloc(1, sizeof(*result));

    if (!result) {
        json_decref(json);
        return NULL;
    }
    result->json = json;
    result->text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (!result->text) {
        bailey_result_free(result);
        return NULL;
    }
    return result;
}

void bailey_result_free(bailey_result *result)
{
    if (!result)
        return;
    json_decref(result->json);
    free(result->text);
    free(result);
}

static const char *text_of(const struct bailey_result *result, const char *name, size_t *ret_length)
{
    json_t *value = result ? json_object_get(result->json, name) : NULL;
    const char *text = json_string_value(value);

    if (ret_length)
        *ret_length = json_string_length(value);
    return text ? text : "";
}

const char *bailey_result_stdout(const bailey_result *result, size_t *ret_length)
{
    return text_of(result, "stdout", ret_length);
}

const char *bailey_result_stderr(const bailey_result *result, size_t *ret_length)
{
    return text_of(result, "stderr", ret_length);
}

int bailey_result_exit_code(const bailey_result *result)
{
    return result ? (int)json_integer_value(json_object_get(result->json, "exit_code")) : -1;
}

double bailey_result_seconds(const bailey_result *result)
{
    return result ? json_number_value(json_object_get(result->json, "duration")) : 0;
}

int bailey_result_timed_out(const bailey_result *result)
{
    return result &&
           json_is_true(json_object_get(json_object_get(result->json, "meta"), "timed_out"));
}

const char *bailey_result_text(const bailey_result *result)
{
    json_t *values = result ? json_object_get(result->json, "results") : NULL, *value;
    const char *shown = NULL, *text = NULL;
    size_t i;

    json_array_foreach(values, i, value)
    {
        json_t *data = json_object_get(value, "data");
        const char *plain = json_string_value(json_object_get(data, "text/plain"));

        if (plain && str_equal(json_string_value(json_object_get(value, "type")), "result"))
            text = plain;
        else if (plain)
            shown = plain;
    }
    return text ? text : shown;
}

const char *bailey_result_json(const bailey_result *result)
{
    return result ? result->text : "{}";
}
