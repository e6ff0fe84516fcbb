/* text.c - bytes of any kind as JSON text; see text.h. */
#include "model/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/str.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd";

/* How many bytes from here on are valid and complete. */
static size_t valid_run(const char *data, size_t length)
{
    size_t run = 0;

    while (run < length) {
        int step = utf8_length(data + run, length - run);

        if (step <= 0)
            break;
        run += (size_t)step;
    }
    return run;
}

/* The longest beginning of a valid sequence at data, which is not valid as a whole: at least 1. */
static size_t invalid_part(const char *data, size_t length)
{
    size_t part = 1;

    while (part < length && part < 3 && utf8_length(data, part + 1) < 0)
        part++;
    return part;
}

int text_clean(struct buf *to, const char *data, size_t length, bool is_cut,
               uint64_t *invalid_bytes)
{
    size_t at = 0;

    while (at < length) {
        size_t run = valid_run(data + at, length - at);
        size_t part;
        int r = buf_append(to, data + at, run);

        if (r < 0)
            return r;
        at += run;
        if (at == length || (is_cut && utf8_length(data + at, length - at) < 0))
            return 0;
        r = buf_append(to, REPLACEMENT, sizeof(REPLACEMENT) - 1);
        if (r < 0)
            return r;
        part = invalid_part(data + at, length - at);
        *invalid_bytes += part;
        at += part;
    }
    return 0;
}

json_t *text_to_json(const char *data, size_t length)
{
    CLEANUP(buf_free) struct buf clean = BUF_INIT(SIZE_MAX / 2);
    uint64_t invalid_bytes = 0;

    /* Nearly always: nothing to replace, nothing to copy twice. */
    if (valid_run(data, length) == length)
        return json_stringn_nocheck(data, length);
    if (text_clean(&clean, data, length, false, &invalid_bytes) < 0)
        return NULL;
    return json_stringn_nocheck(buf_text(&clean), clean.length);
}

const char **text_list_of_json(json_t *array)
{
    const char **list = calloc(json_array_size(array) + 1, sizeof(*list));
    json_t *one;
    size_t i;

    json_array_foreach(array, i, one)
    {
        if (list)
            list[i] = json_string_value(one);
    }
    return list;
}
