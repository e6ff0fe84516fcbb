/* test_str.c - comparing, copying, whole-string numbers, sizes, durations, "did you mean". */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

#define K UINT64_C(1024)

static void equality_knows_null(void **state)
{
    (void)state;
    assert_true(str_equal("a", "a"));
    assert_false(str_equal("a", "A"));
    assert_false(str_equal("a", NULL));
    assert_false(str_equal(NULL, ""));
    assert_true(str_equal(NULL, NULL));
}

static void prefixes_and_suffixes(void **state)
{
    (void)state;
    assert_true(str_starts("--file=x", "--file="));
    assert_true(str_starts("x", ""));
    assert_false(str_starts("--fil", "--file"));
    assert_true(str_ends("a.py", ".py"));
    assert_true(str_ends("", ""));
    assert_false(str_ends("y", ".py"));
    assert_false(str_ends("a.pyc", ".py"));
}

static void copies_and_says_when_it_did_not_fit(void **state)
{
    char text[4] = "zzz";

    (void)state;
    assert_true(str_copy(text, sizeof(text), "abc"));
    assert_string_equal(text, "abc");
    assert_false(str_copy(text, sizeof(text), "abcd"));
    assert_string_equal(text, "abc");
    assert_false(str_copy(text, 1, "x"));
    assert_string_equal(text, "");
    assert_true(str_copy(text, 1, ""));
    text[0] = 'q';
    assert_false(str_copy(text, 0, "x"));
    assert_int_equal(text[0], 'q');
}

static void formats_and_says_when_it_did_not_fit(void **state)
{
    char text[4];

    (void)state;
    assert_int_equal(str_format(text, sizeof(text), "%d", 123), 0);
    assert_string_equal(text, "123");
    assert_int_equal(str_format(text, sizeof(text), "%d", 1234), -ENAMETOOLONG);
    assert_string_equal(text, "123");
    assert_int_equal(str_format(text, 0, "%d", 1), -ENAMETOOLONG);
}

