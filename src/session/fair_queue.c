/* fair_queue.c - queues of requests for boxes, one per tenant; see fair_queue.h. */
#include "session/fair_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "session/session_private.h"

/* One request for a box. */
struct queued_make {
    struct queued_make *next;
    struct fair_queue *fair_queue;
    uint32_t serial;
    uint32_t made_serial; /* the provider's serial, once the request was sent */
    struct make_request request;
    char key[ID_MAX], layer[65], tenant[TENANT_MAX]; /* of the request */
    const struct make_events *events;
    void *ctx;
};

/* A tenant's queue; it exists while a request waits in it. */
struct tenant_queue {
    struct tenant_queue *next;
    char tenant[TENANT_MAX];
    struct queued_make *first, **end;
    unsigned count;
};

struct fair_queue {
    struct session_manager *manager;
    struct tenant_queue *tenant_queues; /* the queue whose turn is next comes first */
    struct queued_make *sent;
    unsigned waiting, sent_count;
    uint32_t next_serial;
    bool is_sending;
    bool all_paced; /* the provider has a free slot, but every waiting request is held back by its
                       tenant's pace */
    struct reactor_timer *timer;
};

static void on_timer(void *ctx);

struct fair_queue *fair_queue_new(struct session_manager *manager)
{
    struct fair_queue *fair_queue = calloc(1, sizeof(*fair_queue));

    if (!fair_queue)
        return NULL;
    fair_queue->manager = manager;
    fair_queue->timer = reactor_timer(manager->spec.reactor, on_timer, fair_queue);
    if (!fair_queue->timer)
        free(ptr_take(&fair_queue));
    return fair_queue;
}

static void list_free(struct queued_make *queued_make)
{
    while (queued_make) {
        struct queued_make *next = queued_make->next;

        free(queued_make);
        queued_make = next;
    }
}

void fair_queue_free(struct fair_queue *fair_queue)
{
    while (fair_queue && fair_queue->tenant_queues) {
        struct tenant_queue *next = fair_queue->tenant_queues->next;

        list_free(fair_queue->tenant_queues->first);
        free(fair_queue->tenant_queues);
        fair_queue->tenant_queues = next;
    }
    if (!fair_queue)
        return;
    list_free(fair_queue->sent);
    fair_queue->manager->spec.reactor->ops->timer_remove(fair_queue->timer);
    free(fair_queue);
}

unsigned fair_queue_waiting(const struct fair_queue *fair_queue)
{
    return fair_queue->waiting;
}

static struct tenant_queue *line_find(const struct fair_queue *fair_queue, const char *tenant)
{
    struct tenant_queue *tenant_queue = fair_queue->tenant_queues;

    while (tenant_queue && !str_equal(tenant_queue->tenant, tenant))
        tenant_queue = tenant_queue->next;
    return tenant_queue;
}

static uint64_t now_us(void)
{
    return clock_now_ns() / 1000;
}

static uint64_t pace_us(const struct fair_queue *fair_queue, const char *tenant)
{
    return tenant_box_wait_us(fair_queue->manager->tenants, tenant, now_us());
}

/* Whether the provider has a free slot that no waiting request may use now. */
static bool has_room(const struct fair_queue *fair_queue)
{
    return fair_queue->sent_count < LIMIT_MAKES_AT_ONCE &&
           (!fair_queue->tenant_queues || fair_queue->all_paced);
}

int fair_queue_check(const struct fair_queue *fair_queue, const char *tenant, struct error *err)
{
    unsigned most = fair_queue->manager->spec.config->queue;
    const struct tenant_queue *tenant_queue = line_find(fair_queue, tenant);
    int r = 0;

    if (most == 0 || (!tenant_queue && has_room(fair_queue) && pace_us(fair_queue, tenant) == 0))
        return 0;
    if (fair_queue->waiting >= most || (tenant_queue && tenant_queue->count >= most - most / 8))
        r = error_set(err, -EBUSY, ERROR_BUSY,
                      "%u boxes wait to be made, which is all that SANDBOX_QUEUE allows: try again "
                      "in a second",
                      most);
    if (r < 0 && err)
        err->retry_s = 1;
    return r;
}

/* ---- queues ---- */

static int line_add(struct fair_queue *fair_queue, const char *tenant,
                    struct queued_make *queued_make)
{
    struct tenant_queue *tenant_queue = line_find(fair_queue, tenant),
                        **at = &fair_queue->tenant_queues;

