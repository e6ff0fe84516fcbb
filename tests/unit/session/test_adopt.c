/* test_adopt.c - brokers that die and those that come after them, over the same index and boxes. */
#include "workshop.h"

static struct session *found(struct shop *shop, const char *id)
{
    struct session *session;
    struct error err = {0};

    if (engine_find_any(shop->engine, id, &session, &err) < 0)
        fail_msg("%s", err.text);
    return session;
}

static struct execution *found_execution(struct shop *shop, const char *id, const char *number)
{
    struct execution *execution;
    struct error err = {0};

    if (session_find_execution(found(shop, id), number, &execution, &err) < 0)
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
    struct shop *shop = *state;
    struct session *session = shop_session(shop, "stays");
    struct execution *execution =
        shop_exec(session,
                  "for i in 1 2 3 4 5; do seq $((i * 9000 - 8999)) $((i * 9000)); "
                  "sleep 0.05; done; exit 5",
                  &(struct execution_spec){.timeout_ms = 60000});
    char id[ID_MAX];

    str_copy(id, sizeof(id), session_id(session));
    UNTIL(shop, execution_written(execution, 1) > 0);
    for (int i = 0; i < 5; i++) {
        shop_crash(shop);
        shop_begin(shop);
        poll_reactor_turn(&shop->loop, 20);
    }
    assert_int_equal(session_state(found(shop, "stays")), SESSION_READY);
    execution = found_execution(shop, id, "1");
    assert_true(execution_is_background(execution));
    UNTIL(shop, execution_has_ended(execution));
    assert_int_equal(execution->end.exit_code, 5);
    check_numbers(execution, 45000);
    assert_int_equal(found(shop, id)->running, 0);
    /* The next one knows of it by the index alone. */
    shop_crash(shop);
    shop_begin(shop);
    execution = found_execution(shop, id, "1");
    assert_true(execution_has_ended(execution));
    assert_int_equal(execution->end.exit_code, 5);
    check_numbers(execution, 45000);
    shop_ran(shop, found(shop, id), "true", NULL);
    assert_int_equal(found(shop, id)->next_execution, 3);
}

/* It ended while nobody was there; also one whose end was read and not recorded yet. */
static void test_ended_meanwhile(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);
    struct execution *execution;
    char id[ID_MAX];

    str_copy(id, sizeof(id), session_id(session));
    shop_ran(shop, session, "true", NULL);
    shop_exec(session, "echo done >mark", NULL);
    shop->holds[ASK_USAGE] = true;
    shop_exec(session, "echo killed; kill -9 $$", NULL);
    UNTIL(shop, shop_asked(shop, ASK_USAGE) == 1);
    shop_crash(shop);
    shop->holds[ASK_USAGE] = false;
    shop_begin(shop);
    execution = found_execution(shop, id, "2");
    UNTIL(shop, execution_has_ended(execution));
    assert_int_equal(execution->state, EXECUTION_EXITED);
    execution = found_execution(shop, id, "3");
    UNTIL(shop, execution_has_ended(execution));
    assert_int_equal(execution->end.signal, SIGKILL);
    check_output(execution, 1, "killed\n");
}

static void test_input_goes_on(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);
    size_t length = 4 * MIB;
    char *input = malloc(length), id[ID_MAX];
    struct execution *execution;

    assert_non_null(input);
    memset(input, 'i', length);
    str_copy(id, sizeof(id), session_id(session));
    execution = shop_exec(session, "head -c 10 >/dev/null; sleep 0.2; wc -c",
                          &(struct execution_spec){.input = input, .input_length = length});
    free(input);
    UNTIL(shop, execution->input_at > 0);
    shop_crash(shop);
    shop_begin(shop);
    execution = found_execution(shop, id, "1");
    UNTIL(shop, execution_has_ended(execution));
    assert_int_equal(execution->end.exit_code, 0);
    /* head reads a buffer and takes 10 or all of that: what matters is that the end came. */
    assert_true(execution_written(execution, 1) > 1);
}

