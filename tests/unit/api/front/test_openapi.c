/* test_openapi.c - the document that is printed from the rows: all of them, and nothing dangling.
 */
#include <jansson.h>
#include <string.h>

#include "unit.h"

#include "api/doors.h"
#include "api/exec_stream.h"
#include "api/front/door.h"
#include "api/front/openapi.h"
#include "api/front/reply.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "tool/schema.h"

/* The rows of all doors that the document has, one behind the other. */
static const struct door_route *rows[200];
static const struct door_ops *owners[ARRAY_SIZE(rows)];
static size_t row_count;

static int set_up(void **state)
{
    struct door_list doors;

    (void)state;
    doors_list(&doors);
    for (size_t i = 0; i < doors.count; i++)
        for (size_t k = 0; k < doors.rows[i]->route_count; k++)
            if (doors.rows[i]->routes[k].name) {
                owners[row_count] = doors.rows[i];
                rows[row_count++] = &doors.rows[i]->routes[k];
            }
    assert_in_range(row_count, 60, ARRAY_SIZE(rows));
    return 0;
}

static json_t *document(void)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(4 * MIB);
    json_t *json;

    struct door_list doors;

    doors_list(&doors);
    assert_int_equal(openapi_write(&doors, &text), 0);
    json = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    return json;
}

static void without_star(const char *path, char *ret)
{
    for (; *path; path++)
        if (*path != '*')
            *ret++ = *path;
    *ret = '\0';
}

static void test_every_row_is_there(void **state)
{
    CLEANUP(json_decrefp) json_t *json = document();

    (void)state;
    assert_string_equal(json_string_value(json_object_get(json, "openapi")), "3.1.0");
    for (size_t i = 0; i < row_count; i++) {
        const struct door_route *row = rows[i];
        char path[200], method[16] = "", status[8];
        json_t *operation;

        without_star(row->path, path);
        for (size_t at = 0; row->method[at]; at++)
            method[at] = (char)(row->method[at] | 0x20);
        operation = json_object_get(json_object_get(json_object_get(json, "paths"), path), method);
        assert_non_null(operation);
        assert_string_equal(json_string_value(json_object_get(operation, "operationId")),
                            row->name);
        snprintf(status, sizeof(status), "%u", row->status);
        assert_non_null(json_object_get(json_object_get(operation, "responses"), status));
        if (!owners[i]->responses)
            assert_non_null(json_object_get(json_object_get(operation, "responses"), "400"));
        assert_int_equal(json_object_get(operation, "requestBody") != NULL, row->body != BODY_NONE);
    }
}

/* Every {x} of a path is described, and nothing else is. */
static void test_path_parameters_are_described(void **state)
{
    (void)state;
    for (size_t i = 0; i < row_count; i++) {
        const struct door_route *row = rows[i];
        size_t described = 0, named = 0;

        for (const char *at = row->path; *at; at++)
            named += *at == '{';
        for (const struct door_param *param = row->params; param->name; param++) {
            char braces[40];

            assert_true(param < row->params + DOOR_PARAMS_MAX - 1);
            if (param->in != IN_PATH)
                continue;
            described++;
            snprintf(braces, sizeof(braces), "{%s", param->name);
            assert_non_null(strstr(row->path, braces));
        }
        assert_int_equal(described, named);
    }
}

static void test_names_are_unique(void **state)
{
    (void)state;
    for (size_t i = 0; i < row_count; i++)
        for (size_t k = 0; k < i; k++)
            assert_false(str_equal(rows[i]->name, rows[k]->name));
}

/* Follows what a value points to; fails when nothing is there. */
static void check_refs(json_t *json, json_t *schemas)
{
    const char *name;
    json_t *value;
    size_t i;

    json_object_foreach(json, name, value)
    {
        if (str_equal(name, "$ref")) {
            const char *prefix = "#/components/schemas/";

            assert_true(str_starts(json_string_value(value), prefix));
            assert_non_null(json_object_get(schemas, json_string_value(value) + strlen(prefix)));
        }
        check_refs(value, schemas);
    }
    json_array_foreach(json, i, value)
    {
        check_refs(value, schemas);
    }
}

