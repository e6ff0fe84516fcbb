/*
 * adopt.c - takes over a box whose earlier host process is gone: lists what runs in it, and
 * continues it.
 *
 * Theory of operation. HELLO carries a generation; the warden answers with one INVENTORY for each
 * command, with that generation in it, then WELCOME. Before that any frame may arrive: messages to
 * the earlier host, part of a listing, frames for unknown ids, even the answer to a HELLO of
 * another host that came in between and is gone too. All frames are dropped that are not an
 * INVENTORY or the WELCOME of this generation. From the WELCOME on the warden sends only what this
 * host asked for.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "runtime/box/box_private.h"

/* this many run, and this many are kept after they ended */
#define FOUND_MAX (2 * (LIMIT_COMMANDS + LIMIT_CONTEXTS))

struct adoption {
    uint32_t generation;
    const struct adopt_events *events;
    void *ctx;
    struct {
        struct box_found about;
        bool has_input_ended;
    } found[FOUND_MAX];
    size_t count;
    size_t current; /* index of the entry whose found() is being called; count: none */
};

int box_hello(struct box *box, uint32_t generation, const struct adopt_events *events, void *ctx,
              struct error *err)
{
    struct adoption *adoption;
    int r;

    if (box->is_lost) {
        if (err)
            *err = box->lost;
        return box->lost.num;
    }
    if (box->adoption || box->calls || box->next_id)
        return error_set(err, -EBUSY, ERROR_ENGINE, "the box is in use already");
    adoption = calloc(1, sizeof(*adoption));
    if (!adoption)
        return error_memory(err);
    adoption->generation = generation;
    adoption->events = events;
    adoption->ctx = ctx;
    r = box_send(box, FRAME_HELLO, generation, NULL, 0);
    if (r < 0) {
        free(adoption);
        return error_set(err, r, ERROR_BOX_LOST, "the box was lost: it accepts no more frames");
    }
    box->adoption = adoption;
    box->hello_deadline_ms = box_now_ms(box) + BRINGUP_PATIENCE_MS;
    return 0;
}

/* Continues an adopted command: its output at `offset`, its input after the bytes it has. */
static void call_continue(struct box *box, struct call *call, const struct box_found *found,
                          bool has_input_ended, const uint64_t offset[BOX_STREAMS])
{
    uint64_t now_ms = box_now_ms(box);

    for (int i = 0; i < BOX_STREAMS; i++) {
        call->in[i].received = offset[i];
        call->in[i].taken = offset[i];
        call->in[i].acked = offset[i];
    }
    call->sent = found->input;
    /* How many input bytes wait there comes with an ACK; until then assume the maximum. */
    call->acked = found->input > WIRE_STREAM_WINDOW ? found->input - WIRE_STREAM_WINDOW : 0;
    call->has_ended = has_input_ended || found->is_cell;
    call->is_pty = found->is_pty;
    call->is_cell = found->is_cell;
    call->kernel = found->kernel;
    call->pid = found->pid;
    call->is_adopted = true;
    call->has_started = found->has_started;
    if (found->has_exited)
        call->kill_deadline_ms =
            now_ms + BRINGUP_PATIENCE_MS; /* the warden knows the end, so it must report it soon */
    else if (!found->has_started && !found->is_cell)
        call->start_deadline_ms = now_ms + BRINGUP_PATIENCE_MS;
    else if (call->timeout_ms)
        call->deadline_ms = now_ms + call->timeout_ms;
}

/* The entry whose found() is being called, if it has this id. */
static const struct box_found *being_found(struct box *box, uint32_t id, bool is_kernel,
                                           struct error *err)
{
    struct adoption *adoption = box->adoption;

    if (!adoption || adoption->current >= adoption->count ||
        adoption->found[adoption->current].about.id != id ||
        adoption->found[adoption->current].about.is_kernel != is_kernel ||
        box_call(box, id, CALL_EXEC)) {
        error_set(err, -EINVAL, ERROR_ENGINE, "there is no such command to adopt");
        return NULL;
    }
    return &adoption->found[adoption->current].about;
}

