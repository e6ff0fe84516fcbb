/* test_range.c - ranges of a file, tags, and names in a header; every input is hostile. */
#include "unit.h"

#include <string.h>

#include "http/range.h"

#define TAG "\"abc\""

static void expect(const char *range, const char *if_range, uint64_t size, enum http_range kind,
                   uint64_t first, uint64_t count)
{
    uint64_t got_first = 99, got_count = 99;

    assert_int_equal(http_range_read(range, if_range, TAG, size, &got_first, &got_count), kind);
    if (kind == RANGE_NONE)
        return;
    assert_int_equal(got_first, first);
    assert_int_equal(got_count, count);
}

static void test_parts(void **state)
{
    (void)state;
    expect("bytes=0-0", NULL, 10, RANGE_PART, 0, 1);
    expect("bytes=2-4", NULL, 10, RANGE_PART, 2, 3);
    expect("Bytes= 2-4", NULL, 10, RANGE_PART, 2, 3);
    expect("bytes=9-", NULL, 10, RANGE_PART, 9, 1);
    expect("bytes=0-", NULL, 10, RANGE_PART, 0, 10);
    expect("bytes=5-100", NULL, 10, RANGE_PART, 5, 5);
    expect("bytes=0-18446744073709551615", NULL, 10, RANGE_PART, 0, 10);
    expect("bytes=-3", NULL, 10, RANGE_PART, 7, 3);
    expect("bytes=-100", NULL, 10, RANGE_PART, 0, 10);
    expect("bytes=9-9", NULL, 10, RANGE_PART, 9, 1);
    expect("bytes=1-18446744073709551616", NULL, 10, RANGE_PART, 1, 9);
    expect("bytes=-99999999999999999999", NULL, 10, RANGE_PART, 0, 10);
    expect("bytes=007-008", NULL, 10, RANGE_PART, 7, 2);
    /* Empty elements of a list are none. */
    expect("bytes=,2-4", NULL, 10, RANGE_PART, 2, 3);
    expect("bytes=2-4 ,\t,", NULL, 10, RANGE_PART, 2, 3);
    expect("bytes=2-,", NULL, 10, RANGE_PART, 2, 8);
    expect("bytes=-2 ", NULL, 10, RANGE_PART, 8, 2);
    /* All of nothing. */
    expect("bytes=-1", NULL, 0, RANGE_WHOLE, 0, 0);
}

static void test_nothing_of_it_is_there(void **state)
{
    (void)state;
    expect("bytes=10-", NULL, 10, RANGE_NONE, 0, 0);
    expect("bytes=10-20", NULL, 10, RANGE_NONE, 0, 0);
    expect("bytes=18446744073709551615-", NULL, 10, RANGE_NONE, 0, 0);
    expect("bytes=-0", NULL, 10, RANGE_NONE, 0, 0);
    expect("bytes=0-", NULL, 0, RANGE_NONE, 0, 0);
    expect("bytes=18446744073709551616-", NULL, 10, RANGE_NONE, 0, 0);
    expect("bytes=99999999999999999999-99999999999999999999", NULL, 10, RANGE_NONE, 0, 0);
    expect("bytes=-0", NULL, 0, RANGE_NONE, 0, 0);
}

static void test_what_is_not_understood_is_passed_over(void **state)
{
    static const char *const texts[] = {"",
                                        "bytes",
                                        "bytes=",
                                        "bytes=-",
                                        "bytes=a-b",
                                        "bytes=4-2",
                                        "bytes=1-2,4-5",
                                        "bytes=,",
                                        "bytes=1-2 3-4",
                                        "bytes=2-,4-",
                                        "items=0-1",
                                        "bytes=0x1-",
                                        "bytes=--1",
                                        "bytes=1-2-3",
                                        "bytes=+1-2",
                                        "0-1",
                                        "bytes=1 - 2",
                                        "bytes=\xff",
                                        NULL};

    (void)state;
    for (size_t i = 0; texts[i]; i++)
        expect(texts[i], NULL, 10, RANGE_WHOLE, 0, 10);
    expect(NULL, NULL, 10, RANGE_WHOLE, 0, 10);
}

static void test_only_if_it_is_still_the_same(void **state)
{
    (void)state;
    expect("bytes=1-2", TAG, 10, RANGE_PART, 1, 2);
    expect("bytes=1-2", "\"other\"", 10, RANGE_WHOLE, 0, 10);
    expect("bytes=1-2", "W/" TAG, 10, RANGE_WHOLE, 0, 10);
    expect("bytes=1-2", "Sun, 15 Nov 2026 19:00:00 GMT", 10, RANGE_WHOLE, 0, 10);
    expect("bytes=20-", "\"other\"", 10, RANGE_WHOLE, 0, 10);
}

static void test_tags(void **state)
{
    (void)state;
    assert_true(http_etag_is_in(TAG, TAG));
    assert_true(http_etag_is_in("\"x\" , " TAG, TAG));
    assert_true(http_etag_is_in("W/" TAG, TAG));
    assert_true(http_etag_is_in("*", TAG));
    assert_false(http_etag_is_in("\"x\"", TAG));
    assert_false(http_etag_is_in("abc", TAG));
    assert_false(http_etag_is_in(",,,", TAG));
    assert_false(http_etag_is_in("W/", TAG));
    assert_false(http_etag_is_in("", TAG));
    assert_false(http_etag_is_in(NULL, TAG));
}

static void attach(const char *name, const char *expected)
{
    char header[HTTP_ATTACHMENT_MAX];

    http_attachment(name, header, sizeof(header));
    assert_string_equal(header, expected);
}

static void test_names(void **state)
{
    char name[4000], header[HTTP_ATTACHMENT_MAX];

    (void)state;
    attach("a.csv", "Content-Disposition: attachment; filename=\"a.csv\"; filename*=UTF-8''a.csv");
    attach("x/y/my file.txt", "Content-Disposition: attachment; filename=\"my file.txt\"; "
                              "filename*=UTF-8''my%20file.txt");
    attach("a\"\r\nX: y", "Content-Disposition: attachment; filename=\"a___X_ y\"; "
                          "filename*=UTF-8''a%22%0D%0AX%3A%20y");
    attach("\xc3\xa4", "Content-Disposition: attachment; filename=\"__\"; filename*=UTF-8''%C3%A4");
    attach("a/", "Content-Disposition: attachment; filename=\"file\"; filename*=UTF-8''file");
    memset(name, 1, sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    http_attachment(name, header, sizeof(header));
    assert_true(strlen(header) < sizeof(header));
    assert_null(strpbrk(header, "\r\n\001"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_nothing_of_it_is_there),
        cmocka_unit_test(test_what_is_not_understood_is_passed_over),
        cmocka_unit_test(test_only_if_it_is_still_the_same),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
