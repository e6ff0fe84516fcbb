/* test_schema.c - JSON from outside: position, depth, and what is wrong with which member. */
#include <jansson.h>
#include <string.h>

#include "unit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "tool/schema.h"
#include "tool/tool.h"

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"argv\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"minItems\":1,\"maxItems\":3},"
    "\"timeout\":{\"type\":\"number\",\"minimum\":1,\"maximum\":300},"
    "\"share\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":1},"
    "\"rows\":{\"type\":\"integer\",\"minimum\":0},"
    "\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"
    "\"pty\":{\"type\":\"object\",\"properties\":{\"rows\":{\"type\":\"integer\"}},\"required\":["
    "\"rows\"],\"additionalProperties\":false},"
    "\"content\":{\"type\":\"string\",\"contentMediaType\":\"text/plain\"},"
    "\"name\":{\"type\":\"string\",\"minLength\":1},"
    "\"kind\":{\"type\":[\"string\",\"boolean\"]},"
    "\"language\":{\"type\":\"string\",\"enum\":[\"python\",\"bash\"]}},"
    "\"required\":[\"argv\"],\"additionalProperties\":false}";

static bool check_text(const char *text, json_t *value, struct schema_problem *problem)
{
    CLEANUP(schema_freep) struct schema *compiled = NULL;

    assert_int_equal(schema_compile(text, &compiled), 0);
    return schema_check(compiled, value, problem);
}

static bool fits(const char *text, struct schema_problem *problem)
{
    CLEANUP(json_decrefp) json_t *json = json_read(text, strlen(text), problem);

    assert_non_null(json);
    return check_text(schema, json, problem);
}

static void test_what_fits(void **state)
{
    static const char *const texts[] = {
        "{\"argv\":[\"a\"]}",
        "{\"argv\":[\"a\",\"b\",\"\"],\"timeout\":1,\"rows\":0}",
        "{\"argv\":[\"a\"],\"timeout\":300.0,\"rows\":3.0,\"share\":1}",
        "{\"argv\":[\"a\"],\"env\":{\"A\":\"1\",\"B\":\"\"},\"pty\":{\"rows\":2}}",
        "{\"argv\":[\"a\"],\"content\":\"x\\u0000y\",\"kind\":true}",
        "{\"argv\":[\"a\"],\"kind\":\"x\",\"language\":\"bash\"}",
    };
    struct schema_problem problem;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (!fits(texts[i], &problem))
            fail_msg("%s: %s", texts[i], problem.err.text);
}

static void test_what_does_not(void **state)
{
    static const struct {
        const char *text, *code, *field, *mention;
    } rows[] = {
        {"[]", "bad_input", "", "has to be an object, not an array"},
        {"{}", "bad_input", "argv", "is missing"},
        {"{\"argv\":\"ls\"}", "bad_input", "argv", "an array, not a string"},
        {"{\"argv\":[]}", "bad_input", "argv", "at least 1 element"},
        {"{\"argv\":[\"a\",\"b\",\"c\",\"d\"]}", "bad_input", "argv", "at most 3"},
        {"{\"argv\":[\"a\",2]}", "bad_input", "argv[1]", "a string, not a number"},
        {"{\"argv\":[\"a\\u0000b\"]}", "bad_input", "argv[0]", "NUL"},
        {"{\"argv\":[\"a\"],\"timeout\":0.5}", "bad_input", "timeout", "from 1 to 300, not 0.5"},
        {"{\"argv\":[\"a\"],\"timeout\":301}", "bad_input", "timeout", "from 1 to 300, not 301"},
        {"{\"argv\":[\"a\"],\"timeout\":null}", "bad_input", "timeout", "not null"},
        {"{\"argv\":[\"a\"],\"share\":0}", "bad_input", "share", "more than 0 and at most 1"},
        {"{\"argv\":[\"a\"],\"rows\":1.5}", "bad_input", "rows", "an integer"},
        {"{\"argv\":[\"a\"],\"rows\":-1}", "bad_input", "rows", "at least 0"},
        {"{\"argv\":[\"a\"],\"env\":{\"K\":1}}", "bad_input", "env.K", "a string"},
        {"{\"argv\":[\"a\"],\"pty\":{}}", "bad_input", "pty.rows", "is missing"},
        {"{\"argv\":[\"a\"],\"pty\":{\"row\":1}}", "unknown_parameter", "pty.row", "'rows'?"},
        {"{\"argv\":[\"a\"],\"name\":\"\"}", "bad_input", "name", "is empty"},
        {"{\"argv\":[\"a\"],\"kind\":1}", "bad_input", "kind", "string or boolean"},
        {"{\"argv\":[\"a\"],\"language\":\"perl\"}", "bad_input", "language", "python, bash"},
        {"{\"argv\":[\"a\"],\"timeoout\":1}", "unknown_parameter", "timeoout", "'timeout'?"},
    };
    struct schema_problem problem;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_false(fits(rows[i].text, &problem));
        assert_string_equal(problem.err.code, rows[i].code);
        assert_string_equal(problem.field, rows[i].field);
        if (!strstr(problem.err.text, rows[i].mention))
            fail_msg("'%s' is not in '%s'", rows[i].mention, problem.err.text);
    }
    assert_string_equal(problem.nearest, "timeout");
}

