/* turns.c - lines of those who want boxes, by tenant; see turns.h. */
#include "session/turns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "session/inside.h"

/* One who wants a box. */
struct turn {
    struct turn *next;
    struct turns *turns;
    uint32_t serial;
    uint32_t made_serial; /* the maker's, once it was sent */
    struct make_request request;
    char key[ID_MAX], layer[65]; /* of the request */
    const struct make_events *events;
    void *ctx;
};

/* A tenant's line; it exists while somebody waits in it. */
struct line {
    struct line *next;
    char tenant[TENANT_MAX];
    struct turn *first, **end;
    unsigned count;
};

struct turns {
    struct engine *engine;
    struct line *lines; /* the next one whose turn it is comes first */
    struct turn *sent;
    unsigned waiting, sent_count;
    uint32_t next_serial;
    bool is_sending;
    bool all_paced; /* there is a place, and nobody who waits may have it yet */
    struct reactor_timer *timer;
};

static void on_timer(void *ctx);

struct turns *turns_new(struct engine *engine)
{
    struct turns *turns = calloc(1, sizeof(*turns));

    if (!turns)
        return NULL;
    turns->engine = engine;
    turns->timer = reactor_timer(engine->spec.reactor, on_timer, turns);
    if (!turns->timer)
        free(ptr_take(&turns));
    return turns;
}

static void list_free(struct turn *turn)
{
    while (turn) {
        struct turn *next = turn->next;

        free(turn);
        turn = next;
    }
}

void turns_free(struct turns *turns)
{
    while (turns && turns->lines) {
        struct line *next = turns->lines->next;

        list_free(turns->lines->first);
        free(turns->lines);
        turns->lines = next;
    }
    if (!turns)
        return;
    list_free(turns->sent);
    turns->engine->spec.reactor->ops->timer_remove(turns->timer);
    free(turns);
}

unsigned turns_waiting(const struct turns *turns)
{
    return turns->waiting;
}

static struct line *line_find(const struct turns *turns, const char *tenant)
{
    struct line *line = turns->lines;

    while (line && !str_equal(line->tenant, tenant))
        line = line->next;
    return line;
}

static uint64_t now_us(void)
{
    return clock_now_ns() / 1000;
}

static uint64_t pace_us(const struct turns *turns, const char *tenant)
{
    return tenant_box_wait_us(turns->engine->tenants, tenant, now_us());
}

/* A place that nobody who waits may have now. */
static bool has_room(const struct turns *turns)
{
    return turns->sent_count < LIMIT_MAKES_AT_ONCE && (!turns->lines || turns->all_paced);
}

int turns_check(const struct turns *turns, const char *tenant, struct error *err)
{
    unsigned most = turns->engine->spec.config->queue;
    const struct line *line = line_find(turns, tenant);
    int r = 0;

    if (most == 0 || (!line && has_room(turns) && pace_us(turns, tenant) == 0))
        return 0;
    if (turns->waiting >= most || (line && line->count >= most - most / 8))
        r = error_set(err, -EBUSY, ERROR_BUSY,
                      "%u boxes wait to be made, which is all that SANDBOX_QUEUE allows: try again "
                      "in a second",
                      most);
    if (r < 0 && err)
        err->retry_s = 1;
    return r;
}

/* ---- lines ---- */

static int line_add(struct turns *turns, const char *tenant, struct turn *turn)
{
    struct line *line = line_find(turns, tenant), **at = &turns->lines;

    if (!line) {
        line = calloc(1, sizeof(*line));
        if (!line)
            return -ENOMEM;
        str_copy(line->tenant, sizeof(line->tenant), tenant);
        line->end = &line->first;
        while (*at)
            at = &(*at)->next;
        *at = line;
    }
    *line->end = turn;
    line->end = &turn->next;
    line->count++;
    turns->waiting++;
    return 0;
}

/*
 * The first of the first line that may go, which goes behind the others, or is gone. NULL: none
 * may; *ret_wait_us until one can.
 */
static struct turn *take_next(struct turns *turns, uint64_t *ret_wait_us)
{
    struct line *line, **at = &turns->lines;
    struct turn *turn;
    uint64_t wait_us;

    for (*ret_wait_us = UINT64_MAX; (line = *at); at = &line->next) {
        wait_us = pace_us(turns, line->tenant);
        if (wait_us == 0)
            break;
        *ret_wait_us = MIN(*ret_wait_us, wait_us);
    }
    if (!line)
        return NULL;
    tenant_box_begun(turns->engine->tenants, line->tenant, now_us());
    turn = line->first;
    line->first = turn->next;
    turn->next = NULL;
    line->count--;
    turns->waiting--;
    *at = line->next;
    if (!line->first) {
        free(line);
        return turn;
    }
    line->next = NULL;
    while (*at)
        at = &(*at)->next;
    *at = line;
    return turn;
}

