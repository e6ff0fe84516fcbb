/* test_launched.c - the launcher as a provider, faked by this file over a socket pair. */
#include "runtime/launcher_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "boxes/boxes.h"

static const struct make_request request = {
    .key = "session_1",
    .limits = {.memory_bytes = 64 << 20, .disk_bytes = 1 << 20, .pids = 9, .cpu_millis = 500},
    .minimum = ISOLATION_STRICT,
    .has_data = true,
};

/* ---- the launcher ---- */

static void answer(struct stage *stage, const struct launcher_message *message, int fd)
{
    say(&stage->loop, stage->launcher_fd, message, fd);
}

static void answer_number(struct stage *stage, enum launcher_type type, uint32_t number)
{
    struct launcher_message message = {.type = type, .number = number};

    answer(stage, &message, -1);
}

static void answer_box(struct stage *stage, enum launcher_type type, uint32_t serial,
                       uint32_t number)
{
    struct launcher_message message = {.type = type,
                                       .box = {.serial = serial,
                                               .number = number,
                                               .key = "session_1",
                                               .memory_bytes = 77,
                                               .layers = 5,
                                               .missing = 2,
                                               .memory_by = HELD_BY_GROUP,
                                               .disk_by = HELD_BY_TMPFS,
                                               .group = CGROUP_V2}};

    answer(stage, &message, channel());
}

static void answer_ended(struct stage *stage, uint32_t number, uint64_t cpu_us, bool was_asked)
{
    struct launcher_message message = {
        .type = LAUNCHER_ENDED,
        .usage = {.number = number, .cpu_us = cpu_us, .oom_kills = cpu_us, .was_asked = was_asked}};

    answer(stage, &message, -1);
}

static int set_up(void **state)
{
    struct stage *stage = calloc(1, sizeof(*stage));
    struct launcher_message message;
    int pair[2];

    if (!stage)
        return -1;
    pair_of(pair);
    poll_reactor_init(&stage->loop);
    stage->launcher_fd = pair[0];
    assert_int_equal(launched_open(&stage->loop.reactor, pair[1], provider_known("local"), &events,
                                   stage, &stage->provider, NULL),
                     0);
    message = expect(stage->launcher_fd, LAUNCHER_HELLO);
    assert_int_equal(message.number, LAUNCHER_VERSION);
    *state = stage;
    return 0;
}

static int tear_down(void **state)
{
    struct stage *stage = *state;

    launched_close(stage->provider);
    close(stage->launcher_fd);
    poll_reactor_free(&stage->loop);
    free(stage);
    return 0;
}

static uint32_t make(struct stage *stage)
{
    struct launcher_message message;
    uint32_t serial = 0;

    assert_int_equal(
        stage->provider->ops->make(stage->provider, &request, &make_events, stage, &serial, NULL),
        0);
    message = expect(stage->launcher_fd, LAUNCHER_MAKE);
    assert_int_equal(message.make.serial, serial);
    assert_string_equal(message.make.key, "session_1");
    assert_int_equal(message.make.memory_bytes, 64 << 20);
    assert_int_equal(message.make.pids, 9);
    assert_int_equal(message.make.minimum, ISOLATION_STRICT);
    assert_true(message.make.has_data);
    return serial;
}

/* ---- tests ---- */

static void test_inventory_then_ready(void **state)
{
    struct stage *stage = *state;
    struct launcher_message message;

    answer_box(stage, LAUNCHER_BOX, 0, 41);
    assert_int_equal(stage->found, 1);
    assert_int_equal(stage->box.number, 41);
    assert_string_equal(stage->box.key, "session_1");
    assert_int_equal(stage->box.limits.memory_bytes, 77);
    assert_int_equal(stage->box.facts.memory_by, LIMIT_BY_CGROUP_V2);
    assert_int_equal(stage->box.facts.disk_by, LIMIT_BY_TMPFS);
    assert_int_equal(stage->box.facts.layers, 5);
    assert_int_equal(stage->ready, 0);
    answer_number(stage, LAUNCHER_WELCOME, 3);
    assert_int_equal(stage->ready, 1);
    assert_int_equal(stage->generation, 3);
    launched_say_ready(stage->provider);
    message = expect(stage->launcher_fd, LAUNCHER_READY);
    stage->provider->ops->end(stage->provider, 41, stage->box.box, NULL, NULL);
    message = expect(stage->launcher_fd, LAUNCHER_END);
    assert_int_equal(message.number, 41);
    answer_ended(stage, 41, 1, true);
    assert_int_equal(stage->ended, 0);
}

