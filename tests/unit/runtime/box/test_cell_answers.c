/*
 * test_cell_answers.c - what a warden may not say of kernels and cells, and how a new host takes
 * them over.
 */
#include "runtime/box/cell_fake.h"

#define GENERATION 7

/* ---- what no warden may say: kernel 1 was started, 2 given, cells 3 and 4 are theirs ---- */

static void say_output_of_a_kernel(struct fake *fake)
{
    say_bytes(fake, FRAME_OUTPUT, 1, 1, 0, 1, 'x');
}

static void say_start_of_a_given_one(struct fake *fake)
{
    say_started(fake, 2);
}

static void say_end_of_a_given_one(struct fake *fake)
{
    say_exited(fake, 2, &(struct message_exited){.exit_code = 1}); /* it cannot know */
}

static void say_unseen_with_a_status(struct fake *fake)
{
    say_exited(fake, 2, &(struct message_exited){.exit_code = 1, .flags = EXITED_STATUS_EXTERNAL});
}

static void say_unseen_of_its_own(struct fake *fake)
{
    say_exited(fake, 1, &(struct message_exited){.flags = EXITED_STATUS_EXTERNAL});
}

static void say_kernel_of_a_kernel(struct fake *fake)
{
    say_exited(fake, 1, &(struct message_exited){.flags = EXITED_KERNEL_DIED});
}

static void say_unseen_cell(struct fake *fake)
{
    say_started(fake, 3);
    say_exited(fake, 3,
               &(struct message_exited){.flags = EXITED_STATUS_EXTERNAL | EXITED_KERNEL_DIED});
}

static void say_unseen_cell_that_ended(struct fake *fake)
{
    say_started(fake, 4);
    say_exited(fake, 4, &(struct message_exited){.flags = EXITED_STATUS_EXTERNAL});
}

static void say_seen_cell(struct fake *fake)
{
    say_exited(fake, 4, &(struct message_exited){.signal = 9, .flags = EXITED_KERNEL_DIED});
}

static void say_strange_status(struct fake *fake)
{
    say_started(fake, 3);
    say_exited(fake, 3, &(struct message_exited){.exit_code = 2});
}

static void say_end_without_start(struct fake *fake)
{
    say_exited(fake, 3, &(struct message_exited){.exit_code = 1});
}

static void say_signal_that_kept_the_kernel(struct fake *fake)
{
    say_started(fake, 3);
    say_exited(fake, 3, &(struct message_exited){.signal = SIGSEGV});
}

static void say_strange_flag(struct fake *fake)
{
    say_started(fake, 3);
    say_exited(fake, 3, &(struct message_exited){.flags = 0x80});
}

static void say_fewer_events(struct fake *fake)
{
    say_started(fake, 3);
    say_bytes(fake, FRAME_OUTPUT, 3, 3, 0, 2, 'x');
    say_exited(fake, 3, &(struct message_exited){.event_bytes = 1});
}

static void say_dropped_too_early(struct fake *fake)
{
    say_started(fake, 3);
    say_exited(fake, 3, &(struct message_exited){.event_bytes = 1});
}

static void say_fourth_stream(struct fake *fake)
{
    say_bytes(fake, FRAME_OUTPUT, 3, 4, 0, 1, 'x');
}

static void say_unknown_kernel(struct fake *fake)
{
    say_exited(fake, 9, &(struct message_exited){.flags = EXITED_STATUS_EXTERNAL});
}

static void test_broken_protocol(void **state)
{
    static void (*const ways[])(struct fake * fake) = {
        say_output_of_a_kernel,   say_start_of_a_given_one,   say_end_of_a_given_one,
        say_unseen_with_a_status, say_unseen_of_its_own,      say_kernel_of_a_kernel,
        say_unseen_cell,          say_unseen_cell_that_ended, say_seen_cell,
        say_strange_status,       say_end_without_start,      say_signal_that_kept_the_kernel,
        say_strange_flag,         say_fewer_events,           say_dropped_too_early,
        say_fourth_stream,        say_unknown_kernel,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        void *one = NULL;
        struct fake *fake;

        assert_int_equal(fake_set_up(&one), 0);
        fake = one;
        start_kernel(fake, 0);
        take_kernel(fake, 1, 2);
        start_cell(fake, 2, 1, 0);
        start_cell(fake, 3, 2, 0);
        ways[i](fake);
        check_lost(fake, 4);
        fake_tear_down(&one);
    }
}

/* ---- a new host ---- */

struct finder {
    struct fake *fake;
    struct box_found found[8];
    int count, done;
};

/* Kernels 1 and 2 are adopted, cell 3 of 1 too; the rest is not. */
static void saw_found(void *ctx, const struct box_found *found)
{
    struct finder *finder = ctx;
    struct fake *fake = finder->fake;
    struct error err = {0};

    finder->found[finder->count++] = *found;
    if (found->id <= 2) {
        assert_int_equal(box_adopt(fake->box, found->id, found->first, 0, &exec_seen, NULL, &err),
                         -EINVAL);
        assert_int_equal(
            box_adopt_kernel(fake->box, found->id, &exec_seen, &fake->seen[found->id - 1], &err),
            0);
    } else if (found->id == 3) {
        assert_int_equal(box_adopt_kernel(fake->box, 3, &exec_seen, NULL, &err), -EINVAL);
        assert_int_equal(
            box_adopt(fake->box, 3, found->first, 500, &exec_seen, &fake->seen[2], &err), 0);
    }
}

