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

/* Files that are copied together: what was done before the one that is on its way. */
struct transfer_total {
    uint64_t files, files_total, bytes, bytes_total;
    uint64_t started_ms; /* clock_now_ms() */
};

/*
 * PUTs the bytes of `fd` to `path`. bytes: its size, -1 if unknown. label: the name in the progress
 * line if standard error is a terminal; NULL: none. total: NULL if it is the only file.
 */
int transfer_send(struct client *client, const char *path, int fd, int64_t bytes, const char *label,
                  const struct transfer_total *total, uint64_t *ret_sent, struct error *err);

/* GETs `path` and passes the bytes on; write() <0 stops. bytes: expected size, for the progress. */
int transfer_receive(struct client *client, const char *path, int64_t bytes, const char *label,
                     const struct transfer_total *total,
                     int (*write)(void *ctx, const void *data, size_t length), void *ctx,
                     struct error *err);

/*
 * The text of the line without terminal control, for `done` bytes of `bytes` (-1: unknown) of a
 * file, or of all files of `total`: "[####............]  25%  1.0 of 4.0 MB  3.1 MB/s  name".
 * Pure.
 */
void transfer_line(const char *label, uint64_t done, int64_t bytes,
                   const struct transfer_total *total, uint64_t elapsed_ms, char *text,
                   size_t size);

#endif
