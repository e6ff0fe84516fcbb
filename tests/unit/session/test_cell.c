/* test_cell.c - cells: their order, deadlines and ends, what they say, and kernels that are given.
 */
#include "kernel_fixture.h"

#define WAIT "import time\nprint('up', flush=True)\nwhile True: time.sleep(0.01)"

static void test_one_after_the_other(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cells[4];

    for (int i = 0; i < 4; i++)
        cells[i] = cell_start(session, NULL, "import time; time.sleep(0.2); print(cells)", 20000);
    UNTIL(fixture, execution_has_ended(cells[3]));
    for (int i = 0; i < 4; i++) {
        char text[8] = {(char)('1' + i), '\n', 0};

        check_output(cells[i], 1, text);
        assert_int_equal(cells[i]->cell->count, i + 1);
        assert_true(i == 0 || cells[i]->started_ms >= cells[i - 1]->ended_ms);
    }
}

/* A deadline counts from a cell's own start. */
static void test_deadline(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *one = cell_start(session, NULL, "x = 7\n" WAIT, 300);
    struct execution *two = cell_start(session, NULL, WAIT, 1);
    struct execution *three = cell_start(session, NULL, "print(x)", 60000);

    UNTIL(fixture, execution_has_ended(three));
    assert_true(one->flags & EXECUTION_TIMED_OUT && two->flags & EXECUTION_TIMED_OUT);
    assert_true(two->started_ms >= one->ended_ms);
    check_output(three, 1, "7\n");
    check_member(execution_cell_meta(three), "kernel", "kept");
}

static void test_stubborn(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cell;

    /* In a cell of its own: on a busy machine a timeout may come before the first line. */
    cell_ran(fixture, session, "import signal; signal.signal(2, signal.SIG_IGN)");
    cell = cell_start(session, NULL, WAIT, 100);
    UNTIL(fixture, execution_has_ended(cell));
    assert_true(cell->flags & EXECUTION_TIMED_OUT);
    assert_true(cell->cell->has_lost);
    cell = cell_ran(fixture, session, "pass");
    check_member(execution_cell_meta(cell), "kernel_note",
                 "the kernel was ended because a cell did not stop at its timeout; its variables "
                 "are gone");
}

static void test_abandoned(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cell = cell_start(session, NULL, "x = 7\n" WAIT, 0), *waiting;
    struct looker looker, other;

    look(&looker, cell, false);
    waiting = cell_start(session, NULL, "pass", 0);
    look(&other, waiting, false);
    UNTIL(fixture, execution_written(cell, 1) == 3);
    execution_unwatch(other.watcher, true);
    assert_string_equal(execution_error(waiting)->code, ERROR_CANCELLED);
    execution_unwatch(looker.watcher, true);
    UNTIL(fixture, execution_has_ended(cell));
    assert_false(cell->cell->has_lost);
    check_output(cell_ran(fixture, session, "print(x)"), 1, "7\n");
}

static void test_values(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cell =
        cell_ran(fixture, session,
                 "event('{\"type\":\"display\",\"data\":{\"text/plain\":\"a\"}}')\n"
                 "event('not an event')\n"
                 "event('{\"type\":\"exit\",\"exit_code\":0,\"meta\":{\"oom_killed\":true}}')\n"
                 "event('{\"type\":\"result\",\"data\":{\"text/plain\":\"b\"},\"count\":9}')\n"
                 "1/0");
    json_t *all = execution_cell_json(cell), *results = json_object_get(all, "results");

    assert_int_equal(json_array_size(results), 2);
    check_member(json_incref(json_array_get(results, 0)), "type", "display");
    check_member(json_incref(json_array_get(results, 1)), "type", "result");
    assert_int_equal(json_integer_value(json_object_get(all, "execution_count")), 9);
    check_member(json_incref(json_object_get(all, "error")), "name", "ZeroDivisionError");
    assert_int_equal(cell->end.exit_code, 1);
    json_decref(all);
}

/* More than is kept in memory and in the row: a file, and all of it again. */
static void test_long_events(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cell = cell_ran(
        fixture, session,
        "for i in range(3):\n"
        "    event('{\"type\":\"display\",\"data\":{\"text/plain\":\"' + 'x' * 300000 + '\"}}')");
    json_t *all = execution_cell_json(cell);
    char name[80];

    assert_int_equal(json_array_size(json_object_get(all, "results")), 3);
    json_decref(all);
    snprintf(name, sizeof(name), "logs/%s/1.events", session_id(session));
    assert_true(has_file(fixture, name));
    assert_false(cell->is_in_row[2]);
}

static void test_input_and_environment(void **state)
{
    struct engine_fixture *fixture = *state;
    struct cell_request request = {.code = "print(given, sorted(e for e in env if e))",
                                   .input = "hello",
                                   .input_length = 5,
                                   .env = json_pack("{s:s}", "K", "v")};
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cell;
    struct error err = {0};

    request.code_length = strlen(request.code);
    assert_int_equal(session_find_context(session, NULL, NULL, &request.context, &err), 0);
    assert_int_equal(session_cell(session, &request, &cell, &err), 0);
    UNTIL(fixture, execution_has_ended(cell));
    check_output(cell, 1, "hello ['K=v']\n");
    json_object_set_new(request.env, "A=B", json_string("x"));
    assert_true(session_cell(session, &request, &cell, &err) < 0);
    assert_string_equal(err.code, ERROR_BAD_INPUT);
    json_decref(request.env);
    request.env = NULL;
    request.input_length = LIMIT_CODE_BYTES + 1;
    assert_true(session_cell(session, &request, &cell, &err) < 0);
    assert_string_equal(err.code, ERROR_TOO_LARGE);
}

