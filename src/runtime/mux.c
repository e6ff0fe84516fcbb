/* mux.c - the launcher and the provider hosts behind one provider; see mux.h. */
#include "runtime/mux.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/launcher.h"
#include "runtime/mux_private.h"

struct mux_host *mux_host_of(struct mux *mux, const struct provider_row *row)
{
    for (unsigned i = 0; i < mux->host_count; i++) {
        if (mux->hosts[i].row == row)
            return &mux->hosts[i];
    }
    return NULL;
}

/* ---- boxes that were made or found ---- */

static void tell_ready(struct mux *mux)
{
    bool is_ready = mux->is_home_ready;

    for (unsigned i = 0; i < mux->host_count; i++)
        is_ready = is_ready && (!mux->hosts[i].provider || mux->hosts[i].is_ready);
    if (mux->has_told || !is_ready)
        return;
    mux->has_told = true;
    mux->reactor->ops->timer_set(mux->patience, UINT64_MAX);
    mux->events.ready(mux->ctx, mux->generation);
}

static void on_host_found(void *ctx, const struct made *made)
{
    struct mux_host *host = ctx;
    struct mux *mux = host->mux;
    struct made told;

    if (mux->has_told || !mux_keep_box(host, made, &told))
        host->provider->ops->end(host->provider, made->number, made->box, NULL, NULL);
    else
        mux->events.found(mux->ctx, &told);
}

static void on_host_ready(void *ctx, uint32_t generation)
{
    struct mux_host *host = ctx;

    (void)generation;
    host->is_ready = true;
    if (host->mux->serves) /* it was restarted: it prewarms boxes from now on */
        launched_say_ready(host->provider);
    mux_send_waiting(host);
    tell_ready(host->mux);
}

static void on_host_ended(void *ctx, uint32_t number, const struct box_facts *facts)
{
    struct mux_host *host = ctx;
    struct mux_box *box = mux_find_inner(host, number);

    if (!box)
        return;
    box->facts = *facts;
    host->mux->events.ended(host->mux->ctx, box->number, facts);
}

static void on_host_kernel_ended(void *ctx, const struct kernel_end *end)
{
    struct mux_host *host = ctx;
    struct mux *mux = host->mux;
    struct mux_box *box = mux_find_inner(host, end->number);
    struct kernel_end told = *end;

    if (!box || !mux->events.kernel_ended)
        return;
    told.number = box->number;
    mux->events.kernel_ended(mux->ctx, &told);
}

/* ---- operations that only the launcher has ---- */

static void mux_kernel(struct provider *provider, uint32_t number, uint32_t kernel, int tier,
                       void (*done)(void *ctx, int num), void *ctx)
{
    struct mux *mux = (struct mux *)provider;

    if (number & MUX_NUMBER)
        done(ctx, -EAGAIN); /* start it cold: a provider host has no zygotes */
    else
        mux->home->ops->kernel(mux->home, number, kernel, tier, done, ctx);
}

static void mux_commit_layer(struct provider *provider, const char *key,
                             void (*done)(void *ctx, const struct layer_committed *layer_committed,
                                          const struct error *err),
                             void *ctx)
{
    struct provider *home = ((struct mux *)provider)->home;

    home->ops->commit_layer(home, key, done, ctx);
}

static void mux_discard(struct provider *provider, const char *key, bool is_packages)
{
    struct provider *home = ((struct mux *)provider)->home;

    home->ops->discard(home, key, is_packages);
}

static void mux_set_default(struct provider *provider, const char *layer)
{
    struct provider *home = ((struct mux *)provider)->home;

    home->ops->set_default(home, layer);
}

static void mux_drop_layer(struct provider *provider, const char *layer)
{
    struct provider *home = ((struct mux *)provider)->home;

    home->ops->drop_layer(home, layer);
}

/* ---- a provider host starts and ends ---- */

static void lose_host(struct mux_host *host)
{
    if (!host->provider)
        return;
    launched_close(host->provider);
    host->provider = NULL;
    host->is_ready = false;
    mux_lose_all(host);
    tell_ready(host->mux);
}

