/*
 * files.c - GET and POST /files: bytes of files, streamed; see e2b.h.
 *
 * An upload is one file (application/octet-stream) or several (multipart/form-data, each part's
 * file name is its path). Bytes that the box does not take stay in the client's socket.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"
#include "base/gunzip.h"
#include "base/str.h"
#include "http/form_data.h"
#include "http/range.h"
#include "model/text.h"
#include "tool/file_path.h"

#define WINDOW (512 * KIB)
#define PUTS_AT_ONCE 32 /* files of one upload whose end is awaited */
#define FILES_MAX 1000  /* of one upload; all of their paths are kept until its end */

/* ---- GET ---- */

struct download {
    struct e2b_file *file;
    struct front_stream stream;
    int64_t length; /* -1: not known */
    bool is_stopped, has_started, is_inside;
};

static void download_freed(void *ctx)
{
    struct download *download = ctx;

    e2b_file_free(download->file);
}

static void download_free(struct e2b_file *file)
{
    struct download *download = file->own;

    buf_free(&download->stream.text);
    free(download);
}

static void download_fill(void *ctx)
{
    struct download *download = ctx;

    if (!download->is_stopped || !download->file->op)
        return;
    download->is_stopped = false;
    download->is_inside = true;
    box_get_resume(download->file->box, download->file->op);
    download->is_inside = false;
}

static void download_begin(struct download *download)
{
    char disposition[HTTP_ATTACHMENT_MAX];
    const char *const headers[] = {disposition, "X-Content-Type-Options: nosniff",
                                   "Content-Security-Policy: default-src 'none'; sandbox", NULL};

    http_attachment(download->file->path, disposition, sizeof(disposition));
    download->has_started = true;
    front_stream_start(&download->stream, 200, TYPE_BYTES, headers, download->length);
}

static void on_size(void *ctx, uint64_t bytes)
{
    struct download *download = ((struct e2b_file *)ctx)->own;

    download->length = (int64_t)MIN(bytes, (uint64_t)INT64_MAX);
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct e2b_file *file = ctx;
    struct download *download = file->own;
    size_t room = WINDOW - MIN(download->stream.text.length, (size_t)WINDOW);
    size_t taken = MIN(length, room);

    if (taken > 0 && buf_append(&download->stream.text, data, taken) < 0)
        taken = 0;
    download->is_stopped = taken < length;
    if (!download->has_started)
        download_begin(download);
    else if (!download->is_inside)
        http_reply_more(download->stream.http);
    return taken;
}

static void on_get_done(void *ctx, const struct error *err)
{
    struct e2b_file *file = ctx;
    struct download *download = file->own;

    if (!download->has_started && err->num < 0) {
        e2b_file_fail_http(file, err);
        return;
    }
    file->op = 0;
    download->stream.is_over = true;
    download->stream.is_broken = err->num < 0;
    if (!download->has_started)
        download_begin(download);
    else
        http_reply_more(download->stream.http);
}

static int begin_get(struct e2b_file *file, struct error *err)
{
    static const struct get_events events = {.size = on_size, .data = on_data, .done = on_get_done};

    return box_get(file->box, file->path, 0, 0, &events, file, &file->op, err);
}

/* A request with its user and its path; NULL: it was answered. */
static struct e2b_file *file_of(struct door_call *call, bool needs_path)
{
    const char *bare = http_param(call->http, "path");
    const char *path = bare ? bare : http_query(call->http, "path");
    struct session *session = e2b_session(call);
    struct e2b_file *file;
    struct error err = {0};
    const char *code;

    if (!session)
        return NULL;
    if (!e2b_user_in_query(call->http, &code, &err)) {
        e2b_fail_text(call->http, str_equal(code, "unauthenticated") ? 401 : 403, err.text);
        return NULL;
    }
    if (needs_path && (!path || !path[0])) {
        e2b_fail_text(call->http, 400, "the query argument 'path' is missing");
        return NULL;
    }
    file = e2b_file_new(call, session);
    if (file && path && path[0] &&
        (bare ? e2b_bare_path : e2b_file_path)(path, file->path, &err) < 0) {
        e2b_file_fail_http(file, &err);
        return NULL;
    }
    return file;
}

