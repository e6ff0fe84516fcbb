/*
 * mux_boxes.c - boxes of all providers: requested, kept, asked about and returned; see mux.h.
 *
 * Questions to a provider host are stored here until they are answered: if the provider host dies,
 * the mux answers them itself. Such answers come in a separate turn of the loop, as the provider
 * host's would have.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/str.h"
#include "runtime/box/box.h"
#include "runtime/mux_private.h"

/* ---- lists ---- */

static struct mux_box *find_box(struct mux *mux, uint32_t number)
{
    struct mux_box *box = mux->boxes;

    while (box && box->number != number)
        box = box->next;
    return box;
}

static void drop_box(struct mux *mux, uint32_t number)
{
    struct mux_box **at = &mux->boxes, *box;

    while (*at && (*at)->number != number)
        at = &(*at)->next;
    box = *at;
    if (box)
        *at = box->next;
    free(box);
}

static void take_make(struct mux_make *make)
{
    LIST_UNLINK(make->mux->makes, make);
}

static void take_ask(struct mux_ask *ask)
{
    LIST_UNLINK(ask->mux->asks, ask);
}

struct mux_box *mux_find_inner(struct mux_host *host, uint32_t inner)
{
    struct mux_box *box = host->mux->boxes;

    while (box && (box->is_lost || box->host != host || box->inner != inner))
        box = box->next;
    return box;
}

struct mux_box *mux_keep_box(struct mux_host *host, const struct made *from, struct made *ret)
{
    struct mux *mux = host->mux;
    struct mux_box *box = calloc(1, sizeof(*box));

    if (!box)
        return NULL;
    mux->next_number = (mux->next_number + 1) & ~MUX_NUMBER;
    *box = (struct mux_box){.next = mux->boxes,
                            .host = host,
                            .number = mux->next_number | MUX_NUMBER,
                            .inner = from->number,
                            .facts = from->facts};
    mux->boxes = box;
    *ret = *from;
    ret->number = box->number;
    return box;
}

/* ---- made ---- */

static int ask(struct mux_make *make, const struct provider_row *row, struct error *err);

static void on_made(void *ctx, const struct made *made)
{
    CLEANUP(freep) struct mux_make *make = ctx;
    struct mux_host *host = make->host;
    struct error err = {0};
    struct made told = *made;

    take_make(make);
    if (host && !mux_keep_box(host, made, &told)) {
        error_memory(&err);
        host->provider->ops->end(host->provider, made->number, made->box, NULL, NULL);
        make->events->refused(make->ctx, &err, &made->facts);
        return;
    }
    if (make->why.num) {
        told.fallback = make->why.text;
        told.wanted = make->request.provider;
    }
    make->events->made(make->ctx, &told);
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    struct mux_make *make = ctx;
    const struct provider_row *fallback = make->request.fallback;
    struct error own = {0};

    if (fallback && !make->why.num && make->request.provider != fallback &&
        err->code == ERROR_PROVIDER_UNAVAILABLE) {
        make->why = *err;
        if (ask(make, fallback, &own) == 0)
            return;
        err = &own;
    }
    take_make(make);
    make->events->refused(make->ctx, err, facts);
    free(make);
}

static const struct make_events inner_events = {.made = on_made, .refused = on_refused};

/* The daemon was started without a process for this type. */
static int no_host(const struct provider_row *row, struct error *err)
{
    error_set(
        err, -ECONNREFUSED, ERROR_PROVIDER_UNAVAILABLE,
        "%s: this daemon was started without %s, and one that root starts keeps no process that "
        "could reach it later. Start %s, then end this daemon ('bailey daemon stop', or "
        "'systemctl restart bailey' for the service): the next one serves SANDBOX_TYPE=%s",
        row->unavailable ? row->unavailable : row->name, row->title, row->title, row->name);
    if (err)
        err->provider = provider_runtime(row);
    return -ECONNREFUSED;
}

