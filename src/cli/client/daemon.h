/*
 * daemon.h - connects to this user's daemon, and starts one if none is running.
 *
 * Two clients that start one at the same time both end up connected to the one that got the lock.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_DAEMON_H
#define BAILEY_CLI_CLIENT_DAEMON_H

#include <stdbool.h>

#include "base/error.h"
#include "cli/paths.h"

/*
 * 0 once a process listens on the socket; `paths` then has the running daemon's own socket. Without
 * `starts`: ERROR_NO_DAEMON if none does.
 */
int daemon_reach(struct paths *paths, const char *config_file, bool starts, struct error *err);

#endif
