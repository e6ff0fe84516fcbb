/*
 * transfer.h - bytes of one file up or down, with a progress line on a terminal.
 *
 * Blocks until it is whole or has failed. Descriptors are the caller's.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_TRANSFER_H
#define BAILEY_CLI_CLIENT_TRANSFER_H

#include <stdint.h>

#include "cli/client/client.h"

/*
 * PUTs what `fd` gives to `path`. bytes: its size, -1 when nobody knows. label: the name that the
 * progress line shows when standard error is a terminal; NULL: none.
 */
int transfer_send(struct client *client, const char *path, int fd, int64_t bytes, const char *label,
                  uint64_t *ret_sent, struct error *err);

/* GETs `path` and hands the bytes on; write <0 ends it. bytes: as expected, for the progress. */
int transfer_receive(struct client *client, const char *path, int64_t bytes, const char *label,
                     int (*write)(void *ctx, const void *data, size_t length), void *ctx,
                     struct error *err);

/* The line itself, without what puts it on a terminal: "name  45%  12.0 MB  3.1 MB/s". Pure. */
void transfer_line(const char *label, uint64_t done, int64_t total, uint64_t elapsed_ms, char *text,
                   size_t size);

#endif
