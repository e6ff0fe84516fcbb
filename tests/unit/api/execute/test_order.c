/* test_order.c - the body of POST /execute: what it says, and each thing that can be wrong. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/execute/execute.h"
#include "base/cleanup.h"
#include "base/limits.h"

static int read_text(const char *text, struct execute_order *order, struct error *err)
{
    *order = (struct execute_order){0};
    *err = (struct error){0};
    return execute_order_read(text, strlen(text), order, err);
}

/* Refused with a text that has `word` in it. */
static void refuses(const char *text, const char *code, const char *word)
{
    struct execute_order order;
    struct error err;

    if (read_text(text, &order, &err) == 0)
        fail_msg("taken: %s", text);
    assert_string_equal(err.code, code);
    if (!strstr(err.text, word))
        fail_msg("%s: '%s' is not about '%s'", text, err.text, word);
    execute_order_free(&order);
    execute_order_free(&order); /* safe twice */
}

static void test_little(void **state)
{
    struct execute_order order;
    struct error err;

    (void)state;
    assert_int_equal(read_text("{\"code\":\"x\"}", &order, &err), 0);
    assert_string_equal(order.language, "python");
    assert_string_equal(order.code, "x");
    assert_int_equal(order.timeout_ms, 30000);
    assert_null(order.requirements);
    assert_int_equal(order.file_count, 0);
    execute_order_free(&order);
}

static void test_much(void **state)
{
    struct execute_order order;
    struct error err;

    (void)state;
    assert_int_equal(
        read_text("{\"code\":\"x\\u0000y\",\"timeout_seconds\":5,\"requirements\":[\"a\",\"b>=2\"],"
                  "\"files\":{\"d/../../in.txt\":\"aGFs\\nbG8=\",\"empty\":\"\"},\"tool_name\":1}",
                  &order, &err),
        0);
    assert_int_equal(order.code_length, 3);
    assert_int_equal(order.timeout_ms, 5000);
    assert_string_equal(order.requirements[0], "a");
    assert_string_equal(order.requirements[1], "b>=2");
    assert_null(order.requirements[2]);
    assert_int_equal(order.file_count, 2);
    for (size_t i = 0; i < 2; i++) {
        if (strcmp(order.files[i].name, "empty") == 0) {
            assert_int_equal(order.files[i].length, 0);
            continue;
        }
        assert_string_equal(order.files[i].name, "in.txt");
        assert_int_equal(order.files[i].length, 5);
        assert_memory_equal(order.files[i].data, "hallo", 5);
    }
    execute_order_free(&order);
}

static void test_null_is_nothing(void **state)
{
    struct execute_order order;
    struct error err;

    (void)state;
    assert_int_equal(read_text("{\"code\":\"x\",\"timeout_seconds\":null,\"requirements\":null,"
                               "\"files\":null,\"language\":null}",
                               &order, &err),
                     0);
    execute_order_free(&order);
    assert_int_equal(read_text("{\"code\":\"x\",\"timeout_seconds\":-7}", &order, &err), 0);
    assert_int_equal(order.timeout_ms, 30000);
    execute_order_free(&order);
    assert_int_equal(read_text("{\"code\":\"x\",\"timeout_seconds\":0}", &order, &err), 0);
    assert_int_equal(order.timeout_ms, 30000);
    execute_order_free(&order);
}

static void test_languages(void **state)
{
    static const char *const words[][3] = {{"node", "javascript", "script.js"},
                                           {"javascript", "javascript", "script.js"},
                                           {"shell", "bash", "script.sh"},
                                           {"bash", "bash", "script.sh"},
                                           {"python", "python", "script.py"}};
    struct execute_order order;
    struct error err;
    char text[100];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        snprintf(text, sizeof(text), "{\"code\":\"x\",\"language\":\"%s\"}", words[i][0]);
        assert_int_equal(read_text(text, &order, &err), 0);
        assert_string_equal(order.language, words[i][1]);
        assert_string_equal(execute_script(order.language), words[i][2]);
        execute_order_free(&order);
    }
    /* A shell's are passed over. */
    assert_int_equal(
        read_text("{\"code\":\"x\",\"language\":\"bash\",\"requirements\":[\"a\"]}", &order, &err),
        0);
    assert_null(order.requirements);
    execute_order_free(&order);
}

