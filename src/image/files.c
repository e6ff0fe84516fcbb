/* files.c - files and folders of this machine, read for an image; see root.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "image/root.h"

int image_read(const char *path, struct buf *text, struct error *err)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int r;

    if (fd < 0)
        return error_errno(err, "opening '%.300s'", path);
    r = buf_read_fd(text, fd);
    return r < 0 ? error_set(err, r, ERROR_ENGINE, "reading '%.300s': %s", path, strerror(-r)) : 0;
}

int image_md5(const char *path, char digits[33])
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    unsigned char digest[16];
    gnutls_hash_hd_t hash;
    char data[64 * KIB];
    ssize_t got = -1;

    if (fd < 0 || gnutls_hash_init(&hash, GNUTLS_DIG_MD5) < 0)
        return -EIO;
    while ((got = fd_read_all(fd, data, sizeof(data))) > 0)
        gnutls_hash(hash, data, (size_t)got);
    gnutls_hash_deinit(hash, digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        str_format(digits + 2 * i, 3, "%02x", digest[i]);
    return got < 0 ? (int)got : 0;
}

struct walk {
    struct image_tree *tree;
    const char *folder;
    image_placer placer;
    void *ctx;
    struct error *err;
};

static int walk_folder(const struct walk *walk, const char *below, unsigned depth);

static int take_entry(const struct walk *walk, const char *path, unsigned depth)
{
    char source[LIMIT_PATH_BYTES + 1], text[LIMIT_PATH_BYTES + 1], target[LIMIT_PATH_BYTES + 1];
    const char *place;
    struct stat status;
    ssize_t length;

    if (str_format(source, sizeof(source), "%s/%s", walk->folder, path) < 0)
        return error_set(walk->err, -ENAMETOOLONG, ERROR_TOO_LARGE, "'%.300s': too long", path);
    if (lstat(source, &status) < 0)
        return error_errno(walk->err, "looking at '%.300s'", source);
    if (S_ISDIR(status.st_mode))
        return walk_folder(walk, path, depth + 1);
    place = walk->placer(walk->ctx, path, text, sizeof(text));
    if (!place)
        return 0;
    if (S_ISREG(status.st_mode))
        return image_tree_file(walk->tree, place, source, status.st_mode & 0755,
                               (uint64_t)status.st_size, status.st_mtim.tv_sec, walk->err);
    if (!S_ISLNK(status.st_mode))
        return 0; /* devices and sockets are nothing for an image */
    length = readlink(source, target, sizeof(target) - 1);
    if (length < 0)
        return error_errno(walk->err, "reading the link '%.300s'", source);
    target[length] = '\0';
    return image_tree_link(walk->tree, place, target, walk->err);
}

/* An empty folder, if the image has it. */
static int take_empty(const struct walk *walk, const char *below)
{
    char path[LIMIT_PATH_BYTES + 1], text[LIMIT_PATH_BYTES + 1];

    if (str_format(path, sizeof(path), "%s/", below) < 0 ||
        !walk->placer(walk->ctx, path, text, sizeof(text)))
        return 0;
    text[strlen(text) - 1] = '\0';
    return image_tree_folder(walk->tree, text, 0755, 0, walk->err);
}

static int walk_folder(const struct walk *walk, const char *below, unsigned depth)
{
    char path[LIMIT_PATH_BYTES + 1];
    struct dirent *entry;
    DIR *folder = NULL;
    bool is_empty = true;
    int r = 0;

    if (depth > LIMIT_TREE_DEPTH)
        return error_set(walk->err, -ELOOP, ERROR_TOO_LARGE, "'%.300s' is too deep", below);
    if (str_format(path, sizeof(path), "%s/%s", walk->folder, below) == 0)
        folder = opendir(path);
    if (!folder)
        return error_errno(walk->err, "opening the folder '%.300s'", path);
    while (r == 0 && (entry = readdir(folder))) {
        if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, ".."))
            continue;
        is_empty = false;
        if (str_format(path, sizeof(path), "%s%s%s", below, below[0] ? "/" : "", entry->d_name) < 0)
            r = error_set(walk->err, -ENAMETOOLONG, ERROR_TOO_LARGE, "'%.300s': too long", below);
        else
            r = take_entry(walk, path, depth);
    }
    closedir(folder);
    return r == 0 && is_empty ? take_empty(walk, below) : r;
}

int image_walk(struct image_tree *tree, const char *folder, image_placer placer, void *ctx,
               struct error *err)
{
    return walk_folder(&(struct walk){tree, folder, placer, ctx, err}, "", 0);
}