/* Its number was given away, and the box never came: it is known, and its number not used again. */
static void test_never_started(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);
    struct execution *execution;
    char id[ID_MAX];

    str_copy(id, sizeof(id), session_id(session));
    shop->holds[ASK_MAKE] = true;
    shop_exec(session, "true", NULL);
    shop_crash(shop);
    shop->holds[ASK_MAKE] = false;
    shop_begin(shop);
    session = found(shop, id);
    assert_int_equal(session_state(session), SESSION_NEW);
    execution = found_execution(shop, id, "1");
    assert_int_equal(execution->state, EXECUTION_FAILED);
    assert_non_null(strstr(execution_error(execution)->text, "start it again"));
    assert_int_equal(execution_number(shop_ran(shop, session, "true", NULL)), 2);
}

/* Recorded, and then the broker died before the warden heard of it. */
static void test_recorded_and_not_sent(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);
    struct index_execution row = {.number = 2, .call = 77, .argv = "[\"true\"]"};
    struct error err = {0};
    char id[ID_MAX];

    str_copy(id, sizeof(id), session_id(session));
    shop_ran(shop, session, "true", NULL);
    str_copy(row.session, sizeof(row.session), id);
    assert_int_equal(index_put_execution(shop->index, &row, &err), 0);
    shop_crash(shop);
    shop_begin(shop);
    assert_int_equal(found_execution(shop, id, "2")->state, EXECUTION_FAILED);
    assert_int_equal(found(shop, id)->running, 0);
    assert_int_equal(execution_number(shop_ran(shop, found(shop, id), "true", NULL)), 3);
}

/* The box was made and the broker died before it recorded that. */
static void test_made_and_not_recorded(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);
    char id[ID_MAX];

    str_copy(id, sizeof(id), session_id(session));
    shop_box_new(shop, id);
    shop_crash(shop);
    shop_begin(shop);
    assert_int_equal(session_state(found(shop, id)), SESSION_READY);
    shop_ran(shop, found(shop, id), "true", NULL);
    assert_int_equal(shop->made, 1);
}

static void test_boxes_of_nobody(void **state)
{
    struct shop *shop = *state;

    shop_box_new(shop, "s_unknown");
    shop_box_new(shop, "r_run");
    shop_crash(shop);
    shop_begin(shop);
    UNTIL(shop, !shop_find(shop, 1) && !shop_find(shop, 2));
    assert_true(engine_is_idle(shop->engine));
}

static void test_box_gone_meanwhile(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, "one"), *other = shop_session(shop, "two");

    shop_ran(shop, session, "true", NULL);
    shop_ran(shop, other, "true", NULL);
    shop_exec(session, "exec sleep 1000", NULL);
    shop_crash(shop);
    shop_box_end(shop_find(shop, 1));
    kill(shop_find(shop, 2)->pid, SIGKILL); /* the launcher has not noticed */
    shop_begin(shop);
    UNTIL(shop, session_state(found(shop, "one")) == SESSION_ENDED);
    UNTIL(shop, session_state(found(shop, "two")) == SESSION_ENDED);
    assert_string_equal(found(shop, "one")->reason, "box_lost");
    assert_string_equal(found(shop, "two")->reason, "box_lost");
    assert_true(execution_has_ended(found_execution(shop, "one", "2")));
    /* The reason is known to the next as well. */
    shop_crash(shop);
    shop_begin(shop);
    assert_string_equal(found(shop, "one")->reason, "box_lost");
    assert_int_equal(session_state(found(shop, "one")), SESSION_ENDED);
}

/* The first broker of a daemon: nothing of an earlier daemon lives. */
static void test_first_of_a_daemon(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, "old");

    shop_ran(shop, session, "true", NULL);
    shop_session(shop, "new");
    shop_crash(shop);
    shop_box_end(shop_find(shop, 1));
    shop->generation = 0;
    shop_begin(shop);
    UNTIL(shop, engine_is_idle(shop->engine) && !shop->engine->is_sweeping);
    assert_string_equal(found(shop, "old")->reason, "engine_stopped");
    assert_string_equal(found(shop, "new")->reason, "engine_stopped");
}

