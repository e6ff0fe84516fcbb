/*
 * watch.c - changes of a folder: WatchDir as a stream, and CreateWatcher, GetWatcherEvents,
 * RemoveWatcher for clients that ask again and again; see e2b.h.
 *
 * A watcher whose client does not ask keeps its events as text. One that has too much of it stops
 * watching, and its next caller is told that events are missing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"
#include "base/reactor.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/file_path.h"
#include "wire/file_message.h"

/* Events of one watcher whose entries are still asked for. */
#define WAITING_MAX 1000
#define WAITING_BYTES (64 * KIB)

struct e2b_watcher {
    struct e2b_watcher *next;
    struct e2b *e2b;
    struct session *session;
    struct box *box;
    uint32_t op;          /* 0: none */
    uint32_t entry_op;    /* what is asked about the first of `waiting`; 0: nothing */
    json_t *waiting;      /* events that get an entry, in order; NULL: those of this one get none */
    size_t waiting_bytes; /* of their names */
    char sandbox[ID_MAX], tenant[TENANT_MAX];
    char path[LIMIT_PATH_BYTES + 1];
    uint64_t number;   /* of one that is polled; 0: of a stream */
    struct buf events; /* polled: not fetched yet, as JSON with a comma behind each */
    bool waits_for_box;
    bool is_tree, was_renamed, is_dead;
    bool is_overfull;          /* polled: events are missing */
    struct http_request *http; /* that waits for the beginning; NULL: none */
    /* a stream */
    bool is_stream, has_started;
    struct front_stream stream;
    struct reactor *reactor;
    struct reactor_timer *timer, *limit; /* signs of life; the end that the client wants */
    uint64_t ping_ms;
};

static void watcher_free(struct e2b_watcher *watcher)
{
    if (watcher->number) {
        struct e2b_watcher **at = &watcher->e2b->watchers;

        while (*at != watcher)
            at = &(*at)->next;
        *at = watcher->next;
        watcher->e2b->watcher_count--;
    }
    if (watcher->waits_for_box)
        session_box_cancel(watcher->session, watcher);
    if (watcher->op)
        box_cancel(watcher->box, watcher->op);
    if (watcher->timer)
        watcher->reactor->ops->timer_remove(watcher->timer);
    if (watcher->entry_op)
        box_cancel(watcher->box, watcher->entry_op);
    if (watcher->limit)
        watcher->reactor->ops->timer_remove(watcher->limit);
    json_decref(watcher->waiting);
    buf_free(&watcher->events);
    free(watcher);
}

/* ---- events ---- */

static void ping_later(struct e2b_watcher *watcher)
{
    if (watcher->timer)
        watcher->reactor->ops->timer_set(watcher->timer, watcher->ping_ms);
}

/* Until its client asks. */
static void keep(struct e2b_watcher *watcher, json_t *event)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(E2B_CHANGES_MAX);

    if (watcher->is_overfull)
        return;
    if (event && text_of_json(event, FRONT_JSON, &text) == 0 && buf_append(&text, ",", 1) == 0 &&
        buf_append(&watcher->events, buf_text(&text), text.length) == 0)
        return;
    watcher->is_overfull = true;
    buf_free(&watcher->events);
}

/* Takes the event over. */
static void send(struct e2b_watcher *watcher, json_t *event)
{
    if (!watcher->is_stream) {
        keep(watcher, event);
        json_decref(event);
        return;
    }
    if (watcher->stream.text.length > E2B_PENDING_MAX / 2) {
        json_decref(event);
        watcher->stream.is_broken = true; /* the client does not read: it must not miss any */
    } else if (watcher->stream.is_over) {
        json_decref(event);
    } else {
        e2b_stream_send(&watcher->stream, json_pack("{s:o}", "filesystem", event));
    }
    ping_later(watcher);
    http_reply_more(watcher->stream.http);
}

/* Changes were lost, and the client has to know. */
static void lose(struct e2b_watcher *watcher)
{
    if (!watcher->is_stream) {
        watcher->is_overfull = true;
        buf_free(&watcher->events);
    } else if (!watcher->stream.is_over) {
        e2b_stream_end(&watcher->stream, "data_loss",
                       "changes of this folder were lost, because there were too many at once: "
                       "watch it anew");
        http_reply_more(watcher->stream.http);
    }
}

