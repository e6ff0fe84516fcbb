/*
 * datasets.h - files that a new session gets as datasets: --data NAME=FILE.
 *
 * Opened with the caller's own rights and streamed; errors in their names or files are found before
 * anything is sent. Blocks.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_DATASETS_H
#define BAILEY_CLI_CLIENT_DATASETS_H

#include <limits.h>
#include <stdint.h>

#include "cli/client/client.h"

struct dataset {
    char *name;              /* as given; owned */
    char file[NAME_MAX + 1]; /* its file name, for comparing */
    const char *path;        /* borrowed from argv */
    int fd;
    int64_t bytes;
};

/* Opens all of them, and checks that no two have the same file name. A list that ends with a name
 * that is NULL; freed by the caller in any case. */
int datasets_open(char *const *words, struct dataset **ret, struct error *err);
void datasets_free(struct dataset **list); /* for CLEANUP() */

/* `shows`: with a progress line where standard error is a terminal. */
int dataset_send(struct client *client, const char *session, const struct dataset *dataset,
                 bool shows, struct error *err);

#endif
