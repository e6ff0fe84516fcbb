/* manifest.c - a folder's contents, written down; see manifest.h. */
#include "base/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/limits.h"
#include "base/str.h"

#define READ_BYTES (256 * 1024)
#define SEEN_SLOTS 4096 /* doubled when half full */

/* A file with several names is read once: else a few bytes of names are terabytes to read. */
struct seen {
    dev_t device;
    ino_t inode; /* 0: an empty slot */
    uint8_t digest[SHA256_BYTES];
};

struct walk {
    struct manifest manifest;
    manifest_look look;
    void *ctx;
    struct error *err;
    uint8_t *buffer;
    struct seen *seen;
    size_t seen_count, seen_slots;
    char path[PATH_MAX];
};

static void entry_free(struct manifest_entry *entry)
{
    free(entry->path);
    free(entry->target);
}

void manifest_free(struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->count; i++)
        entry_free(&manifest->entries[i]);
    free(manifest->entries);
    memset(manifest, 0, sizeof(*manifest));
}

static void walk_free(struct walk *walk)
{
    manifest_free(&walk->manifest);
    free(walk->buffer);
    free(walk->seen);
}

static int out_of_memory(struct walk *walk)
{
    return error_memory(walk->err);
}

static int add_entry(struct walk *walk, const struct manifest_item *item, const uint8_t *digest)
{
    struct manifest *manifest = &walk->manifest;
    struct manifest_entry entry = {
        .path = strdup(item->path),
        .target = item->target ? strdup(item->target) : NULL,
        .mode = item->status.st_mode,
        .size = S_ISDIR(item->status.st_mode) ? 0 : (uint64_t)item->status.st_size,
    };

    if (digest)
        memcpy(entry.digest, digest, SHA256_BYTES);
    if (entry.path && manifest->count == manifest->capacity) {
        size_t capacity = manifest->capacity ? 2 * manifest->capacity : 1024;
        void *entries = reallocarray(manifest->entries, capacity, sizeof(entry));

        if (entries) {
            manifest->entries = entries;
            manifest->capacity = capacity;
        }
    }
    if (!entry.path || (item->target && !entry.target) || manifest->count == manifest->capacity) {
        entry_free(&entry);
        return out_of_memory(walk);
    }
    manifest->entries[manifest->count++] = entry;
    return 0;
}

/* ---- files ---- */

static struct seen *find_seen(struct seen *seen, size_t slots, dev_t device, ino_t inode)
{
    size_t at = (size_t)((inode ^ device << 7) * UINT64_C(0x9e3779b97f4a7c15) >> 20) % slots;

    while (seen[at].inode && (seen[at].inode != inode || seen[at].device != device))
        at = (at + 1) % slots;
    return &seen[at];
}

static int grow_seen(struct walk *walk)
{
    size_t slots = walk->seen_slots ? 2 * walk->seen_slots : SEEN_SLOTS;
    struct seen *seen = calloc(slots, sizeof(*seen));

    if (!seen)
        return out_of_memory(walk);
    for (size_t i = 0; i < walk->seen_slots; i++) {
        if (walk->seen[i].inode)
            *find_seen(seen, slots, walk->seen[i].device, walk->seen[i].inode) = walk->seen[i];
    }
    free(walk->seen);
    walk->seen = seen;
    walk->seen_slots = slots;
    return 0;
}

static int read_file(struct walk *walk, const struct manifest_item *item, uint8_t *digest)
{
    uint64_t left = (uint64_t)item->status.st_size;
    struct sha256 hash;

    if (left > LIMIT_LAYER_BYTES - walk->manifest.bytes) /* bytes <= the limit */
        return error_set(walk->err, -EFBIG, ERROR_TOO_LARGE, "a layer has at most %llu bytes",
                         LIMIT_LAYER_BYTES);
    walk->manifest.bytes += left;
    sha256_begin(&hash);
    while (left > 0) {
        ssize_t count = read(item->fd, walk->buffer, MIN(left, (uint64_t)READ_BYTES));

        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return error_set(walk->err, count < 0 ? -errno : -EIO, ERROR_ENGINE, "reading '%s'",
                             item->path);
        sha256_add(&hash, walk->buffer, (size_t)count);
        left -= (uint64_t)count;
    }
    sha256_end(&hash, digest);
    return 0;
}

