/* stages.c - the table of bring-up, in its order, and the walk through it; see sandbox.h. */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "sandbox/stage.h"

/* Where a stage belongs. */
enum stage_place {
    EVERYWHERE,
    MADE,      /* a box that we make */
    CONTAINER, /* a box that another engine made */
};

struct stage {
    const char *name; /* as in "mount root: EPERM" */
    int (*run)(struct sandbox *sandbox);
    enum stage_place place;
};

/*
 * Stages that need no ids come first, while the engine writes the id maps; the network, which a
 * helper makes, and the control group, which the engine makes meanwhile, are entered as late as
 * possible: before the capabilities are dropped.
 */
static const struct stage stages[] = {
    {"network namespace", stage_network_begin, MADE},
    {"open oom score", stage_oom_score, EVERYWHERE},
    {"limit kernel objects", stage_counts, MADE},
    {"reset signals", stage_signals, EVERYWHERE},
    {"empty bounding set", stage_bounding_set, EVERYWHERE},
    {"set host name", stage_host_name, MADE},
    {"wait for id maps", stage_wait_maps, EVERYWHERE},
    {"set ids", stage_ids, EVERYWHERE},
    {"scrub", stage_scrub, EVERYWHERE},
    {"mount root", stage_root_mount, MADE},
    {"build root", stage_root_steps, MADE},
    {"pivot root", stage_root_pivot, MADE},
    {"open shares", stage_shares, EVERYWHERE},
    {"mount shares", stage_container_shares, CONTAINER},
    {"landlock ruleset", stage_ruleset, EVERYWHERE},
    {"enter network", stage_network_end, MADE},
    {"listen for egress", stage_egress, MADE},
    {"join cgroup", stage_cgroup, EVERYWHERE},
    {"drop saved id", stage_saved_id, EVERYWHERE},
    {"drop capabilities", stage_warden_caps, EVERYWHERE},
    {"no_new_privs", stage_no_new_privs, EVERYWHERE},
    {"scope signals", stage_scope, EVERYWHERE},
    {"seccomp", stage_warden_filter, EVERYWHERE},
};

const char *sandbox_stage_name(unsigned stage)
{
    return stage < ARRAY_SIZE(stages) ? stages[stage].name : "unknown stage";
}

void sandbox_have(struct sandbox *sandbox, enum isolation_layer layer)
{
    sandbox->layers |= ISOLATION_LAYER_BIT(layer);
}

void sandbox_lack(struct sandbox *sandbox, enum isolation_layer layer, int negative_errno)
{
    sandbox->missing |= ISOLATION_LAYER_BIT(layer);
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
    str_copy(sandbox->oom_score, sizeof(sandbox->oom_score), "0");
    for (int i = 0; i < _SHARE_MAX; i++)
        sandbox->share_fd[i] = -1;
}

/* What the clone itself gave, or could not give. */
static void note_namespaces(struct sandbox *sandbox)
{
    static const enum isolation_layer namespaces[] = {
        ISOLATION_LAYER_USERNS, ISOLATION_LAYER_MOUNTNS, ISOLATION_LAYER_PIDNS,
        ISOLATION_LAYER_IPCNS, ISOLATION_LAYER_UTSNS};

    for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
        if (sandbox->plan->has_namespaces)
            sandbox_have(sandbox, namespaces[i]);
        else
            sandbox_lack(sandbox, namespaces[i], -EPERM);
    }
    if (!sandbox->plan->has_namespaces) {
        sandbox_lack(sandbox, ISOLATION_LAYER_NETNS, -EPERM);
        sandbox_lack(sandbox, ISOLATION_LAYER_CGROUPNS, -EPERM);
        sandbox_lack(sandbox, ISOLATION_LAYER_PROC, -EPERM);
        sandbox_lack(sandbox, ISOLATION_LAYER_OVERLAY, -EPERM);
    }
    if (sandbox->plan->has_split)
        sandbox_have(sandbox, ISOLATION_LAYER_UID_SPLIT);
    else
        sandbox_lack(sandbox, ISOLATION_LAYER_UID_SPLIT, -EPERM);
}

int stage_wait_maps(struct sandbox *sandbox)
{
    int r = sandbox->host->wait_maps(sandbox->host->ctx);

    if (r == 0 && sandbox->plan->has_container)
        container_note(sandbox);
    else if (r == 0)
        note_namespaces(sandbox); /* the host has now said which ids there are */
    return r;
}

static bool has_stage(const struct sandbox_plan *plan, const struct stage *stage)
{
    if (stage->place == CONTAINER)
        return plan->has_container;
    return stage->place == EVERYWHERE || plan_makes_box(plan);
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
        if (has_stage(sandbox->plan, &stages[i]))
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
