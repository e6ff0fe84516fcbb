/*
 * walls_boxes.c - boxes of two walls: asked for, had, asked about and given back; see walls.h.
 *
 * What was asked of the wall is kept here until it is answered: a wall may die, and then the answer
 * is ours. Such answers come in a turn of their own, as the wall's would have.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "runtime/box/box.h"
#include "runtime/walls_inside.h"

/* ---- lists ---- */

static struct walls_box *find_box(struct walls *walls, uint32_t number)
{
    struct walls_box *box = walls->boxes;

    while (box && box->number != number)
        box = box->next;
    return box;
}

static void drop_box(struct walls *walls, uint32_t number)
{
    struct walls_box **at = &walls->boxes, *box;

    while (*at && (*at)->number != number)
        at = &(*at)->next;
    box = *at;
    if (box)
        *at = box->next;
    free(box);
}

static void take_make(struct walls_make *make)
{
    struct walls_make **at = &make->walls->makes;

    while (*at != make)
        at = &(*at)->next;
    *at = make->next;
}

static void take_ask(struct walls_ask *ask)
{
    struct walls_ask **at = &ask->walls->asks;

    while (*at != ask)
        at = &(*at)->next;
    *at = ask->next;
}

struct walls_box *walls_find_inner(struct walls *walls, uint32_t inner)
{
    struct walls_box *box = walls->boxes;

    while (box && (box->is_lost || box->inner != inner))
        box = box->next;
    return box;
}

struct walls_box *walls_keep_box(struct walls *walls, const struct made *from, struct made *ret)
{
    struct walls_box *box = calloc(1, sizeof(*box));

    if (!box)
        return NULL;
    walls->next_number = (walls->next_number + 1) & ~WALLS_NUMBER;
    *box = (struct walls_box){.next = walls->boxes,
                              .number = walls->next_number | WALLS_NUMBER,
                              .inner = from->number,
                              .facts = from->facts};
    walls->boxes = box;
    *ret = *from;
    ret->number = box->number;
    ret->is_wall = true;
    box_behind_wall(ret->box);
    return box;
}

/* ---- made ---- */

static int ask_home(struct walls_make *make, struct error *err);

static void on_made(void *ctx, const struct made *made)
{
    CLEANUP(freep) struct walls_make *make = ctx;
    struct walls *walls = make->walls;
    struct error err = {0};
    struct made told;

    take_make(make);
    if (make->is_home) {
        told = *made;
        told.fallback = make->why.num ? make->why.text : NULL;
    } else if (!walls_keep_box(walls, made, &told)) {
        error_set(&err, -ENOMEM, ERROR_ENGINE, "out of memory");
        walls->wall->ops->end(walls->wall, made->number, made->box, NULL, NULL);
        make->events->refused(make->ctx, &err, &made->facts);
        return;
    }
    make->events->made(make->ctx, &told);
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    struct walls_make *make = ctx;
    struct error own = {0};

    if (!make->is_home && make->walls->falls_back && err->code == ERROR_DOCKER_UNAVAILABLE) {
        make->why = *err;
        if (ask_home(make, &own) == 0)
            return;
        err = &own;
    }
    take_make(make);
    make->events->refused(make->ctx, err, facts);
    free(make);
}

static const struct make_events inner_events = {.made = on_made, .refused = on_refused};

static int ask_home(struct walls_make *make, struct error *err)
{
    struct maker *home = make->walls->home;

    make->is_home = true;
    return home->ops->make(home, &make->request, &inner_events, make, &make->inner, err);
}

static int ask_wall(struct walls_make *make, struct error *err)
{
    struct maker *wall = make->walls->wall;

    if (!wall || !make->walls->is_wall_ready)
        return error_set(err, -EAGAIN, ERROR_BUSY,
                         "the process that speaks to Docker is not there; it is being started, and "
                         "the daemon's log says why: try again");
    return wall->ops->make(wall, &make->request, &inner_events, make, &make->inner, err);
}

int walls_make(struct maker *maker, const struct make_request *request,
               const struct make_events *events, void *ctx, uint32_t *ret_serial, struct error *err)
{
    struct walls *walls = (struct walls *)maker;
    CLEANUP(freep) struct walls_make *make = calloc(1, sizeof(*make));
    int r;

    if (!make)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    if (!str_copy(make->key, sizeof(make->key), request->key) ||
        !str_copy(make->layer, sizeof(make->layer), request->layer ? request->layer : ""))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%.80s' cannot name a box", request->key);
    if (++walls->next_serial == 0)
        walls->next_serial = 1;
    make->walls = walls;
    make->serial = walls->next_serial;
    make->request = *request;
    make->request.key = make->key;
    make->request.layer = request->layer ? make->layer : NULL;
    make->events = events;
    make->ctx = ctx;
    /* An installer works for this machine, and needs the way to the index that only it has. */
    r = request->staging == MAKE_ORDINARY ? ask_wall(make, err) : ask_home(make, err);
    if (r < 0)
        return r;
    make->next = walls->makes;
    *ret_serial = make->serial;
    walls->makes = ptr_take(&make);
    return 0;
}

void walls_make_cancel(struct maker *maker, uint32_t serial)
{
    struct walls *walls = (struct walls *)maker;
    struct walls_make *make = walls->makes;
    struct maker *asked;

    while (make && make->serial != serial)
        make = make->next;
    if (!make)
        return;
    asked = make->is_home ? walls->home : walls->wall;
    if (asked)
        asked->ops->make_cancel(asked, make->inner);
    take_make(make);
    free(make);
}

