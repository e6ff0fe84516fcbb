/*
 * metrics_table.h - the rows of the metrics, for metrics.c and for printing them. Constant.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_OBSERVE_METRICS_TABLE_H
#define BAILEY_OBSERVE_METRICS_TABLE_H

#include "observe/metrics.h"

#define METRIC_LABELS_MAX 3

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_row {
    const char *name;
    enum metric_kind kind;
    const char *labels[METRIC_LABELS_MAX + 1]; /* NULL-terminated */
    const char *help;                          /* no backslash, no end of line */
};
extern const struct metric_row metric_rows[_METRIC_MAX];

#endif
