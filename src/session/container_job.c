/*
 * container_job.c - files into and out of a container's box: see container.h.
 *
 * Theory of operation. A job has its session's box made, then does one operation of the box after
 * the other. A file that is put is looked at afterwards: its ctime in the box is what later looks
 * compare. Rows are read and written in one go at the end of a look, so that two looks at a time
 * agree. Names and sizes come out of a box and are hostile.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "session/container.h"
#include "session/session_private.h"

#define PIECE (64 * KIB)

static const char *const folders[] = {"/workspace", "/tmp/output"};

/* One file to be put. */
struct source {
    char name[UPLOAD_NAME_MAX + 16];
    char id[ID_MAX]; /* of an uploaded file; empty: fd */
    int fd;          /* -1: not opened yet */
};

struct list {
    struct container_file *files; /* each path is its own memory */
    size_t count, room;
};

struct container_job {
    struct session_manager *manager;
    struct container_row row;
    struct session *session;
    struct box *box;
    uint32_t op; /* 0: none */
    bool waits_for_box;
    void (*begin)(struct container_job *job);
    container_done *done;
    void *ctx;
    struct reactor_timer *timer; /* done() is called from the loop */
    struct error failure;
    struct list result;
    char path[CONTAINER_PATH_MAX]; /* of the file being put or removed, in /mnt/data */

    struct source *sources;
    size_t source_count, source_at;
    bool is_users;
    json_t *taken; /* names of a fill so far; NULL: it is no fill */
    char *piece;   /* bytes that were read and not taken yet */
    size_t piece_at, piece_length;
    bool has_ended; /* all bytes were sent */

    size_t folder_at;
    uint64_t since_ms;
    bool is_overfull;
    struct list seen;
    char file[ID_MAX]; /* to be removed */
};

/* ---- lists of files ---- */

static int list_add(struct list *list, const struct container_file *file)
{
    char *path = strdup(file->path);

    if (path && list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 32;
        struct container_file *files = realloc(list->files, room * sizeof(*files));

        if (files) {
            list->files = files;
            list->room = room;
        }
    }
    if (!path || list->count == list->room) {
        free(path);
        return -ENOMEM;
    }
    list->files[list->count] = *file;
    list->files[list->count++].path = path;
    return 0;
}

static void list_free(struct list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free((char *)list->files[i].path);
    free(list->files);
    *list = (struct list){0};
}

static void list_row(void *ctx, const struct container_file *file)
{
    list_add(ctx, file);
}

static int compare_paths(const void *a, const void *b)
{
    const struct container_file *first = a, *second = b;

    return strcmp(first->path, second->path);
}

static struct container_file *list_find(const struct list *sorted, const char *path)
{
    struct container_file key = {.path = path};

    return sorted->count ? bsearch(&key, sorted->files, sorted->count, sizeof(key), compare_paths)
                         : NULL;
}

/* The rows of the container, sorted by path. */
static int read_rows(struct container_job *job, struct list *rows, struct error *err)
{
    int r = container_file_rows(job->manager->spec.index, job->row.id, list_row, rows, err);

    if (r == 0 && rows->count > 1)
        qsort(rows->files, rows->count, sizeof(*rows->files), compare_paths);
    return r;
}

/* ---- the life of a job ---- */

static void job_free(struct container_job *job)
{
    if (job->waits_for_box)
        session_box_cancel(job->session, job);
    if (job->op)
        box_cancel(job->box, job->op);
    job->manager->spec.reactor->ops->timer_remove(job->timer);
    for (size_t i = 0; i < job->source_count; i++)
        fd_closep(&job->sources[i].fd);
    free(job->sources);
    json_decref(job->taken);
    free(job->piece);
    list_free(&job->result);
    list_free(&job->seen);
    free(job);
}

void container_job_cancel(struct container_job *job)
{
    if (job)
        job_free(job);
}

static void on_over(void *ctx)
{
    struct container_job *job = ctx;
    container_done *done = job->done;
    void *done_ctx = job->ctx;
    struct error failure = job->failure;
    struct list result = job->result;

    job->result = (struct list){0};
    job_free(job);
    done(done_ctx, result.files, failure.num < 0 ? 0 : result.count, &failure);
    list_free(&result);
}

