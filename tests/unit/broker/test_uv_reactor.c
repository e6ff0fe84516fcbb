/* test_uv_reactor.c - watches and timers over libuv, also removed while they are due. */
#include "unit.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "broker/uv_reactor.h"

#define PAIRS 3

struct watched {
    struct reactor_watch *watch;
    int ends[2];
    int calls;
    short events;
};

static struct reactor *reactor;
static struct watched watched[PAIRS];
static int timer_calls;

static int set_up(void **state)
{
    (void)state;
    timer_calls = 0;
    if (uv_reactor_new(&reactor, NULL) < 0)
        return -1;
    for (int i = 0; i < PAIRS; i++) {
        watched[i] = (struct watched){0};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, watched[i].ends) < 0)
            return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    uv_reactor_free(reactor);
    for (int i = 0; i < PAIRS; i++) {
        close(watched[i].ends[0]);
        close(watched[i].ends[1]);
    }
    return 0;
}

static void stop_at_once(void *ctx, short events)
{
    struct watched *self = ctx;

    self->calls++;
    self->events = events;
    uv_reactor_stop(reactor);
}

static void watch(int index, short events, reactor_ready ready)
{
    watched[index].watch =
        reactor_watch(reactor, watched[index].ends[0], events, ready, &watched[index]);
    assert_non_null(watched[index].watch);
}

static void wake(int index)
{
    assert_int_equal(write(watched[index].ends[1], "x", 1), 1);
}

static void stop_timer(void *ctx)
{
    (void)ctx;
    timer_calls++;
    uv_reactor_stop(reactor);
}

/* One turn for whatever is ready, without waiting for more. */
static void run_briefly(void)
{
    struct reactor_timer *timer = reactor_timer(reactor, stop_timer, NULL);

    assert_non_null(timer);
    reactor->ops->timer_set(timer, 5);
    assert_int_equal(uv_reactor_run(reactor), 0);
    reactor->ops->timer_remove(timer);
}

static void test_delivers(void **state)
{
    (void)state;
    watch(0, POLLIN, stop_at_once);
    watch(1, POLLIN, stop_at_once);
    wake(1);
    assert_int_equal(uv_reactor_run(reactor), 0);
    assert_int_equal(watched[0].calls, 0);
    assert_int_equal(watched[1].calls, 1);
    assert_int_equal(watched[1].events, POLLIN);
}

static void test_change(void **state)
{
    (void)state;
    watch(0, 0, stop_at_once);
    wake(0);
    run_briefly();
    assert_int_equal(watched[0].calls, 0);
    reactor->ops->watch_change(watched[0].watch, POLLIN | POLLOUT);
    assert_int_equal(uv_reactor_run(reactor), 0);
    assert_int_equal(watched[0].calls, 1);
    assert_int_equal(watched[0].events, POLLIN | POLLOUT);
}

static void test_hang_up(void **state)
{
    (void)state;
    watch(0, 0, stop_at_once);
    watch(1, POLLRDHUP, stop_at_once);
    watch(2, 0, stop_at_once);
    shutdown(watched[0].ends[1], SHUT_WR); /* not a hang-up */
    shutdown(watched[1].ends[1], SHUT_WR);
    assert_int_equal(uv_reactor_run(reactor), 0);
    assert_int_equal(watched[0].calls, 0);
    assert_true(watched[1].events & POLLRDHUP);
    reactor->ops->watch_remove(watched[1].watch);
    close(watched[2].ends[1]);
    watched[2].ends[1] = -1;
    assert_int_equal(uv_reactor_run(reactor), 0);
    assert_true(watched[2].events & POLLHUP);
}

static void remove_others(void *ctx, short events)
{
    struct watched *self = ctx;

    stop_at_once(self, events);
    for (int i = 0; i < PAIRS; i++) {
        reactor->ops->watch_remove(watched[i].watch);
        watched[i].watch = NULL;
    }
}