static void test_references_lead_somewhere(void **state)
{
    CLEANUP(json_decrefp) json_t *json = document();

    (void)state;
    check_refs(json, json_object_get(json_object_get(json, "components"), "schemas"));
}

static void test_error_codes_are_one_table(void **state)
{
    const char *code;

    (void)state;
    for (unsigned i = 1; (code = error_code_word(i)); i++) {
        size_t count = 0;

        for (size_t k = 0; k < front_error_count; k++)
            count += str_equal(front_errors[k].code, code);
        if (count != 1)
            fail_msg("'%s' is %zu times in the table", code, count);
    }
    assert_int_equal(front_error_status("session_ended"), 410);
    assert_int_equal(front_error_status("no such word"), 500);
}

static void test_rows_name_known_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < row_count; i++) {
        char words[600];
        char *rest = words;
        const char *word;

        snprintf(words, sizeof(words), "%s", rows[i]->errors ? rows[i]->errors : "");
        while ((word = strsep(&rest, " "))) {
            bool is_known = *word == '\0';

            for (size_t k = 0; k < front_error_count; k++)
                is_known |= str_equal(front_errors[k].code, word);
            if (!is_known)
                fail_msg("%s names an unknown error '%s'", rows[i]->name, word);
        }
    }
}

/* ---- what a reader of the document gets ---- */

static json_t *operation_of(json_t *json, const struct door_route *row)
{
    char path[200], method[16] = "";
    json_t *operation;

    without_star(row->path, path);
    for (size_t at = 0; row->method[at]; at++)
        method[at] = (char)(row->method[at] | 0x20);
    operation = json_object_get(json_object_get(json_object_get(json, "paths"), path), method);
    assert_non_null(operation);
    return operation;
}

/* A sentence or more: begins with a capital letter, a quoted name or a digit, ends with a period.
 */
