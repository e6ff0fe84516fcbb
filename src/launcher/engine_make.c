/*
 * engine_make.c - boxes on their way: begun one in each turn of the loop, several at once, and
 * finished when their channel says so. The launcher waits for none of them. What the broker asked
 * for is begun in its order; boxes that are made ahead come when nothing else is to be done
 * (pool.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "launcher/engine.h"

struct engine_making {
    struct launch launch;
    struct launch_spec spec;
    struct furnishing room;
};

static int fill_spec(struct engine_box *box, struct error *err)
{
    struct engine *engine = box->engine;
    const struct engine_plan *plan = engine->plan;
    const struct launcher_make *make = &box->make;
    char own[ID_MAX]; /* folders of one that is made ahead have no session's name yet */

    box->making->spec = (struct launch_spec){
        .memory_bytes = make->memory_bytes,
        .disk_bytes = make->disk_bytes,
        .pids = make->pids,
        .cpu_millis = make->cpu_millis,
        .minimum = make->minimum,
        .root = plan->root[0] ? plan->root : NULL,
        .binds = engine->binds,
        .bind_count = plan->bind_count,
        .wants_ruleset = plan->has_zygotes,
        .ids = plan->pair_count ? LAUNCH_IDS_PAIR : LAUNCH_IDS_SINGLE,
        .warden_id = ENGINE_PAIR_FIRST + 2 * box->slot,
        .guest_id = ENGINE_PAIR_FIRST + 2 * box->slot + 1,
        .site = &plan->site,
    };
    str_copy(own, sizeof(own), make->key);
    if (box->folder)
        str_format(own, sizeof(own), "p_%u", (unsigned)box->folder);
    return furnish_spec(engine, make, own, &box->making->room, &box->making->spec, err);
}

/* ---- under way ---- */

static void leave_makings(struct engine_box *box)
{
    struct engine *engine = box->engine;
    struct engine_box **at = &engine->makings;

    while (*at && *at != box)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = box->next;
    box->next = NULL;
    engine->making_count--;
}

/* Whoever waited for these to be out of the way. */
static void one_less(struct engine *engine)
{
    if (engine->greets_later && !makings_of_others(engine))
        broker_greet(engine);
    pool_wake(engine);
}

static void failed(struct engine_box *box, const struct error *err)
{
    struct engine *engine = box->engine;
    CLEANUP(freep) struct engine_making *making = ptr_take(&box->making);

    leave_makings(box);
    boxes_failed(box, making ? &making->launch.launched : NULL, err);
    one_less(engine);
}

static void on_channel(struct loop_source *source, uint32_t events);

static int watch(struct engine_box *box)
{
    box->source.ready = on_channel;
    return loop_add(&box->engine->loop, &box->source, box->making->launch.launched.channel_fd,
                    EPOLLIN);
}

static int not_watched(struct engine_box *box, int r, struct error *err)
{
    launch_drop(&box->making->launch);
    return error_set(err, r, ERROR_ENGINE, "watching the box: %s", strerror(-r));
}

static void turn(struct engine_box *box)
{
    struct engine *engine = box->engine;
    struct error err = {0};
    int r;

    loop_remove(&engine->loop, &box->source); /* another try has another channel */
    r = launch_turn(&box->making->launch, &err);
    if (r == 0) {
        r = watch(box);
        if (r == 0)
            return;
        r = not_watched(box, r, &err);
    }
    if (r < 0) {
        furnish_undo(engine, &box->make);
        failed(box, &err);
        return;
    }
    leave_makings(box);
    box->launched = box->making->launch.launched;
    free(ptr_take(&box->making));
    boxes_stand(box);
    one_less(engine);
}

static void on_channel(struct loop_source *source, uint32_t events)
{
    (void)events;
    turn((struct engine_box *)source); /* its first member */
}

void makings_tick(struct engine *engine, uint64_t now_ms)
{
    struct engine_box *next;

    for (struct engine_box *box = engine->makings; box; box = next) {
        next = box->next;
        if (now_ms >= box->making->launch.deadline_ms) {
            turn(box);
            return; /* the list is another one now; the timer comes again at once */
        }
    }
}

uint64_t makings_deadline_ms(const struct engine *engine)
{
    uint64_t first = 0;

    for (const struct engine_box *box = engine->makings; box; box = box->next) {
        uint64_t deadline = box->making->launch.deadline_ms;

        if (!first || deadline < first)
            first = deadline;
    }
    return first;
}

bool makings_of_others(const struct engine *engine)
{
    for (const struct engine_box *box = engine->makings; box; box = box->next) {
        if (!box->is_ahead && box->generation != engine->generation)
            return true;
    }
    return false;
}

/* ---- begun ---- */

void makings_add(struct engine *engine, struct engine_box *box)
{
    box->next = NULL;
    *engine->queue_end = box;
    engine->queue_end = &box->next;
}

bool makings_can_begin(const struct engine *engine)
{
    return engine->queue && engine->making_count < LIMIT_MAKINGS && !engine->is_over &&
           !upgrade_rests(engine);
}

static struct engine_box *next_of_queue(struct engine *engine)
{
    struct engine_box *box = engine->queue;

    engine->queue = box->next;
    if (!engine->queue)
        engine->queue_end = &engine->queue;
    box->next = NULL;
    return box;
}

void makings_begin(struct engine *engine)
{
    struct engine_box *box = next_of_queue(engine);
    struct error err = {0};
    int r;

    trace_moment(box, BOX_BEGUN);
    box->making = calloc(1, sizeof(*box->making));
    if (!box->making) {
        error_set(&err, -ENOMEM, ERROR_ENGINE, "out of memory");
        failed(box, &err);
        return;
    }
    r = fill_spec(box, &err);
    if (r < 0) {
        failed(box, &err);
        return;
    }
    r = launch_begin(&box->making->launch, &box->making->spec, &err);
    if (r == 0) {
        r = watch(box);
        if (r < 0)
            r = not_watched(box, r, &err);
    }
    if (r < 0) {
        furnish_undo(engine, &box->make);
        failed(box, &err);
        return;
    }
    trace_moment(box, BOX_CLONED);
    box->next = engine->makings;
    engine->makings = box;
    engine->making_count++;
}

/* ---- given up ---- */

void makings_forget_queue(struct engine *engine)
{
    while (engine->queue)
        boxes_free(next_of_queue(engine));
}

void makings_end_all(struct engine *engine)
{
    makings_forget_queue(engine);
    while (engine->makings) {
        struct engine_box *box = engine->makings;

        leave_makings(box);
        loop_remove(&engine->loop, &box->source);
        launch_drop(&box->making->launch);
        free(ptr_take(&box->making));
        boxes_free(box);
    }
}
