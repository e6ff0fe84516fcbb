/*
 * layer_commit_folder.c - an installer's folder becomes a layer; see layer_commit_folder() in
 * launcher_private.h.
 *
 * Runs in a child of the launcher (layer_commit.c) when the box has ended, so no other process uses
 * the folder; it is read as if one did. The guest's files become the broker's. Folders stay
 * writable for the broker only (0755): so it can remove a layer without more rights, and in boxes
 * the layer is a read-only mount whatever its modes.
 *
 * Order, so that a crash leaves either the folder as it was or a whole layer: contents, manifest
 * and file system written out, then the rename, then the folder of layers.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/manifest.h"
#include "base/str.h"
#include "launcher/launcher_private.h"

#define XATTRS_MAX 65536 /* the kernel's own limit for a list */

/* Would following the link from its folder stay in the layer? */
static bool is_inside(const char *path, const char *target)
{
    size_t depth = 0;

    if (target[0] == '/')
        return false;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
        depth++;
    /*
     * ".." only at the beginning, where the folders are real: a later component may itself be a
     * link, and ".." from there leads elsewhere than it looks.
     */
    while (str_starts(target, "../") || str_equal(target, "..")) {
        if (depth-- == 0)
            return false;
        target += target[2] ? 3 : 2;
        target += strspn(target, "/");
    }
    return !strstr(target, "/../") && !str_ends(target, "/..");
}

/*
 * bin/python3 of a virtual environment leads to the interpreter, which is not in the layer: to a
 * file python* of a folder bin.
 */
static bool is_interpreter(const char *path, const char *target)
{
    const char *last = strrchr(target, '/');

    return str_starts(path, "bin/python") && !strchr(path + strlen("bin/"), '/') &&
           target[0] == '/' && !strstr(target, "/../") && str_starts(last, "/python") &&
           last - target >= 4 && strncmp(last - 4, "/bin", 4) == 0;
}

/* Access control lists and the like: only owner and mode may decide about access. */
static int drop_attributes(int fd)
{
    char names[XATTRS_MAX];
    ssize_t length = flistxattr(fd, names, sizeof(names));

    if (length < 0)
        return errno == ENOTSUP || errno == ENOSYS ? 0 : -errno;
    for (ssize_t at = 0; at < length; at += (ssize_t)strlen(names + at) + 1) {
        /* A security module's own label is not ours to take. */
        if (fremovexattr(fd, names + at) < 0 && !str_starts(names + at, "security."))
            return -errno;
    }
    return 0;
}

/* Python runs lines of these at every start, if they lie right here. */
static bool is_start_file(const char *path)
{
    const char *name = strrchr(path, '/');
    const char *folder = "/site-packages";
    size_t length = name ? (size_t)(name - path) : 0;

    return (str_starts(path, "lib/python") || str_starts(path, "lib64/python")) &&
           str_ends(path, ".pth") && length > strlen(folder) &&
           strncmp(name - strlen(folder), folder, strlen(folder)) == 0;
}

