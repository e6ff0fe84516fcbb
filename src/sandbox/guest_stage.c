/* guest_stage.c - the names of the stages of a guest's start; see guest_stage.h. */
#include "sandbox/guest_stage.h"

static const char *const names[_GUEST_STAGE_MAX] = {
    [GUEST_STAGE_STDIO] = "set up standard streams",
    [GUEST_STAGE_RLIMITS] = "set resource limits",
    [GUEST_STAGE_IDS] = "become the guest's id",
    [GUEST_STAGE_CAPS] = "drop capabilities",
    [GUEST_STAGE_FOLDER] = "enter the working folder",
    [GUEST_STAGE_LANDLOCK] = "restrict by landlock",
    [GUEST_STAGE_FILTER] = "put on the seccomp filter",
    [GUEST_STAGE_EXEC] = "execute",
};

const char *guest_stage_name(unsigned stage)
{
    return stage < _GUEST_STAGE_MAX ? names[stage] : "unknown stage";
}
