/*
 * metrics.c - the table of what is counted, the counting, and the text; see metrics.h.
 *
 * A metric has a list of label sets ("series"), looked through from its newest use: there are few,
 * and the same one is used again and again. What comes in through labels from outside is bounded
 * and its characters are escaped when it is written, not before.
 */
#include "observe/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

#define LABELS_MAX 3
#define VALUE_MAX 64 /* of a label, with its NUL */
#define BUCKETS 13

enum kind { COUNTER, GAUGE, HISTOGRAM };

struct metric_row {
    const char *name;
    enum kind kind;
    const char *labels[LABELS_MAX + 1]; /* NULL-terminated */
    const char *help;
};

static const struct metric_row rows[_METRIC_MAX] = {
    [METRIC_BOX_MADE] = {"bailey_box_creation_seconds",
                         HISTOGRAM,
                         {"origin"},
                         "From asking for a box until it stands; origin: pool, zygote or cold"},
    [METRIC_RUN] = {"bailey_execution_seconds",
                    HISTOGRAM,
                    {"kind", "tenant"},
                    "Wall time of programs; kind: run, exec or cell"},
    [METRIC_RESULTS] = {"bailey_results_total",
                        COUNTER,
                        {"kind", "result", "tenant"},
                        "How they ended: ok, error, timeout, oom or refused"},
    [METRIC_FILE_OPERATIONS] = {"bailey_file_operations_total",
                                COUNTER,
                                {"operation", "result"},
                                "Calls on files of boxes; result: ok or error"},
    [METRIC_FILE_BYTES] = {"bailey_file_bytes_total",
                           COUNTER,
                           {"direction"},
                           "Bytes of files into boxes and out of them"},
    [METRIC_OUTPUT_BYTES] = {"bailey_output_bytes_total",
                             COUNTER,
                             {"tenant"},
                             "Bytes that programs printed"},
    [METRIC_REQUESTS] = {"bailey_http_requests_total",
                         COUNTER,
                         {"door", "status"},
                         "Requests by door and class of status"},
    [METRIC_REQUEST_TIME] = {"bailey_http_request_seconds",
                             HISTOGRAM,
                             {"door"},
                             "From a request's first line to the last byte of its reply"},
    [METRIC_HTTP_BYTES] = {"bailey_http_bytes_total", COUNTER, {"direction"}, "Bytes of bodies"},
    [METRIC_REFUSED] = {"bailey_refused_total",
                        COUNTER,
                        {"reason"},
                        "Requests refused: unauthorized, forbidden, quota, queue or origin"},
    [METRIC_QUOTA] = {"bailey_quota_refused_total",
                      COUNTER,
                      {"quota", "tenant"},
                      "Requests over a quota"},
    [METRIC_RETRIES] = {"bailey_retries_total",
                        COUNTER,
                        {"what"},
                        "What was started again: zygote, broker or box"},
    [METRIC_SESSIONS] = {"bailey_sessions", GAUGE, {"tenant"}, "Sessions that live"},
    [METRIC_RUNNING] = {"bailey_running", GAUGE, {"tenant"}, "Programs that run"},
    [METRIC_POOL] = {"bailey_pool_boxes", GAUGE, {"state"}, "Boxes made ahead: ready, wanted"},
    [METRIC_ZYGOTES] = {"bailey_zygotes", GAUGE, {"tier", "state"}, "Warm interpreters"},
    [METRIC_QUEUE] = {"bailey_queue_depth", GAUGE, {NULL}, "Boxes that wait to be made"},
    [METRIC_STREAMS] = {"bailey_streams", GAUGE, {"door"}, "Streams that are open: sse or ws"},
    [METRIC_CONNECTIONS] = {"bailey_http_connections", GAUGE, {NULL}, "Connections of clients"},
    [METRIC_GENERATION] = {"bailey_broker_generation",
                           GAUGE,
                           {NULL},
                           "How many brokers this daemon has had"},
};

static const double bounds[BUCKETS] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                       0.25,  0.5,   1,     5,    30,   300};

struct series {
    struct series *next;
    char values[LABELS_MAX][VALUE_MAX];
    double number; /* a counter's, a gauge's; the sum of a histogram */
    uint64_t count;
    uint64_t buckets[BUCKETS]; /* each alone; added up when it is written */
};

struct metrics {
    struct series *series[_METRIC_MAX];
    unsigned counts[_METRIC_MAX];
    struct series lost[_METRIC_MAX]; /* no memory for one of its own; written as "other" */
};

struct metrics *metrics_new(void)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));

    for (int i = 0; metrics && i < _METRIC_MAX; i++) {
        for (int k = 0; rows[i].labels[k]; k++)
            str_copy(metrics->lost[i].values[k], VALUE_MAX, "other");
    }
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    for (int i = 0; metrics && i < _METRIC_MAX; i++) {
        while (metrics->series[i]) {
            struct series *next = metrics->series[i]->next;

            free(metrics->series[i]);
            metrics->series[i] = next;
        }
    }
    free(metrics);
}

