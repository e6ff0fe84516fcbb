/* test_worker.c - jobs in a thread, one after the other, and what is left of them at the end. */
#include "reactor.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/worker.h"

#define JOBS 5

static struct poll_reactor loop;
static struct worker *worker;
static pthread_t loop_thread;
static sem_t may_go_on;
static int at_work, most_at_work;

struct task {
    bool waits, was_worked, was_elsewhere;
    int done;            /* in which order, from 1 */
    struct task *follow; /* begun by done() */
};
static struct task tasks[JOBS];
static int done_count;

static int set_up(void **state)
{
    (void)state;
    loop = (struct poll_reactor){0};
    poll_reactor_init(&loop);
    worker = worker_new(&loop.reactor);
    loop_thread = pthread_self();
    memset(tasks, 0, sizeof(tasks));
    done_count = at_work = most_at_work = 0;
    sem_init(&may_go_on, 0, 0);
    return worker ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    worker_free(worker);
    worker = NULL;
    poll_reactor_free(&loop);
    sem_destroy(&may_go_on);
    return 0;
}

static void work(void *ctx)
{
    struct task *task = ctx;
    int count = __atomic_add_fetch(&at_work, 1, __ATOMIC_SEQ_CST);

    if (count > most_at_work)
        most_at_work = count;
    if (task->waits)
        sem_wait(&may_go_on);
    task->was_worked = true;
    task->was_elsewhere = !pthread_equal(pthread_self(), loop_thread);
    __atomic_sub_fetch(&at_work, 1, __ATOMIC_SEQ_CST);
}

static void done(void *ctx)
{
    struct task *task = ctx;

    assert_true(pthread_equal(pthread_self(), loop_thread));
    task->done = ++done_count;
    if (task->follow)
        assert_true(worker_do(worker, work, done, task->follow));
}

static void give(struct task *task)
{
    assert_true(worker_do(worker, work, done, task));
}

static void test_one_after_the_other(void **state)
{
    (void)state;
    tasks[0].waits = true;
    for (int i = 0; i < JOBS; i++)
        give(&tasks[i]);
    assert_int_equal(done_count, 0);
    sem_post(&may_go_on);
    while (done_count < JOBS)
        poll_reactor_turn(&loop, -1);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(tasks[i].done, i + 1);
        assert_true(tasks[i].was_worked && tasks[i].was_elsewhere);
    }
    assert_int_equal(most_at_work, 1);
}

static void test_the_end_of_one_begins_another(void **state)
{
    (void)state;
    tasks[0].follow = &tasks[1];
    give(&tasks[0]);
    while (done_count < 2)
        poll_reactor_turn(&loop, -1);
    assert_true(tasks[1].was_worked);
}

static void test_what_is_left_is_finished(void **state)
{
    (void)state;
    for (int i = 0; i < JOBS; i++)
        give(&tasks[i]);
    worker_finish(worker);
    for (int i = 0; i < JOBS; i++)
        assert_true(tasks[i].was_worked && tasks[i].done == i + 1);
    give(&tasks[0]); /* it can be used further */
    while (done_count < JOBS + 1)
        poll_reactor_turn(&loop, -1);
}

static void test_what_is_left_is_dropped(void **state)
{
    (void)state;
    tasks[0].waits = true;
    give(&tasks[0]);
    give(&tasks[1]);
    sem_post(&may_go_on);
    worker_free(worker);
    worker = NULL;
    assert_true(tasks[0].was_worked && tasks[0].done == 1);
    assert_true(!tasks[1].was_worked && tasks[1].done == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_after_the_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_end_of_one_begins_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_left_is_finished, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_left_is_dropped, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