static int add_file(struct walk *walk, const struct manifest_item *item)
{
    uint8_t digest[SHA256_BYTES];
    struct seen *seen = NULL;
    int r = 0;

    walk->manifest.files++;
    if (item->status.st_nlink > 1) {
        if (2 * walk->seen_count >= walk->seen_slots)
            r = grow_seen(walk);
        if (r < 0)
            return r;
        seen = find_seen(walk->seen, walk->seen_slots, item->status.st_dev, item->status.st_ino);
        if (seen->inode)
            return add_entry(walk, item, seen->digest);
    }
    r = read_file(walk, item, digest);
    if (r < 0)
        return r;
    if (seen) {
        *seen = (struct seen){.device = item->status.st_dev, .inode = item->status.st_ino};
        memcpy(seen->digest, digest, SHA256_BYTES);
        walk->seen_count++;
    }
    return add_entry(walk, item, digest);
}

/* ---- the walk ---- */

static int walk_folder(struct walk *walk, int fd, size_t length, unsigned depth);

/* Opened without following, and then asked again what it is. */
static int open_item(struct manifest_item *item)
{
    bool is_folder = S_ISDIR(item->status.st_mode);
    struct stat now;

    if (!is_folder && !S_ISREG(item->status.st_mode))
        return 0;
    item->fd = openat(item->dir_fd, item->name,
                      O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
                          (is_folder ? O_DIRECTORY : 0));
    if (item->fd < 0 || fstat(item->fd, &now) < 0)
        return -errno;
    if ((now.st_mode & S_IFMT) != (item->status.st_mode & S_IFMT))
        return -EAGAIN; /* another process is still writing to it */
    item->status = now;
    return 0;
}

static int walk_item(struct walk *walk, struct manifest_item *item, unsigned depth)
{
    int r = walk->look ? walk->look(walk->ctx, item) : 0;

    if (r != 0)
        return r < 0 ? error_set(walk->err, r, ERROR_ENGINE, "recording '%s': %s", item->path,
                                 strerror(-r))
                     : 0;
    if (walk->manifest.count >= LIMIT_LAYER_FILES)
        return error_set(walk->err, -EFBIG, ERROR_TOO_LARGE, "a layer has at most %d files",
                         LIMIT_LAYER_FILES);
    if (S_ISREG(item->status.st_mode))
        return add_file(walk, item);
    if (!S_ISDIR(item->status.st_mode) && !item->target)
        return error_set(walk->err, -EINVAL, ERROR_BAD_INPUT, "'%s' is not a file, folder or link",
                         item->path);
    r = add_entry(walk, item, NULL);
    if (r < 0 || item->target)
        return r;
    if (depth >= LIMIT_TREE_DEPTH)
        return error_set(walk->err, -ELOOP, ERROR_TOO_LARGE,
                         "a layer has at most %d folders within each other", LIMIT_TREE_DEPTH);
    return walk_folder(walk, item->fd, strlen(walk->path), depth + 1);
}

/* walk->path has `length` bytes: those of the folder. */
static int walk_entry(struct walk *walk, int fd, const char *name, size_t length, unsigned depth)
{
    CLEANUP(fd_closep) int below = -1;
    char target[PATH_MAX];
    struct manifest_item item = {.dir_fd = fd, .name = name, .path = walk->path, .fd = -1};
    ssize_t count;
    int r;

    if (str_format(walk->path + length, sizeof(walk->path) - length, "%s%s", length ? "/" : "",
                   name) < 0)
        return error_set(walk->err, -ENAMETOOLONG, ERROR_TOO_LARGE,
                         "a path of the layer is too "
                         "long");
    if (fstatat(fd, name, &item.status, AT_SYMLINK_NOFOLLOW) < 0)
        return error_errno(walk->err, "looking at '%s'", walk->path);
    if (S_ISLNK(item.status.st_mode)) {
        count = readlinkat(fd, name, target, sizeof(target));
        if (count < 0 || count == (ssize_t)sizeof(target))
            return error_errno(walk->err, "reading the link '%s'", walk->path);
        target[count] = 0;
        item.target = target;
    }
    r = open_item(&item);
    below = item.fd;
    if (r < 0)
        return error_set(walk->err, r, ERROR_ENGINE, "opening '%s': %s", walk->path, strerror(-r));
    return walk_item(walk, &item, depth);
}