/* Out of its line; NULL: nobody waits under this serial. */
static struct turn *take_waiting(struct turns *turns, uint32_t serial)
{
    for (struct line **line = &turns->lines; *line; line = &(*line)->next) {
        for (struct turn **at = &(*line)->first; *at; at = &(*at)->next) {
            struct turn *turn = *at;
            struct line *empty = *line;

            if (turn->serial != serial)
                continue;
            *at = turn->next;
            if (empty->end == &turn->next)
                empty->end = at;
            empty->count--;
            turns->waiting--;
            if (!empty->first) {
                *line = empty->next;
                free(empty);
            }
            return turn;
        }
    }
    return NULL;
}

static void unsend(struct turn *turn)
{
    struct turns *turns = turn->turns;

    for (struct turn **at = &turns->sent; *at; at = &(*at)->next) {
        if (*at == turn) {
            *at = turn->next;
            turns->sent_count--;
            turns->all_paced = false; /* until send_more() has looked */
            return;
        }
    }
}

/* ---- the maker ---- */

static void send_more(struct turns *turns);

static void on_made(void *ctx, const struct made *made)
{
    CLEANUP(freep) struct turn *turn = ctx;
    struct turns *turns = turn->turns;

    unsend(turn);
    turn->events->made(turn->ctx, made);
    send_more(turns);
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    CLEANUP(freep) struct turn *turn = ctx;
    struct turns *turns = turn->turns;

    unsend(turn);
    turn->events->refused(turn->ctx, err, facts);
    send_more(turns);
}

static const struct make_events make_events = {.made = on_made, .refused = on_refused};

static int send_one(struct turn *turn, struct error *err)
{
    struct turns *turns = turn->turns;
    struct maker *maker = turns->engine->maker;
    int r;

    turn->next = turns->sent;
    turns->sent = turn;
    turns->sent_count++;
    r = maker->ops->make(maker, &turn->request, &make_events, turn, &turn->made_serial, err);
    if (r < 0)
        unsend(turn);
    return r;
}

static void look_in(struct turns *turns, uint64_t wait_us)
{
    turns->engine->spec.reactor->ops->timer_set(
        turns->timer, wait_us == UINT64_MAX ? wait_us : wait_us / 1000 + 1);
}

/* Whoever is told that nothing comes of it may ask again: that is not done inside of itself. */
static void send_more(struct turns *turns)
{
    uint64_t wait_us = UINT64_MAX;

    if (turns->is_sending)
        return;
    turns->is_sending = true;
    while (turns->lines && turns->sent_count < LIMIT_MAKES_AT_ONCE) {
        CLEANUP(freep) struct turn *turn = take_next(turns, &wait_us);
        struct box_facts facts = {0};
        struct error err = {0};

        if (!turn)
            break;
        if (send_one(turn, &err) < 0)
            turn->events->refused(turn->ctx, &err, &facts);
        else
            turn = NULL;
    }
    turns->is_sending = false;
    turns->all_paced = turns->lines && turns->sent_count < LIMIT_MAKES_AT_ONCE;
    look_in(turns, turns->all_paced ? wait_us : UINT64_MAX);
}

static void on_timer(void *ctx)
{
    send_more(ctx);
}

/* At once, or in its line. */
static int send_or_wait(struct turns *turns, const char *tenant, struct turn *turn,
                        struct error *err)
{
    bool may_go = !line_find(turns, tenant) && has_room(turns);

    if (may_go && pace_us(turns, tenant) == 0) {
        tenant_box_begun(turns->engine->tenants, tenant, now_us());
        return send_one(turn, err);
    }
    if (line_add(turns, tenant, turn) < 0)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    if (may_go) { /* but for its pace: nobody's end will move it */
        turns->all_paced = true;
        look_in(turns, 0);
    }
    return 0;
}

int turns_make(struct turns *turns, const char *tenant, const struct make_request *request,
               const struct make_events *events, void *ctx, uint32_t *ret_serial, struct error *err)
{
    CLEANUP(freep) struct turn *turn = NULL;
    int r = turns_check(turns, tenant, err);

    if (r < 0)
        return r;
    turn = calloc(1, sizeof(*turn));
    if (!turn)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    if (++turns->next_serial == 0) /* 0 is nobody's */
        turns->next_serial = 1;
    *turn = (struct turn){.turns = turns,
                          .serial = turns->next_serial,
                          .request = *request,
                          .events = events,
                          .ctx = ctx};
    str_copy(turn->key, sizeof(turn->key), request->key);
    str_copy(turn->layer, sizeof(turn->layer), request->layer ? request->layer : "");
    turn->request.key = turn->key;
    turn->request.layer = request->layer ? turn->layer : NULL;
    *ret_serial = turn->serial; /* before it is sent: the answer may come from inside */
    r = send_or_wait(turns, tenant, turn, err);
    if (r == 0)
        turn = NULL;
    return r;
}

void turns_cancel(struct turns *turns, uint32_t serial)
{
    CLEANUP(freep) struct turn *turn = take_waiting(turns, serial);
    struct maker *maker = turns->engine->maker;

    if (turn)
        return;
    for (turn = turns->sent; turn && turn->serial != serial;)
        turn = turn->next;
    if (!turn)
        return;
    unsend(turn);
    maker->ops->make_cancel(maker, turn->made_serial);
    send_more(turns);
}
