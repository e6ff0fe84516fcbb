/*
 * spool.h - one stream's output on disk, by offset: what was written before a broker died is
 * available to the next.
 *
 * A file whose length is the number of bytes so far. Of them the first `head` and the newest `keep`
 * stay on the disk, and at most a quarter (at least 64 KiB) more: those between are released by
 * punching a hole, so that the size is bounded and offsets never change. Where the file system
 * cannot punch holes (NFS before 4.2, some of FUSE) everything is kept until that size; then
 * appending fails with -EOPNOTSUPP and a message, and what is there stays readable. Blocks for the
 * page cache only; nothing is synced: a kill -9 loses nothing that was appended, a power cut may.
 * An append that was interrupted by a kill may be there in part, as a beginning of its bytes.
 * Opened beneath a folder descriptor, never following links, mode 0600. One process, one thread.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_SPOOL_H
#define BAILEY_STORE_SPOOL_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct spool {
    int fd; /* -1: none */
    uint64_t length;
    uint64_t first; /* from here on everything is still there */
    uint64_t keep;
    uint64_t head; /* so are the bytes before this; rounded up to 64 KiB */
};

/*
 * Creates it, or opens an existing one and continues after its end. `name` is plain, without '/'.
 * `keep` may differ from the last time: a smaller one releases bytes at once, a larger one brings
 * none back.
 */
int spool_open(struct spool *spool, int folder_fd, const char *name, uint64_t keep, uint64_t head,
               struct error *err);
/* All or nothing: on an error (-ENOSPC: ERROR_DISK_FULL) length and first are as before. */
int spool_append(struct spool *spool, const void *data, size_t length, struct error *err);
/* Bytes read (0 at the end); -ERANGE between `head` and `first`. */
ssize_t spool_read(const struct spool *spool, uint64_t offset, void *data, size_t size);
void spool_close(struct spool *spool); /* safe twice; the file stays */
/* 0 also when there was none. */
int spool_remove(int folder_fd, const char *name);

#endif
