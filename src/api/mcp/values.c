/*
 * values.c - values of a cell: its results as text, pictures as blocks, all limited to what clients
 * accept. Pure.
 *
 * HTML and similar types are not put into the text: a model gains nothing from them, and a client
 * might render them. The text names such a type only where there is nothing else.
 */
#include <string.h>

#include "api/mcp/mcp_private.h"
#include "base/cleanup.h"
#include "base/str.h"

/* Types that a model reads, the best first. */
static const char *const readable[] = {"text/plain", "text/markdown", "text/latex"};

static bool is_picture(const char *mime)
{
    return str_equal(mime, "image/png") || str_equal(mime, "image/jpeg");
}

static bool is_exception(json_t *error)
{
    return json_is_object(error) && json_object_get(error, "traceback");
}

/* A value without words: what it is instead. A picture is a block of its own. */
static int append_kind(json_t *data, struct buf *text)
{
    const char *mime = json_object_iter_key(json_object_iter(data));

    return mime && !is_picture(mime) ? buf_printf(text, "(a value of type %.100s)\n", mime)
                                     : buf_append_text(text, mime ? "(an image)\n" : "");
}

static int append_value(json_t *value, struct buf *text)
{
    json_t *data = json_object_get(value, "data"), *words = NULL;
    int failed = 0;

    for (size_t i = 0; i < ARRAY_SIZE(readable) && !json_is_string(words); i++)
        words = json_object_get(data, readable[i]);
    failed |= mcp_end_line(text);
    failed |= buf_printf(text, "[%s]\n",
                         str_equal(mcp_text(value, "type"), "display") ? "display" : "result");
    failed |= json_is_string(words) ? mcp_append_clean(text, words) : append_kind(data, text);
    return failed | mcp_end_line(text);
}

int mcp_values_text(json_t *cell, struct buf *text)
{
    json_t *error = json_object_get(cell, "error");
    json_t *value;
    size_t i;
    int failed = 0;

    json_array_foreach(json_object_get(cell, "results"), i, value)
    {
        failed |= append_value(value, text);
    }
    if (!is_exception(error))
        return failed;
    failed |= mcp_end_line(text);
    failed |= buf_append_text(text, "[error]\n");
    if (json_string_length(json_object_get(error, "traceback")) > 0)
        return failed | mcp_append_clean(text, json_object_get(error, "traceback"));
    failed |= mcp_append_clean(text, json_object_get(error, "name"));
    failed |= buf_append_text(text, ": ");
    return failed | mcp_append_clean(text, json_object_get(error, "value"));
}

static bool is_base64(json_t *value)
{
    const char *text = json_string_value(value);

    return text && json_string_length(value) > 0 &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") ==
               json_string_length(value);
}

size_t mcp_values_pictures(json_t *cell, json_t *blocks, size_t *count, size_t *length)
{
    size_t left = 0;
    json_t *value, *picture;
    const char *mime;
    size_t i;

    json_array_foreach(json_object_get(cell, "results"), i, value)
    {
        json_object_foreach(json_object_get(value, "data"), mime, picture)
        {
            size_t more = json_string_length(picture);

            if (!is_picture(mime) || !is_base64(picture))
                continue;
            if (*count >= LIMIT_MCP_PICTURES || more > LIMIT_MCP_PICTURE_TEXT - *length) {
                left++;
                continue;
            }
            json_array_append_new(blocks, json_pack("{s:s, s:O, s:s}", "type", "image", "data",
                                                    picture, "mimeType", mime));
            (*count)++;
            *length += more;
        }
    }
    return left;
}

/* The approximate length of a value: of strings, and of JSON as text. */
static size_t length_of(json_t *value)
{
    CLEANUP(freep) char *text = NULL;

    if (json_is_string(value))
        return json_string_length(value);
    text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    return text ? strlen(text) : SIZE_MAX / 2;
}

json_t *mcp_values_within(json_t *results)
{
    json_t *kept = json_array(), *value, *part;
    size_t left = LIMIT_MCP_VALUES, i;
    const char *mime;

    json_array_foreach(results, i, value)
    {
        json_t *data = json_object();
        json_t *cut = json_deep_copy(json_object_get(value, "truncated"));

        json_object_foreach(json_object_get(value, "data"), mime, part)
        {
            size_t length =
                is_picture(mime) ? SIZE_MAX : length_of(part); /* a picture has its own block */

            if (length <= left) {
                json_object_set(data, mime, part);
                left -= length;
            } else if (json_is_array(cut)) {
                json_array_append_new(cut, json_string(mime));
            }
        }
        json_array_append_new(kept,
                              json_pack("{s:O*, s:o, s:o*}", "type", json_object_get(value, "type"),
                                        "data", data, "truncated", cut));
    }
    return kept;
}
