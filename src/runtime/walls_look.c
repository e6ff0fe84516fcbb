/*
 * walls_look.c - what two walls keep ready: the launcher's zygotes, and the pool of containers,
 * which is where boxes come from; see walls.h.
 */
#include <stdlib.h>

#include "runtime/walls_inside.h"

static void take_look(struct walls_look *look)
{
    struct walls_look **at = &look->walls->looks;

    while (*at != look)
        at = &(*at)->next;
    *at = look->next;
}

static void on_each(void *ctx, const struct warm_state *state)
{
    struct walls_look *look = ctx;

    look->each(look->ctx, state);
}

static void over(void *ctx)
{
    struct walls_look *look = ctx;
    void (*done)(void *ctx) = look->done;
    void *done_ctx = look->ctx;

    take_look(look);
    free(look);
    done(done_ctx);
}

static void on_home_seen(void *ctx)
{
    struct walls_look *look = ctx;
    struct maker *wall = look->walls->is_wall_ready ? look->walls->wall : NULL;

    look->is_at_wall = wall != NULL;
    if (wall)
        wall->ops->look(wall, on_each, over, look);
    else
        over(look);
}

void walls_look(struct maker *maker, void (*each)(void *ctx, const struct warm_state *state),
                void (*done)(void *ctx), void *ctx)
{
    struct walls *walls = (struct walls *)maker;
    struct walls_look *look = calloc(1, sizeof(*look));

    if (!look) {
        walls->home->ops->look(walls->home, each, done, ctx);
        return;
    }
    *look = (struct walls_look){
        .next = walls->looks, .walls = walls, .each = each, .done = done, .ctx = ctx};
    walls->looks = look;
    walls->home->ops->look(walls->home, on_each, on_home_seen, look);
}

void walls_look_forget(struct walls *walls, const void *ctx)
{
    struct walls_look *next;

    for (struct walls_look *look = walls->looks; look; look = next) {
        struct maker *asked = look->is_at_wall ? walls->wall : walls->home;

        next = look->next;
        if (look->ctx != ctx)
            continue;
        if (asked)
            asked->ops->forget(asked, look);
        take_look(look);
        free(look);
    }
}

/* One by one: whoever is called may look again. */
void walls_look_lost(struct walls *walls)
{
    for (;;) {
        struct walls_look *look = walls->looks;

        while (look && !look->is_at_wall)
            look = look->next;
        if (!look)
            return;
        over(look);
    }
}

void walls_look_free(struct walls *walls)
{
    while (walls->looks) {
        struct walls_look *look = walls->looks;

        walls->looks = look->next;
        free(look);
    }
}
