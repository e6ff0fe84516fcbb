/* measure.c - gauges of the engine: what lives, runs and waits now; see engine.h. */
#include "observe/metrics.h"
#include "session/missing_job.h"

void engine_measure(struct engine *engine)
{
    struct metrics *metrics = engine->spec.metrics;

    metrics_zero(metrics, METRIC_SESSIONS);
    metrics_zero(metrics, METRIC_RUNNING);
    for (const struct session *session = engine->sessions; session; session = session->next) {
        const char *tenant = session_tenant(session);

        if (session->state == SESSION_ENDED)
            continue;
        metrics_move(metrics, METRIC_SESSIONS, &tenant, 1);
        metrics_move(metrics, METRIC_RUNNING, &tenant, session->running);
    }
    for (const struct run *run = engine->runs; run; run = run->next) {
        const char *tenant = run->tenant;

        metrics_move(metrics, METRIC_RUNNING, &tenant, run->is_running);
    }
    metrics_set(metrics, METRIC_QUEUE, NULL, engine_queue_depth(engine));
    metrics_set(metrics, METRIC_GENERATION, NULL, engine->generation);
}