/* ---- entries of changed files, for clients that want them ---- */

static void next_waiting(struct e2b_watcher *watcher);

static const char *waiting_name(const struct e2b_watcher *watcher)
{
    return json_string_value(json_object_get(json_array_get(watcher->waiting, 0), "name"));
}

static void on_entry(void *ctx, const struct box_entry *entry)
{
    struct e2b_watcher *watcher = ctx;
    char path[2 * LIMIT_PATH_BYTES];

    str_format(path, sizeof(path), "%s/%s", watcher->path, waiting_name(watcher));
    json_object_set_new(json_array_get(watcher->waiting, 0), "entry",
                        e2b_entry(watcher->session, entry, path));
}

static void send_waiting(struct e2b_watcher *watcher)
{
    json_t *event = json_incref(json_array_get(watcher->waiting, 0));

    watcher->waiting_bytes -= strlen(waiting_name(watcher));
    json_array_remove(watcher->waiting, 0);
    send(watcher, event);
}

/* A file that is gone already has no entry: its event comes without. */
static void on_entry_done(void *ctx, const struct error *err)
{
    struct e2b_watcher *watcher = ctx;

    (void)err;
    watcher->entry_op = 0;
    send_waiting(watcher);
    next_waiting(watcher);
}

static bool has_entry(json_t *event)
{
    const char *type = json_string_value(json_object_get(event, "type"));

    return !str_equal(type, "EVENT_TYPE_REMOVE") && !str_equal(type, "EVENT_TYPE_RENAME");
}

static void next_waiting(struct e2b_watcher *watcher)
{
    static const struct list_events events = {.entry = on_entry, .done = on_entry_done};
    char path[2 * LIMIT_PATH_BYTES];
    struct error ignored = {0};

    while (json_array_size(watcher->waiting) > 0 && !watcher->entry_op) {
        str_format(path, sizeof(path), "%s/%s", watcher->path, waiting_name(watcher));
        if (has_entry(json_array_get(watcher->waiting, 0)) && !watcher->is_dead &&
            box_stat(watcher->box, path, &events, watcher, &watcher->entry_op, &ignored) == 0)
            return;
        watcher->entry_op = 0;
        send_waiting(watcher);
    }
}

static void tell(struct e2b_watcher *watcher, const char *type, const char *name)
{
    json_t *event = json_pack("{s:o, s:s}", "name", text_to_json(name, strlen(name)), "type", type);

    if (!event) {
        lose(watcher);
    } else if (!watcher->waiting) {
        send(watcher, event);
    } else if (json_array_size(watcher->waiting) >= WAITING_MAX ||
               watcher->waiting_bytes > WAITING_BYTES) {
        json_decref(event);
        lose(watcher);
    } else {
        json_array_append_new(watcher->waiting, event);
        watcher->waiting_bytes += strlen(json_string_value(json_object_get(event, "name")));
        if (!watcher->entry_op)
            next_waiting(watcher);
    }
}

/*
 * A name that appears without another one that vanished is a file that was replaced as a whole, as
 * uploads do it: for E2B's clients it was created, got its mode, and was written.
 */
static void on_changed(void *ctx, const struct box_change *change)
{
    static const char *const types[_CHANGE_KIND_MAX] = {
        [CHANGE_CREATED] = "EVENT_TYPE_CREATE",    [CHANGE_WRITTEN] = "EVENT_TYPE_WRITE",
        [CHANGE_REMOVED] = "EVENT_TYPE_REMOVE",    [CHANGE_RENAMED_FROM] = "EVENT_TYPE_RENAME",
        [CHANGE_RENAMED_TO] = "EVENT_TYPE_CREATE", [CHANGE_ATTRIBUTES] = "EVENT_TYPE_CHMOD",
    };
    struct e2b_watcher *watcher = ctx;
    bool is_upload = change->kind == CHANGE_RENAMED_TO && !watcher->was_renamed;

    watcher->was_renamed = change->kind == CHANGE_RENAMED_FROM;
    if (change->kind == CHANGE_OVERFLOW)
        lose(watcher);
    if (change->kind >= _CHANGE_KIND_MAX || !types[change->kind])
        return;
    tell(watcher, types[change->kind], change->name);
    if (!is_upload || change->is_folder)
        return;
    tell(watcher, types[CHANGE_ATTRIBUTES], change->name);
    tell(watcher, types[CHANGE_WRITTEN], change->name);
}

