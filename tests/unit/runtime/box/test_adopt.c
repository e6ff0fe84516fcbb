/*
 * test_adopt.c - a box takes over from a host that is gone, against wardens good and bad. What the
 * earlier host left in the socket is whatever the test says before the answer.
 */
#include "runtime/box/fake_warden.h"

#include <signal.h>

#include "base/clock.h"
#include "runtime/box/box_private.h"
#include "sandbox/guest_stage.h"

#define GENERATION 77
#define WINDOW ((uint64_t)WIRE_STREAM_WINDOW)

/* What was found, and which of it is adopted. */
struct finder {
    struct fake *fake;
    struct box_found found[2 * (LIMIT_COMMANDS + LIMIT_CONTEXTS)];
    int count, done;
    struct error err;
    uint32_t adopts; /* this id, at these offsets */
    uint64_t offset[BOX_STREAMS];
    uint64_t timeout_ms;
    int adopt_result;
};

static void saw_found(void *ctx, const struct box_found *found)
{
    struct finder *finder = ctx;
    struct fake *fake = finder->fake;
    struct error err = {0};

    finder->found[finder->count++] = *found;
    if (found->id == finder->adopts)
        finder->adopt_result = box_adopt(fake->box, found->id, finder->offset, finder->timeout_ms,
                                         &exec_seen, &fake->seen[0], &err);
}

static void saw_adopted(void *ctx, const struct error *err)
{
    struct finder *finder = ctx;

    finder->done++;
    finder->err = *err;
}

static const struct adopt_events adopt_seen = {.found = saw_found, .done = saw_adopted};

static void greet(struct fake *fake, struct finder *finder)
{
    *finder = (struct finder){.fake = fake};
    assert_int_equal(box_hello(fake->box, GENERATION, &adopt_seen, finder, &fake->err), 0);
    assert_int_equal(hear(fake, FRAME_HELLO, GENERATION).length, 0);
}

static void say_inventory(struct fake *fake, uint32_t id, const struct message_inventory *wanted)
{
    struct message_inventory inventory = *wanted;
    uint8_t payload[80];

    if (!inventory.generation)
        inventory.generation = GENERATION;
    say(fake, FRAME_INVENTORY, id, payload,
        (size_t)message_inventory_pack(&inventory, payload, sizeof(payload)));
}

static void say_welcome(struct fake *fake, uint32_t generation, uint32_t highest)
{
    uint8_t payload[4];

    say(fake, FRAME_WELCOME, generation, payload,
        (size_t)message_number_pack(highest, payload, sizeof(payload)));
}

static const struct message_inventory running = {.flags = INVENTORY_STARTED,
                                                 .start_ns = 5,
                                                 .acked = {100, 0},
                                                 .read = {300, 7},
                                                 .input_received = 40};

static void test_empty_box(void **state)
{
    struct fake *fake = *state;
    struct finder finder;

    greet(fake, &finder);
    check_alive(fake);
    assert_int_equal(finder.done, 0);
    say_welcome(fake, GENERATION, 41);
    check_alive(fake);
    assert_int_equal(finder.done, 1);
    assert_int_equal(finder.err.num, 0);
    assert_int_equal(finder.count, 0);
    assert_true(box_next_deadline_ms(fake->box) == UINT64_MAX);
    assert_int_equal(start_exec(fake, 0, 0), 42); /* no id is used twice */
}

