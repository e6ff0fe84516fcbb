/* test_trace.c - ids of requests and W3C traceparents: those that count, and those that do not. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/trace.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static void test_good_ones(void **state)
{
    struct trace trace;

    (void)state;
    assert_int_equal(trace_parse("00-" TRACE "-" PARENT "-01", &trace), 0);
    assert_string_equal(trace.id, TRACE);
    assert_string_equal(trace.parent, PARENT);
    assert_true(trace.is_sampled);
    assert_int_equal(trace_parse("00-" TRACE "-" PARENT "-00", &trace), 0);
    assert_false(trace.is_sampled);
    assert_int_equal(trace_parse("00-" TRACE "-" PARENT "-fe", &trace), 0);
    assert_false(trace.is_sampled);
    /* a version of tomorrow */
    assert_int_equal(trace_parse("cc-" TRACE "-" PARENT "-01", &trace), 0);
    assert_int_equal(trace_parse("cc-" TRACE "-" PARENT "-01-what-comes", &trace), 0);
    assert_string_equal(trace.id, TRACE);
}

static void test_bad_ones(void **state)
{
    static const char *const bad[] = {
        "",
        "0",
        "00",
        "00-",
        "00-" TRACE,
        "00-" TRACE "-",
        "00-" TRACE "-" PARENT,
        "00-" TRACE "-" PARENT "-",
        "00-" TRACE "-" PARENT "-0",
        "00-" TRACE "-" PARENT "-011",
        "00-" TRACE "-" PARENT "-01-",
        "00-" TRACE "-" PARENT "-01-more",
        "00-" TRACE "-" PARENT "-01 ",
        " 00-" TRACE "-" PARENT "-01",
        "ff-" TRACE "-" PARENT "-01",
        "cc-" TRACE "-" PARENT "-01.what",
        "0x-" TRACE "-" PARENT "-01",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-" PARENT "-01",
        "00-4bf92f3577b34da6a3ce929d0e0e47366-" PARENT "-01",
        "00_" TRACE "_" PARENT "_01",
        "00-" TRACE "-" PARENT "-0g",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct trace trace = {.id = "left over"};

        assert_int_equal(trace_parse(bad[i], &trace), -EINVAL);
        assert_string_equal(trace.id, "");
    }
}

static void test_request_ids(void **state)
{
    static const char *const bad[] = {"", "a b", "a\nb", "a\"b", "<x>", "a/b", "\xc3\xa9", "a;b"};
    char text[REQUEST_ID_MAX + 1];

    (void)state;
    assert_true(request_id_is_valid("a"));
    assert_true(request_id_is_valid("7f3c-11_B.2"));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(request_id_is_valid(bad[i]));
    memset(text, 'x', sizeof(text));
    text[REQUEST_ID_MAX] = '\0';
    assert_false(request_id_is_valid(text));
    text[REQUEST_ID_MAX - 1] = '\0';
    assert_true(request_id_is_valid(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_ones),
        cmocka_unit_test(test_bad_ones),
        cmocka_unit_test(test_request_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