/* The end, in a turn of its own: never inside the caller that started the job. */
static void over(struct container_job *job, const struct error *err)
{
    job->op = 0;
    if (err && err->num < 0)
        job->failure = *err;
    job->manager->spec.reactor->ops->timer_set(job->timer, 0);
}

static void fail(struct container_job *job, int num, const char *code, const char *text)
{
    struct error err = {0};

    error_set(&err, num, code, "%s", text);
    over(job, &err);
}

/* A negative errno of the box as an error of the API. */
static void fail_box(struct container_job *job, const struct error *failed)
{
    struct error err = *failed;

    if (!err.code || err.code == ERROR_ENGINE) {
        if (err.num == -ENOSPC || err.num == -EDQUOT)
            error_set(&err, -ENOSPC, ERROR_DISK_FULL,
                      "the disk of the container is full; delete files in it");
        else if (err.num == -ENOENT || err.num == -ENOTDIR)
            error_set(&err, -ENOENT, ERROR_FILE_NOT_FOUND, "the file is not there any more");
        else if (err.num == -EISDIR || err.num == -EEXIST)
            error_set(&err, -EISDIR, ERROR_PATH_IS_FOLDER,
                      "a folder of the container has this name");
        else
            error_prefix(&err, "a file of the container");
    }
    over(job, &err);
}

static void on_box(void *ctx, struct box *box, const struct error *err)
{
    struct container_job *job = ctx;

    job->waits_for_box = false;
    job->box = box;
    if (box)
        job->begin(job);
    else
        over(job, err);
}

static int job_new(struct session_manager *manager, const struct container_row *row,
                   container_done *done, void *ctx, struct container_job **ret, struct error *err)
{
    struct container_row copy = *row;
    struct session *session;
    struct container_job *job;
    int r = container_session(manager, &copy, &session, err);

    if (r < 0)
        return r;
    job = calloc(1, sizeof(*job));
    if (!job)
        return error_memory(err);
    *job = (struct container_job){
        .manager = manager, .row = copy, .session = session, .done = done, .ctx = ctx};
    job->timer = reactor_timer(manager->spec.reactor, on_over, job);
    if (!job->timer) {
        free(job);
        return error_memory(err);
    }
    *ret = job;
    return 0;
}

static void job_start(struct container_job *job, void (*begin)(struct container_job *job))
{
    job->begin = begin;
    job->waits_for_box = true;
    session_box(job->session, on_box, job);
}

/* ---- putting ---- */

static void put_next(struct container_job *job);

/* The file is there: gives it a row, or changes the row that it has. */
static void put_row(struct container_job *job, const struct container_file *found)
{
    struct list rows = {0};
    struct container_file file = *found, *known;
    struct error err = {0};
    int r = read_rows(job, &rows, &err);

    known = r == 0 ? list_find(&rows, job->path) : NULL;
    str_copy(file.container, sizeof(file.container), job->row.id);
    file.path = job->path;
    file.is_users = job->is_users;
    str_copy(file.upload, sizeof(file.upload), job->sources[job->source_at].id);
    file.created_ms = file.seen_ms = clock_wall_ms();
    if (known) {
        str_copy(file.id, sizeof(file.id), known->id);
        file.created_ms = known->created_ms;
    } else if (r == 0 && rows.count >= LIMIT_CONTAINER_FILES) {
        r = error_set(&err, -E2BIG, ERROR_TOO_LARGE, "a container lists at most %d files",
                      LIMIT_CONTAINER_FILES);
    } else if (r == 0 && id_make(file.id, "cfile") < 0) {
        r = error_memory(&err);
    }
    if (r == 0)
        r = container_file_put(job->manager->spec.index, &file, &err);
    if (r == 0 && list_add(&job->result, &file) < 0)
        r = error_memory(&err);
    list_free(&rows);
    if (r < 0) {
        over(job, &err);
        return;
    }
    fd_closep(&job->sources[job->source_at].fd);
    job->source_at++;
    put_next(job);
}

static void on_stat_entry(void *ctx, const struct box_entry *entry)
{
    struct container_job *job = ctx;
    struct container_file file = {.path = "", .bytes = entry->bytes, .change_ns = entry->change_ns};

    list_free(&job->seen);
    list_add(&job->seen, &file);
}

static void on_stat_done(void *ctx, const struct error *err)
{
    struct container_job *job = ctx;
    struct container_file file;

    job->op = 0;
    if (err->num < 0) {
        fail_box(job, err);
        return;
    }
    if (job->seen.count == 0) {
        fail(job, -ENOMEM, ERROR_ENGINE, "out of memory");
        return;
    }
    file = job->seen.files[0];
    put_row(job, &file);
}