    if (!tenant_queue) {
        tenant_queue = calloc(1, sizeof(*tenant_queue));
        if (!tenant_queue)
            return -ENOMEM;
        str_copy(tenant_queue->tenant, sizeof(tenant_queue->tenant), tenant);
        tenant_queue->end = &tenant_queue->first;
        while (*at)
            at = &(*at)->next;
        *at = tenant_queue;
    }
    *tenant_queue->end = queued_make;
    tenant_queue->end = &queued_make->next;
    tenant_queue->count++;
    fair_queue->waiting++;
    return 0;
}

/*
 * Takes the first request of the first queue that may send one; that queue moves to the end, or is
 * removed when empty. NULL: no queue may; *ret_wait_us is the time until one may.
 */
static struct queued_make *take_next(struct fair_queue *fair_queue, uint64_t *ret_wait_us)
{
    struct tenant_queue *tenant_queue, **at = &fair_queue->tenant_queues;
    struct queued_make *queued_make;
    uint64_t wait_us;

    for (*ret_wait_us = UINT64_MAX; (tenant_queue = *at); at = &tenant_queue->next) {
        wait_us = pace_us(fair_queue, tenant_queue->tenant);
        if (wait_us == 0)
            break;
        *ret_wait_us = MIN(*ret_wait_us, wait_us);
    }
    if (!tenant_queue)
        return NULL;
    tenant_box_begun(fair_queue->manager->tenants, tenant_queue->tenant, now_us());
    queued_make = tenant_queue->first;
    tenant_queue->first = queued_make->next;
    queued_make->next = NULL;
    tenant_queue->count--;
    fair_queue->waiting--;
    *at = tenant_queue->next;
    if (!tenant_queue->first) {
        free(tenant_queue);
        return queued_make;
    }
    tenant_queue->next = NULL;
    while (*at)
        at = &(*at)->next;
    *at = tenant_queue;
    return queued_make;
}

/* Removes a request from its queue; NULL: no request waits under this serial. */
static struct queued_make *take_waiting(struct fair_queue *fair_queue, uint32_t serial)
{
    for (struct tenant_queue **tenant_queue = &fair_queue->tenant_queues; *tenant_queue;
         tenant_queue = &(*tenant_queue)->next) {
        for (struct queued_make **at = &(*tenant_queue)->first; *at; at = &(*at)->next) {
            struct queued_make *queued_make = *at;
            struct tenant_queue *empty = *tenant_queue;

            if (queued_make->serial != serial)
                continue;
            *at = queued_make->next;
            if (empty->end == &queued_make->next)
                empty->end = at;
            empty->count--;
            fair_queue->waiting--;
            if (!empty->first) {
                *tenant_queue = empty->next;
                free(empty);
            }
            return queued_make;
        }
    }
    return NULL;
}

static void unsend(struct queued_make *queued_make)
{
    struct fair_queue *fair_queue = queued_make->fair_queue;

    for (struct queued_make **at = &fair_queue->sent; *at; at = &(*at)->next) {
        if (*at == queued_make) {
            *at = queued_make->next;
            fair_queue->sent_count--;
            fair_queue->all_paced = false; /* recomputed by send_more() */
            return;
        }
    }
}

/* ---- the provider ---- */

static void send_more(struct fair_queue *fair_queue);

static void on_made(void *ctx, const struct made *made)
{
    CLEANUP(freep) struct queued_make *queued_make = ctx;
    struct fair_queue *fair_queue = queued_make->fair_queue;

    unsend(queued_make);
    queued_make->events->made(queued_make->ctx, made);
    send_more(fair_queue);
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    CLEANUP(freep) struct queued_make *queued_make = ctx;
    struct fair_queue *fair_queue = queued_make->fair_queue;

    unsend(queued_make);
    queued_make->events->refused(queued_make->ctx, err, facts);
    send_more(fair_queue);
}

static const struct make_events make_events = {.made = on_made, .refused = on_refused};

static int send_one(struct queued_make *queued_make, struct error *err)
{
    struct fair_queue *fair_queue = queued_make->fair_queue;
    struct provider *provider = fair_queue->manager->provider;
    int r;

    queued_make->next = fair_queue->sent;
    fair_queue->sent = queued_make;
    fair_queue->sent_count++;
    r = provider->ops->make(provider, &queued_make->request, &make_events, queued_make,
                            &queued_make->made_serial, err);
    if (r < 0)
        unsend(queued_make);
    return r;
}

