/* slice.c - a short slice of CPU time for this process; see slice.h. */
#include "sys/slice.h"

#include <errno.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS 200000 /* the kernel takes 0.1 to 100 ms */

void slice_be_short(void)
{
    struct sched_attr attr = {.size = sizeof(attr),
                              .sched_policy = SCHED_NORMAL,
                              .sched_flags = SCHED_FLAG_RESET_ON_FORK,
                              .sched_runtime = SLICE_NS};

    errno = 0;
    attr.sched_nice = getpriority(PRIO_PROCESS, 0);
    if (errno == 0)
        syscall(SYS_sched_setattr, 0, &attr, 0);
}
