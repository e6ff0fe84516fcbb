/*
 * datasets.c - a session's input files: data/<session>/, which is bound read-only at /tmp/data when
 * the box is made, so that a dataset added later appears there at once.
 *
 * An upload is written beside the session's folder and renamed into it when it is complete. The
 * index keeps the names as the user gave them; two names that map to the same file name are an
 * error.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "model/dataset_name.h"
#include "session/session_private.h"
#include "sys/calls.h"

#define COPY_PIECE (8 * MIB) /* bytes copied in one turn of the loop */

struct dataset_upload {
    struct session *session;
    char name[LIMIT_NAME + 1];   /* as the user gave it */
    char file[LIMIT_NAME + 8];   /* file name in the session's folder */
    char temporary[ID_MAX + 16]; /* file name in data/ */
    int fd;
    uint64_t bytes;

    /* a file of a configured folder: copied a piece in each turn */
    int from_fd;   /* -1: the bytes come from an upload */
    bool is_plain; /* copy_file_range() does not work here: read and write */
    struct reactor_timer *timer;
    void (*done)(void *ctx, const struct error *err);
    void *ctx;
};

int dataset_file_name(const char *name, char *ret, size_t size, struct error *err)
{
    size_t length = strlen(name);

    if (length == 0 || length > LIMIT_NAME || name[0] == '.')
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "dataset '%.64s': a name has 1 to %d bytes and does not begin with '.'",
                         name, LIMIT_NAME);
    str_copy(ret, size, name);
    for (char *at = ret; *at; at++) {
        if (*at == '/' || *at == ' ' || *at == '\t')
            *at = '_';
        else if ((unsigned char)*at < ' ' || *at == 0x7f)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "dataset: a name has no control characters");
    }
    for (size_t at = 0, left = length; left > 0;) {
        int count = utf8_length(name + at, left);

        if (count <= 0)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT, "dataset: a name is UTF-8");
        at += (size_t)count;
        left -= (size_t)count;
    }
    if (!dataset_extension(ret))
        str_format(ret + length, size - length, ".csv");
    return 0;
}

static int disk_error(int r, struct error *err)
{
    return error_set(err, r, r == -ENOSPC || r == -EDQUOT ? ERROR_DISK_FULL : ERROR_ENGINE,
                     "storing the dataset in the state folder: %s", strerror(-r));
}

int datasets_prepare(struct session *session, struct error *err)
{
    int data_fd = session->manager->spec.folders.data_fd;

    if (mkdirat(data_fd, session->id, 0755) < 0 && errno != EEXIST)
        return disk_error(-errno, err);
    /* The guest reads it with an id that owns nothing on the host. */
    if (fchmodat(data_fd, session->id, 0755, 0) < 0)
        return disk_error(-errno, err);
    return 0;
}

void datasets_remove(struct session *session)
{
    struct session_manager *manager = session->manager;
    int r = session_manager_discard(manager, manager->spec.folders.data_fd, session->id);

    if (r < 0)
        log_warning("datasets of %s: %s, continuing without removing them", session->id,
                    strerror(-r));
}

struct clash {
    const char *name, *file;
    char other[LIMIT_NAME + 1];
    unsigned count;
    uint64_t replaced; /* bytes of the dataset that has this name now */
};

static void look_for_clash(void *ctx, const struct index_file *row)
{
    struct clash *clash = ctx;
    char file[LIMIT_NAME + 8];

    if (str_equal(row->name, clash->name)) {
        clash->replaced = row->bytes;
        return;
    }
    clash->count++;
    if (dataset_file_name(row->name, file, sizeof(file), NULL) == 0 && str_equal(file, clash->file))
        str_copy(clash->other, sizeof(clash->other), row->name);
}

static int check_clash(struct session *session, const char *name, const char *file,
                       uint64_t *ret_replaced, struct error *err)
{
    struct clash clash = {.name = name, .file = file};
    int r = index_each_file(session->manager->spec.index, session->id, 'd', look_for_clash, &clash,
                            err);

    if (r < 0)
        return r;
    if (clash.other[0])
        return error_set(err, -EEXIST, ERROR_DATASET_TAKEN,
                         "the datasets '%s' and '%s' would both be /tmp/data/%s; rename one",
                         clash.other, name, file);
    if (clash.count >= LIMIT_DATASETS)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE, "a session has at most %d datasets",
                         LIMIT_DATASETS);
    *ret_replaced = clash.replaced;
    return 0;
}

