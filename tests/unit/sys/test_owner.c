/* test_owner.c - names of makers, and locks that say whether a maker is gone. */
#include "scratch.h"

#include <errno.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "sys/owner.h"

static int set_up(void **state)
{
    struct scratch *scratch = calloc(1, sizeof(*scratch));

    if (!scratch)
        return -1;
    scratch_make(scratch);
    *state = scratch;
    return 0;
}

static int tear_down(void **state)
{
    scratch_remove(*state);
    free(*state);
    return 0;
}

static void test_name(void **state)
{
    char name[OWNER_MAX], expected[64], link[64] = "";

    (void)state;
    owner_name(name);
    assert_true(readlink("/proc/self/ns/pid", link, sizeof(link) - 1) > 0); /* "pid:[4026531836]" */
    snprintf(expected, sizeof(expected), "n%llu-%d", strtoull(link + 5, NULL, 10), (int)getpid());
    assert_string_equal(name, expected);
    assert_string_equal(owner_skip_name(name), "");
}

static void test_skip_name(void **state)
{
    static const struct {
        const char *text, *rest; /* NULL: no name */
    } rows[] = {
        {"n1-2-0", "-0"}, {"n4026531836-4194304-engine", "-engine"},
        {"n0-1", ""},     {"n1-2x", "x"},
        {"", NULL},       {"n", NULL},
        {"n-", NULL},     {"n1", NULL},
        {"n1-", NULL},    {"n1-x", NULL},
        {"n-1-2", NULL},  {"1-2", NULL},
        {"x1-2", NULL},   {"n 1-2", NULL},
        {"n1--2", NULL},  {"n+1-2", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *rest = owner_skip_name(rows[i].text);

        if (rows[i].rest)
            assert_string_equal(rest, rows[i].rest);
        else
            assert_null(rest);
    }
}

/* A child holds it; `end` is written to when it may go, and it dies without letting go. */
static pid_t hold_in_child(const char *path, int *ret_end)
{
    int ready[2], end[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(end), 0);
    pid = fork();
    if (pid == 0) {
        int fd;

        close(end[1]);
        byte = owner_hold(path, &fd) == 0 ? 'y' : 'n';
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        (void)!read(end[0], &byte, 1);
        kill(getpid(), SIGKILL);
    }
    close(ready[1]);
    close(end[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    close(ready[0]);
    *ret_end = end[1];
    return pid;
}

static void test_a_killed_maker_is_gone(void **state)
{
    struct scratch *scratch = *state;
    const char *path = scratch_folder(scratch, "made");
    int end, fd = -1, dir_fd = open(scratch->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), second = -1;
    pid_t pid = hold_in_child(path, &end);

    assert_int_equal(owner_inherit(dir_fd, "made", &fd), -EAGAIN);
    assert_int_equal(fd, -1);
    close(end);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(owner_inherit(dir_fd, "made", &fd), 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(owner_inherit(dir_fd, "made", &second), -EAGAIN); /* one sweeper at a time */
    assert_int_equal(owner_hold(path, &second), -EAGAIN);              /* nor a maker beside it */
    close(fd);
    close(dir_fd);
}

static void test_what_cannot_be_held(void **state)
{
    struct scratch *scratch = *state;
    int fd = -1, dir_fd = open(scratch->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(owner_hold(scratch_path(scratch, "gone"), &fd), -EAGAIN); /* swept meanwhile */
    assert_int_equal(owner_inherit(dir_fd, "gone", &fd), -ENOENT);
    scratch_write(scratch, "file", "");
    assert_int_equal(owner_inherit(dir_fd, "file", &fd), -ENOTDIR);
    scratch_folder(scratch, "target");
    assert_int_equal(symlinkat("target", dir_fd, "link"), 0);
    assert_true(owner_inherit(dir_fd, "link", &fd) < 0); /* not followed */
    assert_int_equal(fd, -1);
    close(dir_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_skip_name),
        cmocka_unit_test_setup_teardown(test_a_killed_maker_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_held, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("sys/owner", tests, NULL, NULL);
}
