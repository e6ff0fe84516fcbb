/* schema.c - checks JSON input against a schema; see schema.h. */
#include "tool/schema.h"

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "model/json.h"

#define NAMES_MAX 64
#define SHOWN_MAX 60 /* bytes of a name from the input that an error repeats */

static const char *const type_words[] = {
    [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
    [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "a boolean",
    [JSON_FALSE] = "a boolean",  [JSON_NULL] = "null",
};

json_t *json_read(const char *text, size_t length, struct schema_problem *problem)
{
    return json_read_with(text, length, JSON_REJECT_DUPLICATES, problem);
}

json_t *json_read_with(const char *text, size_t length, size_t flags,
                       struct schema_problem *problem)
{
    struct json_problem found;
    json_t *json = json_parse(text, length, flags | JSON_DECODE_ANY | JSON_ALLOW_NUL, &found);

    *problem = (struct schema_problem){0};
    if (json)
        return json;
    if (found.num == -ENOMEM) {
        error_memory(&problem->err);
        return NULL;
    }
    problem->line = found.line;
    problem->column = found.column;
    if (found.num == -EINVAL)
        error_set(&problem->err, -EINVAL, ERROR_BAD_JSON, "not valid JSON: line %d, column %d: %s",
                  problem->line, problem->column, found.text);
    else
        error_set(&problem->err, found.num, found.num == -EFBIG ? ERROR_TOO_LARGE : ERROR_BAD_JSON,
                  "the JSON is refused at line %d, column %d: %s", problem->line, problem->column,
                  found.text);
    return NULL;
}

/* ---- the check ---- */

struct schema {
    json_t *root;
};

struct checker {
    struct schema_problem *problem;
    struct buf field; /* path of the value that is being checked */
};

__attribute__((format(printf, 3, 4))) static bool wrong(struct checker *checker, const char *code,
                                                        const char *format, ...)
{
    struct schema_problem *problem = checker->problem;
    char text[ERROR_TEXT_MAX / 2];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    va_end(args);
    str_copy(problem->field, sizeof(problem->field), buf_text(&checker->field));
    problem->field[utf8_floor(problem->field, strlen(problem->field))] = '\0';
    if (problem->field[0])
        error_set(&problem->err, -EINVAL, code, "'%s' %s", problem->field, text);
    else
        error_set(&problem->err, -EINVAL, code, "the request %s", text);
    return false;
}

static bool is_of_type(const char *type, json_t *value)
{
    double number = json_is_real(value) ? json_real_value(value) : 0.5;

    if (str_equal(type, "number"))
        return json_is_number(value);
    if (str_equal(type, "integer"))
        return json_is_integer(value) ||
               (number > -1e15 && number < 1e15 && (double)(int64_t)number == number);
    if (str_equal(type, "string"))
        return json_is_string(value);
    if (str_equal(type, "boolean"))
        return json_is_boolean(value);
    if (str_equal(type, "array"))
        return json_is_array(value);
    if (str_equal(type, "object"))
        return json_is_object(value);
    return json_is_null(value);
}

static bool check_type(struct checker *checker, json_t *type, json_t *value)
{
    CLEANUP(buf_free) struct buf words = BUF_INIT(KIB);
    json_t *one;
    size_t i;

    if (json_is_string(type)) {
        const char *word = json_string_value(type);

        return is_of_type(word, value) ||
               wrong(checker, ERROR_BAD_INPUT, "has to be %s %s, not %s",
                     strchr("aeiou", word[0]) ? "an" : "a", word, type_words[json_typeof(value)]);
    }
    json_array_foreach(type, i, one)
    {
        if (is_of_type(json_string_value(one), value))
            return true;
        buf_printf(&words, "%s%s", i > 0 ? " or " : "", json_string_value(one));
    }
    return !type || wrong(checker, ERROR_BAD_INPUT, "has to be %s, not %s", buf_text(&words),
                          type_words[json_typeof(value)]);
}

static bool check_number(struct checker *checker, json_t *schema, json_t *value)
{
    json_t *low = json_object_get(schema, "minimum");
    json_t *above = json_object_get(schema, "exclusiveMinimum");
    json_t *high = json_object_get(schema, "maximum");
    double number = json_number_value(value);
    bool fits = true;

    /* Written so that NaN is refused, too. */
    fits &= !low || number >= json_number_value(low);
    fits &= !above || number > json_number_value(above);
    fits &= !high || number <= json_number_value(high);
    if (fits)
        return true;
    if (above && high)
        return wrong(checker, ERROR_BAD_INPUT,
                     "has to be more than %.15g and at most %.15g, not %.15g",
                     json_number_value(above), json_number_value(high), number);
    if (low && high)
        return wrong(checker, ERROR_BAD_INPUT, "has to be from %.15g to %.15g, not %.15g",
                     json_number_value(low), json_number_value(high), number);
    return wrong(checker, ERROR_BAD_INPUT, "has to be %s %.15g, not %.15g",
                 low     ? "at least"
                 : above ? "more than"
                         : "at most",
                 json_number_value(low     ? low
                                   : above ? above
                                           : high),
                 number);
}

static bool check_string(struct checker *checker, json_t *schema, json_t *value)
{
    json_int_t least = json_integer_value(json_object_get(schema, "minLength"));
    size_t length = json_string_length(value);

    if (!json_object_get(schema, "contentMediaType") && strlen(json_string_value(value)) != length)
        return wrong(checker, ERROR_BAD_INPUT, "has a NUL byte in it");
    if (least == 1 && length == 0)
        return wrong(checker, ERROR_BAD_INPUT, "is empty");
    return true;
}

static bool check_enum(struct checker *checker, json_t *allowed, json_t *value)
{
    CLEANUP(buf_free) struct buf words = BUF_INIT(KIB);
    json_t *one;
    size_t i;

    json_array_foreach(allowed, i, one)
    {
        if (json_equal(one, value))
            return true;
        buf_printf(&words, "%s%s", i > 0 ? ", " : "",
                   json_is_string(one) ? json_string_value(one) : "null");
    }
    return !allowed || wrong(checker, ERROR_BAD_INPUT, "has to be one of %s", buf_text(&words));
}

static bool check(struct checker *checker, json_t *schema, json_t *value);

/* Checks a member or element, with its name added to the path. */
static bool check_below(struct checker *checker, json_t *schema, json_t *value, const char *name,
                        size_t index)
{
    size_t length = checker->field.length;
    bool fits;

    if (name)
        buf_printf(&checker->field, "%s%.*s", length > 0 ? "." : "",
                   (int)utf8_floor(name, MIN(strlen(name), (size_t)SHOWN_MAX)), name);
    else
        buf_printf(&checker->field, "[%zu]", index);
    fits = check(checker, schema, value);
    if (checker->field.data) {
        checker->field.length = length;
        checker->field.data[length] = '\0';
    }
    return fits;
}

static bool check_array(struct checker *checker, json_t *schema, json_t *value)
{
    json_t *items = json_object_get(schema, "items");
    json_t *least = json_object_get(schema, "minItems"),
           *most = json_object_get(schema, "maxItems");
    size_t count = json_array_size(value), i;
    json_t *one;

    if (least && count < (size_t)json_integer_value(least))
        return wrong(checker, ERROR_BAD_INPUT, "has to have at least %lld element%s",
                     (long long)json_integer_value(least),
                     json_integer_value(least) == 1 ? "" : "s");
    if (most && count > (size_t)json_integer_value(most))
        return wrong(checker, ERROR_BAD_INPUT, "may have at most %lld elements, not %zu",
                     (long long)json_integer_value(most), count);
    json_array_foreach(value, i, one)
    {
        if (items && !check_below(checker, items, one, NULL, i))
            return false;
    }
    return true;
}

static bool unknown(struct checker *checker, json_t *known, const char *name)
{
    CLEANUP(buf_free) struct buf list = BUF_INIT(4 * KIB);
    const char *names[NAMES_MAX + 1] = {0};
    const char *one, *nearest;
    json_t *value;
    size_t count = 0;

    json_object_foreach(known, one, value)
    {
        if (count < NAMES_MAX)
            names[count++] = one;
    }
    nearest = str_nearest(name, names);
    for (size_t i = 0; i < count; i++)
        buf_printf(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    buf_printf(&checker->field, "%s%.*s", checker->field.length > 0 ? "." : "",
               (int)utf8_floor(name, MIN(strlen(name), (size_t)SHOWN_MAX)), name);
    if (nearest)
        str_copy(checker->problem->nearest, sizeof(checker->problem->nearest), nearest);
    if (count == 0)
        return wrong(checker, ERROR_UNKNOWN_PARAMETER,
                     "is not known here: there are no parameters");
    if (nearest)
        return wrong(checker, ERROR_UNKNOWN_PARAMETER,
                     "is an unknown parameter; did you mean '%s'? Known: %s", nearest,
                     buf_text(&list));
    return wrong(checker, ERROR_UNKNOWN_PARAMETER, "is an unknown parameter. Known: %s",
                 buf_text(&list));
}

static bool check_object(struct checker *checker, json_t *schema, json_t *value)
{
    json_t *properties = json_object_get(schema, "properties");
    json_t *others = json_object_get(schema, "additionalProperties");
    json_t *member;
    const char *name;
    size_t i;

    json_object_foreach(value, name, member)
    {
        json_t *known = json_object_get(properties, name);

        if (!known && json_is_false(others))
            return unknown(checker, properties, name);
        if (!known && json_is_object(others))
            known = others;
        if (known && !check_below(checker, known, member, name, 0))
            return false;
    }
    json_array_foreach(json_object_get(schema, "required"), i, member)
    {
        if (json_object_get(value, json_string_value(member)))
            continue;
        buf_printf(&checker->field, "%s%s", checker->field.length > 0 ? "." : "",
                   json_string_value(member));
        return wrong(checker, ERROR_BAD_INPUT, "is missing");
    }
    return true;
}

static bool check(struct checker *checker, json_t *schema, json_t *value)
{
    if (!check_type(checker, json_object_get(schema, "type"), value) ||
        !check_enum(checker, json_object_get(schema, "enum"), value))
        return false;
    if (json_is_number(value))
        return check_number(checker, schema, value);
    if (json_is_string(value))
        return check_string(checker, schema, value);
    if (json_is_array(value))
        return check_array(checker, schema, value);
    return !json_is_object(value) || check_object(checker, schema, value);
}

bool schema_check(const struct schema *schema, json_t *value, struct schema_problem *problem)
{
    struct checker checker = {.problem = problem, .field = BUF_INIT(16 * KIB)};
    bool fits;

    *problem = (struct schema_problem){0};
    fits = check(&checker, schema->root, value);
    buf_free(&checker.field);
    return fits;
}

int schema_compile(const char *text, struct schema **ret)
{
    struct schema *schema = calloc(1, sizeof(*schema));

    if (schema)
        schema->root = json_loads(text, 0, NULL);
    if (!schema || !schema->root) {
        int r = schema ? -EINVAL : -ENOMEM;

        free(schema);
        return r;
    }
    *ret = schema;
    return 0;
}

void schema_free(struct schema *schema)
{
    if (!schema)
        return;
    json_decref(schema->root);
    free(schema);
}

const char *schema_type(const struct schema *schema)
{
    return json_string_value(json_object_get(schema->root, "type"));
}
