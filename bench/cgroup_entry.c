/* cgroup_entry.c - what it costs to enter a v1 control group, hot and after idle, in two ways.
 *
 *     cgroup_entry ROUNDS IDLE_MS DIR...     DIR: a group of each hierarchy, the caller's own
 *
 * Prints one line for each sample: way, pace, nanoseconds for entering all hierarchies. Status 77
 * and a reason where this cannot be done.
 *
 *   procs  another process's pid into cgroup.procs. The kernel takes cgroup_threadgroup_rwsem as a
 *          writer, and a per-CPU semaphore that had no writer lately first waits for a grace period
 *          of RCU: cheap again and again, milliseconds after idle.
 *   tasks  the process writes "0" into tasks, moving itself. One thread that moves itself cannot
 *          exit or exec meanwhile, so the kernel takes no such lock.
 *
 * The first process stays outside, makes the groups and removes them whatever became of the worker;
 * it ignores the signals of a terminal for that reason. The worker moves itself in and out. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HIERARCHIES_MAX 8
#define STATUS_SKIPPED 77
#define WARMING_ROUNDS 5
#define HOT_FACTOR 10 /* hot rounds are cheap: this many for each idle one */

enum way { WAY_TASKS, WAY_PROCS, _WAY_MAX };
enum pace { PACE_WARMING, PACE_HOT, PACE_IDLE };

static const char *const way_names[_WAY_MAX] = {"tasks", "procs"};
static const char *const way_files[_WAY_MAX] = {"tasks", "cgroup.procs"};

struct hierarchy {
    char child[PATH_MAX];
    int in_fds[_WAY_MAX];  /* files of the child group, by way */
    int out_fds[_WAY_MAX]; /* the same of the group we came from */
    int is_made;
};

struct bench {
    struct hierarchy hierarchies[HIERARCHIES_MAX];
    int count;
    long rounds;
    long idle_ms;
    char target_pid[16]; /* the process that WAY_PROCS moves */
};

static int skip(const char *what, const char *name)
{
    printf("skipped: %s %s: %s\n", what, name, strerror(errno));
    return STATUS_SKIPPED;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_ms(long ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        continue;
}

static int open_in(const char *dir, const char *name)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_WRONLY | O_CLOEXEC);
}

static int hierarchy_make(struct hierarchy *hierarchy, const char *dir)
{
    int length = snprintf(hierarchy->child, sizeof(hierarchy->child), "%s/bailey-bench-%ld", dir,
                          (long)getpid());

    if (length >= (int)sizeof(hierarchy->child))
        errno = ENAMETOOLONG;
    else
        hierarchy->is_made = mkdir(hierarchy->child, 0755) == 0;
    if (!hierarchy->is_made)
        return skip("making a group in", dir);

    for (int way = 0; way < _WAY_MAX; way++) {
        hierarchy->in_fds[way] = open_in(hierarchy->child, way_files[way]);
        hierarchy->out_fds[way] = open_in(dir, way_files[way]);
        if (hierarchy->in_fds[way] < 0 || hierarchy->out_fds[way] < 0)
            return skip(way_files[way], dir);
    }
    return 0;
}

static int move(const struct bench *bench, enum way way, int is_in)
{
    const char *who = way == WAY_TASKS ? "0" : bench->target_pid;
    size_t length = strlen(who);

    for (int i = 0; i < bench->count; i++) {
        const struct hierarchy *hierarchy = &bench->hierarchies[i];
        int fd = is_in ? hierarchy->in_fds[way] : hierarchy->out_fds[way];

        if (write(fd, who, length) != (ssize_t)length)
            return skip(is_in ? "entering" : "leaving", hierarchy->child);
    }
    return 0;
}

/* One sample of each way. Leaving comes before the pause, so that the pause is the last thing that
 * happened when the next entry is timed. */
static int measure_round(const struct bench *bench, enum pace pace)
{
    for (enum way way = 0; way < _WAY_MAX; way++) {
        uint64_t begin;
        uint64_t end;
        int r;

        if (pace == PACE_IDLE)
            pause_ms(bench->idle_ms);
        begin = now_ns();
        r = move(bench, way, 1);
        end = now_ns();
        if (r == 0)
            r = move(bench, way, 0);
        if (r != 0)
            return r;
        if (pace != PACE_WARMING)
            printf("%s %s %llu\n", way_names[way], pace == PACE_IDLE ? "idle" : "hot",
                   (unsigned long long)(end - begin));
    }
    return 0;
}

static int measure(const struct bench *bench, enum pace pace, long rounds)
{
    int r = 0;

    for (long i = 0; r == 0 && i < rounds; i++)
        r = measure_round(bench, pace);
    return r;
}

static int work(struct bench *bench)
{
    pid_t target = fork();
    int r;

    if (target < 0)
        return skip("starting", "a process to move");
    if (target == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    snprintf(bench->target_pid, sizeof(bench->target_pid), "%ld", (long)target);

    r = measure(bench, PACE_WARMING, WARMING_ROUNDS);
    if (r == 0)
        r = measure(bench, PACE_HOT, HOT_FACTOR * bench->rounds);
    if (r == 0)
        r = measure(bench, PACE_IDLE, bench->rounds);
    kill(target, SIGKILL);
    return r;
}

/* Runs the worker and waits until nobody is left who could sit in a group. */
static int work_apart(struct bench *bench)
{
    int worker_status = STATUS_SKIPPED;
    int status;
    pid_t worker;
    pid_t gone;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(stdout);
    worker = fork();
    if (worker < 0)
        return skip("starting", "a worker");
    if (worker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        status = work(bench);
        fflush(stdout);
        _exit(status);
    }
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    while ((gone = wait(&status)) > 0) {
        if (gone == worker)
            worker_status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    return worker_status;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    int r = 0;

    if (argc < 4 || argc - 3 > HIERARCHIES_MAX) {
        fprintf(stderr, "usage: cgroup_entry ROUNDS IDLE_MS DIR...\n");
        return 2;
    }
    bench.rounds = strtol(argv[1], NULL, 10);
    bench.idle_ms = strtol(argv[2], NULL, 10);
    bench.count = argc - 3;

    for (int i = 0; r == 0 && i < bench.count; i++)
        r = hierarchy_make(&bench.hierarchies[i], argv[i + 3]);
    if (r == 0)
        r = work_apart(&bench);
    for (int i = 0; i < bench.count; i++) {
        const struct hierarchy *hierarchy = &bench.hierarchies[i];

        if (hierarchy->is_made && rmdir(hierarchy->child) < 0) {
            fprintf(stderr, "cgroup_entry: %s is left: %s\n", hierarchy->child, strerror(errno));
            r = r == 0 ? 1 : r;
        }
    }
    return r;
}
