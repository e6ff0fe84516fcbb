/* test_text.c - any bytes as JSON text: what is replaced, by how much, and how it is counted. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "model/text.h"

#define R "\xef\xbf\xbd"

struct row {
    const char *bytes;
    size_t length;
    const char *text;
    uint64_t invalid;
};
#define ROW(bytes_, text_, invalid_)                \
    {                                               \
        bytes_, sizeof(bytes_) - 1, text_, invalid_ \
    }

static void check(const struct row *rows, size_t count, bool is_cut)
{
    for (size_t i = 0; i < count; i++) {
        struct buf out = BUF_INIT(1024);
        uint64_t invalid = 0;

        assert_int_equal(text_clean(&out, rows[i].bytes, rows[i].length, is_cut, &invalid), 0);
        assert_string_equal(buf_text(&out), rows[i].text);
        assert_int_equal(invalid, rows[i].invalid);
        buf_free(&out);
    }
}

static void test_maximal_subparts(void **state)
{
    static const struct row rows[] = {
        ROW("", "", 0), ROW("abc", "abc", 0),
        ROW("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 0),
        ROW("a\xff\xfe z", "a" R R " z", 2), ROW("\x80", R, 1),
        ROW("\xc0\xaf", R R, 2),             /* overlong: each byte for itself */
        ROW("\xed\xa0\x80", R R R, 3),       /* a surrogate */
        ROW("\xf4\x90\x80\x80", R R R R, 4), /* behind U+10FFFF */
        ROW("\xe2\x82x", R "x", 2),          /* two bytes of three: one part */
        ROW("\xf0\x9f\x98x", R "x", 3),      /* three of four: one part */
        ROW("\xf0\x9f\xf0\x9f\x98\x80", R "\xf0\x9f\x98\x80", 2),
        /* Table 3-8 of the Unicode standard */
        ROW("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64", "a" R R R "b" R "c" R R "d", 9),
        ROW("end\xe2\x82", "end" R, 2), /* the stream's own end cuts it */
    };

    (void)state;
    check(rows, ARRAY_SIZE(rows), false);
}

static void test_a_cut_of_ours_is_not_invalid(void **state)
{
    static const struct row rows[] = {
        ROW("end\xe2\x82", "end", 0),     ROW("end\xf0\x9f\x98", "end", 0),
        ROW("end\xc3", "end", 0),         ROW("end\xff", "end" R, 1),
        ROW("end\x82\x82", "end" R R, 2), ROW("\xe2\x82", "", 0),
        ROW("end\xe0\x80", "end" R R, 2), /* no valid sequence begins like this */
    };

    (void)state;
    check(rows, ARRAY_SIZE(rows), true);
}

static void test_the_ceiling_holds(void **state)
{
    struct buf out = BUF_INIT(4);
    uint64_t invalid = 0;

    (void)state;
    assert_int_equal(text_clean(&out, "ab\xff", 3, false, &invalid), -EFBIG);
    assert_int_equal(text_clean(&out, "abcdef", 6, false, &invalid), -EFBIG);
    buf_free(&out);
}

static void test_json_strings(void **state)
{
    json_t *json = text_to_json("a\0b\xff", 4);
    char *dump = json_dumps(json, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

    (void)state;
    assert_string_equal(dump, "\"a\\u0000b\\uFFFD\"");
    free(dump);
    json_decref(json);
}

static void test_lists(void **state)
{
    json_t *array = json_pack("[s,s,s]", "a", "", "c");
    json_t *odd = json_pack("[s,i,s]", "a", 1, "c"), *none = json_array();
    const char **list = text_list_of_json(array);

    (void)state;
    assert_non_null(list);
    assert_string_equal(list[0], "a");
    assert_string_equal(list[1], "");
    assert_string_equal(list[2], "c");
    assert_null(list[3]);
    free(list);
    list = text_list_of_json(odd);
    assert_string_equal(list[0], "a");
    assert_null(list[1]);
    free(list);
    list = text_list_of_json(none);
    assert_null(list[0]);
    free(list);
    json_decref(array);
    json_decref(odd);
    json_decref(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maximal_subparts),
        cmocka_unit_test(test_a_cut_of_ours_is_not_invalid),
        cmocka_unit_test(test_the_ceiling_holds),
        cmocka_unit_test(test_json_strings),
        cmocka_unit_test(test_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
