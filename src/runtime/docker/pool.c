/*
 * pool.c - containers started ahead, with what the configuration says a box has. One is given once
 * and never comes back; the next is made behind it.
 */
#include "base/cleanup.h"
#include "base/layer.h"
#include "base/str.h"
#include "runtime/docker/inside.h"

#define MAKES_AT_ONCE 2
#define PAUSE_FIRST_MS 1000
#define PAUSE_MAX_MS 30000

static bool fits(const struct wall_box *box, const struct launcher_make *make)
{
    const struct launcher_make *has = &box->make;

    return box->is_ahead && box->stage == BOX_IDLE && has->memory_bytes == make->memory_bytes &&
           has->disk_bytes == make->disk_bytes && has->pids == make->pids &&
           has->cpu_millis == make->cpu_millis &&
           isolation_of_layers(box->facts.layers) >= make->minimum;
}

struct wall_box *docker_pool_take(struct docker_wall *wall, const struct launcher_make *make)
{
    struct wall_box *found = NULL;

    for (struct wall_box *box = wall->boxes; box; box = box->next) {
        if (fits(box, make))
            found = box; /* the oldest is the last of the list */
    }
    if (!found)
        return NULL;
    found->is_ahead = false;
    found->generation = wall->generation;
    found->make = *make;
    found->asked_ns = 0;
    str_copy(found->facts.key, sizeof(found->facts.key), make->key);
    if (found->facts.kernel) /* whether its owner takes it or not: the id is in use */
        found->facts.tier = make->tier;
    return found;
}

void docker_pool_fill(struct docker_wall *wall)
{
    struct launcher_make make = {
        .key = "pool",
        .memory_bytes = wall->spec.memory_bytes,
        .disk_bytes = wall->spec.disk_bytes,
        .pids = wall->spec.pids,
        .cpu_millis = wall->spec.cpu_millis,
        .minimum = wall->spec.minimum,
        .tier = TIER_NONE,
    };
    uint32_t count = 0, makings = 0;

    if (!wall->wants_pool || wall->is_leaving || wall->pool_pause_ms)
        return;
    for (const struct wall_box *box = wall->boxes; box; box = box->next) {
        count += box->is_ahead && box->stage <= BOX_IDLE;
        makings += box->is_ahead && box->stage < BOX_IDLE;
    }
    for (; count < wall->spec.pool_size && makings < MAKES_AT_ONCE && !wall->pool_pause_ms;
         count++, makings++)
        docked_make(wall, &make, true);
}

static void on_pause_over(void *ctx)
{
    struct docker_wall *wall = ctx;
    uint64_t pause_ms = wall->pool_pause_ms;

    wall->pool_pause_ms = 0;
    docker_pool_fill(wall);
    if (wall->pool_pause_ms == 0)
        wall->next_pause_ms = MIN(2 * pause_ms, (uint64_t)PAUSE_MAX_MS);
}

void docker_pool_failed(struct docker_wall *wall)
{
    if (wall->is_leaving || wall->pool_pause_ms)
        return;
    if (!wall->pool_timer)
        wall->pool_timer = reactor_timer(wall->reactor, on_pause_over, wall);
    wall->pool_pause_ms = MAX(wall->next_pause_ms, (uint64_t)PAUSE_FIRST_MS);
    if (wall->pool_timer)
        wall->reactor->ops->timer_set(wall->pool_timer, wall->pool_pause_ms);
}
