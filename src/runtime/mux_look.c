/*
 * mux_look.c - what two providers keep ready: the launcher's zygotes, and the pool of containers,
 * which is where boxes come from; see mux.h.
 */
#include <stdlib.h>

#include "runtime/mux_private.h"

static void take_look(struct mux_look *look)
{
    struct mux_look **at = &look->mux->looks;

    while (*at != look)
        at = &(*at)->next;
    *at = look->next;
}

static void on_each(void *ctx, const struct warm_state *state)
{
    struct mux_look *look = ctx;

    look->each(look->ctx, state);
}

static void over(void *ctx)
{
    struct mux_look *look = ctx;
    void (*done)(void *ctx) = look->done;
    void *done_ctx = look->ctx;

    take_look(look);
    free(look);
    done(done_ctx);
}

static void on_home_seen(void *ctx)
{
    struct mux_look *look = ctx;
    struct provider *provider_host = look->mux->is_host_ready ? look->mux->provider_host : NULL;

    look->is_at_host = provider_host != NULL;
    if (provider_host)
        provider_host->ops->look(provider_host, on_each, over, look);
    else
        over(look);
}

void mux_look(struct provider *provider, void (*each)(void *ctx, const struct warm_state *state),
              void (*done)(void *ctx), void *ctx)
{
    struct mux *mux = (struct mux *)provider;
    struct mux_look *look = calloc(1, sizeof(*look));

    if (!look) {
        mux->home->ops->look(mux->home, each, done, ctx);
        return;
    }
    *look =
        (struct mux_look){.next = mux->looks, .mux = mux, .each = each, .done = done, .ctx = ctx};
    mux->looks = look;
    mux->home->ops->look(mux->home, on_each, on_home_seen, look);
}

void mux_look_forget(struct mux *mux, const void *ctx)
{
    struct mux_look *next;

    for (struct mux_look *look = mux->looks; look; look = next) {
        struct provider *asked = look->is_at_host ? mux->provider_host : mux->home;

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
void mux_look_lost(struct mux *mux)
{
    for (;;) {
        struct mux_look *look = mux->looks;

        while (look && !look->is_at_host)
            look = look->next;
        if (!look)
            return;
        over(look);
    }
}

void mux_look_free(struct mux *mux)
{
    while (mux->looks) {
        struct mux_look *look = mux->looks;

        mux->looks = look->next;
        free(look);
    }
}
