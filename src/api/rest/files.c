/* files.c - files of a session: stat, list, delete, mkdir, move, chmod. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "api/rest/file_call.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

#define LIST_MAX (8 * MIB) /* bytes of one listing as text; then it is truncated */
#define LIST_BEGIN "{\"entries\":["
#define LIST_END 64 /* room for what follows the entries */

static void on_done(void *ctx, const struct error *err)
{
    struct file_call *file = ctx;
    const char *path = file->to[0] ? file->to : file->path;

    file_call_end(file, err, json_pack("{s:o}", "path", text_to_json(path, strlen(path))));
}
static const struct done_events done_events = {.done = on_done};

static const char *member(const struct door_call *call, const char *name)
{
    return json_string_value(json_object_get(call->body, name));
}

static int begin_delete(struct file_call *file, struct error *err)
{
    return box_remove(file->box, file->path, file->is_tree, &done_events, file, &file->op, err);
}

void files_delete(struct door_call *call)
{
    struct file_call *file = file_call_new(call, front_query_text(call, "path"));

    if (!file)
        return;
    file->is_tree = front_query_bool(call, "recursive");
    file->change = "removed";
    file_call_start(file, begin_delete);
}

static int begin_mkdir(struct file_call *file, struct error *err)
{
    return box_mkdir(file->box, file->path, file->mode & 07777, &done_events, file, &file->op, err);
}

void files_mkdir(struct door_call *call)
{
    struct file_call *file = file_call_new(call, member(call, "path"));

    if (!file)
        return;
    file->mode = 0755;
    if (!file_call_mode(file, member(call, "mode")))
        return;
    file->mode |= S_IFDIR;
    file->change = "created";
    file_call_start(file, begin_mkdir);
}

static int begin_move(struct file_call *file, struct error *err)
{
    return box_move(file->box, file->path, file->to, &done_events, file, &file->op, err);
}

void files_move(struct door_call *call)
{
    struct file_call *file = file_call_new(call, member(call, "from"));

    if (!file || !file_call_path(file, "to", member(call, "to"), file->to))
        return;
    file->change = "renamed_to";
    file_call_start(file, begin_move);
}

static int begin_chmod(struct file_call *file, struct error *err)
{
    return box_chmod(file->box, file->path, file->mode, &done_events, file, &file->op, err);
}

void files_chmod(struct door_call *call)
{
    struct file_call *file = file_call_new(call, member(call, "path"));

    if (!file || !file_call_mode(file, member(call, "mode")))
        return;
    file->change = "attributes";
    file_call_start(file, begin_chmod);
}

/* ---- stat ---- */

static void on_stat_entry(void *ctx, const struct box_entry *entry)
{
    struct file_call *file = ctx;
    const char *slash = strrchr(file->path, '/');

    json_decref(file->own);
    file->own = file_entry_json(entry, slash[1] ? slash + 1 : file->path);
}

static void on_stat_done(void *ctx, const struct error *err)
{
    struct file_call *file = ctx;
    json_t *entry = ptr_take(&file->own);

    file_call_end(file, err, entry);
}

static void stat_free(struct file_call *file)
{
    json_decref(file->own);
}

static int begin_stat(struct file_call *file, struct error *err)
{
    static const struct list_events events = {.entry = on_stat_entry, .done = on_stat_done};

    return box_stat(file->box, file->path, &events, file, &file->op, err);
}

void files_stat(struct door_call *call)
{
    struct file_call *file = file_call_new(call, front_query_text(call, "path"));

    if (!file)
        return;
    file->free = stat_free;
    file_call_start(file, begin_stat);
}

/*
 * ---- list: written directly as text, because a JSON tree of 100000 entries is ten times as large
 * ----
 */

struct listing {
    struct buf text; /* the reply, as far as it is there */
    bool is_cut, has_any;
};

static void on_list_entry(void *ctx, const struct box_entry *entry)
{
    struct file_call *file = ctx;
    struct listing *listing = file->own;
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIST_MAX);
    json_t *json = listing->is_cut ? NULL : file_entry_json(entry, entry->name);

    if (listing->is_cut)
        return;
    if (!json || text_of_json(json, FRONT_JSON, &text) < 0 ||
        text.length + LIST_END > listing->text.maximum - listing->text.length)
        listing->is_cut = true;
    else
        listing->is_cut =
            buf_append_text(&listing->text, listing->has_any ? "," : LIST_BEGIN) < 0 ||
            buf_append(&listing->text, buf_text(&text), text.length) < 0;
    listing->has_any = true;
    json_decref(json);
}

static void on_list_done(void *ctx, const struct error *err)
{
    struct file_call *file = ctx;
    struct listing *listing = file->own;

    /* Too many entries: those received are sent, with a mark that there are more. */
    listing->is_cut |= err->num == -E2BIG;
    if (err->num < 0 && err->num != -E2BIG) {
        file_call_end(file, err, NULL);
        return;
    }
    file->op = 0;
    if ((listing->text.length == 0 && buf_append_text(&listing->text, LIST_BEGIN) < 0) ||
        buf_printf(&listing->text, "],\"truncated\":%s}\n", listing->is_cut ? "true" : "false") < 0)
        front_fail_memory(file->http);
    else
        http_reply_text(file->http, 200, TYPE_JSON, NULL, &listing->text);
    file_call_free(file);
}

static void list_free(struct file_call *file)
{
    struct listing *listing = file->own;

    buf_free(&listing->text);
    free(listing);
}

static int begin_list(struct file_call *file, struct error *err)
{
    static const struct list_events events = {.entry = on_list_entry, .done = on_list_done};

    return box_list(file->box, file->path, (unsigned)file->bytes, &events, file, &file->op, err);
}

void files_list(struct door_call *call)
{
    struct file_call *file = file_call_new(call, front_query_text(call, "path"));
    struct listing *listing = file ? calloc(1, sizeof(*listing)) : NULL;

    if (!file)
        return;
    if (!listing) {
        front_fail_memory(call->http);
        file_call_free(file);
        return;
    }
    listing->text = BUF_INIT(LIST_MAX);
    file->own = listing;
    file->free = list_free;
    file->bytes = front_query_u64(call, "depth", 1);
    file_call_start(file, begin_list);
}
