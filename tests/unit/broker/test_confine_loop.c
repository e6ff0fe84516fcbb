/* test_confine_loop.c - the event loop behind the broker's filter of system calls. */
#include "unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/reactor.h"
#include "broker/broker.h"
#include "broker/uv_reactor.h"

static void stop_loop(void *ctx)
{
    uv_reactor_stop(ctx);
}

/* 0 when a loop that is made behind the filter also runs and ends there. */
static int run_loop(void)
{
    struct reactor *reactor;
    struct reactor_timer *timer;
    struct error err = {0};
    int r;

    if (broker_confine_calls(&err) < 0 || uv_reactor_new(&reactor, &err) < 0)
        return 2;
    timer = reactor_timer(reactor, stop_loop, reactor);
    if (!timer)
        return 3;
    reactor->ops->timer_set(timer, 1);
    r = uv_reactor_run(reactor);
    reactor->ops->timer_remove(timer);
    uv_reactor_free(reactor);
    return r < 0 ? 4 : 0;
}

/* libuv 1.45 and later choose between io_uring and epoll when the loop is made. */
static void test_event_loop_works_behind_the_filter(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(run_loop());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_loop_works_behind_the_filter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
