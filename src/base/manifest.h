/*
 * manifest.h - the contents of a folder as text, from which the name of a layer is computed.
 *
 * One line for each entry, sorted by path: mode (octal, with the kind), size, SHA-256 of the bytes
 * (`-` for a folder, the target for a link), path. In targets and paths blanks, control characters
 * and backslashes are written as \ooo. The layer's name is the SHA-256 of that text.
 *
 * The folder's names and bytes come from a guest: files are opened by descriptor, no link is
 * followed, and depth, number and bytes are limited (base/limits.h). Blocks while it reads. Called
 * by the launcher's committing child and by the verification of a layer.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_MANIFEST_H
#define BAILEY_BASE_MANIFEST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/sha256.h"

struct manifest_entry {
    char *path;
    char *target; /* of a link; else NULL */
    mode_t mode;
    uint64_t size;
    uint8_t digest[SHA256_BYTES]; /* of a file */
};

struct manifest {
    struct manifest_entry *entries; /* sorted */
    size_t count, capacity;
    uint64_t bytes, files; /* of files, those with several names once; of names of files */
};

/* One thing in the folder, looked at before it is written down. */
struct manifest_item {
    int dir_fd;
    const char *name;
    const char *path;   /* below the folder; "" for itself */
    int fd;             /* of a file or folder, opened for reading; -1: of others */
    const char *target; /* of a link; else NULL */
    struct stat status; /* may be changed along with the thing itself */
};
/* 0: it is written down, 1: it is gone, or a negative errno that ends everything. */
typedef int (*manifest_look)(void *ctx, struct manifest_item *item);

/* With `look` NULL anything but files, folders and links is -EINVAL. */
int manifest_read(int folder_fd, manifest_look look, void *ctx, struct manifest *ret,
                  struct error *err);
int manifest_print(const struct manifest *manifest, struct buf *text);
void manifest_name(const struct buf *text, char hash[SHA256_TEXT]);
void manifest_free(struct manifest *manifest); /* for CLEANUP(); zero-initialised is fine */

#define MANIFEST_TEXT_MAX (512 * 1024 * 1024) /* of LIMIT_LAYER_FILES lines with their paths */

/*
 * Is <layers>/<hash> still what its name says? 0, or -EBADMSG with the first path that is not, or
 * why it could not be read. `ret_bytes` and `ret_files` may be NULL.
 */
int manifest_verify(int layers_fd, const char *hash, uint64_t *ret_bytes, uint64_t *ret_files,
                    struct error *err);

#endif