/* ---- the beginning ---- */

static void begin_fail(struct e2b_watcher *watcher, const struct error *err)
{
    struct error told = {0};

    file_error(err, watcher->path, &told);
    if (watcher->is_stream)
        e2b_stream_fail(watcher->http, e2b_code_of(&told), told.text);
    else
        e2b_unary_fail(watcher->http, e2b_code_of(&told), told.text);
    watcher->op = 0;
    watcher_free(watcher);
}

static void on_ready(void *ctx)
{
    struct e2b_watcher *watcher = ctx;
    char id[32];

    if (!watcher->http)
        return;
    if (watcher->is_stream) {
        watcher->has_started = true;
        watcher->http = NULL;
        e2b_stream_send(&watcher->stream, json_pack("{s:{}}", "start"));
        ping_later(watcher);
        if (watcher->limit)
            watcher->reactor->ops->timer_set(watcher->limit, e2b_timeout_ms(watcher->stream.http));
        front_stream_start(&watcher->stream, 200, e2b_stream_type(watcher->stream.http), NULL, -1);
        return;
    }
    str_format(id, sizeof(id), "w%llu", (unsigned long long)watcher->number);
    front_reply(ptr_take(&watcher->http), 200, json_pack("{s:s}", "watcherId", id));
}

static void on_done(void *ctx, const struct error *err)
{
    struct e2b_watcher *watcher = ctx;
    struct error none = {0};

    if (watcher->http) {
        if (err->num == 0)
            error_set(&none, -EIO, ERROR_ENGINE, "the watch ended before it began");
        begin_fail(watcher, err->num < 0 ? err : &none);
        return;
    }
    watcher->op = 0;
    watcher->is_dead = true;
    if (!watcher->is_stream) {
        watcher_free(watcher); /* its next caller learns that it does not exist */
        return;
    }
    if (err->num == 0 && session_state(watcher->session) < SESSION_ENDING)
        e2b_stream_end(&watcher->stream, NULL, NULL);
    else
        watcher->stream.is_broken = true;
    http_reply_more(watcher->stream.http);
}

static const struct watch_events watch_events = {
    .ready = on_ready, .changed = on_changed, .done = on_done};

/* A file cannot be watched: its folder can. */
static void on_kind(void *ctx, const struct box_entry *entry)
{
    struct e2b_watcher *watcher = ctx;

    watcher->is_dead = !S_ISDIR(entry->mode);
}

static void on_looked(void *ctx, const struct error *err)
{
    struct e2b_watcher *watcher = ctx;
    struct error own = {0};

    watcher->op = 0;
    if (err->num == 0 && watcher->is_dead)
        error_set(&own, -ENOTDIR, ERROR_PATH_NOT_FOLDER, "path '%s' is not a directory",
                  watcher->path);
    else if (err->num == 0)
        box_watch(watcher->box, watcher->path, watcher->is_tree, &watch_events, watcher,
                  &watcher->op, &own);
    if (err->num < 0 || own.num < 0)
        begin_fail(watcher, err->num < 0 ? err : &own);
}

static void on_box(void *ctx, struct box *box, const struct error *failed)
{
    static const struct list_events events = {.entry = on_kind, .done = on_looked};
    struct e2b_watcher *watcher = ctx;
    struct error err = {0};

    watcher->waits_for_box = false;
    watcher->box = box;
    if (!box)
        begin_fail(watcher, failed);
    else if (box_stat(box, watcher->path, &events, watcher, &watcher->op, &err) < 0)
        begin_fail(watcher, &err);
}

static void on_gone(void *ctx)
{
    watcher_free(ctx);
}

