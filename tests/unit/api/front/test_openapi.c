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
        cmocka_unit_test(test_event_ids),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