int dataset_begin(struct session *session, const char *name, struct dataset_upload **ret,
                  struct error *err)
{
    CLEANUP(freep) struct dataset_upload *upload = calloc(1, sizeof(*upload));
    int data_fd = session->manager->spec.folders.data_fd;
    uint64_t replaced;
    int r;

    if (!upload)
        return error_memory(err);
    if (session->state >= SESSION_ENDING)
        return session_ended_error(session, err);
    r = dataset_file_name(name, upload->file, sizeof(upload->file), err);
    if (r == 0)
        r = check_clash(session, name, upload->file, &replaced, err);
    if (r == 0)
        r = datasets_prepare(session, err);
    if (r < 0)
        return r;
    str_copy(upload->name, sizeof(upload->name), name);
    str_format(upload->temporary, sizeof(upload->temporary), ".%s-%u", session->id,
               session->manager->next_upload++);
    upload->fd = openat(data_fd, upload->temporary,
                        O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (upload->fd < 0)
        return disk_error(-errno, err);
    fchmod(upload->fd, 0644);
    upload->session = session;
    upload->from_fd = -1;
    session->uploads++;
    session_touch(session);
    *ret = ptr_take(&upload);
    return 0;
}

/* In a container a dataset takes room on the box's disk, so the size is checked before the copy. */
static int check_room(const struct dataset_upload *upload, uint64_t length, struct error *err)
{
    const struct config *config = session_config(upload->session);
    const struct provider_row *row = config_provider(config);
    uint64_t disk = config->limits.disk_bytes;
    char text[32];

    if (!provider_can(row, PROVIDER_DISK_IS_MEMORY) ||
        (length <= disk && upload->bytes <= disk - length))
        return 0;
    str_from_bytes(disk, text, sizeof(text));
    return error_set(err, -ENOSPC, ERROR_DISK_FULL,
                     "the dataset '%.64s' does not fit into a container, whose disk of %s is part "
                     "of its memory: %s",
                     upload->name, text, row->more_disk);
}

int dataset_write(struct dataset_upload *upload, const void *data, size_t length, struct error *err)
{
    int r;

    if (upload->session->state >= SESSION_ENDING)
        return session_ended_error(upload->session, err);
    r = check_room(upload, length, err);
    if (r == 0)
        r = usage_data(upload->session, length, err);
    if (r < 0)
        return r;
    upload->bytes += length;
    r = fd_write_all(upload->fd, data, length);
    return r < 0 ? disk_error(r, err) : 0;
}

void dataset_cancel(struct dataset_upload *upload)
{
    struct session *session;

    if (!upload)
        return;
    session = upload->session;
    if (upload->temporary[0]) {
        usage_data_over(session, upload->bytes);
        unlinkat(session->manager->spec.folders.data_fd, upload->temporary, 0);
    }
    fd_closep(&upload->fd);
    fd_closep(&upload->from_fd);
    if (upload->timer)
        session->manager->spec.reactor->ops->timer_remove(upload->timer);
    session->uploads--;
    if (session->state < SESSION_ENDING) {
        session_touch(session);
        session_manager_expect(session->manager); /* the session's idle time counts again */
    }
    free(upload);
}

int dataset_end(struct dataset_upload *upload, struct error *err)
{
    struct session *session = upload->session;
    int data_fd = session->manager->spec.folders.data_fd;
    char path[ID_MAX + LIMIT_NAME + 16];
    struct index_file row = {.kind = 'd', .name = upload->name, .bytes = upload->bytes};
    uint64_t replaced = 0;
    int r = session->state >= SESSION_ENDING ? session_ended_error(session, err) : 0;

    if (r == 0)
        r = check_clash(session, upload->name, upload->file, &replaced,
                        err); /* a faster upload of the same name */
    str_copy(row.session, sizeof(row.session), session->id);
    str_format(path, sizeof(path), "%s/%s", session->id, upload->file);
    if (r == 0)
        r = index_put_file(session->manager->spec.index, &row, err);
    if (r == 0 && renameat(data_fd, upload->temporary, data_fd, path) < 0)
        r = disk_error(-errno, err);
    else if (r == 0)
        upload->temporary[0] = 0;
    if (r == 0) {
        usage_data_over(session, replaced);
        dataset_push(session, upload->file);
    }
    if (r == 0)
        bus_publish(
            session->manager->spec.bus, EVENT_FILE_CHANGED, session->tenant, session->id,
            json_pack("{s:s, s:s+}", "kind", "dataset", "path", "/tmp/data/", upload->file));
    dataset_cancel(upload);
    return r;
}

/* Opens a path below one of the configured folders; the kernel (openat2) keeps it beneath. */
static int open_in_folders(struct session *session, const char *path, struct error *err)
{
    const struct session_folders *folders = &session->manager->spec.folders;
    struct open_how how = {
        .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };

    for (size_t i = 0; folders->dataset_folders && folders->dataset_folders[i]; i++) {
        const char *folder = folders->dataset_folders[i];
        size_t length = strlen(folder);
        struct stat status;
        int fd;

        if (!str_starts(path, folder) || path[length] != '/' || !path[length + 1])
            continue;
        fd = sys_openat2(folders->dataset_fds[i], path + length + 1, &how);
        if (fd < 0)
            return error_set(err, -errno, ERROR_PATH_NOT_FOUND, "dataset %s: %s", path,
                             strerror(errno));
        if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
            return fd;
        close(fd);
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "dataset %s: not a regular file", path);
    }
    return error_set(err, -EACCES, ERROR_BAD_INPUT,
                     "dataset %.200s: not below a folder of SANDBOX_DATASET_FOLDERS; send its "
                     "bytes instead",
                     path);
}

