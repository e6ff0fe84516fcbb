/* test_change.c - folders made, names moved and removed, modes: beneath the shares only. */
#include "warden/file_fixture.h"

static void change(struct warden_fixture *fixture, enum frame_type type, uint32_t id,
                   const char *path, uint32_t mode, int error)
{
    give_path(fixture, type, id, path, mode);
    take_done(fixture, id, error);
}

static void test_mkdir(void **state)
{
    struct warden_fixture *fixture = *state;

    change(fixture, FRAME_MKDIR, 1, "/tmp/a/b/c", 06750, 0);
    assert_int_equal(mode_of(fixture, "tmp/a/b/c"), 0750); /* no set-id bit, whatever the umask */
    assert_int_equal(mode_of(fixture, "tmp/a"), 0755);
    change(fixture, FRAME_MKDIR, 2, "/tmp/a/b/c/", 0700, 0); /* it is there: fine, and left alone */
    assert_int_equal(mode_of(fixture, "tmp/a/b/c"), 0750);
    change(fixture, FRAME_MKDIR, 3, "/tmp/sticky", 01777, 0);
    assert_int_equal(mode_of(fixture, "tmp/sticky"), 01777);
    change(fixture, FRAME_MKDIR, 4, "/tmp/plain/", 0, 0);
    assert_int_equal(mode_of(fixture, "tmp/plain"), 0755);
    change(fixture, FRAME_MKDIR, 5, "/tmp", 0700, 0);
    change(fixture, FRAME_MKDIR, 6, "/tmp/a/../d", 0700, 0);
    assert_true(is_there(fixture, "tmp/d"));
}

static void test_mkdir_fails(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_write(&fixture->scratch, "tmp/file", "");
    scratch_folder(&fixture->scratch, "outside");
    assert_int_equal(symlinkat("../outside", fixture->tmp_fd, "link"), 0);
    assert_int_equal(symlinkat("../new", fixture->tmp_fd, "dangling"), 0);
    assert_int_equal(symlinkat("lost", fixture->tmp_fd, "nowhere"), 0);
    change(fixture, FRAME_MKDIR, 1, "/tmp/file", 0700, ENOTDIR);
    change(fixture, FRAME_MKDIR, 2, "/tmp/file/x", 0700, ENOTDIR);
    change(fixture, FRAME_MKDIR, 3, "/tmp/link/x", 0700, EXDEV);
    change(fixture, FRAME_MKDIR, 4, "/tmp/dangling", 0700, EXDEV);
    change(fixture, FRAME_MKDIR, 5, "/tmp/nowhere", 0700, EEXIST);
    change(fixture, FRAME_MKDIR, 6, "/tmp/../x", 0700, EXDEV);
    change(fixture, FRAME_MKDIR, 7, "/etc/x", 0700, EACCES);
    assert_int_equal(count_in(fixture, "outside"), 0);
    assert_false(is_there(fixture, "new"));
    assert_false(is_there(fixture, "x"));
}

static void move(struct warden_fixture *fixture, uint32_t id, const char *from, const char *to,
                 int error)
{
    give_move(fixture, id, from, to);
    take_done(fixture, id, error);
}

static void test_move(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_write(&fixture->scratch, "tmp/a", "a");
    scratch_write(&fixture->scratch, "tmp/b", "b");
    scratch_folder(&fixture->scratch, "tmp/empty");
    scratch_folder(&fixture->scratch, "tmp/full/x");
    scratch_folder(&fixture->scratch, "tmp/folder");
    move(fixture, 1, "/tmp/a", "/tmp/b", 0); /* a file is replaced */
    check_text(fixture, "tmp/b", "a");
    move(fixture, 2, "/tmp/b", "/tmp/folder/c", 0);
    check_text(fixture, "tmp/folder/c", "a");
    move(fixture, 3, "/tmp/folder/c", "/workspace/c", 0); /* one file system, here */
    check_text(fixture, "work/c", "a");
    move(fixture, 4, "/tmp/folder", "/tmp/empty", 0); /* so is an empty folder */
    move(fixture, 5, "/tmp/empty", "/tmp/full", ENOTEMPTY);
    move(fixture, 6, "/workspace/c", "/tmp/full", EISDIR);
    move(fixture, 7, "/tmp/full", "/workspace/c", ENOTDIR);
    move(fixture, 8, "/tmp/full", "/tmp/full/x/y", EINVAL);
    move(fixture, 9, "/tmp/full/", "/tmp/other/", 0);
    assert_true(is_there(fixture, "tmp/other/x"));
    move(fixture, 10, "/workspace/c", "/workspace/d/", ENOTDIR); /* a slash means a folder */
    move(fixture, 11, "/workspace/c/", "/workspace/d", ENOTDIR);
    move(fixture, 12, "/tmp/nothing", "/tmp/x", ENOENT);
    move(fixture, 13, "/workspace/c", "/tmp/no/folder", ENOENT);
}