/*
 * Whether a cell's kernel came from the provider: not if it is listed here and was started by the
 * warden.
 */
static bool kernel_may_be_given(const struct adoption *adoption, uint32_t kernel)
{
    for (size_t i = 0; i < adoption->count; i++) {
        if (adoption->found[i].about.id == kernel)
            return adoption->found[i].about.from_zygote;
    }
    return true;
}

int box_adopt(struct box *box, uint32_t id, const uint64_t offset[BOX_STREAMS], uint64_t timeout_ms,
              const struct exec_events *events, void *ctx, struct error *err)
{
    struct adoption *adoption = box->adoption;
    struct message_resume resume = {.offset = {offset[0], offset[1], offset[2]}};
    const struct box_found *found = being_found(box, id, false, err);
    uint8_t payload[8 * MESSAGE_STREAMS];
    struct call *call;
    int r;

    if (!found)
        return -EINVAL;
    for (int i = 0; i < BOX_STREAMS; i++) {
        if (offset[i] < found->first[i] || offset[i] > found->written[i])
            return error_set(err, -ERANGE, ERROR_ENGINE,
                             "output from byte %llu on is not available any more, or not yet",
                             (unsigned long long)offset[i]);
    }
    call = box_call_add(box, CALL_EXEC, id, ctx, err);
    if (!call)
        return -ENOMEM;
    call->on.exec = events;
    call->timeout_ms = timeout_ms;
    call_continue(box, call, found, adoption->found[adoption->current].has_input_ended, offset);
    call->from_zygote = found->is_cell && kernel_may_be_given(adoption, found->kernel);
    if (found->is_cell)
        cell_expect_next(box, found->kernel);
    message_resume_pack(&resume, payload, sizeof(payload));
    r = box_send(box, FRAME_RESUME, id, payload, sizeof(payload));
    if (r < 0) {
        box_call_free(box, call);
        return error_set(err, r, ERROR_BOX_LOST, "the box was lost: it accepts no more frames");
    }
    return 0;
}

int box_adopt_kernel(struct box *box, uint32_t id, const struct exec_events *events, void *ctx,
                     struct error *err)
{
    static const uint64_t nothing[BOX_STREAMS];
    const struct box_found *found = being_found(box, id, true, err);
    struct call *call;

    if (!found)
        return -EINVAL;
    call = box_call_add(box, CALL_EXEC, id, ctx, err);
    if (!call)
        return -ENOMEM;
    call->on.exec = events;
    call_continue(box, call, found, true, nothing);
    call->is_kernel = true;
    call->from_zygote = found->from_zygote;
    if (kernel_name(box, call) < 0) {
        box_call_free(box, call);
        return error_set(err, -EPIPE, ERROR_BOX_LOST,
                         "the box was lost: it accepts no more frames");
    }
    return 0;
}

/*
 * Whether an entry is plausible: a command, a kernel without streams, or a cell of a listed kernel.
 */
static bool inventory_makes_sense(const struct message_inventory *inventory)
{
    uint32_t flags = inventory->flags;
    uint32_t kind = flags & ~(INVENTORY_STARTED | INVENTORY_EXITED);

    if (kind != 0 && kind != INVENTORY_PTY && kind != INVENTORY_CELL && kind != INVENTORY_KERNEL &&
        kind != (INVENTORY_KERNEL | INVENTORY_GIVEN) &&
        kind != (INVENTORY_KERNEL | INVENTORY_FORKED))
        return false;
    if ((kind == INVENTORY_CELL) != (inventory->kernel != 0) ||
        (kind != INVENTORY_CELL && inventory->read[2] > 0) || inventory->input_received > INT64_MAX)
        return false;
    return !(kind & INVENTORY_KERNEL) || (inventory->read[0] == 0 && inventory->read[1] == 0);
}

