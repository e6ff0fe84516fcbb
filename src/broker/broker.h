/*
 * broker.h - the broker: the process with the event loop, the sessions and the doors.
 *
 * Started by the launcher (supervisor/supervisor.h has its descriptors), in the engine's
 * namespaces, without a privilege. It confines its system calls at once and its files when they are
 * open, before the first client. May be killed at any moment: the launcher starts another, which
 * takes everything over.
 *
 * Runs in: broker
 */
#ifndef BAILEY_BROKER_BROKER_H
#define BAILEY_BROKER_BROKER_H

#include "base/error.h"

/* Returns the exit status. */
int broker_main(void);

/*
 * confine.c. The first before any library is used: no new privileges, and seccomp filters that
 * leave no way to make a process or a socket. The second when all folders are open: Landlock.
 */
int broker_confine_calls(struct error *err);
struct confine_spec {
    const int *write_fds; /* folders it writes in */
    size_t write_count;
    const int *read_fds; /* folders it reads */
    size_t read_count;
};
int broker_confine_files(const struct confine_spec *spec, struct error *err);

#endif
