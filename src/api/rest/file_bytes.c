/*
 * file_bytes.c - GET and PUT of a file's bytes, any size: streamed, never stored.
 *
 * GET: the box sends into a window here, and is stopped while it is full. PUT: bytes that the box
 * does not take stay in the client's socket.
 */
#include <errno.h>
#include <string.h>

#include "api/rest/download.h"
#include "api/rest/file_call.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "http/range.h"
#include "model/text.h"

#define WINDOW (512 * KIB)

/* ---- GET ---- */

/*
 * It has two phases: until the first bytes (or the end) arrive the status is not known and it is a
 * waiting file_call; from then on it is a stream's source.
 */
struct download {
    struct file_call *file;
    struct front_stream stream;
    int64_t length;   /* of the reply; -1: not known */
    int64_t taken;    /* bytes of it that the box gave */
    bool is_stopped;  /* the box has bytes that were not taken */
    bool has_started; /* the reply has begun */
    bool is_inside;   /* inside fill() */
};

static void download_freed(void *ctx)
{
    struct download *download = ctx;

    /* A reply of known length is over with its last byte, before the box has said that it is. */
    if (download->file->op && download->taken == download->length)
        file_call_over(download->file, NULL);
    file_call_free(download->file); /* cancels the rest of the operation */
}

static void download_free(struct file_call *file)
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
    const char *headers[DOWNLOAD_HEADERS_MAX];
    char disposition[HTTP_ATTACHMENT_MAX];

    download->has_started = true;
    rest_download_headers(download->file->path, disposition, headers);
    front_stream_start(&download->stream, 200, TYPE_BYTES, headers, download->length);
}

static void on_size(void *ctx, uint64_t bytes)
{
    struct download *download = ((struct file_call *)ctx)->own;

    download->length = (int64_t)MIN(bytes, (uint64_t)INT64_MAX);
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct file_call *file = ctx;
    struct download *download = file->own;
    size_t room = WINDOW - MIN(download->stream.text.length, (size_t)WINDOW);
    size_t taken = MIN(length, room);

    if (taken > 0 && buf_append(&download->stream.text, data, taken) < 0)
        taken = 0; /* no memory now: tried again when some bytes were sent */
    download->taken += (int64_t)taken;
    rest_file_bytes(file->front, "out", taken);
    download->is_stopped = taken < length;
    if (!download->has_started)
        download_begin(download); /* may free everything, if the client left meanwhile */
    else if (!download->is_inside)
        http_reply_more(download->stream.http);
    return taken;
}

static void on_get_done(void *ctx, const struct error *err)
{
    struct file_call *file = ctx;
    struct download *download = file->own;

    if (!download->has_started && err->num < 0) {
        file_call_end(file, err, NULL);
        return;
    }
    file->op = 0;
    file_call_over(file, err->num < 0 ? err : NULL);
    download->stream.is_over = true;
    download->stream.is_broken = err->num < 0;
    if (!download->has_started)
        download_begin(download);
    else
        http_reply_more(download->stream.http);
}

static int begin_get(struct file_call *file, struct error *err)
{
    static const struct get_events events = {.size = on_size, .data = on_data, .done = on_get_done};

    return box_get(file->box, file->path, file->offset, file->bytes, &events, file, &file->op, err);
}

void files_get(struct door_call *call)
{
    struct file_call *file = file_call_new(call, front_query_text(call, "path"));
    struct download *download = file ? calloc(1, sizeof(*download)) : NULL;

    if (!file)
        return;
    if (!download) {
        front_fail_memory(call->http);
        file_call_free(file);
        return;
    }
    *download = (struct download){
        .file = file,
        .length = -1,
        .stream = {.http = call->http,
                   .text = BUF_INIT(WINDOW),
                   .low = WINDOW / 2, /* the box continues while the rest is being sent */
                   .fill = download_fill,
                   .freed = download_freed,
                   .ctx = download},
    };
    file->own = download;
    file->free = download_free;
    file->offset = front_query_u64(call, "offset", 0);
    file->bytes = front_query_u64(call, "length", 0);
    file_call_start(file, begin_get);
}

/* ---- PUT ---- */

static size_t on_body(void *ctx, const void *data, size_t length)
{
    struct file_call *file = ctx;
    size_t done = 0;

    while (done < length) {
        long taken = box_put_data(file->box, file->op, (const char *)data + done, length - done);

        if (taken < 0)
            return length; /* done() reports the reason; the rest is discarded */
        if (taken == 0)
            break; /* a callback reports room */
        done += (size_t)taken;
    }
    file->bytes += done;
    rest_file_bytes(file->front, "in", done);
    return done;
}

static void on_body_end(void *ctx)
{
    struct file_call *file = ctx;

    box_put_end(file->box, file->op);
}

static void on_room(void *ctx)
{
    http_body_resume(((struct file_call *)ctx)->http);
}

static void on_put_done(void *ctx, const struct error *err)
{
    struct file_call *file = ctx;

    file_call_end(file, err,
                  json_pack("{s:o, s:I}", "path", text_to_json(file->path, strlen(file->path)),
                            "bytes", (json_int_t)file->bytes));
}

static int begin_put(struct file_call *file, struct error *err)
{
    static const struct put_events events = {.done = on_put_done, .more = on_room};
    static const struct http_body_events body = {.data = on_body, .end = on_body_end};
    struct put_spec spec = {
        .path = file->path,
        .mode = file->mode,
        .is_in_place = file->is_in_place,
        .is_new = file->is_new,
        .offset = file->offset,
    };
    int r = box_put(file->box, &spec, &events, file, &file->op, err);

    if (r == 0)
        http_body_read(file->http, &body, file);
    return r;
}

void files_put(struct door_call *call)
{
    struct file_call *file = file_call_new(call, front_query_text(call, "path"));

    if (!file || !file_call_mode(file, front_query_text(call, "mode")))
        return;
    file->is_new = front_query_bool(call, "new");
    file->is_in_place = json_object_get(call->query, "offset") != NULL;
    file->offset = front_query_u64(call, "offset", 0);
    file->change = "written";
    file_call_start(file, begin_put);
}
