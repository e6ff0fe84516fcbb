/* docked_kernel.c - Python in a box that is made ahead: started before anybody has the box. */
#include <errno.h>

#include "runtime/docker/inside.h"

int docked_kernel_start(struct wall_box *box)
{
    (void)box;
    return -ENOTSUP;
}

int docked_kernel_frame(struct wall_box *box, const struct frame *frame)
{
    (void)box;
    (void)frame;
    return -EPROTO;
}
