/*
 * pool.c - prewarmed boxes with the configured limits. A box is given once and never returned; the
 * next one is made after it.
 */
#include "base/cleanup.h"
#include "base/isolation.h"
#include "base/str.h"
#include "runtime/host/host_private.h"

#define MAKES_AT_ONCE 2
#define PAUSE_FIRST_MS 1000
#define PAUSE_MAX_MS 30000

static bool fits(const struct host_box *box, const struct launcher_make *make)
{
    const struct launcher_make *has = &box->make;

    return box->is_prewarmed && box->stage == BOX_IDLE && has->memory_bytes == make->memory_bytes &&
           has->disk_bytes == make->disk_bytes && has->pids == make->pids &&
           has->cpu_millis == make->cpu_millis &&
           isolation_of_layers(box->facts.layers) >= make->minimum;
}

struct host_box *host_pool_take(struct host *host, const struct launcher_make *make)
{
    struct host_box *found = NULL;

    for (struct host_box *box = host->boxes; box; box = box->next) {
        if (fits(box, make))
            found = box; /* the oldest is the last of the list */
    }
    if (!found)
        return NULL;
    found->is_prewarmed = false;
    found->generation = host->generation;
    found->make = *make;
    found->asked_ns = 0;
    str_copy(found->facts.key, sizeof(found->facts.key), make->key);
    if (found->facts.kernel) /* the id is in use, whether its owner uses the kernel or not */
        found->facts.tier = make->tier;
    return found;
}

void host_pool_fill(struct host *host)
{
    struct launcher_make make = {
        .key = "pool",
        .memory_bytes = host->spec.memory_bytes,
        .disk_bytes = host->spec.disk_bytes,
        .pids = host->spec.pids,
        .cpu_millis = host->spec.cpu_millis,
        .minimum = host->spec.minimum,
        .tier = TIER_NONE,
    };
    uint32_t count = 0, makings = 0;

    if (!host->wants_pool || host->is_leaving || host->pool_pause_ms)
        return;
    for (const struct host_box *box = host->boxes; box; box = box->next) {
        count += box->is_prewarmed && box->stage <= BOX_IDLE;
        makings += box->is_prewarmed && box->stage < BOX_IDLE;
    }
    for (; count < host->spec.pool_size && makings < MAKES_AT_ONCE && !host->pool_pause_ms;
         count++, makings++)
        host_box_make(host, &make, true);
}

static void on_pause_over(void *ctx)
{
    struct host *host = ctx;
    uint64_t pause_ms = host->pool_pause_ms;

    host->pool_pause_ms = 0;
    host_pool_fill(host);
    if (host->pool_pause_ms == 0)
        host->next_pause_ms = MIN(2 * pause_ms, (uint64_t)PAUSE_MAX_MS);
}

void host_pool_failed(struct host *host)
{
    if (host->is_leaving || host->pool_pause_ms)
        return;
    if (!host->pool_timer)
        host->pool_timer = reactor_timer(host->reactor, on_pause_over, host);
    host->pool_pause_ms = MAX(host->next_pause_ms, (uint64_t)PAUSE_FIRST_MS);
    if (host->pool_timer)
        host->reactor->ops->timer_set(host->pool_timer, host->pool_pause_ms);
}
