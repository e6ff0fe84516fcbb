/* test_session.c - sessions made, found, expired, ended at bad moments; the daemon's goodbye. */
#include "engine_fixture.h"

static int find_error(struct engine_fixture *fixture, const char *word, const char *code)
{
    struct session *session;
    struct error err = {0};
    int r = session_manager_find(fixture->manager, word, &session, &err);

    if (r < 0)
        assert_string_equal(err.code, code);
    return r;
}

static void test_create_and_find(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *one = fixture_session(fixture, "one"), *found;
    struct error err = {0};
    char prefix[16];

    assert_int_equal(session_state(one), SESSION_NEW);
    assert_ptr_equal(session_manager_of(one), fixture->manager);
    assert_int_equal(session_manager_session_count(fixture->manager), 1);
    assert_false(session_manager_is_idle(fixture->manager));
    assert_int_equal(session_manager_find(fixture->manager, session_id(one), &found, &err), 0);
    assert_ptr_equal(found, one);
    assert_int_equal(session_manager_find(fixture->manager, "one", &found, &err), 0);
    snprintf(prefix, sizeof(prefix), "%.6s", session_id(one));
    assert_int_equal(session_manager_find(fixture->manager, prefix, &found, &err), 0);
    assert_int_equal(session_manager_find(fixture->manager, prefix + 2, &found, &err), 0);
    snprintf(prefix, sizeof(prefix), "%.5s", session_id(one)); /* too short to mean anybody */
    assert_true(find_error(fixture, prefix, ERROR_SESSION_NOT_FOUND) < 0);
    assert_true(find_error(fixture, "nobody", ERROR_SESSION_NOT_FOUND) < 0);
}

static void test_ambiguous(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *one = fixture_session(fixture, NULL), *two = fixture_session(fixture, NULL),
                   *found;
    struct error err = {0};

    memcpy(two->id, one->id, 8); /* as chance might have it */
    two->id[8] = one->id[8] == 'a' ? 'b' : 'a';
    assert_true(find_error(fixture, (char[]){one->id[2], one->id[3], one->id[4], one->id[5], 0},
                           ERROR_SESSION_AMBIGUOUS) < 0);
    /* One that has ended is nobody's rival. */
    session_end(two, "deleted", NULL, NULL);
    UNTIL(fixture, session_state(two) == SESSION_ENDED);
    assert_int_equal(session_manager_find(
                         fixture->manager,
                         (char[]){one->id[2], one->id[3], one->id[4], one->id[5], 0}, &found, &err),
                     0);
    assert_ptr_equal(found, one);
}

static int create_error(struct engine_fixture *fixture, const struct session_spec *spec,
                        const char *code)
{
    struct session *session;
    struct error err = {0};
    int r = session_manager_create(fixture->manager, spec, &session, &err);

    assert_true(r < 0);
    assert_string_equal(err.code, code);
    return r;
}

static void test_refused(void **state)
{
    struct engine_fixture *fixture = *state;
    json_t *env = json_pack("{s:s}", "A=B", "1");
    json_t *number = json_pack("{s:i}", "A", 1);
    json_t *large = json_object();
    char text[LIMIT_ARGV_BYTES / 2 + 1];
    char name[LIMIT_NAME + 2];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    json_object_set_new(large, "X", json_string(text));
    fixture_session(fixture, "taken");
    create_error(fixture, &(struct session_spec){.name = "taken"}, ERROR_NAME_TAKEN);
    create_error(fixture, &(struct session_spec){.name = "s_x"}, ERROR_BAD_INPUT);
    create_error(fixture, &(struct session_spec){.name = ""}, ERROR_BAD_INPUT);
    create_error(fixture, &(struct session_spec){.name = "a b"}, ERROR_BAD_INPUT);
    create_error(fixture, &(struct session_spec){.name = name}, ERROR_BAD_INPUT);
    create_error(fixture, &(struct session_spec){.env = env}, ERROR_BAD_INPUT);
    create_error(fixture, &(struct session_spec){.env = number}, ERROR_BAD_INPUT);
    create_error(fixture, &(struct session_spec){.env = large}, ERROR_TOO_LARGE);
    json_decref(env);
    json_decref(number);
    json_decref(large);
    fixture->config.max_sessions = 1;
    assert_int_equal(create_error(fixture, &(struct session_spec){0}, ERROR_TOO_MANY_SESSIONS),
                     -EAGAIN);
    assert_in_range(session_manager_retry_s(fixture->manager), 1,
                    fixture->config.session_idle_ms / 1000 + 1);
}

