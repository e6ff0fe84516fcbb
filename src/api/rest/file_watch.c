/* file_watch.c - sends changes below a path as server-sent events: `ready`, then `change`. */
#include <errno.h>
#include <string.h>

#include "api/file_change.h"
#include "api/rest/file_call.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "wire/file_message.h"

/* Of events that the client has not read; further ones are lost */
#define PENDING_MAX (256 * KIB)

struct watching {
    struct file_call *file;
    struct front_stream stream;
    bool has_started;
    bool is_lossy; /* some were lost: reported once there is room */
};

static void tell(struct watching *watching, const char *kind, const char *path, bool is_folder)
{
    front_stream_event(&watching->stream, NULL, "change",
                       json_pack("{s:s, s:o, s:s}", "kind", kind, "path",
                                 text_to_json(path, strlen(path)), "type",
                                 is_folder ? "folder" : "file"));
}

static void watching_fill(void *ctx)
{
    struct watching *watching = ctx;

    if (!watching->is_lossy)
        return;
    watching->is_lossy = false;
    tell(watching, file_change_name(CHANGE_OVERFLOW), watching->file->path, true);
}

static void watching_freed(void *ctx)
{
    struct watching *watching = ctx;

    file_call_free(watching->file);
}

static void watching_free(struct file_call *file)
{
    struct watching *watching = file->own;

    buf_free(&watching->stream.text);
    free(watching);
}

static void on_ready(void *ctx)
{
    struct file_call *file = ctx;
    struct watching *watching = file->own;

    if (watching->has_started)
        return;
    watching->has_started = true;
    front_stream_event(&watching->stream, NULL, "ready",
                       json_pack("{s:o}", "path", text_to_json(file->path, strlen(file->path))));
    front_stream_start(&watching->stream, 200, TYPE_EVENTS, front_event_headers, -1);
}

static void on_changed(void *ctx, const struct box_change *change)
{
    struct file_call *file = ctx;
    struct watching *watching = file->own;
    char path[2 * LIMIT_PATH_BYTES + 2];

    if (change->kind >= _CHANGE_KIND_MAX || !watching->has_started)
        return;
    str_format(path, sizeof(path), "%s%s%s", file->path, change->name[0] ? "/" : "", change->name);
    if (watching->stream.text.length > PENDING_MAX)
        watching->is_lossy = true;
    else
        tell(watching, file_change_name(change->kind), path, change->is_folder);
    if (change->kind != CHANGE_OVERFLOW)
        file_change_publish(file->session, file_change_name(change->kind), path, change->is_folder);
    http_reply_more(watching->stream.http);
}

static void on_done(void *ctx, const struct error *err)
{
    struct file_call *file = ctx;
    struct watching *watching = file->own;

    if (!watching->has_started) {
        struct error none = {0};

        if (err->num == 0)
            error_set(&none, -EIO, ERROR_ENGINE, "the watch ended before it began");
        file_call_end(file, err->num < 0 ? err : &none, NULL);
        return;
    }
    file->op = 0;
    watching->stream.is_over = true;
    http_reply_more(watching->stream.http);
}

static int begin_watch(struct file_call *file, struct error *err)
{
    static const struct watch_events events = {
        .ready = on_ready, .changed = on_changed, .done = on_done};

    return box_watch(file->box, file->path, file->is_tree, &events, file, &file->op, err);
}

void files_watch(struct door_call *call)
{
    struct file_call *file = file_call_new(call, front_query_text(call, "path"));
    struct watching *watching = file ? calloc(1, sizeof(*watching)) : NULL;

    if (!file)
        return;
    if (!watching) {
        front_fail_memory(call->http);
        file_call_free(file);
        return;
    }
    *watching = (struct watching){
        .file = file,
        .stream = {.http = call->http,
                   .text = BUF_INIT(MIB),
                   .fill = watching_fill,
                   .freed = watching_freed,
                   .ctx = watching},
    };
    file->own = watching;
    file->free = watching_free;
    file->is_tree = front_query_bool(call, "recursive");
    file_call_start(file, begin_watch);
}
