/* test_execution.c - commands: output by offsets, readers that pace, input, signals, the end. */
#include "engine_fixture.h"

static void test_ok(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    json_t *env = json_pack("{s:s, s:s}", "A", "1", "K", "over");
    struct execution *execution = fixture_exec(session, "echo out $A $K; echo err >&2; exit 7",
                                               &(struct execution_spec){.env = env, .cwd = "/tmp"});
    struct result result;
    struct looker looker;
    char data[4];
    json_t *json;

    json_decref(env);
    look(&looker, execution, false);
    assert_false(execution_is_background(execution));
    assert_ptr_equal(execution_session(execution), session);
    assert_int_equal(execution_number(execution), 1);
    UNTIL(fixture, execution_has_ended(execution));
    assert_int_equal(looker.started, 1);
    assert_true(looker.more > 0);
    check_output(execution, 1, "out 1 over\n");
    check_output(execution, 2, "err\n");
    assert_int_equal(execution_read(execution, 1, 4, data, 3), 3);
    assert_memory_equal(data, "1 o", 3);
    assert_int_equal(execution_read(execution, 1, 11, data, 3), 0);
    assert_int_equal(execution_written(execution, 1), 11);
    assert_int_equal(execution_first(execution, 1), 0);
    execution_result(execution, 5, &result);
    assert_int_equal(result.exit_code, 7);
    assert_int_equal(result.out.kept.length, 5);
    assert_true(result.out.is_truncated);
    assert_int_equal(result.out.total_bytes, 11);
    result_free(&result);
    json = execution_json(execution);
    assert_string_equal(json_string_value(json_object_get(json, "state")), "exited");
    assert_int_equal(json_integer_value(json_object_get(json, "exit_code")), 7);
    json_decref(json);
    execution_unwatch(looker.watcher, true);
}

static void find_error(struct session *session, const char *word)
{
    struct execution *execution;
    struct error err = {0};

    assert_true(session_find_execution(session, word, &execution, &err) < 0);
    assert_string_equal(err.code, ERROR_EXECUTION_NOT_FOUND);
}

static void count_one(void *ctx, struct execution *execution)
{
    (void)execution;
    (*(unsigned *)ctx)++;
}

static void test_find(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *one = fixture_ran(fixture, session, "true", NULL), *found;
    struct error err = {0};
    unsigned count = 0;
    char word[80];

    fixture_ran(fixture, session, "true", NULL);
    assert_int_equal(session_find_execution(session, "1", &found, &err), 0);
    assert_ptr_equal(found, one);
    snprintf(word, sizeof(word), "%s.1", session_id(session));
    assert_int_equal(session_find_execution(session, word, &found, &err), 0);
    assert_ptr_equal(found, one);
    find_error(session, "3");
    find_error(session, "");
    find_error(session, "x");
    find_error(session, "s_other.1");
    session_each_execution(session, count_one, &count);
    assert_int_equal(count, 2);
}

static void test_failures(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    char name[1500] = "x";
    const char *argv[] = {name, NULL};
    struct execution *execution;
    struct error err = {0};
    struct result result;
    json_t *json;

    /* A name that the error's text cuts in the middle of a character. */
    for (size_t i = 1; i + 3 < sizeof(name); i += 2)
        memcpy(name + i, i % 101 == 0 ? "//" : "\xc3\xa4", 3);
    assert_int_equal(
        session_exec(session, &(struct execution_spec){.argv = argv}, &execution, &err), 0);
    UNTIL(fixture, execution_has_ended(execution));
    assert_string_equal(execution_error(execution)->code, ERROR_COMMAND_NOT_FOUND);
    json = execution_json(execution);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "state")), "failed");
    json_decref(json);
    execution_result(execution, 100, &result);
    assert_int_equal(result.exit_code, 127);
    result_free(&result);
    execution = fixture_ran(fixture, session, "true", &(struct execution_spec){.cwd = "/tmp/none"});
    assert_string_equal(execution_error(execution)->code, ERROR_BAD_INPUT);
}

static void test_timeout(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution = fixture_ran(fixture, session, "echo so far; exec sleep 1000",
                                              &(struct execution_spec){.timeout_ms = 300});
    struct result result;

    execution_result(execution, 1000, &result);
    assert_true(result.timed_out);
    assert_int_equal(result.exit_code, -1);
    result_free(&result);
    check_output(execution, 1, "so far\n");
}