void e2b_file_get(struct door_call *call)
{
    struct e2b_file *file = file_of(call, true);
    struct download *download = file ? calloc(1, sizeof(*download)) : NULL;

    if (!file)
        return;
    if (!download) {
        front_fail_memory(call->http);
        e2b_file_free(file);
        return;
    }
    *download = (struct download){
        .length = -1,
        .file = file,
        .stream = {.http = call->http,
                   .text = BUF_INIT(WINDOW),
                   .low = WINDOW / 2,
                   .fill = download_fill,
                   .freed = download_freed,
                   .ctx = download},
    };
    file->own = download;
    file->free = download_free;
    e2b_file_start(file, begin_get);
}

/* ---- POST ---- */

/* A file of an upload, until the box has it. */
struct upload_file {
    struct upload_file *next;
    struct upload *upload;
    uint32_t op; /* 0: the box has it */
    char *path;
};

struct upload {
    struct e2b_file *file;
    struct upload_file *files;   /* newest first */
    struct upload_file *current; /* that gets the bytes; NULL: none */
    unsigned count;              /* of files */
    unsigned pending;            /* puts that have not ended */
    bool is_form, is_blocked, is_over;
    struct form_data form;
    struct buf field; /* `path` of a form, where clients send one; empty: none yet */
    bool in_field, is_wrong;
    struct gunzip *gunzip; /* the body is compressed; NULL: it is not */
    json_t *metadata;
    struct error error; /* why a part was refused */
};

static void upload_free(struct e2b_file *file)
{
    struct upload *upload = file->own;

    while (upload->files) {
        struct upload_file *one = upload->files;

        upload->files = one->next;
        if (one->op)
            box_cancel(file->box, one->op);
        free(one->path);
        free(one);
    }
    form_data_free(&upload->form);
    buf_free(&upload->field);
    gunzip_free(upload->gunzip);
    json_decref(upload->metadata);
    free(upload);
}

static void fail(struct upload *upload, int num, const char *text)
{
    struct error err = {0};

    error_set(&err, num, ERROR_PATH_INVALID, "%s", text);
    e2b_file_fail_http(upload->file, &err);
}

static json_t *written_json(const struct upload *upload, const struct upload_file *one)
{
    const char *name = strrchr(one->path, '/') + 1;

    return json_pack("{s:o, s:o, s:s, s:O*}", "name", text_to_json(name, strlen(name)), "path",
                     text_to_json(one->path, strlen(one->path)), "type", "file", "metadata",
                     upload->metadata);
}

/* Every file is there. */
static void finish(struct upload *upload)
{
    struct e2b_file *file = upload->file;
    json_t *list = json_array();
    struct error err = {0};

    for (struct upload_file *one = upload->files; one; one = one->next) {
        json_array_insert_new(list, 0, written_json(upload, one));
        if (e2b_metadata_set(file->session, one->path, json_incref(upload->metadata), &err) < 0) {
            json_decref(list);
            e2b_file_fail_http(file, &err);
            return;
        }
    }
    if (json_array_size(list) == 0) {
        json_decref(list);
        fail(upload, -EINVAL, "the body has no part named 'file'");
        return;
    }
    e2b_file_done(file, list);
}

static void on_put_done(void *ctx, const struct error *err)
{
    struct upload_file *one = ctx;
    struct upload *upload = one->upload;

    one->op = 0;
    upload->pending--;
    if (err->num < 0) {
        str_copy(upload->file->path, sizeof(upload->file->path), one->path);
        e2b_file_fail_http(upload->file, err);
        return;
    }
    if (upload->is_over && upload->pending == 0) {
        finish(upload);
    } else if (upload->is_blocked) {
        upload->is_blocked = false;
        http_body_resume(upload->file->http);
    }
}

static void on_room(void *ctx)
{
    struct upload_file *one = ctx;

    http_body_resume(one->upload->file->http);
}