static void test_each_is_later_than_the_one_before(void **state)
{
    struct engine_fixture *fixture = *state;
    uint64_t before = 0;

    for (int i = 0; i < 20; i++) { /* several in one millisecond */
        const struct session *session = fixture_session(fixture, NULL);

        assert_true(session->created_ms > before);
        before = session->created_ms;
    }
}

static void test_name_is_free_again(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *one = fixture_session(fixture, "name"), *found;
    struct error err = {0};
    unsigned done = 0;

    session_end(one, "deleted", counted, &done);
    assert_int_equal(session_state(one), SESSION_ENDING);
    session_end(one, "deleted", counted, &done); /* twice is once, and both are told */
    UNTIL(fixture, done == 2);
    session_end(one, "deleted", counted, &done);
    assert_int_equal(done, 3);
    assert_true(find_error(fixture, "name", ERROR_SESSION_ENDED) < 0);
    assert_int_equal(session_manager_find_any(fixture->manager, "name", &found, &err), 0);
    assert_ptr_equal(found, one);
    assert_true(session_manager_is_idle(fixture->manager));
    one = fixture_session(fixture, "name");
    assert_int_equal(session_manager_find(fixture->manager, "name", &found, &err), 0);
    assert_ptr_equal(found, one);
}

static void test_expiry(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *idle, *old, *busy;
    struct error err = {0};

    assert_int_equal(session_manager_create(fixture->manager, &(struct session_spec){.idle_ms = 20},
                                            &idle, &err),
                     0);
    assert_int_equal(
        session_manager_create(fixture->manager, &(struct session_spec){.age_ms = 20}, &old, &err),
        0);
    UNTIL(fixture, session_state(idle) == SESSION_ENDED && session_state(old) == SESSION_ENDED);
    assert_string_equal(idle->reason, "idle");
    assert_string_equal(old->reason, "age");
    /* Who works is not idle; when it has ended, it is. */
    assert_int_equal(session_manager_create(fixture->manager, &(struct session_spec){.idle_ms = 50},
                                            &busy, &err),
                     0);
    fixture_ran(fixture, busy, "sleep 0.3; echo done", NULL);
    assert_int_equal(session_state(busy), SESSION_READY);
    UNTIL(fixture, session_state(busy) == SESSION_ENDED);
    assert_string_equal(busy->reason, "idle");
}

static void test_extend(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session;
    struct error err = {0};
    uint64_t before;

    assert_int_equal(
        session_manager_create(fixture->manager,
                               &(struct session_spec){.idle_ms = UINT64_MAX, .age_ms = UINT64_MAX},
                               &session, &err),
        0);
    poll_reactor_turn(&fixture->loop, 0);
    assert_int_equal(session_state(session), SESSION_NEW); /* far away, not long ago */
    before = session->expires_ms;
    session_extend(session, UINT64_MAX);
    assert_true(session->expires_ms >= before);
    session_extend(session, UINT64_MAX);
    assert_true(session->expires_ms >= before);
    json_decref(session_json(session));
    poll_reactor_turn(&fixture->loop, 0);
    assert_int_equal(session_state(session), SESSION_NEW);
}

struct asker {
    unsigned called;
    struct box *box;
    const char *code;
    struct session *cancels;
    void *other;
};

static void on_box(void *ctx, struct box *box, const struct error *err)
{
    struct asker *asker = ctx;

    asker->called++;
    asker->box = box;
    asker->code = err ? err->code : NULL;
    if (asker->cancels)
        session_box_cancel(asker->cancels, asker->other);
}

