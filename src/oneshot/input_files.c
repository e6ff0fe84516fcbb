/* input_files.c - the caller's files into the box: --file HOST[:BOX], folders with all below them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "oneshot/transfer.h"
#include "recipe/recipe.h"

#define READ_CHUNK 65536

struct item {
    char *box; /* absolute, in the box */
    int fd;    /* the host's file */
    uint32_t mode;
};

struct input_files {
    struct item *items;
    size_t count;
};

void input_files_free(struct input_files **input_files)
{
    if (!*input_files)
        return;
    for (size_t i = 0; i < (*input_files)->count; i++) {
        free((*input_files)->items[i].box);
        fd_closep(&(*input_files)->items[i].fd);
    }
    free((*input_files)->items);
    free(*input_files);
    *input_files = NULL;
}

static int add_item(struct input_files *input_files, const char *box, int *fd, uint32_t mode,
                    struct error *err)
{
    struct item *items;

    if (input_files->count == LIMIT_COPY_FILES)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE,
                         "more than %d files to copy in; pack them into an archive first",
                         LIMIT_COPY_FILES);
    items = realloc(input_files->items, (input_files->count + 1) * sizeof(*items));
    if (!items)
        return error_memory(err);
    input_files->items = items;
    items[input_files->count] = (struct item){.box = strdup(box), .fd = -1, .mode = mode};
    if (!items[input_files->count].box)
        return error_memory(err);
    items[input_files->count++].fd = fd_take(fd);
    return 0;
}

static int add_host(struct input_files *input_files, int dir_fd, const char *name,
                    const char *shown, const char *box, int depth, struct error *err);

/* Everything below a folder; links and special files are passed over. */
static int add_folder(struct input_files *input_files, int fd, const char *shown, const char *box,
                      int depth, struct error *err)
{
    DIR *folder = depth < LIMIT_TREE_DEPTH ? fdopendir(fd) : NULL;
    struct dirent *entry;
    int r = 0;

    if (!folder) {
        close(fd);
        return error_set(err, -ELOOP, ERROR_BAD_INPUT, "'%s' is too deep a folder", shown);
    }
    while (r == 0 && (entry = readdir(folder))) {
        char path[LIMIT_PATH_BYTES + 1];
        struct stat status;

        if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, ".."))
            continue;
        if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
            (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
            continue;
        if (str_format(path, sizeof(path), "%s/%s", box, entry->d_name) < 0)
            r = error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "a path below '%s' is too long",
                          shown);
        else
            r = add_host(input_files, dirfd(folder), entry->d_name, shown, path, depth + 1, err);
    }
    closedir(folder);
    return r;
}

static int add_host(struct input_files *input_files, int dir_fd, const char *name,
                    const char *shown, const char *box, int depth, struct error *err)
{
    CLEANUP(fd_closep) int fd = -1;
    struct stat status;

    fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &status) < 0) {
        int number = errno;

        return error_set(
            err, -number, number == ENOENT ? ERROR_NOT_FOUND : ERROR_BAD_INPUT,
            "--file %s: %s; it is looked up from the working folder, or give its whole "
            "path",
            shown, strerror(number));
    }
    if (S_ISDIR(status.st_mode))
        return add_folder(input_files, fd_take(&fd), shown, box, depth, err);
    if (!S_ISREG(status.st_mode))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "--file %s: not a regular file or folder",
                         shown);
    return add_item(input_files, box, &fd, status.st_mode & 0777, err);
}

/* Where it goes: the base name in /workspace, or what was asked for, below /workspace when
 * relative. */
