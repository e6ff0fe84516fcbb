/*
 * run.h - `bailey run` and `bailey exec`: from an invocation to an exit status. Blocks for the run.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_RUN_H
#define BAILEY_CLI_RUN_H

#include "cli/options.h"

int run_main(const struct invocation *invocation);
int exec_main(const struct invocation *invocation);

/* Arguments that could not be read, as the one result in JSON. Returns the exit status. */
int run_refuse(const struct error *err);

#endif
