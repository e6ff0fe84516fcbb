/* test_dataset_push.c - datasets into boxes that are containers: at their start, later, again. */
#include "workshop.h"

#include <fcntl.h>
#include <sys/stat.h>

static int open_wall(void **state)
{
    int r = shop_open(state);
    struct shop *shop = *state;

    shop->is_wall = true;
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
static struct stat look_at(struct shop *shop, struct session *session, const char *file,
                           const char *text)
{
    char name[128], data[128] = "";
    struct stat status = {0};
    const char *path;

    snprintf(name, sizeof(name), "tmp/data/%s", file);
    path = shop_path(shop, session_id(session), name);
    assert_int_equal(stat(path, &status), 0);
    if (text) {
        assert_true(scratch_read(path, data, sizeof(data)));
        assert_string_equal(data, text);
    }
    return status;
}

static void remove_inside(struct shop *shop, struct session *session, const char *name)
{
    assert_int_equal(unlink(shop_path(shop, session_id(session), name)), 0);
}

/* Whoever asks for a command behind a dataset finds it. */
static void test_before_the_first_command(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);
    size_t length = 3 << 20; /* more than a window takes */
    char *large = calloc(1, length);

    assert_non_null(large);
    memset(large, 'x', length);
    give(session, "one", "1\n", 2);
    give(session, "large", large, length);
    give(session, "empty", "", 0);
    shop_ran(shop, session, "test -s ../tmp/data/one.csv", NULL);
    assert_int_equal(look_at(shop, session, "one.csv", "1\n").st_mode & 0777, 0444);
    assert_int_equal(look_at(shop, session, "large.csv", NULL).st_size, length);
    assert_int_equal(look_at(shop, session, "empty.csv", "").st_size, 0);
    assert_null(session->push);
    free(large);
}

static void test_one_more(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);

    shop_ran(shop, session, "true", NULL);
    give(session, "later", "1\n", 2);
    give(session, "another", "2\n", 2); /* while the first is on its way */
    assert_false(session_is_ready(session));
    shop_ran(shop, session, "true", NULL);
    look_at(shop, session, "later.csv", "1\n");
    look_at(shop, session, "another.csv", "2\n");
    give(session, "later", "newer\n", 6);
    shop_ran(shop, session, "true", NULL);
    look_at(shop, session, "later.csv", "newer\n");
}

/* Local boxes have them in a folder of the host's. */
static void test_not_into_local_boxes(void **state)
{
    struct shop *shop = *state;
    struct session *session;

    shop->is_wall = false;
    session = shop_session(shop, NULL);
    shop_ran(shop, session, "true", NULL);
    give(session, "one", "1\n", 2);
    assert_null(session->push);
}

/* After a broker's death only what is missing there, or is another one, is put again. */
static void test_adopted(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);
    const struct timespec newer[2] = {{.tv_sec = INT32_MAX}, {.tv_sec = INT32_MAX}};
    struct stat same, cut;
    char id[ID_MAX], path[256];

    give(session, "same", "1\n", 2);
    give(session, "cut", "12345\n", 6);
    give(session, "gone", "3\n", 2);
    give(session, "older", "4\n", 2);
    shop_ran(shop, session, "true", NULL);
    str_copy(id, sizeof(id), session_id(session));
    same = look_at(shop, session, "same.csv", "1\n");
    cut = look_at(shop, session, "cut.csv", "12345\n");
    look_at(shop, session, "older.csv", "4\n");
    remove_inside(shop, session, "tmp/data/gone.csv");
    assert_int_equal(chmod(shop_path(shop, id, "tmp/data/cut.csv"), 0644), 0);
    assert_int_equal(truncate(shop_path(shop, id, "tmp/data/cut.csv"), 3), 0);
    shop_crash(shop);
    /* One that came just before the end: of the same length, and newer than what is inside. */
    snprintf(path, sizeof(path), "data/%s/older.csv", id);
    scratch_write(&shop->scratch, path, "5\n");
    assert_int_equal(utimensat(AT_FDCWD, scratch_path(&shop->scratch, path), newer, 0), 0);
    shop_begin(shop);
    assert_int_equal(engine_find(shop->engine, id, &session, NULL), 0);
    shop_ran(shop, session, "true", NULL);
    assert_int_equal(look_at(shop, session, "same.csv", "1\n").st_ino, same.st_ino);
    assert_int_not_equal(look_at(shop, session, "cut.csv", "12345\n").st_ino, cut.st_ino);
    look_at(shop, session, "gone.csv", "3\n");
    look_at(shop, session, "older.csv", "5\n");
}

/* A folder where a file should be: told once, and the session goes on. */
static void test_one_that_cannot_be_put(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);
    struct execution *execution;

    shop_ran(shop, session, "mkdir -p ../tmp/data/taken.csv/inside", NULL);
    give(session, "taken", "1\n", 2);
    execution = shop_exec(session, "true", NULL);
    UNTIL(shop, execution_has_ended(execution));
    assert_non_null(execution_error(execution));
    assert_non_null(strstr(execution_error(execution)->text, "/tmp/data/taken.csv"));
    shop_ran(shop, session, "true", NULL);
}

static void test_box_that_goes_meanwhile(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);

    shop_ran(shop, session, "true", NULL);
    give(session, "one", "1\n", 2);
    assert_non_null(session->push);
    kill(shop_find(shop, session->number)->pid, SIGKILL);
    UNTIL(shop, session_state(session) == SESSION_ENDED);
    assert_null(session->push);
}

#define BEHIND_A_WALL(test) cmocka_unit_test_setup_teardown(test, open_wall, shop_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BEHIND_A_WALL(test_before_the_first_command), BEHIND_A_WALL(test_one_more),
        BEHIND_A_WALL(test_not_into_local_boxes),     BEHIND_A_WALL(test_adopted),
        BEHIND_A_WALL(test_one_that_cannot_be_put),   BEHIND_A_WALL(test_box_that_goes_meanwhile),
    };

    return cmocka_run_group_tests_name("session dataset_push", tests, NULL, NULL);
}
