/*
 * docked_kernel.c - Python in a box that is made ahead: started before anybody has the box.
 *
 * The wall is the warden's first host here, and says what the broker says for a kernel that it
 * starts cold (EXEC with EXEC_KERNEL). It hears STARTED and nothing else: output is that of cells,
 * and who names cells is the broker. An image without Python has boxes without a kernel. One that
 * dies before anybody has the box takes the box with it.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "runtime/docker/inside.h"

#define PROGRAM "python3"
#define DRIVER DOCKER_VOLUME_AT "/driver/kernel.py"

int docked_kernel_start(struct wall_box *box)
{
    /* argv (it loads ahead what cells load late), no environment, and no folder of its own: each
     * with its NUL. */
    static const char args[] = PROGRAM "\0" DRIVER "\0/workspace\0ahead\0";
    struct message_exec exec = {.flags = EXEC_KERNEL, .argc = 4, .args_length = sizeof(args)};
    uint8_t payload[32];
    ssize_t length = message_exec_pack(&exec, payload, sizeof(payload));
    int r;

    if (length < 0)
        return (int)length;
    r = docked_pump_send(&box->pump, FRAME_ARGS, 0, args, sizeof(args));
    if (r == 0)
        r = docked_pump_send(&box->pump, FRAME_EXEC, KERNEL_FIRST, payload, (size_t)length);
    return r;
}

int docked_kernel_frame(struct wall_box *box, const struct frame *frame)
{
    if (frame->id != KERNEL_FIRST)
        return -EPROTO;
    switch (frame->type) {
    case FRAME_STARTED:
        box->facts.kernel = KERNEL_FIRST;
        box->facts.kernel_is_wardens = true;
        return 1;
    case FRAME_NOEXEC:
        log_debug("docker: the image has no " PROGRAM ", continuing without kernels made ahead");
        box->wall->spec.has_kernels = false;
        return 1;
    default:
        return -EPROTO;
    }
}