/* Anything may still be in the socket, and comes from a conversation that is not ours. */
static void test_leftovers(void **state)
{
    struct fake *fake = *state;
    struct finder finder;

    greet(fake, &finder);
    say_started(fake, 3);
    say_bytes(fake, FRAME_OUTPUT, 3, 1, 12345, 100, 'x');
    say_bytes(fake, FRAME_DATA, 9, 0, 99, 100, 'x');
    say_entry(fake, 10, "half a listing", 14);
    say_ack(fake, 3, 0, 999);
    say_fail(fake, 4, GUEST_STAGE_EXEC, ENOENT);
    say_done(fake, 5, 0);
    say_exited(fake, 3, &(struct message_exited){.exit_code = 1, .out_bytes = 12445});
    say(fake, FRAME_READY, 0, "?", 1);
    say(fake, FRAME_CHANGED, 11, "?", 1);
    say_inventory(fake, 3, &(struct message_inventory){.generation = GENERATION - 1});
    say_inventory(fake, 8, &(struct message_inventory){.generation = GENERATION - 1});
    say_welcome(fake, GENERATION - 1, 8);
    say_inventory(fake, 3, &(struct message_inventory){.generation = GENERATION - 2});
    check_alive(fake);
    assert_int_equal(finder.count + finder.done, 0);
    finder.adopts = 3;
    finder.offset[0] = 100;
    say_inventory(fake, 3, &running);
    say_welcome(fake, GENERATION, 11);
    say_bytes(fake, FRAME_OUTPUT, 3, 1, 100, 5, 'y'); /* from here on everything counts */
    check_alive(fake);
    assert_int_equal(finder.count, 1);
    assert_int_equal(finder.done, 1);
    assert_string_equal(buf_text(&fake->seen[0].out[1]), "yyyyy");
}

static void test_adopts_one(void **state)
{
    struct fake *fake = *state;
    struct message_resume resume;
    struct finder finder;
    struct frame frame;
    uint64_t before = clock_now_ms();

    greet(fake, &finder);
    finder.adopts = 3;
    finder.offset[0] = 150;
    finder.timeout_ms = 60000;
    say_inventory(fake, 3, &running);
    say_welcome(fake, GENERATION, 3);
    check_alive(fake);
    assert_int_equal(finder.adopt_result, 0);
    assert_int_equal(finder.found[0].id, 3);
    assert_true(finder.found[0].has_started && !finder.found[0].has_exited &&
                !finder.found[0].is_pty);
    assert_true(finder.found[0].start_ns == 5 && finder.found[0].input == 40);
    assert_true(finder.found[0].first[0] == 100 && finder.found[0].written[0] == 300);
    assert_true(finder.found[0].first[1] == 0 && finder.found[0].written[1] == 7);
    frame = hear(fake, FRAME_RESUME, 3);
    assert_int_equal(message_resume_unpack(&frame, &resume), 0);
    assert_true(resume.offset[0] == 150 && resume.offset[1] == 0);
    assert_in_range(box_next_deadline_ms(fake->box), before + 60000, clock_now_ms() + 60000);
    say_ack(fake, 3, 0, 40);
    say_bytes(fake, FRAME_OUTPUT, 3, 1, 150, 150, 'o');
    say_bytes(fake, FRAME_OUTPUT, 3, 2, 0, 7, 'e');
    check_alive(fake);
    assert_int_equal(fake->seen[0].started, 0); /* that was known */
    assert_int_equal(fake->seen[0].ready, 1);
    assert_int_equal(box_stdin(fake->box, 3, "more", 4), 4);
    frame = hear(fake, FRAME_STDIN, 3);
    assert_memory_equal(frame.payload, "\0\x28\0\0\0\0\0\0\0more", 13); /* at offset 40 */
    say_exited(fake, 3, &(struct message_exited){.out_bytes = 300, .err_bytes = 7});
    check_alive(fake);
    assert_int_equal(fake->seen[0].ended, 1);
    assert_int_equal(fake->seen[0].out[1].length, 150);
    assert_int_equal(fake->seen[0].out[2].length, 7);
    box_forget(fake->box, 3);
    hear(fake, FRAME_FORGET, 3);
}

