/*
 * threads.c - boxes made in process by a program with threads, handlers, children and descriptors
 * of its own: it runs several at once, and afterwards none of these has changed.
 *
 * Prints what is wrong, and nothing else; status 1 if anything is.
 */
#include <bailey.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNNERS 3
#define RUNS 3
#define BUSY 2

static atomic_bool is_over;
static atomic_int problems;

static void problem(const char *what, const char *why)
{
    fprintf(stdout, "%s: %s\n", what, why);
    atomic_fetch_add(&problems, 1);
}

/* Holds malloc's locks at any moment, as other threads of real programs do. */
static void *be_busy(void *ctx)
{
    while (!atomic_load(&is_over)) {
        char *memory[64];

        for (size_t i = 0; i < 64; i++) {
            memory[i] = malloc(100 + 300 * i);
            memset(memory[i], 1, 100 + 300 * i);
        }
        for (size_t i = 0; i < 64; i++)
            free(memory[i]);
    }
    return ctx;
}

/* What the box has of this program: a descriptor that execution would not close, and memory. */
static const char code[] =
    "import os\n"
    "held = sorted(os.listdir('/proc/self/fd'), key=int)\n"
    "assert len(held) <= 4, [os.readlink('/proc/self/fd/' + fd) for fd in held[:-1]]\n"
    "print(os.getpid() > 0)\n";

static void *run(void *ctx)
{
    struct bailey_error err = {0};
    bailey_engine *engine = NULL;

    if (bailey_open_local(&engine, &err) < 0) {
        problem("opening", err.text);
        return ctx;
    }
    for (int i = 0; i < RUNS; i++) {
        bailey_result *result = NULL;

        if (bailey_run_code(engine, NULL, code, &result, &err) < 0)
            problem("running", err.text);
        else if (strcmp(bailey_result_stdout(result, NULL), "True\n") != 0)
            problem("output", bailey_result_stderr(result, NULL));
        bailey_result_free(result);
    }
    bailey_close(engine);
    return ctx;
}

static int count(const char *folder)
{
    DIR *dir = opendir(folder);
    int entries = 0;

    while (dir && readdir(dir))
        entries++;
    if (dir)
        closedir(dir);
    return entries;
}

static void on_signal(int number)
{
    (void)number;
}

static void read_handlers(struct sigaction handlers[NSIG])
{
    memset(handlers, 0, NSIG * sizeof(handlers[0]));
    for (int number = 1; number < SIGRTMAX; number++)
        sigaction(number, NULL, &handlers[number]);
}

static void compare_handlers(const struct sigaction before[NSIG])
{
    struct sigaction after[NSIG];

    read_handlers(after);
    for (int number = 1; number < SIGRTMAX; number++) {
        if (before[number].sa_handler != after[number].sa_handler)
            problem("a handler has changed", strsignal(number));
    }
}

/* A child of the program itself, which nobody else may wait for. */
static pid_t start_child(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(17);
    return pid;
}

static void run_all(void)
{
    pthread_t threads[RUNNERS + BUSY];

    for (int i = 0; i < RUNNERS + BUSY; i++)
        pthread_create(&threads[i], NULL, i < RUNNERS ? run : be_busy, NULL);
    for (int i = 0; i < RUNNERS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&is_over, true);
    for (int i = RUNNERS; i < RUNNERS + BUSY; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    struct sigaction before[NSIG];
    int secret = open("/etc/passwd", O_RDONLY); /* without O_CLOEXEC */
    int fds, status = 0;
    sigset_t mask;
    pid_t child;

    signal(SIGCHLD, on_signal);
    signal(SIGUSR1, on_signal);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    child = start_child();
    read_handlers(before);
    fds = count("/proc/self/fd");

    run_all();

    compare_handlers(before);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    if (!sigismember(&mask, SIGUSR2) || sigismember(&mask, SIGTERM))
        problem("signals", "the mask has changed");
    if (count("/proc/self/fd") != fds)
        problem("descriptors", "some were left");
    if (count("/proc/self/task") != 3) /* this one, "." and ".." */
        problem("threads", "one was left");
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 17)
        problem("children", "the program's own was waited for by the library");
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
        problem("children", "one was left");
    close(secret);
    return atomic_load(&problems) > 0;
}
