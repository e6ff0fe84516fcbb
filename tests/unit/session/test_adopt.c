/* test_adopt.c - brokers that die and those that come after them, over the same index and boxes. */
#include "engine_fixture.h"

static struct session *found(struct engine_fixture *fixture, const char *id)
{
    struct session *session;
    struct error err = {0};

    if (session_manager_find_any(fixture->manager, id, &session, &err) < 0)
        fail_msg("%s", err.text);
    return session;
}

static struct execution *found_execution(struct engine_fixture *fixture, const char *id,
                                         const char *number)
{
    struct execution *execution;
    struct error err = {0};

    if (session_find_execution(found(fixture, id), number, &execution, &err) < 0)
        fail_msg("%s", err.text);
    return execution;
}

/* The numbers from 1 on, a line each, and nothing else. */
static void check_numbers(const struct execution *execution, unsigned count)
{
    uint64_t offset = 0;
    unsigned next = 1;
    char text[16];

    for (; next <= count; next++) {
        int length = snprintf(text, sizeof(text), "%u\n", next);
        char data[16] = "";

        assert_int_equal(execution_read(execution, 1, offset, data, (size_t)length), length);
        assert_string_equal(data, text);
        offset += (uint64_t)length;
    }
    assert_true(execution_written(execution, 1) == offset);
}

static void test_output_is_exact(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "stays");
    struct execution *execution =
        fixture_exec(session,
                     "for i in 1 2 3 4 5; do seq $((i * 9000 - 8999)) $((i * 9000)); "
                     "sleep 0.05; done; exit 5",
                     &(struct execution_spec){.timeout_ms = 60000});
    char id[ID_MAX];

    str_copy(id, sizeof(id), session_id(session));
    UNTIL(fixture, execution_written(execution, 1) > 0);
    for (int i = 0; i < 5; i++) {
        fixture_crash(fixture);
        fixture_begin(fixture);
        poll_reactor_turn(&fixture->loop, 20);
    }
    assert_int_equal(session_state(found(fixture, "stays")), SESSION_READY);
    execution = found_execution(fixture, id, "1");
    assert_true(execution_is_background(execution));
    UNTIL(fixture, execution_has_ended(execution));
    assert_int_equal(execution->end.exit_code, 5);
    check_numbers(execution, 45000);
    assert_int_equal(found(fixture, id)->running, 0);
    /* The next one knows of it by the index alone. */
    fixture_crash(fixture);
    fixture_begin(fixture);
    execution = found_execution(fixture, id, "1");
    assert_true(execution_has_ended(execution));
    assert_int_equal(execution->end.exit_code, 5);
    check_numbers(execution, 45000);
    fixture_ran(fixture, found(fixture, id), "true", NULL);
    assert_int_equal(found(fixture, id)->next_execution, 3);
}

/* It ended while nobody was there; also one whose end was read and not recorded yet. */
static void test_ended_meanwhile(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution;
    char id[ID_MAX];

    str_copy(id, sizeof(id), session_id(session));
    fixture_ran(fixture, session, "true", NULL);
    fixture_exec(session, "echo done >mark", NULL);
    fixture->holds[ASK_USAGE] = true;
    fixture_exec(session, "echo killed; kill -9 $$", NULL);
    UNTIL(fixture, fixture_asked(fixture, ASK_USAGE) == 1);
    fixture_crash(fixture);
    fixture->holds[ASK_USAGE] = false;
    fixture_begin(fixture);
    execution = found_execution(fixture, id, "2");
    UNTIL(fixture, execution_has_ended(execution));
    assert_int_equal(execution->state, EXECUTION_EXITED);
    execution = found_execution(fixture, id, "3");
    UNTIL(fixture, execution_has_ended(execution));
    assert_int_equal(execution->end.signal, SIGKILL);
    check_output(execution, 1, "killed\n");
}

static void test_input_goes_on(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    size_t length = 4 * MIB;
    char *input = malloc(length), id[ID_MAX];
    struct execution *execution;

    assert_non_null(input);
    memset(input, 'i', length);
    str_copy(id, sizeof(id), session_id(session));
    execution = fixture_exec(session, "head -c 10 >/dev/null; sleep 0.2; wc -c",
                             &(struct execution_spec){.input = input, .input_length = length});
    free(input);
    UNTIL(fixture, execution->input_at > 0);
    fixture_crash(fixture);
    fixture_begin(fixture);
    execution = found_execution(fixture, id, "1");
    UNTIL(fixture, execution_has_ended(execution));
    assert_int_equal(execution->end.exit_code, 0);
    /* head reads a buffer and takes 10 or all of that: what matters is that the end came. */
    assert_true(execution_written(execution, 1) > 1);
}

