/*
 * bringup.c - boxes that are being made: one is begun in each turn of the loop, several are in
 * progress at once, and each is finished when its channel reports. The launcher waits for none of
 * them. The broker's requests are begun in order; prewarmed boxes are made when there is nothing
 * else to do (pool.c).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "launcher/launcher_private.h"

struct box_bringup {
    struct launch launch;
    struct launch_spec spec;
    struct launch_paths room;
    struct box_interpreters interpreters;
};

static int fill_spec(struct managed_box *box, struct error *err)
{
    struct launcher *launcher = box->launcher;
    const struct launcher_plan *plan = launcher->plan;
    const struct launcher_make *make = &box->make;
    int r;
    char own[ID_MAX]; /* folders of a prewarmed one have no session's name yet */

    box->share = share_of_new(box);
    box->bringup->spec = (struct launch_spec){
        .memory_bytes = make->memory_bytes,
        .disk_bytes = make->disk_bytes,
        .pids = make->pids,
        .cpu_millis = make->cpu_millis,
        .minimum = make->minimum,
        .root = plan->root[0] ? plan->root : NULL,
        .binds = launcher->binds,
        .bind_count = plan->bind_count,
        .python = plan->python[0] ? plan->python : NULL,
        .wants_ruleset = plan->has_zygotes,
        .ids = plan->pair_count ? LAUNCH_IDS_PAIR : LAUNCH_IDS_SINGLE,
        .warden_id = PAIR_FIRST + 2 * box->slot,
        .guest_id = PAIR_FIRST + 2 * box->slot + 1,
        .owner_id = box->owner ? box->owner->id : 0,
        .site = box->owner ? &box->owner->site : &plan->site,
        .cpu_share = box->share,
    };
    r = interpreters_fill(launcher, make, &box->bringup->interpreters, &box->bringup->spec, err);
    if (r < 0)
        return r;
    str_copy(own, sizeof(own), make->key);
    if (box->folder)
        str_format(own, sizeof(own), "p_%u", (unsigned)box->folder);
    return launch_paths_fill(launcher, make, own, &box->bringup->room, &box->bringup->spec, err);
}

static void bringup_free(struct box_bringup *bringup)
{
    if (bringup)
        interpreters_free(&bringup->interpreters);
    free(bringup);
}

static void bringup_freep(struct box_bringup **bringup)
{
    bringup_free(*bringup);
}

/* ---- under way ---- */

static void leave_makings(struct managed_box *box)
{
    struct launcher *launcher = box->launcher;
    struct managed_box **at = &launcher->bringups;

    while (*at && *at != box)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = box->next;
    box->next = NULL;
    launcher->bringup_count--;
}

/* Calls the upgrade that waited for these to finish. */
static void one_less(struct launcher *launcher)
{
    if (launcher->greets_later && !bringups_of_others(launcher))
        broker_greet(launcher);
    pool_wake(launcher);
}

static void failed(struct managed_box *box, const struct error *err)
{
    struct launcher *launcher = box->launcher;
    CLEANUP(bringup_freep) struct box_bringup *bringup = ptr_take(&box->bringup);

    leave_makings(box);
    boxes_failed(box, bringup ? &bringup->launch.launched : NULL, err);
    one_less(launcher);
}

static void on_channel(struct loop_source *source, uint32_t events);

static int watch(struct managed_box *box)
{
    box->source.ready = on_channel;
    return loop_add(&box->launcher->loop, &box->source, box->bringup->launch.launched.channel_fd,
                    EPOLLIN);
}

static int not_watched(struct managed_box *box, int r, struct error *err)
{
    launch_drop(&box->bringup->launch);
    return error_set(err, r, ERROR_ENGINE, "watching the box: %s", strerror(-r));
}

static void turn(struct managed_box *box)
{
    struct launcher *launcher = box->launcher;
    struct error err = {0};
    int r;

    loop_remove(&launcher->loop, &box->source); /* another try has another channel */
    r = launch_turn(&box->bringup->launch, &err);
    if (r == 0) {
        r = watch(box);
        if (r == 0)
            return;
        r = not_watched(box, r, &err);
    }
    if (r < 0) {
        launch_paths_undo(launcher, &box->make);
        failed(box, &err);
        return;
    }
    leave_makings(box);
    box->launched = box->bringup->launch.launched;
    bringup_free(ptr_take(&box->bringup));
    boxes_stand(box);
    one_less(launcher);
}

static void on_channel(struct loop_source *source, uint32_t events)
{
    (void)events;
    turn((struct managed_box *)source); /* its first member */
}

void bringups_tick(struct launcher *launcher, uint64_t now_ms)
{
    struct managed_box *next;

    for (struct managed_box *box = launcher->bringups; box; box = next) {
        next = box->next;
        if (now_ms >= box->bringup->launch.deadline_ms) {
            turn(box);
            return; /* the list has changed; the timer fires again at once */
        }
    }
}

uint64_t bringups_deadline_ms(const struct launcher *launcher)
{
    uint64_t first = 0;

    for (const struct managed_box *box = launcher->bringups; box; box = box->next) {
        uint64_t deadline = box->bringup->launch.deadline_ms;

        if (!first || deadline < first)
            first = deadline;
    }
    return first;
}

bool bringups_of_others(const struct launcher *launcher)
{
    for (const struct managed_box *box = launcher->bringups; box; box = box->next) {
        if (!box->is_prewarmed && box->generation != launcher->generation)
            return true;
    }
    return false;
}

/* ---- beginning ---- */

void bringups_add(struct launcher *launcher, struct managed_box *box)
{
    box->next = NULL;
    *launcher->queue_end = box;
    launcher->queue_end = &box->next;
}

bool bringups_can_begin(const struct launcher *launcher)
{
    return launcher->queue && launcher->bringup_count < LIMIT_BRINGUPS && !launcher->is_over &&
           !upgrade_rests(launcher);
}

static struct managed_box *next_of_queue(struct launcher *launcher)
{
    struct managed_box *box = launcher->queue;

    launcher->queue = box->next;
    if (!launcher->queue)
        launcher->queue_end = &launcher->queue;
    box->next = NULL;
    return box;
}

void bringups_begin(struct launcher *launcher)
{
    struct managed_box *box = next_of_queue(launcher);
    struct error err = {0};
    int r;

    trace_moment(box, BOX_BEGUN);
    box->bringup = calloc(1, sizeof(*box->bringup));
    if (!box->bringup) {
        error_memory(&err);
        failed(box, &err);
        return;
    }
    r = fill_spec(box, &err);
    if (r < 0) {
        failed(box, &err);
        return;
    }
    r = launch_begin(&box->bringup->launch, &box->bringup->spec, &err);
    if (r == 0) {
        r = watch(box);
        if (r < 0)
            r = not_watched(box, r, &err);
    }
    if (r < 0) {
        launch_paths_undo(launcher, &box->make);
        failed(box, &err);
        return;
    }
    trace_moment(box, BOX_CLONED);
    box->next = launcher->bringups;
    launcher->bringups = box;
    launcher->bringup_count++;
}

/* ---- cancellation ---- */

void bringups_forget_queue(struct launcher *launcher)
{
    while (launcher->queue)
        boxes_free(next_of_queue(launcher));
}

void bringups_end_all(struct launcher *launcher)
{
    bringups_forget_queue(launcher);
    while (launcher->bringups) {
        struct managed_box *box = launcher->bringups;

        leave_makings(box);
        loop_remove(&launcher->loop, &box->source);
        launch_drop(&box->bringup->launch);
        bringup_free(ptr_take(&box->bringup));
        boxes_free(box);
    }
}
