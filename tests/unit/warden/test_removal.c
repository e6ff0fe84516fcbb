/* test_removal.c - a tree is removed in small steps, whatever it looks like and whoever changes it.
 */
#include "warden/file_fixture.h"

#include <sys/mount.h>

#define STEPS_MAX 4096 /* names that may go in one turn; far below what these trees have */

static void remove_tree(struct warden_fixture *fixture, uint32_t id, const char *path, int error)
{
    give_flags(fixture, FRAME_REMOVE, id, path, REMOVE_TREE);
    take_done(fixture, id, error);
}

static void make_files(struct warden_fixture *fixture, const char *folder, unsigned count)
{
    int fd = open(scratch_folder(&fixture->scratch, folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (unsigned i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "%u", i);
        close(openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    }
    close(fd);
}

static void test_tree(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_folder(&fixture->scratch, "tmp/a/b/c");
    scratch_folder(&fixture->scratch, "tmp/a/d/e/f");
    scratch_folder(&fixture->scratch, "tmp/a/g");
    make_files(fixture, "tmp/a/b", 10);
    make_files(fixture, "tmp/a/d/e/f", 300); /* more than one look at the folder shows */
    assert_int_equal(mkfifoat(fixture->tmp_fd, "a/d/fifo", 0600), 0);
    scratch_write(&fixture->scratch, "tmp/beside", "");
    remove_tree(fixture, 1, "/tmp/a", 0);
    assert_int_equal(count_in(fixture, "tmp"), 1);
    scratch_write(&fixture->scratch, "tmp/file", "");
    remove_tree(fixture, 2, "/tmp/file", 0);
    scratch_folder(&fixture->scratch, "tmp/empty");
    remove_tree(fixture, 3, "/tmp/empty/", 0);
    remove_tree(fixture, 4, "/tmp/empty", ENOENT);
}

/* Links in the tree go; what they lead to stays. */
static void test_links_are_not_followed(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_folder(&fixture->scratch, "outside/x");
    scratch_write(&fixture->scratch, "outside/file", "");
    scratch_folder(&fixture->scratch, "tmp/a/b");
    assert_int_equal(symlinkat("../../../outside", fixture->tmp_fd, "a/b/link"), 0);
    assert_int_equal(symlinkat("../../canary", fixture->tmp_fd, "a/link"), 0);
    assert_int_equal(symlinkat("/", fixture->tmp_fd, "a/root"), 0);
    remove_tree(fixture, 1, "/tmp/a", 0);
    assert_int_equal(count_in(fixture, "tmp"), 0);
    assert_int_equal(count_in(fixture, "outside"), 2);
    assert_int_equal(symlinkat("../outside", fixture->tmp_fd, "link"), 0);
    remove_tree(fixture, 2, "/tmp/link", 0);
    assert_int_equal(count_in(fixture, "outside"), 2);
}

/* docs/security.md, attacks 10: deeper than any name, with few descriptors and in bounded steps. */
static void test_deep_tree(void **state)
{
    struct warden_fixture *fixture = *state;

    make_chain(fixture->tmp_fd, "d", 5000);
    give_flags(fixture, FRAME_REMOVE, 1, "/tmp/d", REMOVE_TREE);
    channel_flush(&fixture->warden);
    assert_non_null(fixture->warden.files); /* one turn is not enough for it */
    assert_true(fixture->warden.loop.is_busy);
    take_done(fixture, 1, 0);
    assert_int_equal(count_in(fixture, "tmp"), 0);
}

static void test_wide_tree(void **state)
{
    struct warden_fixture *fixture = *state;
    unsigned before, after;

    for (unsigned i = 0; i < 200; i++) {
        char name[64];

        snprintf(name, sizeof(name), "tmp/w/%u/x/y", i);
        scratch_folder(&fixture->scratch, name);
    }
    make_files(fixture, "tmp/w", 2 * STEPS_MAX);
    before = count_in(fixture, "tmp/w");
    give_flags(fixture, FRAME_REMOVE, 1, "/tmp/w", REMOVE_TREE);
    channel_flush(&fixture->warden);
    after = count_in(fixture, "tmp/w");
    assert_in_range(before - after, 1, STEPS_MAX);
    give_path(fixture, FRAME_STAT, 2, "/tmp/w", 0); /* frames are answered meanwhile */
    take(fixture, FRAME_ENTRY, 2);
    assert_non_null(fixture->warden.files);
    take(fixture, FRAME_DONE, 2);
    take_done(fixture, 1, 0);
    assert_int_equal(count_in(fixture, "tmp"), 0);
}

static void test_cancel(void **state)
{
    struct warden_fixture *fixture = *state;

    make_files(fixture, "tmp/w", 2 * STEPS_MAX);
    give_flags(fixture, FRAME_REMOVE, 1, "/tmp/w", REMOVE_TREE);
    channel_flush(&fixture->warden);
    give(fixture, FRAME_CANCEL, 1, NULL, 0);
    take_done(fixture, 1, ECANCELED);
    assert_true(count_in(fixture, "tmp/w") > 0);
    remove_tree(fixture, 2, "/tmp/w", 0);
}

/* Two levels are gone down; then somebody moves the folder that we are in. */
static void test_tree_is_moved_away(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_folder(&fixture->scratch, "tmp/a/b");
    make_files(fixture, "tmp/a/b/c", 2 * STEPS_MAX);
    scratch_folder(&fixture->scratch, "work/keep");
    scratch_write(&fixture->scratch, "work/keep/mine", "kept");
    give_flags(fixture, FRAME_REMOVE, 1, "/tmp/a", REMOVE_TREE);
    channel_flush(&fixture->warden);
    assert_int_equal(
        renameat(fixture->tmp_fd, "a/b/c", fixture->sandbox.share_fd[SHARE_WORKSPACE], "keep/c"),
        0);
    take_done(fixture, 1, 0);
    assert_false(is_there(fixture, "tmp/a"));
    check_text(fixture, "work/keep/mine", "kept"); /* we did not go up where it lies now */
    assert_true(is_there(fixture, "work/keep/c"));
}

/* Folders that nobody may enter are opened; needs an id for which modes count. */
static void test_closed_folders(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_folder(&fixture->scratch, "tmp/a/closed/x");
    scratch_write(&fixture->scratch, "tmp/a/closed/x/file", "");
    scratch_folder(&fixture->scratch, "tmp/a/fixed/x");
    assert_int_equal(chmod(scratch_path(&fixture->scratch, "tmp/a/closed/x"), 0), 0);
    assert_int_equal(chmod(scratch_path(&fixture->scratch, "tmp/a/closed"), 0), 0);
    assert_int_equal(chmod(scratch_path(&fixture->scratch, "tmp/a/fixed"), 0555), 0);
    assert_int_equal(chmod(scratch_path(&fixture->scratch, "tmp/a"), 0), 0);
    if (geteuid() == 0) {
        for (const char *const *name =
                 (const char *const[]){"", "tmp", "tmp/a", "tmp/a/closed", "tmp/a/closed/x",
                                       "tmp/a/closed/x/file", "tmp/a/fixed", "tmp/a/fixed/x", NULL};
             *name; name++)
            assert_int_equal(chown(scratch_path(&fixture->scratch, *name), 1000, 1000), 0);
        assert_int_equal(setegid(1000), 0);
        assert_int_equal(seteuid(1000), 0);
    }
    give_flags(fixture, FRAME_REMOVE, 1, "/tmp/a", REMOVE_TREE);
    for (int i = 0; i < 10; i++)
        turn(fixture);
    if (getuid() == 0) {
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(setegid(0), 0);
    }
    take_done(fixture, 1, 0);
    assert_int_equal(count_in(fixture, "tmp"), 0);
}

/* What cannot be removed ends it with the kernel's word, and its folders keep their places. */
static void test_what_cannot_go(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_folder(&fixture->scratch, "tmp/a/b/mount");
    if (mount("none", scratch_path(&fixture->scratch, "tmp/a/b/mount"), "tmpfs", 0, NULL) < 0) {
        print_message("mounting needs root\n");
        skip();
    }
    scratch_write(&fixture->scratch, "tmp/a/b/mount/file", "kept");
    remove_tree(fixture, 1, "/tmp/a", EBUSY);
    check_text(fixture, "tmp/a/b/mount/file", "kept");
    assert_int_equal(umount(scratch_path(&fixture->scratch, "tmp/a/b/mount")), 0);
    remove_tree(fixture, 2, "/tmp/a", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WARDEN(test_tree),           WITH_WARDEN(test_links_are_not_followed),
        WITH_WARDEN(test_deep_tree),      WITH_WARDEN(test_wide_tree),
        WITH_WARDEN(test_cancel),         WITH_WARDEN(test_tree_is_moved_away),
        WITH_WARDEN(test_closed_folders), WITH_WARDEN(test_what_cannot_go),
    };

    return cmocka_run_group_tests_name("warden/removal", tests, NULL, NULL);
}