static void test_box(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct asker one = {0}, two = {0}, three = {0};

    fixture->holds[ASK_MAKE] = true;
    session_box(session, on_box, &one);
    session_box(session, on_box, &two);
    session_box(session, on_box, &three);
    session_box_cancel(session, &two);
    assert_int_equal(session_state(session), SESSION_STARTING);
    assert_int_equal(fixture_asked(fixture, ASK_MAKE), 1);
    fixture_let_go(fixture, ASK_MAKE);
    UNTIL(fixture, three.called);
    assert_int_equal(one.called, 1);
    assert_int_equal(two.called, 0);
    assert_non_null(one.box);
    session_box(session, on_box, &two);
    assert_ptr_equal(two.box, one.box);
    assert_true(session->has_box);
}

/* A waiter that is called may take back another one that was to be called after it. */
static void test_waiter_takes_back_another(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct asker one = {.cancels = session}, two = {0};

    one.other = &two;
    session_box(session, on_box, &one);
    session_box(session, on_box, &two);
    UNTIL(fixture, one.called);
    assert_int_equal(two.called, 0);
}

static void test_box_refused(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct asker asker = {0};
    struct execution *execution;

    fixture->refuses = true;
    session_box(session, on_box, &asker);
    execution = fixture_exec(session, "true", NULL);
    UNTIL(fixture, asker.called);
    assert_null(asker.box);
    assert_string_equal(asker.code, ERROR_REFUSED);
    assert_int_equal(session_state(session), SESSION_NEW);
    assert_true(execution_has_ended(execution));
    assert_string_equal(execution_error(execution)->code, ERROR_REFUSED);
    assert_int_equal(session->running, 0);
    fixture->refuses = false;
    fixture->refuses_now = true;
    session_box(session, on_box, &asker); /* at once */
    assert_int_equal(asker.called, 2);
    execution = fixture_exec(session, "true", NULL);
    assert_true(execution_has_ended(execution));
    fixture->refuses_now = false;
    fixture_ran(fixture, session, "true", NULL); /* the next use tries again */
    assert_int_equal(session_state(session), SESSION_READY);
}

static void test_end_while_starting(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL),
                   *late = fixture_session(fixture, NULL);
    struct asker asker = {0}, after = {0};
    struct execution *execution;
    unsigned done = 0;

    fixture->holds[ASK_MAKE] = true;
    session_box(session, on_box, &asker);
    execution = fixture_exec(session, "true", NULL);
    session_end(session, "deleted", counted, &done);
    UNTIL(fixture, done);
    assert_int_equal(asker.called, 1);
    assert_string_equal(asker.code, ERROR_SESSION_ENDED);
    assert_string_equal(execution_error(execution)->code, ERROR_SESSION_ENDED);
    assert_int_equal(fixture->cancelled, 1);
    session_box(session, on_box, &after);
    assert_string_equal(after.code, ERROR_SESSION_ENDED);
    fixture_let_go(fixture, ASK_MAKE);
    /* The box comes after the end was asked for and before it is carried out. */
    session_box(late, on_box, &asker);
    session_end(late, "deleted", counted, &done);
    fixture_work(fixture);
    assert_non_null(late->box);
    UNTIL(fixture, done == 2);
    assert_int_equal(asker.called, 2);
    assert_int_equal(fixture->made, 1);
    assert_null(fixture_find(fixture, 1));
}

static void test_end_while_executing(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *one = fixture_exec(session, "head -c 70000 /dev/zero; exec sleep 1000", NULL);
    struct execution *short_one = fixture_ran(fixture, session, "echo here", NULL);
    struct execution *two = fixture_exec(session, "exec sleep 1000", NULL);
    struct looker looker;
    struct error err = {0};
    unsigned done = 0;
    char folder[64];

    look(&looker, one, true);
    UNTIL(fixture, execution_written(one, 1) == 70000);
    snprintf(folder, sizeof(folder), "logs/%s", session_id(session));
    assert_true(has_file(fixture, folder));
    session_end(session, "deleted", counted, &done);
    assert_true(session_exec(session, &(struct execution_spec){0}, &two, &err) < 0);
    UNTIL(fixture, done);
    assert_true(execution_has_ended(one) && execution_has_ended(two));
    assert_string_equal(execution_error(one)->code, ERROR_SESSION_ENDED);
    assert_true(looker.more > 0);
    assert_int_equal(session->running, 0);
    assert_false(has_file(fixture, folder));
    /* Whoever has read all of it is not told of a hole. */
    assert_int_equal(execution_read(one, 1, 70000, folder, sizeof(folder)), 0);
    assert_int_equal(execution_read(one, 1, 0, folder, sizeof(folder)), -ERANGE);
    assert_int_equal(execution_read(short_one, 1, 0, folder, sizeof(folder)), -ERANGE);
    execution_unwatch(looker.watcher, true);
}

