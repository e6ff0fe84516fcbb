/*
 * launcher_trace.c - where the time of a box went: moments of its life, logged in one line when it
 * has ended, if BAILEY_LOG=debug. A moment costs a reading of the clock, so they are always
 * recorded.
 *
 * The line is `box N tier T from pool|zygote|cold: NAME US; NAME US; ...`, each the microseconds
 * since the previous moment; after `of which:` come the steps of making it, which overlap.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "launcher/launcher_private.h"

#define TRACE_LINE_MAX 3072

/* What ended with this moment. */
static const char *const moment_names[] = {
    [BOX_ASKED] = "",
    [BOX_BEGUN] = "wait for its turn",
    [BOX_CLONED] = "plan, clone, control group",
    [BOX_STANDS] = "mounts and confinement of the box",
    [BOX_HEARD] = "ask the zygote",
    [BOX_FORKED] = "fork",
    [BOX_LOCKED] = "join and lock-down",
    [BOX_TOLD] = "tell the broker",
    [BOX_KERNEL_ENDED] = "run, until reaped",
    [BOX_END_ASKED] = "until its end is requested",
    [BOX_EXITED] = "teardown by the kernel",
    [BOX_GONE] = "reap and close",
};
_Static_assert(ARRAY_SIZE(moment_names) == _BOX_MOMENT_MAX, "a name for each");

void trace_moment(struct managed_box *box, enum box_moment moment)
{
    if (box)
        box->moments_ns[moment] = clock_now_ns();
}

/* Messages about the same thing come from two processes, in any order: never less than zero. */
static int add_moments(const struct managed_box *box, struct buf *line)
{
    uint64_t before = 0;
    int r = 0;

    for (int i = 0; i < _BOX_MOMENT_MAX && r >= 0; i++) {
        uint64_t now = box->moments_ns[i];

        if (now == 0)
            continue;
        if (before)
            r = buf_printf(line, " %s %llu;", moment_names[i],
                           (unsigned long long)(now > before ? now - before : 0) / 1000);
        before = MAX(now, before);
    }
    return r;
}

void trace_tell(const struct managed_box *box)
{
    const struct launched *launched = &box->launched;
    CLEANUP(buf_free) struct buf line = BUF_INIT(TRACE_LINE_MAX);
    int r;

    if (log_get_level() < LOG_DEBUG)
        return;
    r = add_moments(box, &line);
    if (r >= 0)
        r = buf_append_text(&line, " of which:");
    for (size_t i = 0; i < launched->timing_count && r >= 0; i++)
        r = buf_printf(&line, " %s %llu;", launched->timings[i].name,
                       (unsigned long long)launched->timings[i].ns / 1000);
    if (r >= 0)
        log_debug("box %u tier %d from %s:%s", (unsigned)box->facts.number,
                  box->facts.tier == TIER_NONE ? -1 : (int)box->facts.tier,
                  box->was_prewarmed             ? "pool"
                  : box->facts.tier == TIER_NONE ? "cold"
                                                 : "zygote",
                  buf_text(&line));
}
