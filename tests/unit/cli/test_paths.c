/* test_paths.c - where the daemon lives: folders by the environment, locks, the record of it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "scratch.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/paths.h"
#include "config/config.h"
#include "sys/owner.h"

static void expect_place(const struct config *config, char *const *env, const char *state,
                         const char *socket)
{
    CLEANUP(paths_free) struct paths paths = {0};
    struct error err = {0};

    assert_int_equal(paths_choose(&paths, config, env, NULL, NULL, &err), 0);
    assert_string_equal(paths.state, state);
    assert_string_equal(paths.socket, socket);
}
#define EXPECT_PATHS(config, state, socket, ...) \
    expect_place(&(config), (char *const[]){__VA_ARGS__, NULL}, state, socket)

static void test_folders_by_the_environment(void **state)
{
    struct config config = {0};

    (void)state;
    EXPECT_PATHS(config, "/h/.local/state/bailey", "/h/.local/state/bailey/run/engine.sock",
                 "HOME=/h");
    EXPECT_PATHS(config, "/s/bailey", "/r/bailey/engine.sock", "HOME=/h", "XDG_STATE_HOME=/s",
                 "XDG_RUNTIME_DIR=/r");
    /* As the specification of those folders has it: one that is not absolute is no folder. */
    EXPECT_PATHS(config, "/h/.local/state/bailey", "/h/.local/state/bailey/run/engine.sock",
                 "HOME=/h", "XDG_STATE_HOME=s", "XDG_RUNTIME_DIR=r");
    config.state = "/configured";
    EXPECT_PATHS(config, "/configured", "/configured/run/engine.sock", "HOME=/h",
                 "XDG_STATE_HOME=/s");
}

static void test_flags_win_and_long_names_are_told(void **state)
{
    CLEANUP(paths_free) struct paths paths = {0};
    struct config config = {0};
    char *const env[] = {"HOME=/h", NULL};
    struct error err = {0};
    char socket[200] = "/";

    (void)state;
    assert_int_equal(paths_choose(&paths, &config, env, "/a", "/b/c", &err), 0);
    assert_string_equal(paths.state, "/a");
    assert_string_equal(paths.socket, "/b/c");
    paths_free(&paths);
    memset(socket + 1, 's', sizeof(socket) - 2);
    assert_int_equal(paths_choose(&paths, &config, env, NULL, socket, &err), -ENAMETOOLONG);
    assert_non_null(strstr(err.text, "XDG_RUNTIME_DIR"));
    assert_int_equal(paths_choose(&paths, &config, env, "", NULL, &err), -EINVAL);
}

/* A place in a scratch folder, made. */
static void paths_in(const struct scratch *scratch, const char *state, const char *socket,
                     struct paths *ret)
{
    struct config config = {0};
    struct error err = {0};

    assert_int_equal(paths_choose(ret, &config, (char *const[]){NULL}, scratch_path(scratch, state),
                                  scratch_path(scratch, socket), &err),
                     0);
    if (paths_make(ret, &err) < 0)
        fail_msg("%s", err.text);
}