/* Whether RECORD of a package has the name at the beginning of a line. */
static bool has_record(int dir_fd, const char *package, const char *name)
{
    char path[NAME_MAX + 16], line[NAME_MAX + 8];
    CLEANUP(fd_closep) int fd = -1;
    FILE *file = NULL;
    struct stat status;
    bool is_there = false;
    size_t length = strlen(name);

    if (str_format(path, sizeof(path), "%s/RECORD", package) < 0)
        return false;
    fd = openat(dir_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return false;
    file = fdopen(fd, "r");
    if (!file)
        return false;
    fd = -1;
    /* What is longer than the line comes as lines of its own, none of which can have the name. */
    for (bool is_begun = true; !is_there && fgets(line, sizeof(line), file);) {
        is_there = is_begun && str_starts(line, name) && line[length] == ',';
        is_begun = strchr(line, '\n') != NULL;
    }
    fclose(file);
    return is_there;
}

/* pip records what it unpacks; a file in no RECORD was not made by pip. */
static bool is_recorded(int dir_fd, const char *name)
{
    DIR *folder = folder_list(dir_fd, ".");
    struct dirent *entry;
    bool is_there = false;

    if (!folder)
        return false;
    while (!is_there && (entry = readdir(folder)))
        is_there =
            str_ends(entry->d_name, ".dist-info") && has_record(dirfd(folder), entry->d_name, name);
    closedir(folder);
    return is_there;
}

static bool may_stay(const struct manifest_item *item)
{
    if (is_start_file(item->path) && !S_ISDIR(item->status.st_mode) &&
        (item->target || !is_recorded(item->dir_fd, item->name)))
        return false;
    if (item->target)
        return is_inside(item->path, item->target) || is_interpreter(item->path, item->target);
    return item->fd >= 0;
}

static int look(void *ctx, struct manifest_item *item)
{
    uid_t id = *(const uid_t *)ctx;
    mode_t kind = item->status.st_mode & S_IFMT, mode = 0755;
    int r;

    if (!may_stay(item))
        return unlinkat(item->dir_fd, item->name, 0) < 0 ? -errno : 1;
    if (item->target)
        return fchownat(item->dir_fd, item->name, id, id, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    if (kind == S_IFREG)
        mode = item->status.st_mode & S_IXUSR ? 0555 : 0444;
    r = drop_attributes(item->fd);
    if (r < 0)
        return r;
    if (fchown(item->fd, id, id) < 0 || fchmod(item->fd, mode) < 0)
        return -errno;
    item->status.st_mode = kind | mode;
    return 0;
}

/* Before the layer has its name: so one that is there has a whole manifest. */
static int write_manifest(int layers_fd, const char *hash, const struct buf *text, uid_t id,
                          struct error *err)
{
    char name[SHA256_TEXT + 16];
    CLEANUP(fd_closep) int fd = -1;

    str_format(name, sizeof(name), "%s.manifest", hash);
    fd = openat(layers_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0444);
    if (fd < 0 || fd_write_all(fd, buf_text(text), text->length) < 0 || fchmod(fd, 0444) < 0 ||
        fchown(fd, id, id) < 0)
        return error_errno(err, "writing the manifest");
    return 0;
}

static int publish(int layers_fd, const char *name, uid_t id, const struct buf *text,
                   struct launcher_layer_committed *layer_committed)
{
    struct error *err = &layer_committed->error;
    struct stat status;
    int r;

    if (fstatat(layers_fd, layer_committed->layer, &status, AT_SYMLINK_NOFOLLOW) < 0) {
        r = write_manifest(layers_fd, layer_committed->layer, text, id, err);
        if (r < 0)
            return r;
        if (syncfs(layers_fd) < 0)
            return error_errno(err, "writing out the layer");
        if (renameat(layers_fd, name, layers_fd, layer_committed->layer) == 0)
            return fsync(layers_fd) < 0 ? error_errno(err, "writing out the layer's name") : 0;
        if (errno != ENOTEMPTY && errno != EEXIST)
            return error_errno(err, "giving the layer its name");
    }
    layer_committed->was_there = true;
    r = folder_remove(layers_fd, name);
    return r < 0 ? error_set(err, r, ERROR_ENGINE, "removing what was there already") : 0;
}

int layer_commit_folder(int layers_fd, const char *name, uid_t id,
                        struct launcher_layer_committed *layer_committed)
{
    CLEANUP(manifest_free) struct manifest manifest = {0};
    CLEANUP(buf_free) struct buf text = BUF_INIT(MANIFEST_TEXT_MAX);
    CLEANUP(fd_closep) int fd = -1;
    struct error *err = &layer_committed->error;
    int r;

    fd = openat(layers_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "opening the installer's folder");
    r = manifest_read(fd, look, &id, &manifest, err);
    if (r < 0)
        return r;
    r = manifest_print(&manifest, &text);
    if (r < 0)
        return error_set(err, r, ERROR_TOO_LARGE, "writing down the layer: %s", strerror(-r));
    manifest_name(&text, layer_committed->layer);
    layer_committed->bytes = manifest.bytes;
    layer_committed->files = manifest.files;
    r = publish(layers_fd, name, id, &text, layer_committed);
    if (r < 0)
        layer_committed->layer[0] = 0;
    return r;
}
