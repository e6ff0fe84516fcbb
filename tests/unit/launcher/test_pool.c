/*
 * test_pool.c - boxes in their buckets: taken, lost, let go, counted. The boxes are made of
 * nothing: what happens to real ones is in tests/fault/test_launcher_pool.py.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "launcher/launcher_private.h"

struct fixture {
    struct launcher_plan plan;
    struct launcher launcher;
};

static const struct launcher_make run = {
    .serial = 3,
    .key = "r_1",
    .memory_bytes = 64 * MIB,
    .disk_bytes = 32 * MIB,
    .pids = 16,
    .tier = 1,
    .kernel = KERNEL_FIRST,
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    if (!fixture)
        return -1;
    fixture->plan.pool_size = 4;
    fixture->plan.pool_memory_mib = 256;
    fixture->launcher.plan = &fixture->plan;
    fixture->launcher.queue_end = &fixture->launcher.queue;
    fixture->launcher.dead_groups_end = &fixture->launcher.dead_groups;
    fixture->launcher.generation = 2;
    for (size_t i = 0; i < LAUNCHER_FOLDER_COUNT; i++)
        fixture->launcher.folder_fd[i] = -1;
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

/* A box as it comes out of the making, for the bucket of that shape. */
static struct managed_box *stand(struct launcher *launcher, const struct launcher_make *shape,
                                 uint32_t number)
{
    struct managed_box *box = boxes_new(launcher, shape, true);

    assert_non_null(box);
    box->launched.pid_fd = -1;
    box->facts.number = number;
    box->facts.kernel = shape->kernel;
    for (uint32_t i = 0; i < LIMIT_POOL_BUCKETS; i++) {
        struct pool_bucket *bucket = &launcher->pool.buckets[i];

        if (!bucket->is_used || !pool_is_same(&bucket->shape, shape))
            continue;
        box->bucket = i;
        bucket->bringup_count++;
        pool_stands(launcher, box);
        return box;
    }
    fail_msg("nobody has asked for such boxes");
    return NULL;
}

static uint32_t count(struct launcher *launcher)
{
    struct launcher_state totals = {.tier = STATE_END};

    pool_fill_state(launcher, NULL, &totals);
    return totals.pooled;
}

static void test_taken(void **state)
{
    struct fixture *fixture = *state;
    struct launcher *launcher = &fixture->launcher;
    struct launcher_make other = run;
    struct managed_box *first, *second;

    assert_null(pool_take(launcher, &run, NULL)); /* it is noted that somebody wanted one */
    first = stand(launcher, &run, 11);
    second = stand(launcher, &run, 12);
    assert_int_equal(count(launcher), 2);
    assert_int_equal(launcher->box_count, 0);
    other.pids++;
    assert_null(pool_take(launcher, &other, NULL));
    other = run;
    other.serial = 9;
    memcpy(other.key, "r_2", 4);
    assert_ptr_equal(pool_take(launcher, &other, NULL), second); /* the newest is the warmest */
    assert_false(second->is_prewarmed);
    assert_int_equal(second->make.serial, 9);
    assert_string_equal(second->facts.key, "r_2");
    assert_true(second->facts.is_pooled);
    assert_int_equal(second->generation, 2);
    assert_int_equal(launcher->box_count, 1);
    assert_ptr_equal(pool_take(launcher, &run, NULL), first);
    assert_null(pool_take(launcher, &run, NULL));
    assert_int_equal(count(launcher), 0);
    boxes_free(first);
    boxes_free(second);
    assert_int_equal(launcher->box_count, 0);
    assert_int_equal(launcher->slots_used, 0);
}

static void test_none_without_its_kernel(void **state)
{
    struct fixture *fixture = *state;
    struct launcher *launcher = &fixture->launcher;
    struct managed_box *box;

    pool_take(launcher, &run, NULL);
    box = boxes_new(launcher, &run, true);
    box->launched.pid_fd = -1;
    launcher->pool.buckets[0].bringup_count = 1;
    pool_stands(launcher, box); /* the zygote did not want to */
    assert_int_equal(count(launcher), 0);
    assert_null(pool_take(launcher, &run, NULL));
    boxes_free(box); /* as its end does */
    assert_int_equal(launcher->pool.buckets[0].bringup_count, 0);
    assert_true(launcher->pool.buckets[0].retry_at_ms > 0);
}

