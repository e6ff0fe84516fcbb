/*
 * process.h - the rows that every Prometheus client library has about its own process, and the
 * version of this program. The process is the broker; boxes and the launcher are not in it.
 *
 * Runs in: broker
 */
#ifndef BAILEY_OBSERVE_PROCESS_H
#define BAILEY_OBSERVE_PROCESS_H

#include "observe/metrics.h"

/* Reads /proc/self; a number that cannot be read there is left out, never printed as 0. */
void process_measure(struct metrics *metrics);

#endif