/* Copies one piece. Returns 1: more to copy, 0: done, or a negative errno. */
static int copy_piece(struct dataset_upload *upload, struct error *err)
{
    CLEANUP(freep) char *data = NULL;
    ssize_t length = -1;

    /* The kernel copies, or shares the blocks if the file system can. */
    if (!upload->is_plain)
        length = copy_file_range(upload->from_fd, NULL, upload->fd, NULL, COPY_PIECE, 0);
    if (length < 0 && !upload->is_plain) {
        if (errno == ENOSPC || errno == EDQUOT || errno == EIO)
            return disk_error(-errno, err);
        upload->is_plain = true; /* continues at the same offset */
    }
    if (length < 0) {
        int r;

        data = malloc(COPY_PIECE);
        length = data ? read(upload->from_fd, data, COPY_PIECE) : -1;
        if (length < 0)
            return disk_error(data ? -errno : -ENOMEM, err);
        r = fd_write_all(upload->fd, data, (size_t)length);
        if (r < 0)
            return disk_error(r, err);
    }
    if (check_room(upload, (uint64_t)length, err) < 0 ||
        usage_data(upload->session, (uint64_t)length, err) < 0)
        return -EDQUOT;
    upload->bytes += (uint64_t)length;
    return length > 0;
}

static void on_copy(void *ctx)
{
    struct dataset_upload *upload = ctx;
    void (*done)(void *, const struct error *) = upload->done;
    void *done_ctx = upload->ctx;
    struct error err = {0};
    int r = 0;

    if (upload->session->state >= SESSION_ENDING)
        session_ended_error(upload->session, &err);
    else
        r = copy_piece(upload, &err);
    if (r > 0) {
        upload->session->manager->spec.reactor->ops->timer_set(upload->timer, 0);
        return;
    }
    if (err.num < 0)
        dataset_cancel(upload);
    else
        dataset_end(upload, &err);
    done(done_ctx, &err);
}

int dataset_from_folder(struct session *session, const char *name, const char *path,
                        void (*done)(void *ctx, const struct error *err), void *ctx,
                        struct dataset_upload **ret, struct error *err)
{
    CLEANUP(fd_closep) int fd = open_in_folders(session, path, err);
    struct dataset_upload *upload = NULL;
    int r = fd < 0 ? fd : dataset_begin(session, name, &upload, err);

    if (r < 0)
        return r;
    upload->timer = reactor_timer(session->manager->spec.reactor, on_copy, upload);
    if (!upload->timer) {
        dataset_cancel(upload);
        return error_memory(err);
    }
    upload->from_fd = fd_take(&fd);
    upload->done = done;
    upload->ctx = ctx;
    session->manager->spec.reactor->ops->timer_set(upload->timer, 0);
    *ret = upload;
    return 0;
}

static void add_json(void *ctx, const struct index_file *row)
{
    char file[LIMIT_NAME + 8];

    if (dataset_file_name(row->name, file, sizeof(file), NULL) == 0)
        json_array_append_new(ctx, json_pack("{s:s, s:s+, s:I}", "name", row->name, "path",
                                             "/tmp/data/", file, "bytes", (json_int_t)row->bytes));
}

json_t *session_datasets_json(struct session *session)
{
    json_t *list = json_array();

    if (list && session->state < SESSION_ENDING)
        index_each_file(session->manager->spec.index, session->id, 'd', add_json, list, NULL);
    return list;
}
