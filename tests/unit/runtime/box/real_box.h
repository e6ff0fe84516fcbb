/*
 * real_box.h - a box behind all its walls for a unit test, made by the launcher's own code.
 *
 * Run by root the tests go through all of it twice: once with an id each for warden and guest, once
 * as somebody who has only one.
 */
#ifndef BAILEY_TESTS_REAL_BOX_H
#define BAILEY_TESTS_REAL_BOX_H

#include "scratch.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/limits.h"
#include "boxes/boxes.h"
#include "namespaces.h"
#include "runtime/box/box.h"

/* `data`: a folder for /tmp/data, or NULL. *ret_box stays NULL where no such box can be made; -1:
 * something else is wrong. */
static inline int real_box_make(const char *data, struct launched *launched, struct box **ret_box)
{
    struct launch_spec spec = {.memory_bytes = 512 * MIB,
                               .disk_bytes = 256 * MIB,
                               .pids = 32,
                               .minimum = ISOLATION_STANDARD,
                               .id_base = 1879048192,
                               .data = data};
    struct error err = {0};

    if (!has_namespaces())
        return 0;
    if (launch_make(&spec, launched, &err) < 0) {
        print_message("no box with namespaces can be made: %s\n", err.text);
        return -1;
    }
    if (box_new(launched->channel_fd, NULL, ret_box, &err) < 0)
        return -1;
    launched->channel_fd = -1;
    return 0;
}

#define NEEDS_A_BOX(room) \
    do {                  \
        if (!(room)->box) \
            skip();       \
    } while (0)

/* The program's exit status. */
static inline int real_box_main(int (*run)(const char *name), const char *name,
                                const char *name_of_one_id)
{
    int failed = run(name), status = 0;
    pid_t pid;

    if (geteuid() != 0)
        return failed;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        if (setgid(4000000) < 0 ||
            setuid(4000000) < 0) /* nobody has this one, nor a range for it */
            _exit(2);
        prctl(PR_SET_DUMPABLE, 1); /* as after an exec: its /proc is its own */
        failed = run(name_of_one_id);
        fflush(NULL);
        _exit(failed != 0);
    }
    return waitpid(pid, &status, 0) != pid || status != 0 || failed;
}

#endif
