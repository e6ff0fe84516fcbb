/* test_pool_plan.c - how many boxes are prewarmed and who may have one: arithmetic. */
#include "unit.h"

#include <string.h>

#include "boxes/boxes.h"
#include "launcher/pool.h"

static const struct launcher_make made = {
    .memory_bytes = 64 * MIB,
    .disk_bytes = 32 * MIB,
    .pids = 16,
    .cpu_millis = 500,
    .minimum = ISOLATION_STANDARD,
    .layer = "ab",
    .tier = 1,
    .kernel = 1,
};

static void test_who_may_have_one(void **state)
{
    struct launcher_make asked = made;

    (void)state;
    asked.serial = 9;
    memcpy(asked.key, "s_1", 4);
    assert_true(pool_is_same(&made, &asked));
#define DIFFERS(member, value)                     \
    do {                                           \
        asked = made;                              \
        asked.member = value;                      \
        assert_false(pool_is_same(&made, &asked)); \
    } while (0)
    DIFFERS(memory_bytes, 65 * MIB);
    DIFFERS(memory_bytes, 63 * MIB); /* less is no reason either: it was promised */
    DIFFERS(disk_bytes, MIB);
    DIFFERS(pids, 17);
    DIFFERS(cpu_millis, 0);
    DIFFERS(minimum, ISOLATION_STRICT);
    DIFFERS(has_data, true);
    DIFFERS(has_packages, true);
    DIFFERS(layer[0], 'b');
    DIFFERS(tenant[0], 'b'); /* its kernel is a fork of another tenant's zygote */
    DIFFERS(tier, 0);
    DIFFERS(tier, TIER_NONE);
    DIFFERS(kernel, 2);
    DIFFERS(staging, STAGING_PACKAGES);
#undef DIFFERS
}

/* An installer's box is nobody else's, not even another installer's. */
static void test_installers_have_none(void **state)
{
    struct launcher_make installer = made;

    (void)state;
    installer.staging = STAGING_TEMPLATE;
    assert_false(pool_is_same(&installer, &installer));
}

static void test_demand_is_a_maximum_that_decays(void **state)
{
    struct pool_demand demand = {0};
    uint64_t now = 5000000, last;

    (void)state;
    assert_int_equal(pool_demand_milli(&demand, now), 0);
    for (int i = 0; i < 3; i++)
        pool_demand_note(&demand, now + (uint64_t)i * 10);
    assert_int_equal(pool_demand_milli(&demand, now), 3000);
    assert_int_equal(pool_demand_milli(&demand, now + POOL_HALF_LIFE_MS), 1500);
    assert_int_equal(pool_demand_milli(&demand, now + 2 * POOL_HALF_LIFE_MS), 750);
    pool_demand_note(&demand, now + POOL_HALF_LIFE_MS); /* one now is less than half of three */
    assert_int_equal(pool_demand_milli(&demand, now + POOL_HALF_LIFE_MS), 1500);
    assert_int_equal(pool_demand_milli(&demand, now + 100 * POOL_HALF_LIFE_MS), 0);
    last = UINT64_MAX;
    for (uint64_t age = 0; age < 6 * POOL_HALF_LIFE_MS; age += 100) {
        uint64_t milli = pool_demand_milli(&demand, now + POOL_HALF_LIFE_MS + age);

        assert_true(milli <= last);
        last = milli;
    }
}

static void test_a_flood_is_counted_no_further_than_a_pool_can_be(void **state)
{
    struct pool_demand demand = {0};

    (void)state;
    for (int i = 0; i < 10 * LIMIT_POOL; i++)
        pool_demand_note(&demand, 5000000);
    assert_int_equal(pool_demand_milli(&demand, 5000000), LIMIT_POOL * 1000);
}

static void test_targets_follow_demand(void **state)
{
    struct pool_wish wishes[3] = {
        {.demand_milli = 499}, {.demand_milli = 500}, {.demand_milli = 2600}};

    (void)state;
    pool_targets(wishes, 3, 100, 1000 * MIB);
    assert_int_equal(wishes[0].target, 0);
    assert_int_equal(wishes[1].target, 1);
    assert_int_equal(wishes[2].target, 3);
}

static void test_the_greatest_demand_comes_first(void **state)
{
    struct pool_wish wishes[3] = {
        {.demand_milli = 2000}, {.demand_milli = 5000}, {.demand_milli = 3000}};

    (void)state;
    pool_targets(wishes, 3, 6, 1000 * MIB);
    assert_int_equal(wishes[1].target, 4);
    assert_int_equal(wishes[2].target, 1);
    assert_int_equal(wishes[0].target, 1); /* whoever is asked for is not left cold */
    pool_targets(wishes, 3, 2, 1000 * MIB);
    assert_int_equal(wishes[1].target, 1);
    assert_int_equal(wishes[2].target, 1);
    assert_int_equal(wishes[0].target, 0);
}

static void test_one_without_any_demand(void **state)
{
    struct pool_wish wishes[2] = {{.least = 1}, {.demand_milli = 4000}};

    (void)state;
    pool_targets(wishes, 2, 4, 1000 * MIB);
    assert_int_equal(wishes[1].target, 4); /* who needs them has them */
    assert_int_equal(wishes[0].target, 0);
    pool_targets(wishes, 1, 4, 1000 * MIB);
    assert_int_equal(wishes[0].target, 1);
    pool_targets(wishes, 1, 0, 1000 * MIB);
    assert_int_equal(wishes[0].target, 0);
}

static void test_memory_is_a_ceiling(void **state)
{
    struct pool_wish wishes[2] = {{.demand_milli = 8000, .box_bytes = 30 * MIB},
                                  {.demand_milli = 7000}};

    (void)state;
    pool_targets(wishes, 2, 100, 100 * MIB);
    assert_int_equal(wishes[0].target, 3);
    assert_true(wishes[1].target >= 1);
    assert_true(wishes[0].target * 30 * MIB + wishes[1].target * POOL_BOX_GUESS <= 100 * MIB);
    pool_targets(wishes, 2, 100, 0);
    assert_int_equal(wishes[0].target + wishes[1].target, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_may_have_one),
        cmocka_unit_test(test_installers_have_none),
        cmocka_unit_test(test_demand_is_a_maximum_that_decays),
        cmocka_unit_test(test_a_flood_is_counted_no_further_than_a_pool_can_be),
        cmocka_unit_test(test_targets_follow_demand),
        cmocka_unit_test(test_the_greatest_demand_comes_first),
        cmocka_unit_test(test_one_without_any_demand),
        cmocka_unit_test(test_memory_is_a_ceiling),
    };

    return cmocka_run_group_tests_name("launcher/pool_plan", tests, NULL, NULL);
}
