/* test_outcome.c - how facts of a box and ends of commands are told in the one result. */
#include "unit.h"

#include <signal.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "runtime/outcome.h"

static const struct limits limits = {.timeout_ms = 2500, .output_bytes = KIB};

static void walls(void **state)
{
    const struct box_facts facts = {
        .layers = ISOLATION_LAYER_BIT(ISOLATION_LAYER_SECCOMP),
        .missing = ISOLATION_LAYER_BIT(ISOLATION_LAYER_LANDLOCK),
        .memory_by = LIMIT_BY_CGROUP_V1,
        .pids_by = LIMIT_BY_RLIMIT,
        .cpu_by = LIMIT_BY_AFFINITY,
        .disk_by = LIMIT_BY_TMPFS,
        .oom_kills = 1,
        .usage = {.cpu_us = 7, .max_rss_bytes = 8, .by = USAGE_BY_ENGINE}};
    struct result result;

    (void)state;
    result_init(&result, &limits);
    outcome_isolation(&result, &facts);
    assert_int_equal(result.layers, facts.layers);
    assert_int_equal(result.missing, facts.missing);
    assert_int_equal(result.memory_by, LIMIT_BY_CGROUP_V1);
    assert_int_equal(result.pids_by, LIMIT_BY_RLIMIT);
    assert_int_equal(result.cpu_by, LIMIT_BY_AFFINITY);
    assert_int_equal(result.disk_by, LIMIT_BY_TMPFS);
    assert_false(result.oom_killed); /* what the box used is told by whoever knows it */
    assert_int_equal(result.usage.cpu_us, 0);
    outcome_usage(&result, &facts);
    assert_true(result.oom_killed);
    assert_int_equal(result.usage.cpu_us, 7);
    assert_int_equal(result.usage.max_rss_bytes, 8);
    outcome_usage(&result, &(struct box_facts){0});
    assert_true(result.oom_killed); /* once said it stays */
    result_free(&result);
}

/* Whose word it is: the engine's where it has counted, else the warden's, which says so. */
static void told(void **state)
{
    const struct usage warden = {.cpu_us = 70, .max_rss_bytes = 80, .by = USAGE_BY_WARDEN};
    const struct box_facts engine = {
        .usage = {.cpu_us = 90, .max_rss_bytes = 10, .by = USAGE_BY_ENGINE}};
    const struct box_facts docker = {
        .usage = {.cpu_us = 60, .max_rss_bytes = 90, .by = USAGE_BY_PROVIDER}};
    struct result result;

    (void)state;
    result_init(&result, &limits);
    outcome_told(&result, &(struct usage){0});
    assert_int_equal(result.usage.by, USAGE_BY_NONE);
    outcome_told(&result, &warden);
    assert_int_equal(result.usage.by, USAGE_BY_WARDEN);
    assert_int_equal(result.usage.max_rss_bytes, 80);
    outcome_usage(&result, &docker);
    outcome_told(&result, &warden);
    assert_int_equal(result.usage.by, USAGE_BY_WARDEN);
    assert_int_equal(result.usage.cpu_us, 70);
    assert_int_equal(result.usage.max_rss_bytes, 90);
    outcome_usage(&result, &engine);
    outcome_told(&result, &warden);
    assert_int_equal(result.usage.by, USAGE_BY_ENGINE);
    assert_int_equal(result.usage.cpu_us, 90);
    assert_int_equal(result.usage.max_rss_bytes, 10);
    result_free(&result);
}

static void check_end(const struct exec_end *end, int exit_code, int signal, const char *note)
{
    struct result result;

    result_init(&result, &limits);
    outcome_end(&result, end);
    assert_int_equal(result.exit_code, exit_code);
    assert_int_equal(outcome_exit_code(end), exit_code);
    assert_int_equal(result.signal, signal);
    assert_int_equal(result.timed_out, end->timed_out);
    assert_int_equal(result.disk_full, end->disk_full);
    assert_int_equal(result.oom_killed, end->memory_watchdog);
    assert_int_equal(result.duration_ns, end->duration_ns);
    assert_int_equal(result.usage.cpu_us, 0); /* the warden's word is not asked for */
    assert_null(result.error.code);
    if (note)
        assert_non_null(strstr(buf_text(&result.note), note));
    else
        assert_int_equal(result.note.length, 0);
    result_free(&result);
}

static void ends(void **state)
{
    (void)state;
    check_end(&(struct exec_end){.duration_ns = 5, .usage = {.cpu_us = 9}}, 0, 0, NULL);
    check_end(&(struct exec_end){.exit_code = 3, .disk_full = true}, 3, 0, NULL);
    check_end(&(struct exec_end){.exit_code = 3, .signal = SIGSEGV}, 139, SIGSEGV, NULL);
    check_end(&(struct exec_end){.signal = SIGKILL, .memory_watchdog = true}, 137, SIGKILL, NULL);
    check_end(&(struct exec_end){.signal = SIGKILL, .timed_out = true}, -1, 0,
              "timed out after 2.5 s");
}

/* What an end before it said does not stay. */
static void ends_again(void **state)
{
    struct result result;

    (void)state;
    result_init(&result, &limits);
    outcome_end(&result, &(struct exec_end){.signal = SIGKILL, .timed_out = true});
    outcome_end(&result, &(struct exec_end){.signal = SIGTERM});
    assert_false(result.timed_out);
    assert_int_equal(result.signal, SIGTERM);
    outcome_end(&result, &(struct exec_end){.exit_code = 1});
    assert_int_equal(result.signal, 0);
    assert_int_equal(result.exit_code, 1);
    result_free(&result);
}

/* Of a program whose end somebody else saw, or nobody. */
static void a_status(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);
    struct result result;

    (void)state;
    result_init(&result, &limits);
    outcome_status(&result, &(int){SIGSEGV});
    assert_int_equal(result.signal, SIGSEGV);
    assert_int_equal(result.exit_code, 128 + SIGSEGV);
    outcome_status(&result, &(int){3 << 8});
    assert_int_equal(result.signal, 0);
    assert_int_equal(result.exit_code, 3);
    outcome_status(&result, NULL);
    assert_int_equal(result.exit_code, 1);
    result_stderr(&result, &text);
    assert_non_null(strstr(buf_text(&text), "the program ended, and its status is unknown"));
    result.timed_out = true;
    result.exit_code = -1;
    outcome_status(&result, &(int){SIGKILL});
    assert_int_equal(result.exit_code, -1);
    assert_int_equal(result.signal, 0);
    result_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_status), cmocka_unit_test(walls),      cmocka_unit_test(told),
        cmocka_unit_test(ends),     cmocka_unit_test(ends_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