static void on_put_done(void *ctx, const struct error *err)
{
    static const struct list_events events = {.entry = on_stat_entry, .done = on_stat_done};
    struct container_job *job = ctx;
    char path[CONTAINER_PATH_MAX];
    struct error failed = {0};

    job->op = 0;
    if (err->num < 0) {
        fail_box(job, err);
        return;
    }
    container_box_path(job->path, path, sizeof(path));
    if (box_stat(job->box, path, &events, job, &job->op, &failed) < 0)
        fail_box(job, &failed);
}

/* Bytes of the source as far as the box takes them; done() reports failures of the box. */
static void on_room(void *ctx)
{
    struct container_job *job = ctx;
    int fd = job->sources[job->source_at].fd;

    while (!job->has_ended && job->op) {
        long taken;

        if (job->piece_at == job->piece_length) {
            ssize_t count = fd_read_all(fd, job->piece, PIECE);

            if (count < 0) {
                box_cancel(job->box, job->op);
                job->op = 0;
                fail(job, (int)count, ERROR_ENGINE, "reading the file from the state folder");
                return;
            }
            if (count == 0) {
                job->has_ended = true;
                box_put_end(job->box, job->op);
                return;
            }
            job->piece_at = 0;
            job->piece_length = (size_t)count;
        }
        taken = box_put_data(job->box, job->op, job->piece + job->piece_at,
                             job->piece_length - job->piece_at);
        if (taken <= 0)
            return;
        job->piece_at += (size_t)taken;
    }
}

void container_fill_name(json_t *taken, const char *filename, char *ret, size_t size)
{
    str_format(ret, size, "%s", filename);
    for (unsigned number = 2; json_object_get(taken, ret) && number < 1000; number++)
        str_format(ret, size, "%u_%s", number, filename);
    json_object_set_new(taken, ret, json_true());
}

/* /mnt/data/NAME. 1: the file is there already, from the same upload. */
static int choose_path(struct container_job *job, struct source *source, struct error *err)
{
    char name[sizeof(source->name)];
    const struct container_file *known;
    struct list rows = {0};
    int r;

    if (!job->taken) {
        str_format(job->path, sizeof(job->path), CONTAINER_FOLDER "/%s", source->name);
        return 0;
    }
    container_fill_name(job->taken, source->name, name, sizeof(name));
    str_format(job->path, sizeof(job->path), CONTAINER_FOLDER "/%s", name);
    r = read_rows(job, &rows, err);
    known = r == 0 ? list_find(&rows, job->path) : NULL;
    if (known && str_equal(known->upload, source->id))
        r = 1;
    list_free(&rows);
    return r;
}

static int open_source(struct container_job *job, struct source *source, struct error *err)
{
    struct upload_row row;
    int r;

    if (source->fd >= 0)
        return lseek(source->fd, 0, SEEK_SET) < 0 ? error_errno(err, "reading the file") : 0;
    r = upload_find(job->manager, job->row.tenant, source->id, &row, err);
    if (r == 0)
        r = upload_open(job->manager, &row, err);
    if (r < 0)
        return r;
    source->fd = r;
    return str_format(source->name, sizeof(source->name), "%s", row.filename);
}

/* Opens the next source that is not there yet. 1: there is one; 0: there is none. */
static int open_next(struct container_job *job, struct error *err)
{
    for (; job->source_at < job->source_count; job->source_at++) {
        struct source *source = &job->sources[job->source_at];
        int r = open_source(job, source, err);

        if (r == 0)
            r = choose_path(job, source, err);
        if (r <= 0)
            return r < 0 ? r : 1;
        fd_closep(&source->fd);
    }
    return 0;
}

static void all_put(struct container_job *job)
{
    struct error err = {0};

    if (job->taken && job->row.is_provisional) {
        job->row.is_provisional = false;
        if (session_complete(job->session, &err) == 0)
            container_row_put(job->manager->spec.index, &job->row, &err);
    }
    over(job, &err);
}