static void u64_is_whole_and_strict(void **state)
{
    static const char *const bad[] = {"",    " 1", "1 ", "+1",  "-1",  "0x10", "1.0",
                                      "1e3", "a1", "1a", "\t1", "1\n", "--",   "١"};
    uint64_t value = 99;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(str_to_u64(bad[i], &value), -EINVAL);
        assert_int_equal(value, 99);
    }
    assert_int_equal(str_to_u64("0", &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(str_to_u64("007", &value), 0);
    assert_int_equal(value, 7);
    assert_int_equal(str_to_u64("18446744073709551615", &value), 0);
    assert_true(value == UINT64_MAX);
    value = 5;
    assert_int_equal(str_to_u64("18446744073709551616", &value), -ERANGE);
    assert_int_equal(str_to_u64("99999999999999999999999999", &value), -ERANGE);
    assert_int_equal(str_to_u64("99999999999999999999999999x", &value), -EINVAL);
    assert_int_equal(value, 5);
}

static void i64_reaches_both_ends(void **state)
{
    int64_t value = 99;

    (void)state;
    assert_int_equal(str_to_i64("-9223372036854775808", &value), 0);
    assert_true(value == INT64_MIN);
    assert_int_equal(str_to_i64("9223372036854775807", &value), 0);
    assert_true(value == INT64_MAX);
    assert_int_equal(str_to_i64("9223372036854775808", &value), -ERANGE);
    assert_int_equal(str_to_i64("-9223372036854775809", &value), -ERANGE);
    assert_int_equal(str_to_i64("-0", &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(str_to_i64("--1", &value), -EINVAL);
    assert_int_equal(str_to_i64("-", &value), -EINVAL);
    assert_int_equal(str_to_i64("+1", &value), -EINVAL);
    assert_int_equal(str_to_i64("- 1", &value), -EINVAL);
}

struct number {
    const char *text;
    uint64_t value;
};

static void bytes_with_units(void **state)
{
    static const struct number good[] = {
        {"0", 0},
        {"4096", 4096},
        {"4096b", 4096},
        {"10k", 10 * K},
        {"10K", 10 * K},
        {"512m", 512 * K * K},
        {"1g", K * K * K},
        {"2T", 2 * K * K * K * K},
        {"256MB", 256 * K * K},
        {"256mib", 256 * K * K},
        {"1.5g", 3 * K * K * K / 2},
        {"0.5k", 512},
        {"1.0m", K * K},
        {"0.0001k", 1}, /* never rounded down to nothing */
        {"16777215t", UINT64_C(16777215) << 40},
    };
    static const char *const bad[] = {
        "",    "k",   "12x", "1.5", "1.5b", ".5g", "1.g",  "1..5g", "-1g",  "+1g",          "1 g",
        " 1g", "1g ", "1gg", "1bk", "1e3k", "0x1", "1,5g", "1p",    "1mbb", "1.0000000001g"};
    uint64_t value = 99;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(str_to_bytes(good[i].text, &value), 0);
        assert_int_equal(value, good[i].value);
    }
    value = 99;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(str_to_bytes(bad[i], &value), -EINVAL);
    assert_int_equal(str_to_bytes("16777216t", &value), -ERANGE);
    assert_int_equal(str_to_bytes("18446744073709551616", &value), -ERANGE);
    assert_int_equal(str_to_bytes("99999999999999999999k", &value), -ERANGE);
    assert_int_equal(str_to_bytes("99999999999999999999x", &value), -EINVAL);
    assert_int_equal(value, 99);
}

static void durations_with_units(void **state)
{
    static const struct number good[] = {
        {"30", 30000},
        {"0", 0},
        {"0.5", 500},
        {"30s", 30000},
        {"5m", 300000},
        {"250ms", 250},
        {"1h", 3600000},
        {"1.5h", 5400000},
        {"0.001", 1},
        {"0.0001", 1},
        {"2.0005s", 2001},
        {"30S", 30000},
        {"1000000000", UINT64_C(1000000000000)},
    };
    static const char *const bad[] = {"",    "s",   "-1",  "1.5ms", "1d",  "ten",
                                      "1 s", "1s ", "0x1", "1..2",  "inf", "nan"};
    uint64_t value = 99;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(str_to_millis(good[i].text, &value), 0);
        assert_int_equal(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(str_to_millis(bad[i], &value), -EINVAL);
    assert_int_equal(str_to_millis("18446744073709551615", &value), -ERANGE);
    assert_int_equal(str_to_millis("18446744073709551615ms", &value), 0);
    assert_true(value == UINT64_MAX);
}

static void truth_in_any_case(void **state)
{
    static const char *const yes[] = {"true", "TRUE", "Yes", "on", "1"};
    static const char *const no[] = {"false", "False", "no", "OFF", "0"};
    static const char *const bad[] = {"", "2", "y", "truee", " true", "enabled"};
    bool value;

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        value = false;
        assert_int_equal(str_to_bool(yes[i], &value), 0);
        assert_true(value);
        assert_int_equal(str_to_bool(no[i], &value), 0);
        assert_false(value);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(str_to_bool(bad[i], &value), -EINVAL);
}

static void sizes_are_shown_short(void **state)
{
    static const struct number shown[] = {
        {"0", 0},
        {"123", 123},
        {"1023", 1023},
        {"1k", 1024},
        {"10k", 10 * K},
        {"1.5m", 3 * K * K / 2},
        {"512m", 512 * K * K},
        {"1g", K * K * K},
        {"1.2k", 1234},
        {"1m", K * K - 1}, /* not "1024k" */
        {"1g", K * K * K - 1},
        {"1023k", 1023 * K},
        {"2t", 2 * K * K * K * K},
        {"2048t", 2048 * K * K * K * K},
        {"16777216t", UINT64_MAX},
    };
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        str_from_bytes(shown[i].value, text, sizeof(text));
        assert_string_equal(text, shown[i].text);
    }
    str_from_bytes(K * K * K, text, 2);
    assert_string_equal(text, "1");
}

static void the_nearest_word(void **state)
{
    static const char *const words[] = {"timeout", "memory", "isolation", "pids", "out", NULL};
    static const char *const none[] = {NULL};
    char long_word[100];

    (void)state;
    memset(long_word, 't', sizeof(long_word) - 1);
    long_word[sizeof(long_word) - 1] = '\0';
    assert_string_equal(str_nearest("timeout", words), "timeout");
    assert_string_equal(str_nearest("timout", words), "timeout");   /* one missing */
    assert_string_equal(str_nearest("tiemout", words), "timeout");  /* neighbours swapped */
    assert_string_equal(str_nearest("timeoutt", words), "timeout"); /* one too many */
    assert_string_equal(str_nearest("MEMROY", words), "memory");
    assert_string_equal(str_nearest("isolatoin", words), "isolation");
    assert_string_equal(str_nearest("pid", words), "pids");
    assert_null(str_nearest("network", words));
    assert_null(str_nearest("x", words));
    assert_null(str_nearest("", words));
    assert_null(str_nearest(long_word, words));
    assert_null(str_nearest("timeout", none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equality_knows_null),
        cmocka_unit_test(prefixes_and_suffixes),
        cmocka_unit_test(copies_and_says_when_it_did_not_fit),
        cmocka_unit_test(formats_and_says_when_it_did_not_fit),
        cmocka_unit_test(u64_is_whole_and_strict),
        cmocka_unit_test(i64_reaches_both_ends),
        cmocka_unit_test(bytes_with_units),
        cmocka_unit_test(durations_with_units),
        cmocka_unit_test(truth_in_any_case),
        cmocka_unit_test(sizes_are_shown_short),
        cmocka_unit_test(the_nearest_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