static void test_folders_are_private_or_refused(void **state)
{
    CLEANUP(paths_free) struct paths paths = {0};
    struct scratch scratch;
    struct error err = {0};
    struct stat status;

    (void)state;
    scratch_make(&scratch);
    paths_in(&scratch, "a/state", "b/run/sock", &paths);
    assert_int_equal(stat(paths.state, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(stat(scratch_path(&scratch, "b/run"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(chmod(paths.state, 0777), 0);
    assert_int_equal(paths_make(&paths, &err), -EPERM);
    assert_non_null(strstr(err.text, "others may write"));
    assert_int_equal(rmdir(paths.state), 0);
    assert_int_equal(symlink("/tmp", paths.state), 0); /* somebody else's, by a link */
    assert_true(paths_make(&paths, &err) < 0);
    scratch_remove(&scratch);
}

static void test_locks(void **state)
{
    CLEANUP(paths_free) struct paths paths = {0};
    CLEANUP(paths_free) struct paths other = {0};
    int fds[2] = {-1, -1}, more[2] = {-1, -1};
    struct scratch scratch;
    struct error err = {0};

    (void)state;
    scratch_make(&scratch);
    paths_in(&scratch, "state", "run/sock", &paths);
    paths_in(&scratch, "other", "run/sock", &other);
    assert_false(paths_is_locked(&paths));
    assert_int_equal(paths_lock(&paths, fds, &err), 0);
    assert_true(paths_is_locked(&paths));
    assert_true(paths_is_locked(&paths)); /* asking does not take it */
    assert_int_equal(paths_lock(&paths, more, &err), -EALREADY);
    assert_non_null(strstr(err.text, paths.socket));
    /* Another state folder with the same socket: refused, and nothing stays locked. */
    assert_int_equal(paths_check_owner(&other, &err), -EEXIST);
    assert_int_equal(paths_lock(&other, more, &err), -EALREADY);
    assert_non_null(strstr(err.text, paths.state));
    assert_false(paths_is_locked(&other));
    fd_closep(&fds[0]);
    fd_closep(&fds[1]);
    assert_false(paths_is_locked(&paths));
    assert_int_equal(paths_check_owner(&other, &err), 0);
    scratch_remove(&scratch);
}

static void test_the_running_daemons_socket_is_taken_over(void **state)
{
    CLEANUP(paths_free) struct paths paths = {0};
    CLEANUP(paths_free) struct paths client = {0};
    int fds[2] = {-1, -1};
    struct scratch scratch;
    struct error err = {0};

    (void)state;
    scratch_make(&scratch);
    paths_in(&scratch, "state", "mine/sock", &paths);
    paths_in(&scratch, "state", "run/sock", &client);
    assert_int_equal(paths_adopt(&client, &err), 0);
    assert_string_not_equal(client.socket, paths.socket); /* nobody is there */
    assert_int_equal(paths_lock(&paths, fds, &err), 0);
    assert_int_equal(paths_adopt(&client, &err), 0);
    assert_string_equal(client.socket, paths.socket);
    fd_closep(&fds[0]);
    fd_closep(&fds[1]);
    scratch_remove(&scratch);
}

static void write_record(const struct paths *paths, const char *text)
{
    char path[512];
    FILE *file;

    assert_int_equal(paths_path(paths, "daemon.json", path, sizeof(path), NULL), 0);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_the_record(void **state)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{\"pid\":1,\"socket\":\"/s\",\"started_at\":\"t\"}",
        "{\"pid\":-1,\"socket\":\"/s\",\"started_at\":\"t\"}",
        "{\"pid\":\"7\",\"socket\":\"/s\",\"started_at\":\"t\"}",
        "{\"pid\":7,\"started_at\":\"t\"}",
        "{\"pid\":7,\"socket\":\"/s\"",
    };
    CLEANUP(paths_free) struct paths paths = {0};
    struct daemon_record record;
    struct scratch scratch;
    struct error err = {0};

    (void)state;
    scratch_make(&scratch);
    paths_in(&scratch, "state", "run/sock", &paths);
    assert_int_equal(paths_read_record(&paths, &record, &err), -ENOENT);
    assert_int_equal(paths_write_record(&paths, getpid(), true, &err), 0);
    assert_int_equal(paths_read_record(&paths, &record, &err), 0);
    assert_int_equal(record.pid, getpid());
    assert_true(record.pid_namespace == owner_pid_namespace() && record.pid_namespace != 0);
    assert_string_equal(record.socket, paths.socket);
    assert_true(record.has_log);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        write_record(&paths, bad[i]);
        assert_int_equal(paths_read_record(&paths, &record, &err), -EINVAL);
    }
    /* In a container it may be the first process. Older versions wrote no namespace. */
    write_record(&paths, "{\"pid\":1,\"pid_namespace\":9,\"socket\":\"/s\",\"started_at\":\"t\"}");
    assert_int_equal(paths_read_record(&paths, &record, &err), 0);
    assert_true(record.pid == 1 && record.pid_namespace == 9);
    write_record(&paths, "{\"pid\":7,\"socket\":\"/s\",\"started_at\":\"t\"}");
    assert_int_equal(paths_read_record(&paths, &record, &err), 0);
    assert_true(record.pid == 7 && record.pid_namespace == 0);
    paths_remove_record(&paths);
    assert_int_equal(paths_read_record(&paths, &record, &err), -ENOENT);
    scratch_remove(&scratch);
}

/* Made once, kept in the folder, and another one in another folder. */
static void test_identity(void **state)
{
    CLEANUP(paths_free) struct paths paths = {0};
    CLEANUP(paths_free) struct paths other = {0};
    char first[ID_MAX], again[ID_MAX], second[ID_MAX];
    struct scratch scratch;
    struct error err = {0};

    (void)state;
    scratch_make(&scratch);
    paths_in(&scratch, "state", "run/sock", &paths);
    paths_in(&scratch, "other", "run/sock2", &other);
    assert_int_equal(paths_identity(&paths, first, &err), 0);
    assert_int_equal(paths_identity(&paths, again, &err), 0);
    assert_string_equal(first, again);
    assert_int_equal(paths_identity(&other, second, &err), 0);
    assert_string_not_equal(first, second);
    scratch_write(&scratch, "state/identity", ""); /* a disk that was full */
    assert_int_equal(paths_identity(&paths, again, &err), 0);
    assert_string_not_equal(first, again);
    scratch_remove(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_folders_by_the_environment),
        cmocka_unit_test(test_flags_win_and_long_names_are_told),
        cmocka_unit_test(test_folders_are_private_or_refused),
        cmocka_unit_test(test_locks),
        cmocka_unit_test(test_the_running_daemons_socket_is_taken_over),
        cmocka_unit_test(test_the_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