static int box_path(const struct oneshot_file *file, char *path, size_t size, struct error *err)
{
    char host[LIMIT_PATH_BYTES + 1];
    const char *name = file->box;
    int r;

    if (!name || !*name) {
        if (!str_copy(host, sizeof(host), file->host))
            return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "--file: the path is too long");
        name = basename(host);
    }
    r = str_format(path, size, "%s%s", *name == '/' ? "" : "/workspace/", name);
    if (r < 0)
        return error_set(err, r, ERROR_BAD_INPUT, "--file: the path is too long");
    if (path[strlen(path) - 1] == '/')
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--file %s: the path in the box ends in '/'", file->host);
    if (strstr(path, "/../") || str_ends(path, "/.."))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--file %s: the path in the box may not contain '..'", file->host);
    if (!str_starts(path, "/workspace/") && !str_starts(path, "/tmp/") &&
        !str_starts(path, "/home/user/"))
        return error_set(err, -EACCES, ERROR_BAD_INPUT,
                         "--file %s: '%s' is not below /workspace, /tmp or /home/user", file->host,
                         path);
    return 0;
}

int input_files_load(const struct oneshot *shot, struct input_files **ret, struct error *err)
{
    CLEANUP(input_files_free) struct input_files *input_files = calloc(1, sizeof(*input_files));

    if (!input_files)
        return error_memory(err);
    for (size_t i = 0; i < shot->file_count; i++) {
        const struct oneshot_file *file = &shot->files[i];
        char path[LIMIT_PATH_BYTES + 1];
        int r = box_path(file, path, sizeof(path), err);

        if (r == 0)
            r = add_host(input_files, AT_FDCWD, file->host, file->host, path, 0, err);
        if (r < 0)
            return r;
    }
    *ret = ptr_take(&input_files);
    return 0;
}

/* One put: where its bytes come from, and how it went. */
struct put {
    struct drive *drive;
    uint32_t id;
    bool is_done;
    struct error error;
};

static void on_done(void *ctx, const struct error *err)
{
    struct put *put = ctx;

    put->error = *err;
    put->is_done = true;
}

static const struct put_events put_events = {.done = on_done};

/* Sends a piece, turning the loop while the window is full. */
static int put_piece(struct put *put, const char *data, size_t length, struct error *err)
{
    while (length > 0 && !put->is_done) {
        long taken = box_put_data(put->drive->box, put->id, data, length);

        if (taken < 0 && !put->is_done)
            return error_set(err, (int)taken, ERROR_BOX_LOST, "the box was lost while copying in");
        if (taken > 0) {
            data += taken;
            length -= (size_t)taken;
        } else if (!put->is_done) {
            int r = drive_turn(put->drive, err);

            if (r < 0)
                return r;
        }
    }
    return 0;
}

static int put_finish(struct put *put, const char *path, struct error *err)
{
    int r;

    if (!put->is_done)
        box_put_end(put->drive->box, put->id);
    r = drive_until(put->drive, &put->is_done, err);
    if (r < 0)
        return r;
    if (put->error.num == 0)
        return 0;
    *err = put->error;
    return recipe_not_put(path, err);
}

int transfer_put(struct drive *drive, const char *path, uint32_t mode, const void *data,
                 size_t length, struct error *err)
{
    struct put put = {.drive = drive};
    struct put_spec spec = {.path = path, .mode = mode};
    int r = box_put(drive->box, &spec, &put_events, &put, &put.id, err);

    if (r == 0)
        r = put_piece(&put, data, length, err);
    return r < 0 ? r : put_finish(&put, path, err);
}

static int send_item(const struct item *item, struct drive *drive, struct error *err)
{
    struct put put = {.drive = drive};
    CLEANUP(freep) char *data = malloc(READ_CHUNK);
    int r;

    if (!data)
        return error_memory(err);
    r = box_put(drive->box, &(struct put_spec){.path = item->box, .mode = item->mode}, &put_events,
                &put, &put.id, err);
    while (r == 0 && !put.is_done) {
        ssize_t length = read(item->fd, data, READ_CHUNK);

        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0)
            return error_errno(err, "reading the file for '%s'", item->box);
        if (length == 0)
            break;
        r = put_piece(&put, data, (size_t)length, err);
    }
    return r < 0 ? r : put_finish(&put, item->box, err);
}

int input_files_send(const struct input_files *input_files, struct drive *drive, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < input_files->count && r == 0; i++)
        r = send_item(&input_files->items[i], drive, err);
    return r;
}
