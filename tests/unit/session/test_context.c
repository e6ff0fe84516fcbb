/* test_context.c - contexts of a session: names, kernels that come and go, a new broker. */
#include "kernel_fixture.h"

static struct context *create(struct session *session, const struct context_spec *spec)
{
    struct context *context = NULL;
    struct error err = {0};

    if (session_create_context(session, spec, &context, &err) < 0)
        fail_msg("%s", err.text);
    return context;
}

static void check_refused(struct session *session, const struct context_spec *spec,
                          const char *code)
{
    struct context *context = NULL;
    struct error err = {0};

    assert_true(session_create_context(session, spec, &context, &err) < 0);
    assert_string_equal(err.code, code);
}

static void count(void *ctx, struct context *context)
{
    (void)context;
    (*(unsigned *)ctx)++;
}

static void test_names(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct context *first, *found;
    struct error err = {0};
    unsigned contexts = 0;

    assert_int_equal(session_find_context(session, NULL, NULL, &first, &err), 0);
    assert_int_equal(session_find_context(session, NULL, "python", &found, &err), 0);
    assert_ptr_equal(first, found);
    check_member(context_json(first), "id", "c1");
    check_member(context_json(first), "state", "new");
    create(session, &(struct context_spec){.name = "mine", .cwd = "/tmp"});
    assert_int_equal(session_find_context(session, "mine", NULL, &found, &err), 0);
    check_member(context_json(found), "id", "c2");
    check_member(context_json(found), "cwd", "/tmp");
    assert_int_equal(session_find_context(session, "c2", "python", &first, &err), 0);
    assert_ptr_equal(first, found);
    assert_true(session_find_context(session, "c2", "bash", &first, &err) < 0);
    assert_true(session_find_context(session, "c3", NULL, &first, &err) < 0);
    assert_string_equal(err.code, ERROR_CONTEXT_NOT_FOUND);
    check_refused(session, &(struct context_spec){.name = "mine"}, ERROR_CONTEXT_TAKEN);
    check_refused(session, &(struct context_spec){.name = "c9"}, ERROR_BAD_INPUT);
    check_refused(session, &(struct context_spec){.name = "a b"}, ERROR_BAD_INPUT);
    check_refused(session, &(struct context_spec){.cwd = "tmp"}, ERROR_BAD_INPUT);
    check_refused(session, &(struct context_spec){.language = "cobol"}, ERROR_BAD_INPUT);
    check_refused(session, &(struct context_spec){.language = "bash"}, ERROR_NO_INTERPRETER);
    context_remove(found);
    for (unsigned i = 1; i < LIMIT_CONTEXTS; i++)
        create(session, &(struct context_spec){0});
    check_refused(session, &(struct context_spec){0}, ERROR_TOO_MANY_CONTEXTS);
    session_each_context(session, count, &contexts);
    assert_int_equal(contexts, LIMIT_CONTEXTS);
    assert_int_equal(fixture->made, 0); /* nothing of this needs a box */
}

static void test_state_is_kept(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cell = cell_ran(fixture, session, "x = 41; print('hello')");

    check_output(cell, 1, "hello\n");
    check_member(execution_cell_meta(cell), "kernel", "new");
    check_member(execution_cell_meta(cell), "warm", "cold");
    check_member(execution_json(cell), "kind", "cell");
    cell = cell_ran(fixture, session, "print(x + 1)");
    check_output(cell, 1, "42\n");
    check_member(execution_cell_meta(cell), "kernel", "kept");
    check_context(session, NULL, "state", "idle");
    create(session, &(struct context_spec){.name = "other"});
    cell = cell_start(session, "other", "print('x' in globals())", 0);
    UNTIL(fixture, execution_has_ended(cell));
    check_output(cell, 1, "False\n");
}

static void test_died_in_a_cell(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cell = cell_ran(fixture, session, "import os; os.kill(os.getpid(), 9)");

    assert_int_equal(cell->end.signal, SIGKILL);
    assert_true(cell->cell->has_lost);
    check_context(session, NULL, "state", "dead");
    cell = cell_ran(fixture, session, "import os; os._exit(3)");
    check_member(execution_cell_meta(cell), "kernel", "replaced");
    check_member(execution_cell_meta(cell), "kernel_note",
                 "the kernel was ended by signal 9; its variables are gone");
    assert_int_equal(cell->end.exit_code, 3);
    cell = cell_ran(fixture, session, "pass");
    check_member(execution_cell_meta(cell), "kernel_note",
                 "the kernel exited with status 3; its variables are gone");
    cell = cell_ran(fixture, session, "pass");
    check_member(execution_cell_meta(cell), "kernel", "kept");
    check_member(execution_cell_meta(cell), "kernel_note", NULL);
}

