/*
 * test_account.c - ends of programs in the metrics and the audit: who asked, what, how it ended,
 * and never what was not to be kept.
 */
#include "workshop.h"

#include <jansson.h>

#include "base/cleanup.h"
#include "observe/audit.h"
#include "observe/metrics.h"
#include "session/missing_job.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"

static const struct caller caller = {
    .who = {.tenant = "acme", .key = "3f9a", .scopes = SCOPE_ALL},
    .request = "req-7",
    .trace = {.id = TRACE, .parent = "00f067aa0ba902b7", .is_sampled = true},
};

static const char *audit_text(struct shop *shop)
{
    static char text[262144];

    assert_true(scratch_read(scratch_path(&shop->scratch, "logs/audit.jsonl"), text, sizeof(text)));
    return text;
}

/* The last line of this action; a new reference. */
static json_t *line_of(struct shop *shop, const char *action)
{
    json_t *found = NULL;

    for (const char *at = audit_text(shop), *end; (end = strchr(at, '\n')); at = end + 1) {
        json_t *json = json_loadb(at, (size_t)(end - at), 0, NULL);

        assert_non_null(json);
        if (str_equal(json_string_value(json_object_get(json, "action")), action)) {
            json_decref(found);
            found = json_incref(json);
        }
        json_decref(json);
    }
    assert_non_null(found);
    return found;
}

static void assert_member(const json_t *json, const char *name, const char *wanted)
{
    const char *have = json_string_value(json_object_get(json, name));

    if (!wanted) {
        assert_null(json_object_get(json, name));
        return;
    }
    assert_non_null(have);
    assert_string_equal(have, wanted);
}

static bool is_counted(struct shop *shop, const char *line)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_METRICS_TEXT);

    assert_int_equal(metrics_write(shop->engine->spec.metrics, &text), 0);
    return strstr(buf_text(&text), line) != NULL;
}

struct told {
    unsigned done;
    char trace[TRACE_ID_MAX];
};

static void on_done(void *ctx, struct result *result)
{
    struct told *told = ctx;

    told->done++;
    str_copy(told->trace, sizeof(told->trace), result->trace_id);
}

static void run(struct shop *shop, const char *code, uint64_t timeout_ms, struct told *told)
{
    struct run_spec spec = {.language = "bash",
                            .tenant = "acme",
                            .code = code,
                            .code_length = strlen(code),
                            .timeout_ms = timeout_ms};
    struct error err = {0};
    struct run *started;

    *told = (struct told){0};
    engine_set_caller(shop->engine, &caller);
    assert_int_equal(engine_run(shop->engine, &spec, on_done, told, &started, &err), 0);
    engine_set_caller(shop->engine, NULL); /* as a door does when its handler has returned */
    UNTIL(shop, told->done);
}

static void test_a_run(void **state)
{
    struct shop *shop = *state;
    struct told told;
    uint8_t digest[SHA256_BYTES];
    char hash[SHA256_TEXT];
    json_t *json;

    run(shop, "echo planted-output", 0, &told);
    assert_string_equal(told.trace, TRACE);
    json = line_of(shop, "run.started");
    assert_member(json, "tenant", "acme");
    assert_member(json, "key", "3f9a");
    json_decref(json);
    json = line_of(shop, "run");
    sha256("echo planted-output", 19, digest);
    sha256_text(digest, hash);
    assert_member(json, "code_sha256", hash);
    assert_member(json, "code", NULL); /* on_error, and it went well */
    assert_member(json, "result", "ok");
    assert_member(json, "tenant", "acme");
    assert_member(json, "key", "3f9a");
    assert_member(json, "local", NULL);
    assert_member(json, "request_id", "req-7");
    assert_member(json, "trace_id", TRACE);
    assert_member(json, "language", "bash");
    assert_true(json_is_array(json_object_get(json, "layers")));
    json_decref(json);
    assert_null(strstr(audit_text(shop), "planted-output"));
    assert_true(
        is_counted(shop, "bailey_results_total{kind=\"run\",result=\"ok\",tenant=\"acme\"} 1\n"));
    assert_true(
        is_counted(shop, "bailey_execution_seconds_count{kind=\"run\",tenant=\"acme\"} 1\n"));
    assert_true(is_counted(shop, "bailey_output_bytes_total{tenant=\"acme\"} 15\n"));
    assert_true(is_counted(shop, "bailey_box_creation_seconds_count{origin=\"cold\"} 1\n"));
}

