/* test_subid.c - ranges of ids in files of the form of /etc/subuid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys/subid.h"

static void write_file(char *path, const char *text)
{
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_true(dprintf(fd, "%s", text) >= 0);
    assert_int_equal(close(fd), 0);
}

static void test_finds_by_number_and_by_name(void **state)
{
    char path[] = "/tmp/test_subid_XXXXXX";
    unsigned first = 0, count = 0;

    (void)state;
    write_file(path, "# a comment\nnobody-here:1:5\n4000000:100000:65536\nbroken:x\n4000001:7:0\n"
                     "root:300000:10\nroot:400000:20\n");
    assert_true(subid_find(path, 4000000, &first, &count));
    assert_int_equal(first, 100000);
    assert_int_equal(count, 65536);
    assert_true(subid_find(path, 0, &first, &count)); /* by the name in /etc/passwd */
    assert_int_equal(first, 300000);
    assert_int_equal(count, 10);
    assert_false(subid_find(path, 4000001, &first, &count)); /* an empty range is none */
    assert_false(subid_find(path, 4000002, &first, &count));
    assert_int_equal(first, 300000); /* written only on success */
    unlink(path);
    assert_false(subid_find(path, 0, &first, &count));
}

/* Whatever this machine's files say: ids of our own map, that no user has. */
static void test_range_for_root(void **state)
{
    unsigned first = 0, count = 0, again = 0;

    (void)state;
    subid_find_for_root(1879048192, &first, &count);
    assert_true(first > 0 && count >= 2);
    assert_true(count <= UINT32_MAX - first);
    subid_find_for_root(1879048192, &again, &count);
    assert_int_equal(first, again);
}

static void test_helper_that_is_not_there(void **state)
{
    (void)state;
    assert_int_equal(subid_map("bailey-no-such-helper", getpid(), 0, 100000, 1), -ENOENT);
    assert_int_equal(subid_map("false", getpid(), 0, 100000, 1), -EPERM);
    assert_int_equal(subid_map("true", getpid(), 0, 100000, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_by_number_and_by_name),
        cmocka_unit_test(test_range_for_root),
        cmocka_unit_test(test_helper_that_is_not_there),
    };

    return cmocka_run_group_tests_name("sys/subid", tests, NULL, NULL);
}
