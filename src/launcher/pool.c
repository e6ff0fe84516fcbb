/*
 * pool.c - prewarmed boxes, each with its kernel waiting for a first cell; see pool.h.
 *
 * A box of the pool is like any other, except that it is not assigned: no inventory shows it, and
 * its number is reported when it is taken. Then it belongs to its owner for good and ends with it.
 * Another one is begun only when the loop has nothing else to do and nothing else is being made, so
 * a request waits at most for one beginning. And it is begun when a box has ended, or a moment
 * after the last request: in between, making a box would delay the run that got the last one.
 */
#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "launcher/launcher_private.h"
#include "sys/calls.h"

static bool is_on(const struct launcher *launcher)
{
    return launcher->plan->pool_size > 0 && !launcher->is_stopping && !launcher->is_over &&
           launcher->upgrade.state != UPGRADE_RESTING;
}

void pool_wake(struct launcher *launcher)
{
    if (is_on(launcher))
        launcher->pool.is_due = true;
}

bool pool_is_due(const struct launcher *launcher, uint64_t now_ms)
{
    return launcher->pool.is_due && now_ms >= launcher->pool.hold_ms;
}

void pool_release(struct launcher *launcher)
{
    launcher->pool.hold_ms = 0;
}

/* ---- buckets ---- */

static struct pool_bucket *find_bucket(struct launcher *launcher, const struct launcher_make *make)
{
    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++) {
        struct pool_bucket *bucket = &launcher->pool.buckets[i];

        if (bucket->is_used && pool_is_same(&bucket->shape, make))
            return bucket;
    }
    return NULL;
}

/* A new bucket, replacing the emptiest one without demand; NULL: all are in use. */
static struct pool_bucket *add_bucket(struct launcher *launcher, const struct launcher_make *make)
{
    uint64_t now = clock_now_ms();

    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++) {
        struct pool_bucket *bucket = &launcher->pool.buckets[i];

        if (bucket->is_used && (bucket->idle_count || bucket->bringup_count || bucket->least ||
                                pool_demand_milli(&bucket->demand, now) >= 500))
            continue;
        *bucket = (struct pool_bucket){.is_used = true, .shape = *make};
        bucket->shape.serial = 0;
        bucket->shape.key[0] = 0;
        return bucket;
    }
    return NULL;
}

/* One box of the default template for a run, before the first request. */
void pool_start(struct launcher *launcher)
{
    const struct launcher_plan *plan = launcher->plan;
    struct launcher_make make = {
        .memory_bytes = plan->memory_bytes,
        .disk_bytes = plan->disk_bytes,
        .pids = plan->pids,
        .cpu_millis = plan->cpu_millis,
        .minimum = (uint8_t)plan->minimum,
        .tier = 0,
        .kernel = KERNEL_FIRST,
    };
    struct pool_bucket *bucket;

    if (plan->pool_size == 0)
        return;
    pool_folder_sweep(launcher);
    if (!plan->has_zygotes || !plan->memory_bytes)
        return;
    str_copy(make.layer, sizeof(make.layer), launcher->layer);
    zygote_owner_name(&make);
    bucket = add_bucket(launcher, &make);
    if (bucket)
        bucket->least = 1;
    pool_wake(launcher);
}

static struct pool_bucket *pool_bucket_of(struct launcher *launcher, const struct managed_box *box)
{
    return &launcher->pool.buckets[box->bucket];
}

static void take_off(struct pool_bucket *bucket, struct managed_box *box)
{
    struct managed_box **at = &bucket->boxes;

    while (*at && *at != box)
        at = &(*at)->older;
    if (!*at)
        return;
    *at = box->older;
    box->older = NULL;
    bucket->idle_count--;
}

/* ---- taking a box ---- */

static void hand_over(struct launcher *launcher, struct managed_box *box,
                      const struct launcher_make *make)
{
    box->is_prewarmed = false;
    box->was_prewarmed = true;
    box->make = *make;
    box->generation = launcher->generation;
    box->facts.is_pooled = true;
    box->facts.made_ns = clock_now_ns();
    str_copy(box->facts.key, sizeof(box->facts.key), make->key);
    launcher->box_count++;
}