static void look_in(struct fair_queue *fair_queue, uint64_t wait_us)
{
    fair_queue->manager->spec.reactor->ops->timer_set(
        fair_queue->timer, wait_us == UINT64_MAX ? wait_us : wait_us / 1000 + 1);
}

/* A callback that reports a failure may ask for another box; such a nested call does not send. */
static void send_more(struct fair_queue *fair_queue)
{
    uint64_t wait_us = UINT64_MAX;

    if (fair_queue->is_sending)
        return;
    fair_queue->is_sending = true;
    while (fair_queue->tenant_queues && fair_queue->sent_count < LIMIT_MAKES_AT_ONCE) {
        CLEANUP(freep) struct queued_make *queued_make = take_next(fair_queue, &wait_us);
        struct box_facts facts = {0};
        struct error err = {0};

        if (!queued_make)
            break;
        if (send_one(queued_make, &err) < 0)
            queued_make->events->refused(queued_make->ctx, &err, &facts);
        else
            queued_make = NULL;
    }
    fair_queue->is_sending = false;
    fair_queue->all_paced =
        fair_queue->tenant_queues && fair_queue->sent_count < LIMIT_MAKES_AT_ONCE;
    look_in(fair_queue, fair_queue->all_paced ? wait_us : UINT64_MAX);
}

static void on_timer(void *ctx)
{
    send_more(ctx);
}

/* Sends the request at once, or puts it into its tenant's queue. */
static int send_or_wait(struct fair_queue *fair_queue, const char *tenant,
                        struct queued_make *queued_make, struct error *err)
{
    bool may_go = !line_find(fair_queue, tenant) && has_room(fair_queue);

    if (may_go && pace_us(fair_queue, tenant) == 0) {
        tenant_box_begun(fair_queue->manager->tenants, tenant, now_us());
        return send_one(queued_make, err);
    }
    if (line_add(fair_queue, tenant, queued_make) < 0)
        return error_memory(err);
    if (may_go) { /* only the pace holds it back: the end of another request will not send it, so
                     the timer does */
        fair_queue->all_paced = true;
        look_in(fair_queue, 0);
    }
    return 0;
}

int fair_queue_make(struct fair_queue *fair_queue, const char *tenant,
                    const struct make_request *request, const struct make_events *events, void *ctx,
                    uint32_t *ret_serial, struct error *err)
{
    CLEANUP(freep) struct queued_make *queued_make = NULL;
    int r = fair_queue_check(fair_queue, tenant, err);

    if (r < 0)
        return r;
    queued_make = calloc(1, sizeof(*queued_make));
    if (!queued_make)
        return error_memory(err);
    if (++fair_queue->next_serial == 0) /* 0 means no request */
        fair_queue->next_serial = 1;
    *queued_make = (struct queued_make){.fair_queue = fair_queue,
                                        .serial = fair_queue->next_serial,
                                        .request = *request,
                                        .events = events,
                                        .ctx = ctx};
    str_copy(queued_make->key, sizeof(queued_make->key), request->key);
    str_copy(queued_make->layer, sizeof(queued_make->layer), request->layer ? request->layer : "");
    queued_make->request.key = queued_make->key;
    queued_make->request.layer = request->layer ? queued_make->layer : NULL;
    str_copy(queued_make->tenant, sizeof(queued_make->tenant), tenant ? tenant : TENANT_LOCAL);
    queued_make->request.tenant = queued_make->tenant;
    *ret_serial =
        queued_make
            ->serial; /* set before it is sent: the answer may come before the call returns */
    r = send_or_wait(fair_queue, tenant, queued_make, err);
    if (r == 0)
        queued_make = NULL;
    return r;
}

void fair_queue_cancel(struct fair_queue *fair_queue, uint32_t serial)
{
    CLEANUP(freep) struct queued_make *queued_make = take_waiting(fair_queue, serial);
    struct provider *provider = fair_queue->manager->provider;

    if (queued_make)
        return;
    for (queued_make = fair_queue->sent; queued_make && queued_make->serial != serial;)
        queued_make = queued_make->next;
    if (!queued_make)
        return;
    unsend(queued_make);
    provider->ops->make_cancel(provider, queued_make->made_serial);
    send_more(fair_queue);
}