static void test_lost_in_its_bucket(void **state)
{
    struct fixture *fixture = *state;
    struct launcher *launcher = &fixture->launcher;
    struct managed_box *first, *second, *third;

    pool_take(launcher, &run, NULL);
    first = stand(launcher, &run, 1);
    second = stand(launcher, &run, 2);
    third = stand(launcher, &run, 3);
    boxes_free(second);
    assert_int_equal(count(launcher), 2);
    assert_ptr_equal(pool_take(launcher, &run, NULL), third);
    assert_ptr_equal(pool_take(launcher, &run, NULL), first);
    boxes_free(first);
    boxes_free(third);
}

/* Nobody asked for a long time: one goes in each look, the oldest first, and the least stays. */
static void test_let_go(void **state)
{
    struct fixture *fixture = *state;
    struct launcher *launcher = &fixture->launcher;
    struct managed_box *boxes[3];

    pool_take(launcher, &run, NULL);
    for (uint32_t i = 0; i < 3; i++)
        boxes[i] = stand(launcher, &run, i + 1);
    launcher->pool.buckets[0].demand = (struct pool_demand){0};
    launcher->pool.buckets[0].least = 1;
    pool_tick(launcher);
    assert_int_equal(count(launcher), 3); /* they have not been idle for long */
    for (uint32_t i = 0; i < 3; i++)
        boxes[i]->idle_since_ms -= POOL_SURPLUS_MS;
    pool_tick(launcher);
    assert_int_equal(count(launcher), 2);
    boxes_free(boxes[0]);
    assert_int_equal(launcher->pool.buckets[0].retry_at_ms, 0); /* that was no accident */
    pool_tick(launcher);
    boxes_free(boxes[1]);
    pool_tick(launcher);
    assert_int_equal(count(launcher), 1);
    assert_ptr_equal(pool_take(launcher, &run, NULL), boxes[2]);
    boxes_free(boxes[2]);
}

static void test_nothing_while_something_is_made_or_held(void **state)
{
    struct fixture *fixture = *state;
    struct launcher *launcher = &fixture->launcher;
    uint64_t now = clock_now_ms();

    pool_take(launcher, &run, NULL);
    assert_false(pool_is_due(launcher, now)); /* its run has the machine to itself for a moment */
    assert_true(pool_is_due(launcher, now + POOL_HOLD_MS + 1000));
    pool_release(launcher);
    assert_true(pool_is_due(launcher, now));
    pool_tick(launcher); /* no zygote serves that tier: it looks again later */
    assert_false(pool_is_due(launcher, now));
    assert_true(launcher->pool.at_ms > 0);
    assert_null(launcher->queue);
    assert_null(launcher->bringups);
}

static void test_off(void **state)
{
    struct fixture *fixture = *state;
    struct launcher *launcher = &fixture->launcher;
    struct launcher_make installer = run;

    installer.staging = STAGING_TEMPLATE;
    assert_null(pool_take(launcher, &installer, NULL));
    assert_false(launcher->pool.buckets[0].is_used);
    fixture->plan.pool_size = 0;
    pool_start(launcher);
    assert_null(pool_take(launcher, &run, NULL));
    assert_false(launcher->pool.is_due);
    assert_false(launcher->pool.buckets[0].is_used);
    fixture->plan.pool_size = 4;
    launcher->is_stopping = true;
    assert_null(pool_take(launcher, &run, NULL));
    assert_false(launcher->pool.buckets[0].is_used);
}

/* More kinds than buckets: those that somebody uses stay. */
static void test_buckets_are_few(void **state)
{
    struct fixture *fixture = *state;
    struct launcher *launcher = &fixture->launcher;
    struct launcher_make kind = run;
    struct managed_box *box;

    pool_take(launcher, &run, NULL);
    box = stand(launcher, &run, 1);
    for (uint32_t i = 0; i < 3 * LIMIT_POOL_BUCKETS; i++) {
        kind.pids = 100 + i;
        assert_null(pool_take(launcher, &kind, NULL));
        if (i % 2) /* nobody asks for every second any more */
            for (size_t j = 1; j < LIMIT_POOL_BUCKETS; j++)
                if (launcher->pool.buckets[j].shape.pids == kind.pids)
                    launcher->pool.buckets[j].demand = (struct pool_demand){0};
    }
    assert_ptr_equal(pool_take(launcher, &run, NULL), box);
    boxes_free(box);
}

