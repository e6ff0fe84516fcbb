/*
 * test_pool.c - boxes on their shelves: taken, lost, let go, counted. The boxes are made of
 * nothing: what happens to real ones is in tests/fault/test_launcher_pool.py.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "launcher/engine.h"

struct yard {
    struct engine_plan plan;
    struct engine engine;
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
    struct yard *yard = calloc(1, sizeof(*yard));

    if (!yard)
        return -1;
    yard->plan.pool_size = 4;
    yard->plan.pool_memory_mib = 256;
    yard->engine.plan = &yard->plan;
    yard->engine.queue_end = &yard->engine.queue;
    yard->engine.graves_end = &yard->engine.graves;
    yard->engine.generation = 2;
    for (size_t i = 0; i < ENGINE_FOLDER_COUNT; i++)
        yard->engine.folder_fd[i] = -1;
    *state = yard;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

/* A box as it comes out of the making, for the shelf of that shape. */
static struct engine_box *stand(struct engine *engine, const struct launcher_make *shape,
                                uint32_t number)
{
    struct engine_box *box = boxes_new(engine, shape, true);

    assert_non_null(box);
    box->launched.pid_fd = -1;
    box->facts.number = number;
    box->facts.kernel = shape->kernel;
    for (uint32_t i = 0; i < LIMIT_SHELVES; i++) {
        struct pool_shelf *shelf = &engine->pool.shelves[i];

        if (!shelf->is_used || !pool_is_same(&shelf->shape, shape))
            continue;
        box->shelf = i;
        shelf->making_count++;
        pool_stands(engine, box);
        return box;
    }
    fail_msg("nobody has asked for such boxes");
    return NULL;
}

static uint32_t count(struct engine *engine)
{
    struct launcher_state totals = {.tier = STATE_END};

    pool_fill_state(engine, &totals);
    return totals.pooled;
}

static void test_taken(void **state)
{
    struct yard *yard = *state;
    struct engine *engine = &yard->engine;
    struct launcher_make other = run;
    struct engine_box *first, *second;

    assert_null(pool_take(engine, &run)); /* it is noted that somebody wanted one */
    first = stand(engine, &run, 11);
    second = stand(engine, &run, 12);
    assert_int_equal(count(engine), 2);
    assert_int_equal(engine->box_count, 0);
    other.pids++;
    assert_null(pool_take(engine, &other));
    other = run;
    other.serial = 9;
    memcpy(other.key, "r_2", 4);
    assert_ptr_equal(pool_take(engine, &other), second); /* the newest is the warmest */
    assert_false(second->is_ahead);
    assert_int_equal(second->make.serial, 9);
    assert_string_equal(second->facts.key, "r_2");
    assert_true(second->facts.is_pooled);
    assert_int_equal(second->generation, 2);
    assert_int_equal(engine->box_count, 1);
    assert_ptr_equal(pool_take(engine, &run), first);
    assert_null(pool_take(engine, &run));
    assert_int_equal(count(engine), 0);
    boxes_free(first);
    boxes_free(second);
    assert_int_equal(engine->box_count, 0);
    assert_int_equal(engine->slots_used, 0);
}

static void test_none_without_its_kernel(void **state)
{
    struct yard *yard = *state;
    struct engine *engine = &yard->engine;
    struct engine_box *box;

    pool_take(engine, &run);
    box = boxes_new(engine, &run, true);
    box->launched.pid_fd = -1;
    engine->pool.shelves[0].making_count = 1;
    pool_stands(engine, box); /* the zygote did not want to */
    assert_int_equal(count(engine), 0);
    assert_null(pool_take(engine, &run));
    boxes_free(box); /* as its end does */
    assert_int_equal(engine->pool.shelves[0].making_count, 0);
    assert_true(engine->pool.shelves[0].retry_at_ms > 0);
}

