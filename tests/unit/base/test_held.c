/* test_held.c - src/base/held.c */
#include "unit.h"

#include <errno.h>

#include "base/held.h"

static void test_shares(void **state)
{
    struct held *held = held_new(100, 250);

    (void)state;
    assert_int_equal(held_take(held, "a", false, 100), 0);
    assert_int_equal(held_take(held, "a", false, 1), -EDQUOT);
    assert_int_equal(held_check(held, "a", false, 0), 0);
    assert_int_equal(held_take(held, "b", false, 100), 0);
    assert_int_equal(held_take(held, "c", false, 51), -ENOBUFS);
    assert_int_equal(held_take(held, "c", false, 50), 0);
    assert_int_equal(held_take(held, "d", true, 1), -ENOBUFS);
    held_give(held, "b", 100);
    assert_int_equal(held_take(held, "owner", true, 100), 0); /* has no share of its own */
    held_give(held, "a", 40);
    assert_int_equal(held_by(held, "a"), 60);
    assert_int_equal(held_by(held, NULL), 210);
    assert_int_equal(held_take(held, "a", false, 41), -EDQUOT);
    assert_int_equal(held_take(held, "a", false, 40), 0);
    held_give(held, "a", 1000); /* never more than it has */
    assert_int_equal(held_by(held, "a"), 0);
    assert_int_equal(held_by(held, NULL), 150);
    held_free(held);
}

static void test_none(void **state)
{
    (void)state;
    assert_int_equal(held_take(NULL, "a", false, SIZE_MAX), 0);
    held_give(NULL, "a", 1);
    assert_int_equal(held_by(NULL, NULL), 0);
    held_free(NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_none),
    };

    return cmocka_run_group_tests_name("base/held", tests, NULL, NULL);
}
