/* fair_queue.c - queues of requests for boxes, one per tenant; see fair_queue.h. */
#include "session/fair_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/str.h"
#include "observe/metrics.h"
#include "session/fair_share.h"
#include "session/session_private.h"

/* One request for a box, until the box is in service no more. */
struct queued_make {
    struct queued_make *next;
    struct fair_queue *fair_queue;
    struct tenant_queue *tenant_queue;
    uint32_t serial;
    uint32_t made_serial; /* the provider's serial, once the request was sent */
    uint32_t number;      /* of its box, once it is made */
    uint64_t since_ns;    /* when it was asked for */
    uint64_t until_ms;    /* of a box: when it is in service no more */
    bool is_elsewhere;    /* its provider is no process of this machine's: only counted as sent */
    struct make_request request;
    char key[ID_MAX], layer[65], tenant[TENANT_MAX]; /* of the request */
    const struct make_events *events;
    void *ctx;
};

/* What a tenant wants and has; it exists while that is anything, or its tag is ahead. */
struct tenant_queue {
    struct tenant_queue *next;
    char tenant[TENANT_MAX]; /* empty: all tenants above LIMIT_TENANTS */
    struct queued_make *first, **end;
    unsigned count;   /* requests that wait */
    unsigned serving; /* boxes in service */
    unsigned sent;    /* requests of it in both lists of the fair queue */
    struct fair_tag tag;
};

struct fair_queue {
    struct session_manager *manager;
    struct tenant_queue *tenant_queues;
    unsigned tenant_count, busy_count;           /* busy: they want a box, or have one in service */
    struct queued_make *sent;                    /* the provider has not answered */
    struct queued_make *serving;                 /* the box is made */
    unsigned waiting, sent_count, serving_count; /* serving_count: of both lists */
    unsigned window;
    uint64_t service_ms;
    struct fair_time time;
    uint32_t next_serial;
    bool is_sending;
    struct reactor_timer *timer;
};

static void on_timer(void *ctx);

unsigned fair_window(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return (unsigned)MAX(cores, 1L) + 1;
}

void fair_queue_set_window(struct fair_queue *fair_queue, unsigned window, uint64_t service_ms)
{
    fair_queue->window = window;
    fair_queue->service_ms = service_ms;
}

struct fair_queue *fair_queue_new(struct session_manager *manager)
{
    struct fair_queue *fair_queue = calloc(1, sizeof(*fair_queue));

    if (!fair_queue)
        return NULL;
    fair_queue->manager = manager;
    fair_queue_set_window(fair_queue, fair_window(), FAIR_SERVICE_MS);
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
    list_free(fair_queue->serving);
    fair_queue->manager->spec.reactor->ops->timer_remove(fair_queue->timer);
    free(fair_queue);
}

unsigned fair_queue_waiting(const struct fair_queue *fair_queue)
{
    return fair_queue->waiting;
}

/* ---- tenants ---- */

static struct tenant_queue *find(const struct fair_queue *fair_queue, const char *tenant)
{
    struct tenant_queue *tenant_queue = fair_queue->tenant_queues;

    while (tenant_queue && !str_equal(tenant_queue->tenant, tenant))
        tenant_queue = tenant_queue->next;
    return tenant_queue;
}

/* Those that want and have nothing, and owe nothing, are as good as new. */
static void forget_idle(struct fair_queue *fair_queue)
{
    struct tenant_queue **at = &fair_queue->tenant_queues, *idle;

    while ((idle = *at)) {
        if (idle->count || idle->sent || !fair_owes_nothing(&fair_queue->time, &idle->tag)) {
            at = &idle->next;
            continue;
        }
        *at = idle->next;
        fair_queue->tenant_count--;
        free(idle);
    }
}

static struct tenant_queue *get(struct fair_queue *fair_queue, const char *tenant)
{
    struct tenant_queue *tenant_queue = find(fair_queue, tenant);

