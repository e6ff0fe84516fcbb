/* test_metrics.c - metrics: the text format 0.0.4 to the byte, escaping, bounded labels, buckets.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/str.h"
#include "observe/metrics.h"
#include "observe/metrics_table.h"

static struct metrics *metrics;
static struct buf text;

static int set_up(void **state)
{
    (void)state;
    metrics = metrics_new();
    text = BUF_INIT(LIMIT_METRICS_TEXT);
    return metrics ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    metrics_free(metrics);
    buf_free(&text);
    return 0;
}

static const char *written(void)
{
    buf_clear(&text);
    assert_int_equal(metrics_write(metrics, NULL, &text), 0);
    return buf_text(&text);
}

/* What is written for one metric, from its HELP to the next one's. */
static void assert_block(enum metric metric, const char *wanted)
{
    const char *begin, *end;
    char head[200];
    char *block;

    str_format(head, sizeof(head), "# HELP %s ", metric_rows[metric].name);
    begin = strstr(written(), head);
    assert_non_null(begin);
    end = strstr(begin + 1, "# HELP ");
    block = end ? strndup(begin, (size_t)(end - begin)) : strdup(begin);
    assert_string_equal(block, wanted);
    free(block);
}

static size_t count(const char *in, const char *what)
{
    size_t number = 0;

    for (const char *at = strstr(in, what); at; at = strstr(at + 1, what))
        number++;
    return number;
}

static void test_nothing_counted(void **state)
{
    (void)state;
    assert_block(METRIC_QUEUE, "# HELP bailey_queue_depth Requests that wait for a sandbox\n"
                               "# TYPE bailey_queue_depth gauge\n");
    assert_int_equal(count(written(), "# TYPE "), _METRIC_MAX);
}

static void test_counter_and_gauge(void **state)
{
    const char *in[] = {"in"}, *out[] = {"out"};

    (void)state;
    metrics_add(metrics, METRIC_FILE_BYTES, in, 5);
    metrics_add(metrics, METRIC_FILE_BYTES, out, 1234567890123);
    metrics_add(metrics, METRIC_FILE_BYTES, in, 2);
    assert_block(
        METRIC_FILE_BYTES,
        "# HELP bailey_file_bytes_total Bytes of files written to and read from sandboxes\n"
        "# TYPE bailey_file_bytes_total counter\n"
        "bailey_file_bytes_total{direction=\"in\"} 7\n"
        "bailey_file_bytes_total{direction=\"out\"} 1234567890123\n");
    metrics_set(metrics, METRIC_QUEUE, NULL, 2.5);
    metrics_move(metrics, METRIC_QUEUE, NULL, 2);
    metrics_move(metrics, METRIC_QUEUE, NULL, -5);
    assert_non_null(strstr(written(), "\nbailey_queue_depth -0.5\n"));
    metrics_zero(metrics, METRIC_QUEUE);
    assert_non_null(strstr(written(), "\nbailey_queue_depth 0\n"));
}