static void test_lost_on_its_shelf(void **state)
{
    struct yard *yard = *state;
    struct engine *engine = &yard->engine;
    struct engine_box *first, *second, *third;

    pool_take(engine, &run);
    first = stand(engine, &run, 1);
    second = stand(engine, &run, 2);
    third = stand(engine, &run, 3);
    boxes_free(second);
    assert_int_equal(count(engine), 2);
    assert_ptr_equal(pool_take(engine, &run), third);
    assert_ptr_equal(pool_take(engine, &run), first);
    boxes_free(first);
    boxes_free(third);
}

/* Nobody asked for a long time: one goes in each look, the oldest first, and the least stays. */
static void test_let_go(void **state)
{
    struct yard *yard = *state;
    struct engine *engine = &yard->engine;
    struct engine_box *boxes[3];

    pool_take(engine, &run);
    for (uint32_t i = 0; i < 3; i++)
        boxes[i] = stand(engine, &run, i + 1);
    engine->pool.shelves[0].demand = (struct pool_demand){0};
    engine->pool.shelves[0].least = 1;
    pool_tick(engine);
    assert_int_equal(count(engine), 3); /* they have not been idle for long */
    for (uint32_t i = 0; i < 3; i++)
        boxes[i]->idle_since_ms -= POOL_SURPLUS_MS;
    pool_tick(engine);
    assert_int_equal(count(engine), 2);
    boxes_free(boxes[0]);
    assert_int_equal(engine->pool.shelves[0].retry_at_ms, 0); /* that was no accident */
    pool_tick(engine);
    boxes_free(boxes[1]);
    pool_tick(engine);
    assert_int_equal(count(engine), 1);
    assert_ptr_equal(pool_take(engine, &run), boxes[2]);
    boxes_free(boxes[2]);
}

static void test_nothing_while_something_is_made_or_held(void **state)
{
    struct yard *yard = *state;
    struct engine *engine = &yard->engine;
    uint64_t now = clock_now_ms();

    pool_take(engine, &run);
    assert_false(pool_is_due(engine, now)); /* its run has the machine to itself for a moment */
    assert_true(pool_is_due(engine, now + POOL_HOLD_MS + 1000));
    pool_release(engine);
    assert_true(pool_is_due(engine, now));
    pool_tick(engine); /* no zygote serves that tier: it looks again later */
    assert_false(pool_is_due(engine, now));
    assert_true(engine->pool.at_ms > 0);
    assert_null(engine->queue);
    assert_null(engine->makings);
}

static void test_off(void **state)
{
    struct yard *yard = *state;
    struct engine *engine = &yard->engine;
    struct launcher_make installer = run;

    installer.staging = STAGING_TEMPLATE;
    assert_null(pool_take(engine, &installer));
    assert_false(engine->pool.shelves[0].is_used);
    yard->plan.pool_size = 0;
    pool_start(engine);
    assert_null(pool_take(engine, &run));
    assert_false(engine->pool.is_due);
    assert_false(engine->pool.shelves[0].is_used);
    yard->plan.pool_size = 4;
    engine->is_stopping = true;
    assert_null(pool_take(engine, &run));
    assert_false(engine->pool.shelves[0].is_used);
}

/* More kinds than shelves: those that somebody uses stay. */
static void test_shelves_are_few(void **state)
{
    struct yard *yard = *state;
    struct engine *engine = &yard->engine;
    struct launcher_make kind = run;
    struct engine_box *box;

    pool_take(engine, &run);
    box = stand(engine, &run, 1);
    for (uint32_t i = 0; i < 3 * LIMIT_SHELVES; i++) {
        kind.pids = 100 + i;
        assert_null(pool_take(engine, &kind));
        if (i % 2) /* nobody asks for every second any more */
            for (size_t j = 1; j < LIMIT_SHELVES; j++)
                if (engine->pool.shelves[j].shape.pids == kind.pids)
                    engine->pool.shelves[j].demand = (struct pool_demand){0};
    }
    assert_ptr_equal(pool_take(engine, &run), box);
    boxes_free(box);
}

