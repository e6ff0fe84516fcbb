/* filesystem.c - filesystem.Filesystem: Stat, ListDir, MakeDir, Move, Remove. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"
#include "base/str.h"

#define LIST_DEPTH_MAX 64
#define LIST_MAX 10000           /* entries: each takes about 3 KB until the reply is sent, */
#define LIST_PATHS_MAX (2 * MIB) /* and its path four times */

/* ---- one entry ---- */

static void on_entry(void *ctx, const struct box_entry *entry)
{
    struct e2b_file *file = ctx;

    json_decref(file->own);
    file->own = e2b_entry(file->session, entry, file->to[0] ? file->to : file->path);
}

static void free_json(struct e2b_file *file)
{
    json_decref(file->own);
}

static void on_entry_resolved(struct e2b_file *file)
{
    e2b_file_done(file, json_pack("{s:O}", "entry", json_array_get(file->own, 0)));
}

static void on_stat_done(void *ctx, const struct error *err)
{
    struct e2b_file *file = ctx;

    if (err->num < 0 || !file->own) {
        e2b_file_fail(file, err);
        return;
    }
    file->own = json_pack("[o]", (json_t *)file->own);
    e2b_links_resolve(file, file->own, on_entry_resolved);
}

static const struct list_events stat_events = {.entry = on_entry, .done = on_stat_done};

static int begin_stat(struct e2b_file *file, struct error *err)
{
    return box_stat(file->box, file->to[0] ? file->to : file->path, &stat_events, file, &file->op,
                    err);
}

static void stat_entry(struct e2b_file *file)
{
    file->free = free_json;
    e2b_file_start(file, begin_stat);
}

/* ---- MakeDir: a folder that is there is an error, which says so ---- */

static void on_made(void *ctx, const struct error *err)
{
    struct e2b_file *file = ctx;

    if (err->num < 0)
        e2b_file_fail(file, err);
    else
        e2b_file_next(file, begin_stat);
}

static int begin_mkdir(struct e2b_file *file, struct error *err)
{
    static const struct done_events events = {.done = on_made};

    return box_mkdir(file->box, file->path, 0755, &events, file, &file->op, err);
}

static void on_there(void *ctx, const struct error *err)
{
    struct e2b_file *file = ctx;
    const char *type = json_string_value(json_object_get(file->own, "type"));
    struct error told = {0};

    if (err->num == -ENOENT) {
        e2b_file_next(file, begin_mkdir);
        return;
    }
    if (err->num < 0) {
        e2b_file_fail(file, err);
        return;
    }
    if (str_equal(type, "FILE_TYPE_DIRECTORY"))
        error_set(&told, -EEXIST, ERROR_PATH_EXISTS, "directory already exists: '%s'", file->path);
    else
        error_set(&told, -ENOTDIR, ERROR_PATH_NOT_FOLDER,
                  "path already exists but it is not a directory: '%s'", file->path);
    e2b_file_fail(file, &told);
}

static int begin_look(struct e2b_file *file, struct error *err)
{
    static const struct list_events events = {.entry = on_entry, .done = on_there};

    return box_stat(file->box, file->path, &events, file, &file->op, err);
}

static void make_dir(struct e2b_file *file)
{
    file->free = free_json;
    e2b_file_start(file, begin_look);
}

/* ---- Move ---- */

static void on_moved(void *ctx, const struct error *err)
{
    struct e2b_file *file = ctx;

    if (err->num < 0) {
        e2b_file_fail(file, err);
        return;
    }
    e2b_metadata_moved(file->session, file->path, file->to);
    e2b_file_next(file, begin_stat);
}

static int begin_move(struct e2b_file *file, struct error *err)
{
    static const struct done_events events = {.done = on_moved};

    return box_move(file->box, file->path, file->to, &events, file, &file->op, err);
}

static void on_folder(void *ctx, const struct error *err)
{
    struct e2b_file *file = ctx;

    if (err->num < 0 && err->num != -EEXIST && err->num != -EBUSY)
        e2b_file_fail(file, err);
    else
        e2b_file_next(file, begin_move);
}

static int begin_folder(struct e2b_file *file, struct error *err)
{
    static const struct done_events events = {.done = on_folder};
    char folder[LIMIT_PATH_BYTES + 1];

    str_copy(folder, sizeof(folder), file->to);
    *strrchr(folder, '/') = '\0';
    return box_mkdir(file->box, folder, 0755, &events, file, &file->op, err);
}