/* 0, or a negative errno with the error. */
static int begin_file(struct upload *upload, const char *path, struct error *err)
{
    static const struct put_events events = {.done = on_put_done, .more = on_room};
    const struct put_spec spec = {.path = path};
    struct upload_file *one;
    int r;

    if (upload->count++ == FILES_MAX)
        return error_set(err, -E2BIG, ERROR_PATH_INVALID,
                         "one upload has at most %d files: send the others with another one",
                         FILES_MAX);
    for (one = upload->files; one; one = one->next)
        if (str_equal(one->path, path))
            return error_set(err, -EINVAL, ERROR_PATH_INVALID,
                             "you cannot upload multiple files to the same path '%s' in one upload "
                             "request, only the first specified file was uploaded",
                             path);
    one = calloc(1, sizeof(*one));
    if (!one || !(one->path = strdup(path))) {
        free(one);
        return error_memory(err);
    }
    one->upload = upload;
    one->next = upload->files;
    upload->files = one;
    upload->current = one;
    r = box_put(upload->file->box, &spec, &events, one, &one->op, err);
    if (r == 0)
        upload->pending++;
    return r;
}

/* The bytes the box takes now. */
static size_t give(struct upload *upload, const void *data, size_t length)
{
    struct upload_file *one = upload->current;
    size_t done = 0;

    while (one && done < length) {
        long taken =
            box_put_data(upload->file->box, one->op, (const char *)data + done, length - done);

        if (taken < 0)
            return length; /* done() says why */
        if (taken == 0)
            break;
        done += (size_t)taken;
    }
    return one ? done : length;
}

static int end_file(void *ctx)
{
    struct upload *upload = ctx;

    if (upload->current)
        box_put_end(upload->file->box, upload->current->op);
    upload->current = NULL;
    return 0;
}

/* ---- a form ---- */

static int on_part(void *ctx, const struct form_data_part *part)
{
    struct upload *upload = ctx;
    const char *asked = http_query(upload->file->http, "path");
    char path[LIMIT_PATH_BYTES + 1];
    struct error *err = &upload->error;

    *err = (struct error){0};
    upload->current = NULL;
    upload->in_field = upload->file->e2b->wire->says_root && str_equal(part->name, "path");
    if (upload->in_field)
        buf_clear(&upload->field);
    if (!str_equal(part->name, "file"))
        return 0;
    if ((!asked || !asked[0]) && upload->field.length > 0)
        asked = buf_text(&upload->field);
    if (!asked || !asked[0])
        asked = part->filename;
    if (!asked || !asked[0])
        return error_set(err, -EINVAL, ERROR_PATH_INVALID,
                         "a part has no file name, and there is no query argument 'path'");
    if (e2b_file_path(asked, path, err) < 0 || begin_file(upload, path, err) < 0)
        return err->num;
    upload->is_blocked = upload->pending >= PUTS_AT_ONCE;
    return upload->is_blocked;
}

static size_t on_part_data(void *ctx, const void *data, size_t length)
{
    struct upload *upload = ctx;

    if (!upload->in_field)
        return give(upload, data, length);
    if (buf_append(&upload->field, data, length) < 0 || memchr(data, '\0', length))
        upload->is_wrong = true;
    return length;
}

/* A field behind its file has to say what the file's name said: the file is written already. */
static int on_part_end(void *ctx)
{
    struct upload *upload = ctx;
    const struct upload_file *last = upload->files;
    char path[LIMIT_PATH_BYTES + 1];
    struct error *err = &upload->error;

    if (!upload->in_field)
        return end_file(upload);
    upload->in_field = false;
    *err = (struct error){0};
    if (upload->is_wrong)
        return error_set(err, -EINVAL, ERROR_PATH_INVALID, "the field 'path' is not a path");
    if (!last || http_query(upload->file->http, "path"))
        return 0;
    if (e2b_file_path(buf_text(&upload->field), path, err) < 0)
        return err->num;
    if (str_equal(path, last->path))
        return 0;
    return error_set(err, -EINVAL, ERROR_PATH_INVALID,
                     "the field 'path' came behind the file, which was written to '%s' by its "
                     "name: send the field first",
                     last->path);
}

