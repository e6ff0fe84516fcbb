/* order.c - parses and checks the body of POST /execute; see execute.h. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/execute/execute.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/schema.h"

#define DEFAULT_TIMEOUT_S 30
#define NAME_MAX_BYTES 255
#define NAME_SHOWN 60

/* Names of languages that callers may write, with the file name of the source. */
static const struct {
    const char *word, *language, *script;
} languages[] = {
    {"python", "python", "script.py"},   {"javascript", "javascript", "script.js"},
    {"node", "javascript", "script.js"}, {"bash", "bash", "script.sh"},
    {"shell", "bash", "script.sh"},
};

const char *execute_script(const char *language)
{
    for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
        if (str_equal(languages[i].language, language))
            return languages[i].script;
    return languages[0].script;
}

/* A missing member and a member that is null are the same. */
static json_t *member(const struct execute_order *order, const char *name)
{
    json_t *value = json_object_get(order->body, name);

    return json_is_null(value) ? NULL : value;
}

/* A string without NUL; else NULL. */
static const char *plain(json_t *value)
{
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static int read_code(struct execute_order *order, struct error *err)
{
    json_t *code = member(order, "code");

    if (code && !json_is_string(code))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "code: has to be a string");
    order->code = json_string_value(code);
    order->code_length = code ? json_string_length(code) : 0;
    if (order->code_length == 0)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "code: is missing or empty; there is nothing to run");
    if (order->code_length > LIMIT_CODE_BYTES)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE, "code: is larger than %llu MB",
                         LIMIT_CODE_BYTES / MIB);
    return 0;
}

static int read_language(struct execute_order *order, struct error *err)
{
    json_t *value = member(order, "language");
    const char *word = value ? plain(value) : "python";

    for (size_t i = 0; word && i < ARRAY_SIZE(languages); i++) {
        if (!str_equal(languages[i].word, word))
            continue;
        order->language = languages[i].language;
        return 0;
    }
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "language: has to be python, javascript or bash");
}

static int read_timeout(struct execute_order *order, struct error *err)
{
    json_t *value = member(order, "timeout_seconds");
    json_int_t seconds = json_integer_value(value);

    if (value && !json_is_integer(value))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "timeout_seconds: has to be a whole number of seconds");
    if (seconds > (json_int_t)(LIMIT_TIMEOUT_MS / 1000))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "timeout_seconds: at most %llu",
                         LIMIT_TIMEOUT_MS / 1000);
    if (seconds <= 0)
        seconds = DEFAULT_TIMEOUT_S;
    order->timeout_ms = (uint64_t)seconds * 1000;
    return 0;
}

static int read_requirements(struct execute_order *order, struct error *err)
{
    json_t *list = member(order, "requirements"), *item;
    size_t i;

    if (list && !json_is_array(list))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "requirements: has to be a list of strings");
    if (json_array_size(list) > LIMIT_PACKAGES)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "requirements: at most %d packages",
                         LIMIT_PACKAGES);
    json_array_foreach(list, i, item)
    {
        if (!plain(item))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "requirements[%zu]: has to be a string, such as \"numpy>=2\"", i);
    }
    if (json_array_size(list) == 0 || str_equal(order->language, "bash"))
        return 0; /* Bash has no packages: ignored, as callers expect */
    order->requirements = text_list_of_json(list);
    return order->requirements ? 0 : error_memory(err);
}

/* ---- files ---- */

