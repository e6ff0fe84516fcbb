/* test_import_report.c - the import check's answer: the good one in words, the hostile one refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "recipe/import_report.h"

#define ROW(module, line, text) \
    "{\"module\": \"" module "\", \"line\": " line ", \"import\": \"" text "\"}"
#define ANSWER(rows) "{\"blocked\": [" rows "], \"syntax_error\": null}\n"

static void answers(const char *json, int count, const char *expected)
{
    CLEANUP(buf_free) struct buf message = BUF_INIT(IMPORT_REPORT_MAX);
    CLEANUP(strv_freep) char **modules = NULL;
    struct error err = {0};
    int r = import_report_parse(json, strlen(json), &modules, &message, &err);

    if (r < 0)
        fail_msg("%s", err.text);
    assert_int_equal(r, count);
    assert_int_equal(strv_length(modules), count);
    assert_string_equal(buf_text(&message), expected);
}

static void fails(const char *json, size_t length, int num, const char *expected)
{
    CLEANUP(buf_free) struct buf message = BUF_INIT(IMPORT_REPORT_MAX);
    char **modules = NULL;
    struct error err = {0};
    int r = import_report_parse(json, length, &modules, &message, &err);

    if (r != num || !strstr(err.text, expected))
        fail_msg("%.100s: %d, '%s'", json, r, err.text);
    assert_non_null(err.code);
    assert_null(modules);
}

static void nothing_blocked(void **state)
{
    (void)state;
    answers(ANSWER(""), 0, "");
}

static void each_module_once_with_advice(void **state)
{
    (void)state;
    answers(ANSWER(ROW("subprocess", "3", "import subprocess") ", " ROW(
                "os.path", "4", "import os.path") ", " ROW("subprocess", "9", "import subprocess")),
            2,
            "line 3: import subprocess: the module 'subprocess' is blocked. Instead: use "
            "Python's own libraries in this process.\n"
            "line 4: import os.path: the module 'os.path' is blocked. Instead: pathlib for paths, "
            "tempfile for scratch files.");
    answers(ANSWER(ROW("shutil", "1", "x") ", " ROW("socket", "2", "y")), 2,
            "line 1: x: the module 'shutil' is blocked. Instead: pathlib and open().\n"
            "line 2: y: the module 'socket' is blocked. Instead: the box has no network; work with "
            "the data you were given.");
    answers(
        ANSWER(ROW("ossa", "1", "import ossa")), 1,
        "line 1: import ossa: the module 'ossa' is blocked. Instead: write the code without it, or "
        "remove it from SANDBOX_BLOCKED_IMPORTS.");
}

static void syntax_errors(void **state)
{
    (void)state;
    answers("{\"blocked\": [], \"syntax_error\": {\"line\": 2, \"message\": \"invalid syntax\"}}",
            0, "line 2: syntax error: invalid syntax");
    answers("{\"blocked\": [], \"syntax_error\": {\"line\": 0, \"message\": \"bad\"}}", 0,
            "syntax error: bad");
}

static void a_check_that_failed(void **state)
{
    static const char json[] = "{\"error\": \"RecursionError: too deep\\u001b[2J\"}";

    (void)state;
    fails(json, strlen(json), -EINVAL, "could not be checked for blocked imports: RecursionError");
    fails(json, strlen(json), -EINVAL, "too deep?[2J");
    fails("{\"error\": 7}", 12, -EINVAL, "blocked imports: ?");
}

static void words_are_tamed(void **state)
{
    (void)state;
    answers(ANSWER(ROW("x", "1", "a\\u001b[31m\\n\\u007f\\u009b\\u00fcb")), 1,
            "line 1: a?[31m????\xc3\xbc"
            "b: the module 'x' is blocked. Instead: write the code without it, or remove it from "
            "SANDBOX_BLOCKED_IMPORTS.");
}

static void long_words_are_cut_at_a_character(void **state)
{
    CLEANUP(buf_free) struct buf message = BUF_INIT(IMPORT_REPORT_MAX);
    CLEANUP(buf_free) struct buf json = BUF_INIT(65536);
    CLEANUP(strv_freep) char **modules = NULL;

    (void)state;
    buf_append_text(&json, "{\"blocked\": [{\"module\": \"x\", \"line\": 1, \"import\": \"");
    for (int i = 0; i < 500; i++)
        buf_append_text(&json, "\xe2\x82\xac");
    buf_append_text(&json, "\"}], \"syntax_error\": null}");
    assert_int_equal(import_report_parse(json.data, json.length, &modules, &message, NULL), 1);
    assert_non_null(strstr(buf_text(&message), "\xe2\x82\xac...: the module 'x'"));
    assert_int_equal(utf8_floor(message.data, message.length), message.length);
    assert_true(message.length < 400);
}

static void nonsense(void **state)
{
    static const char *const rows[] = {
        "",
        "x",
        "[]",
        "null",
        "{}",
        "{\"blocked\": []}",
        "{\"syntax_error\": null}",
        "{\"blocked\": {}, \"syntax_error\": null}",
        "{\"blocked\": [], \"syntax_error\": 1}",
        "{\"blocked\": [], \"syntax_error\": {\"line\": -1, \"message\": \"x\"}}",
        "{\"blocked\": [], \"syntax_error\": {\"line\": \"1\", \"message\": \"x\"}}",
        "{\"blocked\": [1], \"syntax_error\": null}",
        "{\"blocked\": [], \"blocked\": [], \"syntax_error\": null}",
        ANSWER("{}"),
        ANSWER(ROW("", "1", "x")),
        ANSWER(ROW("a b", "1", "x")),
        ANSWER(ROW("a\\u0000b", "1", "x")),
        ANSWER(ROW("a\\nb", "1", "x")),
        ANSWER(ROW("a", "-1", "x")),
        ANSWER(ROW("a", "1.5", "x")),
        ANSWER(ROW("a", "9223372036854775807", "x")),
        ANSWER(ROW("a", "99999999999999999999", "x")),
        ANSWER(ROW("a", "1", "x\\u0000")),
        ANSWER("") "x",
        "{\"blocked\": [" ROW("a", "1",
                              "x") "], \"syntax_error\": {\"line\": 1, \"message\": \"\"}}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        fails(rows[i], strlen(rows[i]), -EBADMSG, "no usable answer");
}

static void too_much(void **state)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(2 << 20);

    (void)state;
    buf_append_text(&json, "{\"blocked\": [");
    for (int i = 0; i < 101; i++)
        buf_printf(&json, "%s{\"module\":\"m%d\",\"line\":1,\"import\":\"x\"}", i ? "," : "", i);
    buf_append_text(&json, "], \"syntax_error\": null}");
    fails(json.data, json.length, -EBADMSG, "no list");
    buf_clear(&json);
    for (int i = 0; i < 1 << 20; i++)
        buf_append_text(&json, "[");
    fails(json.data, json.length, -EBADMSG, "too long");
    fails(json.data, 200000, -EBADMSG, "no JSON object");
}

/* The largest answer that is accepted fits into the message's ceiling. */
static void the_largest_answer_fits(void **state)
{
    CLEANUP(buf_free) struct buf message = BUF_INIT(IMPORT_REPORT_MAX);
    CLEANUP(buf_free) struct buf json = BUF_INIT(2 << 20);
    CLEANUP(strv_freep) char **modules = NULL;
    char name[201];

    (void)state;
    memset(name, 'm', 200);
    name[200] = '\0';
    buf_append_text(&json, "{\"blocked\": [");
    for (int i = 0; i < 100; i++)
        buf_printf(&json, "%s{\"module\":\"%02d%s\",\"line\":1,\"import\":\"%s%s\"}", i ? "," : "",
                   i, name + 2, name, name);
    buf_append_text(&json, "], \"syntax_error\": null}");
    assert_int_equal(import_report_parse(json.data, json.length, &modules, &message, NULL), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_blocked),
        cmocka_unit_test(each_module_once_with_advice),
        cmocka_unit_test(syntax_errors),
        cmocka_unit_test(a_check_that_failed),
        cmocka_unit_test(words_are_tamed),
        cmocka_unit_test(long_words_are_cut_at_a_character),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(too_much),
        cmocka_unit_test(the_largest_answer_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
