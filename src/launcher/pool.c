/*
 * pool.c - boxes made ahead, each with its kernel waiting for a first cell; see pool.h.
 *
 * A box of the pool is like any other, but that nobody knows it: no inventory shows it, and its
 * number is told when it is taken. Then it is its owner's for good and ends with him. One more is
 * begun only when the loop has nothing else to do and nothing else is being made, so whoever comes
 * waits for what one begin takes at most. And it is begun when a box has ended, or a moment after
 * the last was asked for: between the two the run that got it would wait for its end behind us.
 */
#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "launcher/engine.h"
#include "sys/calls.h"

static bool is_on(const struct engine *engine)
{
    return engine->plan->pool_size > 0 && !engine->is_stopping && !engine->is_over &&
           engine->upgrade.state != UPGRADE_RESTING;
}

void pool_wake(struct engine *engine)
{
    if (is_on(engine))
        engine->pool.is_due = true;
}

bool pool_is_due(const struct engine *engine, uint64_t now_ms)
{
    return engine->pool.is_due && now_ms >= engine->pool.hold_ms;
}

void pool_release(struct engine *engine)
{
    engine->pool.hold_ms = 0;
}

/* ---- shelves ---- */

static struct pool_shelf *find_shelf(struct engine *engine, const struct launcher_make *make)
{
    for (size_t i = 0; i < LIMIT_SHELVES; i++) {
        struct pool_shelf *shelf = &engine->pool.shelves[i];

        if (shelf->is_used && pool_is_same(&shelf->shape, make))
            return shelf;
    }
    return NULL;
}

/* A new one, in place of the emptiest that nobody asks for any more; NULL: all are in use. */
static struct pool_shelf *add_shelf(struct engine *engine, const struct launcher_make *make)
{
    uint64_t now = clock_now_ms();

    for (size_t i = 0; i < LIMIT_SHELVES; i++) {
        struct pool_shelf *shelf = &engine->pool.shelves[i];

        if (shelf->is_used && (shelf->idle_count || shelf->making_count || shelf->least ||
                               pool_demand_milli(&shelf->demand, now) >= 500))
            continue;
        *shelf = (struct pool_shelf){.is_used = true, .shape = *make};
        shelf->shape.serial = 0;
        shelf->shape.key[0] = 0;
        return shelf;
    }
    return NULL;
}

/* One box of the default template for a run, before anybody has asked. */
void pool_start(struct engine *engine)
{
    const struct engine_plan *plan = engine->plan;
    struct launcher_make make = {
        .memory_bytes = plan->memory_bytes,
        .disk_bytes = plan->disk_bytes,
        .pids = plan->pids,
        .cpu_millis = plan->cpu_millis,
        .minimum = (uint8_t)plan->minimum,
        .tier = 0,
        .kernel = KERNEL_FIRST,
    };
    struct pool_shelf *shelf;

    if (plan->pool_size == 0)
        return;
    pool_folder_sweep(engine);
    if (!plan->has_zygotes || !plan->memory_bytes)
        return;
    str_copy(make.layer, sizeof(make.layer), engine->layer);
    shelf = add_shelf(engine, &make);
    if (shelf)
        shelf->least = 1;
    pool_wake(engine);
}

static struct pool_shelf *shelf_of(struct engine *engine, const struct engine_box *box)
{
    return &engine->pool.shelves[box->shelf];
}

static void take_off(struct pool_shelf *shelf, struct engine_box *box)
{
    struct engine_box **at = &shelf->boxes;

    while (*at && *at != box)
        at = &(*at)->older;
    if (!*at)
        return;
    *at = box->older;
    box->older = NULL;
    shelf->idle_count--;
}

/* ---- taken ---- */

static void hand_over(struct engine *engine, struct engine_box *box,
                      const struct launcher_make *make)
{
    box->is_ahead = false;
    box->was_ahead = true;
    box->make = *make;
    box->generation = engine->generation;
    box->facts.is_pooled = true;
    box->facts.made_ns = clock_now_ns();
    str_copy(box->facts.key, sizeof(box->facts.key), make->key);
    engine->box_count++;
}

/* One that is on its way, should none stand there: it is sooner ready than another. */
static struct engine_box *take_making(struct engine *engine, struct pool_shelf *shelf,
                                      const struct launcher_make *make)
{
    for (struct engine_box *box = engine->makings; box; box = box->next) {
        if (!box->is_ahead || shelf_of(engine, box) != shelf || box->folder)
            continue;
        shelf->making_count--;
        hand_over(engine, box, make);
        return box;
    }
    return NULL;
}

struct engine_box *pool_take(struct engine *engine, const struct launcher_make *make)
{
    struct pool_shelf *shelf;
    struct engine_box *box;
    uint64_t now;

    if (!is_on(engine) || make->staging != STAGING_NONE)
        return NULL;
    shelf = find_shelf(engine, make);
    if (!shelf)
        shelf = add_shelf(engine, make);
    if (!shelf)
        return NULL;
    now = clock_now_ms();
    shelf->is_old = false;
    pool_demand_note(&shelf->demand, now);
    pool_wake(engine);
    engine->pool.hold_ms = now + POOL_HOLD_MS;
    while ((box = shelf->boxes)) {
        take_off(shelf, box);
        if (!box->folder || pool_folder_give(engine, box, make->key) == 0) {
            hand_over(engine, box, make);
            return box;
        }
        sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL); /* its session is made another */
    }
    return take_making(engine, shelf, make);
}