/* One that is being made, if none is ready: it is ready sooner than a new one. */
static struct managed_box *take_bringup(struct launcher *launcher, struct pool_bucket *bucket,
                                        const struct launcher_make *make)
{
    for (struct managed_box *box = launcher->bringups; box; box = box->next) {
        if (!box->is_prewarmed || pool_bucket_of(launcher, box) != bucket || box->folder)
            continue;
        bucket->bringup_count--;
        hand_over(launcher, box, make);
        return box;
    }
    return NULL;
}

/*
 * Whether the tenant leaves what is there to others: a box that is made for it alone costs as much,
 * and comes later.
 */
static bool leaves(struct launcher *launcher, struct pool_bucket *bucket,
                   const struct share_account *account, uint64_t now)
{
    uint32_t kept = !account
                        ? 0
                        : share_pool_kept(bucket->target, pool_demand_milli(&account->demand, now),
                                          share_average_milli(launcher, now));

    if (kept > 0) {
        bucket->kept = kept;
        bucket->kept_ms = now;
    }
    return kept > 0 && bucket->idle_count <= kept;
}

struct managed_box *pool_take(struct launcher *launcher, const struct launcher_make *make,
                              const struct share_account *account)
{
    struct pool_bucket *bucket;
    struct managed_box *box;
    uint64_t now;

    if (!is_on(launcher) || make->staging != STAGING_NONE)
        return NULL;
    bucket = find_bucket(launcher, make);
    if (!bucket)
        bucket = add_bucket(launcher, make);
    if (!bucket)
        return NULL;
    now = clock_now_ms();
    bucket->is_old = false;
    pool_demand_note(&bucket->demand, now);
    pool_wake(launcher);
    launcher->pool.hold_ms = now + POOL_HOLD_MS;
    if (leaves(launcher, bucket, account, now))
        return NULL;
    while ((box = bucket->boxes)) {
        take_off(bucket, box);
        if (!box->folder || pool_folder_give(launcher, box, make->key) == 0) {
            hand_over(launcher, box, make);
            return box;
        }
        sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL); /* its session gets another box */
    }
    return take_bringup(launcher, bucket, make);
}

/* ---- changes of layers ---- */

static void drop_all(struct pool_bucket *bucket)
{
    struct managed_box *box;

    while ((box = bucket->boxes)) {
        take_off(bucket, box);
        sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
    }
}

static void let_all_go(struct pool_bucket *bucket)
{
    drop_all(bucket);
    bucket->is_old = true;
    bucket->least = bucket->target = 0;
    bucket->demand = (struct pool_demand){0};
}

void pool_forget(struct launcher *launcher, const char *layer)
{
    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++) {
        struct pool_bucket *bucket = &launcher->pool.buckets[i];

        if (bucket->is_used && str_equal(bucket->shape.layer, layer))
            let_all_go(bucket);
    }
    pool_wake(launcher);
}

void pool_renew(struct launcher *launcher, const char *from, const char *to)
{
    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++) {
        struct pool_bucket *bucket = &launcher->pool.buckets[i], before = *bucket, *next;

        if (!bucket->is_used || !str_equal(bucket->shape.layer, from) ||
            ((!from[0] || !to[0]) && !bucket->least))
            continue;
        let_all_go(bucket);
        str_copy(before.shape.layer, sizeof(before.shape.layer), to);
        zygote_owner_name(&before.shape);
        next = find_bucket(launcher, &before.shape);
        if (!next)
            next = add_bucket(launcher, &before.shape);
        if (!next)
            continue;
        next->is_old = false;
        next->least = MAX(next->least, before.least);
        next->demand = before.demand;
    }
    pool_wake(launcher);
}

/* ---- making boxes ---- */

static void begin(struct launcher *launcher, struct pool_bucket *bucket)
{
    struct managed_box *box = boxes_new(launcher, &bucket->shape, true);

    if (!box) {
        bucket->retry_at_ms = clock_now_ms() + POOL_RETRY_MS;
        return;
    }
    box->bucket = (uint32_t)(bucket - launcher->pool.buckets);
    box->zygote = zygotes_serving(launcher, &bucket->shape);
    bucket->bringup_count++;
    if (pool_folder_make(launcher, &bucket->shape, &box->folder) < 0) {
        boxes_free(box);
        return;
    }
    bringups_add(launcher, box);
    bringups_begin(launcher);
}

