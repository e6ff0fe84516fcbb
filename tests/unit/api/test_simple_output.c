/* test_simple_output.c - error first, then the first PNG, else the text. */
#include "unit.h"

#include <jansson.h>

#include "api/simple_output.h"

static void expect(const char *reply, const char *type, const char *content)
{
    json_t *json = json_loads(reply, 0, NULL), *output = simple_output(json);

    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(output, "type")), type);
    assert_string_equal(json_string_value(json_object_get(output, "content")), content);
    assert_int_equal(json_object_size(output), 2);
    json_decref(json);
    json_decref(output);
}

static void test_order(void **state)
{
    (void)state;
    expect(
        "{\"stdout\":\"a\",\"exit_code\":1,\"error\":{\"name\":\"E\",\"value\":\"v\",\"traceback\":"
        "\"t\"},\"results\":[{\"data\":{\"image/png\":\"p\"}}]}",
        "error", "t");
    expect("{\"exit_code\":1,\"error\":{\"name\":\"E\",\"value\":\"v\",\"traceback\":\"\"}}",
           "error", "E: v");
    expect("{\"stderr\":\"killed\",\"exit_code\":137,\"error\":null}", "error", "killed");
    expect(
        "{\"stdout\":\"a\",\"exit_code\":0,\"error\":null,\"results\":[{\"data\":{\"text/plain\":"
        "\"1\"}},{\"data\":{\"image/png\":\"p\"}},{\"data\":{\"image/png\":\"q\"}}]}",
        "image/png", "p");
    expect("{\"stdout\":\"a\",\"exit_code\":0,\"results\":[{\"data\":{\"text/plain\":\"1\"}}]}",
           "text", "a");
    expect("{\"stdout\":\"\",\"exit_code\":0,\"results\":[{\"data\":{\"text/plain\":\"1\"}}]}",
           "text", "1");
    expect("{}", "text", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
