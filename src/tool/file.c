/*
 * file.c - reads or writes a whole file in the session's box for a tool call; see tool_private.h.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "observe/bus.h"
#include "tool/file_path.h"
#include "tool/tool_private.h"

static void finish(struct tool_call *call, const struct error *err)
{
    struct error told = {0};

    call->op = 0;
    if (err && err->num < 0)
        file_error(err, call->path, &told);
    call->file_done(call, told.num < 0 ? &told : NULL);
}

static void on_box(void *ctx, struct box *box, const struct error *err)
{
    struct tool_call *call = ctx;

    call->waits_for_box = false;
    call->box = box;
    if (!box)
        call->file_done(call, err);
    else
        call->with_box(call, box);
}

static void need_box(struct tool_call *call,
                     void (*with_box)(struct tool_call *call, struct box *box),
                     void (*done)(struct tool_call *call, const struct error *err))
{
    call->with_box = with_box;
    call->file_done = done;
    call->waits_for_box = true;
    session_box(call->session, on_box, call);
}

/* ---- writing ---- */

static void feed(void *ctx)
{
    struct tool_call *call = ctx;

    while (call->op && call->data_at < call->data_length) {
        long taken = box_put_data(call->box, call->op, call->data + call->data_at,
                                  call->data_length - call->data_at);

        if (taken <= 0)
            return; /* more() or done() follows */
        call->data_at += (size_t)taken;
    }
    if (call->op && call->is_put) {
        call->is_put = false; /* the end is sent once */
        box_put_end(call->box, call->op);
    }
}

static void on_put_done(void *ctx, const struct error *err)
{
    finish(ctx, err);
}

static void put_in_box(struct tool_call *call, struct box *box)
{
    static const struct put_events events = {.done = on_put_done, .more = feed};
    struct error err = {0};

    /* Mode 0 keeps mode and owner of the replaced file. */
    if (box_put(box, &(struct put_spec){.path = call->path}, &events, call, &call->op, &err) < 0) {
        call->op = 0;
        finish(call, &err);
        return;
    }
    call->is_put = true;
    feed(call);
}

void call_put(struct tool_call *call, const char *data, size_t length,
              void (*done)(struct tool_call *call, const struct error *err))
{
    call->data = data;
    call->data_length = length;
    call->data_at = 0;
    need_box(call, put_in_box, done);
}

/* ---- reading ---- */

static void too_large(struct tool_call *call)
{
    struct error err = {0};

    box_cancel(call->box, call->op);
    error_set(&err, -EFBIG, ERROR_TOO_LARGE, "the file is larger than %llu MB",
              LIMIT_EDIT_BYTES / MIB);
    finish(call, &err);
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct tool_call *call = ctx;
    struct error err = {0};

    if (length > LIMIT_EDIT_BYTES - MIN(call->file.length, LIMIT_EDIT_BYTES)) {
        too_large(call);
        return length;
    }
    if (session_manager_hold(call->tools->manager, call->caller.who.tenant, 2 * length, &err) < 0) {
        box_cancel(call->box, call->op);
        call->op = 0;
        call->file_done(call, &err);
        return length;
    }
    call->held += 2 * length;
    if (buf_append(&call->file, data, length) < 0)
        too_large(call);
    return length;
}

static void on_get_done(void *ctx, const struct error *err)
{
    finish(ctx, err);
}

static void get_from_box(struct tool_call *call, struct box *box)
{
    static const struct get_events events = {.data = on_data, .done = on_get_done};
    struct error err = {0};

    buf_clear(&call->file);
    if (box_get(box, call->path, 0, 0, &events, call, &call->op, &err) < 0) {
        call->op = 0;
        finish(call, &err);
    }
}

void call_get(struct tool_call *call, void (*done)(struct tool_call *call, const struct error *err))
{
    need_box(call, get_from_box, done);
}

void call_reply_file(struct tool_call *call, const char *hint)
{
    bus_publish(
        session_manager_bus(call->tools->manager), EVENT_FILE_CHANGED,
        session_tenant(call->session), call->reply.session_id,
        json_pack("{s:s, s:s, s:s}", "kind", "written", "path", call->path, "type", "file"));
    call->reply.kind = TOOL_REPLY_FILE;
    call->reply.file_path = call->path;
    call->reply.bytes_written = call->data_length;
    call_set_hint(&call->reply, hint);
    call_reply(call);
}
