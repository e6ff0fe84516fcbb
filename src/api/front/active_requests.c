/* active_requests.c - a list of requests under way, each with a watcher at its reply; see
 * active_requests.h. */
#include "api/front/active_requests.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "http/server.h"
#include "session/session_manager.h"
#include "session/tenant.h"
#include "store/keys.h"

#define LOOK_MS UINT64_C(60000) /* at most: the wall clock may be set */

static const struct error not_good = {
    .num = -EACCES,
    .code = ERROR_UNAUTHORIZED,
    .text = "the key is no longer valid: it was removed, changed or has expired",
};
static const struct error no_bytes = {
    .num = -EDQUOT,
    .code = ERROR_QUOTA,
    .quota = "bytes",
    .retry_s = 60,
    .text = "the quota 'bytes' is used up: resume later with the last event id",
};

struct active_request {
    struct active_requests *active_requests; /* NULL: the list was freed */
    struct active_request *next, *previous;
    struct http_request *http;
    struct principal who;
    const struct error *ended; /* NULL: it may go on */
};

struct active_requests {
    struct reactor *reactor;
    struct session_manager *manager;
    struct index *index;
    struct reactor_timer *timer;
    struct active_request *list;
    uint64_t due_ms; /* wall clock, of the timer; UINT64_MAX: not set */
};

static void due_by(struct active_requests *active_requests, uint64_t when_ms)
{
    uint64_t now_ms = clock_wall_ms();

    if (when_ms >= active_requests->due_ms)
        return;
    active_requests->due_ms = when_ms;
    active_requests->reactor->ops->timer_set(active_requests->timer,
                                             when_ms > now_ms ? MIN(when_ms - now_ms, LOOK_MS) : 0);
}

/* ---- one request ---- */

static void on_sent(void *ctx, uint64_t bytes)
{
    struct active_request *active_request = ctx;
    struct tenants *tenants;

    if (!active_request->active_requests)
        return;
    tenants = session_manager_tenants(active_request->active_requests->manager);
    tenant_used(tenants, active_request->who.tenant, QUOTA_BYTES, bytes);
    /* It is being sent right now: it is ended in a separate turn. */
    if (!active_request->ended &&
        tenant_take(tenants, active_request->who.tenant, QUOTA_BYTES, 0, NULL) < 0)
        due_by(active_request->active_requests, 0);
}

static void on_over(void *ctx)
{
    struct active_request *active_request = ctx;

    if (active_request->previous)
        active_request->previous->next = active_request->next;
    else if (active_request->active_requests)
        active_request->active_requests->list = active_request->next;
    if (active_request->next)
        active_request->next->previous = active_request->previous;
    free(active_request);
}

static const struct http_watcher watcher = {.sent = on_sent, .over = on_over};

bool active_requests_add(struct active_requests *active_requests, struct http_request *http,
                         const struct principal *who)
{
    struct active_request *active_request = calloc(1, sizeof(*active_request));

    if (!active_request)
        return false;
    *active_request = (struct active_request){.active_requests = active_requests,
                                              .http = http,
                                              .who = *who,
                                              .next = active_requests->list};
    if (!http_watch(http, &watcher, active_request)) {
        free(active_request);
        return false;
    }
    if (active_request->next)
        active_request->next->previous = active_request;
    active_requests->list = active_request;
    if (who->until_ms)
        due_by(active_requests, who->until_ms);
    return true;
}

const struct principal *active_requests_find(const struct http_request *http,
                                             const struct error **ret_ended)
{
    const struct active_request *active_request = http_watched_by(http);

    *ret_ended = active_request ? active_request->ended : NULL;
    return active_request ? &active_request->who : NULL;
}

static void active_request_end(struct active_request *active_request, const struct error *why)
{
    active_request->ended = why;
    http_stop(active_request->http, why);
}

/* ---- all requests ---- */

/* Ends requests whose key has expired and those whose tenant has used up its bytes. */
static void on_due(void *ctx)
{
    struct active_requests *active_requests = ctx;
    struct tenants *tenants = session_manager_tenants(active_requests->manager);
    uint64_t now_ms = clock_wall_ms(), next_ms = UINT64_MAX;

    active_requests->due_ms = UINT64_MAX;
    for (struct active_request *next, *active_request = active_requests->list; active_request;
         active_request = next) {
        uint64_t until_ms = active_request->who.until_ms;

        next = active_request->next;
        if (active_request->ended)
            continue;
        if (until_ms && until_ms <= now_ms)
            active_request_end(active_request, &not_good);
        else if (tenant_take(tenants, active_request->who.tenant, QUOTA_BYTES, 0, NULL) < 0)
            active_request_end(active_request, &no_bytes);
        else if (until_ms)
            next_ms = MIN(next_ms, until_ms);
    }
    if (next_ms != UINT64_MAX)
        due_by(active_requests, next_ms);
}

void active_requests_key_changed(struct active_requests *active_requests, const char *key)
{
    for (struct active_request *next, *active_request = active_requests->list; active_request;
         active_request = next) {
        next = active_request->next;
        if (active_request->ended || !str_equal(active_request->who.key, key))
            continue;
        if (!keys_check_again(active_requests->index, clock_wall_ms(), &active_request->who))
            active_request_end(active_request, &not_good);
        else if (active_request->who.until_ms)
            due_by(active_requests, active_request->who.until_ms);
    }
}

struct active_requests *active_requests_new(struct reactor *reactor,
                                            struct session_manager *manager, struct index *index)
{
    struct active_requests *active_requests = calloc(1, sizeof(*active_requests));

    if (!active_requests)
        return NULL;
    *active_requests = (struct active_requests){
        .reactor = reactor, .manager = manager, .index = index, .due_ms = UINT64_MAX};
    active_requests->timer = reactor_timer(reactor, on_due, active_requests);
    if (!active_requests->timer) {
        free(active_requests);
        return NULL;
    }
    return active_requests;
}

void active_requests_free(struct active_requests *active_requests)
{
    if (!active_requests)
        return;
    for (struct active_request *next, *active_request = active_requests->list; active_request;
         active_request = next) {
        next = active_request->next;
        active_request->active_requests = NULL;
        active_request->next = active_request->previous = NULL;
    }
    active_requests->reactor->ops->timer_remove(active_requests->timer);
    free(active_requests);
}
