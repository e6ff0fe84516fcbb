/*
 * transfer.h - files of the caller into a box before a run, files of /tmp/output back after it.
 *
 * Private to oneshot/. Host names are opened with the caller's rights, never a name that came out
 * of a box: what comes back is created beneath a folder descriptor, one component at a time, and
 * only with harmless names.
 *
 * Runs in: commands
 */
#ifndef BAILEY_ONESHOT_TRANSFER_H
#define BAILEY_ONESHOT_TRANSFER_H

#include "oneshot/drive.h"

/* What has to be copied in: opened and checked before any box is made. */
struct input_files;
int input_files_load(const struct oneshot *shot, struct input_files **ret, struct error *err);
int input_files_send(const struct input_files *input_files, struct drive *drive, struct error *err);
void input_files_free(struct input_files **input_files);

/* Bytes in memory as a file of the box. */
int transfer_put(struct drive *drive, const char *path, uint32_t mode, const void *data,
                 size_t length, struct error *err);

/* Lists /tmp/output and, with shot->out, fetches its regular files; fills the result's files. */
int transfer_collect(struct drive *drive, struct error *err);

#endif
