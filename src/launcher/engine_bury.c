/*
 * engine_bury.c - control groups of boxes that are gone. Removing one is the longest part of an end
 * (v1: a folder in each hierarchy, and the kernel may say that its last member has not left yet),
 * and nobody waits for it: it happens in turns of the loop in which there is nothing else to do.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "launcher/engine.h"

#define RETRY_MS 2

void graves_add(struct engine *engine, const struct cgroup *group)
{
    struct engine_grave *grave;

    if (group->flavour == CGROUP_NONE)
        return;
    grave = malloc(sizeof(*grave));
    if (!grave) {
        struct cgroup now = *group;

        cgroup_remove(&now);
        return;
    }
    *grave = (struct engine_grave){.group = *group};
    *engine->graves_end = grave;
    engine->graves_end = &grave->next;
    engine->grave_count++;
}

bool graves_are_due(const struct engine *engine, uint64_t now_ms)
{
    return engine->graves && now_ms >= engine->graves_at_ms;
}

static struct engine_grave *take_first(struct engine *engine)
{
    struct engine_grave *grave = engine->graves;

    engine->graves = grave->next;
    if (!engine->graves)
        engine->graves_end = &engine->graves;
    engine->grave_count--;
    grave->next = NULL;
    return grave;
}

void graves_tick(struct engine *engine, uint64_t now_ms)
{
    CLEANUP(freep) struct engine_grave *grave = take_first(engine);

    engine->graves_at_ms = 0;
    if (cgroup_try_remove(&grave->group) == 0)
        return;
    if (engine->grave_count >= LIMIT_GRAVES) {
        log_debug("a control group cannot be removed, continuing without that");
        return; /* it goes with the engine's own */
    }
    /* Not yet: the others first, and all a little later should it be the same with them. */
    engine->graves_at_ms = now_ms + RETRY_MS;
    *engine->graves_end = grave;
    engine->graves_end = &grave->next;
    engine->grave_count++;
    ptr_take(&grave);
}

void graves_end(struct engine *engine)
{
    while (engine->graves) {
        CLEANUP(freep) struct engine_grave *grave = take_first(engine);

        cgroup_remove(&grave->group);
    }
}
