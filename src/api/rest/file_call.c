/* file_call.c - a request that waits for a file operation; see file_call.h. */
#include "api/rest/file_call.h"

#include <string.h>
#include <sys/stat.h>

#include "api/file_change.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "observe/audit.h"
#include "observe/metrics.h"
#include "tool/file_path.h"

void file_call_free(struct file_call *file)
{
    if (file->waits_for_box)
        session_box_cancel(file->session, file);
    if (file->op)
        box_cancel(file->box, file->op);
    if (file->free)
        file->free(file);
    free(file);
}

static void on_gone(void *ctx)
{
    file_call_free(ctx);
}

bool file_call_path(struct file_call *file, const char *field, const char *path,
                    char ret[LIMIT_PATH_BYTES + 1])
{
    struct error err = {0};

    if (file_path_for_rest(path, strlen(path), ret, &err) == 0)
        return true;
    front_fail(file->front, file->http, &err, json_pack("{s:s}", "field", field));
    file_call_free(file);
    return false;
}

struct file_call *file_call_new(struct door_call *call, const char *path)
{
    struct session *session;
    struct file_call *file;

    if (!front_session_to_use(call, &session))
        return NULL;
    file = calloc(1, sizeof(*file));
    if (!file) {
        front_fail_memory(call->http);
        return NULL;
    }
    file->front = call->front;
    file->http = call->http;
    file->session = session;
    file->caller = call->caller;
    return file_call_path(file, "path", path, file->path) ? file : NULL;
}

bool file_call_mode(struct file_call *file, const char *text)
{
    uint32_t mode = 0;

    if (!text)
        return true;
    for (const char *at = text; *at && mode <= 07777; at++)
        mode = *at >= '0' && *at <= '7' ? mode * 8 + (uint32_t)(*at - '0') : UINT32_MAX;
    if (*text && mode > 0 && mode <= 07777) {
        file->mode = mode;
        return true;
    }
    front_fail_field(file->http, "mode", "'mode' has to be octal, such as \"0644\"");
    file_call_free(file);
    return false;
}

static void on_box(void *ctx, struct box *box, const struct error *failed)
{
    struct file_call *file = ctx;
    struct error err = {0};

    file->waits_for_box = false;
    file->box = box;
    if (!box) {
        front_fail(file->front, file->http, failed, NULL);
        file_call_free(file);
    } else if (file->begin(file, &err) < 0) {
        file->op = 0;
        file_call_end(file, &err, NULL);
    }
}

void file_call_start(struct file_call *file,
                     int (*begin)(struct file_call *file, struct error *err))
{
    file->begin = begin;
    file->waits_for_box = true;
    http_on_gone(file->http, on_gone, file);
    session_box(file->session, on_box, file);
}

void file_call_over(struct file_call *file, const struct error *err)
{
    bool is_put = http_body_length(file->http) != 0 && file->change;

    rest_file_over(file->front, file->http,
                   &(struct rest_file_over){
                       .caller = &file->caller,
                       .session = session_id(file->session),
                       .change = file->change,
                       .path = file->to[0] ? file->to : file->path,
                       .bytes = is_put ? file->bytes : 0,
                       .error = err ? err->code ? err->code : ERROR_ENGINE : NULL,
                   });
}

void file_call_end(struct file_call *file, const struct error *err, json_t *reply)
{
    struct error told = {0};

    file->op = 0; /* it has ended */
    file_call_over(file, err && err->num < 0 ? err : NULL);
    if (err && err->num < 0) {
        file_error(err, file->path, &told);
        front_fail(file->front, file->http, &told, NULL);
        json_decref(reply);
    } else {
        if (file->change)
            file_change_publish(file->session, file->change, file->to[0] ? file->to : file->path,
                                S_ISDIR(file->mode));
        front_reply(file->http, 200, reply);
    }
    file_call_free(file);
}

/* What an entry is that is no file, folder or symlink; NULL: it is one of these. */
static const char *special_of(uint32_t mode)
{
    if (S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode))
        return NULL;
    if (S_ISFIFO(mode))
        return "fifo";
    return S_ISSOCK(mode) ? "socket" : "device";
}

json_t *file_entry_json(const struct box_entry *entry, const char *name)
{
    char mode[16], modified[40];
    const char *type = S_ISREG(entry->mode)   ? "file"
                       : S_ISDIR(entry->mode) ? "folder"
                       : S_ISLNK(entry->mode) ? "symlink"
                                              : "other";

    str_format(mode, sizeof(mode), "%04o", entry->mode & 07777);
    front_time(entry->time_ns / 1000000, modified, sizeof(modified));
    return json_pack("{s:o, s:s, s:I, s:s, s:s, s:s*}", "name", text_to_json(name, strlen(name)),
                     "type", type, "bytes", (json_int_t)(entry->bytes & INT64_MAX), "mode", mode,
                     "modified_at", modified, "special", special_of(entry->mode));
}

/* ---- metrics, audit and events of file operations ---- */

void rest_file_bytes(struct front *front, const char *direction, uint64_t bytes)
{
    metrics_add(session_manager_metrics(front->manager), METRIC_FILE_BYTES, &direction, bytes);
}

void rest_file_over(struct front *front, const struct http_request *http,
                    const struct rest_file_over *over)
{
    const struct door_route *route = front_route(http);
    const char *const values[] = {route ? route->name : "other", over->error ? "error" : "ok"};
    json_t *fields;

    metrics_add(session_manager_metrics(front->manager), METRIC_FILE_OPERATIONS, values, 1);
    if (!over->change)
        return;
    fields = json_pack("{s:s, s:s, s:o, s:I, s:s, s:s*}", "session_id", over->session, "change",
                       over->change, "path", text_to_json(over->path, strlen(over->path)), "bytes",
                       (json_int_t)over->bytes, "result", over->error ? "error" : "ok", "error",
                       over->error);
    caller_describe(over->caller, fields);
    if (fields)
        audit_write(session_manager_audit(front->manager), "file", fields);
}
