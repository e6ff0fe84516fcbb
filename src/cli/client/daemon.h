/*
 * daemon.h - reaching this user's daemon, and starting one when nobody is there.
 *
 * Two clients that start one at the same time both end up connected to the one that won its lock.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_DAEMON_H
#define BAILEY_CLI_CLIENT_DAEMON_H

#include <stdbool.h>

#include "base/error.h"
#include "cli/paths.h"

/*
 * 0 once somebody listens on the socket, which is the running daemon's own then. Without `starts`:
 * ERROR_NO_DAEMON when nobody does.
 */
int daemon_reach(struct paths *paths, const char *config_file, bool starts, struct error *err);

#endif
