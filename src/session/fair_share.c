/* fair_share.c - the arithmetic of start-time fair queueing; see fair_share.h. */
#include "session/fair_share.h"

#include "base/cleanup.h"

uint64_t fair_start(const struct fair_time *time, const struct fair_tag *tag)
{
    return MAX(time->now_us, tag->us);
}

static void add(const struct fair_time *time, struct fair_tag *tag, uint64_t us)
{
    uint64_t most = time->now_us + FAIR_DEBT_US, start = fair_start(time, tag);

    tag->us = us < most - MIN(start, most) ? start + us : most;
}

void fair_begin(struct fair_time *time, struct fair_tag *tag)
{
    time->now_us = fair_start(time, tag);
    add(time, tag, FAIR_BOX_US);
}

void fair_used(const struct fair_time *time, struct fair_tag *tag, uint64_t us)
{
    add(time, tag, us);
}

bool fair_owes_nothing(const struct fair_time *time, const struct fair_tag *tag)
{
    return tag->us <= time->now_us;
}

bool fair_is_below(const struct fair_time *time, const struct fair_tag *tag)
{
    return tag->us <= time->now_us + FAIR_BOX_US;
}
