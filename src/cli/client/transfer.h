/*
 * transfer.h - uploads or downloads one file, with a progress line on a terminal.
 *
 * Blocks until it is complete or has failed. The caller owns the descriptors.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_TRANSFER_H
#define BAILEY_CLI_CLIENT_TRANSFER_H

#include <stdint.h>

#include "cli/client/client.h"

/*
 * PUTs the bytes of `fd` to `path`. bytes: its size, -1 if unknown. label: the name in the progress
 * line if standard error is a terminal; NULL: none.
 */
int transfer_send(struct client *client, const char *path, int fd, int64_t bytes, const char *label,
                  uint64_t *ret_sent, struct error *err);

/* GETs `path` and passes the bytes on; write() <0 stops. bytes: expected size, for the progress. */
int transfer_receive(struct client *client, const char *path, int64_t bytes, const char *label,
                     int (*write)(void *ctx, const void *data, size_t length), void *ctx,
                     struct error *err);

/* The text of the line without terminal control: "name  45%  12.0 MB  3.1 MB/s". Pure. */
void transfer_line(const char *label, uint64_t done, int64_t total, uint64_t elapsed_ms, char *text,
                   size_t size);

#endif
