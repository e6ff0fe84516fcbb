/* visits.c - a list of requests under way, each with a watcher at its reply; see visits.h. */
#include "api/visits.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "http/server.h"
#include "session/engine.h"
#include "session/tenant.h"
#include "store/keys.h"

#define LOOK_MS UINT64_C(60000) /* at the longest: the wall clock may be set */

static const struct error not_good = {
    .num = -EACCES,
    .code = ERROR_UNAUTHORIZED,
    .text = "the key is not good any more: it was removed, changed or has expired",
};
static const struct error no_bytes = {
    .num = -EDQUOT,
    .code = ERROR_QUOTA,
    .quota = "bytes",
    .retry_s = 60,
    .text = "the quota 'bytes' is used up: what is missing can be asked for later, by the last id",
};

struct visit {
    struct visits *visits; /* NULL: they are gone */
    struct visit *next, *previous;
    struct http_request *http;
    struct principal who;
    const struct error *ended; /* NULL: it may go on */
};

struct visits {
    struct reactor *reactor;
    struct engine *engine;
    struct index *index;
    struct reactor_timer *timer;
    struct visit *list;
    uint64_t due_ms; /* wall clock, of the timer; UINT64_MAX: it is not set */
};

static void due_by(struct visits *visits, uint64_t when_ms)
{
    uint64_t now_ms = clock_wall_ms();

    if (when_ms >= visits->due_ms)
        return;
    visits->due_ms = when_ms;
    visits->reactor->ops->timer_set(visits->timer,
                                    when_ms > now_ms ? MIN(when_ms - now_ms, LOOK_MS) : 0);
}

/* ---- one of them ---- */

static void on_sent(void *ctx, uint64_t bytes)
{
    struct visit *visit = ctx;
    struct tenants *tenants;

    if (!visit->visits)
        return;
    tenants = engine_tenants(visit->visits->engine);
    tenant_used(tenants, visit->who.tenant, QUOTA_BYTES, bytes);
    /* It is in the middle of being sent: it ends in a turn of its own. */
    if (!visit->ended && tenant_take(tenants, visit->who.tenant, QUOTA_BYTES, 0, NULL) < 0)
        due_by(visit->visits, 0);
}

static void on_over(void *ctx)
{
    struct visit *visit = ctx;

    if (visit->previous)
        visit->previous->next = visit->next;
    else if (visit->visits)
        visit->visits->list = visit->next;
    if (visit->next)
        visit->next->previous = visit->previous;
    free(visit);
}

static const struct http_watcher watcher = {.sent = on_sent, .over = on_over};

bool visits_add(struct visits *visits, struct http_request *http, const struct principal *who)
{
    struct visit *visit = calloc(1, sizeof(*visit));

    if (!visit)
        return false;
    *visit = (struct visit){.visits = visits, .http = http, .who = *who, .next = visits->list};
    if (!http_watch(http, &watcher, visit)) {
        free(visit);
        return false;
    }
    if (visit->next)
        visit->next->previous = visit;
    visits->list = visit;
    if (who->until_ms)
        due_by(visits, who->until_ms);
    return true;
}

const struct principal *visits_find(const struct http_request *http, const struct error **ret_ended)
{
    const struct visit *visit = http_watched_by(http);

    *ret_ended = visit ? visit->ended : NULL;
    return visit ? &visit->who : NULL;
}

static void visit_end(struct visit *visit, const struct error *why)
{
    visit->ended = why;
    http_stop(visit->http, why);
}

/* ---- all of them ---- */

/* Those whose time is over, and those whose tenant has sent enough. */
static void on_due(void *ctx)
{
    struct visits *visits = ctx;
    struct tenants *tenants = engine_tenants(visits->engine);
    uint64_t now_ms = clock_wall_ms(), next_ms = UINT64_MAX;

    visits->due_ms = UINT64_MAX;
    for (struct visit *next, *visit = visits->list; visit; visit = next) {
        uint64_t until_ms = visit->who.until_ms;

        next = visit->next;
        if (visit->ended)
            continue;
        if (until_ms && until_ms <= now_ms)
            visit_end(visit, &not_good);
        else if (tenant_take(tenants, visit->who.tenant, QUOTA_BYTES, 0, NULL) < 0)
            visit_end(visit, &no_bytes);
        else if (until_ms)
            next_ms = MIN(next_ms, until_ms);
    }
    if (next_ms != UINT64_MAX)
        due_by(visits, next_ms);
}

void visits_key_changed(struct visits *visits, const char *key)
{
    for (struct visit *next, *visit = visits->list; visit; visit = next) {
        next = visit->next;
        if (visit->ended || !str_equal(visit->who.key, key))
            continue;
        if (!keys_check_again(visits->index, clock_wall_ms(), &visit->who))
            visit_end(visit, &not_good);
        else if (visit->who.until_ms)
            due_by(visits, visit->who.until_ms);
    }
}

struct visits *visits_new(struct reactor *reactor, struct engine *engine, struct index *index)
{
    struct visits *visits = calloc(1, sizeof(*visits));

    if (!visits)
        return NULL;
    *visits =
        (struct visits){.reactor = reactor, .engine = engine, .index = index, .due_ms = UINT64_MAX};
    visits->timer = reactor_timer(reactor, on_due, visits);
    if (!visits->timer) {
        free(visits);
        return NULL;
    }
    return visits;
}

void visits_free(struct visits *visits)
{
    if (!visits)
        return;
    for (struct visit *next, *visit = visits->list; visit; visit = next) {
        next = visit->next;
        visit->visits = NULL;
        visit->next = visit->previous = NULL;
    }
    visits->reactor->ops->timer_remove(visits->timer);
    free(visits);
}
