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
    uint64_t skipped;
    struct transfer_total total; /* .files: those that were copied; .files_total 0: not counted */
};

/* What a transfer shows beside its own file; NULL: it is the only one. */
static inline const struct transfer_total *copy_total(const struct copy *copy)
{
    return copy->total.files_total > 0 ? &copy->total : NULL;
}

static inline void copy_did(struct copy *copy, uint64_t bytes)
{
    copy->total.files++;
    copy->total.bytes += bytes;
}

/* A file or folder of this machine into a session. */
int copy_up(struct copy *copy, const struct path_arg *from, const struct path_arg *to,
            struct error *err);
/* What a folder of the session contains, into the folder `root_fd`. */
int copy_folder(struct copy *copy, const struct path_arg *from, int root_fd, struct error *err);
int copy_down(struct copy *copy, const struct path_arg *from, const struct path_arg *to,
              struct error *err);

#endif
