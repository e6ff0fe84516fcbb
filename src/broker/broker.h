/*
 * broker.h - the broker: the process with the event loop, the sessions and the doors.
 *
 * Started by the launcher (launcher/serve.h has its descriptors), in the engine's namespaces,
 * without a privilege. It confines itself once everything is open, before the first client. May be
 * killed at any moment: the launcher starts another, which takes everything over.
 */
#ifndef BAILEY_BROKER_BROKER_H
#define BAILEY_BROKER_BROKER_H

#include "base/error.h"

/* Returns the exit status. */
int broker_main(void);

/* confine.c: no new privileges, Landlock, seccomp: no way to make processes or reach the network.
 */
struct confine_spec {
    const int *write_fds; /* folders it writes in */
    size_t write_count;
    const int *read_fds; /* folders it reads */
    size_t read_count;
};
int broker_confine(const struct confine_spec *spec, struct error *err);

#endif