static void test_bad_json_has_its_place(void **state)
{
    struct schema_problem problem;
    char deep[80];

    (void)state;
    assert_null(json_read("{\n  \"a\": x}", 11, &problem));
    assert_string_equal(problem.err.code, "bad_json");
    assert_int_equal(problem.line, 2);
    assert_true(problem.column > 1);
    assert_null(json_read("", 0, &problem));
    assert_int_equal(problem.line, 1);
    assert_null(json_read("{\"a\":1,\"a\":2}", 13, &problem));
    assert_null(json_read("\"\xff\"", 3, &problem));
    memset(deep, '[', sizeof(deep));
    assert_null(json_read(deep, LIMIT_JSON_DEPTH + 1, &problem));
    assert_non_null(strstr(problem.err.text, "deeper than 64"));
    assert_null(json_read(deep, LIMIT_JSON_DEPTH, &problem));
    assert_null(strstr(problem.err.text, "deeper"));
}

/* A member's name of theirs may be as long and as odd as they like. */
static void test_long_names_are_cut(void **state)
{
    CLEANUP(json_decrefp) json_t *json = json_object();
    struct schema_problem problem;
    char name[5000];

    (void)state;
    for (size_t i = 0; i + 2 < sizeof(name); i += 2)
        memcpy(name + i, "\xc3\xa4", 2);
    name[sizeof(name) - 2] = '\0';
    assert_int_equal(json_object_set_new(json, name, json_true()), 0);
    assert_false(check_text(schema, json, &problem));
    assert_true(strlen(problem.field) < 100);
    assert_int_equal(utf8_floor(problem.field, strlen(problem.field)), strlen(problem.field));
}

/* What the rows of the tools promise is what the checker understands. */
static void test_tools_refuse_what_they_do_not_know(void **state)
{
    CLEANUP(json_decrefp) json_t *json = json_pack("{s:b}", "zzzzzz", 1);
    struct schema_problem problem;

    (void)state;
    for (size_t i = 0; i < tool_count; i++) {
        CLEANUP(json_decrefp) json_t *row = tool_row_json(&tool_table[i]);

        assert_false(check_text(tool_table[i].schema, json, &problem));
        assert_string_equal(problem.err.code, "unknown_parameter");
        assert_non_null(row);
        assert_true(json_is_object(json_object_get(row, "parameters")));
        assert_int_equal(json_object_size(json_object_get(row, "annotations")), 4);
    }
    assert_string_equal(tool_nearest("sandbox_exce"), "sandbox_exec");
    assert_null(tool_nearest("completely other"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fits),
        cmocka_unit_test(test_what_does_not),
        cmocka_unit_test(test_bad_json_has_its_place),
        cmocka_unit_test(test_long_names_are_cut),
        cmocka_unit_test(test_tools_refuse_what_they_do_not_know),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
