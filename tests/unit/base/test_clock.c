/* test_clock.c - durations and the shapes of stamps. */
#include "unit.h"

#include <string.h>

#include "base/clock.h"

static void the_clock_does_not_go_back(void **state)
{
    uint64_t ns = clock_now_ns(), ms = clock_now_ms();

    (void)state;
    assert_true(ms >= ns / 1000000);
    assert_true(clock_now_ns() >= ns);
}

/* 'd' stands for a digit. */
static void assert_shape(const char *text, const char *shape)
{
    assert_int_equal(strlen(text), strlen(shape));
    for (size_t i = 0; shape[i]; i++) {
        if (shape[i] == 'd')
            assert_true(text[i] >= '0' && text[i] <= '9');
        else
            assert_int_equal(text[i], shape[i]);
    }
}

static void stamps_have_their_shape(void **state)
{
    char stamp[24], iso[32];

    (void)state;
    clock_stamp(stamp, sizeof(stamp));
    clock_iso(iso, sizeof(iso));
    assert_shape(stamp, "ddddddddTdddddd.dddZ");
    assert_shape(iso, "dddd-dd-ddTdd:dd:dd.dddZ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_does_not_go_back),
        cmocka_unit_test(stamps_have_their_shape),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
