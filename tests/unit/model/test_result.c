/* test_result.c - capturing, notes, files and exit statuses of a result. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "model/result.h"

static void assert_text(const struct capture *capture, const char *expected, uint64_t invalid)
{
    struct buf text = BUF_INIT(1024);
    uint64_t count = 4711;

    buf_append_text(&text, "old");
    assert_int_equal(capture_text(capture, &text, &count), 0);
    assert_string_equal(buf_text(&text), expected);
    assert_int_equal(count, invalid);
    buf_free(&text);
}

static void test_capture_keeps_an_exact_prefix(void **state)
{
    struct capture capture = {0};

    (void)state;
    capture_add(&capture, "abc", 3, 5);
    assert_false(capture.is_truncated);
    capture_add(&capture, "de", 2, 5);
    assert_false(capture.is_truncated);
    capture_add(&capture, "", 0, 5);
    assert_false(capture.is_truncated);
    assert_text(&capture, "abcde", 0);
    capture_add(&capture, "f", 1, 5);
    assert_true(capture.is_truncated);
    capture_add(&capture, "ghi", 3, 5);
    assert_int_equal(capture.total_bytes, 9);
    assert_int_equal(capture.kept.length, 5);
    assert_text(&capture, "abcde\n... (output truncated)", 0);
    buf_free(&capture.kept);
}

static void test_nothing_follows_what_is_missing(void **state)
{
    struct capture capture = {0};

    (void)state;
    capture_add(&capture, "abc", 3, 2);
    /* a larger limit later must not open a gap */
    capture_add(&capture, "def", 3, 100);
    assert_text(&capture, "ab\n... (output truncated)", 0);
    assert_int_equal(capture.total_bytes, 6);
    buf_free(&capture.kept);
}

static void test_texts_of_streams(void **state)
{
    static const struct {
        const char *data;
        uint64_t limit;
        const char *text;
        uint64_t invalid;
    } rows[] = {
        {"", 4, "", 0},
        {"line\n", 5, "line\n", 0},
        {"line\nmore", 5, "line\n... (output truncated)", 0},
        {"\xe2\x82\xac", 3, "\xe2\x82\xac", 0},
        {"\xe2\x82\xac", 2, "... (output truncated)", 0},
        {"a\xe2\x82\xac", 3, "a\n... (output truncated)", 0},
        {"a\xe2\x82", 3, "a\xef\xbf\xbd", 2},
        {"a\xff\xff", 2, "a\xef\xbf\xbd\n... (output truncated)", 1},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct capture capture = {0};

        /* byte by byte, as a slow guest writes */
        for (const char *byte = rows[i].data; *byte; byte++)
            capture_add(&capture, byte, 1, rows[i].limit);
        assert_text(&capture, rows[i].text, rows[i].invalid);
        assert_int_equal(capture.total_bytes, strlen(rows[i].data));
        buf_free(&capture.kept);
    }
}