/* It dies between two cells: the next one runs all the same, and says so. */
static void test_died_idle(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cell = cell_ran(fixture, session, "import os; print(os.getpid())");
    char text[32] = "";

    assert_true(execution_read(cell, 1, 0, text, sizeof(text) - 1) > 0);
    kill((pid_t)strtol(text, NULL, 10), SIGKILL);
    cell = cell_ran(fixture, session, "print('here')"); /* whether that is known already or not */
    if (cell->flags & EXECUTION_STARTED && !cell->cell->has_lost) {
        check_output(cell, 1, "here\n");
        check_member(execution_cell_meta(cell), "kernel", "replaced");
    } else { /* it was given to the kernel in its last moment */
        assert_int_equal(cell->end.signal, SIGKILL);
    }
}

static void test_never_starts(void **state)
{
    struct engine_fixture *fixture = *state;
    const char *usual = fixture->languages[1].program;
    struct session *session;
    struct execution *cell;
    char program[64];

    /* A session's interpreter is fixed when it is made: this one appears later. */
    str_format(program, sizeof(program), "/tmp/bailey-python-%d", (int)getpid());
    fixture->languages[1].program = program;
    session = fixture_session(fixture, NULL);
    cell = cell_ran(fixture, session, "pass");
    assert_non_null(execution_error(cell)->code);
    assert_string_equal(execution_error(cell)->code, ERROR_COMMAND_NOT_FOUND);
    check_context(session, "c1", "state", "dead");
    assert_int_equal(symlink("/usr/bin/python3", program), 0);
    cell = cell_ran(fixture, session, "print('better')");
    unlink(program);
    check_output(cell, 1, "better\n");
    check_member(execution_cell_meta(cell), "kernel", "replaced");
    fixture->languages[1].program = usual;
}

/* The interpreter starts and ends at once: a cell is not sent for ever. */
static void test_ends_at_once(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cell;

    scratch_write(&fixture->scratch, "driver.py", "import sys; sys.exit(7)\n");
    cell = cell_ran(fixture, session, "pass");
    assert_int_equal(cell->state, EXECUTION_EXITED);
    assert_int_equal(cell->end.exit_code, 7);
    assert_true(cell->cell->has_lost);
    assert_int_equal(session->running, 0);
}

static void test_restart(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *one = cell_start(session, NULL,
                                       "import time\nprint('up', flush=True)\n"
                                       "time.sleep(1000)",
                                       0);
    struct execution *two = cell_start(session, NULL, "pass", 0), *three;
    struct context *context;
    struct error err = {0};

    UNTIL(fixture, execution_written(one, 1) == 3);
    assert_int_equal(session_find_context(session, NULL, NULL, &context, &err), 0);
    check_context(session, NULL, "state", "busy");
    context_restart(context);
    assert_string_equal(execution_error(two)->code, ERROR_CANCELLED);
    check_context(session, NULL, "state", "new");
    three = cell_ran(fixture, session, "pass");
    check_member(execution_cell_meta(three), "kernel", "new");
    UNTIL(fixture, execution_has_ended(one));
    assert_int_equal(one->end.signal, SIGKILL);
    assert_true(one->cell->has_lost);
    assert_int_equal(fixture_asked(fixture, ASK_USAGE), 0); /* we did it, not its memory */
    context_remove(context);
    assert_true(session_find_context(session, "c1", NULL, &context, &err) < 0);
    check_member(execution_cell_meta(cell_ran(fixture, session, "pass")), "context", "c2");
}

