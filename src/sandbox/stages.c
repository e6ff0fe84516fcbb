/* stages.c - the table of bring-up, in its order, and the walk through it; see sandbox.h. */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "sandbox/stage.h"

struct stage {
    const char *name; /* as in "mount root: EPERM" */
    int (*run)(struct sandbox *sandbox);
    bool namespaces_only;
};

/*
 * What needs no ids comes first, while the engine writes the id maps; the network, which a helper
 * makes, and the control group, which the engine makes meanwhile, are entered as late as can be:
 * before the capabilities go.
 */
static const struct stage stages[] = {
    {"network namespace", stage_network_begin, true},
    {"open oom score", stage_oom_score, false},
    {"limit kernel objects", stage_counts, true},
    {"reset signals", stage_signals, false},
    {"empty bounding set", stage_bounding_set, false},
    {"set host name", stage_host_name, true},
    {"wait for id maps", stage_wait_maps, false},
    {"set ids", stage_ids, false},
    {"scrub", stage_scrub, false},
    {"mount root", stage_root_mount, true},
    {"build root", stage_root_steps, true},
    {"pivot root", stage_root_pivot, true},
    {"open shares", stage_shares, false},
    {"landlock ruleset", stage_ruleset, false},
    {"enter network", stage_network_end, true},
    {"listen for egress", stage_egress, true},
    {"join cgroup", stage_cgroup, false},
    {"drop saved id", stage_saved_id, false},
    {"drop capabilities", stage_warden_caps, false},
    {"no_new_privs", stage_no_new_privs, false},
    {"scope signals", stage_scope, false},
    {"seccomp", stage_warden_filter, false},
};

const char *sandbox_stage_name(unsigned stage)
{
    return stage < ARRAY_SIZE(stages) ? stages[stage].name : "unknown stage";
}

void sandbox_have(struct sandbox *sandbox, enum layer layer)
{
    sandbox->layers |= LAYER_BIT(layer);
}

void sandbox_lack(struct sandbox *sandbox, enum layer layer, int negative_errno)
{
    sandbox->missing |= LAYER_BIT(layer);
    sandbox->lack_errno[layer] = (uint16_t)-negative_errno;
}

void sandbox_init(struct sandbox *sandbox, const struct sandbox_plan *plan)
{
    memset(sandbox, 0, sizeof(*sandbox));
    sandbox->plan = plan;
    sandbox->root_fd = -1;
    sandbox->network_fd = -1;
    sandbox->proc_fd = -1;
    sandbox->outer_proc_fd = -1;
    sandbox->oom_fd = -1;
    sandbox->ruleset_fd = -1;
    sandbox->egress_fd = -1;
    sandbox->disk_fd = -1;
    for (int i = 0; i < _SHARE_MAX; i++)
        sandbox->share_fd[i] = -1;
}

/* What the clone itself gave, or could not give. */
static void note_namespaces(struct sandbox *sandbox)
{
    static const enum layer namespaces[] = {LAYER_USERNS, LAYER_MOUNTNS, LAYER_PIDNS, LAYER_IPCNS,
                                            LAYER_UTSNS};

    for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
        if (sandbox->plan->has_namespaces)
            sandbox_have(sandbox, namespaces[i]);
        else
            sandbox_lack(sandbox, namespaces[i], -EPERM);
    }
    if (!sandbox->plan->has_namespaces) {
        sandbox_lack(sandbox, LAYER_NETNS, -EPERM);
        sandbox_lack(sandbox, LAYER_CGROUPNS, -EPERM);
        sandbox_lack(sandbox, LAYER_PROC, -EPERM);
    }
    if (sandbox->plan->has_split)
        sandbox_have(sandbox, LAYER_UID_SPLIT);
    else
        sandbox_lack(sandbox, LAYER_UID_SPLIT, -EPERM);
}

int stage_wait_maps(struct sandbox *sandbox)
{
    int r = sandbox->host->wait_maps(sandbox->host->ctx);

    if (r == 0)
        note_namespaces(sandbox); /* the host has now said which ids there are */
    return r;
}

int sandbox_bring_up(struct sandbox *sandbox, const struct sandbox_host *host)
{
    uint64_t before = clock_now_ns();

    sandbox->host = host;
    for (unsigned i = 0; i < ARRAY_SIZE(stages); i++) {
        uint64_t now;
        int r = 0;

        sandbox->failed_stage = (uint16_t)i;
        sandbox->failed_step = 0;
        if (sandbox->plan->has_namespaces || !stages[i].namespaces_only)
            r = stages[i].run(sandbox);
        if (r < 0)
            return r;
        now = clock_now_ns();
        sandbox->stage_ns[i] = (uint32_t)(now - before);
        before = now;
        sandbox->stage_count = i + 1;
    }
    sandbox->host = NULL;
    return 0;
}

int sandbox_enter_root(struct sandbox *sandbox)
{
    int r = stage_root_mount(sandbox);

    if (r == 0)
        r = stage_root_steps(sandbox);
    return r < 0 ? r : stage_root_pivot(sandbox);
}