/* ---- counting ---- */

static bool fits(const struct metric_row *row, const struct series *series,
                 const char *const *values)
{
    for (int i = 0; row->labels[i]; i++) {
        if (strncmp(series->values[i], values[i], VALUE_MAX - 1) != 0)
            return false;
    }
    return true;
}

/* Found or made, and first from now on. */
static struct series *series_get(struct metrics *metrics, enum metric metric,
                                 const char *const *values)
{
    const struct metric_row *row = &rows[metric];
    struct series **at = &metrics->series[metric], *series;

    while (*at && !fits(row, *at, values))
        at = &(*at)->next;
    series = *at;
    if (series) {
        *at = series->next;
    } else {
        if (metrics->counts[metric] >= LIMIT_METRIC_VALUES)
            return &metrics->lost[metric];
        series = calloc(1, sizeof(*series));
        if (!series)
            return &metrics->lost[metric];
        for (int i = 0; row->labels[i]; i++)
            str_copy(series->values[i], VALUE_MAX, values[i]);
        metrics->counts[metric]++;
    }
    series->next = metrics->series[metric];
    metrics->series[metric] = series;
    return series;
}

void metrics_add(struct metrics *metrics, enum metric metric, const char *const *values,
                 uint64_t number)
{
    if (metrics)
        series_get(metrics, metric, values)->number += (double)number;
}

void metrics_set(struct metrics *metrics, enum metric metric, const char *const *values,
                 double number)
{
    if (metrics)
        series_get(metrics, metric, values)->number = number;
}

void metrics_observe(struct metrics *metrics, enum metric metric, const char *const *values,
                     double seconds)
{
    struct series *series = metrics ? series_get(metrics, metric, values) : NULL;

    if (!series)
        return;
    series->count++;
    series->number += seconds;
    for (int i = 0; i < BUCKETS; i++) {
        if (seconds <= bounds[i]) {
            series->buckets[i]++;
            break;
        }
    }
}

/* ---- the text ---- */

static int put_value(struct buf *text, const char *value)
{
    int r = 0;

    for (const char *c = value; r == 0 && *c; c++) {
        if (*c == '\\' || *c == '"')
            r = buf_append(text, "\\", 1);
        if (r == 0)
            r = *c == '\n' ? buf_append_text(text, "\\n") : buf_append(text, c, 1);
    }
    return r;
}

/* {a="b",le="c"}; nothing without labels. */
static int put_labels(struct buf *text, const struct metric_row *row, const struct series *series,
                      const char *bound)
{
    const char *before = "{";
    int r = 0;

    for (int i = 0; r == 0 && row->labels[i]; i++) {
        r = buf_printf(text, "%s%s=\"", before, row->labels[i]);
        if (r == 0)
            r = put_value(text, series->values[i]);
        if (r == 0)
            r = buf_append_text(text, "\"");
        before = ",";
    }
    if (r == 0 && bound)
        r = buf_printf(text, "%sle=\"%s\"", before, bound);
    return r == 0 && (row->labels[0] || bound) ? buf_append_text(text, "}") : r;
}

static int put_line(struct buf *text, const struct metric_row *row, const struct series *series,
                    const char *suffix, const char *bound, double number)
{
    int r = buf_printf(text, "%s%s", row->name, suffix);

    if (r == 0)
        r = put_labels(text, row, series, bound);
    return r == 0 ? buf_printf(text, " %.17g\n", number) : r;
}

static int put_series(struct buf *text, const struct metric_row *row, const struct series *series)
{
    uint64_t below = 0;
    char bound[32];
    int r = 0;

    if (row->kind != HISTOGRAM)
        return put_line(text, row, series, "", NULL, series->number);
    for (int i = 0; r == 0 && i < BUCKETS; i++) {
        below += series->buckets[i];
        str_format(bound, sizeof(bound), "%g", bounds[i]);
        r = put_line(text, row, series, "_bucket", bound, (double)below);
    }
    if (r == 0)
        r = put_line(text, row, series, "_bucket", "+Inf", (double)series->count);
    if (r == 0)
        r = put_line(text, row, series, "_sum", NULL, series->number);
    return r == 0 ? put_line(text, row, series, "_count", NULL, (double)series->count) : r;
}

int metrics_write(const struct metrics *metrics, struct buf *text)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    int r = 0;

    for (int i = 0; metrics && r == 0 && i < _METRIC_MAX; i++) {
        const struct metric_row *row = &rows[i];
        const struct series *lost = &metrics->lost[i];

        r = buf_printf(text, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
                       kinds[row->kind]);
        for (const struct series *one = metrics->series[i]; r == 0 && one; one = one->next)
            r = put_series(text, row, one);
        if (r == 0 && (lost->count > 0 || lost->number != 0))
            r = put_series(text, row, lost);
    }
    return r;
}
