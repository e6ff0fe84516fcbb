/*
 * transfer.h - files of the caller into a box before a run, files of /tmp/output back after it.
 *
 * Private to tool/. Host names are opened with the caller's rights, never a name that came out of a
 * box: what comes back is created beneath a folder descriptor, one component at a time, and only
 * with harmless names.
 */
#ifndef BAILEY_TOOL_TRANSFER_H
#define BAILEY_TOOL_TRANSFER_H

#include "tool/drive.h"

/* What has to be copied in: opened and checked before any box is made. */
struct cargo;
int cargo_load(const struct oneshot *shot, struct cargo **ret, struct error *err);
int cargo_send(const struct cargo *cargo, struct drive *drive, struct error *err);
void cargo_free(struct cargo **cargo);

/* Bytes in memory as a file of the box. */
int transfer_put(struct drive *drive, const char *path, uint32_t mode, const void *data,
                 size_t length, struct error *err);

/* Lists /tmp/output and, with shot->out, fetches its regular files; fills the result's files. */
int transfer_collect(struct drive *drive, struct error *err);

#endif