/* ---- asked ---- */

static void answer(struct walls_ask *ask, const struct box_facts *facts)
{
    struct walls *walls = ask->walls;
    facts_done done = ask->done;
    void *ctx = ask->ctx;
    struct box_facts told = facts ? *facts : ask->facts;

    take_ask(ask);
    if (ask->is_end)
        drop_box(walls, ask->number);
    free(ask);
    if (done)
        done(ctx, &told);
}

static void on_answer(void *ctx, const struct box_facts *facts)
{
    answer(ctx, facts);
}

/* One in each turn: called back it may ask again. */
void walls_on_later(void *ctx)
{
    struct walls *walls = ctx;
    struct walls_ask *ask = walls->asks;

    while (ask && !ask->is_due)
        ask = ask->next;
    if (!ask)
        return;
    walls->reactor->ops->timer_set(walls->later, 0);
    answer(ask, NULL);
}

/* NULL: no memory. The wall's answer, or ours where the wall is gone. */
static struct walls_ask *ask_of(struct walls *walls, const struct walls_box *box, facts_done done,
                                void *ctx)
{
    struct walls_ask *ask = calloc(1, sizeof(*ask));

    if (!ask)
        return NULL;
    *ask = (struct walls_ask){.next = walls->asks,
                              .walls = walls,
                              .number = box->number,
                              .is_due = box->is_lost,
                              .facts = box->facts,
                              .done = done,
                              .ctx = ctx};
    walls->asks = ask;
    if (ask->is_due)
        walls->reactor->ops->timer_set(walls->later, 0);
    return ask;
}

void walls_end(struct maker *maker, uint32_t number, struct box *box, facts_done done, void *ctx)
{
    struct walls *walls = (struct walls *)maker;
    struct walls_box *known;
    struct walls_ask *ask;

    if (!(number & WALLS_NUMBER)) {
        walls->home->ops->end(walls->home, number, box, done, ctx);
        return;
    }
    known = find_box(walls, number);
    ask = known ? ask_of(walls, known, done, ctx) : NULL;
    if (ask)
        ask->is_end = true;
    if (!known || known->is_lost || !walls->wall)
        box_free(box);
    else if (ask)
        walls->wall->ops->end(walls->wall, known->inner, box, on_answer, ask);
    else /* no memory: it ends, and nobody hears it */
        walls->wall->ops->end(walls->wall, known->inner, box, NULL, NULL);
}

void walls_usage(struct maker *maker, uint32_t number, facts_done done, void *ctx)
{
    struct walls *walls = (struct walls *)maker;
    struct walls_box *known;
    struct walls_ask *ask;

    if (!(number & WALLS_NUMBER)) {
        walls->home->ops->usage(walls->home, number, done, ctx);
        return;
    }
    known = find_box(walls, number);
    ask = known ? ask_of(walls, known, done, ctx) : NULL;
    if (!ask)
        done(ctx, NULL);
    else if (!ask->is_due)
        walls->wall->ops->usage(walls->wall, known->inner, on_answer, ask);
}

/* Those that were asked still answer us. */
void walls_forget(struct maker *maker, const void *ctx)
{
    struct walls *walls = (struct walls *)maker;

    for (struct walls_ask *ask = walls->asks; ask; ask = ask->next) {
        if (ask->ctx == ctx)
            ask->done = NULL;
    }
    for (struct walls_make *make = walls->makes, *next; make; make = next) {
        next = make->next;
        if (make->ctx == ctx)
            walls_make_cancel(maker, make->serial);
    }
    walls_look_forget(walls, ctx);
    walls->home->ops->forget(walls->home, ctx);
}

/* ---- lost ---- */

/* Refused one by one: whoever is called may ask for another. */
static void refuse_makes(struct walls *walls)
{
    struct box_facts facts = {0};
    struct error err = {0};

    error_set(&err, -EPIPE, ERROR_BOX_LOST,
              "the process that speaks to Docker ended while the box was made; try again");
    for (;;) {
        struct walls_make *make = walls->makes;

        while (make && make->is_home)
            make = make->next;
        if (!make)
            return;
        take_make(make);
        make->events->refused(make->ctx, &err, &facts);
        free(make);
    }
}

static void lose_boxes(struct walls *walls)
{
    for (;;) {
        struct walls_box *box = walls->boxes;

        while (box && box->is_lost)
            box = box->next;
        if (!box)
            return;
        box->is_lost = true;
        walls->events.ended(walls->ctx, box->number, &box->facts);
    }
}

void walls_lose_all(struct walls *walls)
{
    for (struct walls_ask *ask = walls->asks; ask; ask = ask->next)
        ask->is_due = true;
    if (walls->asks)
        walls->reactor->ops->timer_set(walls->later, 0);
    walls_look_lost(walls);
    refuse_makes(walls);
    lose_boxes(walls);
}

void walls_free_all(struct walls *walls)
{
    while (walls->makes) {
        struct walls_make *first = walls->makes;

        walls->makes = first->next;
        free(first);
    }
    while (walls->asks) {
        struct walls_ask *first = walls->asks;

        walls->asks = first->next;
        free(first);
    }
    while (walls->boxes)
        drop_box(walls, walls->boxes->number);
    walls_look_free(walls);
}
