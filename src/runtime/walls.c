/* walls.c - the wall of containers and the launcher behind one maker; see walls.h. */
#include "runtime/walls.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "runtime/walls_inside.h"

/* ---- boxes that come ---- */

static void tell_ready(struct walls *walls)
{
    if (walls->has_told || !walls->is_home_ready || (walls->wall && !walls->is_wall_ready))
        return;
    walls->has_told = true;
    walls->reactor->ops->timer_set(walls->patience, UINT64_MAX);
    walls->events.ready(walls->ctx, walls->generation);
}

static void on_wall_found(void *ctx, const struct made *made)
{
    struct walls *walls = ctx;
    struct made told;

    if (walls->has_told || !walls_keep_box(walls, made, &told))
        walls->wall->ops->end(walls->wall, made->number, made->box, NULL, NULL);
    else
        walls->events.found(walls->ctx, &told);
}

static void on_wall_ready(void *ctx, uint32_t generation)
{
    struct walls *walls = ctx;

    (void)generation;
    walls->is_wall_ready = true;
    if (walls->serves) /* one that was started anew: it makes boxes ahead from now on */
        launched_say_ready(walls->wall);
    tell_ready(walls);
}

static void on_wall_ended(void *ctx, uint32_t number, const struct box_facts *facts)
{
    struct walls *walls = ctx;
    struct walls_box *box = walls_find_inner(walls, number);

    if (!box)
        return;
    box->facts = *facts;
    walls->events.ended(walls->ctx, box->number, facts);
}

static void on_wall_kernel_ended(void *ctx, const struct kernel_end *end)
{
    struct walls *walls = ctx;
    struct walls_box *box = walls_find_inner(walls, end->number);
    struct kernel_end told = *end;

    if (!box || !walls->events.kernel_ended)
        return;
    told.number = box->number;
    walls->events.kernel_ended(walls->ctx, &told);
}

/* ---- what only the launcher has ---- */

static void walls_kernel(struct maker *maker, uint32_t number, uint32_t kernel, int tier,
                         void (*done)(void *ctx, int num), void *ctx)
{
    struct walls *walls = (struct walls *)maker;

    if (number & WALLS_NUMBER)
        done(ctx, -EAGAIN); /* cold: the wall has no zygotes that we could ask */
    else
        walls->home->ops->kernel(walls->home, number, kernel, tier, done, ctx);
}

static void
walls_seal(struct maker *maker, const char *key,
           void (*done)(void *ctx, const struct sealed *sealed, const struct error *err), void *ctx)
{
    struct maker *home = ((struct walls *)maker)->home;

    home->ops->seal(home, key, done, ctx);
}

static void walls_discard(struct maker *maker, const char *key, bool is_packages)
{
    struct maker *home = ((struct walls *)maker)->home;

    home->ops->discard(home, key, is_packages);
}

static void walls_set_default(struct maker *maker, const char *layer)
{
    struct maker *home = ((struct walls *)maker)->home;

    home->ops->set_default(home, layer);
}

static void walls_drop_layer(struct maker *maker, const char *layer)
{
    struct maker *home = ((struct walls *)maker)->home;

    home->ops->drop_layer(home, layer);
}

/* ---- the wall comes and goes ---- */

static void lose_wall(struct walls *walls)
{
    if (!walls->wall)
        return;
    launched_close(walls->wall);
    walls->wall = NULL;
    walls->is_wall_ready = false;
    walls_lose_all(walls);
    tell_ready(walls);
}

static void on_wall_gone(void *ctx)
{
    log_warning("the process that speaks to Docker is gone, and its boxes with it");
    lose_wall(ctx);
}

static void on_wall_stopping(void *ctx, uint32_t grace_ms)
{
    (void)ctx;
    (void)grace_ms; /* the launcher says when */
}

static const struct launched_events wall_events = {
    .found = on_wall_found,
    .ready = on_wall_ready,
    .ended = on_wall_ended,
    .stopping = on_wall_stopping,
    .gone = on_wall_gone,
    .kernel_ended = on_wall_kernel_ended,
};

static void on_wall(void *ctx, int fd)
{
    struct walls *walls = ctx;
    struct error err = {0};

    lose_wall(walls);
    if (launched_open(walls->reactor, fd, &wall_events, walls, &walls->wall, &err) < 0) {
        log_error("the Docker wall: %s, continuing without it", err.text);
        fd_closep(&fd);
    }
}

