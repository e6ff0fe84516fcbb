/* test_spec.c - the words for what holds a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "model/spec.h"

static void test_words(void **state)
{
    (void)state;
    assert_string_equal(limit_by_name(LIMIT_BY_NONE), "none");
    assert_string_equal(limit_by_name(LIMIT_BY_CGROUP_V2), "cgroup-v2");
    assert_string_equal(limit_by_name(LIMIT_BY_CGROUP_V1), "cgroup-v1");
    assert_string_equal(limit_by_name(LIMIT_BY_RLIMIT), "rlimit");
    assert_string_equal(limit_by_name(LIMIT_BY_WATCHDOG), "watchdog (approximate)");
    assert_string_equal(limit_by_name(LIMIT_BY_AFFINITY), "affinity (approximate)");
    assert_string_equal(limit_by_name(LIMIT_BY_CONTAINER), "container");
    assert_string_equal(limit_by_name(LIMIT_BY_TMPFS), "tmpfs");
    assert_string_equal(limit_by_name(LIMIT_BY_ENGINE), "engine");
}

static void test_an_unknown_mechanism_claims_nothing(void **state)
{
    (void)state;
    assert_string_equal(limit_by_name(_LIMIT_BY_MAX), "none");
    assert_string_equal(limit_by_name((enum limit_by) - 1), "none");
}

static void test_every_word_is_its_own(void **state)
{
    (void)state;
    for (int a = 0; a < _LIMIT_BY_MAX; a++) {
        for (int b = 0; b < a; b++)
            assert_false(str_equal(limit_by_name(a), limit_by_name(b)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_an_unknown_mechanism_claims_nothing),
        cmocka_unit_test(test_every_word_is_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
