/*
 * metrics.c - the counting, and the text; see metrics.h. The metrics are in metrics_table.c.
 *
 * A metric has a list of label sets ("series"), searched from the most recently used: there are
 * few, and the same one is used again and again. Labels from outside are bounded in number, and
 * their characters are escaped when they are written, not before.
 */
#include "observe/metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "observe/metrics_table.h"

#define VALUE_MAX 64 /* of a label, with its NUL */
#define BUCKETS 13

static const double bounds[BUCKETS] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                       0.25,  0.5,   1,     5,    30,   300};

struct series {
    struct series *next;
    char values[METRIC_LABELS_MAX][VALUE_MAX];
    double number; /* a counter's, a gauge's; the sum of a histogram */
    uint64_t count;
    uint64_t buckets[BUCKETS]; /* each alone; added up when it is written */
};

struct metrics {
    struct series *series[_METRIC_MAX];
    unsigned counts[_METRIC_MAX];
    char tenants[LIMIT_METRIC_VALUES][VALUE_MAX]; /* values that are counted separately */
    unsigned tenant_count;
};

struct metrics *metrics_new(void)
{
    return calloc(1, sizeof(struct metrics));
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

/* The tenant itself, or "other" when there are too many of them already. */
static const char *tenant_known(struct metrics *metrics, const char *tenant)
{
    char cut[VALUE_MAX];

    str_copy(cut, sizeof(cut), tenant);
    for (unsigned i = 0; i < metrics->tenant_count; i++) {
        if (str_equal(metrics->tenants[i], cut))
            return metrics->tenants[i];
    }
    if (metrics->tenant_count == LIMIT_METRIC_VALUES)
        return "other";
    str_copy(metrics->tenants[metrics->tenant_count], VALUE_MAX, cut);
    return metrics->tenants[metrics->tenant_count++];
}

static bool fits(const struct metric_row *row, const struct series *series,
                 const char *const *values)
{
    for (int i = 0; row->labels[i]; i++) {
        if (strncmp(series->values[i], values[i], VALUE_MAX - 1) != 0)
            return false;
    }
    return true;
}

/* Found or made, and first from now on. NULL: no memory for one more, or there are too many. */
static struct series *series_get(struct metrics *metrics, enum metric metric,
                                 const char *const *given)
{
    const struct metric_row *row = &metric_rows[metric];
    struct series **at = &metrics->series[metric], *series;
    const char *values[METRIC_LABELS_MAX] = {NULL};

    for (int i = 0; row->labels[i]; i++)
        values[i] =
            str_equal(row->labels[i], "tenant") ? tenant_known(metrics, given[i]) : given[i];
    while (*at && !fits(row, *at, values))
        at = &(*at)->next;
    series = *at;
    if (series) {
        *at = series->next;
    } else {
        if (metrics->counts[metric] >= LIMIT_METRIC_SERIES)
            return NULL;
        series = calloc(1, sizeof(*series));
        if (!series)
            return NULL;
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
    struct series *series = metrics ? series_get(metrics, metric, values) : NULL;

    if (series)
        series->number += (double)number;
}

void metrics_move(struct metrics *metrics, enum metric metric, const char *const *values,
                  int64_t number)
{
    struct series *series = metrics ? series_get(metrics, metric, values) : NULL;

    if (series)
        series->number += (double)number;
}

void metrics_set(struct metrics *metrics, enum metric metric, const char *const *values,
                 double number)
{
    struct series *series = metrics ? series_get(metrics, metric, values) : NULL;

    if (series)
        series->number = number;
}

void metrics_zero(struct metrics *metrics, enum metric metric)
{
    for (struct series *one = metrics ? metrics->series[metric] : NULL; one; one = one->next)
        one->number = 0;
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

/* As short as says the same number. */
static int put_number(struct buf *text, double number)
{
    char digits[64];

    str_format(digits, sizeof(digits), "%.15g", number);
    if (strtod(digits, NULL) != number)
        str_format(digits, sizeof(digits), "%.17g", number);
    return buf_printf(text, " %s\n", digits);
}

static int put_line(struct buf *text, const struct metric_row *row, const struct series *series,
                    const char *suffix, const char *bound, double number)
{
    int r = buf_printf(text, "%s%s", row->name, suffix);

    if (r == 0)
        r = put_labels(text, row, series, bound);
    return r == 0 ? put_number(text, number) : r;
}

static int put_series(struct buf *text, const struct metric_row *row, const struct series *series)
{
    uint64_t below = 0;
    char bound[32];
    int r = 0;

    if (row->kind != METRIC_HISTOGRAM)
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

static bool is_of(const struct metric_row *row, const struct series *series, const char *tenant)
{
    for (int i = 0; tenant && row->labels[i]; i++) {
        if (str_equal(row->labels[i], "tenant") &&
            strncmp(series->values[i], tenant, VALUE_MAX - 1) != 0)
            return false;
    }
    return true;
}

int metrics_write(const struct metrics *metrics, const char *tenant, struct buf *text)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    int r = 0;

    for (int i = 0; metrics && r == 0 && i < _METRIC_MAX; i++) {
        const struct metric_row *row = &metric_rows[i];

        r = buf_printf(text, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
                       kinds[row->kind]);
        for (const struct series *one = metrics->series[i]; r == 0 && one; one = one->next) {
            if (is_of(row, one, tenant))
                r = put_series(text, row, one);
        }
    }
    return r;
}
