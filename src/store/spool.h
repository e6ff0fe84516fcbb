/*
 * spool.h - one stream's output on disk, by offset: what was written before a broker died is there
 * for the next.
 *
 * A file whose length is the number of bytes so far. Only the newest `keep` bytes stay on the disk:
 * older ones are given back (a hole is punched in steps), so that the size is bounded and offsets
 * never change. Blocks for the page cache only; nothing is synced. Opened beneath a folder
 * descriptor, never following links, mode 0600.
 */
#ifndef BAILEY_STORE_SPOOL_H
#define BAILEY_STORE_SPOOL_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct spool {
    int fd; /* -1: none */
    uint64_t length;
    uint64_t first; /* offset of the oldest byte that is still there */
    uint64_t keep;
};

/* Makes it, or opens what is there and goes on behind it. */
int spool_open(struct spool *spool, int folder_fd, const char *name, uint64_t keep,
               struct error *err);
/* All or nothing: on -ENOSPC the length is as before. */
int spool_append(struct spool *spool, const void *data, size_t length, struct error *err);
/* Bytes read (0 at the end); -ERANGE before `first`. */
ssize_t spool_read(const struct spool *spool, uint64_t offset, void *data, size_t size);
void spool_close(struct spool *spool); /* safe twice; the file stays */
int spool_remove(int folder_fd, const char *name);

#endif
