/* fuzz_cell_event.c - lines in which a hostile cell tells its values: what comes out has the
 * members of docs/kernels.md and no others, can be written, and is the same when it is read again.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "session/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool is_so)
{
    if (!is_so)
        abort();
}

static void check_value(json_t *event, bool is_result)
{
    json_t *data = json_object_get(event, "data"), *truncated = json_object_get(event, "truncated");
    json_t *count = json_object_get(event, "count"), *kind;
    size_t i;

    must(json_object_size(event) == (count ? 4 : 3));
    must(json_object_size(data) > 0 && json_object_size(data) <= 32);
    must(json_is_array(truncated));
    json_array_foreach(truncated, i, kind)
    {
        must(json_is_string(kind) && strlen(json_string_value(kind)) == json_string_length(kind));
        must(json_object_get(data, json_string_value(kind)) != NULL);
    }
    if (count)
        must(is_result && json_integer_value(count) > 0 && json_integer_value(count) <= INT32_MAX);
}

static void check_error(json_t *event)
{
    must(json_object_size(event) == 4);
    must(json_is_string(json_object_get(event, "name")));
    must(json_is_string(json_object_get(event, "value")));
    must(json_is_string(json_object_get(event, "traceback")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *event = cell_event_parse((const char *)data, size), *again;
    const char *type = json_string_value(json_object_get(event, "type"));
    char *text;

    if (!event)
        return 0;
    if (str_equal(type, "error"))
        check_error(event);
    else
        check_value(event, str_equal(type, "result"));
    must(str_equal(type, "error") || str_equal(type, "result") || str_equal(type, "display"));
    text = json_dumps(event, JSON_COMPACT);
    must(text != NULL);
    again = cell_event_parse(text, strlen(text));
    must(json_equal(event, again));
    json_decref(again);
    json_decref(event);
    free(text);
    return 0;
}
