/* test_freeze.c - a frozen box: its clock stands still, and operations on files end. */
#include "fake_warden.h"

#include "base/clock.h"
#include "runtime/box/box_private.h"

static const struct done_events done_seen = {.done = saw_done};
static const struct watch_events watch_seen = {.done = saw_done};

static void test_asking(void **state)
{
    struct fake *fake = *state;

    assert_int_equal(box_freeze(fake->box, &done_seen, &fake->seen[0], &fake->err), 0);
    hear(fake, FRAME_FREEZE, 1);
    say_done(fake, 1, 0);
    check_alive(fake);
    assert_int_equal(fake->seen[0].ended, 1);
    assert_int_equal(fake->seen[0].err.num, 0);
    assert_int_equal(box_thaw(fake->box, &done_seen, &fake->seen[1], &fake->err), 0);
    hear(fake, FRAME_THAW, 2);
    say_done(fake, 2, ENOMEM);
    check_alive(fake);
    assert_int_equal(fake->seen[1].err.num, -ENOMEM);
}

static void test_deadlines_stand_still(void **state)
{
    struct fake *fake = *state;
    uint64_t before;

    start_exec(fake, 0, 5000);
    say_started(fake, fake->id[0]);
    check_alive(fake);
    before = box_next_deadline_ms(fake->box);
    assert_true(before <= clock_now_ms() + 5000);
    box_clock_stop(fake->box);
    assert_true(box_next_deadline_ms(fake->box) == UINT64_MAX);
    fake->box->clock_stopped_ms -= 20000; /* it has stood for that long */
    box_clock_stop(fake->box);            /* safe twice */
    check_alive(fake);
    hear_nothing(fake); /* no SIGKILL */
    box_clock_start(fake->box);
    assert_true(box_next_deadline_ms(fake->box) >= before + 20000);
    check_alive(fake);
    hear_nothing(fake);
    fake->box->clock_lag_ms -= 20000;
    fake->box->calls->deadline_ms = box_now_ms(fake->box); /* its time is over */
    check_alive(fake);
    hear(fake, FRAME_SIGNAL, fake->id[0]);
}

/* A command that is begun in a frozen box has all of its time when it is thawed. */
static void test_a_deadline_in_a_frozen_box(void **state)
{
    struct fake *fake = *state;

    box_clock_stop(fake->box);
    start_exec(fake, 0, 5000);
    say_started(fake, fake->id[0]);
    check_alive(fake);
    fake->box->clock_stopped_ms -= 20000;
    fake->box->calls->deadline_ms -= 20000;
    box_clock_start(fake->box);
    assert_in_range(box_next_deadline_ms(fake->box), clock_now_ms() + 1, clock_now_ms() + 5000);
}

static void test_files_end_and_watches_stay(void **state)
{
    struct fake *fake = *state;
    struct error why = {0};

    error_set(&why, -EBUSY, ERROR_SESSION_PAUSED, "it is paused");
    assert_int_equal(
        box_get(fake->box, "/tmp/x", 0, 0, &get_seen, &fake->seen[0], &fake->id[0], &fake->err), 0);
    assert_int_equal(
        box_list(fake->box, "/tmp", 1, &list_seen, &fake->seen[1], &fake->id[1], &fake->err), 0);
    assert_int_equal(
        box_watch(fake->box, "/tmp", true, &watch_seen, &fake->seen[2], &fake->id[2], &fake->err),
        0);
    for (int i = 0; i < 3; i++) {
        struct frame frame;

        assert_true(hear_any(fake, &frame));
    }
    start_exec(fake, 3, 0);
    box_fail_files(fake->box, &why);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fake->seen[i].ended, 1);
        assert_ptr_equal(fake->seen[i].err.code, ERROR_SESSION_PAUSED);
    }
    assert_int_equal(fake->seen[2].ended, 0);
    assert_int_equal(fake->seen[3].ended + fake->seen[3].failed, 0);
    box_fail_files(fake->box, &why); /* once */
    assert_int_equal(fake->seen[0].ended, 1);
    say_bytes(fake, FRAME_DATA, fake->id[0], 0, 0, 10, 'x'); /* sent before it heard */
    say_done(fake, fake->id[0], ECANCELED);
    say_done(fake, fake->id[1], 0);
    check_alive(fake);
    assert_int_equal(fake->seen[0].ended, 1);
}

#define WITH_A_FAKE(test) cmocka_unit_test_setup_teardown(test, fake_set_up, fake_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_FAKE(test_asking),
        WITH_A_FAKE(test_deadlines_stand_still),
        WITH_A_FAKE(test_a_deadline_in_a_frozen_box),
        WITH_A_FAKE(test_files_end_and_watches_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
