/* dispatch.c - a frame from the host to whom it concerns. */
#include "base/cleanup.h"
#include "warden/warden_private.h"

static void handle_args(struct warden *warden, const struct frame *frame)
{
    if (buf_append(&warden->args, frame->payload, frame->length) < 0)
        warden_end(warden);
}

static void handle_ack(struct warden *warden, const struct frame *frame)
{
    struct message_ack ack;

    if (message_ack_unpack(frame, &ack) < 0)
        warden_end(warden);
    if (!command_ack(warden, frame->id, &ack) && !port_ack(warden, frame->id, &ack))
        file_ack(warden, frame->id, &ack);
}

static void handle_stdin_end(struct warden *warden, const struct frame *frame)
{
    command_stdin_end(warden, frame->id);
}

static void handle_put_end(struct warden *warden, const struct frame *frame)
{
    file_put_end(warden, frame->id);
}

static void handle_cancel(struct warden *warden, const struct frame *frame)
{
    if (!port_cancel(warden, frame->id))
        file_cancel(warden, frame->id);
}

/* Frames that the host may send once the box is ready; any other violates the protocol. */
static void (*const handlers[_FRAME_TYPE_MAX])(struct warden *, const struct frame *) = {
    [FRAME_ARGS] = handle_args,       [FRAME_EXEC] = command_exec,
    [FRAME_STDIN] = command_stdin,    [FRAME_STDIN_END] = handle_stdin_end,
    [FRAME_SIGNAL] = command_signal,  [FRAME_PUT] = file_put,
    [FRAME_PUT_DATA] = file_put_data, [FRAME_PUT_END] = handle_put_end,
    [FRAME_GET] = file_get,           [FRAME_LIST] = file_list,
    [FRAME_ACK] = handle_ack,         [FRAME_HELLO] = warden_hello,
    [FRAME_RESUME] = warden_resume,   [FRAME_FORGET] = warden_forget,
    [FRAME_RESIZE] = command_resize,  [FRAME_STAT] = file_stat,
    [FRAME_MKDIR] = file_mkdir,       [FRAME_MOVE] = file_move,
    [FRAME_REMOVE] = file_remove,     [FRAME_CHMOD] = file_chmod,
    [FRAME_WATCH] = file_watch,       [FRAME_CANCEL] = handle_cancel,
    [FRAME_KERNEL] = kernel_given,    [FRAME_CELL] = command_cell,
    [FRAME_ZYGOTE] = zygote_start,    [FRAME_FREEZE] = warden_freeze,
    [FRAME_THAW] = warden_thaw,       [FRAME_CONNECT] = port_connect,
    [FRAME_PORT_DATA] = port_data,    [FRAME_PORT_END] = port_end,
    [FRAME_PORTS] = port_list,
};

void dispatch_frame(struct warden *warden, const struct frame *frame)
{
    if (!handlers[frame->type])
        warden_end(warden);
    if (frame->type != FRAME_HELLO) /* its id is not an execution's */
        warden->highest_id = MAX(warden->highest_id, frame->id);
    handlers[frame->type](warden, frame);
}