/* ---- changed ---- */

static void drop_all(struct pool_shelf *shelf)
{
    struct engine_box *box;

    while ((box = shelf->boxes)) {
        take_off(shelf, box);
        sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
    }
}

static void let_all_go(struct pool_shelf *shelf)
{
    drop_all(shelf);
    shelf->is_old = true;
    shelf->least = shelf->target = 0;
    shelf->demand = (struct pool_demand){0};
}

void pool_forget(struct engine *engine, const char *layer)
{
    for (size_t i = 0; i < LIMIT_SHELVES; i++) {
        struct pool_shelf *shelf = &engine->pool.shelves[i];

        if (shelf->is_used && str_equal(shelf->shape.layer, layer))
            let_all_go(shelf);
    }
    pool_wake(engine);
}

void pool_renew(struct engine *engine, const char *from, const char *to)
{
    for (size_t i = 0; i < LIMIT_SHELVES; i++) {
        struct pool_shelf *shelf = &engine->pool.shelves[i], before = *shelf, *next;

        if (!shelf->is_used || !str_equal(shelf->shape.layer, from) ||
            ((!from[0] || !to[0]) && !shelf->least))
            continue;
        let_all_go(shelf);
        str_copy(before.shape.layer, sizeof(before.shape.layer), to);
        next = find_shelf(engine, &before.shape);
        if (!next)
            next = add_shelf(engine, &before.shape);
        if (!next)
            continue;
        next->is_old = false;
        next->least = MAX(next->least, before.least);
        next->demand = before.demand;
    }
    pool_wake(engine);
}

/* ---- made ---- */

static void begin(struct engine *engine, struct pool_shelf *shelf)
{
    struct engine_box *box = boxes_new(engine, &shelf->shape, true);

    if (!box) {
        shelf->retry_at_ms = clock_now_ms() + POOL_RETRY_MS;
        return;
    }
    box->shelf = (uint32_t)(shelf - engine->pool.shelves);
    box->zygote = zygotes_serving(engine, shelf->shape.layer, shelf->shape.tier);
    shelf->making_count++;
    if (pool_folder_make(engine, &shelf->shape, &box->folder) < 0) {
        boxes_free(box);
        return;
    }
    makings_add(engine, box);
    makings_begin(engine);
}

void pool_stands(struct engine *engine, struct engine_box *box)
{
    struct pool_shelf *shelf = shelf_of(engine, box);

    if (!is_on(engine) || shelf->is_old || (shelf->shape.tier != TIER_NONE && !box->facts.kernel)) {
        sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
        return;
    }
    shelf->making_count--;
    shelf->idle_count++;
    box->older = shelf->boxes;
    shelf->boxes = box;
    box->idle_since_ms = clock_now_ms();
}

/* One that was let go is off its shelf already; any other should not be gone. */
void pool_lost(struct engine *engine, struct engine_box *box)
{
    struct pool_shelf *shelf = shelf_of(engine, box);
    uint32_t before = shelf->idle_count;

    take_off(shelf, box);
    if (!box->idle_since_ms)
        shelf->making_count--; /* it never stood there */
    if (!box->idle_since_ms || shelf->idle_count < before)
        shelf->retry_at_ms = clock_now_ms() + POOL_RETRY_MS;
    pool_folder_remove(engine, box);
    pool_wake(engine);
}

/* ---- looked after ---- */

/* What an idle one uses: read once, when it has come to rest. */
static void measure(struct pool_shelf *shelf, uint64_t now)
{
    uint64_t sum = 0, count = 0;

    for (struct engine_box *box = shelf->boxes; box; box = box->older) {
        if (!box->idle_bytes && now - box->idle_since_ms >= POOL_WINDOW_MS) {
            struct cgroup_usage usage;

            cgroup_usage(&box->launched.group, &usage);
            box->idle_bytes = usage.memory_bytes ? usage.memory_bytes : POOL_BOX_GUESS;
        }
        sum += box->idle_bytes;
        count += box->idle_bytes > 0;
    }
    if (count)
        shelf->box_bytes = sum / count;
}

static void set_targets(struct engine *engine, uint64_t now)
{
    struct pool_wish wishes[LIMIT_SHELVES] = {0};

    for (size_t i = 0; i < LIMIT_SHELVES; i++) {
        struct pool_shelf *shelf = &engine->pool.shelves[i];

        if (!shelf->is_used)
            continue;
        measure(shelf, now);
        wishes[i] = (struct pool_wish){.demand_milli = pool_demand_milli(&shelf->demand, now),
                                       .least = shelf->least,
                                       .box_bytes = shelf->box_bytes};
    }
    pool_targets(wishes, LIMIT_SHELVES, engine->plan->pool_size,
                 engine->plan->pool_memory_mib * MIB);
    for (size_t i = 0; i < LIMIT_SHELVES; i++)
        engine->pool.shelves[i].target = wishes[i].target;
}

