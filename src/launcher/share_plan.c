/* share_plan.c - the arithmetic of CPU shares: who gets how much, and when to look again. */
#include "base/cleanup.h"
#include "launcher/share.h"
#include "sys/cgroup.h"

uint32_t share_each(uint32_t active)
{
    return CGROUP_SHARE_TENANT / MIN(MAX(active, 1u), (uint32_t)CGROUP_SHARE_TENANT);
}

bool share_differs(uint32_t present, uint32_t wanted)
{
    uint32_t more = present > wanted ? present - wanted : wanted - present;

    return more > 0 && more >= present / 8;
}

bool share_is_busy(uint64_t used_us, uint64_t elapsed_ms)
{
    return used_us > elapsed_ms * SHARE_BUSY_PER_MILLE;
}

/* Looking at a box costs about 15 us: a millisecond for each keeps that below two per cent. */
uint64_t share_pause_ms(uint64_t last_ms, uint32_t boxes, bool is_anything_busy)
{
    uint64_t least = MAX((uint64_t)SHARE_LOOK_MS, (uint64_t)boxes);

    if (is_anything_busy)
        return least;
    return MIN(MAX(2 * last_ms, least), (uint64_t)SHARE_REST_MS);
}

uint32_t share_pool_kept(uint32_t target, uint32_t demand_milli, uint32_t average_milli)
{
    if (target < 2 || demand_milli <= target * 500 ||
        demand_milli <= average_milli + average_milli / 8)
        return 0;
    return MAX(target / 4, 1u);
}
