/* local.c - the runtime `local`; see local.h. Only translates specifications and facts. */
#include "runtime/local/local.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "launcher/protocol.h"
#include "runtime/box/box.h"

static const enum limit_by group_words[] = {
    [CGROUP_NONE] = LIMIT_BY_NONE,
    [CGROUP_V1] = LIMIT_BY_CGROUP_V1,
    [CGROUP_V2] = LIMIT_BY_CGROUP_V2,
};

enum limit_by local_limit_by(enum launch_holder holder, enum cgroup_flavour group)
{
    switch (holder) {
    case HELD_BY_GROUP:
        return group_words[group];
    case HELD_BY_RLIMIT:
        return LIMIT_BY_RLIMIT;
    case HELD_BY_WARDEN:
        return LIMIT_BY_WATCHDOG;
    case HELD_BY_AFFINITY:
        return LIMIT_BY_AFFINITY;
    case HELD_BY_TMPFS:
        return LIMIT_BY_TMPFS;
    case HELD_BY_CONTAINER:
        return LIMIT_BY_CONTAINER;
    case HELD_BY_NOTHING:
    case _HELD_BY_MAX:
        break;
    }
    return LIMIT_BY_NONE;
}

enum usage_by local_usage_by(uint8_t counted)
{
    static const enum usage_by words[_COUNTED_MAX] = {
        [COUNTED_SOME] = USAGE_BY_PROVIDER,
        [COUNTED_ALL] = USAGE_BY_ENGINE,
    };

    return counted < _COUNTED_MAX ? words[counted] : USAGE_BY_NONE;
}

static void note_facts(const struct launched *launched, struct box_facts *facts)
{
    *facts = (struct box_facts){
        .layers = launched->layers,
        .missing = launched->missing,
        .memory_by = local_limit_by(launched->memory, launched->group.flavour),
        .pids_by = local_limit_by(launched->pids, launched->group.flavour),
        .cpu_by = local_limit_by(launched->cpu, launched->group.flavour),
        .disk_by = local_limit_by(launched->disk, launched->group.flavour),
    };
}

static int local_create(const struct provider_row *row, const struct box_spec *spec,
                        struct box **ret, struct box_facts *facts, struct error *err)
{
    struct launch_bind binds[16];
    struct launch_spec launch = {
        .memory_bytes = spec->limits.memory_bytes,
        .disk_bytes = spec->limits.disk_bytes,
        .pids = spec->limits.pids,
        .cpu_millis = spec->limits.cpu_millis,
        .minimum = spec->minimum,
        .root = spec->root,
        .binds = binds,
        .bind_count = MIN(spec->bind_count, ARRAY_SIZE(binds)),
        .id_base = spec->id_base,
        .layer = spec->layer,
        .python = spec->python,
    };
    CLEANUP(freep) struct launched *launched = calloc(1, sizeof(*launched));
    int r;

    (void)row;
    if (!launched)
        return error_memory(err);
    for (size_t i = 0; i < launch.bind_count; i++)
        binds[i] = (struct launch_bind){
            .host = spec->binds[i].host,
            .box = spec->binds[i].box ? spec->binds[i].box : spec->binds[i].host,
        };
    if (spec->has_drivers)
        launch.files = launch_drivers(&launch.file_count);
    r = launch_make(&launch, launched, err);
    note_facts(launched, facts);
    if (r < 0)
        return r;
    r = box_new(launched->channel_fd, launched, ret, err);
    if (r < 0) {
        launch_end(launched, NULL);
        return r;
    }
    launched->channel_fd = -1; /* the box owns it now */
    ptr_take(&launched);
    return 0;
}

static void local_destroy(struct box *box, struct box_facts *facts)
{
    CLEANUP(freep) struct launched *launched = NULL;
    struct launch_usage usage = {0};

    if (!box)
        return;
    launched = box_provider_data(box);
    note_facts(launched, facts); /* read before the control group is removed */
    box_free(box);               /* closes the channel, which ends a box without a pid namespace */
    launch_end(launched, &usage);
    facts->oom_kills = usage.oom_kills;
    facts->usage = (struct usage){
        .cpu_us = usage.cpu_us, .max_rss_bytes = usage.max_rss_bytes, .by = USAGE_BY_ENGINE};
}

const struct launched *local_launched(const struct box *box)
{
    return box_provider_data(box);
}

const struct runtime_ops local_ops = {
    .create = local_create,
    .destroy = local_destroy,
};