static void test_oom(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution;
    struct error err = {0};

    fixture_ran(fixture, session, "true", NULL);
    fixture->holds[ASK_USAGE] = true;
    fixture->oom_kills = 1;
    execution = fixture_exec(session, "kill -9 $$", NULL);
    UNTIL(fixture, fixture_asked(fixture, ASK_USAGE) == 1);
    assert_false(execution_has_ended(execution));
    assert_true(execution_signal(execution, SIGTERM, &err) < 0);
    assert_true(execution_stdin(execution, "x", 1, &err) < 0);
    fixture_let_go(fixture, ASK_USAGE);
    UNTIL(fixture, execution_has_ended(execution));
    assert_true(execution->flags & EXECUTION_OOM);
    /* The next one that is killed was not killed for that. */
    execution = fixture_ran(fixture, session, "kill -9 $$", NULL);
    assert_false(execution->flags & EXECUTION_OOM);
    assert_int_equal(execution->end.signal, SIGKILL);
    /* Nor is one that somebody kills, whatever happened to others meanwhile. */
    fixture->oom_kills = 5;
    execution = fixture_exec(session, "exec sleep 1000", NULL);
    UNTIL(fixture, execution->state == EXECUTION_RUNNING);
    assert_int_equal(execution_signal(execution, SIGKILL, &err), 0);
    UNTIL(fixture, execution_has_ended(execution));
    assert_false(execution->flags & EXECUTION_OOM);
}

/* The session ends while the launcher is asked; its answer comes to nobody, much later. */
static void test_end_while_closing(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "gone"), *found;
    struct execution *execution;
    struct error err = {0};
    unsigned done = 0;

    fixture_ran(fixture, session, "true", NULL);
    fixture->holds[ASK_USAGE] = true;
    execution = fixture_exec(session, "kill -9 $$", NULL);
    UNTIL(fixture, fixture_asked(fixture, ASK_USAGE) == 1);
    session_end(session, "deleted", counted, &done);
    UNTIL(fixture, done);
    assert_true(execution_has_ended(execution));
    for (unsigned i = 0; i < LIMIT_ENDED_SESSIONS + 1; i++)
        session_end(fixture_session(fixture, NULL), "deleted", NULL, NULL);
    UNTIL(fixture,
          session_manager_is_idle(fixture->manager) && fixture_asked(fixture, ASK_END) == 0);
    poll_reactor_turn(&fixture->loop, 0);
    assert_int_equal(session_manager_find_any(fixture->manager, "gone", &found, &err), 0);
    fixture_let_go(fixture, ASK_USAGE);
    UNTIL(fixture, fixture_asked(fixture, ASK_USAGE) == 0);
    session_manager_later(fixture->manager);
    UNTIL(fixture, session_manager_find_any(fixture->manager, "gone", &found, &err) < 0);
}

static void test_pacing(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    uint64_t total = 48 * MIB, offset[BOX_STREAMS] = {0};
    struct execution *execution =
        fixture_exec(session, "head -c 50331648 /dev/zero; echo end >&2", NULL);
    struct looker paces, ahead;
    char *data = malloc(MIB);

    assert_non_null(data);
    look(&paces, execution, true);
    look(&ahead, execution, true);
    execution_watch_at(ahead.watcher,
                       (uint64_t[BOX_STREAMS]){UINT64_MAX, UINT64_MAX}); /* holds nobody */
    execution_watch_at(paces.watcher, offset);
    UNTIL(fixture, execution->is_held[0]);
    assert_true(execution_written(execution, 1) < total);
    assert_false(execution_has_ended(execution));
    while (offset[0] < total) {
        ssize_t length = execution_read(execution, 1, offset[0], data, MIB);

        assert_true(length >= 0);
        offset[0] += (uint64_t)length;
        execution_watch_at(paces.watcher, offset);
        poll_reactor_turn(&fixture->loop, length > 0 ? 0 : 50);
    }
    UNTIL(fixture, execution_has_ended(execution));
    assert_true(execution_written(execution, 1) == total);
    check_output(execution, 2, "end\n");
    execution_unwatch(paces.watcher, true);
    execution_unwatch(ahead.watcher, true);
    free(data);
}

/* A reader that was far behind leaves: the guest goes on, and older output is given up. */
static void test_pacing_reader_leaves(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution =
        fixture_exec(session, "head -c 100663296 /dev/zero", /* more than a spool keeps */
                     &(struct execution_spec){.is_background = true});
    struct looker paces;
    char data[8];

    look(&paces, execution, true);
    UNTIL(fixture, execution->is_held[0]);
    execution_unwatch(paces.watcher, true);
    UNTIL(fixture, execution_has_ended(execution));
    assert_int_equal(execution->end.exit_code, 0);
    assert_true(execution_written(execution, 1) == 96 * MIB);
    assert_true(execution_first(execution, 1) > 0);
    assert_int_equal(execution_read(execution, 1, execution_first(execution, 1) - 1, data, 8),
                     -ERANGE);
    assert_int_equal(execution_read(execution, 1, 0, data, 8), 8); /* the beginning is kept */
    assert_true(execution_kept(execution) < 96 * MIB);
}

