/*
 * tree.h - what is in an image: files of this machine, texts of our own, folders and links, by
 * path.
 *
 * Owns its strings; the files themselves are read when the image is sent (stream.h). Paths are
 * without a slash at the beginning. Of two things with one path the first one counts.
 * image_tree_finish() sorts, adds the folders that are missing, and makes it ready to be looked up.
 *
 * Runs in: commands
 */
#ifndef BAILEY_IMAGE_TREE_H
#define BAILEY_IMAGE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/tar.h"

#define IMAGE_TIME_S 946684800 /* of entries without a time: the beginning of 2000 */

struct image_entry {
    enum tar_kind kind;
    char *path;
    char *source; /* of a file: where it is on this machine; NULL: its bytes are in `text` */
    char *text;   /* of a file, or the target of a link */
    unsigned mode, owner;
    uint64_t size;
    int64_t mtime_s;
    size_t order; /* when it was added */
};

struct image_tree {
    struct image_entry *entries;
    size_t count, capacity, sorted; /* the first `sorted` are so */
    uint64_t files, bytes;          /* after image_tree_finish() */
};

/* All of them: 0 or a negative errno with err. Strings are copied. */
int image_tree_file(struct image_tree *tree, const char *path, const char *source, unsigned mode,
                    uint64_t size, int64_t mtime_s, struct error *err);
int image_tree_text(struct image_tree *tree, const char *path, const char *text, unsigned mode,
                    struct error *err);
int image_tree_folder(struct image_tree *tree, const char *path, unsigned mode, unsigned owner,
                      struct error *err);
int image_tree_link(struct image_tree *tree, const char *path, const char *target,
                    struct error *err);

/* Takes back what was added since there were so many. */
void image_tree_cut(struct image_tree *tree, size_t count);
/* May be called again after more was added. */
int image_tree_finish(struct image_tree *tree, struct error *err);
/* Of what was there at the last image_tree_finish(); NULL: nothing. */
const struct image_entry *image_tree_find(const struct image_tree *tree, const char *path);

void image_tree_free(struct image_tree *tree); /* for CLEANUP(); zero-initialised is fine */

/*
 * Where a path of a package is in an image, without a slash at the beginning: /bin, /sbin and /lib*
 * are links into /usr there. NULL: it is left out, because it is not below /usr or no program needs
 * it. Points into `path` or into `text`.
 */
const char *image_place(const char *path, char *text, size_t size);
/* A link of a package to a file that is left out is left out too. `place` as above. */
bool image_link_is_kept(const char *place, const char *target);

#endif
