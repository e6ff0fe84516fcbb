/*
 * daemon_run.h - a one-shot run by a daemon that is already running, for its warm boxes.
 *
 * For struct oneshot_elsewhere. No daemon is started for it, and a run that the daemon would not do
 * in exactly the same way is made here: the reason is logged at level debug, and told where only a
 * daemon could do it (SANDBOX_AUTO_INSTALL). Blocks for the run.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_DAEMON_RUN_H
#define BAILEY_CLI_DAEMON_RUN_H

#include "cli/paths.h"
#include "oneshot/oneshot.h"

/* As in struct oneshot_elsewhere; ctx is struct paths, where the daemon may be. */
int run_in_daemon(void *ctx, const struct oneshot *shot, const struct oneshot_found *found,
                  struct result *result, char why[ONESHOT_WHY_MAX]);

/* Why this run is not for a daemon, whatever it is configured like; NULL: it may be. */
const char *daemon_run_unfit(const struct oneshot *shot);

#endif