/* A session that ends does not wait for a reader who holds the guest back. */
static void test_end_while_held(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution = fixture_exec(session, "exec cat /dev/zero", NULL);
    struct looker paces;

    look(&paces, execution, true);
    UNTIL(fixture, execution->is_held[0]);
    session_end(session, "deleted", NULL, NULL);
    UNTIL(fixture, session_state(session) == SESSION_ENDED);
    assert_true(execution_has_ended(execution));
    execution_unwatch(paces.watcher, true);
}

static void test_last_watcher_kills(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *one = fixture_exec(session, "exec sleep 1000", NULL);
    struct execution *two =
        fixture_exec(session, "exec sleep 1000", &(struct execution_spec){.is_background = true});
    struct execution *three = fixture_exec(session, "exec sleep 1000", NULL);
    struct looker first, second, third, fourth;

    look(&first, one, false);
    look(&second, one, false);
    look(&third, two, false);
    look(&fourth, three, false);
    UNTIL(fixture, first.started && third.started && fourth.started);
    execution_unwatch(first.watcher, true);
    assert_false(one->was_killed);
    execution_unwatch(second.watcher, true);
    assert_true(one->was_killed);
    UNTIL(fixture, execution_has_ended(one));
    assert_int_equal(one->end.signal, SIGKILL);
    execution_unwatch(third.watcher, true); /* in the background: nobody's leaving ends it */
    assert_false(two->was_killed);
    execution_set_background(three);
    assert_true(execution_is_background(three));
    execution_unwatch(fourth.watcher, true);
    assert_false(three->was_killed);
}

/* One that waits for its box is ended without ever having begun. */
static void test_kill_before_it_began(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *one, *two;
    struct error err = {0};
    struct looker looker;

    fixture->holds[ASK_MAKE] = true;
    one = fixture_exec(session, "touch one", NULL);
    two = fixture_exec(session, "echo two", &(struct execution_spec){.stdin_open = true});
    look(&looker, one, false);
    assert_int_equal(execution_stdin(two, "x", 1, &err), 0);
    assert_int_equal(execution_resize(two, 1, 1, &err), -ENOTTY);
    execution_unwatch(looker.watcher, true);
    assert_true(execution_has_ended(one));
    assert_string_equal(execution_error(one)->code, ERROR_CANCELLED);
    fixture_let_go(fixture, ASK_MAKE);
    UNTIL(fixture, execution_has_ended(two));
    check_output(two, 1, "two\n");
    assert_int_equal(one->state, EXECUTION_FAILED);
    assert_int_equal(access(fixture_path(fixture, session_id(session), "work/one"), F_OK), -1);
    assert_int_equal(session->running, 0);
}

/* Whoever is told may make others leave, and leave. */
static struct looker pair[2];

static void leave_both(void *ctx)
{
    struct looker *looker = ctx;

    looker->more++;
    for (int i = 0; i < 2; i++) {
        if (pair[i].watcher)
            execution_unwatch(pair[i].watcher, false);
        pair[i].watcher = NULL;
    }
}

static void test_watchers_leave_while_told(void **state)
{
    static const struct execution_watch_events events = {.more = leave_both};
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution = fixture_exec(session, "echo x", NULL);

    for (int i = 0; i < 2; i++) {
        pair[i] = (struct looker){0};
        pair[i].watcher = execution_watch(execution, false, &events, &pair[i]);
    }
    UNTIL(fixture, execution_has_ended(execution));
    assert_int_equal(pair[0].more + pair[1].more, 1);
    assert_int_equal(execution->users, 0);
    assert_null(execution->watchers);
}