static struct e2b_watcher *watcher_new(struct door_call *call, struct session *session,
                                       json_t *request, struct error *err)
{
    struct e2b_watcher *watcher = calloc(1, sizeof(*watcher));

    if (!watcher) {
        error_memory(err);
        return NULL;
    }
    watcher->e2b = call->door;
    watcher->session = session;
    watcher->http = call->http;
    watcher->is_tree = e2b_flag(request, "recursive", NULL, false);
    if (e2b_flag(request, "includeEntry", "include_entry", false))
        watcher->waiting = json_array();
    str_copy(watcher->sandbox, sizeof(watcher->sandbox), session_id(session));
    str_copy(watcher->tenant, sizeof(watcher->tenant), session_tenant(session));
    if (e2b_file_path(e2b_text(request, "path", NULL), watcher->path, err) < 0) {
        json_decref(watcher->waiting);
        free(watcher);
        return NULL;
    }
    return watcher;
}

/* ---- WatchDir ---- */

static void on_fill(void *ctx)
{
    (void)ctx;
}

static void on_freed(void *ctx)
{
    watcher_free(ctx);
}

static void on_ping(void *ctx)
{
    struct e2b_watcher *watcher = ctx;

    if (!watcher->has_started || watcher->stream.is_over)
        return;
    e2b_stream_send(&watcher->stream, json_pack("{s:{}}", "keepalive"));
    ping_later(watcher);
    http_reply_more(watcher->stream.http);
}

static void on_limit(void *ctx)
{
    struct e2b_watcher *watcher = ctx;

    if (!watcher->stream.is_over)
        e2b_stream_end(&watcher->stream, "deadline_exceeded", "the time of this watch is over");
    http_reply_more(watcher->stream.http);
}

void e2b_watch_dir(struct door_call *call, struct session *session, json_t *request)
{
    struct error err = {0};
    struct e2b_watcher *watcher = watcher_new(call, session, request, &err);

    if (!watcher) {
        e2b_stream_fail(call->http, e2b_code_of(&err), err.text);
        return;
    }
    watcher->is_stream = true;
    watcher->reactor = call->front->reactor;
    watcher->ping_ms = e2b_ping_ms(call->http);
    watcher->timer = reactor_timer(watcher->reactor, on_ping, watcher);
    if (e2b_timeout_ms(call->http) > 0)
        watcher->limit = reactor_timer(watcher->reactor, on_limit, watcher);
    watcher->stream = (struct front_stream){.http = call->http,
                                            .text = BUF_INIT(E2B_PENDING_MAX),
                                            .fill = on_fill,
                                            .freed = on_freed,
                                            .ctx = watcher};
    if (!watcher->timer || (e2b_timeout_ms(call->http) > 0 && !watcher->limit)) {
        watcher_free(watcher);
        e2b_stream_fail(call->http, "internal", "out of memory");
        return;
    }
    watcher->waits_for_box = true;
    http_on_gone(call->http, on_gone, watcher);
    session_box(session, on_box, watcher);
}

/* ---- polled ---- */

static int check_count(const struct e2b *e2b, const struct session *session, struct error *err)
{
    unsigned count = 0;

    for (const struct e2b_watcher *at = e2b->watchers; at; at = at->next)
        count += str_equal(at->tenant, session_tenant(session));
    if (count < E2B_WATCHERS_EACH && e2b->watcher_count < E2B_WATCHERS_MAX)
        return 0;
    return error_set(err, -EAGAIN, ERROR_BUSY,
                     "%d folders are watched, which is the most of %s: stop some",
                     count < E2B_WATCHERS_EACH ? E2B_WATCHERS_MAX : E2B_WATCHERS_EACH,
                     count < E2B_WATCHERS_EACH ? "the server" : "a tenant");
}

void e2b_watcher_new(struct door_call *call, struct session *session, json_t *request)
{
    struct e2b *e2b = call->door;
    struct error err = {0};
    struct e2b_watcher *watcher = NULL;

    if (check_count(e2b, session, &err) == 0)
        watcher = watcher_new(call, session, request, &err);
    if (!watcher) {
        e2b_unary_error(call, &err);
        return;
    }
    watcher->events = BUF_INIT(E2B_CHANGES_MAX);
    watcher->number = ++e2b->next_watcher;
    watcher->next = e2b->watchers;
    e2b->watchers = watcher;
    e2b->watcher_count++;
    watcher->waits_for_box = true;
    http_on_gone(call->http, on_gone, watcher);
    session_box(session, on_box, watcher);
}

