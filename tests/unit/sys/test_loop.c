/* test_loop.c - sources added, changed and removed, also from inside callbacks. */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sys/loop.h"

#define PIPES 3

/* A pipe in the loop: source first, so that a callback finds the rest. */
struct watched {
    struct loop_source source;
    int ends[2];
    int calls;
    uint32_t events;
};

static struct loop loop;
static struct watched watched[PIPES];
static int turns;

static void stop_at_once(struct loop_source *source, uint32_t events)
{
    struct watched *self = (struct watched *)source;

    self->calls++;
    self->events = events;
    loop.stop = true;
}

static int set_up(void **state)
{
    (void)state;
    memset(watched, 0, sizeof(watched));
    turns = 0;
    if (loop_init(&loop) < 0)
        return -1;
    for (int i = 0; i < PIPES; i++) {
        if (pipe(watched[i].ends) < 0)
            return -1;
        watched[i].source.fd = -1;
        watched[i].source.ready = stop_at_once;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < PIPES; i++) {
        close(watched[i].ends[0]);
        close(watched[i].ends[1]);
    }
    loop_close(&loop);
    return loop.fd == -1 ? 0 : -1;
}

static void add_reader(int index)
{
    assert_int_equal(loop_add(&loop, &watched[index].source, watched[index].ends[0], EPOLLIN), 0);
}

static void wake(int index)
{
    assert_int_equal(write(watched[index].ends[1], "x", 1), 1);
}

static void count_turn(void *ctx)
{
    (void)ctx;
    turns++;
}

static void test_delivers(void **state)
{
    (void)state;
    add_reader(0);
    add_reader(1);
    wake(1);
    assert_int_equal(loop_run(&loop, count_turn, NULL), 0);
    assert_int_equal(watched[0].calls, 0);
    assert_int_equal(watched[1].calls, 1);
    assert_int_equal(watched[1].events, EPOLLIN);
    assert_int_equal(turns, 1);
}

static void stop_before(void *ctx)
{
    loop.stop = true;
    (*(int *)ctx)++;
}

