/* test_code_text.c - the source of a call out of JSON that arrives in any pieces. */
#include "unit.h"

#include <string.h>

#include "agent/code_text.h"

/* In one piece, and in pieces of each small size. */
static void expect(const char *json, const char *code)
{
    size_t length = strlen(json);

    for (size_t step = 1; step <= length + 1; step++) {
        struct code_text text = {0};
        struct buf got = BUF_INIT(10000);

        for (size_t at = 0; at < length; at += step)
            assert_int_equal(
                code_text_feed(&text, json + at, length - at < step ? length - at : step, &got), 0);
        assert_string_equal(buf_text(&got), code);
        buf_free(&got);
    }
}

static void test_the_member_code_and_no_other(void **state)
{
    (void)state;
    expect("{\"code\": \"print(1)\"}", "print(1)");
    expect(
        " { \"a\" : {\"code\":\"x\",\"b\":[\"}\",{}]}, \"n\":-1.5e3,\"t\":true, \"code\":\"y\" }",
        "y");
    expect("{\"s\":\"a \\\" code\",\"code\":\"z\",\"code\":\"again\"}", "z");
    expect("{\"codes\":\"x\",\"cod\":\"x\",\"\":\"x\"}", "");
    expect("{\"code\": 5}", "");
    expect("{\"code\": [\"x\"]}", "");
    expect("{}", "");
}

static void test_escapes_are_decoded(void **state)
{
    (void)state;
    expect("{\"code\":\"a\\n\\t\\\"\\\\\\/\\b\\f\\r\"}", "a\n\t\"\\/\b\f\r");
    expect("{\"code\":\"\\u0041\\u00e9\\u20ac\"}", "A\xc3\xa9\xe2\x82\xac");
    expect("{\"code\":\"\\ud83d\\ude00\\uD83D\\uDE00\"}", "\xf0\x9f\x98\x80\xf0\x9f\x98\x80");
    expect("{\"code\":\"\xc3\xa9\xf0\x9f\x98\x80\"}", "\xc3\xa9\xf0\x9f\x98\x80");
}

static void test_half_a_pair_is_replaced(void **state)
{
    (void)state;
    expect("{\"code\":\"\\ud83dx\"}", "\xef\xbf\xbdx");
    expect("{\"code\":\"\\ud83d\"}", "\xef\xbf\xbd");
    expect("{\"code\":\"\\ude00\"}", "\xef\xbf\xbd");
    expect("{\"code\":\"\\ud83d\\ud83d\\ude00\"}", "\xef\xbf\xbd\xf0\x9f\x98\x80");
    expect("{\"code\":\"\\ud83d\\n\"}", "\xef\xbf\xbd\n");
}

static void test_what_is_no_object_has_no_code(void **state)
{
    (void)state;
    expect("print(1)", "");
    expect("[\"code\"]", "");
    expect("\"code\"", "");
    expect("{code: \"x\"}", "");
    expect("{\"code\" \"x\"}", "");
    expect("{\"code\":\"ok\\x\"}", "ok");
    expect("{\"code\":\"ok\\u12g4\"}", "ok");
    expect("{\"code\":\"unfinished", "unfinished");
    expect("{\"code\":\"x\"} {\"code\":\"y\"}", "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_member_code_and_no_other),
        cmocka_unit_test(test_escapes_are_decoded),
        cmocka_unit_test(test_half_a_pair_is_replaced),
        cmocka_unit_test(test_what_is_no_object_has_no_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
