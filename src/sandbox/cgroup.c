/* cgroup.c - the box enters its control group, and sees it as the top of the tree. */
#include <errno.h>
#include <sched.h>

#include "sandbox/stage.h"
#include "sys/calls.h"
#include "sys/cgroup.h"

/*
 * Must: come before the cgroup namespace, whose root is the current group, and before the
 * capabilities are dropped, which that namespace needs. On v1 the engine opened the files, and its
 * rights count. Must not: move another process; that would wait for a grace period.
 */
int stage_cgroup(struct sandbox *sandbox)
{
    int r = sandbox->host->wait_group(sandbox->host->ctx);

    if (r == 0 && sandbox->plan->group)
        r = cgroup_join(sandbox->plan->group);
    if (r < 0)
        return r;
    if (sandbox->plan->group)
        sandbox_have(sandbox, ISOLATION_LAYER_CGROUP);
    else
        sandbox_lack(sandbox, ISOLATION_LAYER_CGROUP,
                     sandbox->plan->has_container ? -ENODATA : -EACCES);
    if (!plan_makes_box(sandbox->plan))
        return 0;
    if (unshare(CLONE_NEWCGROUP) < 0)
        sandbox_lack(sandbox, ISOLATION_LAYER_CGROUPNS, -errno);
    else
        sandbox_have(sandbox, ISOLATION_LAYER_CGROUPNS);
    return 0;
}