static bool is_served(struct engine *engine, const struct pool_shelf *shelf)
{
    return shelf->shape.tier == TIER_NONE ||
           zygotes_serving(engine, shelf->shape.layer, shelf->shape.tier) != 0;
}

/* The shelf that lacks most and can be given something now. */
static struct pool_shelf *needy(struct engine *engine, uint64_t now)
{
    struct pool_shelf *found = NULL;
    uint32_t most = 0;

    for (size_t i = 0; i < LIMIT_SHELVES; i++) {
        struct pool_shelf *shelf = &engine->pool.shelves[i];
        uint32_t has = shelf->idle_count + shelf->making_count;

        if (!shelf->is_used || has >= shelf->target || shelf->target - has <= most ||
            now < shelf->retry_at_ms || !is_served(engine, shelf))
            continue;
        most = shelf->target - has;
        found = shelf;
    }
    return found;
}

static uint32_t box_total(const struct engine *engine)
{
    uint32_t total = 0;

    for (size_t i = 0; i < LIMIT_SHELVES; i++)
        total += engine->pool.shelves[i].idle_count + engine->pool.shelves[i].making_count;
    return total;
}

/*
 * The oldest, when it is not needed any more (at once, when another shelf needs its place); any
 * whose zygote is not the one of now.
 */
static struct engine_box *superfluous(struct engine *engine, struct pool_shelf *shelf,
                                      bool is_tight, uint64_t now)
{
    uint32_t zygote = 0;
    struct engine_box *oldest = NULL;

    if (shelf->boxes && shelf->shape.tier != TIER_NONE)
        zygote = zygotes_serving(engine, shelf->shape.layer, shelf->shape.tier);
    for (struct engine_box *box = shelf->boxes; box; box = box->older) {
        if (zygote && box->zygote != zygote)
            return box;
        oldest = box;
    }
    return oldest && shelf->idle_count > shelf->target &&
                   (is_tight || now - oldest->idle_since_ms >= POOL_SURPLUS_MS)
               ? oldest
               : NULL;
}

static void let_go(struct engine *engine, bool is_tight, uint64_t now)
{
    for (size_t i = 0; i < LIMIT_SHELVES; i++) {
        struct pool_shelf *shelf = &engine->pool.shelves[i];
        struct engine_box *box = superfluous(engine, shelf, is_tight, now);

        if (!box)
            continue;
        take_off(shelf, box);
        sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
        return; /* its end wakes us */
    }
}

/* When to look again although nothing happened: something failed, is measured, or gets old. */
static uint64_t next_look(struct engine *engine, uint64_t now)
{
    uint64_t wait = 0;

    for (size_t i = 0; i < LIMIT_SHELVES; i++) {
        const struct pool_shelf *shelf = &engine->pool.shelves[i];
        bool lacks = shelf->idle_count + shelf->making_count < shelf->target;
        bool is_new = shelf->boxes && !shelf->boxes->idle_bytes;

        if (!shelf->is_used)
            continue;
        if (lacks || is_new)
            return now + POOL_RETRY_MS;
        if (shelf->idle_count > shelf->least)
            wait = POOL_HALF_LIFE_MS;
    }
    return wait ? now + wait : 0;
}

void pool_tick(struct engine *engine)
{
    uint64_t now = clock_now_ms();
    struct pool_shelf *shelf;

    engine->pool.is_due = false;
    engine->pool.at_ms = 0;
    if (!is_on(engine) || engine->makings)
        return; /* what is being made wakes us when it stands */
    set_targets(engine, now);
    shelf = needy(engine, now);
    if (shelf && box_total(engine) < engine->plan->pool_size)
        begin(engine, shelf);
    else
        let_go(engine, shelf != NULL, now);
    engine->pool.at_ms = next_look(engine, now);
}

/* ---- told ---- */

void pool_fill_state(struct engine *engine, struct launcher_state *state)
{
    for (size_t i = 0; i < LIMIT_SHELVES; i++) {
        const struct pool_shelf *shelf = &engine->pool.shelves[i];

        if (!shelf->is_used)
            continue;
        if (state->tier != STATE_END &&
            (state->tier != shelf->shape.tier || !str_equal(state->layer, shelf->shape.layer)))
            continue;
        state->pooled += shelf->idle_count;
        if (state->tier != STATE_END) {
            state->pool_size += shelf->target;
            continue;
        }
        for (const struct engine_box *box = shelf->boxes; box; box = box->older) {
            struct cgroup_usage usage;

            cgroup_usage(&box->launched.group, &usage);
            state->memory_bytes += usage.memory_bytes;
        }
    }
    if (state->tier == STATE_END)
        state->pool_size = engine->plan->pool_size;
}

void pool_drop(struct engine *engine)
{
    for (size_t i = 0; i < LIMIT_SHELVES; i++)
        drop_all(&engine->pool.shelves[i]);
}

/* The boxes are gone already: they were ended with all others. */
void pool_end(struct engine *engine)
{
    engine->pool = (struct pool){.at_ms = 0};
}
