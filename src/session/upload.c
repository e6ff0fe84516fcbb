/*
 * upload.c - files that tenants uploaded; see upload.h.
 *
 * data/.files/<id> has the bytes, the index the rest. Bytes on their way have a hidden name there,
 * which the next broker removes; a file gets its name before its row, so that one without a row is
 * a stray, too.
 */
#include "session/upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/str.h"
#include "session/session_private.h"

#define FOLDER ".files"
#define PART ".part-"

struct upload_writer {
    struct session_manager *manager;
    char tenant[TENANT_MAX];
    char part[40]; /* its hidden name; empty: it has its own name now */
    int fd;
    uint64_t bytes;
};

static int open_folder(const struct session_manager *manager, bool makes_it)
{
    int data_fd = manager->spec.folders.data_fd;
    int fd;

    if (makes_it && mkdirat(data_fd, FOLDER, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(data_fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int disk_error(int r, struct error *err)
{
    return error_set(err, r, r == -ENOSPC || r == -EDQUOT ? ERROR_DISK_FULL : ERROR_ENGINE,
                     "storing the file in the state folder: %s", strerror(-r));
}

/* ---- writing ---- */

int upload_begin(struct session_manager *manager, const char *tenant, struct upload_writer **ret,
                 struct error *err)
{
    CLEANUP(fd_closep) int folder_fd = open_folder(manager, true);
    CLEANUP(freep) struct upload_writer *writer = calloc(1, sizeof(*writer));

    if (!writer)
        return error_memory(err);
    if (manager->is_stopping)
        return error_set(err, -ESHUTDOWN, ERROR_SHUTTING_DOWN, "the daemon is stopping");
    if (folder_fd < 0)
        return disk_error(folder_fd, err);
    writer->manager = manager;
    str_copy(writer->tenant, sizeof(writer->tenant), tenant);
    str_format(writer->part, sizeof(writer->part), PART "%u", manager->next_upload++);
    writer->fd =
        openat(folder_fd, writer->part, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (writer->fd < 0)
        return disk_error(-errno, err);
    *ret = ptr_take(&writer);
    return 0;
}

int upload_write(struct upload_writer *writer, const void *data, size_t length, struct error *err)
{
    struct session_manager *manager = writer->manager;
    int r;

    if (length > LIMIT_UPLOAD_BYTES - writer->bytes)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE, "a file has at most %llu MB",
                         (unsigned long long)(LIMIT_UPLOAD_BYTES / MIB));
    r = usage_take(manager, writer->tenant, QUOTA_DISK, length, err);
    if (r < 0)
        return r;
    writer->bytes += length;
    r = fd_write_all(writer->fd, data, length);
    return r < 0 ? disk_error(r, err) : 0;
}

uint64_t upload_bytes(const struct upload_writer *writer)
{
    return writer->bytes;
}

int upload_fd(const struct upload_writer *writer)
{
    return writer->fd;
}

void upload_cancel(struct upload_writer *writer)
{
    CLEANUP(fd_closep) int folder_fd = -1;

    if (!writer)
        return;
    if (writer->part[0]) {
        folder_fd = open_folder(writer->manager, false);
        if (folder_fd >= 0)
            unlinkat(folder_fd, writer->part, 0);
        tenant_give(writer->manager->tenants, writer->tenant, QUOTA_DISK, writer->bytes);
    }
    fd_closep(&writer->fd);
    free(writer);
}

/* UTF-8 without control characters: it becomes a file name in boxes. */
int upload_check_name(const char *name, char ret[UPLOAD_NAME_MAX], struct error *err)
{
    const char *slash = strrchr(name, '/');
    size_t length;

    name = slash ? slash + 1 : name;
    length = strlen(name);
    if (length == 0 || length >= UPLOAD_NAME_MAX || str_equal(name, ".") || str_equal(name, ".."))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "file: its name has 1 to %d bytes, and is not '.' or '..'",
                         UPLOAD_NAME_MAX - 1);
    for (size_t at = 0; at < length;) {
        int count = utf8_length(name + at, length - at);

        if (count <= 0 || (unsigned char)name[at] < ' ' || name[at] == 0x7f || name[at] == '\\')
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "file: its name is UTF-8 without control characters and backslashes");
        at += (size_t)count;
    }
    str_copy(ret, UPLOAD_NAME_MAX, name);
    return 0;
}

static int make_id(char id[ID_MAX])
{
    int r = id_make(id, "file");

    if (r == 0)
        id[strlen("file")] = '-';
    return r;
}

/* "file-" and hexadecimal digits, because the id becomes a file name. */
static bool is_id(const char *id)
{
    size_t prefix = strlen("file-"), length = strlen(id);

    return length > prefix && length < ID_MAX && str_starts(id, "file-") &&
           strspn(id + prefix, "0123456789abcdef") == length - prefix;
}

static int check_count(const struct upload_writer *writer, struct error *err)
{
    uint64_t count;
    int r = upload_row_count(writer->manager->spec.index, writer->tenant, &count, err);

    if (r == 0 && count >= LIMIT_UPLOADS)
        r = error_set(err, -EDQUOT, ERROR_QUOTA, "a tenant has at most %d files; delete some first",
                      LIMIT_UPLOADS);
    return r;
}

static int name_it(struct upload_writer *writer, const struct upload_row *row, struct error *err)
{
    CLEANUP(fd_closep) int folder_fd = open_folder(writer->manager, false);
    int r;

    if (folder_fd < 0 || renameat(folder_fd, writer->part, folder_fd, row->id) < 0)
        return disk_error(folder_fd < 0 ? folder_fd : -errno, err);
    r = upload_row_put(writer->manager->spec.index, row, err);
    if (r < 0) {
        unlinkat(folder_fd, row->id, 0);
        return r;
    }
    writer->part[0] = '\0';
    return 0;
}

/* `id` NULL: a new one. */
static int end_as(struct upload_writer *writer, const struct upload_spec *spec, const char *id,
                  struct upload_row *ret, struct error *err)
{
    struct upload_row row = {
        .bytes = writer->bytes, .created_ms = clock_wall_ms(), .expires_ms = spec->expires_ms};
    int r = upload_check_name(spec->filename, row.filename, err);

    str_copy(row.tenant, sizeof(row.tenant), spec->tenant);
    str_copy(row.purpose, sizeof(row.purpose), spec->purpose);
    if (r == 0)
        r = check_count(writer, err);
    if (id)
        str_copy(row.id, sizeof(row.id), id);
    else if (r == 0)
        r = make_id(row.id);
    if (r == 0)
        r = name_it(writer, &row, err);
    upload_cancel(writer);
    if (r == 0)
        *ret = row;
    return r;
}

int upload_end(struct upload_writer *writer, const struct upload_spec *spec, struct upload_row *ret,
               struct error *err)
{
    return end_as(writer, spec, NULL, ret, err);
}

/* ---- reading ---- */

static int not_found(const char *id, struct error *err)
{
    return error_set(err, -ENOENT, ERROR_FILE_NOT_FOUND, "there is no file '%.*s'", ID_MAX, id);
}

static bool is_expired(const struct upload_row *row)
{
    return row->expires_ms && row->expires_ms <= clock_wall_ms();
}

int upload_find(struct session_manager *manager, const char *tenant, const char *id,
                struct upload_row *ret, struct error *err)
{
    int r = is_id(id) ? upload_row_get(manager->spec.index, id, ret, err) : 0;

    if (r < 0)
        return r;
    return r > 0 && str_equal(ret->tenant, tenant) && !is_expired(ret) ? 0 : not_found(id, err);
}

int upload_open(struct session_manager *manager, const struct upload_row *row, struct error *err)
{
    CLEANUP(fd_closep) int folder_fd = open_folder(manager, false);
    int fd = folder_fd < 0
                 ? -1
                 : openat(folder_fd, row->id, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    return fd < 0 ? not_found(row->id, err) : fd;
}

int upload_remove(struct session_manager *manager, const struct upload_row *row, struct error *err)
{
    CLEANUP(fd_closep) int folder_fd = open_folder(manager, false);
    int r;

    if (folder_fd >= 0 && unlinkat(folder_fd, row->id, 0) < 0 && errno != ENOENT)
        return error_errno(err, "removing the file '%s'", row->id);
    r = upload_row_drop(manager->spec.index, row->id, err);
    if (r == 0)
        tenant_give(manager->tenants, row->tenant, QUOTA_DISK, row->bytes);
    return r;
}

/* ---- the same bytes again ---- */

static void id_of_bytes(const struct upload_spec *spec, const void *data, size_t length,
                        char id[ID_MAX])
{
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT];

    sha256_begin(&hash);
    sha256_add(&hash, spec->tenant, strlen(spec->tenant) + 1);
    sha256_add(&hash, spec->filename, strlen(spec->filename) + 1);
    sha256_add(&hash, data, length);
    sha256_end(&hash, digest);
    sha256_text(digest, text);
    str_format(id, ID_MAX, "file-%.32s", text);
}

int upload_keep(struct session_manager *manager, const struct upload_spec *spec, const void *data,
                size_t length, struct upload_row *ret, struct error *err)
{
    struct upload_writer *writer = NULL;
    char id[ID_MAX];
    int r;

    id_of_bytes(spec, data, length, id);
    r = upload_row_get(manager->spec.index, id, ret, err);
    if (r > 0 && !is_expired(ret)) {
        ret->expires_ms =
            spec->expires_ms && ret->expires_ms ? MAX(ret->expires_ms, spec->expires_ms) : 0;
        return upload_row_put(manager->spec.index, ret, err);
    }
    if (r > 0)
        r = upload_remove(manager, ret, err);
    if (r == 0)
        r = upload_begin(manager, spec->tenant, &writer, err);
    if (r == 0)
        r = upload_write(writer, data, length, err);
    if (r == 0)
        return end_as(writer, spec, id, ret, err);
    upload_cancel(writer);
    return r;
}

struct call {
    void (*each)(void *ctx, const struct upload_row *row);
    void *ctx;
};

static void on_row(void *ctx, const struct upload_row *row)
{
    struct call *call = ctx;

    if (!is_expired(row))
        call->each(call->ctx, row);
}

int upload_each(struct session_manager *manager, const char *tenant,
                void (*each)(void *ctx, const struct upload_row *row), void *ctx, struct error *err)
{
    struct call call = {.each = each, .ctx = ctx};

    return upload_row_each(manager->spec.index, tenant, on_row, &call, err);
}

/* ---- what ages out, and the start ---- */

static void note_expired(void *ctx, const struct upload_row *row)
{
    if (is_expired(row))
        strv_push(ctx, row->id);
}

void uploads_age(struct session_manager *manager)
{
    CLEANUP(strv_freep) char **ids = strv_new();
    struct error err = {0};

    if (!ids || !manager->spec.index ||
        upload_row_each(manager->spec.index, NULL, note_expired, &ids, &err) < 0)
        return;
    for (size_t i = 0; ids[i]; i++) {
        struct upload_row row;

        if (upload_row_get(manager->spec.index, ids[i], &row, &err) > 0 &&
            upload_remove(manager, &row, &err) < 0)
            log_warning("expired file %s: %s, continuing without removing it", ids[i], err.text);
    }
}

static void count_one(void *ctx, const struct upload_row *row)
{
    struct session_manager *manager = ctx;

    tenant_hold(manager->tenants, row->tenant, QUOTA_DISK, row->bytes);
}

/* Bytes on their way when a broker died, and files whose row was not stored. */
static void remove_strays(struct session_manager *manager)
{
    int folder_fd = open_folder(manager, false);
    DIR *folder = folder_fd < 0 ? NULL : fdopendir(folder_fd);
    struct dirent *entry;
    struct upload_row row;

    if (!folder) {
        fd_closep(&folder_fd);
        return;
    }
    while ((entry = readdir(folder))) {
        if (str_starts(entry->d_name, PART) ||
            (is_id(entry->d_name) &&
             upload_row_get(manager->spec.index, entry->d_name, &row, NULL) == 0))
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
}

void uploads_start(struct session_manager *manager)
{
    if (!manager->spec.index)
        return;
    remove_strays(manager);
    upload_row_each(manager->spec.index, NULL, count_one, manager, NULL);
    uploads_age(manager);
}
