/* test_run.c - one-shot runs: every ending, and callers who leave. */
#include "engine_fixture.h"

#include <dirent.h>

struct told {
    unsigned done;
    struct result result;
};

static void on_done(void *ctx, struct result *result)
{
    struct told *told = ctx;

    told->done++;
    told->result = *result;
    *result = (struct result){0};
}

static struct run *start(struct engine_fixture *fixture, struct told *told,
                         const struct run_spec *spec)
{
    struct run_spec own = *spec;
    struct error err = {0};
    struct run *run;

    *told = (struct told){0};
    own.language = spec->language ? spec->language : "bash";
    own.code_length = strlen(spec->code);
    own.input_length = spec->input ? strlen(spec->input) : 0;
    if (session_manager_run(fixture->manager, &own, on_done, told, &run, &err) < 0)
        fail_msg("%s", err.text);
    return run;
}

static void ran(struct engine_fixture *fixture, struct told *told, const struct run_spec *spec)
{
    start(fixture, told, spec);
    UNTIL(fixture, told->done);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
    assert_int_equal(told->done, 1);
}

static void check_text(const struct capture *capture, const char *text)
{
    assert_int_equal(capture->kept.length, strlen(text));
    assert_memory_equal(capture->kept.data, text, strlen(text));
}

static unsigned count_artifacts(struct engine_fixture *fixture)
{
    DIR *folder = opendir(scratch_path(&fixture->scratch, "artifacts/executions"));
    struct dirent *entry;
    unsigned count = 0;

    while (folder && (entry = readdir(folder)))
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

static void test_ok(void **state)
{
    struct engine_fixture *fixture = *state;
    json_t *env = json_pack("{s:s}", "A", "1");
    struct told told;

    ran(fixture, &told,
        &(struct run_spec){
            .code = "read x; echo $x $A; echo err >&2", .env = env, .input = "in\n"});
    json_decref(env);
    assert_int_equal(told.result.exit_code, 0);
    assert_null(told.result.error.code);
    check_text(&told.result.out, "in 1\n");
    check_text(&told.result.err, "err\n");
    result_free(&told.result);
    assert_int_equal(count_artifacts(fixture), 0); /* on_error */
    assert_null(fixture_find(fixture, 1));
}

static void test_error(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    ran(fixture, &told, &(struct run_spec){.code = "echo partly; exit 3"});
    assert_int_equal(told.result.exit_code, 3);
    check_text(&told.result.out, "partly\n");
    result_free(&told.result);
    ran(fixture, &told, &(struct run_spec){.code = "kill -15 $$"});
    assert_int_equal(told.result.exit_code, 128 + 15);
    assert_int_equal(told.result.signal, 15);
    result_free(&told.result);
    ran(fixture, &told, &(struct run_spec){.language = "none", .code = "x"});
    assert_string_equal(told.result.error.code, ERROR_COMMAND_NOT_FOUND);
    assert_int_equal(told.result.exit_code, 127);
    result_free(&told.result);
    assert_int_equal(count_artifacts(fixture), 3);
    fixture->config.store_code = STORE_NEVER;
    ran(fixture, &told, &(struct run_spec){.code = "exit 4"});
    result_free(&told.result);
    assert_int_equal(count_artifacts(fixture), 3);
}

static void test_timeout(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    ran(fixture, &told,
        &(struct run_spec){.code = "echo partly; exec sleep 1000", .timeout_ms = 300});
    assert_true(told.result.timed_out);
    assert_int_equal(told.result.exit_code, -1);
    check_text(&told.result.out, "partly\n");
    result_free(&told.result);
}

static void test_facts_of_the_end(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    fixture->oom_kills = 1;
    ran(fixture, &told, &(struct run_spec){.code = "kill -9 $$"});
    assert_true(told.result.oom_killed);
    result_free(&told.result);
}

/* More than any window: code, input and output. */
static void test_large(void **state)
{
    struct engine_fixture *fixture = *state;
    size_t length = 2 * MIB;
    char *code = malloc(length + 64), *input = malloc(length + 1);
    struct told told;

    assert_true(code && input);
    memset(code, '#', length);
    snprintf(code + length, 64, "\nwc -c; head -c 2000000 /dev/zero");
    memset(input, 'i', length);
    input[length] = 0;
    ran(fixture, &told, &(struct run_spec){.code = code, .input = input});
    assert_int_equal(told.result.exit_code, 0);
    assert_memory_equal(told.result.out.kept.data, "2097152\n", 8);
    assert_int_equal(told.result.out.total_bytes, 2000008);
    assert_true(told.result.out.is_truncated);
    result_free(&told.result);
    free(code);
    free(input);
}

static void test_refused(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    fixture->refuses = true;
    ran(fixture, &told, &(struct run_spec){.code = "true"});
    assert_string_equal(told.result.error.code, ERROR_REFUSED);
    assert_int_equal(told.result.missing, 1);
    assert_int_equal(told.result.exit_code, 1);
    result_free(&told.result);
}

static void start_error(struct engine_fixture *fixture, const struct run_spec *spec,
                        const char *code)
{
    struct told told = {0};
    struct error err = {0};
    struct run *run;

    assert_true(session_manager_run(fixture->manager, spec, on_done, &told, &run, &err) < 0);
    assert_string_equal(err.code, code);
    assert_true(session_manager_is_idle(fixture->manager));
}

static void test_refused_at_once(void **state)
{
    struct engine_fixture *fixture = *state;
    unsigned stopped = 0;

    start_error(fixture, &(struct run_spec){.language = "cobol", .code = ""}, ERROR_BAD_INPUT);
    start_error(fixture, &(struct run_spec){.language = "ada", .code = ""}, ERROR_NO_INTERPRETER);
    start_error(
        fixture,
        &(struct run_spec){.language = "bash", .code = "", .code_length = LIMIT_CODE_BYTES + 1},
        ERROR_TOO_LARGE);
    fixture->refuses_now = true;
    start_error(fixture, &(struct run_spec){.language = "bash", .code = ""}, ERROR_ENGINE);
    session_manager_stop(fixture->manager, 0, counted, &stopped);
    start_error(fixture, &(struct run_spec){.language = "bash", .code = ""}, ERROR_SHUTTING_DOWN);
    UNTIL(fixture, stopped);
}

static void test_cancel(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told, other;
    struct run *run;

    /* while its box is being made */
    fixture->holds[ASK_MAKE] = true;
    run = start(fixture, &told, &(struct run_spec){.code = "true"});
    session_manager_run_cancel(run);
    session_manager_run_cancel(run); /* twice, before its turn came */
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
    assert_int_equal(fixture->cancelled, 1);
    fixture_let_go(fixture, ASK_MAKE);
    /* the box comes between the cancel and its turn */
    run = start(fixture, &told, &(struct run_spec){.code = "true"});
    session_manager_run_cancel(run);
    fixture_work(fixture);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
    /* while it runs; another one goes on */
    start(fixture, &other, &(struct run_spec){.code = "sleep 0.5; echo other"});
    run = start(fixture, &told, &(struct run_spec){.code = "touch mark; exec sleep 1000"});
    UNTIL(fixture, fixture->made == 3);
    UNTIL(fixture, has_file(fixture, "box/3/work/mark"));
    session_manager_run_cancel(run);
    UNTIL(fixture, other.done && session_manager_is_idle(fixture->manager));
    check_text(&other.result.out, "other\n");
    result_free(&other.result);
    /* while its box is being taken away */
    fixture->holds[ASK_END] = true;
    run = start(fixture, &told, &(struct run_spec){.code = "true"});
    UNTIL(fixture, fixture_asked(fixture, ASK_END) == 1);
    session_manager_run_cancel(run);
    fixture_let_go(fixture, ASK_END);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
    assert_int_equal(told.done, 0);
}

static void test_box_lost(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    start(fixture, &told,
          &(struct run_spec){.code = "touch mark; for i in 1 2 3 4; do sleep 1; done"});
    UNTIL(fixture, has_file(fixture, "box/1/work/mark"));
    kill(fixture_find(fixture, 1)->pid, SIGKILL);
    session_manager_box_ended(fixture->manager, 1, 0);
    UNTIL(fixture, told.done);
    assert_string_equal(told.result.error.code, ERROR_BOX_LOST);
    assert_int_equal(told.result.exit_code, 1);
    result_free(&told.result);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
}

static void test_blocked_imports(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    if (access("/usr/bin/python3", X_OK) < 0)
        skip();
    fixture->config.block_imports = true;
    ran(fixture, &told, &(struct run_spec){.language = "python", .code = "import os\nprint(1)"});
    assert_string_equal(told.result.error.code, ERROR_BLOCKED_IMPORT);
    assert_string_equal(told.result.blocked_imports[0], "os");
    assert_int_equal(told.result.out.total_bytes, 0);
    result_free(&told.result);
    ran(fixture, &told, &(struct run_spec){.language = "python", .code = "print(1)"});
    assert_int_equal(told.result.exit_code, 0);
    check_text(&told.result.out, "1\n");
    result_free(&told.result);
}

/* A goodbye waits for a run, and then does not any more. */
static void test_stop(void **state)
{
    struct engine_fixture *fixture = *state;
    unsigned stopped = 0;
    struct told told;

    start(fixture, &told, &(struct run_spec){.code = "touch mark; exec sleep 1000"});
    UNTIL(fixture, has_file(fixture, "box/1/work/mark"));
    session_manager_stop(fixture->manager, 100, counted, &stopped);
    UNTIL(fixture, stopped);
    assert_int_equal(told.done, 1);
    assert_string_equal(told.result.error.code, ERROR_SHUTTING_DOWN);
    result_free(&told.result);
}

struct reader {
    struct told told; /* first: it is what on_done() gets */
    struct run *run;
    unsigned calls;
};

static size_t read_once(void *ctx, int stream, const void *data, size_t length)
{
    struct reader *reader = ctx;

    (void)stream;
    (void)data;
    if (reader->calls++ == 0)
        session_manager_run_cancel(reader->run);
    return length;
}

/* More output is on its way when the caller leaves, who is gone then: nobody is called. */
static void test_output_behind_a_cancel(void **state)
{
    struct engine_fixture *fixture = *state;
    struct reader reader = {0};

    reader.run = start(fixture, &reader.told,
                       &(struct run_spec){.code = "exec yes abcdefghij", .sink = read_once});
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
    assert_int_equal(reader.calls, 1);
    assert_int_equal(reader.told.done, 0);
}

/* An engine is freed with runs in every state. */
static void test_freed(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told[3];

    start(fixture, &told[0], &(struct run_spec){.code = "exec sleep 1000"});
    UNTIL(fixture, fixture->made == 1);
    fixture->holds[ASK_MAKE] = true;
    start(fixture, &told[1], &(struct run_spec){.code = "true"});
    session_manager_run_cancel(start(fixture, &told[2], &(struct run_spec){.code = "true"}));
    fixture_crash(fixture);
    fixture->holds[ASK_MAKE] = false;
    fixture_begin(fixture); /* the box of the first is ended by the next broker */
    UNTIL(fixture, !fixture_find(fixture, 1));
    for (int i = 0; i < 3; i++)
        assert_int_equal(told[i].done, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_ENGINE(test_ok),
        WITH_ENGINE(test_error),
        WITH_ENGINE(test_timeout),
        WITH_ENGINE(test_facts_of_the_end),
        WITH_ENGINE(test_large),
        WITH_ENGINE(test_refused),
        WITH_ENGINE(test_refused_at_once),
        WITH_ENGINE(test_cancel),
        WITH_ENGINE(test_output_behind_a_cancel),
        WITH_ENGINE(test_box_lost),
        WITH_ENGINE(test_blocked_imports),
        WITH_ENGINE(test_stop),
        WITH_ENGINE(test_freed),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