/* Asks the launcher, or the provider host of that row. */
static int ask(struct mux_make *make, const struct provider_row *row, struct error *err)
{
    struct mux *mux = make->mux;
    struct provider *asked = mux->home;

    make->host = NULL;
    if (!row->ops)
        return provider_find(row->name, &row,
                             err); /* the one sentence for a type that is not in this build */
    if (provider_can(row, PROVIDER_HOSTED)) {
        make->host = mux_host_of(mux, row);
        if (!make->host && row != mux->spec.provider)
            return no_host(row, err);
        if (make->host)
            mux_want_host(make->host);
        asked = make->host ? make->host->provider : NULL;
    }
    make->waits = asked && make->host && !make->host->is_ready && row != mux->spec.provider;
    if (make->waits)
        return 0; /* mux_send_waiting() or mux_lose_all() follows */
    if (!asked || (make->host && !make->host->is_ready))
        return error_set(err, -EAGAIN, ERROR_BUSY,
                         "the process that speaks to %s is not there; it is being started, and the "
                         "daemon's log says why: try again",
                         row->title);
    return asked->ops->make(asked, &make->request, &inner_events, make, &make->inner, err);
}

int mux_make(struct provider *provider, const struct make_request *request,
             const struct make_events *events, void *ctx, uint32_t *ret_serial, struct error *err)
{
    struct mux *mux = (struct mux *)provider;
    CLEANUP(freep) struct mux_make *make = calloc(1, sizeof(*make));
    int r;

    if (!make)
        return error_memory(err);
    if (!str_copy(make->key, sizeof(make->key), request->key) ||
        !str_copy(make->layer, sizeof(make->layer), request->layer ? request->layer : "") ||
        !str_copy(make->tenant, sizeof(make->tenant), request->tenant ? request->tenant : ""))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%.80s' cannot name a box", request->key);
    if (++mux->next_serial == 0)
        mux->next_serial = 1;
    make->mux = mux;
    make->serial = mux->next_serial;
    make->request = *request;
    if (!request->provider) {
        make->request.provider = mux->spec.provider;
        make->request.fallback = mux->spec.fallback;
    }
    make->request.key = make->key;
    make->request.layer = request->layer ? make->layer : NULL;
    make->request.tenant = request->tenant ? make->tenant : NULL;
    make->events = events;
    make->ctx = ctx;
    /* An installer box is made by the launcher, which alone has the network to the package
     * index. */
    r = ask(make,
            request->staging == MAKE_ORDINARY ? make->request.provider
                                              : provider_known(PROVIDER_LOCAL),
            err);
    if (r < 0 && err && err->code == ERROR_PROVIDER_UNAVAILABLE && make->request.fallback) {
        make->why = *err;
        r = ask(make, make->request.fallback, err);
    }
    if (r < 0)
        return r;
    make->next = mux->makes;
    *ret_serial = make->serial;
    mux->makes = ptr_take(&make);
    return 0;
}

void mux_send_waiting(struct mux_host *host)
{
    struct mux *mux = host->mux;
    struct mux_make *make = mux->makes;

    while (make) {
        struct error err = {0};
        struct box_facts facts = {0};

        if (make->host != host || !make->waits) {
            make = make->next;
            continue;
        }
        make->waits = false;
        if (host->provider->ops->make(host->provider, &make->request, &inner_events, make,
                                      &make->inner, &err) < 0)
            on_refused(make, &err, &facts);
        make = mux->makes; /* a callback may have changed the list */
    }
}

void mux_make_cancel(struct provider *provider, uint32_t serial)
{
    struct mux *mux = (struct mux *)provider;
    struct mux_make *make = mux->makes;
    struct provider *asked;

    while (make && make->serial != serial)
        make = make->next;
    if (!make)
        return;
    asked = make->host ? make->host->provider : mux->home;
    if (asked && !make->waits)
        asked->ops->make_cancel(asked, make->inner);
    take_make(make);
    free(make);
}

/* ---- questions about boxes ---- */

static void answer(struct mux_ask *ask, const struct box_facts *facts)
{
    struct mux *mux = ask->mux;
    facts_done done = ask->done;
    void *ctx = ask->ctx;
    struct box_facts told = facts ? *facts : ask->facts;

    take_ask(ask);
    if (ask->is_end)
        drop_box(mux, ask->number);
    free(ask);
    if (done)
        done(ctx, &told);
}

static void on_answer(void *ctx, const struct box_facts *facts)
{
    answer(ctx, facts);
}

/* One in each turn: a callback may ask again. */
void mux_on_later(void *ctx)
{
    struct mux *mux = ctx;
    struct mux_ask *ask = mux->asks;

    while (ask && !ask->is_due)
        ask = ask->next;
    if (!ask)
        return;
    mux->reactor->ops->timer_set(mux->later, 0);
    answer(ask, NULL);
}