static void test_move_stays_inside(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_write(&fixture->scratch, "tmp/a", "a");
    scratch_folder(&fixture->scratch, "outside");
    assert_int_equal(symlinkat("../outside", fixture->tmp_fd, "link"), 0);
    assert_int_equal(symlinkat("../canary", fixture->tmp_fd, "pointer"), 0);
    move(fixture, 1, "/tmp/a", "/tmp/link/a", EXDEV);
    move(fixture, 2, "/tmp/link/../canary", "/tmp/x", EXDEV);
    move(fixture, 3, "/tmp/../canary", "/tmp/x", EXDEV);
    move(fixture, 4, "/tmp/a", "/tmp/../a", EXDEV);
    move(fixture, 5, "/tmp/a", "/etc/a", EACCES);
    move(fixture, 6, "/etc/passwd", "/tmp/a", EACCES);
    move(fixture, 7, "", "/tmp/a", ENOENT);
    move(fixture, 8, "/tmp/a", "", ENOENT);
    move(fixture, 9, "/tmp", "/workspace/tmp", EBUSY);
    move(fixture, 10, "/tmp/a", "/workspace", EBUSY);
    move(fixture, 11, "/tmp/link/..", "/tmp/x", EINVAL);
    move(fixture, 12, "/tmp/pointer", "/tmp/moved", 0); /* the link itself */
    move(fixture, 13, "/tmp/a", "/tmp/moved", 0);       /* and it is replaced, not followed */
    check_text(fixture, "tmp/moved", "a");
    assert_int_equal(count_in(fixture, "outside"), 0);
}

static void test_chmod(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_write(&fixture->scratch, "tmp/file", "");
    scratch_folder(&fixture->scratch, "tmp/folder");
    assert_int_equal(symlinkat("file", fixture->tmp_fd, "inside"), 0);
    assert_int_equal(symlinkat("../canary", fixture->tmp_fd, "outside"), 0);
    assert_int_equal(mkfifoat(fixture->tmp_fd, "fifo", 0600), 0);
    change(fixture, FRAME_CHMOD, 1, "/tmp/file", 07755, 0);
    assert_int_equal(mode_of(fixture, "tmp/file"), 0755);
    change(fixture, FRAME_CHMOD, 2, "/tmp/folder/", 07700, 0);
    assert_int_equal(mode_of(fixture, "tmp/folder"), 01700);
    change(fixture, FRAME_CHMOD, 3, "/tmp/inside", 0600, 0);
    assert_int_equal(mode_of(fixture, "tmp/file"), 0600);
    change(fixture, FRAME_CHMOD, 4, "/tmp/file", 0, 0); /* closed, and opened again */
    change(fixture, FRAME_CHMOD, 5, "/tmp/file", 0644, 0);
    assert_int_equal(mode_of(fixture, "tmp/file"), 0644);
    change(fixture, FRAME_CHMOD, 6, "/tmp/fifo", 0666, 0);
    assert_int_equal(mode_of(fixture, "tmp/fifo"), 0666);
    change(fixture, FRAME_CHMOD, 7, "/tmp/outside", 0666, EXDEV);
    change(fixture, FRAME_CHMOD, 8, "/tmp/../canary", 0666, EXDEV);
    change(fixture, FRAME_CHMOD, 9, "/tmp/nothing", 0666, ENOENT);
    change(fixture, FRAME_CHMOD, 10, "/tmp", 0, EBUSY);
    change(fixture, FRAME_CHMOD, 11, "/etc/passwd", 0666, EACCES);
    assert_int_equal(mode_of(fixture, "canary"), 0644);
}

static void test_remove(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_write(&fixture->scratch, "tmp/file", "");
    scratch_folder(&fixture->scratch, "tmp/empty");
    scratch_folder(&fixture->scratch, "tmp/full/x");
    scratch_folder(&fixture->scratch, "outside/x");
    assert_int_equal(symlinkat("../outside", fixture->tmp_fd, "link"), 0);
    change(fixture, FRAME_REMOVE, 1, "/tmp/file/", 0, ENOTDIR);
    change(fixture, FRAME_REMOVE, 2, "/tmp/file", 0, 0);
    change(fixture, FRAME_REMOVE, 3, "/tmp/file", 0, ENOENT);
    change(fixture, FRAME_REMOVE, 4, "/tmp/full", 0, ENOTEMPTY);
    change(fixture, FRAME_REMOVE, 5, "/tmp/empty/", 0, 0);
    change(fixture, FRAME_REMOVE, 6, "/tmp/link/x", 0, EXDEV);
    change(fixture, FRAME_REMOVE, 7, "/tmp/link/", 0, ENOTDIR);
    change(fixture, FRAME_REMOVE, 8, "/tmp/link", 0, 0); /* the link itself */
    change(fixture, FRAME_REMOVE, 9, "/tmp/../canary", 0, EXDEV);
    change(fixture, FRAME_REMOVE, 10, "/tmp", 0, EBUSY);
    change(fixture, FRAME_REMOVE, 11, "/tmp/.", 0, EBUSY);
    change(fixture, FRAME_REMOVE, 12, "/tmp/full/.", 0, EINVAL);
    change(fixture, FRAME_REMOVE, 13, "/tmp/full/..", 0, EINVAL);
    change(fixture, FRAME_REMOVE, 14, "/etc/passwd", 0, EACCES);
    give_flags(fixture, FRAME_REMOVE, 15, "/tmp/full", 2);
    take_done(fixture, 15, EINVAL);
    give_flags(fixture, FRAME_REMOVE, 16, "/home/user/", REMOVE_TREE);
    take_done(fixture, 16, EBUSY);
    assert_true(is_there(fixture, "outside/x"));
    assert_int_equal(count_in(fixture, "tmp"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WARDEN(test_mkdir), WITH_WARDEN(test_mkdir_fails),       WITH_WARDEN(test_move),
        WITH_WARDEN(test_chmod), WITH_WARDEN(test_move_stays_inside), WITH_WARDEN(test_remove),
    };

    return cmocka_run_group_tests_name("warden/change", tests, NULL, NULL);
}