/* A source that is missing is reported before a folder is made for it. */
static void on_source(void *ctx, const struct error *err)
{
    struct e2b_file *file = ctx;

    if (err->num < 0)
        e2b_file_fail(file, err);
    else
        e2b_file_next(file, begin_folder);
}

static void on_source_entry(void *ctx, const struct box_entry *entry)
{
    (void)ctx;
    (void)entry;
}

static int begin_source(struct e2b_file *file, struct error *err)
{
    static const struct list_events events = {.entry = on_source_entry, .done = on_source};

    return box_stat(file->box, file->path, &events, file, &file->op, err);
}

static void move(struct e2b_file *file)
{
    file->free = free_json;
    e2b_file_start(file, begin_source);
}

/* ---- Remove: what is not there is removed already ---- */

static void on_removed(void *ctx, const struct error *err)
{
    struct e2b_file *file = ctx;

    if (err->num < 0 && err->num != -ENOENT) {
        e2b_file_fail(file, err);
        return;
    }
    e2b_metadata_moved(file->session, file->path, NULL);
    e2b_file_done(file, json_object());
}

static int begin_remove(struct e2b_file *file, struct error *err)
{
    static const struct done_events events = {.done = on_removed};

    return box_remove(file->box, file->path, true, &events, file, &file->op, err);
}

static void remove_path(struct e2b_file *file)
{
    e2b_file_start(file, begin_remove);
}

/* ---- ListDir ---- */

struct listed {
    char *path;
    json_t *entry;
};
struct listing {
    struct listed *entries;
    size_t count, capacity, bytes; /* bytes: of paths */
    json_t *found;                 /* the reply, in order */
    bool is_broken, is_too_long;
    uint64_t depth;
};

static void list_free(struct e2b_file *file)
{
    struct listing *listing = file->own;

    for (size_t i = 0; i < listing->count; i++) {
        free(listing->entries[i].path);
        json_decref(listing->entries[i].entry);
    }
    json_decref(listing->found);
    free(listing->entries);
    free(listing);
}

static bool listing_grow(struct listing *listing)
{
    size_t capacity = listing->capacity ? 2 * listing->capacity : 64;
    struct listed *entries = realloc(listing->entries, capacity * sizeof(*entries));

    if (!entries)
        return false;
    listing->entries = entries;
    listing->capacity = capacity;
    return true;
}

static void on_listed(void *ctx, const struct box_entry *entry)
{
    struct e2b_file *file = ctx;
    struct listing *listing = file->own;
    char path[2 * LIMIT_PATH_BYTES + 2];
    struct listed *at;

    if (listing->is_too_long)
        return;
    if (listing->is_broken || (listing->count == listing->capacity && !listing_grow(listing))) {
        listing->is_broken = true;
        return;
    }
    str_format(path, sizeof(path), "%s/%s", file->path, entry->name);
    listing->bytes += strlen(path);
    if (listing->count == LIST_MAX || listing->bytes > LIST_PATHS_MAX) {
        listing->is_too_long = true;
        return;
    }
    at = &listing->entries[listing->count];
    *at = (struct listed){.path = strdup(path), .entry = e2b_entry(file->session, entry, path)};
    listing->count++;
    listing->is_broken = !at->path || !at->entry;
}

/* Folders before what is in them, each folder's entries by their bytes. */
static int by_path(const void *a, const void *b)
{
    const unsigned char *one = (const unsigned char *)((const struct listed *)a)->path;
    const unsigned char *two = (const unsigned char *)((const struct listed *)b)->path;

    while (*one && *one == *two) {
        one++;
        two++;
    }
    if (*one == '/' || *two == '/')
        return (*one == '/' ? 1 : *one) - (*two == '/' ? 1 : *two);
    return *one - *two;
}

static void on_list_resolved(struct e2b_file *file)
{
    struct listing *listing = file->own;

    e2b_file_done(file, json_pack("{s:O}", "entries", listing->found));
}

