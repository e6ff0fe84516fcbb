/*
 * cgroup_reaper.c - removes control groups of ended boxes. Removing one is the longest part of an
 * end (v1: a folder in each hierarchy, and the kernel may report that its last member has not left
 * yet), and nothing waits for it: it is done in turns of the loop in which there is nothing else to
 * do.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "launcher/launcher_private.h"

#define RETRY_MS 2

void cgroup_reaper_add(struct launcher *launcher, const struct cgroup *group)
{
    struct dead_group *dead_group;

    if (group->flavour == CGROUP_NONE)
        return;
    dead_group = malloc(sizeof(*dead_group));
    if (!dead_group) {
        struct cgroup now = *group;

        cgroup_remove(&now);
        return;
    }
    *dead_group = (struct dead_group){.group = *group};
    *launcher->dead_groups_end = dead_group;
    launcher->dead_groups_end = &dead_group->next;
    launcher->dead_group_count++;
}

bool cgroup_reaper_is_due(const struct launcher *launcher, uint64_t now_ms)
{
    return launcher->dead_groups && now_ms >= launcher->reap_groups_at_ms;
}

static struct dead_group *take_first(struct launcher *launcher)
{
    struct dead_group *dead_group = launcher->dead_groups;

    launcher->dead_groups = dead_group->next;
    if (!launcher->dead_groups)
        launcher->dead_groups_end = &launcher->dead_groups;
    launcher->dead_group_count--;
    dead_group->next = NULL;
    return dead_group;
}

void cgroup_reaper_tick(struct launcher *launcher, uint64_t now_ms)
{
    CLEANUP(freep) struct dead_group *dead_group = take_first(launcher);

    launcher->reap_groups_at_ms = 0;
    if (cgroup_try_remove(&dead_group->group) == 0)
        return;
    if (launcher->dead_group_count >= LIMIT_DEAD_GROUPS) {
        log_debug("a control group cannot be removed, continuing without that");
        return; /* it is removed with the engine's own */
    }
    /* Still busy: the other groups come first, and this one again RETRY_MS later. */
    launcher->reap_groups_at_ms = now_ms + RETRY_MS;
    *launcher->dead_groups_end = dead_group;
    launcher->dead_groups_end = &dead_group->next;
    launcher->dead_group_count++;
    ptr_take(&dead_group);
}

void cgroup_reaper_end(struct launcher *launcher)
{
    while (launcher->dead_groups) {
        CLEANUP(freep) struct dead_group *dead_group = take_first(launcher);

        cgroup_remove(&dead_group->group);
    }
}