static void put_next(struct container_job *job)
{
    static const struct put_events events = {.done = on_put_done, .more = on_room};
    struct put_spec spec = {0};
    char path[CONTAINER_PATH_MAX];
    struct error err = {0};
    int r = open_next(job, &err);

    if (r < 0) {
        over(job, &err);
        return;
    }
    if (r == 0) {
        all_put(job);
        return;
    }
    container_box_path(job->path, path, sizeof(path));
    spec.path = path;
    job->piece_at = job->piece_length = 0;
    job->has_ended = false;
    if (box_put(job->box, &spec, &events, job, &job->op, &err) < 0)
        fail_box(job, &err);
    else
        on_room(job);
}

static int put_job(struct session_manager *manager, const struct container_row *row, size_t count,
                   container_done *done, void *ctx, struct container_job **ret, struct error *err)
{
    struct container_job *job;
    int r = job_new(manager, row, done, ctx, &job, err);

    if (r < 0)
        return r;
    job->sources = calloc(count + 1, sizeof(*job->sources));
    job->piece = malloc(PIECE);
    if (!job->sources || !job->piece) {
        job_free(job);
        return error_memory(err);
    }
    job->source_count = count;
    for (size_t i = 0; i < count; i++)
        job->sources[i].fd = -1;
    *ret = job;
    return 0;
}

int container_fill(struct session_manager *manager, const struct container_row *row,
                   json_t *file_ids, container_done *done, void *ctx, struct container_job **ret,
                   struct error *err)
{
    struct container_job *job = NULL;
    json_t *id;
    size_t at;
    int r = put_job(manager, row, json_array_size(file_ids), done, ctx, &job, err);

    if (r < 0)
        return r;
    job->is_users = true;
    job->taken = json_object();
    if (!job->taken) {
        job_free(job);
        return error_memory(err);
    }
    json_array_foreach(file_ids, at, id)
    {
        const char *text = json_string_value(id);

        str_copy(job->sources[at].id, sizeof(job->sources[at].id), text ? text : "");
    }
    *ret = job;
    job_start(job, put_next);
    return 0;
}

int container_put(struct session_manager *manager, const struct container_row *row,
                  const char *name, int fd, bool is_users, container_done *done, void *ctx,
                  struct container_job **ret, struct error *err)
{
    struct container_job *job = NULL;
    int r = put_job(manager, row, 1, done, ctx, &job, err);

    if (r < 0)
        return r;
    job->is_users = is_users;
    r = upload_check_name(name, job->sources[0].name, err);
    if (r == 0)
        job->sources[0].fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (r == 0 && job->sources[0].fd < 0)
        r = error_errno(err, "reading the file");
    if (r < 0) {
        job_free(job);
        return r;
    }
    *ret = job;
    job_start(job, put_next);
    return 0;
}

/* ---- looking ---- */

static void look_folder(struct container_job *job);

/* ".cache/x", "a/.git/y", "__pycache__/z": not what somebody wants to download. */
static bool is_hidden(const char *name)
{
    return name[0] == '.' || strstr(name, "/.") || str_starts(name, "__pycache__/") ||
           strstr(name, "/__pycache__/");
}

static void on_look_entry(void *ctx, const struct box_entry *entry)
{
    struct container_job *job = ctx;
    char path[CONTAINER_PATH_MAX];
    struct container_file file = {
        .path = path, .bytes = entry->bytes, .change_ns = entry->change_ns};

    if (!S_ISREG(entry->mode) || is_hidden(entry->name) || !entry->name[0])
        return;
    if (str_format(path, sizeof(path), "%s/%s",
                   job->folder_at == 0 ? CONTAINER_FOLDER : folders[job->folder_at],
                   entry->name) < 0)
        return;
    if (job->seen.count >= LIMIT_CONTAINER_FILES || list_add(&job->seen, &file) < 0)
        job->is_overfull = true;
}

/* Compares one file of the box with its row: gives or changes it. Negative: an error. */
static int look_file(struct container_job *job, const struct list *rows,
                     struct container_file *file, struct error *err)
{
    struct container_file *known = list_find(rows, file->path);

    str_copy(file->container, sizeof(file->container), job->row.id);
    file->created_ms = file->seen_ms = clock_wall_ms();
    if (known) {
        bool is_same = known->change_ns == file->change_ns && known->bytes == file->bytes;

        str_copy(file->id, sizeof(file->id), known->id);
        str_copy(file->upload, sizeof(file->upload), known->upload);
        file->created_ms = known->created_ms;
        if (is_same) {
            file->seen_ms = known->seen_ms;
            file->is_users = known->is_users;
            return 0;
        }
    } else if (id_make(file->id, "cfile") < 0) {
        return error_memory(err);
    }
    return container_file_put(job->manager->spec.index, file, err);
}

