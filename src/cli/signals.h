/*
 * signals.h - SIGINT, SIGTERM and SIGHUP as a descriptor, while a run is under way.
 *
 * Before signals_open() they end bailey by themselves, which is right as long as there is nothing
 * to clean up.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_SIGNALS_H
#define BAILEY_CLI_SIGNALS_H

#include "base/error.h"

/* Blocks the three and returns a signalfd for them in *ret_fd, owned by the caller. */
int signals_open(int *ret_fd, struct error *err);

/* The signal that was received, or 0. Never blocks. */
int signals_taken(int fd);

#endif
