/*
 * files.c - reports changes below a path to a client of the WebSocket door: `ready`, then `change`.
 */
#include <errno.h>
#include <string.h>

#include "api/file_change.h"
#include "api/ws/ws_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/file_path.h"
#include "wire/file_message.h"

#define PENDING_MAX 1000 /* changes that the client has not read; further ones are lost */

struct watching {
    struct ws_subscription base;
    struct session *session;
    struct box *box;
    uint32_t op; /* 0: none is under way */
    bool waits_for_box, is_tree, is_over, is_lossy;
    json_t *id;      /* id of the message, until it is answered */
    json_t *pending; /* array of {"event", "data"} */
    char path[LIMIT_PATH_BYTES + 1];
};

static void watching_free(struct ws_subscription *subscription, bool is_clean)
{
    struct watching *watching = (struct watching *)subscription;

    (void)is_clean;
    if (watching->waits_for_box)
        session_box_cancel(watching->session, watching);
    if (watching->op)
        box_cancel(watching->box, watching->op);
    json_decref(watching->id);
    json_decref(watching->pending);
    free(watching);
}

static json_t *change_json(const char *kind, const char *path, bool is_folder)
{
    return json_pack("{s:s, s:o, s:s}", "kind", kind, "path", text_to_json(path, strlen(path)),
                     "type", is_folder ? "folder" : "file");
}

static enum ws_more watching_more(struct ws_subscription *subscription)
{
    struct watching *watching = (struct watching *)subscription;
    json_t *change = json_array_get(watching->pending, 0);

    if (change) {
        ws_event(subscription, NULL, "change", json_incref(change));
        json_array_remove(watching->pending, 0);
        return WS_MORE;
    }
    if (watching->is_lossy) {
        watching->is_lossy = false;
        ws_event(subscription, NULL, "change",
                 change_json(file_change_name(CHANGE_OVERFLOW), watching->path, true));
        return WS_MORE;
    }
    return watching->is_over ? WS_OVER : WS_WAITS;
}

static void on_ready(void *ctx)
{
    struct watching *watching = ctx;
    json_t *id = ptr_take(&watching->id);

    ws_reply(watching->base.peer, id,
             json_pack("{s:I, s:o}", "subscription", (json_int_t)watching->base.number, "path",
                       text_to_json(watching->path, strlen(watching->path))));
    json_decref(id);
}

static void on_changed(void *ctx, const struct box_change *change)
{
    struct watching *watching = ctx;
    char path[2 * LIMIT_PATH_BYTES + 2];
    const char *kind = file_change_name(change->kind);

    if (!kind)
        return;
    str_format(path, sizeof(path), "%s%s%s", watching->path, change->name[0] ? "/" : "",
               change->name);
    if (json_array_size(watching->pending) >= PENDING_MAX ||
        json_array_append_new(watching->pending, change_json(kind, path, change->is_folder)) < 0)
        watching->is_lossy = true;
    if (change->kind != CHANGE_OVERFLOW)
        file_change_publish(watching->session, kind, path, change->is_folder);
    ws_ready(&watching->base);
}

/* The watch never began: answers the message with the error. */
static void fail(struct watching *watching, const struct error *from)
{
    struct ws_peer *peer = watching->base.peer;
    json_t *id = ptr_take(&watching->id);
    struct error err = {0};

    if (from->num < 0)
        file_error(from, watching->path, &err);
    else
        error_set(&err, -EIO, ERROR_ENGINE, "the watch ended before it began");
    ws_drop(&watching->base, false);
    ws_fail(peer, id, &err, NULL);
    json_decref(id);
}

static void on_done(void *ctx, const struct error *err)
{
    struct watching *watching = ctx;

    watching->op = 0;
    if (watching->id) {
        fail(watching, err);
        return;
    }
    watching->is_over = true;
    ws_ready(&watching->base);
}

static void on_box(void *ctx, struct box *box, const struct error *failed)
{
    static const struct watch_events events = {
        .ready = on_ready, .changed = on_changed, .done = on_done};
    struct watching *watching = ctx;
    struct error err = {0};

    watching->waits_for_box = false;
    watching->box = box;
    if (!box) {
        fail(watching, failed);
    } else if (box_watch(box, watching->path, watching->is_tree, &events, watching, &watching->op,
                         &err) < 0) {
        watching->op = 0;
        fail(watching, &err);
    }
}

/* Needs the same scope as over REST. */
static bool may_watch(struct ws_request *request, struct error *err)
{
    const struct principal *who = &request->peer->caller.who;

    if (who->is_local || who->scopes & SCOPE_BIT(SCOPE_FILES))
        return true;
    error_set(err, -EPERM, ERROR_FORBIDDEN, "this key does not have the scope 'files'");
    return false;
}

void ws_subscribe_files(struct ws_request *request)
{
    json_t *path = json_object_get(request->body, "path");
    const char *text = path ? json_string_value(path) : "";
    struct watching *watching;
    struct session *session;
    struct error err = {0};

    if (!ws_find_session(request, false, &session))
        return;
    watching = calloc(1, sizeof(*watching));
    if (watching) {
        *watching = (struct watching){
            .base = {.more = watching_more, .free = watching_free},
            .session = session,
            .is_tree = json_is_true(json_object_get(request->body, "recursive")),
            .id = json_incref(request->id ? request->id : json_null()),
            .pending = json_array(),
        };
    }
    if (!watching || !watching->pending)
        error_memory(&err);
    else if (may_watch(request, &err) &&
             file_path_for_rest(text, strlen(text), watching->path, &err) == 0)
        ws_subscribe(request->peer, &watching->base, &err);
    if (err.num < 0) {
        if (watching)
            watching_free(&watching->base, false);
        ws_fail(request->peer, request->id, &err, json_pack("{s:s}", "field", "path"));
        return;
    }
    watching->waits_for_box = true;
    session_box(session, on_box, watching);
}