static void test_how_runs_end(void **state)
{
    struct shop *shop = *state;
    struct told told;
    json_t *json;

    run(shop, "exit 3", 0, &told);
    json = line_of(shop, "run");
    assert_member(json, "result", "error");
    assert_member(json, "code", "exit 3"); /* on_error keeps it */
    assert_int_equal(json_integer_value(json_object_get(json, "exit_code")), 3);
    json_decref(json);
    run(shop, "sleep 600", 200, &told);
    json = line_of(shop, "run");
    assert_member(json, "result", "timeout");
    json_decref(json);
    shop->refuses = true;
    run(shop, "true", 0, &told);
    json = line_of(shop, "run");
    assert_member(json, "code_sha256",
                  "b5bea41b6c623f7c09f1bf24dcae58ebab3c0cdd90ad966bc43a45b44867e12b");
    json_decref(json);
    assert_true(is_counted(shop, "{kind=\"run\",result=\"timeout\",tenant=\"acme\"} 1\n"));
}

static void test_code_that_is_never_kept(void **state)
{
    struct shop *shop = *state;
    struct told told;
    json_t *json;

    shop->config.store_code = STORE_NEVER;
    run(shop, "exit 4 # planted-code", 0, &told);
    assert_null(strstr(audit_text(shop), "planted-code"));
    shop->config.store_code = STORE_ALWAYS;
    run(shop, "true # planted-code", 0, &told);
    json = line_of(shop, "run");
    assert_member(json, "code", "true # planted-code");
    json_decref(json);
}

static void test_a_command(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, "a");
    struct execution *execution;
    struct result result;
    json_t *json;

    engine_set_caller(shop->engine, &caller);
    execution = shop_exec(session, "echo one; exit 5", NULL);
    engine_set_caller(shop->engine, NULL);
    UNTIL(shop, execution_has_ended(execution));
    json = line_of(shop, "exec");
    assert_member(json, "session_id", session_id(session));
    assert_member(json, "result", "error");
    assert_member(json, "tenant", "local"); /* the session's own */
    assert_member(json, "key", "3f9a");
    assert_member(json, "request_id", "req-7");
    assert_int_equal(json_array_size(json_object_get(json, "argv")), 3);
    assert_string_equal(json_string_value(json_array_get(json_object_get(json, "argv"), 2)),
                        "echo one; exit 5");
    json_decref(json);
    execution_result(execution, 1000, &result);
    assert_string_equal(result.trace_id, TRACE);
    json = result_to_json(&result);
    assert_member(json_object_get(json, "meta"), "trace_id", TRACE);
    json_decref(json);
    result_free(&result);
    assert_true(is_counted(
        shop, "bailey_results_total{kind=\"exec\",result=\"error\",tenant=\"local\"} 1\n"));
    json = line_of(shop, "exec.started");
    assert_member(json, "request_id", "req-7");
    assert_non_null(json_object_get(json, "code_sha256"));
    json_decref(json);
    json = line_of(shop, "session.created");
    assert_member(json, "session_id", session_id(session));
    json_decref(json);
}

/* Nobody's request: it is told without. */
static void test_without_a_caller(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, "a");
    struct result result;
    json_t *json;
    struct execution *execution = shop_ran(shop, session, "true", NULL);

    json = line_of(shop, "exec");
    assert_member(json, "request_id", NULL);
    assert_member(json, "key", NULL);
    assert_member(json, "result", "ok");
    json_decref(json);
    execution_result(execution, 1000, &result);
    json = result_to_json(&result);
    assert_null(json_object_get(json_object_get(json, "meta"), "trace_id"));
    json_decref(json);
    result_free(&result);
}

static void test_gauges(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, "a");
    struct execution *execution =
        shop_exec(session, "read x", &(struct execution_spec){.stdin_open = true});

    shop_session(shop, "b");
    UNTIL(shop, execution->state == EXECUTION_RUNNING);
    engine_measure(shop->engine);
    assert_true(is_counted(shop, "bailey_sessions{tenant=\"local\"} 2\n"));
    assert_true(is_counted(shop, "bailey_running{tenant=\"local\"} 1\n"));
    assert_true(is_counted(shop, "\nbailey_queue_depth 0\n"));
    assert_true(is_counted(shop, "\nbailey_broker_generation 1\n"));
    execution_signal(execution, SIGKILL, NULL);
    UNTIL(shop, execution_has_ended(execution));
    engine_measure(shop->engine);
    assert_true(is_counted(shop, "bailey_running{tenant=\"local\"} 0\n"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, shop_open_observed, shop_close_observed)
    const struct CMUnitTest tests[] = {
        TEST(test_a_run),     TEST(test_how_runs_end),     TEST(test_code_that_is_never_kept),
        TEST(test_a_command), TEST(test_without_a_caller), TEST(test_gauges),
    };

    return cmocka_run_group_tests(tests, shop_reaper, NULL);
}
