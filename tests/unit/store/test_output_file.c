/* test_output_file.c - files that come out of boxes: what is visible while one is written, and two
 * writers with the same pid in one folder. */
#include "scratch.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/str.h"
#include "store/output_file.h"

struct fixture {
    struct scratch scratch;
    int folder_fd;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    scratch_make(&fixture->scratch);
    fixture->folder_fd = open(fixture->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fixture->folder_fd >= 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    close(fixture->folder_fd);
    scratch_remove(&fixture->scratch);
    free(fixture);
    return 0;
}

static bool is_there(struct fixture *fixture, const char *name)
{
    struct stat status;

    return fstatat(fixture->folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

static void test_the_name_appears_with_the_whole_file(void **state)
{
    struct fixture *fixture = *state;
    struct output_writer writer = OUTPUT_WRITER_INIT;

    assert_int_equal(output_writer_begin(&writer, fixture->folder_fd, "a/b.csv", 0644), 0);
    assert_int_equal(output_writer_write(&writer, "1,2\n", 4), 0);
    assert_false(is_there(fixture, "a/b.csv"));
    assert_int_equal(output_writer_end(&writer), 0);
    assert_true(is_there(fixture, "a/b.csv"));
}

/* Processes of two containers have the same pid: the other one's file stays. */
static void test_a_writer_of_another_pid_namespace_keeps_its_file(void **state)
{
    struct fixture *fixture = *state;
    struct output_writer writer = OUTPUT_WRITER_INIT;
    char other[64], plain[64];
    struct stat own;

    assert_int_equal(stat("/proc/self/ns/pid", &own), 0);
    str_format(other, sizeof(other), ".bailey-out-%llu-%d", (unsigned long long)own.st_ino + 1,
               (int)getpid());
    str_format(plain, sizeof(plain), ".bailey-out-%d", (int)getpid());
    assert_true((close)(openat(fixture->folder_fd, other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) ==
                0);
    assert_true((close)(openat(fixture->folder_fd, plain, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) ==
                0);
    assert_int_equal(output_writer_begin(&writer, fixture->folder_fd, "c.csv", 0644), 0);
    assert_true(is_there(fixture, other));
    assert_true(is_there(fixture, plain));
    assert_true(is_there(fixture, writer.temporary));
    output_writer_cancel(&writer);
    assert_true(is_there(fixture, other));
}

/* A process that was killed left its temporary file: the next one of that number replaces it. */
static void test_what_a_killed_writer_left_is_replaced(void **state)
{
    struct fixture *fixture = *state;
    struct output_writer killed = OUTPUT_WRITER_INIT, next = OUTPUT_WRITER_INIT;

    assert_int_equal(output_writer_begin(&killed, fixture->folder_fd, "d.csv", 0644), 0);
    assert_int_equal(output_writer_begin(&next, fixture->folder_fd, "d.csv", 0644), 0);
    assert_int_equal(output_writer_end(&next), 0);
    assert_true(is_there(fixture, "d.csv"));
    output_writer_cancel(&killed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_name_appears_with_the_whole_file, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_writer_of_another_pid_namespace_keeps_its_file,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_a_killed_writer_left_is_replaced, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