static void test_turns_out_the_others(void **state)
{
    struct message_inventory ended = running;
    struct fake *fake = *state;
    struct finder finder;
    struct frame frame;
    uint32_t number;

    ended.flags |= INVENTORY_EXITED;
    greet(fake, &finder);
    finder.adopts = 2;
    finder.offset[0] = 99; /* is not available any more */
    say_inventory(fake, 1, &running);
    say_inventory(fake, 2, &running);
    say_inventory(fake, 3, &ended);
    say_welcome(fake, GENERATION, 3);
    check_alive(fake);
    assert_int_equal(finder.adopt_result, -ERANGE);
    assert_int_equal(finder.count, 3);
    assert_int_equal(finder.done, 1);
    for (uint32_t id = 1; id <= 2; id++) {
        frame = hear(fake, FRAME_SIGNAL, id);
        assert_int_equal(message_number_unpack(&frame, &number), 0);
        assert_int_equal(number, SIGKILL);
        assert_int_equal(hear(fake, FRAME_FORGET, id).length, 0);
    }
    hear(fake, FRAME_FORGET, 3); /* nobody kills what has ended */
    hear_nothing(fake);
    assert_true(box_next_deadline_ms(fake->box) == UINT64_MAX);
}

/* How much of the input still waits inside is not known before the warden has said it. */
static void test_input_window(void **state)
{
    static char data[2 * WIRE_STREAM_WINDOW];
    struct message_inventory inventory = running;
    struct fake *fake = *state;
    struct finder finder;

    inventory.input_received = 3 * WINDOW;
    greet(fake, &finder);
    finder.adopts = 1;
    finder.offset[0] = 100;
    say_inventory(fake, 1, &inventory);
    say_welcome(fake, GENERATION, 1);
    check_alive(fake);
    assert_int_equal(box_stdin(fake->box, 1, data, 1), 0); /* it may be all of a window */
    say_ack(fake, 1, 0, 3 * WINDOW - 10);
    check_alive(fake);
    assert_int_equal(fake->seen[0].ready, 1);
    assert_int_equal(box_stdin(fake->box, 1, data, sizeof(data)), (long)WINDOW - 10);
}

static void test_input_that_has_ended(void **state)
{
    struct message_inventory inventory = running;
    struct fake *fake = *state;
    struct finder finder;

    inventory.input_ended = true;
    greet(fake, &finder);
    finder.adopts = 1;
    finder.offset[0] = 300;
    say_inventory(fake, 1, &inventory);
    say_welcome(fake, GENERATION, 1);
    check_alive(fake);
    hear(fake, FRAME_RESUME, 1);
    assert_int_equal(box_stdin(fake->box, 1, "x", 1), -EPIPE);
    box_stdin_end(fake->box, 1);
    hear_nothing(fake);
}

/* One that did not run yet: STARTED or NOEXEC are still to come, and have to. */
static void test_adopts_before_the_start(void **state)
{
    static const struct message_inventory waiting = {0};
    struct fake *fake = *state;
    struct finder finder;

    greet(fake, &finder);
    finder.adopts = 1;
    finder.timeout_ms = 5000;
    say_inventory(fake, 1, &waiting);
    say_welcome(fake, GENERATION, 1);
    check_alive(fake);
    assert_false(finder.found[0].has_started);
    assert_in_range(box_next_deadline_ms(fake->box), clock_now_ms() + 5001,
                    clock_now_ms() + BRINGUP_PATIENCE_MS);
    say_started(fake, 1);
    check_alive(fake);
    assert_int_equal(fake->seen[0].started, 1);
    assert_true(box_next_deadline_ms(fake->box) <= clock_now_ms() + 5000);
}

static void test_adopts_a_failure(void **state)
{
    struct message_inventory failed = {.flags = INVENTORY_EXITED};
    struct fake *fake = *state;
    struct finder finder;

    greet(fake, &finder);
    finder.adopts = 1;
    say_inventory(fake, 1, &failed);
    say_welcome(fake, GENERATION, 1);
    check_alive(fake);
    assert_true(finder.found[0].has_exited && !finder.found[0].has_started);
    say_fail(fake, 1, GUEST_STAGE_EXEC, ENOENT);
    check_alive(fake);
    assert_int_equal(fake->seen[0].failed, 1);
    assert_ptr_equal(fake->seen[0].err.code, ERROR_COMMAND_NOT_FOUND);
}