    if (tenant_queue)
        return tenant_queue;
    forget_idle(fair_queue);
    if (fair_queue->tenant_count >= LIMIT_TENANTS && tenant[0])
        return get(fair_queue, "");
    tenant_queue = calloc(1, sizeof(*tenant_queue));
    if (!tenant_queue)
        return NULL;
    str_copy(tenant_queue->tenant, sizeof(tenant_queue->tenant), tenant);
    tenant_queue->end = &tenant_queue->first;
    tenant_queue->next = fair_queue->tenant_queues;
    fair_queue->tenant_queues = tenant_queue;
    fair_queue->tenant_count++;
    return tenant_queue;
}

static bool is_busy(const struct tenant_queue *tenant_queue)
{
    return tenant_queue->count || tenant_queue->serving;
}

/* Adds to what the tenant wants and has. */
static void change(struct fair_queue *fair_queue, struct tenant_queue *tenant_queue, int waiting,
                   int serving)
{
    fair_queue->busy_count -= is_busy(tenant_queue);
    tenant_queue->count += (unsigned)waiting;
    fair_queue->waiting += (unsigned)waiting;
    tenant_queue->serving += (unsigned)serving;
    fair_queue->serving_count += (unsigned)serving;
    fair_queue->busy_count += is_busy(tenant_queue);
}

/* Whether the tenant's next request may be sent now. */
static bool may_send(const struct fair_queue *fair_queue, const struct tenant_queue *tenant_queue,
                     bool is_elsewhere)
{
    unsigned count = fair_queue->busy_count + !is_busy(tenant_queue); /* with this one */
    unsigned part = MAX(fair_queue->window / count, 1u);

    if (is_elsewhere)
        return fair_queue->sent_count < LIMIT_MAKES_AT_ONCE;
    if (count == 1 && !tenants_others_work(fair_queue->manager->tenants, tenant_queue->tenant))
        return fair_queue->sent_count < LIMIT_MAKES_AT_ONCE;
    if (tenant_queue->serving < part && fair_is_below(&fair_queue->time, &tenant_queue->tag))
        return fair_queue->sent_count < 2 * LIMIT_MAKES_AT_ONCE;
    return fair_queue->serving_count < fair_queue->window &&
           fair_queue->sent_count < LIMIT_MAKES_AT_ONCE;
}

