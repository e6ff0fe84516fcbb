/* http_dialog.c - conversations of the legacy era: their ids, their owners, their end. */
#include <errno.h>
#include <string.h>

#include "api/mcp/mcp_http_private.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/str.h"

static bool is_same(const struct principal *a, const struct principal *b)
{
    return a->is_local == b->is_local && str_equal(a->tenant, b->tenant) &&
           str_equal(a->key, b->key);
}

void mcp_dialog_end(struct mcp_http *door, struct mcp_dialog *dialog, const struct caller *caller)
{
    for (struct mcp_stream *stream = door->streams, *next; stream; stream = next) {
        next = stream->next;
        if (stream->dialog == dialog)
            mcp_stream_free(stream);
    }
    while (dialog->kept)
        mcp_stream_free(dialog->kept);
    LIST_UNLINK(door->dialogs, dialog);
    door->dialog_count--;
    if (dialog->own[0] && !door->is_closing) /* a broker that stops leaves its sessions alive */
        door->spec.ops->left(door->spec.host, &dialog->who, caller, dialog->own, NULL, NULL);
    free(dialog);
}

/* Makes room for one more conversation of this key: ends the one that was idle longest. */
static bool make_room(struct mcp_http *door, const struct caller *caller)
{
    struct mcp_dialog *oldest = NULL;
    size_t count = 0;

    for (struct mcp_dialog *dialog = door->dialogs; dialog; dialog = dialog->next) {
        if (!is_same(&dialog->who, &caller->who))
            continue;
        count++;
        if ((!oldest || dialog->used_ms <= oldest->used_ms) && dialog->live_count == 0)
            oldest = dialog;
    }
    if (count < LIMIT_MCP_KEY_SESSIONS)
        return true;
    if (oldest)
        mcp_dialog_end(door, oldest, caller);
    return oldest;
}

int mcp_dialog_new(struct mcp_http *door, const struct caller *caller, struct mcp_dialog **ret,
                   unsigned *ret_status, struct error *err)
{
    struct mcp_dialog *dialog;
    int r;

    *ret_status = 429;
    if (!make_room(door, caller))
        return error_set(err, -EAGAIN, ERROR_TOO_MANY_SESSIONS,
                         "this key has %d conversations that are busy: end one of them (DELETE)",
                         LIMIT_MCP_KEY_SESSIONS);
    *ret_status = 503;
    if (door->dialog_count >= LIMIT_MCP_SESSIONS)
        return error_set(err, -EAGAIN, ERROR_TOO_MANY_SESSIONS,
                         "there are %d conversations already: try again later", LIMIT_MCP_SESSIONS);
    dialog = calloc(1, sizeof(*dialog));
    r = dialog ? id_make(dialog->id, "mcp") : -ENOMEM;
    if (r < 0) {
        free(dialog);
        return error_set(err, r, ERROR_ENGINE, "making an id for a conversation: %s", strerror(-r));
    }
    dialog->who = caller->who;
    dialog->used_ms = clock_now_ms();
    str_copy(dialog->version, sizeof(dialog->version), MCP_LEGACY_NEWEST);
    dialog->next = door->dialogs;
    door->dialogs = dialog;
    door->dialog_count++;
    *ret = dialog;
    return 0;
}

struct mcp_dialog *mcp_dialog_find(struct mcp_http *door, const struct principal *who,
                                   const char *id)
{
    for (struct mcp_dialog *dialog = door->dialogs; dialog; dialog = dialog->next) {
        if (str_equal(dialog->id, id) && is_same(&dialog->who, who)) {
            dialog->used_ms = clock_now_ms();
            return dialog;
        }
    }
    return NULL;
}

static struct mcp_stream *stream_in(struct mcp_stream *list, const struct mcp_dialog *dialog,
                                    uint64_t number)
{
    for (struct mcp_stream *stream = list; stream; stream = stream->next)
        if (stream->dialog == dialog && stream->number == number && stream->was_shown)
            return stream;
    return NULL;
}

struct mcp_stream *mcp_dialog_stream(struct mcp_http *door, const struct mcp_dialog *dialog,
                                     uint64_t number)
{
    struct mcp_stream *stream = stream_in(door->streams, dialog, number);

    return stream ? stream : stream_in(dialog->kept, dialog, number);
}

void mcp_dialog_trim(struct mcp_http *door, struct mcp_dialog *dialog)
{
    while (dialog->kept &&
           (dialog->kept_count > LIMIT_MCP_STREAMS || dialog->bytes > LIMIT_MCP_REPLAY ||
            door->bytes > LIMIT_MCP_REPLAY_ALL)) {
        struct mcp_stream *oldest = dialog->kept;

        while (oldest->next)
            oldest = oldest->next;
        mcp_stream_free(oldest);
    }
}

void mcp_dialogs_expire(struct mcp_http *door, uint64_t now_ms)
{
    if (now_ms < door->expire_ms)
        return;
    door->expire_ms = now_ms + MCP_IDLE_MS / 60;
    for (struct mcp_dialog *dialog = door->dialogs, *next; dialog; dialog = next) {
        next = dialog->next;
        if (dialog->live_count > 0)
            dialog->used_ms = now_ms;
        else if (now_ms - MIN(dialog->used_ms, now_ms) >= MCP_IDLE_MS)
            mcp_dialog_end(door, dialog, NULL);
    }
}
