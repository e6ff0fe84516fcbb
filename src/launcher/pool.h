/*
 * pool.h - prewarmed boxes: how many of which kind to keep. Private to launcher/.
 *
 * A bucket has boxes of one kind: layer, tier, purpose, limits. Its target size follows the recent
 * demand, at most SANDBOX_POOL_SIZE for all buckets together, and no more than fit under
 * SANDBOX_POOL_MEMORY by the measured use of idle boxes. The functions here are pure; pool.c acts
 * on them.
 *
 * Runs in: launcher
 */
#ifndef BAILEY_LAUNCHER_POOL_H
#define BAILEY_LAUNCHER_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "launcher/protocol.h"

#define POOL_WINDOW_MS 1000      /* takes within this time count together */
#define POOL_HALF_LIFE_MS 10000  /* a peak counts half after this long */
#define POOL_SURPLUS_MS 60000    /* an idle box that is not needed any more is kept this long */
#define POOL_RETRY_MS 1000       /* after something failed */
#define POOL_HOLD_MS 3           /* after a request: leaves the CPU to its run */
#define POOL_KEPT_MS 10000       /* after a request that left the last places to others */
#define POOL_BOX_GUESS (4 * MIB) /* until one was measured */

/* Whether a box that was made for `made` fits the request `asked`. */
bool pool_is_same(const struct launcher_make *made, const struct launcher_make *asked);

/* A maximum of takes in a window, which decays. */
struct pool_demand {
    uint64_t window_ms, peak_ms; /* when they began */
    uint32_t taken;              /* in the window */
    uint32_t peak_milli;         /* thousandths of a box, at peak_ms */
};
void pool_demand_note(struct pool_demand *demand, uint64_t now_ms);
uint32_t pool_demand_milli(const struct pool_demand *demand, uint64_t now_ms);

/* One bucket, as the controller sees it. */
struct pool_wish {
    uint32_t demand_milli;
    uint32_t least;     /* also without any demand */
    uint64_t box_bytes; /* measured; 0: not yet */
    uint32_t target;    /* the result */
};
/* Each bucket with demand gets one; the rest goes to the greatest demand first. */
void pool_targets(struct pool_wish *wishes, size_t count, uint32_t size, uint64_t memory_bytes);

/* ---- state in the launcher ---- */
struct managed_box;
struct pool_bucket {
    bool is_used;
    struct launcher_make shape; /* without serial and key */
    struct pool_demand demand;
    uint32_t least, target;
    bool is_old; /* they will not be requested any more: boxes that are still being made are
                    released */
    struct managed_box *boxes; /* the newest first */
    uint32_t idle_count, bringup_count;
    uint32_t kept;      /* so many were left to others at kept_ms, by a tenant that asks for many */
    uint64_t kept_ms;   /* and are made even while that tenant's are being made */
    uint64_t box_bytes; /* of an idle one */
    uint64_t retry_at_ms; /* no attempt before this time */
};
struct pool {
    struct pool_bucket buckets[LIMIT_POOL_BUCKETS];
    uint32_t next_folder;
    bool is_due;      /* something changed since the last look */
    uint64_t hold_ms; /* no box is made before this time */
    uint64_t at_ms;   /* the next look without an event; 0: none */
};

#endif
