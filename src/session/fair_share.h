/*
 * fair_share.h - start-time fair queueing: in which order tenants' boxes are made, by what they
 * cost.
 *
 * Each tenant has a tag on a virtual time that is counted in microseconds of CPU time. A box's
 * start tag is the tenant's own tag, or the virtual time if that is later: who comes back after a
 * pause has no hoard of credit. The box with the lowest start tag is next, and the virtual time
 * becomes that tag. Each box costs FAIR_BOX_US at once, and what its programs use is added when it
 * is known; a tenant's tag is never more than FAIR_DEBT_US ahead, so that no tenant waits for long.
 * Pure: no clock, no memory.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_FAIR_SHARE_H
#define BAILEY_SESSION_FAIR_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * CPU time of making and removing a box, most of it the kernel's, which no counter attributes to
 * it (docs/design/2026-11-18-fair-without-a-brake.md).
 */
#define FAIR_BOX_US 5000
#define FAIR_DEBT_US 250000

struct fair_time {
    uint64_t now_us; /* the virtual time */
};

struct fair_tag {
    uint64_t us;
};

/* The start tag of the tenant's next box. */
uint64_t fair_start(const struct fair_time *time, const struct fair_tag *tag);
/* The tenant's next box is begun. */
void fair_begin(struct fair_time *time, struct fair_tag *tag);
/* The tenant's programs used this much CPU time. */
void fair_used(const struct fair_time *time, struct fair_tag *tag, uint64_t us);
/* Whether it is as good as one that is new. */
bool fair_owes_nothing(const struct fair_time *time, const struct fair_tag *tag);
/* Whether it has had no more than the others until now, but for the box that it began last. */
bool fair_is_below(const struct fair_time *time, const struct fair_tag *tag);

#endif