static void on_host_gone(void *ctx)
{
    struct mux_host *host = ctx;

    log_warning("the process that speaks to %s is gone, and its boxes with it", host->row->title);
    lose_host(host);
}

static void on_host_stopping(void *ctx, uint32_t grace_ms)
{
    (void)ctx;
    (void)grace_ms; /* the launcher decides when */
}

static const struct launched_events host_events = {
    .found = on_host_found,
    .ready = on_host_ready,
    .ended = on_host_ended,
    .stopping = on_host_stopping,
    .gone = on_host_gone,
    .kernel_ended = on_host_kernel_ended,
};

/* The slot of a row, made when its first channel arrives; NULL: no row has that name. */
static struct mux_host *host_slot(struct mux *mux, const char *name)
{
    /* A launcher with a plan without names has one provider host only: that of the configured
     * row. */
    const struct provider_row *row = name[0] ? provider_known(name) : mux->spec.provider;
    struct mux_host *host = row ? mux_host_of(mux, row) : NULL;

    if (!row || host || mux->host_count == ARRAY_SIZE(mux->hosts))
        return host;
    host = &mux->hosts[mux->host_count++];
    *host =
        (struct mux_host){.mux = mux, .row = row, .fd = -1, .is_wanted = row == mux->spec.provider};
    return host;
}

void mux_want_host(struct mux_host *host)
{
    struct error err = {0};

    host->is_wanted = true;
    if (host->fd < 0)
        return;
    if (launched_open(host->mux->reactor, host->fd, host->row, &host_events, host, &host->provider,
                      &err) < 0) {
        log_error("the provider host of %s: %s, continuing without it", host->row->title, err.text);
        fd_closep(&host->fd);
    }
    host->fd = -1;
}

/* A host of another type than the daemon's waits until a box of it is wanted. */
static void on_host(void *ctx, const char *name, int fd)
{
    struct mux *mux = ctx;
    struct mux_host *host;

    if (str_equal(name, HOST_UPSTREAM) && mux->events.provider_host) {
        mux->events.provider_host(mux->ctx, name, fd);
        return;
    }
    host = host_slot(mux, name);
    if (!host) {
        log_error("there is no provider '%s', continuing without its host", name);
        fd_closep(&fd);
        return;
    }
    lose_host(host);
    fd_closep(&host->fd);
    host->fd = fd;
    if (host->is_wanted)
        mux_want_host(host);
}

/* ---- events of the launcher ---- */

/*
 * If another provider is the default: a box of an earlier broker that fell back; the reason is no
 * longer known.
 */
static void on_home_found(void *ctx, const struct made *made)
{
    struct mux *mux = ctx;
    struct made told = *made;

    if (made->provider != mux->spec.provider) {
        told.fallback = mux->spec.provider->unavailable;
        told.wanted = mux->spec.provider;
    }
    mux->events.found(mux->ctx, &told);
}

static void on_home_ready(void *ctx, uint32_t generation)
{
    struct mux *mux = ctx;

    mux->is_home_ready = true;
    mux->generation = generation;
    for (unsigned i = 0; generation > 1 && i < mux->host_count; i++)
        mux_want_host(&mux->hosts[i]); /* an earlier broker may have boxes there */
    tell_ready(mux);
}

static void on_home_ended(void *ctx, uint32_t number, const struct box_facts *facts)
{
    struct mux *mux = ctx;

    mux->events.ended(mux->ctx, number, facts);
}

static void on_home_stopping(void *ctx, uint32_t grace_ms)
{
    struct mux *mux = ctx;

    mux->events.stopping(mux->ctx, grace_ms);
}

static void on_home_gone(void *ctx)
{
    struct mux *mux = ctx;

    mux->events.gone(mux->ctx);
}

static void on_home_kernel_ended(void *ctx, const struct kernel_end *end)
{
    struct mux *mux = ctx;

    if (mux->events.kernel_ended)
        mux->events.kernel_ended(mux->ctx, end);
}

