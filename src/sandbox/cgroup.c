/* cgroup.c - the box enters its control group, and sees it as the top of the tree. */
#include <errno.h>
#include <sched.h>

#include "sandbox/stage.h"
#include "sys/calls.h"
#include "sys/cgroup.h"

/*
 * Must: come before the ids change (v1 compares them with those of the one who opened the file) and
 * before the cgroup namespace, whose root is the group of the moment.
 * Must not: move anybody but the caller; that would wait for a grace period.
 */
int stage_cgroup(struct sandbox *sandbox)
{
    const struct sandbox_plan *plan = sandbox->plan;
    int r;

    if (plan->group) {
        r = cgroup_join(plan->group);
        if (r < 0)
            return r;
        sandbox_have(sandbox, LAYER_CGROUP);
    } else {
        sandbox_lack(sandbox, LAYER_CGROUP, -EACCES);
    }
    if (!plan->has_namespaces)
        return 0;
    if (unshare(CLONE_NEWCGROUP) < 0)
        sandbox_lack(sandbox, LAYER_CGROUPNS, -errno);
    else
        sandbox_have(sandbox, LAYER_CGROUPNS);
    return 0;
}
