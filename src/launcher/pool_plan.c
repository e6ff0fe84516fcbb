/* pool_plan.c - computes how many boxes of each bucket are prewarmed; see pool.h. */
#include "base/cleanup.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "launcher/pool.h"

bool pool_is_same(const struct launcher_make *made, const struct launcher_make *asked)
{
    return made->memory_bytes == asked->memory_bytes && made->disk_bytes == asked->disk_bytes &&
           made->pids == asked->pids && made->cpu_millis == asked->cpu_millis &&
           made->minimum == asked->minimum && made->has_data == asked->has_data &&
           made->has_packages == asked->has_packages && str_equal(made->layer, asked->layer) &&
           str_equal(made->tenant, asked->tenant) && str_equal(made->python, asked->python) &&
           str_equal(made->node, asked->node) && made->tier == asked->tier &&
           made->kernel == asked->kernel && made->staging == STAGING_NONE &&
           asked->staging == STAGING_NONE;
}

/* Halved for each half-life, linear in between. */
static uint32_t decayed(uint32_t milli, uint64_t age_ms)
{
    uint64_t halvings = age_ms / POOL_HALF_LIFE_MS, rest = age_ms % POOL_HALF_LIFE_MS;

    if (halvings >= 32)
        return 0;
    milli >>= halvings;
    return milli - (uint32_t)(milli / 2 * rest / POOL_HALF_LIFE_MS);
}

void pool_demand_note(struct pool_demand *demand, uint64_t now_ms)
{
    if (now_ms - demand->window_ms >= POOL_WINDOW_MS) {
        demand->peak_milli = pool_demand_milli(demand, now_ms);
        demand->peak_ms = now_ms;
        demand->window_ms = now_ms;
        demand->taken = 0;
    }
    if (demand->taken < LIMIT_POOL)
        demand->taken++;
}

uint32_t pool_demand_milli(const struct pool_demand *demand, uint64_t now_ms)
{
    uint32_t peak = decayed(demand->peak_milli, now_ms - demand->peak_ms);
    uint32_t window = decayed(demand->taken * 1000, now_ms - demand->window_ms);

    return MAX(peak, window);
}

static struct pool_wish *greatest_left(struct pool_wish *wishes, size_t count, const bool *is_done,
                                       size_t *ret)
{
    struct pool_wish *found = NULL;

    for (size_t i = 0; i < count; i++) {
        if (is_done[i] || (found && wishes[i].demand_milli <= found->demand_milli))
            continue;
        found = &wishes[i];
        *ret = i;
    }
    return found;
}

/* Gives at most `most` more of what it lacks, as far as slots and memory allow. */
static void give(struct pool_wish *wish, uint32_t wanted, uint32_t most, uint32_t *size,
                 uint64_t *memory_bytes)
{
    uint64_t each = wish->box_bytes ? wish->box_bytes : POOL_BOX_GUESS;
    uint64_t more = wanted > wish->target ? wanted - wish->target : 0;

    more = MIN(more, (uint64_t)most);
    more = MIN(more, (uint64_t)*size);
    more = MIN(more, *memory_bytes / each);
    wish->target += (uint32_t)more;
    *size -= (uint32_t)more;
    *memory_bytes -= more * each;
}

/*
 * One for each bucket with demand, so that a busy bucket does not leave others cold; then the rest.
 */
void pool_targets(struct pool_wish *wishes, size_t count, uint32_t size, uint64_t memory_bytes)
{
    struct pool_wish *wish;
    size_t at = 0;

    for (size_t i = 0; i < count; i++)
        wishes[i].target = 0;
    for (int round = 0; round < 2; round++) {
        bool is_done[LIMIT_POOL_BUCKETS] = {false};

        while (
            (wish = greatest_left(wishes, MIN(count, (size_t)LIMIT_POOL_BUCKETS), is_done, &at))) {
            uint32_t asked = (wish->demand_milli + 500) / 1000;

            is_done[at] = true;
            if (round == 0)
                give(wish, asked, 1, &size, &memory_bytes);
            else
                give(wish, MAX(asked, wish->least), UINT32_MAX, &size, &memory_bytes);
        }
    }
}
