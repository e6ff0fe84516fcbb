/* file_call.c - a request that waits for operations on a sandbox's files; see e2b.h. */
#include <string.h>
#include <sys/stat.h>

#include "api/sandboxes/e2b.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/file_path.h"

void e2b_file_free(struct e2b_file *file)
{
    if (file->waits_for_box)
        session_box_cancel(file->session, file);
    if (file->op)
        box_cancel(file->box, file->op);
    e2b_probe_free(file->probe);
    if (file->free)
        file->free(file);
    json_decref(file->request);
    free(file);
}

static void on_gone(void *ctx)
{
    e2b_file_free(ctx);
}

struct e2b_file *e2b_file_new(struct door_call *call, struct session *session)
{
    struct e2b_file *file = calloc(1, sizeof(*file));

    if (!file) {
        front_fail_memory(call->http);
        return NULL;
    }
    file->e2b = call->door;
    file->http = call->http;
    file->session = session;
    file->caller = call->caller;
    return file;
}

void e2b_file_done(struct e2b_file *file, json_t *reply)
{
    file->op = 0;
    front_reply(file->http, 200, reply);
    e2b_file_free(file);
}

void e2b_file_fail(struct e2b_file *file, const struct error *err)
{
    struct error told = {0};

    file->op = 0;
    file_error(err, file->path, &told);
    e2b_unary_fail(file->http, e2b_code_of(&told), told.text);
    e2b_file_free(file);
}

void e2b_file_fail_http(struct e2b_file *file, const struct error *err)
{
    struct error told = {0};
    unsigned status;

    file->op = 0;
    file_error(err, file->path, &told);
    status = str_equal(told.code, ERROR_DISK_FULL)        ? 507
             : str_equal(told.code, ERROR_PATH_NOT_FOUND) ? 404
             : str_equal(told.code, ERROR_SESSION_ENDED)  ? 502
             : str_equal(told.code, ERROR_SESSION_PAUSED) ? 502
             : str_equal(told.code, ERROR_BOX_LOST)       ? 502
             : str_equal(told.code, ERROR_ENGINE)         ? 500
                                                          : 400;
    e2b_fail_text(file->http, status, told.text);
    e2b_file_free(file);
}

static void begin(struct e2b_file *file, int (*start)(struct e2b_file *, struct error *))
{
    struct error err = {0};

    if (start(file, &err) == 0)
        return;
    file->op = 0;
    if (e2b_is_files(file->http))
        e2b_file_fail_http(file, &err);
    else
        e2b_file_fail(file, &err);
}

static void on_box(void *ctx, struct box *box, const struct error *failed)
{
    struct e2b_file *file = ctx;

    file->waits_for_box = false;
    file->box = box;
    if (box)
        begin(file, file->begin);
    else if (e2b_is_files(file->http))
        e2b_file_fail_http(file, failed);
    else
        e2b_file_fail(file, failed);
}

void e2b_file_start(struct e2b_file *file, int (*start)(struct e2b_file *, struct error *))
{
    file->begin = start;
    file->waits_for_box = true;
    http_on_gone(file->http, on_gone, file);
    session_box(file->session, on_box, file);
}

void e2b_file_next(struct e2b_file *file, int (*start)(struct e2b_file *, struct error *))
{
    file->op = 0;
    begin(file, start);
}

json_t *e2b_entry(struct session *session, const struct box_entry *entry, const char *path)
{
    static const struct {
        uint32_t kind;
        const char *name;
    } types[] = {{S_IFREG, "FILE_TYPE_FILE"},
                 {S_IFDIR, "FILE_TYPE_DIRECTORY"},
                 {S_IFLNK, "FILE_TYPE_SYMLINK"}};
    const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path;
    const char *type = "FILE_TYPE_UNSPECIFIED";
    char modified[40], size[24], permissions[11];

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if ((entry->mode & S_IFMT) == types[i].kind)
            type = types[i].name;
    front_time(entry->time_ns / 1000000, modified, sizeof(modified));
    str_format(size, sizeof(size), "%llu", (unsigned long long)entry->bytes);
    e2b_permissions(entry->mode, permissions);
    return json_pack("{s:o, s:s, s:o, s:s, s:i, s:s, s:s, s:s, s:s, s:O*}", "name",
                     text_to_json(name, strlen(name)), "type", type, "path",
                     text_to_json(path, strlen(path)), "size", size, "mode",
                     (int)(entry->mode & 07777), "permissions", permissions, "owner", E2B_USER,
                     "group", E2B_USER, "modifiedTime", modified, "metadata",
                     e2b_metadata_of(session, path));
}