static int walk_folder(struct walk *walk, int fd, size_t length, unsigned depth)
{
    DIR *folder = folder_list(fd, ".");
    struct dirent *entry;
    int r = 0;

    if (!folder)
        return error_errno(walk->err, "opening '%s'", walk->path);
    while (r == 0 && (errno = 0, entry = readdir(folder))) {
        if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
            r = walk_entry(walk, fd, entry->d_name, length, depth);
        walk->path[length] = 0;
    }
    if (r == 0 && errno)
        r = error_errno(walk->err, "reading the folder '%s'", walk->path);
    closedir(folder);
    return r;
}

static int by_path(const void *a, const void *b)
{
    const struct manifest_entry *one = a, *other = b;

    return strcmp(one->path, other->path);
}

/* The folder itself: looked at, not written down. */
static int walk_top(struct walk *walk, int folder_fd)
{
    struct manifest_item top = {
        .dir_fd = folder_fd, .name = ".", .path = walk->path, .fd = folder_fd};
    int r = 0;

    if (fstat(folder_fd, &top.status) < 0)
        return error_errno(walk->err, "looking at the folder");
    if (walk->look)
        r = walk->look(walk->ctx, &top);
    if (r < 0)
        return error_set(walk->err, r, ERROR_ENGINE, "recording the folder: %s", strerror(-r));
    return walk_folder(walk, folder_fd, 0, 0);
}