static void test_made_used_and_ended(void **state)
{
    struct stage *stage = *state;
    struct launcher_message message;
    uint32_t serial = make(stage);

    answer_box(stage, LAUNCHER_MADE, serial, 7);
    assert_int_equal(stage->made, 1);
    assert_non_null(stage->box.box);
    stage->provider->ops->usage(stage->provider, 7, on_done, stage);
    stage->provider->ops->usage(stage->provider, 7, on_done, stage);
    message = expect(stage->launcher_fd, LAUNCHER_USAGE);
    message = expect(stage->launcher_fd, LAUNCHER_USAGE);
    message = (struct launcher_message){.type = LAUNCHER_USED,
                                        .usage = {.number = 7, .cpu_us = 5, .memory_bytes = 6}};
    answer(stage, &message, -1);
    assert_int_equal(stage->done, 1);
    assert_int_equal(stage->facts.usage.cpu_us, 5);
    assert_int_equal(stage->facts.layers, 5); /* what it was made with is said again */
    answer(stage, &message, -1);
    assert_int_equal(stage->done, 2);
    answer(stage, &message, -1); /* nobody asked */
    stage->provider->ops->usage(stage->provider, 7, on_done, stage);
    answer(stage, &message, -1);
    assert_int_equal(stage->done, 3);
    stage->provider->ops->end(stage->provider, 7, stage->box.box, on_done, stage);
    assert_int_equal(stage->done, 3);
    answer_ended(stage, 7, 9, true);
    assert_int_equal(stage->done, 4);
    assert_int_equal(stage->facts.usage.cpu_us, 9);
    assert_int_equal(stage->facts.oom_kills, 9);
    assert_int_equal(stage->ended, 0);
}

static void test_refused(void **state)
{
    struct stage *stage = *state;
    uint32_t serial = make(stage);
    struct launcher_message message = {
        .type = LAUNCHER_REFUSED,
        .refused = {.serial = serial + 1,
                    .error = {.num = -EPERM, .code = ERROR_REFUSED, .text = "no"},
                    .layers = 1,
                    .missing = 4}};

    answer(stage, &message, -1); /* somebody else's */
    assert_int_equal(stage->refused, 0);
    message.refused.serial = serial;
    answer(stage, &message, -1);
    assert_int_equal(stage->refused, 1);
    assert_ptr_equal(stage->error.code, ERROR_REFUSED);
    assert_string_equal(stage->error.text, "no");
    assert_int_equal(stage->facts.missing, 4);
    answer(stage, &message, -1); /* it has been answered */
    assert_int_equal(stage->refused, 1);
}

static void test_a_cancelled_box_is_ended(void **state)
{
    struct stage *stage = *state;
    struct launcher_message message;
    uint32_t serial = make(stage);

    stage->provider->ops->make_cancel(stage->provider, serial);
    answer_box(stage, LAUNCHER_MADE, serial, 8);
    assert_int_equal(stage->made, 0);
    message = expect(stage->launcher_fd, LAUNCHER_END);
    assert_int_equal(message.number, 8);
    answer_ended(stage, 8, 0, true);
    assert_int_equal(stage->ended, 0);
    answer_box(stage, LAUNCHER_MADE, 4711, 9); /* one that nobody asked for */
    message = expect(stage->launcher_fd, LAUNCHER_END);
}

static void test_gone_by_itself(void **state)
{
    struct stage *stage = *state;

    answer_box(stage, LAUNCHER_MADE, make(stage), 7);
    answer_ended(stage, 7, 3, false);
    assert_int_equal(stage->ended, 1);
    assert_int_equal(stage->ended_number, 7);
    assert_int_equal(stage->facts.usage.cpu_us, 3);
    stage->provider->ops->end(stage->provider, 7, stage->box.box, on_done, stage);
    expect(stage->launcher_fd, LAUNCHER_END);
    answer_ended(stage, 7, 0, true); /* the launcher does not know it any more */
    assert_int_equal(stage->done, 1);
    assert_int_equal(stage->facts.usage.cpu_us, 3);
}

