/*
 * metrics.h - numbers about the daemon for Prometheus: counters, gauges, histograms.
 *
 * Never fails the caller and allocates nothing after metrics_new() except for a label set that is
 * seen for the first time (no memory: that one is not counted). One table (metrics_table.c),
 * printed to docs/metrics.md, has names, labels and help. The label whose values come from outside
 * (tenant) has at most LIMIT_METRIC_VALUES of them; later ones are counted as "other". One thread,
 * no I/O.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_OBSERVE_METRICS_H
#define BAILEY_OBSERVE_METRICS_H

#include <stdint.h>

#include "base/buf.h"

struct metrics;

enum metric {
    METRIC_BOX_MADE, /* bailey_box_creation_seconds{origin="pool|zygote|cold"} histogram */
    METRIC_RUN,      /* bailey_execution_seconds{kind="run|exec|cell",tenant} histogram */
    METRIC_RESULTS,  /* bailey_results_total{kind,result="ok|error|timeout|oom|refused",tenant} */
    METRIC_FILE_OPERATIONS, /* bailey_file_operations_total{operation,result} */
    METRIC_FILE_BYTES,      /* bailey_file_bytes_total{direction="in|out"} */
    METRIC_OUTPUT_BYTES,    /* bailey_output_bytes_total{tenant} */
    METRIC_REQUESTS,        /* bailey_http_requests_total{door,status="2xx|..."} */
    METRIC_REQUEST_TIME,    /* bailey_http_request_seconds{door} histogram */
    METRIC_HTTP_BYTES,      /* bailey_http_bytes_total{direction} */
    METRIC_REFUSED,  /* bailey_refused_total{reason="unauthorized|forbidden|quota|queue|origin"} */
    METRIC_QUOTA,    /* bailey_quota_refused_total{quota,tenant} */
    METRIC_RETRIES,  /* bailey_retries_total{what="zygote|broker|box"} */
    METRIC_SESSIONS, /* bailey_sessions{tenant} gauge */
    METRIC_PAUSED,   /* bailey_paused_sessions{tenant} gauge */
    METRIC_RUNNING,  /* bailey_running{tenant} gauge */
    METRIC_POOL,     /* bailey_pool_boxes{state="ready|wanted"} gauge */
    METRIC_ZYGOTES,  /* bailey_zygotes{tier,state="ready|starting"} gauge */
    METRIC_QUEUE,    /* bailey_queue_depth gauge: makes that wait for the launcher */
    METRIC_WAITED,   /* bailey_queue_wait_seconds{tenant} histogram: of those that waited */
    METRIC_TURN,     /* bailey_loop_turn_seconds histogram: CPU time of a turn of the event loop */
    METRIC_STREAMS,  /* bailey_streams{door="sse|ws"} gauge */
    METRIC_CONNECTIONS, /* bailey_http_connections gauge */
    METRIC_GENERATION,  /* bailey_broker_generation gauge */
    METRIC_BUILD,       /* bailey_build_info{version} gauge, always 1 */
    METRIC_PROCESS_CPU, /* process_*: observe/process.h */
    METRIC_PROCESS_RESIDENT,
    METRIC_PROCESS_VIRTUAL,
    METRIC_PROCESS_FDS,
    METRIC_PROCESS_MAX_FDS,
    METRIC_PROCESS_START,
    _METRIC_MAX,
};

struct metrics *metrics_new(void); /* NULL: no memory; every call takes that */
void metrics_free(struct metrics *metrics);

/* Label values in the order of the table, as many as the metric has; NULL for none. */
void metrics_add(struct metrics *metrics, enum metric metric, const char *const *values,
                 uint64_t number);
void metrics_set(struct metrics *metrics, enum metric metric, const char *const *values,
                 double number);
/* A gauge by so much up or down, and all of its label sets to 0. */
void metrics_move(struct metrics *metrics, enum metric metric, const char *const *values,
                  int64_t number);
void metrics_zero(struct metrics *metrics, enum metric metric);
void metrics_observe(struct metrics *metrics, enum metric metric, const char *const *values,
                     double seconds);

/*
 * In the text format 0.0.4; with `tenant` only its own label sets of metrics that have the label
 * "tenant", NULL: of all tenants.
 */
int metrics_write(const struct metrics *metrics, const char *tenant, struct buf *text);

#endif
