/*
 * fuzz_result.c - any JSON through result_from_json(). What it takes it can write, and what it
 * wrote reads back as the same result.
 */
#include <stdint.h>
#include <stdlib.h>

#include <jansson.h>

#include "model/result.h"

#define EXACT_SECONDS 2e6 /* above it a double has no room for every nanosecond */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *read_and_write(json_t *json)
{
    struct error err = {0};
    struct result result;
    json_t *written = NULL;
    int r;

    result_init(&result, &(struct limits){0});
    r = result_from_json(json, &result, &err);
    if (r == 0) {
        (void)result_exit_status(&result);
        written = result_to_json(&result);
        if (!written)
            abort();
    } else if (r > 0 || err.num != r || !err.code) {
        abort();
    }
    result_free(&result);
    return written;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL);
    json_t *first = json ? read_and_write(json) : NULL, *second;

    if (first) {
        second = read_and_write(first);
        if (!second)
            abort();
        if (json_real_value(json_object_get(first, "duration")) > EXACT_SECONDS)
            json_object_set(second, "duration", json_object_get(first, "duration"));
        if (!json_equal(first, second))
            abort();
        json_decref(second);
    }
    json_decref(first);
    json_decref(json);
    return 0;
}
