/* test_base64.c - bytes as base64 and back: the RFC's examples, every length over a piece, text
 * that is none, and a buffer that is as it was when it fails. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/limits.h"

static const struct {
    const char *data, *text;
    size_t length;
} pairs[] = {
    {"", "", 0},
    {"f", "Zg==", 1},
    {"fo", "Zm8=", 2},
    {"foo", "Zm9v", 3},
    {"foob", "Zm9vYg==", 4},
    {"foobar", "Zm9vYmFy", 6},
    {"\xff\xef", "/+8=", 2},
    {"\x00\xff\x00", "AP8A", 3},
};

static void both_ways(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(KIB), data = BUF_INIT(KIB);

        assert_int_equal(base64_encode(pairs[i].data, pairs[i].length, &text), 0);
        assert_string_equal(buf_text(&text), pairs[i].text);
        assert_int_equal(text.length, BASE64_LENGTH(pairs[i].length));
        assert_int_equal(base64_decode(pairs[i].text, strlen(pairs[i].text), &data), 0);
        assert_int_equal(data.length, pairs[i].length);
        assert_memory_equal(buf_text(&data), pairs[i].data, pairs[i].length);
    }
}

/* Lengths around the pieces in which it is written. */
static void every_length(void **state)
{
    uint8_t bytes[1700];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t length = 0; length <= sizeof(bytes); length++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(4 * KIB), data = BUF_INIT(4 * KIB);

        assert_int_equal(base64_encode(bytes, length, &text), 0);
        assert_int_equal(text.length, BASE64_LENGTH(length));
        assert_int_equal(base64_decode(buf_text(&text), text.length, &data), 0);
        assert_int_equal(data.length, length);
        assert_memory_equal(buf_text(&data), bytes, length);
    }
}

static void appends(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB), data = BUF_INIT(KIB);

    (void)state;
    assert_int_equal(buf_append_text(&text, "Basic "), 0);
    assert_int_equal(base64_encode("a", 1, &text), 0);
    assert_string_equal(buf_text(&text), "Basic YQ==");
    assert_int_equal(buf_append_text(&data, "a"), 0);
    assert_int_equal(base64_decode("Yg==", 4, &data), 0);
    assert_string_equal(buf_text(&data), "ab");
}

static void expect_bad(const char *text, size_t length)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(KIB);

    assert_int_equal(buf_append_text(&data, "before"), 0);
    assert_int_equal(base64_decode(text, length, &data), -EINVAL);
    assert_int_equal(data.length, 6);
    assert_string_equal(buf_text(&data), "before");
}

static void bad_text(void **state)
{
    static const char *const bad[] = {
        "A",    "AA",   "AAA",      "AAA=A",    "=",     "A===",  "====",     "AB=C",
        "=AAA", "A=AA", "AA==AAAA", "AAA=AAAA", "AAAA=", "AAA!",  "AAAA\nAA", "AAAA\nAAA",
        "AA A", "AA-_", "AAA\x80",  "AAA\xff",  "AAA@",  "AAAA[", "AAA`",     "AAA{",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        expect_bad(bad[i], strlen(bad[i]));
    expect_bad("AA\0A", 4);
    expect_bad("AAAA\0\0\0\0", 8);
}

/* What was appended before the bad letter goes too. */
static void bad_after_a_piece(void **state)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(8 * KIB);
    char text[4096];

    (void)state;
    memset(text, 'A', sizeof(text));
    text[sizeof(text) - 1] = '!';
    assert_int_equal(base64_decode(text, sizeof(text), &data), -EINVAL);
    assert_int_equal(data.length, 0);
    assert_string_equal(buf_text(&data), "");
}

static void leftover_bits(void **state)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(KIB);

    (void)state;
    assert_int_equal(base64_decode("Zh==", 4, &data), 0);
    assert_int_equal(base64_decode("Zm9=", 4, &data), 0);
    assert_string_equal(buf_text(&data), "ffo");
}

static void ceilings(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(2000), data = BUF_INIT(1000);
    char zeros[2000] = {0}, letters[2000];

    (void)state;
    memset(letters, 'A', sizeof(letters));
    assert_int_equal(base64_encode(zeros, sizeof(zeros), &text), -EFBIG);
    assert_int_equal(text.length, 0);
    assert_string_equal(buf_text(&text), "");
    assert_int_equal(base64_encode(zeros, 1500, &text), 0);
    assert_int_equal(text.length, 2000);
    assert_int_equal(base64_decode(letters, sizeof(letters), &data), -EFBIG);
    assert_int_equal(data.length, 0);
    assert_int_equal(base64_decode(letters, 1332, &data), 0);
    assert_int_equal(data.length, 999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways),     cmocka_unit_test(every_length),
        cmocka_unit_test(appends),       cmocka_unit_test(bad_text),
        cmocka_unit_test(ceilings),      cmocka_unit_test(bad_after_a_piece),
        cmocka_unit_test(leftover_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
