/*
 * daemon_run.h - a one-shot run by a daemon that is there already, for its warm boxes.
 *
 * For struct oneshot_elsewhere. Nothing is started for it, and whatever the daemon would not do in
 * just the same way is done here: why is told at level debug. Blocks for the run.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_DAEMON_RUN_H
#define BAILEY_CLI_DAEMON_RUN_H

#include "cli/paths.h"
#include "oneshot/oneshot.h"

/* As struct oneshot_elsewhere has it; ctx is the place (struct paths) where it may be. */
int run_in_daemon(void *ctx, const struct oneshot *shot, const struct oneshot_found *found,
                  struct result *result);

/* Why this run is not for a daemon, whatever it is configured like; NULL: it may be. */
const char *daemon_run_unfit(const struct oneshot *shot);

#endif