static void test_out_of_memory(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cell;

    cell_ran(fixture, session, "pass");
    fixture->oom_kills = 1;
    cell = cell_ran(fixture, session, "import os; os.kill(os.getpid(), 9)");
    assert_true(cell->flags & EXECUTION_OOM);
    cell = cell_ran(fixture, session, "pass");
    check_member(execution_cell_meta(cell), "kernel_note",
                 "the kernel was ended because memory ran out; its variables are gone");
}

static void test_blocked_imports(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session;
    struct execution *cell;

    assert_int_equal(config_set(&fixture->config, KEY_BLOCK_IMPORTS, "true", "-", NULL), 0);
    session = fixture_session(fixture, NULL);
    cell = cell_ran(fixture, session, "import subprocess");
    assert_string_equal(execution_error(cell)->code, ERROR_BLOCKED_IMPORT);
    assert_non_null(strstr(execution_error(cell)->text, "subprocess"));
    cell = cell_ran(fixture, session, "print('fine')");
    check_output(cell, 1, "fine\n");
    check_context(session, NULL, "state", "idle");
}

/* ---- kernels that are given ---- */

static struct session *warm_session(struct engine_fixture *fixture)
{
    static struct provider_ops ops;

    ops = fixture_ops;
    ops.kernel = fixture_kernel;
    ops.forget = fixture_forget;
    fixture->provider.ops = &ops;
    fixture->config.is_warm = true;
    return fixture_session(fixture, NULL);
}

static void test_given(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = warm_session(fixture);
    struct execution *cell = cell_ran(fixture, session, "x = 7; print('warm')");

    check_output(cell, 1, "warm\n");
    check_member(execution_cell_meta(cell), "warm", "zygote");
    assert_int_equal(fixture_zygote.asked, 1);
    check_output(cell_ran(fixture, session, "print(x)"), 1, "7\n");
    /* Its status comes after the box has told of its end ... */
    cell = cell_start(session, NULL, "import os; os._exit(5)", 0);
    UNTIL(fixture, cell->state == EXECUTION_CLOSING);
    fixture_reap(fixture, true);
    UNTIL(fixture, execution_has_ended(cell));
    assert_int_equal(cell->end.exit_code, 5);
    cell = cell_ran(fixture, session, "pass");
    check_member(execution_cell_meta(cell), "kernel_note",
                 "the kernel exited with status 5; its variables are gone");
    assert_int_equal(fixture_zygote.asked, 2);
    /* ... or before it. */
    cell = cell_start(session, NULL,
                      "print('last'); import os, sys; sys.stdout.flush(); "
                      "os.kill(os.getpid(), 11)",
                      0);
    fixture_reap(fixture, true);
    UNTIL(fixture, execution_has_ended(cell));
    check_output(cell, 1, "last\n");
    assert_int_equal(cell->end.signal, SIGSEGV);
}

static void test_status_is_never_told(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = warm_session(fixture);
    struct execution *cell = cell_start(session, NULL, "import os; os._exit(0)", 0);

    UNTIL(fixture, cell->state == EXECUTION_CLOSING);
    fixture_reap(fixture, false);
    UNTIL(fixture, execution_has_ended(cell));
    assert_int_equal(cell->end.exit_code, 1); /* nobody says that it was well */
    cell = cell_ran(fixture, session, "pass");
    check_member(execution_cell_meta(cell), "kernel_note",
                 "the kernel has ended; its variables are lost");
}

static void test_not_given(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = warm_session(fixture);
    struct execution *cell;

    fixture_zygote.refuses = true;
    cell = cell_ran(fixture, session, "print('cold')");
    check_output(cell, 1, "cold\n");
    check_member(execution_cell_meta(cell), "warm", "cold");
    check_member(execution_cell_meta(cell), "kernel", "new");
}

/* Of one that had no cell yet the provider alone tells. */
static void test_given_and_dead(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = warm_session(fixture);
    struct execution *cell = cell_ran(fixture, session, "pass");
    struct context *context = session->contexts;

    kernel_came(session, &(struct made){.kernel = 7, .is_pooled = true}); /* it has one */
    assert_int_equal(context->kernel->warm, WARM_ZYGOTE);
    kill(fixture_zygote.kernels[0].pid, SIGKILL);
    fixture_reap(fixture, true);
    check_context(session, NULL, "state", "dead");
    cell = cell_ran(fixture, session, "pass");
    check_member(execution_cell_meta(cell), "kernel", "replaced");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_KERNELS(test_one_after_the_other),
        WITH_KERNELS(test_deadline),
        WITH_KERNELS(test_stubborn),
        WITH_KERNELS(test_abandoned),
        WITH_KERNELS(test_values),
        WITH_KERNELS(test_long_events),
        WITH_KERNELS(test_input_and_environment),
        WITH_KERNELS(test_out_of_memory),
        WITH_KERNELS(test_blocked_imports),
        WITH_KERNELS(test_given),
        WITH_KERNELS(test_status_is_never_told),
        WITH_KERNELS(test_not_given),
        WITH_KERNELS(test_given_and_dead),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
