/*
 * resume.c - a new host on the old channel: its inventory and how it continues; see command.h.
 *
 * HELLO may arrive in the middle of anything the old host did. What that had sent is handled before
 * (frames keep their order); what it had not finished is dropped; frames to it that were not sent
 * are dropped. The answer is one INVENTORY for each command, then WELCOME; nothing else is sent
 * before that.
 */
#include "base/cleanup.h"
#include "warden/kernel.h"

static void tell_inventory(struct command *command, uint32_t generation)
{
    struct message_inventory inventory = {
        .generation = generation,
        .start_ns = command->has_started ? command->start_ns : 0,
        .input_received = command->in.received,
        .input_ended = command->in.has_end,
        .pid = command->is_cell ? 0 : (uint32_t)MAX(command->pid, 0),
    };
    uint8_t payload[96];
    ssize_t length;

    if (command->has_started)
        inventory.flags |= INVENTORY_STARTED;
    if (command->has_exited || command->has_failed)
        inventory.flags |= INVENTORY_EXITED;
    if (command->is_pty)
        inventory.flags |= INVENTORY_PTY;
    if (command->is_kernel)
        inventory.flags |= INVENTORY_KERNEL;
    if (command->is_kernel && command->kernel && command->kernel->from_zygote)
        inventory.flags |= INVENTORY_GIVEN;
    if (command->is_forked)
        inventory.flags |= INVENTORY_FORKED;
    if (command->is_cell) {
        inventory.flags |= INVENTORY_CELL;
        inventory.kernel = command->cell.kernel;
    }
    for (int i = 0; i < MESSAGE_STREAMS; i++) {
        inventory.acked[i] = command->out[i].acked;
        inventory.read[i] = command->out[i].read;
    }
    length = message_inventory_pack(&inventory, payload, sizeof(payload));
    channel_control(command->warden, FRAME_INVENTORY, command->id, payload, (size_t)length);
}

void warden_hello(struct warden *warden, const struct frame *frame)
{
    uint8_t payload[4];

    if (frame->length != 0)
        warden_end(warden);
    buf_free(&warden->args);
    buf_clear(&warden->control);
    file_forget_all(warden);
    port_forget_all(warden);
    for (struct command *command = warden->commands; command; command = command->next) {
        if (command->is_forgotten)
            continue;
        command->is_silent = true;
        command->is_start_told = command->has_started; /* the inventory says it */
        command->is_end_told = false;
        for (int i = 0; i < MESSAGE_STREAMS; i++)
            command->out[i].sent = command->out[i].acked;
        tell_inventory(command, frame->id);
    }
    message_number_pack(warden->highest_id, payload, sizeof(payload));
    channel_control(warden, FRAME_WELCOME, frame->id, payload, sizeof(payload));
}

void warden_resume(struct warden *warden, const struct frame *frame)
{
    struct command *command = command_by_id(warden, frame->id);
    struct message_resume resume;

    if (message_resume_unpack(frame, &resume) < 0 || !command || !command->is_silent ||
        command->is_forgotten)
        warden_end(warden);
    for (int i = 0; i < MESSAGE_STREAMS; i++) {
        const struct out_stream *stream = &command->out[i];

        if (resume.offset[i] < stream->acked || resume.offset[i] > stream->read)
            warden_end(warden);
    }
    command->is_silent = command->is_unnamed = false;
    command_tell_start(command);
    if (command->in.received > 0)
        in_stream_tell(&command->in);
    for (int i = 0; i < MESSAGE_STREAMS; i++)
        out_stream_rewind(&command->out[i], resume.offset[i]);
}

/*
 * One that still runs (it was killed just before) is forgotten without a report when it has ended.
 */
void warden_forget(struct warden *warden, const struct frame *frame)
{
    struct command *command = command_by_id(warden, frame->id);

    if (frame->length != 0)
        warden_end(warden);
    if (!command)
        return; /* dropped before, to make room */
    if (command->is_cell) {
        cell_forget(command);
        return;
    }
    if (command->has_exited && !command_is_held(command)) {
        command_free(command);
        return;
    }
    command->is_forgotten = true;
    command->is_silent = true;
    in_stream_close(&command->in);
    for (int i = 0; i < MESSAGE_STREAMS; i++)
        out_stream_free(&command->out[i]);
}