static void on_home_verdict(void *ctx, uint32_t number, bool is_allowed, const char *host,
                            unsigned port, const char *reason)
{
    struct mux *mux = ctx;

    if (mux->events.verdict)
        mux->events.verdict(mux->ctx, number, is_allowed, host, port, reason);
}

static void on_home_spent(void *ctx, const char *tenant, uint64_t cpu_us)
{
    struct mux *mux = ctx;

    if (mux->events.spent)
        mux->events.spent(mux->ctx, tenant, cpu_us);
}

static const struct launched_events home_events = {
    .found = on_home_found,
    .ready = on_home_ready,
    .ended = on_home_ended,
    .stopping = on_home_stopping,
    .gone = on_home_gone,
    .kernel_ended = on_home_kernel_ended,
    .verdict = on_home_verdict,
    .spent = on_home_spent,
    .provider_host = on_host,
};

/* The daemon starts to serve without the provider host; requests for its boxes get an error. */
static void on_patience(void *ctx)
{
    struct mux *mux = ctx;

    if (mux->has_told || !mux->is_home_ready)
        return;
    for (unsigned i = 0; i < mux->host_count; i++) {
        if (mux->hosts[i].provider && !mux->hosts[i].is_ready)
            log_warning("the process that speaks to %s does not answer, continuing without it",
                        mux->hosts[i].row->title);
    }
    mux->has_told = true;
    mux->events.ready(mux->ctx, mux->generation);
}

/* ---- opening and closing ---- */

static const struct provider_ops mux_ops = {
    .name = "mux",
    .make = mux_make,
    .make_cancel = mux_make_cancel,
    .end = mux_end,
    .usage = mux_usage,
    .kernel = mux_kernel,
    .commit_layer = mux_commit_layer,
    .discard = mux_discard,
    .set_default = mux_set_default,
    .drop_layer = mux_drop_layer,
    .look = mux_look,
    .forget = mux_forget,
};

static void mux_free(struct mux *mux)
{
    mux->reactor->ops->timer_remove(mux->patience);
    mux->reactor->ops->timer_remove(mux->later);
    mux_free_all(mux);
    free(mux);
}

int mux_open(struct reactor *reactor, int control_fd, const struct mux_spec *spec,
             const struct launched_events *events, void *ctx, struct provider **ret,
             struct error *err)
{
    struct mux *mux = calloc(1, sizeof(*mux));
    int r = 0;

    if (!mux)
        return error_memory(err);
    mux->provider.ops = &mux_ops;
    mux->reactor = reactor;
    mux->events = *events;
    mux->ctx = ctx;
    mux->spec = *spec;
    mux->patience = reactor_timer(reactor, on_patience, mux);
    mux->later = reactor_timer(reactor, mux_on_later, mux);
    if (!mux->patience || !mux->later)
        r = error_memory(err);
    if (r == 0)
        r = launched_open(reactor, control_fd, provider_known(PROVIDER_LOCAL), &home_events, mux,
                          &mux->home, err);
    if (r < 0) {
        mux_free(mux);
        return r;
    }
    reactor->ops->timer_set(mux->patience, MUX_PATIENCE_MS);
    *ret = &mux->provider;
    return 0;
}

void mux_say_ready(struct provider *provider)
{
    struct mux *mux = (struct mux *)provider;

    mux->serves = true;
    launched_say_ready(mux->home);
    for (unsigned i = 0; i < mux->host_count; i++) {
        if (mux->hosts[i].is_ready)
            launched_say_ready(mux->hosts[i].provider);
    }
}

void mux_quit(struct provider *provider)
{
    launched_quit(((struct mux *)provider)->home);
}

void mux_close(struct provider *provider)
{
    struct mux *mux = (struct mux *)provider;

    if (!mux)
        return;
    for (unsigned i = 0; i < mux->host_count; i++) {
        launched_close(mux->hosts[i].provider);
        fd_closep(&mux->hosts[i].fd);
    }
    launched_close(mux->home);
    mux_free(mux);
}