/* A traceback is at the end of stderr, so a cut stderr has both of its ends. */
static void test_stderr_keeps_its_beginning_and_its_end(void **state)
{
    static const struct {
        const char *data;
        uint64_t limit;
        const char *text;
    } rows[] = {
        {"12345678", 8, "12345678"},
        {"123456789", 8, "1234\n... (output truncated)\n6789"},
        {"abcdefghijklmnopqrstuvwxyz", 8, "abcd\n... (output truncated)\nwxyz"},
        {"abcdefghijklmnopqrstuvwx\n", 5, "ab\n... (output truncated)\nwx\n"},
        {"abcdefgh\xe2\x82\xac", 4, "ab\n... (output truncated)"},
        {"abcdefg\xe2\x82\xacz", 6, "abc\n... (output truncated)\nz"},
        {"abc", 0, "... (output truncated)"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        for (size_t step = 1; step <= strlen(rows[i].data); step++) {
            struct capture capture = {.keeps_end = true};

            for (size_t at = 0; at < strlen(rows[i].data); at += step)
                capture_add(&capture, rows[i].data + at, MIN(step, strlen(rows[i].data) - at),
                            rows[i].limit);
            assert_int_equal(capture.total_bytes, strlen(rows[i].data));
            assert_true(capture.tail.length <= rows[i].limit + 1);
            assert_text(&capture, rows[i].text, 0);
            capture_free(&capture);
        }
    }
}

static void test_text_over_the_callers_ceiling(void **state)
{
    struct capture capture = {0};
    struct buf text = BUF_INIT(10);
    uint64_t count = 4711;

    (void)state;
    capture_add(&capture, "abcdef", 6, 5);
    assert_int_equal(capture_text(&capture, &text, &count), -EFBIG);
    assert_int_equal(count, 4711);
    buf_free(&capture.kept);
    buf_free(&text);
}

static void test_notes(void **state)
{
    struct limits limits = {.output_bytes = 1};
    struct result result;
    char big[2 * RESULT_NOTE_MAX];

    (void)state;
    result_init(&result, &limits);
    result_note(&result, "timed out after %d s", 5);
    result_note(&result, "%s", "second");
    assert_string_equal(buf_text(&result.note), "timed out after 5 s\nsecond\n");
    assert_int_equal(result.err.total_bytes, 0);
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    for (int i = 0; i < 10; i++)
        result_note(&result, "%s", big);
    assert_true(result.note.length <= RESULT_NOTE_MAX);
    assert_int_equal(result.note.data[result.note.length - 1], '\n');
    result_free(&result);
    result_free(&result);
}

static void test_files(void **state)
{
    struct limits limits = {0};
    struct result result;
    char name[16];

    (void)state;
    result_init(&result, &limits);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        assert_int_equal(result_add_file(&result, name, i % 2 ? "/x" : NULL, (uint64_t)i,
                                         i % 2 ? NULL : "symlink"),
                         0);
    }
    assert_int_equal(result.file_count, 100);
    assert_string_equal(result.files[77].name, "f77");
    assert_string_equal(result.files[77].path, "/x");
    assert_null(result.files[77].skipped);
    assert_null(result.files[78].path);
    assert_string_equal(result.files[78].skipped, "symlink");
    result_free(&result);
    assert_int_equal(result.file_count, 0);
}

static void test_there_is_a_most_of_files(void **state)
{
    struct limits limits = {0};
    struct result result;

    (void)state;
    result_init(&result, &limits);
    for (size_t i = 0; i < LIMIT_LIST_ENTRIES; i++)
        assert_int_equal(result_add_file(&result, "f", NULL, 0, NULL), 0);
    assert_int_equal(result_add_file(&result, "f", NULL, 0, NULL), -EFBIG);
    result_free(&result);
}

static void test_exit_statuses(void **state)
{
    const struct {
        const char *code;
        bool timed_out;
        int signal, exit_code, status;
    } rows[] = {
        {NULL, false, 0, 0, 0},
        {NULL, false, 0, 3, 3},
        {NULL, false, 0, 255, 255},
        {NULL, false, 9, 137, 137},
        {NULL, false, 15, 0, 143},
        {NULL, true, 9, -1, 124},
        {NULL, false, 0, -1, 125},
        {NULL, false, 0, 256, 125},
        {ERROR_REFUSED, false, 0, 1, 126},
        {ERROR_BLOCKED_IMPORT, false, 0, 1, 126},
        {ERROR_NOT_EXECUTABLE, false, 0, 1, 126},
        {ERROR_COMMAND_NOT_FOUND, false, 0, 1, 127},
        {ERROR_CANCELLED, false, 9, 137, 130},
        {ERROR_BAD_INPUT, false, 0, 1, 125},
        {ERROR_BOX_FAILED, false, 0, 1, 125},
        {"a word of tomorrow", false, 0, 1, 125},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct result result = {.error.code = rows[i].code,
                                .timed_out = rows[i].timed_out,
                                .signal = rows[i].signal,
                                .exit_code = rows[i].exit_code};

        assert_int_equal(result_exit_status(&result), rows[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capture_keeps_an_exact_prefix),
        cmocka_unit_test(test_nothing_follows_what_is_missing),
        cmocka_unit_test(test_texts_of_streams),
        cmocka_unit_test(test_stderr_keeps_its_beginning_and_its_end),
        cmocka_unit_test(test_text_over_the_callers_ceiling),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_there_is_a_most_of_files),
        cmocka_unit_test(test_exit_statuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
