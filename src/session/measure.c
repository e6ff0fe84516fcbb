/*
 * measure.c - gauges of the session manager: live, running and waiting objects; see
 * session_manager.h.
 */
#include "observe/metrics.h"
#include "session/run_private.h"

void session_manager_measure(struct session_manager *manager)
{
    struct metrics *metrics = manager->spec.metrics;

    metrics_zero(metrics, METRIC_SESSIONS);
    metrics_zero(metrics, METRIC_RUNNING);
    metrics_zero(metrics, METRIC_PAUSED);
    for (const struct session *session = manager->sessions; session; session = session->next) {
        const char *tenant = session_tenant(session);

        if (session->state == SESSION_ENDED)
            continue;
        metrics_move(metrics, session_is_paused(session) ? METRIC_PAUSED : METRIC_SESSIONS, &tenant,
                     1);
        metrics_move(metrics, METRIC_RUNNING, &tenant, session->running);
    }
    for (const struct run *run = manager->runs; run; run = run->next) {
        const char *tenant = run->tenant;

        metrics_move(metrics, METRIC_RUNNING, &tenant, run->is_running);
    }
    metrics_set(metrics, METRIC_QUEUE, NULL, session_manager_queue_depth(manager));
    metrics_set(metrics, METRIC_GENERATION, NULL, manager->generation);
}