/* A warden that claims to know an end and does not tell it. */
static void test_end_that_never_comes(void **state)
{
    struct message_inventory ended = running;
    struct fake *fake = *state;
    struct finder finder;

    ended.flags |= INVENTORY_EXITED;
    greet(fake, &finder);
    finder.adopts = 1;
    finder.offset[0] = 100;
    finder.timeout_ms = 1000; /* it cannot time out any more */
    say_inventory(fake, 1, &ended);
    say_welcome(fake, GENERATION, 1);
    check_alive(fake);
    fake->box->calls->kill_deadline_ms = 1;
    check_lost(fake, 1);
    assert_int_equal(fake->seen[0].failed, 1);
}

static void test_no_welcome(void **state)
{
    struct fake *fake = *state;
    struct finder finder;
    uint64_t before = clock_now_ms();

    greet(fake, &finder);
    assert_in_range(box_next_deadline_ms(fake->box), before + BRINGUP_PATIENCE_MS,
                    clock_now_ms() + BRINGUP_PATIENCE_MS);
    say_inventory(fake, 1, &running);
    fake->box->hello_deadline_ms = 1;
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(finder.count, 0);
    assert_int_equal(finder.done, 1);
    assert_ptr_equal(finder.err.code, ERROR_BOX_LOST);
    assert_int_equal(box_hello(fake->box, 1, &adopt_seen, &finder, &fake->err), -EPIPE);
    assert_int_equal(finder.done, 1);
}

static void test_warden_is_gone(void **state)
{
    struct fake *fake = *state;
    struct finder finder;

    greet(fake, &finder);
    close(fake->fd);
    fake->fd = -1;
    check_lost(fake, 0);
    assert_int_equal(finder.done, 1);
    assert_ptr_equal(finder.err.code, ERROR_BOX_LOST);
}

/* The owner gives the box up while it waits for an answer. */
static void test_box_is_given_up(void **state)
{
    struct fake *fake = *state;
    struct finder finder;
    struct error err = {0};

    greet(fake, &finder);
    error_set(&err, -EPIPE, ERROR_BOX_LOST, "it was given up");
    box_fail(fake->box, &err);
    assert_int_equal(finder.done, 1);
    assert_ptr_equal(finder.err.code, ERROR_BOX_LOST);
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(finder.done, 1);
}

/* Before the answer which ids are free is not known; after a call it is too late to ask. */
static void test_order_of_calls(void **state)
{
    static const char *const argv[] = {"true", NULL};
    struct exec_spec spec = {.argv = argv};
    uint64_t offset[BOX_STREAMS] = {0};
    struct fake *fake = *state;
    struct finder finder;
    uint32_t id;

    greet(fake, &finder);
    assert_int_equal(box_exec(fake->box, &spec, &exec_seen, &fake->seen[0], &id, &fake->err),
                     -EBUSY);
    assert_int_equal(box_hello(fake->box, 1, &adopt_seen, &finder, &fake->err), -EBUSY);
    assert_int_equal(box_adopt(fake->box, 1, offset, 0, &exec_seen, &fake->seen[0], &fake->err),
                     -EINVAL);
    say_inventory(fake, 1, &running);
    check_alive(fake);
    assert_int_equal(box_adopt(fake->box, 1, offset, 0, &exec_seen, &fake->seen[0], &fake->err),
                     -EINVAL);
    hear_nothing(fake);
    say_welcome(fake, GENERATION, 1);
    check_alive(fake);
    assert_int_equal(box_hello(fake->box, 1, &adopt_seen, &finder, &fake->err), -EBUSY);
}

/* ---- what a warden may not answer; each loses the box ---- */

static void say_id_0(struct fake *fake)
{
    say_inventory(fake, 0, &running);
}

static void say_twice(struct fake *fake)
{
    say_inventory(fake, 1, &running);
    say_inventory(fake, 1, &running);
}

