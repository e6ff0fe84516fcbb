/* cells.c - kernels and cells in a box, the host's side: what differs from commands. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "runtime/box/box_private.h"
#include "sandbox/guest_stage.h"

#define EXITED_FLAGS                                                                      \
    (EXITED_DISK_FULL | EXITED_MEMORY_WATCHDOG | EXITED_HAS_OUTPUT | EXITED_KERNEL_DIED | \
     EXITED_STATUS_EXTERNAL)

/* ---- kernels ---- */

int box_kernel(struct box *box, const struct exec_spec *spec, const struct exec_events *events,
               void *ctx, uint32_t *ret_id, struct error *err)
{
    struct call *call;
    int r;

    if (spec->stdin_open || spec->is_pty || spec->ends_box)
        return error_set(err, -EINVAL, ERROR_ENGINE, "a kernel has its own descriptors");
    r = exec_send(box, spec, EXEC_KERNEL | (spec->may_fork ? EXEC_FORK : 0), events, ctx, &call,
                  err);
    if (r < 0)
        return r;
    call->is_kernel = call->is_named = true;
    call->has_ended = true; /* no standard input */
    *ret_id = call->id;
    return 0;
}

int box_kernel_given(struct box *box, uint32_t id, bool is_wardens,
                     const struct exec_events *events, void *ctx, struct error *err)
{
    struct call *call;

    if (box->is_lost) {
        if (err)
            *err = box->lost;
        return box->lost.num;
    }
    if (box->adoption || id == 0 || id > UINT32_MAX / 2)
        return error_set(err, -EINVAL, ERROR_ENGINE, "no kernel can have this id");
    for (call = box->calls; call; call = call->next) {
        if (call->id == id)
            return error_set(err, -EEXIST, ERROR_ENGINE, "the id of the kernel is in use");
    }
    call = box_call_add(box, CALL_EXEC, id, ctx, err);
    if (!call)
        return -ENOMEM;
    box->next_id = MAX(box->next_id, id);
    call->on.exec = events;
    call->is_kernel = call->has_started = true;
    call->from_zygote = !is_wardens;
    call->has_ended = true;
    return 0;
}

/* The warden reports nothing about a kernel from the provider until the host has named it. */
int kernel_name(struct box *box, struct call *kernel)
{
    static const struct message_resume from_0;
    uint8_t payload[8 * MESSAGE_STREAMS];
    ssize_t length;

    if (kernel->is_named)
        return 0;
    kernel->is_named = true;
    length = message_resume_pack(&from_0, payload, sizeof(payload));
    return box_send(box, FRAME_RESUME, kernel->id, payload, (size_t)length);
}

/* ---- cells ---- */

/* Code, input and environment one after the other, as the warden passes them on. */
static int cell_text(const struct cell_spec *spec, struct message_cell *cell, struct buf *text)
{
    int r = buf_append(text, spec->code, spec->code_length);
    size_t env_count = 0;

    if (r == 0 && spec->input)
        r = buf_append(text, spec->input, spec->input_length);
    cell->code_length = (uint32_t)spec->code_length;
    cell->input_length = spec->input ? (uint32_t)spec->input_length : 0;
    if (r == 0 && spec->folder)
        r = exec_args_add(text, spec->folder);
    for (; spec->env && spec->env[env_count] && r == 0; env_count++)
        r = exec_args_add(text, spec->env[env_count]);
    if (r == 0)
        cell->env_length = (uint32_t)(text->length - cell->code_length - cell->input_length);
    if (r == 0 && (env_count > LIMIT_ENV_COUNT || cell->env_length > LIMIT_ARGV_BYTES))
        r = -EFBIG;
    return r;
}

static int cell_pack(struct box *box, const struct cell_spec *spec, struct message_cell *cell,
                     struct buf *text, struct error *err)
{
    int r;

    if (spec->code_length > LIMIT_CODE_BYTES ||
        (spec->input && spec->input_length > LIMIT_CODE_BYTES))
        return error_set(err, -E2BIG, ERROR_TOO_LARGE,
                         "code and input of a cell may have at most %llu MB each",
                         (unsigned long long)(LIMIT_CODE_BYTES / MIB));
    r = cell_text(spec, cell, text);
    if (r == -EFBIG)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE, "the environment of a cell is too large");
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "out of memory");
    if (!box_has_room(box, text->length))
        return error_set(err, -EAGAIN, ERROR_TOO_LARGE, "too much code waits for this box");
    return 0;
}

/* The text nearly always fits into one frame. */
static int cell_send(struct box *box, uint32_t id, const struct message_cell *cell,
                     const struct buf *text)
{
    uint8_t payload[32];
    size_t length = (size_t)message_cell_pack(cell, payload, sizeof(payload));
    struct out_frame frames[2] = {
        {.type = FRAME_ARGS, .payload = text->data, .length = text->length},
        {.type = FRAME_CELL, .id = id, .payload = payload, .length = length},
    };
    int r;

    if (text->length > 0 && text->length <= FRAME_PAYLOAD_MAX)
        return box_send_two(box, frames);
    r = exec_args_send(box, text);
    return r < 0 ? r : box_send(box, FRAME_CELL, id, payload, length);
}

