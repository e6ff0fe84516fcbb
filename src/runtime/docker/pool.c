/*
 * pool.c - prewarmed containers, with what the configuration says a box has. One is given once
 * and never comes back; the next is made behind it.
 */
#include "base/cleanup.h"
#include "base/isolation.h"
#include "base/str.h"
#include "runtime/docker/docker_private.h"

#define MAKES_AT_ONCE 2
#define PAUSE_FIRST_MS 1000
#define PAUSE_MAX_MS 30000

static bool fits(const struct container *box, const struct launcher_make *make)
{
    const struct launcher_make *has = &box->make;

    return box->is_prewarmed && box->stage == BOX_IDLE && has->memory_bytes == make->memory_bytes &&
           has->disk_bytes == make->disk_bytes && has->pids == make->pids &&
           has->cpu_millis == make->cpu_millis &&
           isolation_of_layers(box->facts.layers) >= make->minimum;
}

struct container *docker_pool_take(struct docker_host *docker, const struct launcher_make *make)
{
    struct container *found = NULL;

    for (struct container *box = docker->boxes; box; box = box->next) {
        if (fits(box, make))
            found = box; /* the oldest is the last of the list */
    }
    if (!found)
        return NULL;
    found->is_prewarmed = false;
    found->generation = docker->generation;
    found->make = *make;
    found->asked_ns = 0;
    str_copy(found->facts.key, sizeof(found->facts.key), make->key);
    if (found->facts.kernel) /* whether its owner takes it or not: the id is in use */
        found->facts.tier = make->tier;
    return found;
}

void docker_pool_fill(struct docker_host *docker)
{
    struct launcher_make make = {
        .key = "pool",
        .memory_bytes = docker->spec.memory_bytes,
        .disk_bytes = docker->spec.disk_bytes,
        .pids = docker->spec.pids,
        .cpu_millis = docker->spec.cpu_millis,
        .minimum = docker->spec.minimum,
        .tier = TIER_NONE,
    };
    uint32_t count = 0, makings = 0;

    if (!docker->wants_pool || docker->is_leaving || docker->pool_pause_ms)
        return;
    for (const struct container *box = docker->boxes; box; box = box->next) {
        count += box->is_prewarmed && box->stage <= BOX_IDLE;
        makings += box->is_prewarmed && box->stage < BOX_IDLE;
    }
    for (; count < docker->spec.pool_size && makings < MAKES_AT_ONCE && !docker->pool_pause_ms;
         count++, makings++)
        container_make(docker, &make, true);
}

static void on_pause_over(void *ctx)
{
    struct docker_host *docker = ctx;
    uint64_t pause_ms = docker->pool_pause_ms;

    docker->pool_pause_ms = 0;
    docker_pool_fill(docker);
    if (docker->pool_pause_ms == 0)
        docker->next_pause_ms = MIN(2 * pause_ms, (uint64_t)PAUSE_MAX_MS);
}

void docker_pool_failed(struct docker_host *docker)
{
    if (docker->is_leaving || docker->pool_pause_ms)
        return;
    if (!docker->pool_timer)
        docker->pool_timer = reactor_timer(docker->reactor, on_pause_over, docker);
    docker->pool_pause_ms = MAX(docker->next_pause_ms, (uint64_t)PAUSE_FIRST_MS);
    if (docker->pool_timer)
        docker->reactor->ops->timer_set(docker->pool_timer, docker->pool_pause_ms);
}
