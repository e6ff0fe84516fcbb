/*
 * mux_look.c - what all providers keep ready: the launcher's zygotes and pool, the pools of
 * provider hosts; see mux.h. Each reports its pool as a sum, and the last report is the one that is
 * shown.
 */
#include <stdlib.h>

#include "base/list.h"
#include "runtime/mux_private.h"

static void take_look(struct mux_look *look)
{
    LIST_UNLINK(look->mux->looks, look);
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

/* The provider of one step; NULL: none to ask. The default provider has the last step. */
static struct provider *at_step(struct mux_look *look, unsigned step)
{
    struct mux *mux = look->mux;
    struct mux_host *first = mux_host_of(mux, mux->spec.provider); /* NULL: the launcher */
    struct mux_host *host = step == 0 ? NULL : &mux->hosts[step - 1];

    if (step == mux->host_count + 1)
        host = first;
    else if (host == first)
        return NULL; /* it has the last step */
    look->host = host;
    if (!host)
        return mux->home;
    return host->is_ready ? host->provider : NULL;
}

static void on_seen(void *ctx)
{
    struct mux_look *look = ctx;

    while (look->step <= look->mux->host_count + 1) {
        struct provider *asked = at_step(look, look->step++);

        if (asked) {
            asked->ops->look(asked, on_each, on_seen, look);
            return;
        }
    }
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
    on_seen(look);
}

void mux_look_forget(struct mux *mux, const void *ctx)
{
    struct mux_look *next;

    for (struct mux_look *look = mux->looks; look; look = next) {
        struct provider *asked = look->host ? look->host->provider : mux->home;

        next = look->next;
        if (look->ctx != ctx)
            continue;
        if (asked)
            asked->ops->forget(asked, look);
        take_look(look);
        free(look);
    }
}

/* One by one: a callback may look again. */
void mux_look_lost(struct mux_host *host)
{
    for (;;) {
        struct mux_look *look = host->mux->looks;

        while (look && look->host != host)
            look = look->next;
        if (!look)
            return;
        look->host = NULL; /* no longer waited for */
        on_seen(look);
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