static int look_rows(struct container_job *job, const struct list *rows, struct error *err)
{
    struct index *index = job->manager->spec.index;
    struct list *seen = &job->seen;
    int r = 0;

    for (size_t i = 0; i < seen->count && r == 0; i++) {
        r = look_file(job, rows, &seen->files[i], err);
        if (r == 0 && !seen->files[i].is_users && seen->files[i].seen_ms > job->since_ms &&
            list_add(&job->result, &seen->files[i]) < 0)
            r = error_memory(err);
    }
    for (size_t i = 0; i < rows->count && r == 0; i++) {
        if (!list_find(seen, rows->files[i].path))
            r = container_file_drop(index, rows->files[i].id, err);
    }
    return r;
}

static void look_over(struct container_job *job)
{
    struct index *index = job->manager->spec.index;
    struct list rows = {0};
    struct error err = {0}, ignored = {0};
    int r = read_rows(job, &rows, &err);

    if (job->is_overfull)
        r = error_set(&err, -E2BIG, ERROR_TOO_LARGE,
                      "the container has more than %d files; put some of them into an archive",
                      LIMIT_CONTAINER_FILES);
    if (job->seen.count > 1)
        qsort(job->seen.files, job->seen.count, sizeof(*job->seen.files), compare_paths);
    if (r == 0)
        r = container_rows_begin(index, &err);
    if (r == 0) {
        r = look_rows(job, &rows, &err);
        if (container_rows_end(index, r < 0 ? &ignored : &err) < 0 && r == 0)
            r = err.num;
    }
    list_free(&rows);
    over(job, r < 0 ? &err : NULL);
}

static void on_look_done(void *ctx, const struct error *err)
{
    struct container_job *job = ctx;
    struct error told = *err;

    job->op = 0;
    if (err->num == -E2BIG)
        job->is_overfull = true;
    else if (err->num < 0 && err->num != -ENOENT && err->num != -ENOTDIR) {
        over(job, &told);
        return;
    }
    job->folder_at++;
    look_folder(job);
}

static void look_folder(struct container_job *job)
{
    static const struct list_events events = {.entry = on_look_entry, .done = on_look_done};
    struct error err = {0};

    if (job->folder_at == ARRAY_SIZE(folders))
        look_over(job);
    else if (box_list(job->box, folders[job->folder_at], 0, &events, job, &job->op, &err) < 0)
        over(job, &err);
}

int container_look(struct session_manager *manager, const struct container_row *row,
                   uint64_t since_ms, container_done *done, void *ctx, struct container_job **ret,
                   struct error *err)
{
    struct container_job *job;
    int r = job_new(manager, row, done, ctx, &job, err);

    if (r < 0)
        return r;
    job->since_ms = since_ms;
    *ret = job;
    if (job->session->state == SESSION_NEW)
        over(job, NULL);
    else
        job_start(job, look_folder);
    return 0;
}

/* ---- removing ---- */

static void on_removed(void *ctx, const struct error *err)
{
    struct container_job *job = ctx;
    struct error failed = {0};

    job->op = 0;
    if (err->num < 0 && err->num != -ENOENT) {
        fail_box(job, err);
        return;
    }
    container_file_drop(job->manager->spec.index, job->file, &failed);
    over(job, &failed);
}

static void remove_it(struct container_job *job)
{
    static const struct done_events events = {.done = on_removed};
    char path[CONTAINER_PATH_MAX];
    struct error err = {0};

    container_box_path(job->path, path, sizeof(path));
    if (box_remove(job->box, path, false, &events, job, &job->op, &err) < 0)
        over(job, &err);
}

int container_unlink(struct session_manager *manager, const struct container_row *row,
                     const struct container_file *file, container_done *done, void *ctx,
                     struct container_job **ret, struct error *err)
{
    struct container_job *job;
    int r = job_new(manager, row, done, ctx, &job, err);

    if (r < 0)
        return r;
    str_copy(job->file, sizeof(job->file), file->id);
    str_copy(job->path, sizeof(job->path), file->path);
    *ret = job;
    job_start(job, remove_it);
    return 0;
}