void pool_stands(struct launcher *launcher, struct managed_box *box)
{
    struct pool_bucket *bucket = pool_bucket_of(launcher, box);

    if (!is_on(launcher) || bucket->is_old ||
        (bucket->shape.tier != TIER_NONE && !box->facts.kernel)) {
        sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
        return;
    }
    bucket->bringup_count--;
    bucket->idle_count++;
    box->older = bucket->boxes;
    bucket->boxes = box;
    box->idle_since_ms = clock_now_ms();
}

/* One that was released is out of its bucket already; any other should not have ended. */
void pool_lost(struct launcher *launcher, struct managed_box *box)
{
    struct pool_bucket *bucket = pool_bucket_of(launcher, box);
    uint32_t before = bucket->idle_count;

    take_off(bucket, box);
    if (!box->idle_since_ms)
        bucket->bringup_count--; /* it was never ready */
    if (!box->idle_since_ms || bucket->idle_count < before)
        bucket->retry_at_ms = clock_now_ms() + POOL_RETRY_MS;
    pool_folder_remove(launcher, box);
    pool_wake(launcher);
}

/* ---- periodic work ---- */

/* Memory that an idle box uses: read once, when it has become idle. */
static void measure(struct pool_bucket *bucket, uint64_t now)
{
    uint64_t sum = 0, count = 0;

    for (struct managed_box *box = bucket->boxes; box; box = box->older) {
        if (!box->idle_bytes && now - box->idle_since_ms >= POOL_WINDOW_MS) {
            struct cgroup_usage usage;

            cgroup_usage(&box->launched.group, &usage);
            box->idle_bytes = usage.memory_bytes ? usage.memory_bytes : POOL_BOX_GUESS;
        }
        sum += box->idle_bytes;
        count += box->idle_bytes > 0;
    }
    if (count)
        bucket->box_bytes = sum / count;
}

static void set_targets(struct launcher *launcher, uint64_t now)
{
    struct pool_wish wishes[LIMIT_POOL_BUCKETS] = {0};

    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++) {
        struct pool_bucket *bucket = &launcher->pool.buckets[i];

        if (!bucket->is_used)
            continue;
        measure(bucket, now);
        wishes[i] = (struct pool_wish){.demand_milli = pool_demand_milli(&bucket->demand, now),
                                       .least = bucket->least,
                                       .box_bytes = bucket->box_bytes};
    }
    pool_targets(wishes, LIMIT_POOL_BUCKETS, launcher->plan->pool_size,
                 launcher->plan->pool_memory_mib * MIB);
    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++)
        launcher->pool.buckets[i].target = wishes[i].target;
}

static bool is_served(struct launcher *launcher, const struct pool_bucket *bucket)
{
    return bucket->shape.tier == TIER_NONE || zygotes_serving(launcher, &bucket->shape) != 0;
}

/* The bucket that lacks most and can get a box now. */
static struct pool_bucket *needy(struct launcher *launcher, uint64_t now)
{
    struct pool_bucket *found = NULL;
    uint32_t most = 0;

    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++) {
        struct pool_bucket *bucket = &launcher->pool.buckets[i];
        uint32_t has = bucket->idle_count + bucket->bringup_count;

        if (!bucket->is_used || has >= bucket->target || bucket->target - has <= most ||
            now < bucket->retry_at_ms || !is_served(launcher, bucket))
            continue;
        most = bucket->target - has;
        found = bucket;
    }
    return found;
}

/* A bucket that has fewer than are kept there for tenants that ask for few. */
static struct pool_bucket *lacks_kept(const struct launcher *launcher, uint64_t now)
{
    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++) {
        const struct pool_bucket *bucket = &launcher->pool.buckets[i];

        if (bucket->is_used && bucket->kept && now - bucket->kept_ms < POOL_KEPT_MS &&
            bucket->idle_count + bucket->bringup_count < bucket->kept && now >= bucket->retry_at_ms)
            return (struct pool_bucket *)bucket;
    }
    return NULL;
}

bool pool_lacks_kept(const struct launcher *launcher)
{
    return lacks_kept(launcher, clock_now_ms()) != NULL;
}