/* The last part of a path; NULL: it is not a valid file name. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    if (!name[0] || str_equal(name, ".") || str_equal(name, "..") || strlen(name) > NAME_MAX_BYTES)
        return NULL;
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return NULL;
    return name;
}

static int check_name(const struct execute_order *order, const char *path, const char **ret,
                      struct error *err)
{
    const char *name = base_name(path);

    if (!name)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "files: '%.*s' does not end in the name of a file", NAME_SHOWN, path);
    if (str_equal(name, execute_script(order->language)))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "files: '%s' is what the code itself is called", name);
    for (size_t i = 0; i < order->file_count; i++)
        if (str_equal(order->files[i].name, name))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "files: two of them would be called '%.*s': folders are left out",
                             NAME_SHOWN, name);
    *ret = name;
    return 0;
}

/* Line breaks in the text are ignored, as most decoders do. */
static int decode(const char *text, size_t length, struct buf *bytes)
{
    CLEANUP(buf_free) struct buf joined = BUF_INIT(length);
    int r = 0;

    if (!memchr(text, '\n', length) && !memchr(text, '\r', length))
        return base64_decode(text, length, bytes);
    for (size_t at = 0; at < length && r == 0;) {
        size_t count = 0;

        while (at + count < length && text[at + count] != '\n' && text[at + count] != '\r')
            count++;
        r = buf_append(&joined, text + at, count);
        at += count + 1;
    }
    return r < 0 ? r : base64_decode(buf_text(&joined), joined.length, bytes);
}

static int read_file(struct execute_order *order, const char *path, json_t *content,
                     struct error *err)
{
    struct buf *bytes = &order->bytes[order->file_count];
    const char *name = NULL;
    int r = check_name(order, path, &name, err);

    if (r < 0)
        return r;
    bytes->maximum = LIMIT_EXECUTE_BODY;
    r = json_is_string(content)
            ? decode(json_string_value(content), json_string_length(content), bytes)
            : -EINVAL;
    if (r == -EINVAL)
        return error_set(err, r, ERROR_BAD_INPUT,
                         "files: '%.*s' has to be base64 (standard alphabet, padded)", NAME_SHOWN,
                         path);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "files: %s", strerror(-r));
    order->files[order->file_count++] =
        (struct run_file){.name = name, .data = buf_text(bytes), .length = bytes->length};
    return 0;
}

static int read_files(struct execute_order *order, struct error *err)
{
    json_t *files = member(order, "files"), *content;
    const char *path;
    int r = 0;

    if (files && !json_is_object(files))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "files: has to be an object of names and base64");
    if (json_object_size(files) > LIMIT_EXECUTE_FILES)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "files: at most %d", LIMIT_EXECUTE_FILES);
    if (json_object_size(files) == 0)
        return 0;
    order->files = calloc(json_object_size(files), sizeof(*order->files));
    order->bytes = calloc(json_object_size(files) + 1, sizeof(*order->bytes));
    if (!order->files || !order->bytes)
        return error_memory(err);
    json_object_foreach(files, path, content)
    {
        r = read_file(order, path, content, err);
        if (r < 0)
            return r;
        json_object_set_new(files, path, json_null()); /* memory for the next one */
    }
    return 0;
}

int execute_order_read(const char *text, size_t length, struct execute_order *order,
                       struct error *err)
{
    struct schema_problem problem = {0};

    return execute_order_take(json_read(text, length, &problem), &problem.err, order, err);
}

int execute_order_take(json_t *body, const struct error *why, struct execute_order *order,
                       struct error *err)
{
    static int (*const readers[])(struct execute_order *, struct error *) = {
        read_code, read_language, read_timeout, read_requirements, read_files};
    int r = 0;

    order->body = body;
    if (!order->body) {
        *err = *why;
        return err->num < 0 ? err->num : -EINVAL;
    }
    if (!json_is_object(order->body))
        return error_set(err, -EINVAL, ERROR_BAD_JSON, "the body has to be a JSON object");
    for (size_t i = 0; i < ARRAY_SIZE(readers) && r == 0; i++)
        r = readers[i](order, err);
    return r;
}

void execute_order_free(struct execute_order *order)
{
    for (size_t i = 0; order->bytes && i <= order->file_count;
         i++) /* the last one may be incomplete */
        buf_free(&order->bytes[i]);
    free(order->bytes);
    free(order->files);
    free(order->requirements);
    json_decref(order->body);
    *order = (struct execute_order){0};
}
