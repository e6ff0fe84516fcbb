/* spec.c - the names of what enforces a limit; see spec.h. */
#include "model/spec.h"

static const char *const by_names[_LIMIT_BY_MAX] = {
    [LIMIT_BY_NONE] = "none",
    [LIMIT_BY_CGROUP_V2] = "cgroup-v2",
    [LIMIT_BY_CGROUP_V1] = "cgroup-v1",
    [LIMIT_BY_RLIMIT] = "rlimit",
    [LIMIT_BY_WATCHDOG] = "watchdog (approximate)",
    [LIMIT_BY_AFFINITY] = "affinity (approximate)",
    [LIMIT_BY_TMPFS] = "tmpfs",
    [LIMIT_BY_ENGINE] = "engine",
    [LIMIT_BY_CONTAINER] = "container",
};

const char *limit_by_name(enum limit_by by)
{
    /* Never claim a mechanism that is not known. */
    if ((unsigned int)by >= _LIMIT_BY_MAX)
        return by_names[LIMIT_BY_NONE];
    return by_names[by];
}
