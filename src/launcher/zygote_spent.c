/*
 * zygote_spent.c - CPU time of zygotes that are one tenant's: what its packages use while they are
 * imported, and by threads that they leave running. It belongs to no box, so no box's usage has it;
 * the broker counts it for the tenant's quota.
 *
 * It is told when a zygote has ended and when the broker asks for the usage of a box. A forked
 * kernel's time is its box's from the moment that it has joined. The zygote of the host's own
 * Python runs no tenant's code, so its time is not told.
 */
#include "base/str.h"
#include "launcher/zygotes.h"

static uint64_t used_us(const struct zygote *zygote)
{
    struct cgroup_usage counted;

    cgroup_usage(&zygote->group, &counted);
    if (counted.cpu_us || zygote->pid <= 0)
        return counted.cpu_us;
    return process_cpu_us(zygote->pid, zygote->end.fd, false);
}

void zygote_spent(struct zygote *zygote)
{
    struct launcher_message message = {.type = LAUNCHER_SPENT};
    uint64_t used;

    if (!zygote->owner->tenant[0])
        return;
    used = used_us(zygote);
    if (used <= zygote->told_us)
        return;
    message.spent.cpu_us = used - zygote->told_us;
    zygote->told_us = used;
    str_copy(message.spent.tenant, sizeof(message.spent.tenant), zygote->owner->tenant);
    broker_send(zygote->launcher, &message, -1);
}

void zygotes_spent(struct launcher *launcher, const struct zygote_owner *owner)
{
    for (struct zygote *zygote = launcher->zygotes; zygote; zygote = zygote->next) {
        if (zygote->owner == owner)
            zygote_spent(zygote);
    }
}
