/*
 * freeze.c - a box whose processes stand still: the frames that ask for it, and the box's clock,
 * which stands still too.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "runtime/box/box_private.h"

uint64_t box_now_ms(const struct box *box)
{
    return (box->clock_stopped_ms ? box->clock_stopped_ms : clock_now_ms()) - box->clock_lag_ms;
}

void box_clock_stop(struct box *box)
{
    if (!box->clock_stopped_ms)
        box->clock_stopped_ms = clock_now_ms();
    if (box->wake)
        box->wake(box->wake_ctx);
}

void box_clock_start(struct box *box)
{
    if (box->clock_stopped_ms)
        box->clock_lag_ms += clock_now_ms() - box->clock_stopped_ms;
    box->clock_stopped_ms = 0;
    if (box->wake)
        box->wake(box->wake_ctx);
}

bool box_is_adopting(const struct box *box)
{
    return box->adoption;
}

static int ask(struct box *box, enum frame_type type, const struct done_events *events, void *ctx,
               struct error *err)
{
    struct call *call = box_call_new(box, CALL_CHANGE, ctx, err);
    int r;

    if (!call)
        return err && err->num < 0 ? err->num : -EPIPE;
    call->on.change = events;
    r = box_send(box, type, call->id, NULL, 0);
    if (r == 0)
        return 0;
    box_call_free(box, call);
    return error_set(err, r, ERROR_BOX_LOST, "the box was lost: it accepts no more frames");
}

int box_freeze(struct box *box, const struct done_events *events, void *ctx, struct error *err)
{
    return ask(box, FRAME_FREEZE, events, ctx, err);
}

int box_thaw(struct box *box, const struct done_events *events, void *ctx, struct error *err)
{
    return ask(box, FRAME_THAW, events, ctx, err);
}

static struct call *next_file(struct box *box, uint32_t highest)
{
    struct call *call = box->calls;

    while (call && (call->kind == CALL_EXEC || call->kind == CALL_WATCH || call->is_cancelled ||
                    call->id > highest))
        call = call->next;
    return call;
}

void box_fail_files(struct box *box, const struct error *err)
{
    uint32_t highest = box->next_id; /* a callback may begin another one */
    struct call *call;

    while ((call = next_file(box, highest))) {
        struct call ended = *call;

        box_cancel(box, call->id);
        file_failed(&ended, err);
    }
}