static bool on_inventory(struct adoption *adoption, const struct frame *frame)
{
    struct message_inventory inventory;
    struct box_found *found;

    if (message_inventory_unpack(frame, &inventory) < 0)
        return false;
    if (inventory.generation != adoption->generation)
        return true; /* the answer to an earlier host */
    if (frame->id == 0 || adoption->count == FOUND_MAX || !inventory_makes_sense(&inventory))
        return false;
    for (size_t i = 0; i < adoption->count; i++) {
        if (adoption->found[i].about.id == frame->id)
            return false;
    }
    found = &adoption->found[adoption->count].about;
    *found = (struct box_found){
        .id = frame->id,
        .has_started = inventory.flags & INVENTORY_STARTED,
        .has_exited = inventory.flags & INVENTORY_EXITED,
        .is_pty = inventory.flags & INVENTORY_PTY,
        .is_kernel = inventory.flags & INVENTORY_KERNEL,
        .from_zygote = inventory.flags & INVENTORY_GIVEN,
        .is_forked = inventory.flags & INVENTORY_FORKED,
        .is_cell = inventory.flags & INVENTORY_CELL,
        .kernel = inventory.kernel,
        .pid = inventory.pid,
        .start_ns = inventory.start_ns,
        .input = inventory.input_received,
    };
    for (int i = 0; i < BOX_STREAMS; i++) {
        /* acked <= read was checked when it was unpacked */
        if (inventory.read[i] - inventory.acked[i] > WIRE_STREAM_WINDOW ||
            inventory.read[i] > INT64_MAX)
            return false;
        found->first[i] = inventory.acked[i];
        found->written[i] = inventory.read[i];
    }
    adoption->found[adoption->count++].has_input_ended = inventory.input_ended;
    adoption->current = adoption->count;
    return true;
}

/* The caller did not adopt it: kills it and lets the warden forget it without a report. */
static void turn_out(struct box *box, const struct box_found *found)
{
    uint8_t payload[4];

    message_number_pack(SIGKILL, payload, sizeof(payload));
    if (!found->has_exited)
        box_send(box, FRAME_SIGNAL, found->id, payload, sizeof(payload));
    box_send(box, FRAME_FORGET, found->id, NULL, 0);
}

static bool on_welcome(struct box *box, const struct frame *frame)
{
    struct adoption *adoption = box->adoption;
    const struct adopt_events *events = adoption->events;
    void *ctx = adoption->ctx;
    uint32_t highest;

    if (frame->id != adoption->generation)
        return true; /* the answer to an earlier host */
    if (message_number_unpack(frame, &highest) < 0 || highest > UINT32_MAX / 2)
        return false; /* no ids would be left */
    for (size_t i = 0; i < adoption->count; i++) {
        if (adoption->found[i].about.id > highest)
            return false;
    }
    box->next_id = highest;
    for (size_t i = 0; i < adoption->count; i++) {
        const struct box_found *found = &adoption->found[i].about;

        adoption->current = i;
        events->found(ctx, found);
        if (!box_call(box, found->id, CALL_EXEC))
            turn_out(box, found);
    }
    if (box->broken)
        return false; /* sending failed: done() reports it */
    box->adoption = NULL;
    free(adoption);
    events->done(ctx, &(struct error){0});
    return true;
}

bool adopt_frame(struct box *box, const struct frame *frame)
{
    if (frame->type == FRAME_INVENTORY)
        return on_inventory(box->adoption, frame);
    if (frame->type == FRAME_WELCOME)
        return on_welcome(box, frame);
    return true;
}

void adopt_tick(struct box *box, uint64_t now_ms)
{
    if (box->adoption && now_ms >= box->hello_deadline_ms)
        box_break(box, "its warden did not answer its new host");
}

void adopt_lose(struct box *box)
{
    struct adoption *adoption = box->adoption;

    if (!adoption)
        return;
    box->adoption = NULL;
    adoption->events->done(adoption->ctx, &box->lost);
    free(adoption);
}