/* A session without a box is not older for the broker's death than it was. */
static void test_idle_time(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, "idle");

    session->used_ms = session->created_ms = 1000; /* long ago */
    session_save(session);
    session_touch(session);
    shop_crash(shop);
    shop_begin(shop);
    poll_reactor_turn(&shop->loop, 0);
    assert_int_equal(session_state(found(shop, "idle")), SESSION_NEW);
}

/* Output that was dropped from the disk: the next broker does not take what is left for it. */
static void test_dropped_output(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, "s");
    struct execution *execution;
    char data[8];

    shop_ran(shop, session, "head -c 70000 /dev/zero", NULL); /* a file */
    session->spooled += LIMIT_SESSION_SPOOLS;
    shop_ran(shop, session, "echo two", NULL);
    shop_crash(shop);
    shop_begin(shop);
    execution = found_execution(shop, "s", "1");
    assert_int_equal(execution_written(execution, 1), 70000);
    assert_int_equal(execution_first(execution, 1), 70000);
    assert_int_equal(execution_read(execution, 1, 70000, data, 8), 0);
}

/* What was killed for its memory before does not count for what is killed later. */
static void test_old_oom(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, "s");
    struct execution *execution;

    shop_ran(shop, session, "true", NULL);
    shop->oom_kills = 2;
    execution = shop_ran(shop, session, "kill -9 $$", NULL);
    assert_true(execution->flags & EXECUTION_OOM);
    shop_crash(shop);
    shop_begin(shop);
    session = found(shop, "s");
    assert_true(found_execution(shop, "s", "2")->flags & EXECUTION_OOM);
    execution = shop_ran(shop, session, "kill -9 $$", NULL);
    assert_false(execution->flags & EXECUTION_OOM);
    assert_int_equal(session->asked, 0);
}

/* A broker that dies before its HELLO was answered, and one that is stopped then. */
static void test_stopped_while_adopting(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, "s");
    struct shop_box *box;
    unsigned stopped = 0;
    pid_t warden;

    shop_ran(shop, session, "true", NULL);
    box = shop_find(shop, 1);
    warden = box->pid;
    kill(warden, SIGSTOP);
    shop_crash(shop);
    {
        struct made made;
        struct engine_spec spec = {
            .reactor = &shop->loop.reactor,
            .config = &shop->config,
            .folders = {.data_fd = shop->folder_fd[3], .logs_fd = shop->folder_fd[4]},
            .index = shop->index,
            .bus = shop->bus,
        };
        struct error err = {0};

        assert_int_equal(engine_new(&spec, &shop->engine, &err), 0);
        engine_set_maker(shop->engine, &shop->maker);
        made = shop_made(shop, box);
        engine_found(shop->engine, &made);
        shop->is_ready = false;
        engine_start(shop->engine, ++shop->generation, shop_ready, shop);
    }
    assert_false(shop->is_ready);
    assert_int_equal(session_state(found(shop, "s")), SESSION_STARTING);
    engine_stop(shop->engine, 0, counted, &stopped);
    kill(warden, SIGCONT); /* so that it hears of its end */
    UNTIL(shop, stopped);
    assert_string_equal(found(shop, "s")->reason, "engine_stopped");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_A_WORKSHOP(test_output_is_exact),        IN_A_WORKSHOP(test_ended_meanwhile),
        IN_A_WORKSHOP(test_input_goes_on),          IN_A_WORKSHOP(test_never_started),
        IN_A_WORKSHOP(test_recorded_and_not_sent),  IN_A_WORKSHOP(test_made_and_not_recorded),
        IN_A_WORKSHOP(test_boxes_of_nobody),        IN_A_WORKSHOP(test_box_gone_meanwhile),
        IN_A_WORKSHOP(test_first_of_a_daemon),      IN_A_WORKSHOP(test_idle_time),
        IN_A_WORKSHOP(test_dropped_output),         IN_A_WORKSHOP(test_old_oom),
        IN_A_WORKSHOP(test_stopped_while_adopting),
    };

    return cmocka_run_group_tests(tests, shop_reaper, NULL);
}
