/*
 * launcher_handover.c - live boxes, written for the program that takes over and read by it; see
 * upgrade.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "launcher/handover.h"
#include "launcher/launcher_private.h"

bool boxes_has_prewarmed(const struct launcher *launcher)
{
    for (size_t i = 0; i < LAUNCHER_BUCKETS; i++) {
        for (const struct managed_box *box = launcher->buckets[i]; box; box = box->next) {
            if (box->is_prewarmed)
                return true;
        }
    }
    return false;
}

/* Prewarmed boxes are not passed on: they are ended before the handover. */
int boxes_hand(struct launcher *launcher, int (*each)(void *ctx, const struct handover_box *box),
               void *ctx)
{
    int r = 0;

    for (size_t i = 0; i < LAUNCHER_BUCKETS; i++) {
        for (struct managed_box *box = launcher->buckets[i]; box && r == 0; box = box->next) {
            const struct launched *launched = &box->launched;
            struct handover_box told = {
                .facts = box->facts,
                .slot = box->slot,
                .was_asked = box->was_asked,
                .was_prewarmed = box->was_prewarmed,
                .staging = box->make.staging,
                .pid = launched->pid,
                .pid_fd = launched->pid_fd,
                .channel_fd = launched->channel_fd,
                .ruleset_fd = launched->ruleset_fd,
                .flavour = launched->group.flavour,
                .has_owner = box->owner,
                .owner_slot = box->owner ? box->owner->slot : 0,
            };

            memcpy(told.group, launched->group.path, sizeof(told.group));
            if (box->owner)
                str_copy(told.tenant, sizeof(told.tenant), box->owner->tenant);
            if (box->account)
                str_copy(told.account, sizeof(told.account), box->account->name);
            if (!box->is_prewarmed)
                r = each(ctx, &told);
        }
    }
    return r;
}

int boxes_take(struct launcher *launcher, const struct handover_box *from)
{
    CLEANUP(freep) struct managed_box *box = calloc(1, sizeof(*box));
    struct error ignored = {0};
    int r;

    if (!box)
        return -ENOMEM;
    if (!slots_take_one(launcher, from->slot))
        return -EEXIST;
    box->launcher = launcher;
    box->source.fd = -1;
    box->facts = from->facts;
    box->slot = from->slot;
    box->was_asked = from->was_asked;
    box->was_prewarmed = from->was_prewarmed;
    box->make = (struct launcher_make){.staging = from->staging, .tier = TIER_NONE};
    str_copy(box->make.key, sizeof(box->make.key), from->facts.key);
    box->launched = (struct launched){.pid = from->pid,
                                      .pid_fd = from->pid_fd,
                                      .channel_fd = from->channel_fd,
                                      .ruleset_fd = from->ruleset_fd,
                                      .egress_fd = -1,
                                      .folder_fd = -1,
                                      .layers = from->facts.layers,
                                      .missing = from->facts.missing};
    cgroup_init(&box->launched.group);
    box->launched.group.flavour = from->flavour;
    memcpy(box->launched.group.path, from->group, sizeof(from->group));
    /* Without an owner its kernels are started cold, which is no reason to lose it. */
    if (from->has_owner)
        box->owner =
            zygote_owner_take_over(launcher, from->tenant, from->facts.layer, from->owner_slot);
    r = boxes_keep(box, &ignored);
    if (r < 0) {
        slots_give(launcher, box->slot);
        zygote_owner_give(box->owner);
        return r;
    }
    launcher->box_count++;
    share_take_box(box, from->account);
    ptr_take(&box);
    return 0;
}