#define OLD "0000000000000000000000000000000000000000000000000000000000000000"
#define NEW "1111111111111111111111111111111111111111111111111111111111111111"

static const struct pool_shelf *shelf_of(const struct engine *engine, const char *layer)
{
    for (size_t i = 0; i < LIMIT_SHELVES; i++) {
        const struct pool_shelf *shelf = &engine->pool.shelves[i];

        if (shelf->is_used && !shelf->is_old && strcmp(shelf->shape.layer, layer) == 0)
            return shelf;
    }
    return NULL;
}

/* Boxes of the old layer go, one on its way too; the demand is that of the new one. */
static void test_the_layer_changes(void **state)
{
    struct yard *yard = *state;
    struct engine *engine = &yard->engine;
    struct launcher_make old = run, new = run;
    struct engine_box *idle, *late, *other;

    memcpy(old.layer, OLD, sizeof(OLD));
    memcpy(new.layer, NEW, sizeof(NEW));
    pool_take(engine, &run);
    other = stand(engine, &run, 1);
    pool_take(engine, &old);
    idle = stand(engine, &old, 2);
    late = boxes_new(engine, &old, true);
    late->launched.pid_fd = -1;
    late->facts.kernel = old.kernel;
    late->shelf = idle->shelf;
    engine->pool.shelves[late->shelf].making_count++;
    engine->pool.shelves[late->shelf].least = 1;
    pool_renew(engine, OLD, NEW);
    assert_int_equal(count(engine), 1); /* that of no layer */
    pool_stands(engine, late);
    assert_int_equal(count(engine), 1);
    boxes_free(idle);
    boxes_free(late);
    assert_null(shelf_of(engine, OLD));
    assert_non_null(shelf_of(engine, NEW));
    assert_int_equal(shelf_of(engine, NEW)->least, 1);
    assert_true(pool_demand_milli(&shelf_of(engine, NEW)->demand, clock_now_ms()) > 500);
    idle = stand(engine, &new, 3);
    assert_ptr_equal(pool_take(engine, &new), idle);
    boxes_free(idle);
    assert_null(pool_take(engine, &old)); /* whoever has it still may ask */
    idle = stand(engine, &old, 4);
    assert_ptr_equal(pool_take(engine, &old), idle);
    boxes_free(idle);
    assert_ptr_equal(pool_take(engine, &run), other);
    boxes_free(other);
}

/* From none, or to none: those who name no template at all are somebody else. */
static void test_the_first_layer_and_none(void **state)
{
    struct yard *yard = *state;
    struct engine *engine = &yard->engine;
    struct launcher_make old = run;
    struct engine_box *plain, *box;

    memcpy(old.layer, OLD, sizeof(OLD));
    pool_take(engine, &run);
    plain = stand(engine, &run, 1);
    pool_renew(engine, "", OLD);
    assert_int_equal(count(engine), 1);
    assert_null(shelf_of(engine, OLD));
    pool_take(engine, &old);
    box = stand(engine, &old, 2);
    pool_renew(engine, OLD, "");
    assert_int_equal(count(engine), 2);
    pool_forget(engine, OLD);
    assert_int_equal(count(engine), 1);
    assert_null(shelf_of(engine, OLD));
    boxes_free(box);
    assert_ptr_equal(pool_take(engine, &run), plain);
    boxes_free(plain);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_taken),
        TEST(test_none_without_its_kernel),
        TEST(test_lost_on_its_shelf),
        TEST(test_let_go),
        TEST(test_nothing_while_something_is_made_or_held),
        TEST(test_off),
        TEST(test_shelves_are_few),
        TEST(test_the_layer_changes),
        TEST(test_the_first_layer_and_none),
    };

    return cmocka_run_group_tests_name("launcher/pool", tests, NULL, NULL);
}