/* Its number was given away, and the box never came: it is known, and its number not used again. */
static void test_never_started(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution;
    char id[ID_MAX];

    str_copy(id, sizeof(id), session_id(session));
    fixture->holds[ASK_MAKE] = true;
    fixture_exec(session, "true", NULL);
    fixture_crash(fixture);
    fixture->holds[ASK_MAKE] = false;
    fixture_begin(fixture);
    session = found(fixture, id);
    assert_int_equal(session_state(session), SESSION_NEW);
    execution = found_execution(fixture, id, "1");
    assert_int_equal(execution->state, EXECUTION_FAILED);
    assert_non_null(strstr(execution_error(execution)->text, "start it again"));
    assert_int_equal(execution_number(fixture_ran(fixture, session, "true", NULL)), 2);
}

/* Recorded, and then the broker died before the warden heard of it. */
static void test_recorded_and_not_sent(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct index_execution row = {.number = 2, .call = 77, .argv = "[\"true\"]"};
    struct error err = {0};
    char id[ID_MAX];

    str_copy(id, sizeof(id), session_id(session));
    fixture_ran(fixture, session, "true", NULL);
    str_copy(row.session, sizeof(row.session), id);
    assert_int_equal(index_put_execution(fixture->index, &row, &err), 0);
    fixture_crash(fixture);
    fixture_begin(fixture);
    assert_int_equal(found_execution(fixture, id, "2")->state, EXECUTION_FAILED);
    assert_int_equal(found(fixture, id)->running, 0);
    assert_int_equal(execution_number(fixture_ran(fixture, found(fixture, id), "true", NULL)), 3);
}

/* The box was made and the broker died before it recorded that. */
static void test_made_and_not_recorded(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    char id[ID_MAX];

    str_copy(id, sizeof(id), session_id(session));
    fixture_box_new(fixture, id);
    fixture_crash(fixture);
    fixture_begin(fixture);
    assert_int_equal(session_state(found(fixture, id)), SESSION_READY);
    fixture_ran(fixture, found(fixture, id), "true", NULL);
    assert_int_equal(fixture->made, 1);
}

static void test_boxes_of_nobody(void **state)
{
    struct engine_fixture *fixture = *state;

    fixture_box_new(fixture, "s_unknown");
    fixture_box_new(fixture, "r_run");
    fixture_crash(fixture);
    fixture_begin(fixture);
    UNTIL(fixture, !fixture_find(fixture, 1) && !fixture_find(fixture, 2));
    assert_true(session_manager_is_idle(fixture->manager));
}

static void test_box_gone_meanwhile(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "one"),
                   *other = fixture_session(fixture, "two");

    fixture_ran(fixture, session, "true", NULL);
    fixture_ran(fixture, other, "true", NULL);
    fixture_exec(session, "exec sleep 1000", NULL);
    fixture_crash(fixture);
    fixture_box_end(fixture_find(fixture, 1));
    kill(fixture_find(fixture, 2)->pid, SIGKILL); /* the launcher has not noticed */
    fixture_begin(fixture);
    UNTIL(fixture, session_state(found(fixture, "one")) == SESSION_ENDED);
    UNTIL(fixture, session_state(found(fixture, "two")) == SESSION_ENDED);
    assert_string_equal(found(fixture, "one")->reason, "box_lost");
    assert_string_equal(found(fixture, "two")->reason, "box_lost");
    assert_true(execution_has_ended(found_execution(fixture, "one", "2")));
    /* The reason is known to the next as well. */
    fixture_crash(fixture);
    fixture_begin(fixture);
    assert_string_equal(found(fixture, "one")->reason, "box_lost");
    assert_int_equal(session_state(found(fixture, "one")), SESSION_ENDED);
}

/* The first broker of a daemon: nothing of an earlier daemon lives. */
static void test_first_of_a_daemon(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "old");

    fixture_ran(fixture, session, "true", NULL);
    fixture_session(fixture, "new");
    fixture_crash(fixture);
    fixture_box_end(fixture_find(fixture, 1));
    fixture->generation = 0;
    fixture_begin(fixture);
    UNTIL(fixture, session_manager_is_idle(fixture->manager) && !fixture->manager->is_sweeping);
    assert_string_equal(found(fixture, "old")->reason, "engine_stopped");
    assert_string_equal(found(fixture, "new")->reason, "engine_stopped");
}