static void test_box_lost(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL),
                   *other = fixture_session(fixture, NULL);
    struct execution *execution =
        fixture_exec(session, "exec cat", &(struct execution_spec){.stdin_open = true});
    struct looker looker;

    look(&looker, execution, false);
    UNTIL(fixture, looker.started);
    kill(fixture_find(fixture, session->number)->pid, SIGKILL);
    UNTIL(fixture, session_state(session) == SESSION_ENDED);
    assert_string_equal(session->reason, "box_lost");
    assert_string_equal(execution_error(execution)->code, ERROR_BOX_LOST);
    execution_unwatch(looker.watcher, true);
    assert_int_equal(session_state(other), SESSION_NEW);
}

/* The launcher is faster than the channel: the last words of a command are still heard. */
static void test_last_words(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution;
    struct pollfd channel;

    fixture_ran(fixture, session, "true", NULL);
    execution = fixture_exec(session, "echo last words", NULL);
    channel = (struct pollfd){.fd = box_fd(session->box), .events = POLLIN};
    for (int i = 0; i < 3; i++) { /* started, output, exited: none of them is read here */
        assert_int_equal(poll(&channel, 1, PATIENCE_MS), 1);
        usleep(100000); /* nothing is asserted of it: without it the test proves less */
    }
    kill(fixture_find(fixture, session->number)->pid, SIGKILL);
    session_manager_box_ended(fixture->manager, session->number, 0);
    session_manager_box_ended(fixture->manager, 4711, 0);
    fixture->holds[ASK_END] = true; /* its folder stays until we have looked */
    session_settle(session);        /* before the loop has seen the channel */
    assert_int_equal(fixture_asked(fixture, ASK_END), 1);
    assert_true(execution_has_ended(execution));
    check_output(execution, 1, "last words\n");
    fixture_let_go(fixture, ASK_END);
    UNTIL(fixture, session_state(session) == SESSION_ENDED);
}

/* Ended sessions are forgotten, but not under somebody's feet. */
static void test_forgotten(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *read = fixture_session(fixture, NULL),
                   *given = fixture_session(fixture, "given"), *found;
    struct execution *execution = fixture_ran(fixture, read, "echo x", NULL);
    struct dataset_upload *upload;
    struct error err = {0};
    struct looker looker;
    char id[ID_MAX];

    look(&looker, execution, false);
    assert_int_equal(dataset_begin(given, "d", &upload, &err), 0);
    str_copy(id, sizeof(id), session_id(read));
    session_end(read, "deleted", NULL, NULL);
    session_end(given, "deleted", NULL, NULL);
    for (unsigned i = 0; i < LIMIT_ENDED_SESSIONS + 5; i++)
        session_end(fixture_session(fixture, NULL), "deleted", NULL, NULL);
    UNTIL(fixture, session_state(given) == SESSION_ENDED && session_state(read) == SESSION_ENDED);
    assert_int_equal(session_manager_find_any(fixture->manager, id, &found, &err), 0);
    assert_int_equal(session_manager_find_any(fixture->manager, "given", &found, &err), 0);
    assert_true(dataset_write(upload, "x", 1, &err) < 0);
    dataset_cancel(upload);
    execution_unwatch(looker.watcher, true);
    session_end(fixture_session(fixture, NULL), "deleted", NULL, NULL);
    UNTIL(fixture, session_manager_find_any(fixture->manager, id, &found, &err) < 0);
    assert_true(session_manager_find_any(fixture->manager, "given", &found, &err) < 0);
}

static void count_session(void *ctx, struct session *session)
{
    unsigned *counts = ctx;

    counts[session_state(session) >= SESSION_ENDING]++;
}