static void test_values_are_escaped(void **state)
{
    const char *tenant[] = {"a\"b\\c\nd"};

    (void)state;
    metrics_set(metrics, METRIC_SESSIONS, tenant, 1);
    assert_non_null(strstr(written(), "\nbailey_sessions{tenant=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

static void test_histogram_is_cumulative(void **state)
{
    const char *rest[] = {"rest"};

    (void)state;
    metrics_observe(metrics, METRIC_REQUEST_TIME, rest, 0.001); /* on a bound: below it */
    metrics_observe(metrics, METRIC_REQUEST_TIME, rest, 0.0015);
    metrics_observe(metrics, METRIC_REQUEST_TIME, rest, 0.3);
    metrics_observe(metrics, METRIC_REQUEST_TIME, rest, 1000);
    assert_block(METRIC_REQUEST_TIME,
                 "# HELP bailey_http_request_seconds Time from a request's first line to the last "
                 "byte of its "
                 "reply\n"
                 "# TYPE bailey_http_request_seconds histogram\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"0.001\"} 1\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"0.002\"} 2\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"0.005\"} 2\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"0.01\"} 2\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"0.02\"} 2\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"0.05\"} 2\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"0.1\"} 2\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"0.25\"} 2\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"0.5\"} 3\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"1\"} 3\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"5\"} 3\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"30\"} 3\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"300\"} 3\n"
                 "bailey_http_request_seconds_bucket{door=\"rest\",le=\"+Inf\"} 4\n"
                 "bailey_http_request_seconds_sum{door=\"rest\"} 1000.3025\n"
                 "bailey_http_request_seconds_count{door=\"rest\"} 4\n");
}

/* Tenants come from outside: the one too many is "other", and kind and result stay what they are.
 */
static void test_tenants_are_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < LIMIT_METRIC_VALUES + 50; i++) {
        char name[32];
        const char *values[] = {"run", "ok", name};

        str_format(name, sizeof(name), "t%d", i);
        metrics_add(metrics, METRIC_RESULTS, values, 1);
        values[1] = "timeout";
        metrics_add(metrics, METRIC_RESULTS, values, 2);
    }
    assert_int_equal(count(written(), "\nbailey_results_total{"), 2 * (LIMIT_METRIC_VALUES + 1));
    assert_non_null(strstr(written(), "{kind=\"run\",result=\"ok\",tenant=\"other\"} 50\n"));
    assert_non_null(strstr(written(), "{kind=\"run\",result=\"timeout\",tenant=\"other\"} 100\n"));
    assert_non_null(strstr(written(), "{kind=\"run\",result=\"ok\",tenant=\"t0\"} 1\n"));
    assert_null(strstr(written(), "tenant=\"t100\""));
}

/* A tenant that is called so itself does not make two lines with the same labels. */
static void test_a_tenant_called_other(void **state)
{
    (void)state;
    for (int i = -1; i < LIMIT_METRIC_VALUES + 1; i++) {
        char name[32] = "other";
        const char *values[] = {name};

        if (i >= 0)
            str_format(name, sizeof(name), "t%d", i);
        metrics_add(metrics, METRIC_OUTPUT_BYTES, values, 1);
    }
    assert_int_equal(count(written(), "bailey_output_bytes_total{tenant=\"other\"} 3\n"), 1);
}

static void test_long_values_are_one(void **state)
{
    char a[200], b[200];
    const char *first[] = {a}, *second[] = {b};

    (void)state;
    memset(a, 'x', sizeof(a));
    memset(b, 'x', sizeof(b));
    a[sizeof(a) - 1] = b[sizeof(b) - 1] = '\0';
    b[100] = 'y'; /* behind what is kept */
    metrics_add(metrics, METRIC_OUTPUT_BYTES, first, 1);
    metrics_add(metrics, METRIC_OUTPUT_BYTES, second, 1);
    assert_int_equal(count(written(), "\nbailey_output_bytes_total{"), 1);
}

static void test_series_are_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < LIMIT_METRIC_SERIES + 10; i++) {
        char name[32];
        const char *values[] = {name, "ready"};

        str_format(name, sizeof(name), "%d", i);
        metrics_set(metrics, METRIC_ZYGOTES, values, 1);
    }
    assert_int_equal(count(written(), "\nbailey_zygotes{"), LIMIT_METRIC_SERIES);
}

static void test_without_memory(void **state)
{
    const char *values[] = {"a"};

    (void)state;
    metrics_add(NULL, METRIC_OUTPUT_BYTES, values, 1);
    metrics_set(NULL, METRIC_QUEUE, NULL, 1);
    metrics_move(NULL, METRIC_QUEUE, NULL, 1);
    metrics_zero(NULL, METRIC_QUEUE);
    metrics_observe(NULL, METRIC_REQUEST_TIME, values, 1);
    assert_int_equal(metrics_write(NULL, NULL, &text), 0);
    assert_int_equal(text.length, 0);
    text = BUF_INIT(10);
    assert_int_equal(metrics_write(metrics, NULL, &text), -EFBIG);
    metrics_free(NULL);
}

/* Names as Prometheus wants them: counters end with _total, times with _seconds. */
static void test_the_table(void **state)
{
    (void)state;
    for (int i = 0; i < _METRIC_MAX; i++) {
        const struct metric_row *row = &metric_rows[i];

        assert_non_null(row->name);
        if (!str_starts(row->name, "process_")) { /* those are named as everybody names them */
            assert_true(str_starts(row->name, "bailey_"));
            assert_int_equal(str_ends(row->name, "_seconds"), row->kind == METRIC_HISTOGRAM);
        }
        assert_int_equal(strspn(row->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(row->name));
        assert_int_equal(str_ends(row->name, "_total"), row->kind == METRIC_COUNTER);
        assert_null(strpbrk(row->help, "\\\n"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_counter_and_gauge, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_values_are_escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_histogram_is_cumulative, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tenants_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_tenant_called_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_values_are_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_series_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory, set_up, tear_down),
        cmocka_unit_test(test_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
