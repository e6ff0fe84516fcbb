/*
 * test_account.c - ends of programs in the metrics and the audit: who asked, what, how it ended,
 * and never what was not to be kept.
 */
#include "engine_fixture.h"

#include <jansson.h>

#include "base/cleanup.h"
#include "observe/audit.h"
#include "observe/metrics.h"
#include "session/run_private.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"

static const struct caller caller = {
    .who = {.tenant = "acme", .key = "3f9a", .scopes = SCOPE_ALL},
    .request = "req-7",
    .trace = {.id = TRACE, .parent = "00f067aa0ba902b7", .is_sampled = true},
};

static const char *audit_text(struct engine_fixture *fixture)
{
    static char text[262144];

    assert_true(
        scratch_read(scratch_path(&fixture->scratch, "logs/audit.jsonl"), text, sizeof(text)));
    return text;
}

/* The last line of this action; a new reference. */
static json_t *line_of(struct engine_fixture *fixture, const char *action)
{
    json_t *found = NULL;

    for (const char *at = audit_text(fixture), *end; (end = strchr(at, '\n')); at = end + 1) {
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

static bool is_counted(struct engine_fixture *fixture, const char *line)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_METRICS_TEXT);

    assert_int_equal(metrics_write(fixture->manager->spec.metrics, NULL, &text), 0);
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

static void run(struct engine_fixture *fixture, const char *code, uint64_t timeout_ms,
                struct told *told)
{
    struct run_spec spec = {.caller = &caller,
                            .language = "bash",
                            .tenant = "acme",
                            .code = code,
                            .code_length = strlen(code),
                            .timeout_ms = timeout_ms};
    struct error err = {0};
    struct run *started;

    *told = (struct told){0};
    assert_int_equal(session_manager_run(fixture->manager, &spec, on_done, told, &started, &err),
                     0);
    UNTIL(fixture, told->done);
}

static void test_a_run(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;
    uint8_t digest[SHA256_BYTES];
    char hash[SHA256_TEXT];
    json_t *json;

    run(fixture, "echo planted-output", 0, &told);
    assert_string_equal(told.trace, TRACE);
    json = line_of(fixture, "run.started");
    assert_member(json, "tenant", "acme");
    assert_member(json, "key", "3f9a");
    json_decref(json);
    json = line_of(fixture, "run");
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
    assert_null(strstr(audit_text(fixture), "planted-output"));
    assert_true(is_counted(fixture,
                           "bailey_results_total{kind=\"run\",result=\"ok\",tenant=\"acme\"} 1\n"));
    assert_true(
        is_counted(fixture, "bailey_execution_seconds_count{kind=\"run\",tenant=\"acme\"} 1\n"));
    assert_true(is_counted(fixture, "bailey_output_bytes_total{tenant=\"acme\"} 15\n"));
    assert_true(is_counted(fixture, "bailey_box_creation_seconds_count{origin=\"cold\"} 1\n"));
}

static void test_how_runs_end(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;
    json_t *json;

    run(fixture, "exit 3", 0, &told);
    json = line_of(fixture, "run");
    assert_member(json, "result", "error");
    assert_member(json, "code", "exit 3"); /* on_error keeps it */
    assert_int_equal(json_integer_value(json_object_get(json, "exit_code")), 3);
    json_decref(json);
    run(fixture, "sleep 600", 200, &told);
    json = line_of(fixture, "run");
    assert_member(json, "result", "timeout");
    json_decref(json);
    fixture->refuses = true;
    run(fixture, "true", 0, &told);
    json = line_of(fixture, "run");
    assert_member(json, "code_sha256",
                  "b5bea41b6c623f7c09f1bf24dcae58ebab3c0cdd90ad966bc43a45b44867e12b");
    json_decref(json);
    assert_true(is_counted(fixture, "{kind=\"run\",result=\"timeout\",tenant=\"acme\"} 1\n"));
}

static void test_code_that_is_never_kept(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;
    json_t *json;

    fixture->config.store_code = STORE_NEVER;
    run(fixture, "exit 4 # planted-code", 0, &told);
    assert_null(strstr(audit_text(fixture), "planted-code"));
    fixture->config.store_code = STORE_ALWAYS;
    run(fixture, "true # planted-code", 0, &told);
    json = line_of(fixture, "run");
    assert_member(json, "code", "true # planted-code");
    json_decref(json);
}

/* Who asked for it, also when it ends long behind the request; nobody where nobody did. */
static void test_a_session(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session_spec spec = {.caller = &caller, .tenant = "acme", .name = "theirs"};
    struct session *session;
    struct error err = {0};
    json_t *json;

    assert_int_equal(session_manager_create(fixture->manager, &spec, &session, &err), 0);
    json = line_of(fixture, "session.created");
    assert_member(json, "request_id", "req-7");
    json_decref(json);
    session_end_by(session, &caller, "deleted", NULL, NULL);
    UNTIL(fixture, session_manager_session_count(fixture->manager) == 0 &&
                       strstr(audit_text(fixture), "session.ended"));
    json = line_of(fixture, "session.ended");
    assert_member(json, "request_id", "req-7");
    assert_member(json, "trace_id", TRACE);
    json_decref(json);
    session = fixture_session(fixture, "ours");
    session_end(session, "idle", NULL, NULL);
    UNTIL(fixture, strstr(audit_text(fixture), "\"idle\""));
    json = line_of(fixture, "session.ended");
    assert_member(json, "request_id", NULL);
    json_decref(json);
}

static void test_a_command(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "a");
    struct execution *execution;
    struct result result;
    json_t *json;

    execution =
        fixture_exec(session, "echo one; exit 5", &(struct execution_spec){.caller = &caller});
    UNTIL(fixture, execution_has_ended(execution));
    json = line_of(fixture, "exec");
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
        fixture, "bailey_results_total{kind=\"exec\",result=\"error\",tenant=\"local\"} 1\n"));
    json = line_of(fixture, "exec.started");
    assert_member(json, "request_id", "req-7");
    assert_non_null(json_object_get(json, "code_sha256"));
    json_decref(json);
    json = line_of(fixture, "session.created");
    assert_member(json, "session_id", session_id(session));
    json_decref(json);
}

/* Nobody's request: it is told without. */
static void test_without_a_caller(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "a");
    struct result result;
    json_t *json;
    struct execution *execution = fixture_ran(fixture, session, "true", NULL);

    json = line_of(fixture, "exec");
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
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "a");
    struct execution *execution =
        fixture_exec(session, "read x", &(struct execution_spec){.stdin_open = true});

    fixture_session(fixture, "b");
    UNTIL(fixture, execution->state == EXECUTION_RUNNING);
    session_manager_measure(fixture->manager);
    assert_true(is_counted(fixture, "bailey_sessions{tenant=\"local\"} 2\n"));
    assert_true(is_counted(fixture, "bailey_running{tenant=\"local\"} 1\n"));
    assert_true(is_counted(fixture, "\nbailey_queue_depth 0\n"));
    assert_true(is_counted(fixture, "\nbailey_broker_generation 1\n"));
    execution_signal(execution, SIGKILL, NULL);
    UNTIL(fixture, execution_has_ended(execution));
    session_manager_measure(fixture->manager);
    assert_true(is_counted(fixture, "bailey_running{tenant=\"local\"} 0\n"));
}

int main(void)
{
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, fixture_open_observed, fixture_close_observed)
    const struct CMUnitTest tests[] = {
        TEST(test_a_run),     TEST(test_how_runs_end), TEST(test_code_that_is_never_kept),
        TEST(test_a_session), TEST(test_a_command),    TEST(test_without_a_caller),
        TEST(test_gauges),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