int fair_queue_check(const struct fair_queue *fair_queue, const char *tenant, struct error *err)
{
    static const struct tenant_queue none;
    unsigned most = fair_queue->manager->spec.config->queue;
    const struct tenant_queue *tenant_queue = find(fair_queue, tenant);
    struct tenant_queue unknown = none;
    int r = 0;

    str_copy(unknown.tenant, sizeof(unknown.tenant), tenant);
    if (most == 0 || ((!tenant_queue || !tenant_queue->count) &&
                      may_send(fair_queue, tenant_queue ? tenant_queue : &unknown, false)))
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

static void put_in_queue(struct fair_queue *fair_queue, struct queued_make *queued_make)
{
    struct tenant_queue *tenant_queue = queued_make->tenant_queue;

    *tenant_queue->end = queued_make;
    tenant_queue->end = &queued_make->next;
    change(fair_queue, tenant_queue, 1, 0);
}

static struct queued_make *take_at(struct fair_queue *fair_queue, struct tenant_queue *tenant_queue,
                                   struct queued_make **at)
{
    struct queued_make *queued_make = *at;

    *at = queued_make->next;
    if (tenant_queue->end == &queued_make->next)
        tenant_queue->end = at;
    queued_make->next = NULL;
    change(fair_queue, tenant_queue, -1, 0);
    return queued_make;
}

/* Of two with the same tag the one that has waited longer. */
static bool is_before(const struct fair_queue *fair_queue, const struct tenant_queue *one,
                      const struct tenant_queue *other)
{
    uint64_t start = fair_start(&fair_queue->time, &one->tag);
    uint64_t than = fair_start(&fair_queue->time, &other->tag);

    return start != than ? start < than : (int32_t)(one->first->serial - other->first->serial) < 0;
}

/* The next request that may be sent; NULL: none. */
static struct queued_make *take_next(struct fair_queue *fair_queue)
{
    struct tenant_queue *best = NULL, *tenant_queue = fair_queue->tenant_queues;

    for (; tenant_queue; tenant_queue = tenant_queue->next) {
        if (tenant_queue->count &&
            may_send(fair_queue, tenant_queue, tenant_queue->first->is_elsewhere) &&
            (!best || is_before(fair_queue, tenant_queue, best)))
            best = tenant_queue;
    }
    return best ? take_at(fair_queue, best, &best->first) : NULL;
}

/* Removes a request from its queue; NULL: no request waits under this serial. */
static struct queued_make *take_waiting(struct fair_queue *fair_queue, uint32_t serial)
{
    for (struct tenant_queue *tenant_queue = fair_queue->tenant_queues; tenant_queue;
         tenant_queue = tenant_queue->next) {
        for (struct queued_make **at = &tenant_queue->first; *at; at = &(*at)->next) {
            if ((*at)->serial == serial)
                return take_at(fair_queue, tenant_queue, at);
        }
    }
    return NULL;
}

/* ---- boxes in service ---- */

static void serve(struct queued_make *queued_make)
{
    queued_make->tenant_queue->sent++;
    change(queued_make->fair_queue, queued_make->tenant_queue, 0, !queued_make->is_elsewhere);
}

static void serve_no_more(struct queued_make *queued_make)
{
    queued_make->tenant_queue->sent--;
    change(queued_make->fair_queue, queued_make->tenant_queue, 0, -!queued_make->is_elsewhere);
}

static void unsend(struct queued_make *queued_make)
{
    LIST_UNLINK(queued_make->fair_queue->sent, queued_make);
    queued_make->fair_queue->sent_count--;
}

/* Looks again when the first box is in service no more, if anything waits for that. */
static void set_timer(struct fair_queue *fair_queue)
{
    uint64_t now = clock_now_ms(), first = UINT64_MAX;

    for (const struct queued_make *made = fair_queue->serving; made; made = made->next)
        first = MIN(first, made->until_ms);
    fair_queue->manager->spec.reactor->ops->timer_set(
        fair_queue->timer, !fair_queue->waiting || first == UINT64_MAX ? UINT64_MAX
                           : first > now                               ? first - now
                                                                       : 0);
}

static void let_old_go(struct fair_queue *fair_queue)
{
    struct queued_make **at = &fair_queue->serving, *old;
    uint64_t now = clock_now_ms();

    while ((old = *at)) {
        if (old->until_ms > now) {
            at = &old->next;
            continue;
        }
        *at = old->next;
        serve_no_more(old);
        free(old);
    }
}

/* ---- the provider ---- */

static void send_more(struct fair_queue *fair_queue);

static void on_made(void *ctx, const struct made *made)
{
    struct queued_make *queued_make = ctx;
    struct fair_queue *fair_queue = queued_make->fair_queue;
    const struct make_events *events = queued_make->events;
    void *asker = queued_make->ctx;

    unsend(queued_make);
    queued_make->number = made->number;
    queued_make->until_ms = clock_now_ms() + fair_queue->service_ms;
    queued_make->next = fair_queue->serving;
    fair_queue->serving = queued_make;
    events->made(asker, made);
    send_more(fair_queue);
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    CLEANUP(freep) struct queued_make *queued_make = ctx;
    struct fair_queue *fair_queue = queued_make->fair_queue;

    unsend(queued_make);
    serve_no_more(queued_make);
    queued_make->events->refused(queued_make->ctx, err, facts);
    send_more(fair_queue);
}

static const struct make_events make_events = {.made = on_made, .refused = on_refused};

static int send_one(struct queued_make *queued_make, struct error *err)
{
    struct fair_queue *fair_queue = queued_make->fair_queue;
    struct provider *provider = fair_queue->manager->provider;
    int r;

    fair_begin(&fair_queue->time, &queued_make->tenant_queue->tag);
    queued_make->next = fair_queue->sent;
    fair_queue->sent = queued_make;
    fair_queue->sent_count++;
    serve(queued_make);
    r = provider->ops->make(provider, &queued_make->request, &make_events, queued_make,
                            &queued_make->made_serial, err);
    if (r < 0) {
        unsend(queued_make);
        serve_no_more(queued_make);
    }
    return r;
}

/* What a tenant's requests waited, for its metrics. */
static void note_wait(const struct queued_make *queued_make)
{
    struct metrics *metrics = queued_make->fair_queue->manager->spec.metrics;
    const char *tenant = queued_make->tenant;

    metrics_observe(metrics, METRIC_WAITED, &tenant,
                    (double)(clock_now_ns() - queued_make->since_ns) / 1e9);
}

/* A callback that reports a failure may ask for another box; such a nested call does not send. */
static void send_more(struct fair_queue *fair_queue)
{
    struct queued_make *next;

    if (fair_queue->is_sending)
        return;
    fair_queue->is_sending = true;
    let_old_go(fair_queue);
    while (fair_queue->waiting && (next = take_next(fair_queue))) {
        CLEANUP(freep) struct queued_make *queued_make = next;
        struct box_facts facts = {0};
        struct error err = {0};

        note_wait(queued_make);
        if (send_one(queued_make, &err) < 0)
            queued_make->events->refused(queued_make->ctx, &err, &facts);
        else
            queued_make = NULL;
    }
    fair_queue->is_sending = false;
    set_timer(fair_queue);
}

static void on_timer(void *ctx)
{
    send_more(ctx);
}

void fair_queue_over(struct fair_queue *fair_queue, uint32_t number)
{
    for (struct queued_make **at = &fair_queue->serving; *at; at = &(*at)->next) {
        CLEANUP(freep) struct queued_make *queued_make = *at;

        if (queued_make->number != number) {
            queued_make = NULL;
            continue;
        }
        *at = queued_make->next;
        serve_no_more(queued_make);
        break;
    }
    if (fair_queue->waiting)
        send_more(fair_queue);
}

void fair_queue_used(struct fair_queue *fair_queue, const char *tenant, uint64_t cpu_us)
{
    struct tenant_queue *tenant_queue = cpu_us ? get(fair_queue, tenant) : NULL;

    if (tenant_queue)
        fair_used(&fair_queue->time, &tenant_queue->tag, cpu_us);
}

/* Sends the request at once, or puts it into its tenant's queue. */
static int send_or_wait(struct fair_queue *fair_queue, struct queued_make *queued_make,
                        struct error *err)
{
    let_old_go(fair_queue);
    if (!queued_make->tenant_queue->count &&
        may_send(fair_queue, queued_make->tenant_queue, queued_make->is_elsewhere))
        return send_one(queued_make, err);
    put_in_queue(fair_queue, queued_make);
    set_timer(fair_queue);
    return 0;
}

int fair_queue_make(struct fair_queue *fair_queue, const char *tenant,
                    const struct make_request *request, const struct make_events *events, void *ctx,
                    uint32_t *ret_serial, struct error *err)
{
    CLEANUP(freep) struct queued_make *queued_make = NULL;
    int r;

    tenant = tenant ? tenant : TENANT_LOCAL;
    r = fair_queue_check(fair_queue, tenant, err);
    if (r < 0)
        return r;
    queued_make = calloc(1, sizeof(*queued_make));
    if (!queued_make)
        return error_memory(err);
    if (++fair_queue->next_serial == 0) /* 0 means no request */
        fair_queue->next_serial = 1;
    *queued_make = (struct queued_make){
        .fair_queue = fair_queue,
        .serial = fair_queue->next_serial,
        .since_ns = clock_now_ns(),
        .is_elsewhere = request->provider && provider_can(request->provider, PROVIDER_HOSTED),
        .request = *request,
        .events = events,
        .ctx = ctx};
    str_copy(queued_make->key, sizeof(queued_make->key), request->key);
    str_copy(queued_make->layer, sizeof(queued_make->layer), request->layer ? request->layer : "");
    queued_make->request.key = queued_make->key;
    queued_make->request.layer = request->layer ? queued_make->layer : NULL;
    queued_make->tenant_queue = get(fair_queue, tenant);
    if (!queued_make->tenant_queue)
        return error_memory(err);
    str_copy(queued_make->tenant, sizeof(queued_make->tenant), tenant);
    queued_make->request.tenant = queued_make->tenant;
    *ret_serial =
        queued_make
            ->serial; /* set before it is sent: the answer may come before the call returns */
    r = send_or_wait(fair_queue, queued_make, err);
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
    serve_no_more(queued_make);
    provider->ops->make_cancel(provider, queued_make->made_serial);
    send_more(fair_queue);
}
