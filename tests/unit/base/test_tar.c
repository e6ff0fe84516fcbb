/* test_tar.c - archives that tar(1) reads. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/tar.h"
#include "scratch.h"

static void test_tar_reads_it(void **state)
{
    struct buf tar = BUF_INIT(1 * MIB);
    struct scratch scratch;
    char command[512], big[1500], name[120];
    FILE *out;

    (void)state;
    memset(name, 'n', sizeof(name) - 1); /* longer than the field of a head */
    name[sizeof(name) - 1] = 0;
    memset(big, 'b', sizeof(big));
    assert_int_equal(tar_folder(&tar, "bin/"), 0);
    assert_int_equal(tar_file(&tar, "bin/a", 0555, "hello", 5), 0);
    assert_int_equal(tar_file(&tar, "bin/big", 0444, big, sizeof(big)), 0);
    assert_int_equal(tar_file(&tar, "empty", 0400, "", 0), 0);
    assert_int_equal(tar_link(&tar, "link", "bin/a"), 0);
    assert_int_equal(tar_file(&tar, name, 0444, "long", 4), 0);
    assert_int_equal(tar_link(&tar, "far", name), 0);
    assert_int_equal(tar_end(&tar), 0);
    assert_int_equal(tar.length % 512, 0);
    scratch_make(&scratch);
    snprintf(command, sizeof(command),
             "cd %s && tar xpf - && test \"$(cat bin/a)\" = hello && test -x bin/a && "
             "test $(stat -c %%s-%%a bin/big) = 1500-444 && test ! -s empty && "
             "test \"$(readlink link)\" = bin/a && test \"$(cat %s)\" = long && "
             "test \"$(cat far)\" = long",
             scratch.path, name);
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
    char data[2000] = {0};

    (void)state;
    assert_int_equal(tar_file(&tar, "f", 0444, data, sizeof(data)), -EFBIG);
    buf_free(&tar);
}

/* Ids above 2097151 come in a header of their own (pax), as those of --userns-remap may be. */
static void test_the_first_file(void **state)
{
    struct buf tar = BUF_INIT(64 * KIB);
    size_t length = 0;
    FILE *in = popen("cd /tmp && f=$(mktemp) && printf marked >$f && tar c --format=pax "
                     "--owner=:1200000000 --group=:1200000000 $f 2>/dev/null; rm $f",
                     "r");
    char data[4096];
    size_t count;

    (void)state;
    assert_non_null(in);
    while ((count = fread(data, 1, sizeof(data), in)) > 0)
        assert_int_equal(buf_append(&tar, data, count), 0);
    assert_int_equal(pclose(in), 0);
    assert_int_equal(tar.data[156], 'x');
    assert_memory_equal(tar_first(&tar, &length), "marked", 6);
    assert_int_equal(length, 6);
    for (size_t cut = 0; cut < tar.length; cut++) { /* wherever it ends, nobody reads behind it */
        char *exact = malloc(cut ? cut : 1);
        struct buf part = {.data = exact, .length = cut, .maximum = cut};

        memcpy(exact, tar.data, cut);
        if (tar_first(&part, &length))
            assert_true(length == 6 && cut >= 3 * 512 + 6);
        free(exact);
    }
    buf_free(&tar);
}

static void test_no_file_at_all(void **state)
{
    struct buf tar = BUF_INIT(8 * KIB);
    size_t length;

    (void)state;
    assert_null(tar_first(&tar, &length));
    assert_int_equal(tar_folder(&tar, "bin/"), 0);
    assert_int_equal(tar_end(&tar), 0);
    assert_null(tar_first(&tar, &length));
    buf_clear(&tar);
    assert_int_equal(tar_file(&tar, "f", 0444, "x", 1), 0);
    memcpy(tar.data + 124, "77777777777", 11); /* its size: more than there is */
    assert_null(tar_first(&tar, &length));
    tar.data[156] = 'x';
    assert_null(tar_first(&tar, &length));
    memset(tar.data + 124, 0xff, 12);
    assert_null(tar_first(&tar, &length));
    buf_free(&tar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tar_reads_it),
        cmocka_unit_test(test_what_does_not_fit),
        cmocka_unit_test(test_the_first_file),
        cmocka_unit_test(test_no_file_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
