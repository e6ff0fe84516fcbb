/* file_call.c - a request that waits for a file operation; see file_call.h. */
#include "api/rest/file_call.h"

#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "observe/bus.h"
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
    rest_fail(file->rest, file->http, &err, json_pack("{s:s}", "field", field));
    file_call_free(file);
    return false;
}

struct file_call *file_call_new(struct rest_call *call, const char *path)
{
    struct session *session;
    struct file_call *file;

    if (!rest_session(call, false, &session))
        return NULL;
    file = calloc(1, sizeof(*file));
    if (!file) {
        rest_fail_memory(call->http);
        return NULL;
    }
    file->rest = call->rest;
    file->http = call->http;
    file->session = session;
    rest_caller(call, &file->caller);
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
    rest_fail_field(file->http, "mode", "'mode' has to be octal, such as \"0644\"");
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
        rest_fail(file->rest, file->http, failed, NULL);
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

void file_change_publish(struct session *session, const char *kind, const char *path,
                         bool is_folder)
{
    bus_publish(session_manager_bus(session_manager_of(session)), EVENT_FILE_CHANGED,
                session_tenant(session), session_id(session),
                json_pack("{s:s, s:o, s:s}", "kind", kind, "path", text_to_json(path, strlen(path)),
                          "type", is_folder ? "folder" : "file"));
}

void file_call_over(struct file_call *file, const struct error *err)
{
    bool is_put = http_body_length(file->http) != 0 && file->change;

    rest_file_over(file->rest, file->http,
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
        rest_fail(file->rest, file->http, &told, NULL);
        json_decref(reply);
    } else {
        if (file->change)
            file_change_publish(file->session, file->change, file->to[0] ? file->to : file->path,
                                S_ISDIR(file->mode));
        rest_reply(file->http, 200, reply);
    }
    file_call_free(file);
}

json_t *file_entry_json(const struct box_entry *entry, const char *name)
{
    char mode[16], modified[40];
    const char *type = S_ISREG(entry->mode)   ? "file"
                       : S_ISDIR(entry->mode) ? "folder"
                       : S_ISLNK(entry->mode) ? "symlink"
                                              : "other";

    str_format(mode, sizeof(mode), "%04o", entry->mode & 07777);
    rest_time(entry->time_ns / 1000000, modified, sizeof(modified));
    return json_pack("{s:o, s:s, s:I, s:s, s:s}", "name", text_to_json(name, strlen(name)), "type",
                     type, "bytes", (json_int_t)(entry->bytes & INT64_MAX), "mode", mode,
                     "modified_at", modified);
}