int box_cell(struct box *box, const struct cell_spec *spec, const struct exec_events *events,
             void *ctx, uint32_t *ret_id, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_CELL_TEXT);
    struct call *kernel = box_call(box, spec->kernel, CALL_EXEC);
    struct message_cell cell = {
        .kernel = spec->kernel,
        .flags = (spec->is_script ? CELL_SCRIPT : 0) | (spec->input ? CELL_INPUT : 0) |
                 (spec->keeps ? CELL_KEEP : 0) | (spec->folder ? CELL_FOLDER : 0),
    };
    struct call *call;
    int r = cell_pack(box, spec, &cell, &text, err);

    if (r < 0)
        return r;
    if (!box->is_lost && (!kernel || !kernel->is_kernel || kernel->has_exited))
        return error_set(err, -ESRCH, ERROR_EXECUTION_ENDED, "the kernel has ended");
    call = box_call_new(box, CALL_EXEC, ctx, err);
    if (!call)
        return err && err->num ? err->num : -ENOMEM;
    call->on.exec = events;
    call->is_cell = call->has_ended = true;
    call->from_zygote = kernel->from_zygote;
    call->is_script = spec->is_script;
    call->kernel = spec->kernel;
    call->timeout_ms = spec->timeout_ms;
    kernel->is_named = true; /* named by this frame */
    r = cell_send(box, call->id, &cell, &text);
    if (r < 0) {
        box_call_free(box, call);
        return error_set(err, r, ERROR_BOX_LOST, "the box was lost: it accepts no more frames");
    }
    cell_expect_next(box, spec->kernel);
    *ret_id = call->id;
    return 0;
}

/* A cell behind others may wait long; the first one must be started by the warden soon. */
void cell_expect_next(struct box *box, uint32_t kernel)
{
    struct call *first = NULL;

    for (struct call *call = box->calls; call; call = call->next) {
        if (call->is_cell && call->kernel == kernel && !call->has_exited &&
            (!first || call->id < first->id))
            first = call;
    }
    if (first && !first->has_started && !first->start_deadline_ms)
        first->start_deadline_ms = box_now_ms(box) + BRINGUP_PATIENCE_MS;
}

/* A kernel's end is reported after those of its cells. */
static bool is_before_end(const struct call *other, const struct call *call)
{
    return other == call || (call->is_kernel && other->is_cell && other->kernel == call->id);
}

uint64_t cell_received(const struct box *box, const struct call *call)
{
    uint64_t sum = 0;

    for (const struct call *other = box->calls; other; other = other->next) {
        for (int i = 0; i < BOX_STREAMS && is_before_end(other, call); i++)
            sum += other->in[i].received;
    }
    return sum;
}

bool cell_is_reader_slow(const struct box *box, const struct call *call)
{
    for (const struct call *other = box->calls; other; other = other->next) {
        if (!is_before_end(other, call))
            continue;
        for (int i = 0; i < BOX_STREAMS; i++) {
            if (other->in[i].held.length > 0)
                return true;
        }
    }
    return false;
}

/* ---- reports of the warden ---- */

/* A status of 0 or 1; a signal removes a waiting cell; a script ends as its process does. */
static bool own_end_makes_sense(const struct call *call, const struct message_exited *exited)
{
    if (call->is_script || call->is_adopted)
        return true;
    if (exited->signal != 0)
        return !call->has_started && exited->exit_code == 0;
    return call->has_started && exited->exit_code <= 1;
}

bool cell_end_makes_sense(const struct call *call, const struct message_exited *exited)
{
    bool status_external = exited->flags & EXITED_STATUS_EXTERNAL;
    bool has_died = exited->flags & EXITED_KERNEL_DIED;
    uint64_t events = call->in[2].received;

    if (exited->flags & ~EXITED_FLAGS)
        return false;
    if (exited->event_bytes < events ||
        (exited->event_bytes > events && events != LIMIT_CELL_EVENTS))
        return false;
    if (status_external && (!call->from_zygote || exited->exit_code != 0 || exited->signal != 0))
        return false;
    if (call->is_kernel)
        return !has_died && status_external == call->from_zygote;
    if (!call->is_cell)
        return !has_died && !status_external && exited->event_bytes == 0;
    if (has_died)
        return status_external == call->from_zygote || call->is_adopted;
    return (!status_external || call->is_script || call->is_adopted) &&
           own_end_makes_sense(call, exited);
}

void cell_no_exec(struct box *box, struct call *call, const struct message_fail *fail)
{
    const struct exec_events *events = call->on.exec;
    struct exec_end end = {.kernel_died = true, .status_external = true};
    uint32_t kernel = call->kernel;
    struct error err = {0};
    void *ctx = call->ctx;

    box_call_free(box, call);
    cell_expect_next(box, kernel);
    if (fail->stage == GUEST_STAGE_FOLDER) {
        exec_folder_error(fail, &err);
        events->failed(ctx, &err);
        return;
    }
    if (fail->error ==
        ESRCH) { /* the kernel ended before the cell arrived, and is forgotten already */
        events->ended(ctx, &end);
        return;
    }
    if (fail->error == EAGAIN)
        error_set(&err, -EAGAIN, ERROR_TOO_LARGE, "too many cells wait, or too much code");
    else
        error_stage(&err, guest_stage_name(fail->stage), fail->error ? -(int)fail->error : -EIO);
    events->failed(ctx, &err);
}