static void test_stdin_of_the_request(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    size_t length = 3 * MIB; /* more than a window */
    char *input = malloc(length);
    struct execution *execution;
    struct error err = {0};
    char name[64];

    assert_non_null(input);
    memset(input, 'i', length);
    execution = fixture_exec(session, "sleep 0.1; wc -c",
                             &(struct execution_spec){.input = input, .input_length = length});
    free(input);
    snprintf(name, sizeof(name), "logs/%s/1.in", session_id(session));
    assert_true(has_file(fixture, name));
    assert_true(execution_stdin(execution, "x", 1, &err) < 0);
    UNTIL(fixture, execution_has_ended(execution));
    check_output(execution, 1, "3145728\n");
    assert_false(has_file(fixture, name));
    /* One that does not read its input ends all the same. */
    execution = fixture_ran(fixture, session, "exec true",
                            &(struct execution_spec){.input = "abc", .input_length = 3});
    assert_int_equal(execution->end.exit_code, 0);
    execution = fixture_ran(fixture, session, "cat",
                            &(struct execution_spec){.input = "", .input_length = 0});
    check_output(execution, 1, "");
}

struct writer {
    struct execution *execution;
    size_t left;
    unsigned called, failed;
    void *drops; /* another writer, that is not to be called any more */
};

static void write_on(void *ctx)
{
    struct writer *writer = ctx;
    static char data[MIB];
    struct error err = {0};

    writer->called++;
    if (writer->drops)
        execution_stdin_wait(writer->execution, NULL, writer->drops);
    while (writer->left > 0) {
        size_t part = writer->left < sizeof(data) ? writer->left : sizeof(data);
        long taken = execution_stdin(writer->execution, data, part, &err);

        if (taken < 0) {
            writer->failed++;
            return;
        }
        writer->left -= (size_t)taken;
        if ((size_t)taken < part) {
            execution_stdin_wait(writer->execution, write_on, writer);
            return;
        }
    }
}

static void test_stdin_by_hand(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution =
        fixture_exec(session, "wc -c", &(struct execution_spec){.stdin_open = true});
    struct writer one = {.execution = execution, .left = 2 * MIB}, two = one;
    struct error err = {0};

    UNTIL(fixture, execution->state == EXECUTION_RUNNING);
    write_on(&one);
    write_on(&two);
    UNTIL(fixture, one.left == 0 && two.left == 0);
    assert_int_equal(execution_stdin_end(execution, &err), 0);
    UNTIL(fixture, execution_has_ended(execution));
    check_output(execution, 1, "4194304\n");
    assert_true(execution_stdin(execution, "x", 1, &err) < 0);
    assert_string_equal(err.code, ERROR_EXECUTION_ENDED);
    assert_true(execution_stdin_end(execution, &err) < 0);
    execution = fixture_exec(session, "exec sleep 1000", NULL);
    UNTIL(fixture, execution->state == EXECUTION_RUNNING);
    assert_int_equal(execution_stdin(execution, "x", 1, &err), -EINVAL);
}

/* Writers that wait are told of the end; one of them may take another back. */
static void test_stdin_waiters_and_the_end(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution =
        fixture_exec(session, "exec sleep 1000", &(struct execution_spec){.stdin_open = true});
    struct writer one = {.execution = execution, .left = 2 * MIB}, two = one, three = one;
    struct error err = {0};

    UNTIL(fixture, execution->state == EXECUTION_RUNNING);
    write_on(&one);
    write_on(&two);
    write_on(&three);
    one.drops = &two;
    assert_int_equal(execution_signal(execution, SIGKILL, &err), 0);
    UNTIL(fixture, execution_has_ended(execution));
    /* Once nobody reads, the warden takes and drops what comes: a writer may get rid of it all. */
    assert_true(one.failed == 1 || one.left == 0);
    assert_int_equal(two.failed, 0);
    assert_true(three.failed == 1 || three.left == 0);
    assert_null(execution->input_waiters);
    assert_null(execution->input_called);
}

static void test_pty(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution =
        fixture_exec(session, "read x; stty size",
                     &(struct execution_spec){.is_pty = true, .rows = 10, .columns = 20});
    struct error err = {0};

    UNTIL(fixture, execution->state == EXECUTION_RUNNING);
    assert_int_equal(execution_resize(execution, 0, 5, &err), -EINVAL);
    assert_int_equal(execution_resize(execution, LIMIT_TERMINAL + 1, 5, &err), -EINVAL);
    assert_int_equal(execution_resize(execution, 30, 40, &err), 0);
    assert_int_equal(execution_stdin(execution, "\n", 1, &err), 1);
    UNTIL(fixture, execution_has_ended(execution));
    check_output(execution, 1, "\r\n30 40\r\n");
    assert_int_equal(execution_resize(execution, 30, 40, &err), -ESRCH);
}

static void test_too_many(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    const char *argv[] = {"true", NULL};
    struct execution *execution;
    struct error err = {0};

    fixture->holds[ASK_MAKE] = true;
    for (int i = 0; i < LIMIT_COMMANDS; i++)
        fixture_exec(session, "true", NULL);
    assert_int_equal(
        session_exec(session, &(struct execution_spec){.argv = argv}, &execution, &err), -EAGAIN);
}