/* Paths come from a guest, and are shown to an operator. */
static void make_printable(struct error *err)
{
    for (char *at = err ? err->text : NULL; at && *at; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
}

int manifest_read(int folder_fd, manifest_look look, void *ctx, struct manifest *ret,
                  struct error *err)
{
    CLEANUP(freep) struct walk *walk = calloc(1, sizeof(*walk));
    int r;

    if (!walk || !(walk->buffer = malloc(READ_BYTES)))
        return error_memory(err);
    walk->look = look;
    walk->ctx = ctx;
    walk->err = err;
    r = walk_top(walk, folder_fd);
    if (r == 0) {
        if (walk->manifest.count > 1)
            qsort(walk->manifest.entries, walk->manifest.count, sizeof(struct manifest_entry),
                  by_path);
        *ret = walk->manifest;
        walk->manifest = (struct manifest){0};
    }
    walk_free(walk);
    if (r < 0)
        make_printable(err);
    return r;
}

/* ---- text ---- */

static int print_name(struct buf *text, const char *name)
{
    int r = 0;

    for (const unsigned char *at = (const unsigned char *)name; *at && r == 0;) {
        size_t plain = 0;

        while (at[plain] > ' ' && at[plain] != 0x7f && at[plain] != '\\')
            plain++;
        r = buf_append(text, at, plain);
        at += plain;
        if (*at && r == 0)
            r = buf_printf(text, "\\%03o", *at++);
    }
    return r;
}

int manifest_print(const struct manifest *manifest, struct buf *text)
{
    int r = 0;

    for (size_t i = 0; i < manifest->count && r == 0; i++) {
        const struct manifest_entry *entry = &manifest->entries[i];
        char hash[SHA256_TEXT] = "-";

        if (S_ISREG(entry->mode))
            sha256_text(entry->digest, hash);
        r = buf_printf(text, "%06o %llu ", (unsigned)entry->mode, (unsigned long long)entry->size);
        if (r == 0)
            r = entry->target ? print_name(text, entry->target) : buf_append_text(text, hash);
        if (r == 0)
            r = buf_append(text, " ", 1);
        if (r == 0)
            r = print_name(text, entry->path);
        if (r == 0)
            r = buf_append(text, "\n", 1);
    }
    return r;
}

void manifest_name(const struct buf *text, char hash[SHA256_TEXT])
{
    uint8_t digest[SHA256_BYTES];

    sha256(text->data, text->length, digest);
    sha256_text(digest, hash);
}

/* ---- is it what it was? ---- */

static const char *line_path(const char *line, size_t length, size_t *ret)
{
    const char *space = memrchr(line, ' ', length);

    *ret = space ? length - (size_t)(space + 1 - line) : 0;
    return space ? space + 1 : line;
}

/* The first line that differs, named by its path. */
static int tell_difference(const struct buf *was, const struct buf *is, struct error *err)
{
    const char *a = buf_text(was), *b = buf_text(is);

    for (;;) {
        size_t a_length = strcspn(a, "\n"), b_length = strcspn(b, "\n"), a_path, b_path;
        const char *a_at = line_path(a, a_length, &a_path), *b_at = line_path(b, b_length, &b_path);
        bool same_path = a_path == b_path && memcmp(a_at, b_at, a_path) == 0;

        if (a_length == 0 && b_length == 0)
            return error_set(err, -EBADMSG, ERROR_ENGINE, "its manifest has changed");
        if (a_length == b_length && memcmp(a, b, a_length) == 0) {
            a += a_length + (a[a_length] != 0);
            b += b_length + (b[b_length] != 0);
            continue;
        }
        if (same_path)
            return error_set(err, -EBADMSG, ERROR_ENGINE, "'%.*s' was changed", (int)a_path, a_at);
        if (b_length == 0 || (a_length > 0 && strncmp(a_at, b_at, MIN(a_path, b_path) + 1) < 0))
            return error_set(err, -EBADMSG, ERROR_ENGINE, "'%.*s' is missing", (int)a_path, a_at);
        return error_set(err, -EBADMSG, ERROR_ENGINE, "'%.*s' was added", (int)b_path, b_at);
    }
}

static int read_manifest(int layers_fd, const char *hash, struct buf *text, struct error *err)
{
    char name[SHA256_TEXT + 16];
    CLEANUP(fd_closep) int fd = -1;
    int r;

    str_format(name, sizeof(name), "%s.manifest", hash);
    fd = openat(layers_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "opening the manifest of layer %s", hash);
    r = buf_read_fd(text, fd);
    return r < 0 ? error_set(err, r, ERROR_ENGINE, "reading the manifest of layer %s", hash) : 0;
}

int manifest_verify(int layers_fd, const char *hash, uint64_t *ret_bytes, uint64_t *ret_files,
                    struct error *err)
{
    CLEANUP(manifest_free) struct manifest manifest = {0};
    CLEANUP(buf_free) struct buf is = BUF_INIT(MANIFEST_TEXT_MAX);
    CLEANUP(buf_free) struct buf was = BUF_INIT(MANIFEST_TEXT_MAX);
    CLEANUP(fd_closep)
    int fd = openat(layers_fd, hash, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char name[SHA256_TEXT];
    int r;

    if (fd < 0)
        return error_errno(err, "opening layer %s", hash);
    r = manifest_read(fd, NULL, NULL, &manifest, err);
    if (r < 0)
        return r;
    r = manifest_print(&manifest, &is);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "writing down layer %s: %s", hash, strerror(-r));
    manifest_name(&is, name);
    if (!str_equal(name, hash)) {
        r = read_manifest(layers_fd, hash, &was, err);
        if (r == 0)
            r = tell_difference(&was, &is, err);
        make_printable(err);
        return r;
    }
    if (ret_bytes)
        *ret_bytes = manifest.bytes;
    if (ret_files)
        *ret_files = manifest.files;
    return 0;
}