/* ---- the launcher's words ---- */

/* One of an earlier broker that fell back; what it was told then is not known any more. */
static void on_home_found(void *ctx, const struct made *made)
{
    struct walls *walls = ctx;
    struct made told = *made;

    told.fallback = "Docker daemon not available";
    walls->events.found(walls->ctx, &told);
}

static void on_home_ready(void *ctx, uint32_t generation)
{
    struct walls *walls = ctx;

    walls->is_home_ready = true;
    walls->generation = generation;
    tell_ready(walls);
}

static void on_home_ended(void *ctx, uint32_t number, const struct box_facts *facts)
{
    struct walls *walls = ctx;

    walls->events.ended(walls->ctx, number, facts);
}

static void on_home_stopping(void *ctx, uint32_t grace_ms)
{
    struct walls *walls = ctx;

    walls->events.stopping(walls->ctx, grace_ms);
}

static void on_home_gone(void *ctx)
{
    struct walls *walls = ctx;

    walls->events.gone(walls->ctx);
}

static void on_home_kernel_ended(void *ctx, const struct kernel_end *end)
{
    struct walls *walls = ctx;

    if (walls->events.kernel_ended)
        walls->events.kernel_ended(walls->ctx, end);
}

static void on_home_verdict(void *ctx, uint32_t number, bool is_allowed, const char *host,
                            unsigned port, const char *reason)
{
    struct walls *walls = ctx;

    if (walls->events.verdict)
        walls->events.verdict(walls->ctx, number, is_allowed, host, port, reason);
}

static const struct launched_events home_events = {
    .found = on_home_found,
    .ready = on_home_ready,
    .ended = on_home_ended,
    .stopping = on_home_stopping,
    .gone = on_home_gone,
    .kernel_ended = on_home_kernel_ended,
    .verdict = on_home_verdict,
    .wall = on_wall,
};

/* The daemon serves without the wall, and says so to who asks for a box. */
static void on_patience(void *ctx)
{
    struct walls *walls = ctx;

    if (walls->has_told || !walls->is_home_ready)
        return;
    log_warning("the process that speaks to Docker does not answer, continuing without it");
    walls->has_told = true;
    walls->events.ready(walls->ctx, walls->generation);
}

/* ---- life ---- */

static const struct maker_ops walls_ops = {
    .name = "docker",
    .make = walls_make,
    .make_cancel = walls_make_cancel,
    .end = walls_end,
    .usage = walls_usage,
    .kernel = walls_kernel,
    .seal = walls_seal,
    .discard = walls_discard,
    .set_default = walls_set_default,
    .drop_layer = walls_drop_layer,
    .look = walls_look,
    .forget = walls_forget,
};

static void walls_free(struct walls *walls)
{
    walls->reactor->ops->timer_remove(walls->patience);
    walls->reactor->ops->timer_remove(walls->later);
    walls_free_all(walls);
    free(walls);
}

int walls_open(struct reactor *reactor, int control_fd, bool falls_back,
               const struct launched_events *events, void *ctx, struct maker **ret,
               struct error *err)
{
    struct walls *walls = calloc(1, sizeof(*walls));
    int r = 0;

    if (!walls)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    walls->maker.ops = &walls_ops;
    walls->reactor = reactor;
    walls->events = *events;
    walls->ctx = ctx;
    walls->falls_back = falls_back;
    walls->patience = reactor_timer(reactor, on_patience, walls);
    walls->later = reactor_timer(reactor, walls_on_later, walls);
    if (!walls->patience || !walls->later)
        r = error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    if (r == 0)
        r = launched_open(reactor, control_fd, &home_events, walls, &walls->home, err);
    if (r < 0) {
        walls_free(walls);
        return r;
    }
    reactor->ops->timer_set(walls->patience, WALLS_PATIENCE_MS);
    *ret = &walls->maker;
    return 0;
}

void walls_say_ready(struct maker *maker)
{
    struct walls *walls = (struct walls *)maker;

    walls->serves = true;
    launched_say_ready(walls->home);
    if (walls->is_wall_ready)
        launched_say_ready(walls->wall);
}

void walls_quit(struct maker *maker)
{
    launched_quit(((struct walls *)maker)->home);
}

void walls_close(struct maker *maker)
{
    struct walls *walls = (struct walls *)maker;

    if (!walls)
        return;
    launched_close(walls->wall);
    launched_close(walls->home);
    walls_free(walls);
}