/* The oldest that nobody reads are forgotten, with what they have on disk. */
static void test_forgotten(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *first = fixture_ran(fixture, session, "head -c 70000 /dev/zero", NULL),
                     *found;
    struct looker looker;
    struct error err = {0};
    char name[64];

    look(&looker, first, false);
    fixture_ran(fixture, session, "head -c 70000 /dev/zero", NULL);
    fixture->refuses_now = true; /* from now on they fail at once */
    session->state = SESSION_NEW;
    for (unsigned i = 0; i < LIMIT_EXECUTIONS; i++)
        assert_true(execution_has_ended(fixture_exec(session, "true", NULL)));
    session->state = SESSION_READY;
    assert_int_equal(session_find_execution(session, "1", &found, &err), 0);
    assert_true(session_find_execution(session, "2", &found, &err) < 0);
    assert_int_equal(session->execution_count, LIMIT_EXECUTIONS);
    snprintf(name, sizeof(name), "logs/%s/2.out", session_id(session));
    assert_false(has_file(fixture, name));
    snprintf(name, sizeof(name), "logs/%s/1.out", session_id(session));
    assert_true(has_file(fixture, name));
    execution_unwatch(looker.watcher, true);
    session_end(session, "deleted", NULL, NULL);
    UNTIL(fixture, session_state(session) == SESSION_ENDED);
    assert_int_equal(session->execution_count, LIMIT_EXECUTIONS_AFTER);
}

static void check_last_word(const struct execution *execution, const char *word)
{
    json_t *json = execution_json(execution), *argv = json_object_get(json, "argv");

    assert_string_equal(json_string_value(json_array_get(argv, json_array_size(argv) - 1)), word);
    json_decref(json);
}

/* A long command line is not held in memory for as long as it is remembered, and still listed. */
static void test_long_words_are_in_the_row(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution, *short_one = fixture_ran(fixture, session, "true", NULL);
    char word[LIMIT_EXECUTION_WORDS + 1] = "";
    const char *argv[] = {"true", word, NULL};
    struct looker looker;
    struct error err = {0};

    memset(word, 'w', sizeof(word) - 1);
    assert_int_equal(
        session_exec(session, &(struct execution_spec){.argv = argv}, &execution, &err), 0);
    look(&looker, execution, false);
    UNTIL(fixture, execution_has_ended(execution));
    assert_non_null(execution->argv); /* somebody uses it */
    execution_unwatch(looker.watcher, true);
    assert_null(execution->argv);
    check_last_word(execution, word);
    execution_save(execution); /* nothing is lost by that */
    check_last_word(execution, word);
    assert_non_null(short_one->argv);
    check_last_word(short_one, "true");
}

/* Output over a session's share of the disk: the oldest goes. */
static void test_output_dropped(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *one = fixture_ran(fixture, session, "head -c 70000 /dev/zero", NULL), *two;
    char data[8];

    session->spooled += LIMIT_SESSION_SPOOLS; /* as if there were more */
    two = fixture_ran(fixture, session, "echo two", NULL);
    assert_int_equal(execution_read(one, 1, 0, data, 8), -ERANGE);
    assert_int_equal(execution_first(one, 1), 70000);
    assert_int_equal(execution_read(one, 1, 70000, data, 8), 0);
    assert_int_equal(execution_written(two, 1), 4);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_ENGINE(test_ok),
        WITH_ENGINE(test_find),
        WITH_ENGINE(test_failures),
        WITH_ENGINE(test_timeout),
        WITH_ENGINE(test_oom),
        WITH_ENGINE(test_end_while_closing),
        WITH_ENGINE(test_pacing),
        WITH_ENGINE(test_pacing_reader_leaves),
        WITH_ENGINE(test_end_while_held),
        WITH_ENGINE(test_last_watcher_kills),
        WITH_ENGINE(test_kill_before_it_began),
        WITH_ENGINE(test_watchers_leave_while_told),
        WITH_ENGINE(test_stdin_of_the_request),
        WITH_ENGINE(test_stdin_by_hand),
        WITH_ENGINE(test_stdin_waiters_and_the_end),
        WITH_ENGINE(test_pty),
        WITH_ENGINE(test_too_many),
        WITH_ENGINE(test_forgotten),
        WITH_ENGINE(test_long_words_are_in_the_row),
        WITH_ENGINE(test_output_dropped),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