/* It went while the END was on its way: one call, with what it had used. */
static void test_gone_while_it_was_ended(void **state)
{
    struct stage *stage = *state;

    answer_box(stage, LAUNCHER_MADE, make(stage), 7);
    stage->provider->ops->end(stage->provider, 7, stage->box.box, on_done, stage);
    answer_ended(stage, 7, 3, false);
    assert_int_equal(stage->ended + stage->done, 0);
    answer_ended(stage, 7, 0, true);
    assert_int_equal(stage->ended, 0);
    assert_int_equal(stage->done, 1);
    assert_int_equal(stage->facts.usage.cpu_us, 3);
}

static void test_bad_keys_are_not_sent(void **state)
{
    static const char *const keys[] = {"", "A", "a/b", "..",
                                       "a234567890123456789012345678901234567890123456789"};
    struct stage *stage = *state;
    struct make_request bad = request;
    struct error err;
    uint32_t serial;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        bad.key = keys[i];
        assert_int_equal(
            stage->provider->ops->make(stage->provider, &bad, &make_events, stage, &serial, &err),
            -EINVAL);
    }
    expect_nothing(stage->launcher_fd);
}

/* More than the socket takes at once: nothing is lost, nothing changes places. */
static void test_a_launcher_that_is_slow(void **state)
{
    struct stage *stage = *state;
    struct launcher_message message;
    uint32_t serial, first = 0, next;
    int fd = -1;

    for (int i = 0; i < 2000; i++) {
        assert_int_equal(stage->provider->ops->make(stage->provider, &request, &make_events, stage,
                                                    &serial, NULL),
                         0);
        first = first ? first : serial;
    }
    next = first;
    for (int turns = 0; next <= serial && turns < 100000; turns++) {
        while (launcher_receive(stage->launcher_fd, &message, &fd) == 1)
            assert_int_equal(message.make.serial, next++);
        poll_reactor_turn(&stage->loop, 0);
    }
    assert_int_equal(next, serial + 1);
}

static void test_stopping_and_quit(void **state)
{
    struct stage *stage = *state;

    answer_number(stage, LAUNCHER_STOPPING, 1234);
    assert_int_equal(stage->stopping, 1);
    assert_int_equal(stage->grace_ms, 1234);
    launched_quit(stage->provider);
    expect(stage->launcher_fd, LAUNCHER_QUIT);
}

static void test_closed_inside_a_callback(void **state)
{
    struct stage *stage = *state;

    stage->closes_in_stopping = true;
    make(stage);
    answer_number(stage, LAUNCHER_STOPPING, 1);
    assert_null(stage->provider);
    assert_int_equal(stage->gone, 0);
}

static void test_gone(void **state)
{
    struct stage *stage = *state;
    struct error err;
    uint32_t serial;

    make(stage);
    close(stage->launcher_fd);
    stage->launcher_fd = -1;
    poll_reactor_turn(&stage->loop, 1000);
    assert_int_equal(stage->gone, 1);
    assert_int_equal(poll_reactor_turn(&stage->loop, 0), 0);
    assert_int_equal(
        stage->provider->ops->make(stage->provider, &request, &make_events, stage, &serial, &err),
        -EPIPE);
    stage->provider->ops->usage(stage->provider, 1, on_done, stage);
    launched_quit(stage->provider);
}

static void test_nonsense_is_the_end(void **state)
{
    struct stage *stage = *state;

    assert_int_equal(send(stage->launcher_fd, "\377", 1, 0), 1);
    poll_reactor_turn(&stage->loop, 1000);
    assert_int_equal(stage->gone, 1);
}

static void test_what_only_a_broker_says_is_the_end(void **state)
{
    struct stage *stage = *state;

    answer_number(stage, LAUNCHER_HELLO, 1);
    assert_int_equal(stage->gone, 1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_inventory_then_ready),
        TEST(test_made_used_and_ended),
        TEST(test_refused),
        TEST(test_a_cancelled_box_is_ended),
        TEST(test_gone_by_itself),
        TEST(test_gone_while_it_was_ended),
        TEST(test_bad_keys_are_not_sent),
        TEST(test_a_launcher_that_is_slow),
        TEST(test_stopping_and_quit),
        TEST(test_closed_inside_a_callback),
        TEST(test_gone),
        TEST(test_nonsense_is_the_end),
        TEST(test_what_only_a_broker_says_is_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
