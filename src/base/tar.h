/*
 * tar.h - tar archives (POSIX pax, which is what Docker reads): heads for a stream, whole archives
 * in memory, and the first file of one that came from outside. Pure.
 *
 * The same member gives the same bytes: no names of users, no time but the member's own. A file's
 * bytes follow its head, filled up with zeros to a whole block; two blocks of zeros are the end.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_TAR_H
#define BAILEY_BASE_TAR_H

#include <stdint.h>

#include "base/buf.h"

#define TAR_BLOCK 512

enum tar_kind {
    TAR_FILE = '0',
    TAR_LINK = '2', /* symbolic */
    TAR_FOLDER = '5',
};

struct tar_member {
    enum tar_kind kind;
    const char *path;   /* relative; of any length */
    const char *target; /* of a link */
    unsigned mode;      /* the permissions alone */
    unsigned owner;     /* user and group */
    uint64_t size;      /* of a file */
    int64_t mtime_s;
};

/* Appends the head, with an extended one before it where names or numbers do not fit. */
int tar_head(const struct tar_member *member, struct buf *to); /* 0, -EFBIG, -ENOMEM */

/* How many zeros follow a file of this size. */
static inline unsigned tar_padding(uint64_t size)
{
    return (unsigned)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

/* Whole members of root's, with the same time in each; 0, -EFBIG, -ENOMEM. */
int tar_folder(struct buf *tar, const char *path);
int tar_link(struct buf *tar, const char *path, const char *target); /* symbolic */
int tar_file(struct buf *tar, const char *path, unsigned mode, const void *data, size_t length);
int tar_end(struct buf *tar);

/* Contents of the first plain file, in an archive of any origin; NULL: there is none. */
const char *tar_first(const struct buf *tar, size_t *ret_length);

#endif
