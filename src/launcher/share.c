/*
 * share.c - which tenant a box is of, which boxes compute, and what share of CPU time each gets;
 * see share.h.
 */
#include "launcher/share.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "launcher/launcher_private.h"

/* ---- accounts ---- */

static struct share_account *find(const struct launcher *launcher, const char *tenant)
{
    struct share_account *account = launcher->shares.accounts;

    while (account && !str_equal(account->name, tenant))
        account = account->next;
    return account;
}

static bool is_recent(const struct share_account *account, uint64_t now_ms)
{
    return account->boxes || now_ms - account->asked_ms < SHARE_FORGET_MS;
}

static void forget_old(struct launcher *launcher, uint64_t now_ms)
{
    struct share_account **at = &launcher->shares.accounts, *old;

    while ((old = *at)) {
        if (is_recent(old, now_ms)) {
            at = &old->next;
            continue;
        }
        *at = old->next;
        launcher->shares.count--;
        free(old);
    }
}

static struct share_account *get(struct launcher *launcher, const char *tenant, uint64_t now_ms)
{
    const char *name = tenant[0] ? tenant : LAUNCHER_TENANT_LOCAL;
    struct share_account *account = find(launcher, name);

    if (account)
        return account;
    forget_old(launcher, now_ms);
    account = launcher->shares.count < LIMIT_TENANTS ? calloc(1, sizeof(*account)) : NULL;
    if (!account)
        return NULL;
    str_copy(account->name, sizeof(account->name), name);
    account->next = launcher->shares.accounts;
    launcher->shares.accounts = account;
    launcher->shares.count++;
    return account;
}

struct share_account *share_asked(struct launcher *launcher, const char *tenant)
{
    uint64_t now = clock_now_ms();
    struct share_account *account = get(launcher, tenant, now);

    if (account) {
        account->asked_ms = now;
        pool_demand_note(&account->demand, now);
    }
    return account;
}

uint32_t share_average_milli(const struct launcher *launcher, uint64_t now_ms)
{
    uint64_t sum = 0, count = 0;

    for (const struct share_account *account = launcher->shares.accounts; account;
         account = account->next) {
        if (!is_recent(account, now_ms))
            continue;
        sum += pool_demand_milli(&account->demand, now_ms);
        count++;
    }
    return count ? (uint32_t)(sum / count) : 0;
}

/* Tenants that have boxes, 2 standing for more. */
static unsigned tenants_with_boxes(const struct launcher *launcher)
{
    unsigned count = 0;

    for (const struct share_account *account = launcher->shares.accounts; account && count < 2;
         account = account->next)
        count += account->boxes > 0;
    return count;
}

/* ---- boxes ---- */

static void look_soon(struct launcher *launcher)
{
    struct shares *shares = &launcher->shares;
    uint64_t at = clock_now_ms() + SHARE_LOOK_MS;

    if (tenants_with_boxes(launcher) > 1 && (!shares->at_ms || at < shares->at_ms))
        shares->at_ms = at;
}

static void set_share(struct managed_box *box, uint32_t share)
{
    if (!share_differs(box->share, share))
        return;
    box->share = share;
    cgroup_set_share(&box->launched.group, share);
}

uint32_t share_of_new(const struct managed_box *box)
{
    bool competes = box->account && tenants_with_boxes(box->launcher) > 1;

    return share_each(competes ? box->account->active : 1);
}

/* New ones count as busy until a look has shown the contrary. */
void share_give_box(struct managed_box *box, struct share_account *account)
{
    if (!account || box->account)
        return;
    box->account = account;
    box->is_active = true;
    account->boxes++;
    account->active++;
    if (box->launched.pid) /* else its group is made with its share */
        set_share(box, share_of_new(box));
    look_soon(box->launcher);
}

void share_take_box(struct managed_box *box, const char *tenant)
{
    share_give_box(box, get(box->launcher, tenant, clock_now_ms()));
}

void share_box_gone(struct managed_box *box)
{
    struct share_account *account = box->account;

    box->account = NULL;
    if (!account)
        return;
    account->boxes--;
    account->active -= box->is_active;
    look_soon(box->launcher);
}

/* ---- looking ---- */

static void look_at(struct managed_box *box, uint64_t elapsed_ms, bool is_new)
{
    uint64_t cpu_us = cgroup_cpu_us(&box->launched.group);
    bool is_active = is_new || share_is_busy(cpu_us - MIN(box->seen_cpu_us, cpu_us), elapsed_ms);

    box->seen_cpu_us = cpu_us;
    box->account->active += is_active;
    box->account->active -= box->is_active;
    box->is_active = is_active;
}

/* On v2 the boxes of an owner divide what its group has: the sum of what they should have. */
static void divide_owners(struct launcher *launcher)
{
    for (struct zygote_owner *owner = launcher->owners; owner; owner = owner->next) {
        uint32_t wanted = owner->wanted_share ? owner->wanted_share : CGROUP_SHARE_TENANT;

        owner->wanted_share = 0;
        if (!share_differs(owner->share, wanted))
            continue;
        owner->share = wanted;
        cgroup_set_owner_share(&owner->site, wanted);
    }
}

static void divide(struct launcher *launcher, bool is_shared)
{
    for (size_t i = 0; i < LAUNCHER_BUCKETS; i++) {
        for (struct managed_box *box = launcher->buckets[i]; box; box = box->next) {
            if (!box->account)
                continue;
            set_share(box, share_each(is_shared ? box->account->active : 1));
            if (box->owner && box->is_active)
                box->owner->wanted_share += is_shared ? box->share : 0;
        }
    }
    divide_owners(launcher);
}

void share_tick(struct launcher *launcher, uint64_t now_ms)
{
    struct shares *shares = &launcher->shares;
    bool is_shared = tenants_with_boxes(launcher) > 1, is_busy = false;
    uint32_t count = 0;

    for (size_t i = 0; i < LAUNCHER_BUCKETS && is_shared; i++) {
        for (struct managed_box *box = launcher->buckets[i]; box; box = box->next) {
            if (!box->account)
                continue;
            look_at(box, now_ms - shares->looked_ms,
                    box->facts.made_ns / 1000000 > shares->looked_ms);
            is_busy |= box->is_active;
            count++;
        }
    }
    divide(launcher, is_shared);
    shares->looked_ms = now_ms;
    shares->pause_ms = is_shared ? share_pause_ms(shares->pause_ms, count, is_busy) : 0;
    shares->at_ms = is_shared ? now_ms + shares->pause_ms : 0;
}

void share_end(struct launcher *launcher)
{
    while (launcher->shares.accounts) {
        struct share_account *next = launcher->shares.accounts->next;

        free(launcher->shares.accounts);
        launcher->shares.accounts = next;
    }
    launcher->shares = (struct shares){0};
}
