/* worker.c - one thread for each job, and a pipe that it closes at its end; see worker.h. */
#include "base/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/reactor.h"

struct job {
    struct job *next;
    void (*work)(void *ctx);
    void (*done)(void *ctx);
    void *ctx;
};

struct worker {
    struct reactor *reactor;
    struct reactor_timer *timer; /* due: the first job was done without a thread */
    struct reactor_watch *watch;
    struct job *jobs; /* the first one is under way */
    pthread_t thread;
    int pipe[2]; /* the thread has the second end */
    bool is_running;
};

static void *run(void *ctx)
{
    struct worker *worker = ctx;
    struct job *job = worker->jobs;
    int fd = worker->pipe[1];

    job->work(job->ctx);
    close(fd); /* tells the loop; nothing is touched afterwards */
    return NULL;
}

static void on_closed(void *ctx, short events);

static bool start_thread(struct worker *worker)
{
    sigset_t all, before;
    int r;

    if (pipe2(worker->pipe, O_CLOEXEC) < 0)
        return false;
    worker->watch = reactor_watch(worker->reactor, worker->pipe[0], POLLIN, on_closed, worker);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals go to the loop's thread */
    r = worker->watch ? pthread_create(&worker->thread, NULL, run, worker) : ENOMEM;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    worker->is_running = r == 0;
    if (worker->is_running)
        return true;
    worker->reactor->ops->watch_remove(ptr_take(&worker->watch));
    fd_closep(&worker->pipe[0]);
    fd_closep(&worker->pipe[1]);
    return false;
}

static void begin(struct worker *worker)
{
    struct job *job = worker->jobs;

    if (!job || start_thread(worker))
        return;
    job->work(job->ctx);
    worker->reactor->ops->timer_set(worker->timer, 0);
}

static void join(struct worker *worker)
{
    if (!worker->is_running)
        return;
    pthread_join(worker->thread, NULL);
    worker->reactor->ops->watch_remove(ptr_take(&worker->watch));
    fd_closep(&worker->pipe[0]);
    worker->is_running = false;
}

static void finish(struct worker *worker)
{
    CLEANUP(freep) struct job *job = worker->jobs;

    worker->jobs = job->next;
    begin(worker);
    job->done(job->ctx);
}

static void on_closed(void *ctx, short events)
{
    (void)events;
    join(ctx);
    finish(ctx);
}

static void on_due(void *ctx)
{
    finish(ctx);
}

struct worker *worker_new(struct reactor *reactor)
{
    struct worker *worker = calloc(1, sizeof(*worker));

    if (!worker)
        return NULL;
    worker->reactor = reactor;
    worker->timer = reactor_timer(reactor, on_due, worker);
    if (worker->timer)
        return worker;
    free(worker);
    return NULL;
}

bool worker_do(struct worker *worker, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx)
{
    struct job *job = calloc(1, sizeof(*job)), **at = &worker->jobs;

    if (!job)
        return false;
    *job = (struct job){.work = work, .done = done, .ctx = ctx};
    while (*at)
        at = &(*at)->next;
    *at = job;
    if (worker->jobs == job)
        begin(worker);
    return true;
}

static void end(struct worker *worker, bool finishes)
{
    bool is_done = worker->jobs; /* the first one is, or runs */

    join(worker);
    worker->reactor->ops->timer_set(worker->timer, UINT64_MAX);
    while (worker->jobs) {
        CLEANUP(freep) struct job *job = worker->jobs;

        worker->jobs = job->next;
        if (finishes && !is_done)
            job->work(job->ctx);
        is_done = false;
        job->done(job->ctx);
    }
}

void worker_finish(struct worker *worker)
{
    end(worker, true);
}

void worker_free(struct worker *worker)
{
    if (!worker)
        return;
    end(worker, false);
    worker->reactor->ops->timer_remove(worker->timer);
    free(worker);
}