static void test_removed_while_due(void **state)
{
    int calls = 0;

    (void)state;
    for (int i = 0; i < PAIRS; i++) {
        watch(i, POLLIN, remove_others);
        wake(i);
    }
    assert_int_equal(uv_reactor_run(reactor), 0);
    for (int i = 0; i < PAIRS; i++)
        calls += watched[i].calls;
    assert_int_equal(calls, 1);
    reactor->ops->watch_remove(NULL);
}

static struct reactor_timer *doomed[2];

static void remove_timers(void *ctx)
{
    (void)ctx;
    timer_calls++;
    for (int i = 0; i < 2; i++)
        reactor->ops->timer_remove(doomed[i]);
    uv_reactor_stop(reactor);
}

static void test_timers(void **state)
{
    struct reactor_timer *timer = reactor_timer(reactor, stop_timer, NULL);

    (void)state;
    assert_non_null(timer);
    reactor->ops->timer_set(timer, 0);
    assert_int_equal(uv_reactor_run(reactor), 0);
    assert_int_equal(timer_calls, 1);
    reactor->ops->timer_set(timer, 1); /* once more, and then not: it was set again */
    reactor->ops->timer_set(timer, UINT64_MAX);
    run_briefly();
    assert_int_equal(timer_calls, 2);
    for (int i = 0; i < 2; i++) {
        doomed[i] = reactor_timer(reactor, remove_timers, NULL);
        reactor->ops->timer_set(doomed[i], 0);
    }
    assert_int_equal(uv_reactor_run(reactor), 0);
    assert_int_equal(timer_calls, 3);
    run_briefly();
    assert_int_equal(timer_calls, 4);
    reactor->ops->timer_remove(NULL);
}

static struct reactor_timer *two[2];

static void set_the_other(void *ctx)
{
    int other = ctx == &two[0];

    timer_calls++;
    if (timer_calls < 1000)
        reactor->ops->timer_set(two[other], 0);
    else
        uv_reactor_stop(reactor);
}

/* Two timers that set each other to now leave descriptors their turns. */
static void test_timers_that_set_each_other(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        two[i] = reactor_timer(reactor, set_the_other, &two[i]);
    watch(0, POLLIN, stop_at_once);
    wake(0);
    reactor->ops->timer_set(two[0], 0);
    uv_reactor_run(reactor);
    assert_int_equal(watched[0].calls, 1);
    assert_in_range(timer_calls, 1, 10);
}

#define SPUN_NS 3000000

static uint64_t longest_ns, turns;

static void on_turned(void *ctx, uint64_t cpu_ns)
{
    (void)ctx;
    turns++;
    longest_ns = MAX(longest_ns, cpu_ns);
}

static void spin(void *ctx, short events)
{
    uint64_t begin = clock_thread_ns();

    (void)ctx;
    (void)events;
    while (clock_thread_ns() - begin < SPUN_NS)
        ;
    reactor->ops->watch_remove(watched[0].watch);
}

static void set_timer(void *ctx)
{
    reactor->ops->timer_set(ctx, 1);
}

static void test_turns_are_measured(void **state)
{
    struct reactor_timer *last = reactor_timer(reactor, stop_timer, NULL);
    struct reactor_timer *first = reactor_timer(reactor, set_timer, last);

    (void)state;
    watch(0, POLLIN, spin);
    wake(0);
    /* A timer that another one sets is for a later turn, also where timers follow the poll. */
    reactor->ops->timer_set(first, 1);
    uv_reactor_measure(reactor, on_turned, NULL);
    uv_reactor_run(reactor);
    assert_in_range(turns, 2, 1000000);
    assert_in_range(longest_ns, SPUN_NS, UINT64_MAX);
}

/* What is left is dropped: the sanitizer's leak check is the witness. */
static void test_free_with_things_left(void **state)
{
    (void)state;
    watch(0, POLLIN, stop_at_once);
    assert_non_null(reactor_timer(reactor, stop_timer, NULL));
    reactor->ops->timer_set(reactor_timer(reactor, stop_timer, NULL), 100000);
    wake(0);
    uv_reactor_free(reactor);
    reactor = NULL;
    assert_int_equal(watched[0].calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_delivers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hang_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_removed_while_due, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_timers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_timers_that_set_each_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_turns_are_measured, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_free_with_things_left, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