static const struct form_data_events form_events = {
    .begin = on_part, .data = on_part_data, .end = on_part_end};

/* The bytes used; the upload may be gone afterwards if that is `length`. */
static size_t feed_form(struct upload *upload, const void *data, size_t length)
{
    ssize_t used = form_data_feed(&upload->form, data, length);

    if (used >= 0)
        return (size_t)used;
    if (upload->error.num == used) {
        const struct error err = upload->error; /* the upload is freed */

        e2b_file_fail_http(upload->file, &err);
    } else {
        fail(upload, -EINVAL, "the body is not valid multipart/form-data");
    }
    return length;
}

/* ---- the body ---- */

static size_t on_plain(void *ctx, const void *data, size_t length)
{
    struct upload *upload = ctx;

    return upload->is_form ? feed_form(upload, data, length) : give(upload, data, length);
}

static size_t on_body(void *ctx, const void *data, size_t length)
{
    struct upload *upload = ctx;
    ssize_t used;

    if (upload->is_blocked)
        return 0;
    if (!upload->gunzip)
        return on_plain(upload, data, length);
    used = gunzip_feed(upload->gunzip, data, length);
    if (used >= 0)
        return (size_t)used;
    fail(upload, -EINVAL, "the body is not valid gzip");
    return length;
}

static void on_body_end(void *ctx)
{
    struct upload *upload = ctx;

    if (upload->gunzip && !gunzip_is_whole(upload->gunzip)) {
        fail(upload, -EINVAL, "the body is not valid gzip: it is cut off");
        return;
    }
    if (upload->is_form && !form_data_is_whole(&upload->form)) {
        fail(upload, -EINVAL, "the body is not valid multipart/form-data: it is cut off");
        return;
    }
    upload->is_over = true;
    if (!upload->is_form)
        end_file(upload);
    if (upload->pending == 0)
        finish(upload);
}

static int begin_upload(struct e2b_file *file, struct error *err)
{
    static const struct http_body_events events = {.data = on_body, .end = on_body_end};
    struct upload *upload = file->own;
    int r = upload->is_form ? 0 : begin_file(upload, file->path, err);

    if (r == 0)
        http_body_read(file->http, &events, upload);
    return r;
}

static bool has_encoding(const struct http_request *http)
{
    const char *encoding = http_header(http, "Content-Encoding");

    return encoding && strcasecmp(encoding, "identity") != 0;
}

/* 0, or a negative errno with the error. */
static int read_head(struct upload *upload, const struct http_request *http, struct error *err)
{
    const char *type = http_header(http, "Content-Type");

    upload->is_form = form_data_begin(&upload->form, type, &form_events, upload) == 0;
    if (!upload->is_form && (!type || strncasecmp(type, TYPE_BYTES, strlen(TYPE_BYTES)) != 0))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "the Content-Type has to be multipart/form-data or " TYPE_BYTES);
    if (!upload->is_form && !upload->file->path[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "the query argument 'path' is missing");
    if (has_encoding(http)) {
        if (strcasecmp(http_header(http, "Content-Encoding"), "gzip") != 0)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "the Content-Encoding has to be gzip or identity");
        upload->gunzip = gunzip_new(on_plain, upload);
        if (!upload->gunzip)
            return error_memory(err);
    }
    return e2b_metadata_read(http, &upload->metadata, err);
}

void e2b_file_post(struct door_call *call)
{
    struct e2b_file *file = file_of(call, false);
    struct upload *upload = file ? calloc(1, sizeof(*upload)) : NULL;
    struct error err = {0};

    if (!file)
        return;
    if (!upload) {
        front_fail_memory(call->http);
        e2b_file_free(file);
        return;
    }
    upload->file = file;
    upload->field = BUF_INIT(LIMIT_PATH_BYTES);
    file->own = upload;
    file->free = upload_free;
    if (read_head(upload, call->http, &err) < 0)
        e2b_file_fail_http(file, &err);
    else
        e2b_file_start(file, begin_upload);
}