static void saw_adopted(void *ctx, const struct error *err)
{
    assert_int_equal(err->num, 0);
    ((struct finder *)ctx)->done++;
}

static const struct adopt_events adopt_seen = {.found = saw_found, .done = saw_adopted};

static void say_inventory(struct fake *fake, uint32_t id, struct message_inventory inventory)
{
    uint8_t payload[96];

    inventory.generation = GENERATION;
    say(fake, FRAME_INVENTORY, id, payload,
        (size_t)message_inventory_pack(&inventory, payload, sizeof(payload)));
}

static void say_welcome(struct fake *fake)
{
    uint8_t payload[4];

    say(fake, FRAME_WELCOME, GENERATION, payload, (size_t)message_number_pack(9, payload, 4));
}

static void test_adopts(void **state)
{
    struct fake *fake = *state;
    struct finder finder = {.fake = fake};
    const uint32_t is_kernel = INVENTORY_STARTED | INVENTORY_KERNEL;

    assert_int_equal(box_hello(fake->box, GENERATION, &adopt_seen, &finder, &fake->err), 0);
    hear(fake, FRAME_HELLO, GENERATION);
    say_inventory(fake, 1, (struct message_inventory){.flags = is_kernel});
    say_inventory(fake, 2, (struct message_inventory){.flags = is_kernel | INVENTORY_GIVEN});
    say_inventory(fake, 3,
                  (struct message_inventory){.flags = INVENTORY_STARTED | INVENTORY_CELL,
                                             .kernel = 1,
                                             .acked = {0, 0, 10},
                                             .read = {4, 0, 30}});
    say_inventory(fake, 4, (struct message_inventory){.flags = INVENTORY_CELL, .kernel = 2});
    say_welcome(fake);
    check_alive(fake);
    assert_int_equal(finder.done, 1);
    assert_true(finder.found[0].is_kernel && !finder.found[0].from_zygote);
    assert_true(finder.found[1].is_kernel && finder.found[1].from_zygote);
    assert_true(finder.found[2].is_cell && finder.found[2].kernel == 1);
    assert_true(finder.found[2].first[2] == 10 && finder.found[2].written[2] == 30);
    hear(fake, FRAME_RESUME, 1);
    hear(fake, FRAME_RESUME, 2);
    hear(fake, FRAME_RESUME, 3);
    hear_signal(fake, 4, SIGKILL);
    hear(fake, FRAME_FORGET, 4);
    say_bytes(fake, FRAME_OUTPUT, 3, 3, 10, 20, 'x');
    say_bytes(fake, FRAME_OUTPUT, 3, 1, 0, 4, 'y');
    say_exited(fake, 3, &(struct message_exited){.out_bytes = 4, .event_bytes = 30});
    check_alive(fake);
    assert_int_equal(fake->seen[2].ended, 1);
    assert_int_equal(fake->seen[2].out[3].length, 20);
    assert_int_equal(start_cell(fake, 3, 2, 0), 10); /* kernels go on */
    say_exited(fake, 1, &(struct message_exited){.signal = SIGKILL});
    check_alive(fake);
    assert_int_equal(fake->seen[0].end.signal, SIGKILL);
}

static void test_bad_inventories(void **state)
{
    static const struct message_inventory bad[] = {
        {.flags = INVENTORY_GIVEN},
        {.flags = INVENTORY_KERNEL | INVENTORY_CELL, .kernel = 1},
        {.flags = INVENTORY_KERNEL | INVENTORY_PTY},
        {.flags = INVENTORY_CELL | INVENTORY_PTY, .kernel = 1},
        {.flags = INVENTORY_CELL},
        {.flags = INVENTORY_STARTED, .kernel = 1},
        {.flags = INVENTORY_STARTED, .read = {0, 0, 1}},
        {.flags = INVENTORY_KERNEL, .read = {1}},
        {.flags = INVENTORY_CELL, .kernel = 1, .read = {0, 0, WIRE_STREAM_WINDOW + 1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct finder finder = {0};
        void *one = NULL;
        struct fake *fake;

        assert_int_equal(fake_set_up(&one), 0);
        fake = finder.fake = one;
        assert_int_equal(box_hello(fake->box, GENERATION,
                                   &(struct adopt_events){.found = saw_found, .done = saw_done},
                                   fake->seen, &fake->err),
                         0);
        say_inventory(fake, 5, bad[i]);
        assert_int_equal(fake_pump(fake), -EPIPE);
        assert_int_equal(fake->seen[0].ended, 1);
        fake_tear_down(&one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken_protocol),
        WITH_A_FAKE(test_adopts),
        cmocka_unit_test(test_bad_inventories),
    };

    return cmocka_run_group_tests_name("runtime/box/cell answers", tests, NULL, NULL);
}
