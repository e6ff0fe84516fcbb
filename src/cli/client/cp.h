/*
 * cp.h - shared by both directions of `bailey cp`; cp.c copies to a session, cp_down.c back.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_CP_H
#define BAILEY_CLI_CLIENT_CP_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/client/client.h"
#include "cli/client/path_arg.h"
#include "cli/client/transfer.h"

struct copy {
    struct client *client;
    const char *session; /* borrowed */
    bool is_quiet;
    uint64_t files, skipped;
};

int copy_down(struct copy *copy, const struct path_arg *from, const struct path_arg *to,
              struct error *err);

#endif