static void test_stop_before_the_wait(void **state)
{
    int count = 0;

    (void)state;
    assert_int_equal(loop_run(&loop, stop_before, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(loop_run(&loop, stop_before, &count), 0); /* it is still stopped */
    assert_int_equal(count, 1);
}

static void test_add_refused(void **state)
{
    (void)state;
    assert_int_equal(loop_add(&loop, &watched[0].source, -1, EPOLLIN), -EBADF);
    assert_int_equal(watched[0].source.fd, -1);
    add_reader(0);
    watched[1].source.fd = -1;
    assert_int_equal(loop_add(&loop, &watched[1].source, watched[0].ends[0], EPOLLIN), -EEXIST);
    assert_int_equal(watched[1].source.fd, -1);
}

static void test_remove_twice_and_again(void **state)
{
    (void)state;
    add_reader(0);
    loop_remove(&loop, &watched[0].source);
    loop_remove(&loop, &watched[0].source);
    assert_int_equal(watched[0].source.fd, -1);
    assert_int_equal(loop_change(&loop, &watched[0].source, EPOLLIN), 0); /* not in it: nothing */
    wake(0);
    add_reader(1);
    wake(1);
    assert_int_equal(loop_run(&loop, NULL, NULL), 0);
    assert_int_equal(watched[0].calls, 0);
    loop.stop = false;
    loop_remove(&loop, &watched[1].source);
    add_reader(0);
    assert_int_equal(loop_run(&loop, NULL, NULL), 0);
    assert_int_equal(watched[0].calls, 1);
}

/* Without events wanted a hang-up is still told. */
static void test_change(void **state)
{
    (void)state;
    add_reader(0);
    add_reader(1);
    wake(0);
    assert_int_equal(loop_change(&loop, &watched[0].source, 0), 0);
    wake(1);
    assert_int_equal(loop_run(&loop, NULL, NULL), 0);
    assert_int_equal(watched[0].calls, 0);
    assert_int_equal(watched[1].calls, 1);
    loop.stop = false;
    assert_int_equal(loop_change(&loop, &watched[0].source, EPOLLIN), 0);
    loop_remove(&loop, &watched[1].source);
    assert_int_equal(loop_run(&loop, NULL, NULL), 0);
    assert_int_equal(watched[0].calls, 1);
    loop.stop = false;
    assert_int_equal(loop_change(&loop, &watched[0].source, 0), 0);
    close(watched[0].ends[1]);
    watched[0].ends[1] = -1;
    assert_int_equal(loop_run(&loop, NULL, NULL), 0);
    assert_int_equal(watched[0].calls, 2);
    assert_true(watched[0].events & EPOLLHUP);
}

/* Whoever is first takes everybody else out, and their memory goes. */
static void remove_others(struct loop_source *source, uint32_t events)
{
    for (int i = 0; i < PIPES; i++) {
        if (&watched[i].source != source)
            loop_remove(&loop, &watched[i].source);
    }
    stop_at_once(source, events);
}

static void test_pending_event_is_dropped(void **state)
{
    (void)state;
    for (int i = 0; i < PIPES; i++) {
        watched[i].source.ready = remove_others;
        add_reader(i);
        wake(i);
    }
    assert_int_equal(loop_run(&loop, NULL, NULL), 0);
    assert_int_equal(watched[0].calls + watched[1].calls + watched[2].calls, 1);
}

static void remove_self(struct loop_source *source, uint32_t events)
{
    struct watched *self = (struct watched *)source;

    (void)events;
    self->calls++;
    loop_remove(&loop, source);
    if (self == &watched[0]) {
        watched[1].source.ready = stop_at_once;
        add_reader(1);
    }
}

static void test_add_from_a_callback(void **state)
{
    (void)state;
    watched[0].source.ready = remove_self;
    add_reader(0);
    wake(0);
    wake(1);
    assert_int_equal(loop_run(&loop, NULL, NULL), 0);
    assert_int_equal(watched[0].calls, 1);
    assert_int_equal(watched[1].calls, 1);
}

/* Removed and added again in the same turn: the old event is dropped, the descriptor's own is not.
 */
static void renew_other(struct loop_source *source, uint32_t events)
{
    struct watched *self = (struct watched *)source;
    struct watched *other = self == &watched[0] ? &watched[1] : &watched[0];
    char byte;

    (void)events;
    self->calls++;
    assert_int_equal(read(other->ends[0], &byte, 1), 1);
    loop_remove(&loop, &other->source);
    add_reader(other == &watched[0] ? 0 : 1);
    loop_remove(&loop, source);
    other->source.ready = stop_at_once;
    wake(2);
}

static void test_renewed_in_the_same_turn(void **state)
{
    (void)state;
    watched[0].source.ready = watched[1].source.ready = renew_other;
    for (int i = 0; i < PIPES; i++)
        add_reader(i);
    wake(0);
    wake(1);
    assert_int_equal(loop_run(&loop, NULL, NULL), 0);
    assert_int_equal(watched[0].calls + watched[1].calls, 1);
    assert_int_equal(watched[2].calls, 1);
}

/* Work that no descriptor announces: turns without an event, until it is done. */
static void be_busy(void *ctx)
{
    (void)ctx;
    loop.is_busy = ++turns < 5;
    if (!loop.is_busy)
        wake(0);
}

static void test_busy_turns_do_not_wait(void **state)
{
    (void)state;
    add_reader(0);
    assert_int_equal(loop_run(&loop, be_busy, NULL), 0);
    assert_int_equal(turns, 5);
    assert_int_equal(watched[0].calls, 1);
}

#define IN_A_LOOP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_LOOP(test_delivers),
        IN_A_LOOP(test_stop_before_the_wait),
        IN_A_LOOP(test_add_refused),
        IN_A_LOOP(test_remove_twice_and_again),
        IN_A_LOOP(test_change),
        IN_A_LOOP(test_pending_event_is_dropped),
        IN_A_LOOP(test_add_from_a_callback),
        IN_A_LOOP(test_renewed_in_the_same_turn),
        IN_A_LOOP(test_busy_turns_do_not_wait),
    };

    return cmocka_run_group_tests_name("sys/loop", tests, NULL, NULL);
}
