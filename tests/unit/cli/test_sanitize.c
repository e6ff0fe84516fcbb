/* test_sanitize.c - the terminal filter: what passes, what is shown, in whole chunks and in pieces.
 */
#include <string.h>

#include "unit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/sanitize.h"

static const struct {
    const char *input;
    const char *shown;
} cases[] = {
    {"plain text\n", "plain text\n"},
    {"a\tb\r\n", "a\tb\r\n"},
    {"häßlich 日本 € \U0001f600", "häßlich 日本 € \U0001f600"},
    {"\x1b[31mred", "\\x1b[31mred"},
    {"\x1b]0;title\x07", "\\x1b]0;title\\x07"},
    {"a\x08\x0e\x0f\x7f", "a\\x08\\x0e\\x0f\\x7f"},
    {"\xc2\x9b"
     "31m",
     "\\u009b31m"},
    {"\xc2\x80\xc2\x9f\xc2\xa0", "\\u0080\\u009f\xc2\xa0"},
    {"\x9d"
     "0;x\x9c",
     "\\x9d0;x\\x9c"},
    {"user\u202enimda", "user\\u202enimda"},
    {"\u202a\u202d\u2066\u2069\u200e\u200f", "\\u202a\\u202d\\u2066\\u2069\\u200e\\u200f"},
    {"\xff\xfe", "\\xff\\xfe"},
    {"\xc0\x80", "\\xc0\\x80"},                   /* overlong NUL */
    {"\xe0\x80\x9b", "\\xe0\\x80\\x9b"},          /* overlong C1 */
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* beyond Unicode */
    {"\xe2\x82", "\\xe2\\x82"},                   /* cut at the end */
    {"\xe2\x82\x1b[m", "\\xe2\\x82\\x1b[m"},      /* cut by an escape */
    {"\xe2\xc2\x9b", "\\xe2\\u009b"},             /* cut by a C1 */
    {"\xf0\x9f\x98x", "\\xf0\\x9f\\x98x"},
    {"\xe2\xe2\x82\xac", "\\xe2€"},
    {"", ""},
};

static void check(const char *input, size_t length, size_t chunk, const char *shown)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(1024);
    struct sanitizer sanitizer = {0};

    for (size_t at = 0; at < length; at += chunk)
        assert_int_equal(sanitize_feed(&sanitizer, input + at, MIN(chunk, length - at), &text), 0);
    assert_int_equal(sanitize_finish(&sanitizer, &text), 0);
    assert_string_equal(buf_text(&text), shown);
    assert_int_equal(sanitizer.held_count, 0);
}

static void test_every_case_in_every_chunk(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (size_t chunk = 1; chunk <= 8; chunk++)
            check(cases[i].input, strlen(cases[i].input), chunk, cases[i].shown);
}

static void test_nul_bytes_are_shown(void **state)
{
    (void)state;
    check("a\0b", 3, 3, "a\\x00b");
    check("a\0b", 3, 1, "a\\x00b");
}

static void test_no_byte_grows_beyond_the_promise(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(64);
        struct sanitizer sanitizer = {0};
        char data = (char)byte;

        assert_int_equal(sanitize_feed(&sanitizer, &data, 1, &text), 0);
        assert_int_equal(sanitize_finish(&sanitizer, &text), 0);
        assert_in_range(text.length, 1, SANITIZE_GROWTH);
    }
}

static void test_a_line_stays_one(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(256);

    (void)state;
    assert_int_equal(sanitize_line("a\nbailey: forged\r\tü\x1b", &text), 0);
    assert_string_equal(buf_text(&text), "a\\x0abailey: forged\\x0d\\x09ü\\x1b");
}

static void test_a_full_buffer_is_told(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(3);
    struct sanitizer sanitizer = {0};

    (void)state;
    assert_true(sanitize_feed(&sanitizer, "\x1b", 1, &text) < 0);
    assert_true(sanitize_feed(&sanitizer, "long text", 9, &text) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_case_in_every_chunk),
        cmocka_unit_test(test_nul_bytes_are_shown),
        cmocka_unit_test(test_no_byte_grows_beyond_the_promise),
        cmocka_unit_test(test_a_line_stays_one),
        cmocka_unit_test(test_a_full_buffer_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
