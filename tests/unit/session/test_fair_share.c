/* test_fair_share.c - start-time fair queueing: the order of tenants' boxes by what they cost. */
#include "unit.h"

#include "base/cleanup.h"
#include "session/fair_share.h"

#define BOXES 10000

/* Who is next of `count` tenants that all want more. */
static int next_of(const struct fair_time *time, const struct fair_tag *tags, int count)
{
    int best = 0;

    for (int i = 1; i < count; i++) {
        if (fair_start(time, &tags[i]) < fair_start(time, &tags[best]))
            best = i;
    }
    return best;
}

/* Boxes of several tenants, one after the other, whose cost is known at their end. */
static void serve(const uint64_t *costs, int count, unsigned *ret_boxes, uint64_t *ret_us)
{
    struct fair_time time = {0};
    struct fair_tag tags[8] = {{0}};

    for (int i = 0; i < BOXES; i++) {
        int next = next_of(&time, tags, count);

        fair_begin(&time, &tags[next]);
        fair_used(&time, &tags[next], costs[next]);
        ret_boxes[next]++;
        ret_us[next] += FAIR_BOX_US + costs[next];
    }
}

static void test_equal_costs_share_boxes(void **state)
{
    static const uint64_t costs[] = {2000, 2000, 2000};
    unsigned boxes[3] = {0};
    uint64_t us[3] = {0};

    (void)state;
    serve(costs, 3, boxes, us);
    for (int i = 0; i < 3; i++)
        assert_in_range(boxes[i], BOXES / 3 - 1, BOXES / 3 + 2);
}

static void test_dear_boxes_share_time(void **state)
{
    static const uint64_t costs[] = {0, 45000, 5000};
    unsigned boxes[3] = {0};
    uint64_t us[3] = {0}, all;

    (void)state;
    serve(costs, 3, boxes, us);
    all = us[0] + us[1] + us[2];
    for (int i = 0; i < 3; i++)
        assert_in_range(us[i] * 1000 / all, 323, 343);
    assert_true(boxes[0] > 9 * boxes[1]);
}

static void test_cost_is_told_late(void **state)
{
    struct fair_time time = {0};
    struct fair_tag tags[2] = {{0}};
    unsigned boxes[2] = {0};
    int late[4] = {-1, -1, -1, -1};

    (void)state;
    for (int i = 0; i < BOXES; i++) {
        int next;

        if (late[i % 4] >= 0) /* four are under way at any time */
            fair_used(&time, &tags[late[i % 4]], late[i % 4] ? 3 * FAIR_BOX_US : 0);
        next = next_of(&time, tags, 2);
        fair_begin(&time, &tags[next]);
        boxes[next]++;
        late[i % 4] = next;
    }
    assert_in_range(boxes[0] * 100 / boxes[1], 390, 410); /* each of the second costs four times */
}

static void test_no_hoard_of_credit(void **state)
{
    struct fair_time time = {0};
    struct fair_tag busy = {0}, idle = {0};
    unsigned boxes = 0;

    (void)state;
    for (int i = 0; i < 1000; i++)
        fair_begin(&time, &busy);
    assert_true(fair_owes_nothing(&time, &idle));
    while (fair_start(&time, &idle) <= fair_start(&time, &busy)) {
        fair_begin(&time, &idle);
        boxes++;
    }
    assert_in_range(boxes, 1, 2);
}

/* Who computed for an hour is behind, and not for long. */
static void test_debt_is_bounded(void **state)
{
    struct fair_time time = {0};
    struct fair_tag hog = {0}, other = {0};
    unsigned boxes = 0;

    (void)state;
    fair_used(&time, &hog, UINT64_MAX);
    fair_used(&time, &hog, UINT64_C(3600000000));
    assert_int_equal(hog.us, FAIR_DEBT_US);
    assert_false(fair_is_below(&time, &hog));
    while (fair_start(&time, &other) < fair_start(&time, &hog)) {
        fair_begin(&time, &other);
        boxes++;
    }
    assert_int_equal(boxes, FAIR_DEBT_US / FAIR_BOX_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_costs_share_boxes),
        cmocka_unit_test(test_dear_boxes_share_time),
        cmocka_unit_test(test_cost_is_told_late),
        cmocka_unit_test(test_no_hoard_of_credit),
        cmocka_unit_test(test_debt_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