static void assert_sentence(const char *name, const char *text)
{
    if (!text || !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ`", text[0]) || text[strlen(text) - 1] != '.')
        fail_msg("%s: '%s' is not a sentence", name, text ? text : "(none)");
}

static void test_every_operation_has_a_declared_tag_and_a_description(void **state)
{
    CLEANUP(json_decrefp) json_t *json = document();
    json_t *tags = json_object_get(json, "tags");

    (void)state;
    for (size_t i = 0; i < row_count; i++) {
        json_t *operation = operation_of(json, rows[i]), *tag;
        json_t *own = json_array_get(json_object_get(operation, "tags"), 0);
        size_t k, count = 0;

        assert_sentence(rows[i]->name,
                        json_string_value(json_object_get(operation, "description")));
        json_array_foreach(tags, k, tag)
        {
            count += json_equal(json_object_get(tag, "name"), own);
        }
        if (count != 1)
            fail_msg("the tag of %s is declared %zu times", rows[i]->name, count);
    }
}

static void test_every_tag_is_described_and_used(void **state)
{
    CLEANUP(json_decrefp) json_t *json = document();
    json_t *tag;
    size_t i;

    (void)state;
    json_array_foreach(json_object_get(json, "tags"), i, tag)
    {
        const char *name = json_string_value(json_object_get(tag, "name"));
        size_t count = 0;

        assert_sentence(name, json_string_value(json_object_get(tag, "description")));
        for (size_t k = 0; k < row_count; k++)
            count += str_equal(rows[k]->tag, name);
        assert_int_not_equal(count, 0);
    }
}

/* Every member of a body has a description, those of its members too. */
static void check_members(const char *name, json_t *schema)
{
    json_t *items = json_object_get(schema, "items"), *member;
    const char *key;

    if (items)
        check_members(name, items);
    json_object_foreach(json_object_get(schema, "properties"), key, member)
    {
        char place[100];

        snprintf(place, sizeof(place), "%s: %s", name, key);
        assert_sentence(place, json_string_value(json_object_get(member, "description")));
        check_members(place, member);
    }
}

static json_t *body_of(json_t *json, const struct door_route *row)
{
    json_t *body = json_object_get(operation_of(json, row), "requestBody");
    json_t *content = json_object_get(json_object_get(body, "content"), TYPE_JSON);

    assert_non_null(content);
    return content;
}

static size_t count_members(json_t *schema)
{
    json_t *items = json_object_get(schema, "items"), *member;
    size_t count = items ? count_members(items) : 0;
    const char *key;

    json_object_foreach(json_object_get(schema, "properties"), key, member)
    {
        count += 1 + count_members(member);
    }
    return count;
}

static void test_every_member_of_a_body_is_described(void **state)
{
    CLEANUP(json_decrefp) json_t *json = document();

    (void)state;
    for (size_t i = 0; i < row_count; i++) {
        size_t fields = 0;
        json_t *schema;

        if (rows[i]->body != BODY_JSON)
            continue;
        schema = json_object_get(body_of(json, rows[i]), "schema");
        check_members(rows[i]->name, schema);
        for (const struct door_field *field = rows[i]->fields; field && field->name; field++)
            fields++;
        if (fields != count_members(schema)) /* one for each, none for a member that is not there */
            fail_msg("%s: %zu fields for %zu members", rows[i]->name, fields,
                     count_members(schema));
    }
}

static void test_every_member_of_a_noun_is_described(void **state)
{
    CLEANUP(json_decrefp) json_t *json = document();
    json_t *schemas = json_object_get(json_object_get(json, "components"), "schemas"), *schema;
    size_t members = 0, fields = 0;
    struct door_list doors;
    const char *name;

    (void)state;
    json_object_foreach(schemas, name, schema)
    {
        assert_sentence(name, json_string_value(json_object_get(schema, "description")));
        check_members(name, schema);
        members += count_members(schema);
    }
    doors_list(&doors);
    for (size_t i = 0; i < doors.count; i++)
        for (const struct door_field *field = doors.rows[i]->schema_fields; field && field->name;
             field++)
            fields += strchr(field->name, '.') != NULL; /* else of the noun itself */
    assert_int_equal(fields, members);
}

/* The schemas of our own checker have no references: puts in what they refer to. */
static json_t *resolved(json_t *schema, json_t *schemas)
{
    const char *target = json_string_value(json_object_get(schema, "$ref"));
    json_t *copy, *value;
    const char *name;
    size_t i;

    if (target)
        return resolved(json_object_get(schemas, target + strlen("#/components/schemas/")),
                        schemas);
    copy = json_copy(schema);
    json_object_foreach(schema, name, value)
    {
        json_object_set_new(copy, name, resolved(value, schemas));
    }
    json_array_foreach(schema, i, value)
    {
        json_array_set_new(copy, i, resolved(value, schemas));
    }
    return copy;
}

static void assert_example(const char *name, json_t *schema, json_t *example, json_t *json)
{
    json_t *schemas = json_object_get(json_object_get(json, "components"), "schemas");
    CLEANUP(json_decrefp) json_t *whole = resolved(schema, schemas);
    CLEANUP(freep) char *text = json_dumps(whole, 0);
    CLEANUP(schema_freep) struct schema *compiled = NULL;
    struct schema_problem problem = {0};

    assert_non_null(text);
    assert_int_equal(schema_compile(text, &compiled), 0);
    if (!example || !schema_check(compiled, example, &problem))
        fail_msg("the example of %s: %s", name, example ? problem.err.text : "there is none");
}

static void test_examples_match_their_schemas(void **state)
{
    CLEANUP(json_decrefp) json_t *json = document();

    (void)state;
    for (size_t i = 0; i < row_count; i++) {
        if (rows[i]->body == BODY_JSON) {
            json_t *content = body_of(json, rows[i]);

            assert_example(rows[i]->name, json_object_get(content, "schema"),
                           json_object_get(content, "example"), json);
        }
        for (const struct door_event *event = rows[i]->events; event && event->name; event++) {
            CLEANUP(json_decrefp) json_t *schema = json_loads(event->schema, 0, NULL);
            CLEANUP(json_decrefp) json_t *example = json_loads(event->example, 0, NULL);

            assert_non_null(schema);
            assert_example(event->name, schema, example, json);
        }
    }
}

/* A reply of events says which, with the schema of their data. */
static void test_event_streams_declare_their_events(void **state)
{
    CLEANUP(json_decrefp) json_t *json = document();
    size_t streams = 0;

    (void)state;
    for (size_t i = 0; i < row_count; i++) {
        json_t *response, *content, *kinds, *kind;
        const char *name;
        char status[8];

        snprintf(status, sizeof(status), "%u", rows[i]->status);
        response =
            json_object_get(json_object_get(operation_of(json, rows[i]), "responses"), status);
        content = json_object_get(json_object_get(response, "content"), TYPE_EVENTS);
        assert_int_equal(content != NULL, rows[i]->events != NULL);
        assert_true(content || !str_equal(rows[i]->type, TYPE_EVENTS));
        if (!content)
            continue;
        streams++;
        kinds = json_object_get(content, "x-events");
        assert_true(json_object_size(kinds) > 1);
        json_object_foreach(kinds, name, kind)
        {
            char line[100];

            assert_non_null(json_object_get(kind, "schema"));
            assert_sentence(name, json_string_value(json_object_get(kind, "description")));
            snprintf(line, sizeof(line), "event: %s\ndata: {", name);
            assert_non_null(strstr(json_string_value(json_object_get(content, "example")), line));
        }
    }
    assert_int_equal(streams, 10);
}

/*
 * Generators of clients drop an object with an array whose items they do not know, and take an
 * object without members for one that is always empty.
 */
static void check_arrays(json_t *json, const char *place)
{
    const char *type = json_string_value(json_object_get(json, "type"));
    const char *name;
    json_t *value;
    size_t i;

    if (str_equal(type, "array") && !json_object_get(json, "items"))
        fail_msg("the array '%s' has no items", place);
    if (str_equal(type, "object") && !json_object_get(json, "properties") &&
        !json_object_get(json, "additionalProperties"))
        fail_msg("the object '%s' says nothing about its members", place);
    json_object_foreach(json, name, value)
    {
        check_arrays(value, name);
    }
    json_array_foreach(json, i, value)
    {
        check_arrays(value, place);
    }
}

static void test_arrays_and_objects_say_what_is_in_them(void **state)
{
    CLEANUP(json_decrefp) json_t *json = document();

    (void)state;
    check_arrays(json, "document");
}

static void test_event_ids(void **state)
{
    uint64_t offset[BOX_STREAMS];

    (void)state;
    assert_true(exec_stream_id_parse("12-0", offset));
    assert_int_equal(offset[0], 12);
    assert_int_equal(offset[1], 0);
    assert_true(exec_stream_id_parse("18446744073709551615-7", offset));
    assert_false(exec_stream_id_parse("", offset));
    assert_false(exec_stream_id_parse("12", offset));
    assert_false(exec_stream_id_parse("-12", offset));
    assert_false(exec_stream_id_parse("1-", offset));
    assert_true(exec_stream_id_parse("1-2-3", offset)); /* of a cell */
    assert_int_equal(offset[2], 3);
    assert_false(exec_stream_id_parse("1-2-", offset));
    assert_false(exec_stream_id_parse("1-2-3-4", offset));
    assert_false(exec_stream_id_parse("99999999999999999999999999999999999999999-1", offset));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_there),
        cmocka_unit_test(test_path_parameters_are_described),
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_references_lead_somewhere),
        cmocka_unit_test(test_error_codes_are_one_table),
        cmocka_unit_test(test_rows_name_known_errors),
        cmocka_unit_test(test_every_operation_has_a_declared_tag_and_a_description),
        cmocka_unit_test(test_every_tag_is_described_and_used),
        cmocka_unit_test(test_every_member_of_a_body_is_described),
        cmocka_unit_test(test_every_member_of_a_noun_is_described),
        cmocka_unit_test(test_examples_match_their_schemas),
        cmocka_unit_test(test_event_streams_declare_their_events),
        cmocka_unit_test(test_arrays_and_objects_say_what_is_in_them),
        cmocka_unit_test(test_event_ids),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
