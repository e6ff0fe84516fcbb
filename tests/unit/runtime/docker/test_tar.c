/* test_tar.c - archives that tar(1) reads. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/docker/inside.h"
#include "scratch.h"

static void test_tar_reads_it(void **state)
{
    struct buf tar = BUF_INIT(1 * MIB);
    struct scratch scratch;
    char command[256], big[1500];
    FILE *out;

    (void)state;
    memset(big, 'b', sizeof(big));
    assert_int_equal(tar_folder(&tar, "bin/"), 0);
    assert_int_equal(tar_file(&tar, "bin/a", 0555, "hello", 5), 0);
    assert_int_equal(tar_file(&tar, "bin/big", 0444, big, sizeof(big)), 0);
    assert_int_equal(tar_file(&tar, "empty", 0400, "", 0), 0);
    assert_int_equal(tar_end(&tar), 0);
    assert_int_equal(tar.length % 512, 0);
    scratch_make(&scratch);
    snprintf(command, sizeof(command),
             "cd %s && tar xpf - && test \"$(cat bin/a)\" = hello && test -x bin/a && "
             "test $(stat -c %%s-%%a bin/big) = 1500-444 && test ! -s empty",
             scratch.path);
    out = popen(command, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(tar.data, 1, tar.length, out), tar.length);
    assert_int_equal(pclose(out), 0);
    scratch_remove(&scratch);
    buf_free(&tar);
}

static void test_what_does_not_fit(void **state)
{
    struct buf tar = BUF_INIT(2000);
    char name[120], data[2000] = {0};

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    assert_int_equal(tar_file(&tar, name, 0444, "", 0), -ENAMETOOLONG);
    assert_int_equal(tar_file(&tar, "f", 0444, data, sizeof(data)), -EFBIG);
    buf_free(&tar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tar_reads_it),
        cmocka_unit_test(test_what_does_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
