/*
 * test_await.c - waiting for an execution: its result and outputs at the end, what is known when
 * the time is up first, and a caller that leaves; and a command that is found again.
 */
#include "engine_fixture.h"

#include "base/cleanup.h"
#include "session/await.h"

/* The box's /tmp is a folder beside its /workspace here. What done() was given: */
struct heard {
    struct execution_await await;
    unsigned count;
    bool has_ended, takes;
    struct result result; /* when it was taken over */
    size_t changed;
    int exit_code;
    char output[64];
    uint64_t total;
};

static void on_done(void *ctx, struct execution_outcome *outcome)
{
    struct heard *heard = ctx;

    heard->count++;
    heard->has_ended = outcome->has_ended;
    heard->changed = outcome->changed_count;
    heard->exit_code = outcome->result.exit_code;
    heard->total = outcome->result.total_output_files;
    str_format(heard->output, sizeof(heard->output), "%.*s", (int)outcome->result.out.kept.length,
               buf_text(&outcome->result.out.kept));
    if (heard->takes) {
        heard->result = outcome->result;
        outcome->is_taken = true;
    }
}

static void await(struct heard *heard, struct execution *execution, bool collects,
                  uint64_t timeout_ms)
{
    const struct execution_await_spec spec = {
        .collects = collects, .timeout_ms = timeout_ms, .done = on_done, .ctx = heard};
    struct error err = {0};

    assert_int_equal(execution_await(&heard->await, execution, &spec, &err), 0);
}

static void the_end_comes_with_the_outputs(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct heard heard = {.takes = true};

    await(&heard,
          fixture_exec(session,
                       "mkdir -p ../tmp/output; echo x > ../tmp/output/a.csv; echo hi; exit 3",
                       NULL),
          true, UINT64_MAX);
    assert_int_equal(heard.count, 0);
    UNTIL(fixture, heard.count > 0);
    assert_true(heard.has_ended);
    assert_int_equal(heard.exit_code, 3);
    assert_string_equal(heard.output, "hi\n");
    assert_int_equal(heard.changed, 1);
    assert_int_equal(heard.total, 1);
    assert_string_equal(heard.result.files[0].name, "a.csv");
    assert_string_equal(heard.result.session_id, session_id(session));
    result_free(&heard.result);
    execution_await_end(&heard.await);
    execution_await_end(&heard.await);
    assert_int_equal(heard.count, 1);
}

static void nothing_is_fetched_unasked(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct heard heard = {0};

    await(&heard,
          fixture_exec(session, "mkdir -p ../tmp/output; echo x > ../tmp/output/a.csv", NULL),
          false, UINT64_MAX);
    UNTIL(fixture, heard.count > 0);
    assert_int_equal(heard.changed, 0);
    assert_int_equal(heard.total, 0);
    execution_await_end(&heard.await);
}

/* One that has ended answers from inside of the call. */
static void an_end_of_before_is_told_at_once(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution = fixture_ran(fixture, session, "echo before", NULL);
    struct heard heard = {0};

    await(&heard, execution, true, 0);
    assert_int_equal(heard.count, 1);
    assert_true(heard.has_ended);
    assert_string_equal(heard.output, "before\n");
    execution_await_end(&heard.await);
}

static void the_time_may_be_up_first(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution =
        fixture_exec(session, "echo so far; while [ ! -e go ]; do sleep 0.02; done; echo done",
                     &(struct execution_spec){.is_background = true});
    struct heard heard = {0};

    UNTIL(fixture, execution_written(execution, 1) > 0);
    await(&heard, execution, true, 1);
    UNTIL(fixture, heard.count > 0);
    assert_false(heard.has_ended);
    assert_string_equal(heard.output, "so far\n");
    execution_await_end(&heard.await);
    assert_false(execution_has_ended(execution));
    fixture_ran(fixture, session, "touch go", NULL);
    await(&heard, execution, true, UINT64_MAX);
    UNTIL(fixture, heard.count > 1);
    assert_true(heard.has_ended);
    assert_string_equal(heard.output, "so far\ndone\n");
    execution_await_end(&heard.await);
}

static void who_leaves_ends_it(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution = fixture_exec(session, "sleep 1000", NULL);
    struct heard heard = {0};
    struct looker looker;

    await(&heard, execution, true, 1000000);
    execution_await_end(&heard.await);
    look(&looker, execution, false);
    UNTIL(fixture, execution_has_ended(execution));
    assert_int_equal(heard.count, 0);
    execution_unwatch(looker.watcher, false);
}

static void a_command_is_found_again(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *first = fixture_ran(fixture, session, "true", NULL);
    struct execution *second = fixture_ran(fixture, session, "true", NULL);
    struct execution *other = fixture_ran(fixture, session, "echo other", NULL);
    CLEANUP(json_decrefp) json_t *json = execution_json(first);
    json_t *words = json_object_get(json, "argv");

    assert_ptr_equal(session_find_command(session, words, 0, 0), first);
    assert_ptr_equal(session_find_command(session, words, 0, execution_number(first)), second);
    assert_null(session_find_command(session, words, 0, execution_number(second)));
    assert_null(session_find_command(session, words, UINT64_MAX, 0));
    assert_int_equal(execution_number(other), 3);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_ENGINE(the_end_comes_with_the_outputs),
        WITH_ENGINE(nothing_is_fetched_unasked),
        WITH_ENGINE(an_end_of_before_is_told_at_once),
        WITH_ENGINE(the_time_may_be_up_first),
        WITH_ENGINE(who_leaves_ends_it),
        WITH_ENGINE(a_command_is_found_again),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
