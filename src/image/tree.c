/* tree.c - the things in an image, sorted by path; see tree.h. */
#include "image/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"

static void entry_free(struct image_entry *entry)
{
    free(entry->path);
    free(entry->source);
    free(entry->text);
}

/* Takes over the strings of `entry`, also when it fails. */
static int push(struct image_tree *tree, struct image_entry *entry, struct error *err)
{
    if (!entry->path || (!entry->source && !entry->text && entry->kind != TAR_FOLDER))
        goto no_memory;
    if (tree->count == LIMIT_IMAGE_ENTRIES) {
        entry_free(entry);
        return error_set(err, -E2BIG, ERROR_TOO_LARGE, "an image of more than %d files",
                         LIMIT_IMAGE_ENTRIES);
    }
    if (tree->count == tree->capacity) {
        size_t capacity = tree->capacity ? tree->capacity * 2 : 4096;
        struct image_entry *entries = reallocarray(tree->entries, capacity, sizeof(*entries));

        if (!entries)
            goto no_memory;
        tree->entries = entries;
        tree->capacity = capacity;
    }
    entry->order = tree->count;
    tree->entries[tree->count++] = *entry;
    return 0;

no_memory:
    entry_free(entry);
    return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory gathering the image's files");
}

int image_tree_file(struct image_tree *tree, const char *path, const char *source, unsigned mode,
                    uint64_t size, int64_t mtime_s, struct error *err)
{
    return push(tree,
                &(struct image_entry){.kind = TAR_FILE,
                                      .path = strdup(path),
                                      .source = strdup(source),
                                      .mode = mode,
                                      .size = size,
                                      .mtime_s = mtime_s},
                err);
}

int image_tree_text(struct image_tree *tree, const char *path, const char *text, unsigned mode,
                    struct error *err)
{
    return push(tree,
                &(struct image_entry){.kind = TAR_FILE,
                                      .path = strdup(path),
                                      .text = strdup(text),
                                      .mode = mode,
                                      .size = strlen(text),
                                      .mtime_s = IMAGE_TIME_S},
                err);
}

int image_tree_folder(struct image_tree *tree, const char *path, unsigned mode, unsigned owner,
                      struct error *err)
{
    return push(tree,
                &(struct image_entry){.kind = TAR_FOLDER,
                                      .path = strdup(path),
                                      .mode = mode,
                                      .owner = owner,
                                      .mtime_s = IMAGE_TIME_S},
                err);
}

int image_tree_link(struct image_tree *tree, const char *path, const char *target,
                    struct error *err)
{
    return push(tree,
                &(struct image_entry){.kind = TAR_LINK,
                                      .path = strdup(path),
                                      .text = strdup(target),
                                      .mode = 0777,
                                      .mtime_s = IMAGE_TIME_S},
                err);
}

/* ---- sorted ---- */

/* A folder sorts before its contents: '/' is more than the end of a text. */
static int by_path(const void *a, const void *b)
{
    const struct image_entry *one = a, *other = b;
    int order = strcmp(one->path, other->path);

    return order ? order : (one->order > other->order) - (one->order < other->order);
}

static int only_path(const void *a, const void *b)
{
    return strcmp(((const struct image_entry *)a)->path, ((const struct image_entry *)b)->path);
}

const struct image_entry *image_tree_find(const struct image_tree *tree, const char *path)
{
    struct image_entry wanted = {.path = (char *)path};

    return tree->sorted == 0
               ? NULL
               : bsearch(&wanted, tree->entries, tree->sorted, sizeof(wanted), only_path);
}

static void sort(struct image_tree *tree)
{
    size_t kept = 0;

    if (tree->count > 0)
        qsort(tree->entries, tree->count, sizeof(*tree->entries), by_path);
    for (size_t i = 0; i < tree->count; i++) {
        if (kept > 0 && strcmp(tree->entries[i].path, tree->entries[kept - 1].path) == 0)
            entry_free(&tree->entries[i]);
        else
            tree->entries[kept++] = tree->entries[i];
    }
    tree->count = tree->sorted = kept;
    for (size_t i = 0; i < kept; i++)
        tree->entries[i].order = i;
}

/* The parent folders of a path that no package lists. */
static int add_parents(struct image_tree *tree, const char *path, struct error *err)
{
    char parent[LIMIT_PATH_BYTES + 1];
    size_t length = strlen(path);

    if (length > LIMIT_PATH_BYTES)
        return error_set(err, -ENAMETOOLONG, ERROR_TOO_LARGE, "a path in the image is too long");
    memcpy(parent, path, length + 1);
    for (char *slash = strrchr(parent, '/'); slash; slash = strrchr(parent, '/')) {
        int r;

        *slash = '\0';
        if (image_tree_find(tree, parent))
            return 0;
        r = image_tree_folder(tree, parent, 0755, 0, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int image_tree_finish(struct image_tree *tree, struct error *err)
{
    size_t count;

    sort(tree);
    count = tree->count;
    for (size_t i = 0; i < count; i++) {
        int r = add_parents(tree, tree->entries[i].path, err);

        if (r < 0)
            return r;
    }
    sort(tree);
    tree->files = tree->bytes = 0;
    for (size_t i = 0; i < tree->count; i++) {
        tree->files += tree->entries[i].kind == TAR_FILE;
        tree->bytes += tree->entries[i].size;
    }
    return 0;
}

void image_tree_cut(struct image_tree *tree, size_t count)
{
    while (tree->count > count)
        entry_free(&tree->entries[--tree->count]);
}

void image_tree_free(struct image_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        entry_free(&tree->entries[i]);
    free(tree->entries);
    *tree = (struct image_tree){0};
}