static uint32_t box_total(const struct launcher *launcher)
{
    uint32_t total = 0;

    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++)
        total += launcher->pool.buckets[i].idle_count + launcher->pool.buckets[i].bringup_count;
    return total;
}

/*
 * The oldest, when it is not needed any more (at once, if another bucket needs its slot); any whose
 * zygote has been replaced.
 */
static struct managed_box *superfluous(struct launcher *launcher, struct pool_bucket *bucket,
                                       bool is_tight, uint64_t now)
{
    uint32_t zygote = 0;
    struct managed_box *oldest = NULL;

    if (bucket->boxes && bucket->shape.tier != TIER_NONE)
        zygote = zygotes_serving(launcher, &bucket->shape);
    for (struct managed_box *box = bucket->boxes; box; box = box->older) {
        if (zygote && box->zygote != zygote)
            return box;
        oldest = box;
    }
    return oldest && bucket->idle_count > bucket->target &&
                   (is_tight || now - oldest->idle_since_ms >= POOL_SURPLUS_MS)
               ? oldest
               : NULL;
}

static void let_go(struct launcher *launcher, bool is_tight, uint64_t now)
{
    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++) {
        struct pool_bucket *bucket = &launcher->pool.buckets[i];
        struct managed_box *box = superfluous(launcher, bucket, is_tight, now);

        if (!box)
            continue;
        take_off(bucket, box);
        sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
        return; /* its end wakes the loop */
    }
}

/* When to look again without an event: something failed, must be measured, or gets old. */
static uint64_t next_look(struct launcher *launcher, uint64_t now)
{
    uint64_t wait = 0;

    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++) {
        const struct pool_bucket *bucket = &launcher->pool.buckets[i];
        bool lacks = bucket->idle_count + bucket->bringup_count < bucket->target;
        bool is_new = bucket->boxes && !bucket->boxes->idle_bytes;

        if (!bucket->is_used)
            continue;
        if (lacks || is_new)
            return now + POOL_RETRY_MS;
        if (bucket->idle_count > bucket->least)
            wait = POOL_HALF_LIFE_MS;
    }
    return wait ? now + wait : 0;
}

void pool_tick(struct launcher *launcher)
{
    uint64_t now = clock_now_ms();
    struct pool_bucket *bucket;

    launcher->pool.is_due = false;
    launcher->pool.at_ms = 0;
    if (!is_on(launcher))
        return;
    bucket = lacks_kept(launcher, now);
    if (bucket && !is_served(launcher, bucket))
        bucket = NULL;
    if (launcher->bringups && !bucket)
        return; /* a box that is being made wakes the loop when it is ready */
    set_targets(launcher, now);
    if (!bucket)
        bucket = needy(launcher, now);
    if (bucket && box_total(launcher) < launcher->plan->pool_size)
        begin(launcher, bucket);
    else
        let_go(launcher, bucket != NULL, now);
    launcher->pool.at_ms = next_look(launcher, now);
}

/* ---- reporting ---- */

void pool_fill_state(struct launcher *launcher, const char *tenant, struct launcher_state *state)
{
    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++) {
        const struct pool_bucket *bucket = &launcher->pool.buckets[i];

        if (!bucket->is_used)
            continue;
        if (state->tier != STATE_END &&
            (state->tier != bucket->shape.tier || !str_equal(state->layer, bucket->shape.layer) ||
             !str_equal(tenant, bucket->shape.tenant)))
            continue;
        state->pooled += bucket->idle_count;
        if (state->tier != STATE_END) {
            state->pool_size += bucket->target;
            continue;
        }
        for (const struct managed_box *box = bucket->boxes; box; box = box->older) {
            struct cgroup_usage usage;

            cgroup_usage(&box->launched.group, &usage);
            state->memory_bytes += usage.memory_bytes;
        }
    }
    if (state->tier == STATE_END)
        state->pool_size = launcher->plan->pool_size;
}

void pool_drop(struct launcher *launcher)
{
    for (size_t i = 0; i < LIMIT_POOL_BUCKETS; i++)
        drop_all(&launcher->pool.buckets[i]);
}

/* The boxes are gone already: they were ended with all others. */
void pool_end(struct launcher *launcher)
{
    launcher->pool = (struct pool){.at_ms = 0};
}