static void test_bad_json(void **state)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "{\"code\":\"x\"",
                                        "{\"code\":\"x\"}}",
                                        "nothing",
                                        "{\"code\":\"\xff\"}",
                                        "{\"code\":\"x\",\"code\":\"y\"}"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct execute_order order;
        struct error err;

        assert_true(read_text(texts[i], &order, &err) < 0);
        assert_true(err.text[0]);
        execute_order_free(&order);
    }
    refuses("[]", ERROR_BAD_JSON, "object");
    refuses("\"code\"", ERROR_BAD_JSON, "object");
}

static void test_bad_members(void **state)
{
    (void)state;
    refuses("{}", ERROR_BAD_INPUT, "code");
    refuses("{\"code\":\"\"}", ERROR_BAD_INPUT, "code");
    refuses("{\"code\":null}", ERROR_BAD_INPUT, "code");
    refuses("{\"code\":1}", ERROR_BAD_INPUT, "code");
    refuses("{\"code\":[\"x\"]}", ERROR_BAD_INPUT, "code");
    refuses("{\"code\":\"x\",\"language\":\"golang\"}", ERROR_BAD_INPUT, "language");
    refuses("{\"code\":\"x\",\"language\":1}", ERROR_BAD_INPUT, "language");
    refuses("{\"code\":\"x\",\"timeout_seconds\":\"5\"}", ERROR_BAD_INPUT, "timeout_seconds");
    refuses("{\"code\":\"x\",\"timeout_seconds\":1.5}", ERROR_BAD_INPUT, "timeout_seconds");
    refuses("{\"code\":\"x\",\"timeout_seconds\":86401}", ERROR_BAD_INPUT, "timeout_seconds");
    refuses("{\"code\":\"x\",\"requirements\":\"a\"}", ERROR_BAD_INPUT, "requirements");
    refuses("{\"code\":\"x\",\"requirements\":[1]}", ERROR_BAD_INPUT, "requirements[0]");
    refuses("{\"code\":\"x\",\"requirements\":[\"a\\u0000b\"]}", ERROR_BAD_INPUT,
            "requirements[0]");
    refuses("{\"code\":\"x\",\"files\":[]}", ERROR_BAD_INPUT, "files");
}

static void test_bad_files(void **state)
{
    static const char *const names[] = {"",  ".",     "..",        "a/",         "a/..",
                                        "/", "a\\nb", "script.py", "x/script.py"};
    static const char *const contents[] = {"\"a\"",         "\"a===\"",     "\"aGFsbG8\"",
                                           "\"aGFs bG8=\"", "\"aGFsbG8_\"", "1",
                                           "null",          "\"=\"",        "\"aGFs\\u0000\""};
    char text[200];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(text, sizeof(text), "{\"code\":\"x\",\"files\":{\"%s\":\"\"}}", names[i]);
        refuses(text, ERROR_BAD_INPUT, "files");
    }
    for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
        snprintf(text, sizeof(text), "{\"code\":\"x\",\"files\":{\"ok\":\"\",\"f\":%s}}",
                 contents[i]);
        refuses(text, ERROR_BAD_INPUT, "'f'");
    }
    refuses("{\"code\":\"x\",\"files\":{\"a/f\":\"\",\"b/f\":\"\"}}", ERROR_BAD_INPUT, "'f'");
}

static void test_too_large(void **state)
{
    size_t length = LIMIT_CODE_BYTES + 1;
    char *text = malloc(length + 100);
    struct execute_order order = {0};
    struct error err = {0};

    (void)state;
    assert_non_null(text);
    strcpy(text, "{\"code\":\"");
    memset(text + 9, 'x', length);
    strcpy(text + 9 + length, "\"}");
    assert_int_equal(execute_order_read(text, strlen(text), &order, &err), -EFBIG);
    assert_string_equal(err.code, ERROR_TOO_LARGE);
    execute_order_free(&order);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_little),          cmocka_unit_test(test_much),
        cmocka_unit_test(test_null_is_nothing), cmocka_unit_test(test_languages),
        cmocka_unit_test(test_bad_json),        cmocka_unit_test(test_bad_members),
        cmocka_unit_test(test_bad_files),       cmocka_unit_test(test_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
