/*
 * zygote_owner.c - ids of zygotes: one for each tenant and template, which owns the user namespaces
 * of the boxes that the zygotes of that tenant and template serve, and of no others.
 *
 * If boxes have their own ids, an owner's id is the first of a pair that no box has. If there is
 * only one id, all processes share it: then only the zygote's filter protects. The host's own
 * Python without a template loads no file of a tenant or a template, so there is one owner of it
 * for all tenants.
 *
 * An id is released when no zygote and no box uses it. Processes that package code may have left
 * running under it are killed before (zygote_strays.c).
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/str.h"
#include "launcher/launcher_private.h"

/* ---- finding ---- */

void zygote_owner_name(struct launcher_make *make)
{
    if (!make->layer[0])
        make->tenant[0] = 0;
    else if (!make->tenant[0])
        str_copy(make->tenant, sizeof(make->tenant), LAUNCHER_TENANT_LOCAL);
}

bool zygote_owner_is(const struct zygote_owner *owner, const char *tenant, const char *layer)
{
    return owner && str_equal(owner->layer, layer) && str_equal(owner->tenant, tenant);
}

static struct zygote_owner *find(struct launcher *launcher, const char *tenant, const char *layer)
{
    struct zygote_owner *owner = launcher->owners;

    while (owner && !zygote_owner_is(owner, tenant, layer))
        owner = owner->next;
    return owner;
}

/* ---- taking ---- */

static bool is_split(const struct launcher *launcher)
{
    return launcher->plan->pair_count > 0;
}

/* v2: its boxes and zygotes are in a group of its own, within which its id may move processes. */
static int make_site(struct launcher *launcher, struct zygote_owner *owner)
{
    const struct cgroup_site *site = &launcher->plan->site;
    char name[32];
    int r;

    owner->site = *site;
    if (site->flavour != CGROUP_V2 || !is_split(launcher))
        return 0;
    str_format(name, sizeof(name), CGROUP_OWNER_PREFIX "%u", (unsigned)owner->id);
    owner->share = CGROUP_SHARE_TENANT;
    r = cgroup_make_owner(site, name, owner->id, &owner->site);
    if (r == 0)
        cgroup_set_owner_share(&owner->site, owner->share);
    return r;
}

static struct zygote_owner *add(struct launcher *launcher, const char *tenant, const char *layer,
                                uint32_t slot)
{
    struct zygote_owner *owner = calloc(1, sizeof(*owner));

    if (!owner)
        return NULL;
    owner->launcher = launcher;
    owner->slot = slot;
    owner->id = is_split(launcher) ? PAIR_FIRST + 2 * slot : 0;
    str_copy(owner->tenant, sizeof(owner->tenant), tenant);
    str_copy(owner->layer, sizeof(owner->layer), layer);
    if (make_site(launcher, owner) < 0) {
        free(owner);
        return NULL;
    }
    owner->next = launcher->owners;
    launcher->owners = owner;
    return owner;
}

struct zygote_owner *zygote_owner_take(struct launcher *launcher, const char *tenant,
                                       const char *layer)
{
    struct zygote_owner *owner = find(launcher, tenant, layer);
    uint32_t slot = 0;

    if (!owner) {
        if (is_split(launcher) && !slots_take(launcher, &slot))
            return NULL;
        owner = add(launcher, tenant, layer, slot);
        if (!owner && is_split(launcher))
            slots_give(launcher, slot);
    }
    if (owner)
        owner->refs++;
    return owner;
}

struct zygote_owner *zygote_owner_take_over(struct launcher *launcher, const char *tenant,
                                            const char *layer, uint32_t slot)
{
    struct zygote_owner *owner = find(launcher, tenant, layer);

    if (!is_split(launcher))
        return zygote_owner_take(launcher, tenant, layer);
    if (owner && owner->slot != slot)
        return NULL;
    if (!owner) {
        if (!slots_take_one(launcher, slot))
            return NULL;
        owner = add(launcher, tenant, layer, slot);
        if (!owner)
            slots_give(launcher, slot);
    }
    if (owner)
        owner->refs++;
    return owner;
}

/* ---- releasing ---- */

void zygote_owner_give(struct zygote_owner *owner)
{
    struct launcher *launcher = owner ? owner->launcher : NULL;

    if (!owner || --owner->refs > 0)
        return;
    LIST_UNLINK(launcher->owners, owner);
    if (is_split(launcher)) {
        if (owner->had_zygote)
            zygote_strays_kill(owner->id, NULL, 0);
        cgroup_remove_owner(&owner->site);
        slots_give(launcher, owner->slot);
    }
    free(owner);
}