static void test_each_and_json(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "shown");
    unsigned counts[2] = {0};
    json_t *json;

    session_end(fixture_session(fixture, NULL), "deleted", NULL, NULL);
    session_manager_each(fixture->manager, false, count_session, counts);
    assert_int_equal(counts[0] * 10 + counts[1], 10);
    session_manager_each(fixture->manager, true, count_session, counts);
    assert_int_equal(counts[0] * 10 + counts[1], 21);
    fixture_ran(fixture, session, "true", NULL);
    json = session_json(session);
    assert_string_equal(json_string_value(json_object_get(json, "name")), "shown");
    assert_string_equal(json_string_value(json_object_get(json, "state")), "ready");
    assert_int_equal(json_integer_value(json_object_get(json, "executions")), 1);
    assert_true(json_is_object(json_object_get(json, "isolation")));
    json_decref(json);
    assert_ptr_equal(session_manager_config(fixture->manager), &fixture->config);
    assert_ptr_equal(session_manager_bus(fixture->manager), fixture->bus);
    assert_null(session_manager_audit(fixture->manager));
    assert_null(session_manager_language(fixture->manager, "cobol"));
}

static void test_stop_idle(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    unsigned stopped = 0;

    fixture_ran(fixture, session, "true", NULL);
    session_manager_stop(fixture->manager, 3600 * 1000, counted,
                         &stopped); /* needs none of the grace */
    create_error(fixture, &(struct session_spec){0}, ERROR_SHUTTING_DOWN);
    UNTIL(fixture, stopped);
    assert_string_equal(session->reason, "engine_stopped");
    assert_true(session_manager_is_idle(fixture->manager));
}

static void test_stop_kind(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL),
                   *waits = fixture_session(fixture, NULL);
    struct execution *execution, *waiting;
    unsigned stopped = 0, again = 0;

    execution = fixture_exec(session,
                             "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.1; "
                             "done",
                             NULL);
    UNTIL(fixture, execution_written(execution, 1) == 3);
    fixture->holds[ASK_MAKE] = true;
    waiting = fixture_exec(waits, "true", NULL);
    fixture->holds[ASK_END] = true;
    session_manager_stop(fixture->manager, 3600 * 1000, counted, &stopped);
    assert_true(execution_has_ended(waiting));
    UNTIL(fixture, execution_has_ended(execution));
    check_output(execution, 1, "up\nbye\n");
    assert_int_equal(execution->end.exit_code, 3);
    session_manager_stop(fixture->manager, 0, counted, &again); /* who is in a hurry */
    fixture_let_go(fixture, ASK_END);
    UNTIL(fixture, stopped + again > 0);
    poll_reactor_turn(&fixture->loop, 0);
    assert_int_equal(stopped + again, 1);
}

static void test_stop_hard(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution = fixture_exec(session,
                                               "trap '' TERM; echo up; while :; do sleep 1; "
                                               "done",
                                               NULL);
    unsigned stopped = 0;

    UNTIL(fixture, execution_written(execution, 1) == 3);
    session_manager_stop(fixture->manager, 50, counted, &stopped);
    UNTIL(fixture, stopped);
    assert_true(execution_has_ended(execution));
    assert_int_equal(session_state(session), SESSION_ENDED);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_ENGINE(test_create_and_find),
        WITH_ENGINE(test_ambiguous),
        WITH_ENGINE(test_refused),
        WITH_ENGINE(test_each_is_later_than_the_one_before),
        WITH_ENGINE(test_name_is_free_again),
        WITH_ENGINE(test_expiry),
        WITH_ENGINE(test_extend),
        WITH_ENGINE(test_box),
        WITH_ENGINE(test_waiter_takes_back_another),
        WITH_ENGINE(test_box_refused),
        WITH_ENGINE(test_end_while_starting),
        WITH_ENGINE(test_end_while_executing),
        WITH_ENGINE(test_box_lost),
        WITH_ENGINE(test_last_words),
        WITH_ENGINE(test_forgotten),
        WITH_ENGINE(test_each_and_json),
        WITH_ENGINE(test_stop_idle),
        WITH_ENGINE(test_stop_kind),
        WITH_ENGINE(test_stop_hard),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
