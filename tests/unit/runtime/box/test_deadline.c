/* test_deadline.c - a box's deadlines, against wardens that answer a kill and those that do not. */
#include "runtime/box/fake_warden.h"

#include <signal.h>

#include "base/clock.h"
#include "runtime/box/box_private.h"

static void hear_kill(struct fake *fake, uint32_t id)
{
    struct frame frame = hear(fake, FRAME_SIGNAL, id);
    uint32_t number = 0;

    assert_int_equal(message_number_unpack(&frame, &number), 0);
    assert_int_equal(number, SIGKILL);
}

static void test_deadline(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_exec(fake, 0, 60000);
    uint64_t before = clock_now_ms();

    say_started(fake, id);
    check_alive(fake);
    assert_in_range(box_next_deadline_ms(fake->box), before + 60000, clock_now_ms() + 60000);
    hear_nothing(fake);
    fake->box->calls->deadline_ms = 1; /* long ago */
    check_alive(fake);
    hear_kill(fake, id);
    check_alive(fake);
    hear_nothing(fake);                       /* once is enough */
    assert_int_equal(fake->seen[0].ended, 0); /* the warden's word is still wanted */
    say_exited(fake, id, &(struct message_exited){.signal = SIGKILL, .duration_ns = 9});
    check_alive(fake);
    assert_int_equal(fake->seen[0].ended, 1);
    assert_true(fake->seen[0].end.timed_out);
    assert_true(fake->seen[0].end.duration_ns == 9);
    assert_true(box_next_deadline_ms(fake->box) == UINT64_MAX);
}

/* A warden that does not answer a kill cannot keep the caller waiting. */
static void test_unanswered_kill_after_deadline(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_exec(fake, 0, 1234);

    say_started(fake, id);
    check_alive(fake);
    fake->box->calls->deadline_ms = 1;
    check_alive(fake);
    hear_kill(fake, id);
    assert_in_range(box_next_deadline_ms(fake->box), 2, clock_now_ms() + KILL_PATIENCE_MS);
    fake->box->calls->kill_deadline_ms = 1;
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[0].ended, 1);
    assert_int_equal(fake->seen[0].failed, 0);
    assert_true(fake->seen[0].end.timed_out);
    assert_int_equal(fake->seen[0].end.signal, SIGKILL);
    assert_true(fake->seen[0].end.duration_ns == UINT64_C(1234000000));
}

static void test_unanswered_kill_of_the_caller(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_exec(fake, 0, 0);

    say_started(fake, id);
    check_alive(fake);
    box_signal(fake->box, id, SIGTERM);
    assert_true(box_next_deadline_ms(fake->box) == UINT64_MAX); /* it may take its time */
    hear(fake, FRAME_SIGNAL, id);
    box_signal(fake->box, id, SIGKILL);
    hear_kill(fake, id);
    fake->box->calls->kill_deadline_ms = 1;
    check_lost(fake, 1);
    assert_int_equal(fake->seen[0].failed, 1);
}

/* Patience does not run out while it is our own side that does not read. */
static void test_kill_with_slow_reader(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_exec(fake, 0, 0);

    fake->seen[0].takes = 0;
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 5, 'x');
    check_alive(fake);
    box_signal(fake->box, id, SIGKILL);
    fake->box->calls->kill_deadline_ms = 1;
    check_alive(fake);
    assert_true(box_next_deadline_ms(fake->box) > 1);
    fake->seen[0].takes = SIZE_MAX;
    box_resume(fake->box, id, BOX_STDOUT);
    fake->box->calls->kill_deadline_ms = 1;
    check_lost(fake, 1);
}

/* The end comes behind the last output: as long as that comes, it is waited for, but not for ever.
 */
static void test_kill_while_output_comes(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_exec(fake, 0, 0);

    fake->seen[0].takes = SIZE_MAX;
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 5, 'x');
    check_alive(fake);
    box_signal(fake->box, id, SIGKILL);
    say_bytes(fake, FRAME_OUTPUT, id, 1, 5, 5, 'x');
    fake->box->calls->kill_deadline_ms = 1;
    check_alive(fake);
    assert_true(box_next_deadline_ms(fake->box) > 1);
    say_bytes(fake, FRAME_OUTPUT, id, 1, 10, 5, 'x');
    fake->box->calls->kill_deadline_ms = fake->box->calls->kill_last_ms = 1;
    check_lost(fake, 1);
}

static void test_kill_without_more_output(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_exec(fake, 0, 0);

    fake->seen[0].takes = SIZE_MAX;
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 5, 'x');
    check_alive(fake);
    box_signal(fake->box, id, SIGKILL);
    fake->box->calls->kill_deadline_ms = 1;
    check_lost(fake, 1);
}

#define WITH_A_FAKE(test) cmocka_unit_test_setup_teardown(test, fake_set_up, fake_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_FAKE(test_deadline),
        WITH_A_FAKE(test_unanswered_kill_after_deadline),
        WITH_A_FAKE(test_unanswered_kill_of_the_caller),
        WITH_A_FAKE(test_kill_with_slow_reader),
        WITH_A_FAKE(test_kill_while_output_comes),
        WITH_A_FAKE(test_kill_without_more_output),
    };

    return cmocka_run_group_tests_name("runtime/box/deadline", tests, NULL, NULL);
}