#define OLD "0000000000000000000000000000000000000000000000000000000000000000"
#define NEW "1111111111111111111111111111111111111111111111111111111111111111"

static const struct pool_bucket *pool_bucket_of(const struct launcher *launcher, const char *layer)
{
    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++) {
        const struct pool_bucket *bucket = &launcher->pool.buckets[i];

        if (bucket->is_used && !bucket->is_old && strcmp(bucket->shape.layer, layer) == 0)
            return bucket;
    }
    return NULL;
}

/* Boxes of the old layer go, one on its way too; the demand is that of the new one. */
static void test_the_layer_changes(void **state)
{
    struct fixture *fixture = *state;
    struct launcher *launcher = &fixture->launcher;
    struct launcher_make old = run, new = run;
    struct managed_box *idle, *late, *other;

    memcpy(old.layer, OLD, sizeof(OLD));
    memcpy(new.layer, NEW, sizeof(NEW));
    zygote_owner_name(&old);
    zygote_owner_name(&new);
    pool_take(launcher, &run, NULL);
    other = stand(launcher, &run, 1);
    pool_take(launcher, &old, NULL);
    idle = stand(launcher, &old, 2);
    late = boxes_new(launcher, &old, true);
    late->launched.pid_fd = -1;
    late->facts.kernel = old.kernel;
    late->bucket = idle->bucket;
    launcher->pool.buckets[late->bucket].bringup_count++;
    launcher->pool.buckets[late->bucket].least = 1;
    pool_renew(launcher, OLD, NEW);
    assert_int_equal(count(launcher), 1); /* that of no layer */
    pool_stands(launcher, late);
    assert_int_equal(count(launcher), 1);
    boxes_free(idle);
    boxes_free(late);
    assert_null(pool_bucket_of(launcher, OLD));
    assert_non_null(pool_bucket_of(launcher, NEW));
    assert_int_equal(pool_bucket_of(launcher, NEW)->least, 1);
    assert_true(pool_demand_milli(&pool_bucket_of(launcher, NEW)->demand, clock_now_ms()) > 500);
    idle = stand(launcher, &new, 3);
    assert_ptr_equal(pool_take(launcher, &new, NULL), idle);
    boxes_free(idle);
    assert_null(pool_take(launcher, &old, NULL)); /* whoever has it still may ask */
    idle = stand(launcher, &old, 4);
    assert_ptr_equal(pool_take(launcher, &old, NULL), idle);
    boxes_free(idle);
    assert_ptr_equal(pool_take(launcher, &run, NULL), other);
    boxes_free(other);
}

/* From none, or to none: those who name no template at all are somebody else. */
static void test_the_first_layer_and_none(void **state)
{
    struct fixture *fixture = *state;
    struct launcher *launcher = &fixture->launcher;
    struct launcher_make old = run;
    struct managed_box *plain, *box;

    memcpy(old.layer, OLD, sizeof(OLD));
    pool_take(launcher, &run, NULL);
    plain = stand(launcher, &run, 1);
    pool_renew(launcher, "", OLD);
    assert_int_equal(count(launcher), 1);
    assert_null(pool_bucket_of(launcher, OLD));
    pool_take(launcher, &old, NULL);
    box = stand(launcher, &old, 2);
    pool_renew(launcher, OLD, "");
    assert_int_equal(count(launcher), 2);
    pool_forget(launcher, OLD);
    assert_int_equal(count(launcher), 1);
    assert_null(pool_bucket_of(launcher, OLD));
    boxes_free(box);
    assert_ptr_equal(pool_take(launcher, &run, NULL), plain);
    boxes_free(plain);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_taken),
        TEST(test_none_without_its_kernel),
        TEST(test_lost_in_its_bucket),
        TEST(test_let_go),
        TEST(test_nothing_while_something_is_made_or_held),
        TEST(test_off),
        TEST(test_buckets_are_few),
        TEST(test_the_layer_changes),
        TEST(test_the_first_layer_and_none),
    };

    return cmocka_run_group_tests_name("launcher/pool", tests, NULL, NULL);
}
