/* caps.c - capabilities and no_new_privs, by raw calls: sixty lines do not need a library. */
#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "sandbox/stage.h"
#include "sys/calls.h"

#define CAP_BIT(cap) (UINT64_C(1) << (cap))

/* What a PID 1 needs that starts guests under another id, ends them, and writes files for them. */
#define WARDEN_CAPS                                                                       \
    (CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_KILL) | CAP_BIT(CAP_CHOWN) | \
     CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER))

static int set_caps(uint64_t mask)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)mask, .permitted = (uint32_t)mask},
        {.effective = (uint32_t)(mask >> 32), .permitted = (uint32_t)(mask >> 32)},
    };

    return sys_capset(&header, data) < 0 ? -errno : 0;
}

/* The bounding set limits what an exec may gain; the warden never execs, its guests gain nothing.
 */
static int empty_bounding_set(void)
{
    for (int cap = 0; cap < 64; cap++) {
        int r = prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 ? -errno : 0;

        if (r == -EINVAL) /* beyond the kernel's last capability */
            return 0;
        /* A container's set may be empty, and dropping what is not there needs a capability too. */
        if (r == -EPERM && (r = prctl(PR_CAPBSET_READ, cap, 0, 0, 0)) < 0)
            return errno == EINVAL ? 0 : -errno;
        if (r != 0)
            return r > 0 ? -EPERM : r;
    }
    return 0;
}

/*
 * Must: come before the ids change. A process that never had CAP_SETPCAP cannot empty its bounding
 * set, and needs not: it has no capability, and no_new_privs lets it gain none.
 */
int stage_bounding_set(struct sandbox *sandbox)
{
    int r = empty_bounding_set();

    sandbox->has_bounding_set = r < 0;
    return r < 0 && plan_makes_box(sandbox->plan) ? r : 0;
}

/*
 * With separate ids the warden keeps the capabilities that it needs in its own user namespace;
 * where warden and guest share an id it needs none, and without namespaces it has none.
 */
int stage_warden_caps(struct sandbox *sandbox)
{
    bool privileged = sandbox->plan->has_namespaces && sandbox->plan->has_split;
    int r = set_caps(privileged ? WARDEN_CAPS : 0);

    if (r < 0)
        return r;
    if (sandbox->has_bounding_set)
        sandbox_lack(sandbox, ISOLATION_LAYER_CAPS, -EPERM);
    else
        sandbox_have(sandbox, ISOLATION_LAYER_CAPS);
    return 0;
}

int stage_no_new_privs(struct sandbox *sandbox)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    sandbox_have(sandbox, ISOLATION_LAYER_NO_NEW_PRIVS);
    return 0;
}

int guest_caps(const struct sandbox *sandbox, const struct guest_start *start)
{
    (void)sandbox;
    (void)start;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    return set_caps(0);
}