static void say_too_many(struct fake *fake)
{
    for (uint32_t id = 1; id <= 2 * (LIMIT_COMMANDS + LIMIT_CONTEXTS) + 1; id++) {
        say_inventory(fake, id, &running);
        fake_pump(fake);
    }
}

static void say_more_than_a_window(struct fake *fake)
{
    say_inventory(fake, 1, &(struct message_inventory){.read = {WINDOW + 1, 0}});
}

static void say_huge_offsets(struct fake *fake)
{
    say_inventory(
        fake, 1,
        &(struct message_inventory){.acked = {0, UINT64_MAX - 1}, .read = {0, UINT64_MAX}});
}

static void say_huge_input(struct fake *fake)
{
    say_inventory(fake, 1, &(struct message_inventory){.input_received = UINT64_MAX});
}

static void say_unknown_flag(struct fake *fake)
{
    say_inventory(fake, 1, &(struct message_inventory){.flags = 0x80});
}

static void say_short_inventory(struct fake *fake)
{
    say(fake, FRAME_INVENTORY, 1, "1234", 4);
}

static void say_short_welcome(struct fake *fake)
{
    say(fake, FRAME_WELCOME, GENERATION, "123", 3);
}

static void say_id_beyond_the_highest(struct fake *fake)
{
    say_inventory(fake, 5, &running);
    say_welcome(fake, GENERATION, 4);
}

static void say_no_id_left(struct fake *fake)
{
    say_welcome(fake, GENERATION, UINT32_MAX);
}

static void say_no_frame(struct fake *fake)
{
    assert_int_equal(send(fake->fd, "hello", 5, 0), 5);
}

static void test_broken_protocol(void **state)
{
    static void (*const ways[])(struct fake * fake) = {
        say_id_0,          say_twice,
        say_too_many,      say_more_than_a_window,
        say_huge_offsets,  say_huge_input,
        say_unknown_flag,  say_short_inventory,
        say_short_welcome, say_id_beyond_the_highest,
        say_no_id_left,    say_no_frame,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct finder finder;
        struct fake *fake;
        void *one = NULL;

        assert_int_equal(fake_set_up(&one), 0);
        fake = one;
        greet(fake, &finder);
        ways[i](fake);
        check_lost(fake, 0);
        assert_int_equal(finder.done, 1);
        assert_int_equal(finder.count, 0);
        assert_ptr_equal(finder.err.code, ERROR_BOX_LOST);
        fake_tear_down(&one);
    }
}

/* Once it has answered, the answer to a question that nobody asked breaks the protocol. */
static void test_second_welcome(void **state)
{
    struct fake *fake = *state;
    struct finder finder;

    greet(fake, &finder);
    say_welcome(fake, GENERATION, 0);
    say_welcome(fake, GENERATION, 0);
    check_lost(fake, 0);
    assert_int_equal(finder.done, 1);
    assert_int_equal(finder.err.num, 0);
}

#define WITH_A_FAKE(test) cmocka_unit_test_setup_teardown(test, fake_set_up, fake_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_FAKE(test_empty_box),
        WITH_A_FAKE(test_leftovers),
        WITH_A_FAKE(test_adopts_one),
        WITH_A_FAKE(test_turns_out_the_others),
        WITH_A_FAKE(test_input_window),
        WITH_A_FAKE(test_input_that_has_ended),
        WITH_A_FAKE(test_adopts_before_the_start),
        WITH_A_FAKE(test_adopts_a_failure),
        WITH_A_FAKE(test_end_that_never_comes),
        WITH_A_FAKE(test_no_welcome),
        WITH_A_FAKE(test_warden_is_gone),
        WITH_A_FAKE(test_box_is_given_up),
        WITH_A_FAKE(test_order_of_calls),
        cmocka_unit_test(test_broken_protocol),
        WITH_A_FAKE(test_second_welcome),
    };

    return cmocka_run_group_tests_name("runtime/box/adopt", tests, NULL, NULL);
}
