/* test_folder.c - folders that somebody else filled, whatever he did, are gone afterwards. */
#include "scratch.h"

#include <errno.h>

#include "base/folder.h"

static int set_up(void **state)
{
    struct scratch *scratch = calloc(1, sizeof(*scratch));

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

static void test_remove(void **state)
{
    struct scratch *scratch = *state;
    char path[4352];

    scratch_folder(scratch, "tree/a/b");
    scratch_write(scratch, "tree/a/file", "x");
    scratch_write(scratch, "outside", "stays");
    assert_int_equal(symlink("../outside", scratch_path(scratch, "tree/link")), 0);
    assert_int_equal(symlink(scratch->path, scratch_path(scratch, "tree/up")), 0);
    assert_int_equal(mkfifo(scratch_path(scratch, "tree/fifo"), 0600), 0);
    assert_int_equal(chmod(scratch_path(scratch, "tree/a"), 0), 0);
    assert_int_equal(folder_remove(AT_FDCWD, scratch_path(scratch, "tree")), 0);
    assert_int_equal(access(scratch_path(scratch, "tree"), F_OK), -1);
    assert_true(scratch_read(scratch_path(scratch, "outside"), path, sizeof(path)));
    assert_string_equal(path, "stays");
    assert_int_equal(folder_remove(AT_FDCWD, scratch_path(scratch, "tree")), 0); /* none is fine */
    assert_int_equal(symlink(scratch->path, scratch_path(scratch, "top")), 0);
    assert_int_equal(folder_remove(AT_FDCWD, scratch_path(scratch, "top")), -ENOTDIR);
    assert_int_equal(folder_remove(AT_FDCWD, scratch_path(scratch, "outside")), -ENOTDIR);
}

/* Deeper than a path can say, and than there are descriptors. */
static void test_deep(void **state)
{
    struct scratch *scratch = *state;
    int fd = open(scratch_folder(scratch, "tree"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < 3000; i++) {
        int below;

        assert_int_equal(mkdirat(fd, "folder", 0755), 0);
        below = openat(fd, "folder", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = below;
    }
    close(fd);
    assert_int_equal(folder_remove(AT_FDCWD, scratch_path(scratch, "tree")), 0);
    assert_int_equal(access(scratch_path(scratch, "tree"), F_OK), -1);
}

static void test_sweep(void **state)
{
    struct scratch *scratch = *state;
    int fd = open(scratch->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    scratch_folder(scratch, ".build-a/x");
    scratch_folder(scratch, ".build-b");
    scratch_folder(scratch, "layer/x");
    folder_sweep(fd, ".build-");
    close(fd);
    assert_int_equal(access(scratch_path(scratch, ".build-a"), F_OK), -1);
    assert_int_equal(access(scratch_path(scratch, ".build-b"), F_OK), -1);
    assert_int_equal(access(scratch_path(scratch, "layer/x"), F_OK), 0);
}

/* Twice from the first entry on, and through no link. */
static void test_list(void **state)
{
    struct scratch *scratch = *state;
    int fd = open(scratch_folder(scratch, "tree"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    scratch_write(scratch, "tree/file", "x");
    for (int i = 0; i < 2; i++) {
        DIR *folder = folder_list(fd, ".");
        unsigned count = 0;

        assert_non_null(folder);
        while (readdir(folder))
            count++;
        assert_int_equal(count, 3); /* with "." and ".." */
        closedir(folder);
    }
    assert_int_equal(symlinkat(scratch->path, fd, "link"), 0);
    assert_null(folder_list(fd, "link"));
    assert_null(folder_list(fd, "missing"));
    assert_int_equal(errno, ENOENT);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_remove, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sweep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_list, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("base/folder", tests, NULL, NULL);
}
