/* test_turner.c - the loop of libbailey: watches, timers, and its own descriptor. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/reactor.h"
#include "lib/lib_private.h"

struct loop {
    struct turner *turner;
    struct reactor *reactor;
    struct reactor_watch *watches[2];
    struct reactor_timer *timers[2];
    int pipes[2][2];
    int called;
    int nested;
};

static int setup(void **state)
{
    struct loop *loop = calloc(1, sizeof(*loop));

    assert_int_equal(turner_new(&loop->turner, NULL), 0);
    loop->reactor = turner_reactor(loop->turner);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pipe(loop->pipes[i]), 0);
    *state = loop;
    return 0;
}

static int teardown(void **state)
{
    struct loop *loop = *state;

    turner_free(loop->turner);
    for (int i = 0; i < 2; i++) {
        close(loop->pipes[i][0]);
        close(loop->pipes[i][1]);
    }
    free(loop);
    return 0;
}

static bool is_readable(const struct loop *loop, int timeout_ms)
{
    struct pollfd poll_fd = {.fd = turner_fd(loop->turner), .events = POLLIN};

    return poll(&poll_fd, 1, timeout_ms) == 1;
}

/* Whichever is called first removes the other. */
static void remove_other(void *ctx, short events)
{
    struct loop *loop = ctx;

    assert_true(events & POLLIN);
    loop->called++;
    for (int i = 0; i < 2; i++) {
        loop->reactor->ops->watch_remove(loop->watches[i]);
        loop->watches[i] = NULL;
    }
}

static void test_a_removed_watch_is_not_called_in_the_same_turn(void **state)
{
    struct loop *loop = *state;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(write(loop->pipes[i][1], "x", 1), 1);
        loop->watches[i] =
            reactor_watch(loop->reactor, loop->pipes[i][0], POLLIN, remove_other, loop);
    }
    assert_true(is_readable(loop, 0));
    assert_int_equal(turner_turn(loop->turner, -1), 0);
    assert_int_equal(loop->called, 1);
    assert_false(is_readable(loop, 0));
}

static void drop_other_timer(void *ctx)
{
    struct loop *loop = ctx;

    loop->called++;
    for (int i = 0; i < 2; i++) {
        loop->reactor->ops->timer_remove(loop->timers[i]);
        loop->timers[i] = NULL;
    }
}

static void test_a_removed_timer_is_not_called_in_the_same_turn(void **state)
{
    struct loop *loop = *state;

    for (int i = 0; i < 2; i++) {
        loop->timers[i] = reactor_timer(loop->reactor, drop_other_timer, loop);
        loop->reactor->ops->timer_set(loop->timers[i], 0);
    }
    assert_int_equal(turner_turn(loop->turner, -1), 0);
    assert_int_equal(loop->called, 1);
}

static void count(void *ctx)
{
    struct loop *loop = ctx;

    loop->called++;
}

static void test_the_descriptor_is_readable_when_a_timer_is_due(void **state)
{
    struct loop *loop = *state;

    loop->timers[0] = reactor_timer(loop->reactor, count, loop);
    assert_false(is_readable(loop, 0));
    loop->reactor->ops->timer_set(loop->timers[0], 1);
    assert_true(is_readable(loop, -1));
    assert_int_equal(turner_turn(loop->turner, 0), 0);
    assert_int_equal(loop->called, 1);
    assert_false(is_readable(loop, 0)); /* it fires once */

    loop->reactor->ops->timer_set(loop->timers[0], 0);
    loop->reactor->ops->timer_set(loop->timers[0], UINT64_MAX);
    assert_false(is_readable(loop, 0)); /* it was stopped */
}

static void turn_again(void *ctx)
{
    struct loop *loop = ctx;

    loop->nested = turner_turn(loop->turner, 0);
}

static void test_a_callback_cannot_wait(void **state)
{
    struct loop *loop = *state;

    loop->timers[0] = reactor_timer(loop->reactor, turn_again, loop);
    loop->reactor->ops->timer_set(loop->timers[0], 0);
    assert_int_equal(turner_turn(loop->turner, -1), 0);
    assert_int_equal(loop->nested, -EDEADLK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_removed_watch_is_not_called_in_the_same_turn, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_removed_timer_is_not_called_in_the_same_turn, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_the_descriptor_is_readable_when_a_timer_is_due, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_callback_cannot_wait, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
