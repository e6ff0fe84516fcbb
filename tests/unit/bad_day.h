/*
 * bad_day.h - a child process for what would ruin the test's own: full disks, lost rights, a death.
 * cmocka's asserts would go on there with the parent's tests, so it has a check of its own.
 */
#ifndef BAILEY_TESTS_BAD_DAY_H
#define BAILEY_TESTS_BAD_DAY_H

#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BAD_DAY_SKIPPED 77 /* the child's exit status when it could not be tried here */

/* In the child. */
#define CHECK(claim)                                                              \
    do {                                                                          \
        if (!(claim)) {                                                           \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #claim); \
            _exit(1);                                                             \
        }                                                                         \
    } while (0)

/* In the child: files may have this many bytes; the write that goes over it is cut short first. */
static inline void limit_files(uint64_t bytes)
{
    struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};

    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* In the child: it cannot be tried here, for this reason, which tools/run-tests shows. */
#define CANNOT_TRY(what)                             \
    do {                                             \
        printf("# %s: %s\n", what, strerror(errno)); \
        fflush(stdout);                              \
        _exit(BAD_DAY_SKIPPED);                      \
    } while (0)

struct place; /* what the test has set up */

/* Runs it in a child, and skips when that says so. */
static inline void in_child(struct place *place, void (*run)(struct place *place))
{
    int status = 0;
    pid_t pid;

    fflush(stdout); /* or the child's words came before what is not written yet */
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        run(place);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == BAD_DAY_SKIPPED)
        skip();
    assert_int_equal(status, 0);
}

#endif
