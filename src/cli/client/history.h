/*
 * history.h - lines that were typed at a prompt, in memory and in a file. For cli/client only.
 *
 * The file (mode 0600) has one line for each, the newest last, and is cut to HISTORY_LINES when it
 * is opened. Each line is appended at once, so that two prompts at a time lose none. Owns its
 * memory; blocks for the file system only.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_HISTORY_H
#define BAILEY_CLI_CLIENT_HISTORY_H

#include <stddef.h>

#include "base/error.h"

#define HISTORY_LINES 1000
#define HISTORY_LINE_BYTES 4096 /* a longer line is not kept */

struct history {
    char **lines; /* the oldest first */
    size_t count;
    int fd; /* of the file; -1: none */
};

/* `path` NULL: only in memory. An error leaves a history that works without a file. */
int history_open(struct history *history, const char *path, struct error *err);

/* Blank lines and the same line again are left out. */
int history_add(struct history *history, const char *line, struct error *err);

void history_free(struct history *history); /* for CLEANUP() */

#endif
