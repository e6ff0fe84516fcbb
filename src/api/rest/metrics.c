/*
 * metrics.c - GET /metrics: asks the launcher for the state of the pool, then prints every metric.
 */
#include "observe/metrics.h"

#include <stdlib.h>

#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "observe/process.h"

#define TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8"

struct scrape {
    struct front *front;
    struct http_request *http;
    struct reactor_timer *timer; /* limits the wait for the launcher */
    char tenant[TENANT_MAX];     /* whose names are shown; empty: all tenants' */
};

static void scrape_free(struct scrape *scrape)
{
    scrape->front->reactor->ops->timer_remove(scrape->timer);
    free(scrape);
}

static void measure_warm(struct metrics *metrics, json_t *state)
{
    json_t *pool = json_object_get(state, "pool"), *zygote;
    const char *ready = "ready", *wanted = "wanted";
    size_t i;

    metrics_set(metrics, METRIC_POOL, &ready, json_number_value(json_object_get(pool, "boxes")));
    metrics_set(metrics, METRIC_POOL, &wanted, json_number_value(json_object_get(pool, "size")));
    metrics_zero(metrics, METRIC_ZYGOTES);
    json_array_foreach(json_object_get(state, "zygotes"), i, zygote)
    {
        char tier[32];
        const char *const values[] = {
            tier, json_is_true(json_object_get(zygote, "ready")) ? "ready" : "starting"};

        str_format(tier, sizeof(tier), "%d",
                   (int)json_integer_value(json_object_get(zygote, "tier")));
        metrics_move(metrics, METRIC_ZYGOTES, values, 1);
    }
}

static void answer(struct scrape *scrape)
{
    struct front *front = scrape->front;
    struct metrics *metrics = session_manager_metrics(front->manager);
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_METRICS_TEXT);

    session_manager_measure(front->manager);
    process_measure(metrics);
    metrics_set(metrics, METRIC_CONNECTIONS, NULL, front_clients(front));
    if (metrics_write(metrics, scrape->tenant[0] ? scrape->tenant : NULL, &text) < 0)
        front_fail_memory(scrape->http);
    else
        http_reply(scrape->http, 200, TYPE_METRICS, NULL, buf_text(&text), text.length);
    scrape_free(scrape);
}

static void on_seen(void *ctx, json_t *state)
{
    struct scrape *scrape = ctx;

    if (state)
        measure_warm(session_manager_metrics(scrape->front->manager), state);
    json_decref(state);
    answer(scrape);
}

/*
 * If the launcher does not answer, the other metrics are still printed, with the last known state
 * of the pool.
 */
static void on_late(void *ctx)
{
    struct scrape *scrape = ctx;

    session_manager_look_cancel(scrape->front->manager, scrape);
    answer(scrape);
}

static void on_gone(void *ctx)
{
    struct scrape *scrape = ctx;

    session_manager_look_cancel(scrape->front->manager, scrape);
    scrape_free(scrape);
}

void metrics_get(struct door_call *call)
{
    struct scrape *scrape = calloc(1, sizeof(*scrape));

    if (scrape)
        *scrape = (struct scrape){.front = call->front,
                                  .http = call->http,
                                  .timer = reactor_timer(call->front->reactor, on_late, scrape)};
    if (!scrape || !scrape->timer) {
        free(scrape);
        front_fail_memory(call->http);
        return;
    }
    if (!principal_may(&call->caller.who, SCOPE_OPERATOR))
        str_copy(scrape->tenant, sizeof(scrape->tenant), call->caller.who.tenant);
    http_on_gone(call->http, on_gone, scrape);
    call->front->reactor->ops->timer_set(scrape->timer, LIMIT_SCRAPE_WAIT_MS);
    session_manager_look(call->front->manager, on_seen, scrape);
}