/* A session without a box is not older for the broker's death than it was. */
static void test_idle_time(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "idle");

    session->used_ms = session->created_ms = 1000; /* long ago */
    session_save(session);
    session_touch(session);
    fixture_crash(fixture);
    fixture_begin(fixture);
    poll_reactor_turn(&fixture->loop, 0);
    assert_int_equal(session_state(found(fixture, "idle")), SESSION_NEW);
}

/* Output that was dropped from the disk: the next broker does not take what is left for it. */
static void test_dropped_output(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "s");
    struct execution *execution;
    char data[8];

    fixture_ran(fixture, session, "head -c 70000 /dev/zero", NULL); /* a file */
    session->spooled += LIMIT_SESSION_SPOOLS;
    fixture_ran(fixture, session, "echo two", NULL);
    fixture_crash(fixture);
    fixture_begin(fixture);
    execution = found_execution(fixture, "s", "1");
    assert_int_equal(execution_written(execution, 1), 70000);
    assert_int_equal(execution_first(execution, 1), 70000);
    assert_int_equal(execution_read(execution, 1, 70000, data, 8), 0);
}

/* What was killed for its memory before does not count for what is killed later. */
static void test_old_oom(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "s");
    struct execution *execution;

    fixture_ran(fixture, session, "true", NULL);
    fixture->oom_kills = 2;
    execution = fixture_ran(fixture, session, "kill -9 $$", NULL);
    assert_true(execution->flags & EXECUTION_OOM);
    fixture_crash(fixture);
    fixture_begin(fixture);
    session = found(fixture, "s");
    assert_true(found_execution(fixture, "s", "2")->flags & EXECUTION_OOM);
    execution = fixture_ran(fixture, session, "kill -9 $$", NULL);
    assert_false(execution->flags & EXECUTION_OOM);
    assert_int_equal(session->asked, 0);
}

/* A broker that dies before its HELLO was answered, and one that is stopped then. */
static void test_stopped_while_adopting(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "s");
    struct fixture_box *box;
    unsigned stopped = 0;
    pid_t warden;

    fixture_ran(fixture, session, "true", NULL);
    box = fixture_find(fixture, 1);
    warden = box->pid;
    kill(warden, SIGSTOP);
    fixture_crash(fixture);
    {
        struct made made;
        struct session_manager_spec spec = {
            .reactor = &fixture->loop.reactor,
            .config = &fixture->config,
            .folders = {.data_fd = fixture->folder_fd[3], .logs_fd = fixture->folder_fd[4]},
            .index = fixture->index,
            .bus = fixture->bus,
        };
        struct error err = {0};

        assert_int_equal(session_manager_new(&spec, &fixture->manager, &err), 0);
        session_manager_set_provider(fixture->manager, &fixture->provider);
        made = fixture_made(fixture, box);
        session_manager_found(fixture->manager, &made);
        fixture->is_ready = false;
        session_manager_start(fixture->manager, ++fixture->generation, fixture_ready, fixture);
    }
    assert_false(fixture->is_ready);
    assert_int_equal(session_state(found(fixture, "s")), SESSION_STARTING);
    session_manager_stop(fixture->manager, 0, counted, &stopped);
    kill(warden, SIGCONT); /* so that it hears of its end */
    UNTIL(fixture, stopped);
    assert_string_equal(found(fixture, "s")->reason, "engine_stopped");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_ENGINE(test_output_is_exact),        WITH_ENGINE(test_ended_meanwhile),
        WITH_ENGINE(test_input_goes_on),          WITH_ENGINE(test_never_started),
        WITH_ENGINE(test_recorded_and_not_sent),  WITH_ENGINE(test_made_and_not_recorded),
        WITH_ENGINE(test_boxes_of_nobody),        WITH_ENGINE(test_box_gone_meanwhile),
        WITH_ENGINE(test_first_of_a_daemon),      WITH_ENGINE(test_idle_time),
        WITH_ENGINE(test_dropped_output),         WITH_ENGINE(test_old_oom),
        WITH_ENGINE(test_stopped_while_adopting),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