static void on_list_done(void *ctx, const struct error *err)
{
    struct e2b_file *file = ctx;
    struct listing *listing = file->own;
    json_t *entries = json_array();

    if (err->num < 0 || listing->is_broken || listing->is_too_long) {
        struct error own = *err;

        if (listing->is_too_long || err->num == -E2BIG)
            error_set(&own, -E2BIG, ERROR_QUOTA,
                      "'%s' has more entries than one call lists (%d, with paths of %llu MB "
                      "together): list its folders one by one, or fewer levels",
                      file->path, LIST_MAX, LIST_PATHS_MAX / MIB);
        else if (err->num == 0)
            error_memory(&own);
        json_decref(entries);
        e2b_file_fail(file, &own);
        return;
    }
    if (listing->count > 0)
        qsort(listing->entries, listing->count, sizeof(*listing->entries), by_path);
    for (size_t i = 0; i < listing->count; i++)
        json_array_append(entries, listing->entries[i].entry);
    listing->found = entries;
    e2b_links_resolve(file, entries, on_list_resolved);
}

static int begin_list(struct e2b_file *file, struct error *err)
{
    static const struct list_events events = {.entry = on_listed, .done = on_list_done};
    struct listing *listing = file->own;

    return box_list(file->box, file->path, (unsigned)listing->depth, &events, file, &file->op, err);
}

static void list_dir(struct e2b_file *file)
{
    struct listing *listing = calloc(1, sizeof(*listing));
    int64_t depth = e2b_number(file->request, "depth", NULL);

    if (!listing) {
        front_fail_memory(file->http);
        e2b_file_free(file);
        return;
    }
    listing->depth = depth < 1 ? 1 : MIN((uint64_t)depth, (uint64_t)LIST_DEPTH_MAX);
    file->own = listing;
    file->free = list_free;
    e2b_file_start(file, begin_list);
}

/* ---- methods ---- */

static const struct {
    const char *name;
    const char *path, *to; /* members that are paths */
    void (*handle)(struct e2b_file *file);
} methods[] = {
    {"Stat", "path", NULL, stat_entry},    {"ListDir", "path", NULL, list_dir},
    {"MakeDir", "path", NULL, make_dir},   {"Move", "source", "destination", move},
    {"Remove", "path", NULL, remove_path},
};

static const struct {
    const char *name;
    void (*handle)(struct door_call *call, struct session *session, json_t *request);
} watches[] = {
    {"CreateWatcher", e2b_watcher_new},
    {"GetWatcherEvents", e2b_watcher_events},
    {"RemoveWatcher", e2b_watcher_remove},
};

/* Takes the request over. */
static void run(struct door_call *call, struct session *session, size_t method, json_t *request)
{
    struct e2b_file *file = e2b_file_new(call, session);
    struct error err = {0};
    int r;

    if (!file) {
        json_decref(request);
        return;
    }
    file->request = request;
    r = e2b_file_path(e2b_text(request, methods[method].path, NULL), file->path, &err);
    if (r == 0 && methods[method].to)
        r = e2b_file_path(e2b_text(request, methods[method].to, NULL), file->to, &err);
    if (r < 0)
        e2b_file_fail(file, &err);
    else
        methods[method].handle(file);
}

static void watch(struct door_call *call, struct session *session)
{
    json_t *request = e2b_stream_request(call);

    if (request)
        e2b_watch_dir(call, session, request);
    json_decref(request);
}

void e2b_filesystem_call(struct door_call *call)
{
    const char *name = http_param(call->http, "method");
    struct session *session = e2b_session(call);
    const char *code;
    struct error err = {0};
    json_t *request;

    if (!session)
        return;
    if (!e2b_user_of(call->http, &code, &err)) {
        if (str_equal(name, "WatchDir"))
            e2b_stream_fail(call->http, code, err.text);
        else
            e2b_unary_fail(call->http, code, err.text);
        return;
    }
    if (str_equal(name, "WatchDir")) {
        watch(call, session);
        return;
    }
    request = e2b_unary_request(call);
    if (!request)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        if (str_equal(methods[i].name, name)) {
            run(call, session, i, request);
            return;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(watches); i++) {
        if (str_equal(watches[i].name, name)) {
            watches[i].handle(call, session, request);
            json_decref(request);
            return;
        }
    }
    json_decref(request);
    e2b_unary_fail(call->http, "unimplemented", "filesystem.Filesystem has no such method here");
}