/* The caller's; NULL: it was answered. */
static struct e2b_watcher *find(struct door_call *call, struct session *session, json_t *request)
{
    const char *id = e2b_text(request, "watcherId", "watcher_id");
    struct e2b *e2b = call->door;
    uint64_t number = 0;

    if (id && id[0] == 'w' && str_to_u64(id + 1, &number) == 0)
        for (struct e2b_watcher *at = e2b->watchers; at; at = at->next)
            if (at->number == number && str_equal(at->sandbox, session_id(session)) && !at->http)
                return at;
    e2b_unary_fail(call->http, "not_found", "there is no such watcher");
    return NULL;
}

/* {"events":[...]}, and the watcher has none any more. */
static void send_events(struct e2b_file *file, struct e2b_watcher *watcher)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(E2B_CHANGES_MAX + KIB);
    size_t length = watcher && watcher->events.length > 0 ? watcher->events.length - 1 : 0;

    if (buf_append_text(&text, "{\"events\":[") < 0 ||
        (length > 0 && buf_append(&text, buf_text(&watcher->events), length) < 0) ||
        buf_append_text(&text, "]}\n") < 0)
        front_fail_memory(file->http);
    else
        http_reply_text(file->http, 200, TYPE_JSON, NULL, &text);
    if (watcher) {
        buf_free(&watcher->events);
        watcher->events = BUF_INIT(E2B_CHANGES_MAX);
    }
    file->op = 0;
    e2b_file_free(file);
}

static int begin_ask(struct e2b_file *file, struct error *err);

/* What has happened before this request is told in its reply: the box is asked something first. */
static void on_asked(void *ctx, const struct error *err)
{
    struct e2b_file *file = ctx;
    struct e2b_watcher *watcher = NULL;
    json_t *rounds = json_array_get(file->own, 1);
    struct error own = {0};

    (void)err;
    for (struct e2b_watcher *at = file->e2b->watchers; at; at = at->next)
        if (at->number == (uint64_t)json_integer_value(json_array_get(file->own, 0)))
            watcher = at;
    if (watcher && json_array_size(watcher->waiting) > 0 && json_integer_value(rounds) > 0) {
        json_integer_set(rounds, json_integer_value(rounds) - 1);
        e2b_file_next(file, begin_ask); /* entries are still asked for */
        return;
    }
    if (!watcher || !watcher->is_overfull) {
        send_events(file, watcher);
        return;
    }
    watcher_free(watcher);
    error_set(&own, -EOVERFLOW, ERROR_QUOTA,
              "more than %llu KB of events waited for this call, or too many came at once, so some "
              "are missing and the "
              "watcher was ended: make another one, and ask it more often",
              E2B_CHANGES_MAX / KIB);
    e2b_file_fail(file, &own);
}

static void ignore_entry(void *ctx, const struct box_entry *entry)
{
    (void)ctx;
    (void)entry;
}

static int begin_ask(struct e2b_file *file, struct error *err)
{
    static const struct list_events events = {.entry = ignore_entry, .done = on_asked};

    return box_stat(file->box, file->path, &events, file, &file->op, err);
}

static void free_number(struct e2b_file *file)
{
    json_decref(file->own);
}

void e2b_watcher_events(struct door_call *call, struct session *session, json_t *request)
{
    struct e2b_watcher *watcher = find(call, session, request);
    struct e2b_file *file = watcher ? e2b_file_new(call, session) : NULL;

    if (!file)
        return;
    str_copy(file->path, sizeof(file->path), watcher->path);
    file->own = json_pack("[I, i]", (json_int_t)watcher->number, WAITING_MAX);
    file->free = free_number;
    e2b_file_start(file, begin_ask);
}

void e2b_watcher_remove(struct door_call *call, struct session *session, json_t *request)
{
    struct e2b_watcher *watcher = find(call, session, request);

    if (!watcher)
        return;
    watcher_free(watcher);
    front_reply(call->http, 200, json_object());
}

void e2b_watchers_free(struct e2b *e2b)
{
    while (e2b->watchers)
        watcher_free(e2b->watchers);
}
