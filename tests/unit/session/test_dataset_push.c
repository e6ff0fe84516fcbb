/* test_dataset_push.c - datasets into boxes that are containers: at their start, later, again. */
#include "engine_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

static int open_hosted(void **state)
{
    int r = fixture_open(state);
    struct engine_fixture *fixture = *state;

    fixture->has_provider_host = true;
    return r;
}

static void give(struct session *session, const char *name, const char *text, size_t length)
{
    struct dataset_upload *upload;
    struct error err = {0};

    assert_int_equal(dataset_begin(session, name, &upload, &err), 0);
    assert_int_equal(dataset_write(upload, text, length, &err), 0);
    assert_int_equal(dataset_end(upload, &err), 0);
}

/* It is in the box, and what it is there. */
static struct stat look_at(struct engine_fixture *fixture, struct session *session,
                           const char *file, const char *text)
{
    char name[128], data[128] = "";
    struct stat status = {0};
    const char *path;

    snprintf(name, sizeof(name), "tmp/data/%s", file);
    path = fixture_path(fixture, session_id(session), name);
    assert_int_equal(stat(path, &status), 0);
    if (text) {
        assert_true(scratch_read(path, data, sizeof(data)));
        assert_string_equal(data, text);
    }
    return status;
}

static void remove_inside(struct engine_fixture *fixture, struct session *session, const char *name)
{
    assert_int_equal(unlink(fixture_path(fixture, session_id(session), name)), 0);
}

/* Whoever asks for a command behind a dataset finds it. */
static void test_before_the_first_command(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    size_t length = 3 << 20; /* more than a window takes */
    char *large = calloc(1, length);

    assert_non_null(large);
    memset(large, 'x', length);
    give(session, "one", "1\n", 2);
    give(session, "large", large, length);
    give(session, "empty", "", 0);
    fixture_ran(fixture, session, "test -s ../tmp/data/one.csv", NULL);
    assert_int_equal(look_at(fixture, session, "one.csv", "1\n").st_mode & 0777, 0444);
    assert_int_equal(look_at(fixture, session, "large.csv", NULL).st_size, length);
    assert_int_equal(look_at(fixture, session, "empty.csv", "").st_size, 0);
    assert_null(session->push);
    free(large);
}

static void test_one_more(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);

    fixture_ran(fixture, session, "true", NULL);
    give(session, "later", "1\n", 2);
    give(session, "another", "2\n", 2); /* while the first is on its way */
    assert_false(session_is_ready(session));
    fixture_ran(fixture, session, "true", NULL);
    look_at(fixture, session, "later.csv", "1\n");
    look_at(fixture, session, "another.csv", "2\n");
    give(session, "later", "newer\n", 6);
    fixture_ran(fixture, session, "true", NULL);
    look_at(fixture, session, "later.csv", "newer\n");
}

/* Local boxes have them in a folder of the host's. */
static void test_not_into_local_boxes(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session;

    fixture->has_provider_host = false;
    session = fixture_session(fixture, NULL);
    fixture_ran(fixture, session, "true", NULL);
    give(session, "one", "1\n", 2);
    assert_null(session->push);
}

/* After a broker's death only what is missing there, or is another one, is put again. */
static void test_adopted(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    const struct timespec newer[2] = {{.tv_sec = INT32_MAX}, {.tv_sec = INT32_MAX}};
    struct stat same, cut;
    char id[ID_MAX], path[256];

    give(session, "same", "1\n", 2);
    give(session, "cut", "12345\n", 6);
    give(session, "gone", "3\n", 2);
    give(session, "older", "4\n", 2);
    fixture_ran(fixture, session, "true", NULL);
    str_copy(id, sizeof(id), session_id(session));
    same = look_at(fixture, session, "same.csv", "1\n");
    cut = look_at(fixture, session, "cut.csv", "12345\n");
    look_at(fixture, session, "older.csv", "4\n");
    remove_inside(fixture, session, "tmp/data/gone.csv");
    assert_int_equal(chmod(fixture_path(fixture, id, "tmp/data/cut.csv"), 0644), 0);
    assert_int_equal(truncate(fixture_path(fixture, id, "tmp/data/cut.csv"), 3), 0);
    fixture_crash(fixture);
    /* One that came just before the end: of the same length, and newer than what is inside. */
    snprintf(path, sizeof(path), "data/%s/older.csv", id);
    scratch_write(&fixture->scratch, path, "5\n");
    assert_int_equal(utimensat(AT_FDCWD, scratch_path(&fixture->scratch, path), newer, 0), 0);
    fixture_begin(fixture);
    assert_int_equal(session_manager_find(fixture->manager, id, &session, NULL), 0);
    fixture_ran(fixture, session, "true", NULL);
    assert_int_equal(look_at(fixture, session, "same.csv", "1\n").st_ino, same.st_ino);
    assert_int_not_equal(look_at(fixture, session, "cut.csv", "12345\n").st_ino, cut.st_ino);
    look_at(fixture, session, "gone.csv", "3\n");
    look_at(fixture, session, "older.csv", "5\n");
}

/* A folder where a file should be: told once, and the session goes on. */
static void test_one_that_cannot_be_put(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct execution *execution;

    fixture_ran(fixture, session, "mkdir -p ../tmp/data/taken.csv/inside", NULL);
    give(session, "taken", "1\n", 2);
    execution = fixture_exec(session, "true", NULL);
    UNTIL(fixture, execution_has_ended(execution));
    assert_non_null(execution_error(execution));
    assert_non_null(strstr(execution_error(execution)->text, "/tmp/data/taken.csv"));
    fixture_ran(fixture, session, "true", NULL);
}

static void test_box_that_goes_meanwhile(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);

    fixture_ran(fixture, session, "true", NULL);
    give(session, "one", "1\n", 2);
    assert_non_null(session->push);
    kill(fixture_find(fixture, session->number)->pid, SIGKILL);
    UNTIL(fixture, session_state(session) == SESSION_ENDED);
    assert_null(session->push);
}

#define WITH_PROVIDER_HOST(test) cmocka_unit_test_setup_teardown(test, open_hosted, fixture_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PROVIDER_HOST(test_before_the_first_command),
        WITH_PROVIDER_HOST(test_one_more),
        WITH_PROVIDER_HOST(test_not_into_local_boxes),
        WITH_PROVIDER_HOST(test_adopted),
        WITH_PROVIDER_HOST(test_one_that_cannot_be_put),
        WITH_PROVIDER_HOST(test_box_that_goes_meanwhile),
    };

    return cmocka_run_group_tests_name("session dataset_push", tests, NULL, NULL);
}
