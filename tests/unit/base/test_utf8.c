/* test_utf8.c - where UTF-8 sequences begin and end, against a decoder written another way. */
#include "unit.h"

#include <string.h>

#include "base/str.h"

/* Encodes a code point; returns its length. Surrogates are encoded too: they must be refused. */
static int encode(uint32_t point, unsigned char *to)
{
    if (point < 0x80) {
        to[0] = (unsigned char)point;
        return 1;
    }
    if (point < 0x800) {
        to[0] = (unsigned char)(0xc0 | point >> 6);
        to[1] = (unsigned char)(0x80 | (point & 63));
        return 2;
    }
    if (point < 0x10000) {
        to[0] = (unsigned char)(0xe0 | point >> 12);
        to[1] = (unsigned char)(0x80 | (point >> 6 & 63));
        to[2] = (unsigned char)(0x80 | (point & 63));
        return 3;
    }
    to[0] = (unsigned char)(0xf0 | point >> 18);
    to[1] = (unsigned char)(0x80 | (point >> 12 & 63));
    to[2] = (unsigned char)(0x80 | (point >> 6 & 63));
    to[3] = (unsigned char)(0x80 | (point & 63));
    return 4;
}

static void every_code_point(void **state)
{
    (void)state;
    for (uint32_t point = 0; point < 0x110000; point++) {
        unsigned char bytes[5] = "";
        int length = encode(point, bytes);
        int expected = point >= 0xd800 && point <= 0xdfff ? 0 : length;

        if (utf8_length(bytes, (size_t)length) != expected ||
            utf8_length(bytes, sizeof(bytes)) != expected)
            fail_msg("U+%04X", point);
        for (int cut = 1; expected > 0 && cut < length; cut++) {
            if (utf8_length(bytes, (size_t)cut) != -1 || utf8_floor(bytes, (size_t)cut) != 0)
                fail_msg("U+%04X cut after %d bytes", point, cut);
        }
    }
}

static void points_beyond_the_last(void **state)
{
    unsigned char bytes[4];

    (void)state;
    for (uint32_t point = 0x110000; point < 0x200000; point += 0x1000) {
        assert_int_equal(encode(point, bytes), 4);
        assert_int_equal(utf8_length(bytes, 4), 0);
    }
}

static void invalid_bytes(void **state)
{
    static const char *const invalid[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xe0\x80\x80",
        "\xe0\x9f\xbf",
        "\xf0\x80\x80\x80",
        "\xf0\x8f\xbf\xbf",
        "\xf5\x80\x80\x80",
        "\xff",
        "\xfe",
        "\xc3(",
        "\xe2\x82(",
        "\xe2(\xa1",
        "\xf0\x9f\x98(",
        "\xed\xa0\x80",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
        assert_int_equal(utf8_length(invalid[i], strlen(invalid[i])), 0);
    /* A beginning that no continuation can make valid is invalid at once, not "cut off". */
    assert_int_equal(utf8_length("\xe0\x80", 2), 0);
    assert_int_equal(utf8_length("\xed\xa0", 2), 0);
    assert_int_equal(utf8_length("\xf4\x90", 2), 0);
    assert_int_equal(utf8_length("\xe2(", 2), 0);
}

static void nothing_is_a_beginning(void **state)
{
    (void)state;
    assert_int_equal(utf8_length("", 0), -1);
    assert_int_equal(utf8_floor("", 0), 0);
}

static void floor_cuts_only_open_sequences(void **state)
{
    static const struct {
        const char *text;
        size_t floor;
    } cases[] = {
        {"abc", 3},
        {"a\xc3\xa4", 3},
        {"a\xc3", 1},
        {"ab\xe2\x82\xac", 5},
        {"ab\xe2\x82", 2},
        {"ab\xe2", 2},
        {"\xf0\x9f\x98\x80", 4},
        {"\xf0\x9f\x98", 0},
        {"x\xf0\x9f", 1},
        {"x\xf0", 1},
        {"x\xff", 2},         /* invalid, but not open: nothing to wait for */
        {"x\x80\x80\x80", 4}, /* continuations without a lead */
        {"x\x80\x80\x80\x80", 5},
        {"\xc3\xa4\xa4", 3}, /* one continuation too many */
        {"x\xed\xa0", 3},    /* half a surrogate never becomes valid */
        {"\xe2\x82\xac\xe2", 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(utf8_floor(cases[i].text, strlen(cases[i].text)), cases[i].floor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point),
        cmocka_unit_test(points_beyond_the_last),
        cmocka_unit_test(invalid_bytes),
        cmocka_unit_test(nothing_is_a_beginning),
        cmocka_unit_test(floor_cuts_only_open_sequences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
