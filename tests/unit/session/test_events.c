/* test_events.c - what a cell says of its values: taken as the document has it, or dropped. */
#include "unit.h"

#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "session/session.h"

static void check_parsed(const char *line, const char *expected)
{
    json_t *event = cell_event_parse(line, strlen(line));
    json_t *wanted = expected ? json_loads(expected, 0, NULL) : NULL;

    assert_true(expected ? wanted != NULL : event == NULL);
    if (expected && !json_equal(event, wanted))
        fail_msg("%s\nbecame %s\nnot    %s", line, json_dumps(event, JSON_COMPACT), expected);
    json_decref(event);
    json_decref(wanted);
}

static void test_values(void **state)
{
    (void)state;
    check_parsed(
        "{\"type\":\"result\",\"data\":{\"text/plain\":\"2\"},\"count\":3}",
        "{\"type\":\"result\",\"data\":{\"text/plain\":\"2\"},\"truncated\":[],\"count\":3}");
    check_parsed("{\"type\":\"display\",\"data\":{\"image/png\":\"aGk=\",\"text/plain\":\"F\"},"
                 "\"truncated\":[\"text/plain\"]}",
                 "{\"type\":\"display\",\"data\":{\"image/png\":\"aGk=\",\"text/plain\":\"F\"},"
                 "\"truncated\":[\"text/plain\"]}");
    check_parsed("{\"type\":\"display\",\"data\":{\"application/json\":{\"a\":[1,null]}}}",
                 "{\"type\":\"display\",\"data\":{\"application/json\":{\"a\":[1,null]}},"
                 "\"truncated\":[]}");
    check_parsed("{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}",
                 "{\"type\":\"error\",\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}");
}

/* Only what the document names comes out, of the kind that it says. */
static void test_strange_members(void **state)
{
    (void)state;
    check_parsed("{\"type\":\"result\",\"meta\":{\"exit_code\":0},\"exit_code\":0,"
                 "\"data\":{\"text/plain\":\"x\"},\"count\":\"3\",\"oom_killed\":false}",
                 "{\"type\":\"result\",\"data\":{\"text/plain\":\"x\"},\"truncated\":[]}");
    check_parsed("{\"type\":\"display\",\"data\":{\"text/plain\":7,\"image/png\":null,"
                 "\"no mime\":\"x\",\"/\":\"x\",\"text/\":\"x\",\"text/html\":\"<b>\"},"
                 "\"truncated\":[\"text/html\",\"image/png\",7],\"count\":9}",
                 "{\"type\":\"display\",\"data\":{\"text/html\":\"<b>\"},\"truncated\":["
                 "\"text/html\"]}");
    check_parsed("{\"type\":\"display\",\"data\":{\"a/b\":\"\"},\"truncated\":[\"a/b\\u0000c\"]}",
                 "{\"type\":\"display\",\"data\":{\"a/b\":\"\"},\"truncated\":[]}");
    check_parsed("{\"type\":\"error\",\"name\":[],\"traceback\":{\"a\":1}}",
                 "{\"type\":\"error\",\"name\":\"\",\"value\":\"\",\"traceback\":\"\"}");
    check_parsed("{\"type\":\"result\",\"count\":-1,\"data\":{\"text/plain\":\"\"}}",
                 "{\"type\":\"result\",\"data\":{\"text/plain\":\"\"},\"truncated\":[]}");
}

static void test_dropped(void **state)
{
    static const char *const lines[] = {
        "",
        "{",
        "end 3 0",
        "[]",
        "null",
        "\"result\"",
        "{}",
        "{\"type\":7}",
        "{\"type\":\"exit\",\"exit_code\":0}",
        "{\"type\":\"started\"}",
        "{\"type\":\"result\"}",
        "{\"type\":\"result\",\"data\":[]}",
        "{\"type\":\"result\",\"data\":{}}",
        "{\"type\":\"result\",\"data\":{\"text/plain\":[]}}",
        "{\"type\":\"result\",\"data\":{\"text/plain\":\"\xff\"}}",
        "{\"type\":\"result\",\"data\":{\"text/plain\":\"x\"}} {}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
        check_parsed(lines[i], NULL);
}

static void test_nul(void **state)
{
    static const char line[] =
        "{\"type\":\"result\",\"data\":{\"text/plain\":\"a\\u0000b\"},\"count\":1}";
    json_t *event = cell_event_parse(line, sizeof(line) - 1);
    json_t *text = json_object_get(json_object_get(event, "data"), "text/plain");

    (void)state;
    assert_int_equal(json_string_length(text), 3);
    json_decref(event);
}

/* As deep as it may be, and one deeper; brackets in strings do not count. */
static void test_depth(void **state)
{
    char line[600], deep[140];

    (void)state;
    for (int levels = 62; levels <= 63; levels++) {
        json_t *event;

        memset(deep, '[', (size_t)levels);
        memset(deep + levels, ']', (size_t)levels);
        deep[2 * levels] = '\0';
        str_format(
            line, sizeof(line),
            "{\"type\":\"display\",\"data\":{\"application/json\":%s,\"text/plain\":\"%s\"}}", deep,
            "[[[[{{\\\"[[[");
        event = cell_event_parse(line, strlen(line));
        assert_int_equal(event != NULL, levels == 62);
        json_decref(event);
    }
}

static void test_many_kinds(void **state)
{
    char line[4096] = "{\"type\":\"display\",\"data\":{";
    json_t *event;

    (void)state;
    for (int i = 0; i < 100; i++)
        snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s\"text/x%d\":\"\"",
                 i ? "," : "", i);
    snprintf(line + strlen(line), sizeof(line) - strlen(line), "}}");
    event = cell_event_parse(line, strlen(line));
    assert_int_equal(json_object_size(json_object_get(event, "data")), 32);
    json_decref(event);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_strange_members),
        cmocka_unit_test(test_dropped), cmocka_unit_test(test_nul),
        cmocka_unit_test(test_depth),   cmocka_unit_test(test_many_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