static void test_interrupt(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cell;
    struct context *context;
    struct error err = {0};

    cell_ran(fixture, session, "x = 7");
    assert_int_equal(session_find_context(session, NULL, NULL, &context, &err), 0);
    assert_int_equal(context_interrupt(context, &err), -ESRCH);
    cell = cell_start(session, NULL, "import time\nprint('up', flush=True)\ntime.sleep(1000)", 0);
    UNTIL(fixture, execution_written(cell, 1) == 3);
    assert_int_equal(context_interrupt(context, &err), 0);
    UNTIL(fixture, execution_has_ended(cell));
    assert_int_equal(cell->end.exit_code, 1);
    assert_false(cell->cell->has_lost);
    cell = cell_ran(fixture, session, "print(x)");
    check_output(cell, 1, "7\n");
}

static void test_a_new_broker(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "s");
    struct execution *cell;
    struct error err = {0};

    cell_ran(fixture, session, "x = 7; print('first')");
    cell = cell_start(session, NULL,
                      "print('up', flush=True)\nimport sys, time\n"
                      "while not given: time.sleep(0.01); given = x\nprint('end')",
                      0);
    UNTIL(fixture, execution_written(cell, 1) == 3);
    fixture_crash(fixture);
    fixture_begin(fixture);
    assert_int_equal(session_manager_find(fixture->manager, "s", &session, &err), 0);
    assert_int_equal(session_find_execution(session, "1", &cell, &err), 0);
    check_output(cell, 1, "first\n"); /* from its row */
    check_member(execution_cell_meta(cell), "context", "c1");
    assert_int_equal(session_find_execution(session, "2", &cell, &err), 0);
    UNTIL(fixture, execution_has_ended(cell));
    check_output(cell, 1, "up\nend\n");
    check_member(execution_cell_meta(cell), "kernel", "kept");
    cell = cell_ran(fixture, session, "print(x, cells)");
    check_output(cell, 1, "7 3\n");
    check_member(execution_cell_meta(cell), "kernel", "kept");
    assert_int_equal(cell->cell->number, 3);
    assert_int_equal(session->contexts->cells, 3);
}

static void test_died_without_a_broker(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "s");
    struct execution *cell;
    struct error err = {0};
    char text[32] = "";
    pid_t pid;

    cell = cell_ran(fixture, session, "import os; print(os.getpid())");
    assert_true(execution_read(cell, 1, 0, text, sizeof(text) - 1) > 0);
    pid = (pid_t)strtol(text, NULL, 10);
    fixture_crash(fixture);
    kill(pid, SIGKILL);
    UNTIL(fixture, kill(pid, 0) < 0); /* its warden has seen it */
    fixture_begin(fixture);
    assert_int_equal(session_manager_find(fixture->manager, "s", &session, &err), 0);
    UNTIL(fixture, !session->contexts->kernel);
    check_context(session, NULL, "state", "dead");
    cell = cell_ran(fixture, session, "pass");
    check_member(execution_cell_meta(cell), "kernel", "replaced");
}

/* A box that is refused fails what waits for it; the next cell tries again. */
static void test_no_box(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *cell;

    fixture->refuses = true;
    cell = cell_ran(fixture, session, "pass");
    assert_string_equal(execution_error(cell)->code, ERROR_REFUSED);
    fixture->refuses = false;
    assert_int_equal(cell_ran(fixture, session, "pass")->state, EXECUTION_EXITED);
}

static void test_the_session_ends(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *one = cell_start(session, NULL, "import time; time.sleep(1000)", 0);
    struct execution *two = cell_start(session, NULL, "pass", 0);
    unsigned done = 0;

    UNTIL(fixture, one->state == EXECUTION_RUNNING);
    session_end(session, "deleted", counted, &done);
    UNTIL(fixture, done);
    assert_string_equal(execution_error(one)->code, ERROR_SESSION_ENDED);
    assert_string_equal(execution_error(two)->code, ERROR_SESSION_ENDED);
    assert_int_equal(session->running, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_KERNELS(test_names),          WITH_KERNELS(test_state_is_kept),
        WITH_KERNELS(test_died_in_a_cell), WITH_KERNELS(test_died_idle),
        WITH_KERNELS(test_never_starts),   WITH_KERNELS(test_ends_at_once),
        WITH_KERNELS(test_restart),        WITH_KERNELS(test_interrupt),
        WITH_KERNELS(test_a_new_broker),   WITH_KERNELS(test_died_without_a_broker),
        WITH_KERNELS(test_no_box),         WITH_KERNELS(test_the_session_ends),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