/* NULL: no memory. Answered by the provider host, or by the mux if the host is gone. */
static struct mux_ask *ask_of(struct mux *mux, const struct mux_box *box, facts_done done,
                              void *ctx)
{
    struct mux_ask *ask = calloc(1, sizeof(*ask));

    if (!ask)
        return NULL;
    *ask = (struct mux_ask){.next = mux->asks,
                            .mux = mux,
                            .host = box->host,
                            .number = box->number,
                            .is_due = box->is_lost,
                            .facts = box->facts,
                            .done = done,
                            .ctx = ctx};
    mux->asks = ask;
    if (ask->is_due)
        mux->reactor->ops->timer_set(mux->later, 0);
    return ask;
}

void mux_end(struct provider *provider, uint32_t number, struct box *box, facts_done done,
             void *ctx)
{
    struct mux *mux = (struct mux *)provider;
    struct provider *host;
    struct mux_box *known;
    struct mux_ask *ask;

    if (!(number & MUX_NUMBER)) {
        mux->home->ops->end(mux->home, number, box, done, ctx);
        return;
    }
    known = find_box(mux, number);
    ask = known ? ask_of(mux, known, done, ctx) : NULL;
    if (ask)
        ask->is_end = true;
    host = known ? known->host->provider : NULL;
    if (!known || known->is_lost || !host)
        box_free(box);
    else if (ask)
        host->ops->end(host, known->inner, box, on_answer, ask);
    else /* no memory: the box ends without a callback */
        host->ops->end(host, known->inner, box, NULL, NULL);
}

void mux_usage(struct provider *provider, uint32_t number, facts_done done, void *ctx)
{
    struct mux *mux = (struct mux *)provider;
    struct mux_box *known;
    struct mux_ask *ask;

    if (!(number & MUX_NUMBER)) {
        mux->home->ops->usage(mux->home, number, done, ctx);
        return;
    }
    known = find_box(mux, number);
    ask = known ? ask_of(mux, known, done, ctx) : NULL;
    if (!ask)
        done(ctx, NULL);
    else if (!ask->is_due)
        known->host->provider->ops->usage(known->host->provider, known->inner, on_answer, ask);
}

/* Answers still arrive, but no callback of this ctx follows. */
void mux_forget(struct provider *provider, const void *ctx)
{
    struct mux *mux = (struct mux *)provider;

    for (struct mux_ask *ask = mux->asks; ask; ask = ask->next) {
        if (ask->ctx == ctx)
            ask->done = NULL;
    }
    for (struct mux_make *make = mux->makes, *next; make; make = next) {
        next = make->next;
        if (make->ctx == ctx)
            mux_make_cancel(provider, make->serial);
    }
    mux_look_forget(mux, ctx);
    mux->home->ops->forget(mux->home, ctx);
}

/* ---- lost provider hosts ---- */

/* Refused one by one: a callback may ask for another box. */
static void refuse_makes(struct mux_host *host)
{
    struct mux *mux = host->mux;
    struct box_facts facts = {0};
    struct error err = {0};

    error_set(&err, -EPIPE, ERROR_BOX_LOST,
              "the process that speaks to %s ended while the box was made; try again",
              host->row->title);
    for (;;) {
        struct mux_make *make = mux->makes;

        while (make && make->host != host)
            make = make->next;
        if (!make)
            return;
        take_make(make);
        make->events->refused(make->ctx, &err, &facts);
        free(make);
    }
}

static void lose_boxes(struct mux_host *host)
{
    struct mux *mux = host->mux;

    for (;;) {
        struct mux_box *box = mux->boxes;

        while (box && (box->is_lost || box->host != host))
            box = box->next;
        if (!box)
            return;
        box->is_lost = true;
        mux->events.ended(mux->ctx, box->number, &box->facts);
    }
}

void mux_lose_all(struct mux_host *host)
{
    struct mux *mux = host->mux;

    for (struct mux_ask *ask = mux->asks; ask; ask = ask->next)
        ask->is_due = ask->is_due || ask->host == host;
    if (mux->asks)
        mux->reactor->ops->timer_set(mux->later, 0);
    mux_look_lost(host);
    refuse_makes(host);
    lose_boxes(host);
}

void mux_free_all(struct mux *mux)
{
    while (mux->makes) {
        struct mux_make *first = mux->makes;

        mux->makes = first->next;
        free(first);
    }
    while (mux->asks) {
        struct mux_ask *first = mux->asks;

        mux->asks = first->next;
        free(first);
    }
    while (mux->boxes)
        drop_box(mux, mux->boxes->number);
    mux_look_free(mux);
}
