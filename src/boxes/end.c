/* end.c - the end of a box: its processes, what it used, what is left of it; see boxes.h. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "boxes/boxes_private.h"
#include "boxes/launch.h"
#include "sys/calls.h"

/* Kills and reaps; the kernel ends all processes of the box before its PID 1 can be reaped. */
void end_process(struct launched *launched, struct rusage *usage)
{
    if (launched->pid <= 0)
        return;
    /* Without a pid namespace the warden has to end its guests itself: it does when we hang up. */
    fd_closep(&launched->channel_fd);
    launched->channel_fd = -1;
    if (launched->layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_PIDNS) || launched->layers == 0)
        sys_pidfd_send_signal(launched->pid_fd, SIGKILL);
    else
        cgroup_stop_forks(&launched->group);
    while (wait4(launched->pid, NULL, __WALL, usage) < 0 && errno == EINTR)
        ;
    launched->pid = 0;
    fd_closep(&launched->pid_fd);
    launched->pid_fd = -1;
}

uint64_t launch_oom_kills(const struct launched *launched)
{
    return cgroup_oom_kills(&launched->group);
}

/* A zeroed struct launched was never started, and descriptor 0 is never ours. */
static void close_if_any(int *fd)
{
    if (*fd > 0)
        fd_closep(fd);
    *fd = -1;
}

void end_but_group(struct launched *launched, struct launch_usage *usage)
{
    struct rusage counted = {0};

    end_process(launched, &counted);
    close_if_any(&launched->ruleset_fd);
    close_if_any(&launched->egress_fd);
    if (usage) {
        struct cgroup_usage
            all; /* with processes that died with the warden and were never waited for */

        cgroup_usage(&launched->group, &all);
        usage->cpu_us = (uint64_t)(counted.ru_utime.tv_sec + counted.ru_stime.tv_sec) * 1000000 +
                        (uint64_t)(counted.ru_utime.tv_usec + counted.ru_stime.tv_usec);
        usage->cpu_us = MAX(usage->cpu_us, all.cpu_us);
        usage->max_rss_bytes = (uint64_t)counted.ru_maxrss * 1024;
        usage->oom_kills = launch_oom_kills(launched);
    }
    private_remove(launched->folder);
    launched->folder[0] = 0;
    close_if_any(&launched->folder_fd);
}

void launch_end(struct launched *launched, struct launch_usage *usage)
{
    if (!launched)
        return;
    end_but_group(launched, usage);
    cgroup_remove(&launched->group);
}
