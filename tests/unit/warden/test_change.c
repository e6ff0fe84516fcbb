/* test_change.c - folders made, names moved and removed, modes: beneath the shares only. */
#include "warden/file_room.h"

static void change(struct room *room, enum frame_type type, uint32_t id, const char *path,
                   uint32_t mode, int error)
{
    give_path(room, type, id, path, mode);
    take_done(room, id, error);
}

static void test_mkdir(void **state)
{
    struct room *room = *state;

    change(room, FRAME_MKDIR, 1, "/tmp/a/b/c", 06750, 0);
    assert_int_equal(mode_of(room, "tmp/a/b/c"), 0750); /* no set-id bit, whatever the umask */
    assert_int_equal(mode_of(room, "tmp/a"), 0755);
    change(room, FRAME_MKDIR, 2, "/tmp/a/b/c/", 0700, 0); /* it is there: fine, and left alone */
    assert_int_equal(mode_of(room, "tmp/a/b/c"), 0750);
    change(room, FRAME_MKDIR, 3, "/tmp/sticky", 01777, 0);
    assert_int_equal(mode_of(room, "tmp/sticky"), 01777);
    change(room, FRAME_MKDIR, 4, "/tmp/plain/", 0, 0);
    assert_int_equal(mode_of(room, "tmp/plain"), 0755);
    change(room, FRAME_MKDIR, 5, "/tmp", 0700, 0);
    change(room, FRAME_MKDIR, 6, "/tmp/a/../d", 0700, 0);
    assert_true(is_there(room, "tmp/d"));
}

static void test_mkdir_fails(void **state)
{
    struct room *room = *state;

    scratch_write(&room->scratch, "tmp/file", "");
    scratch_folder(&room->scratch, "outside");
    assert_int_equal(symlinkat("../outside", room->tmp_fd, "link"), 0);
    assert_int_equal(symlinkat("../new", room->tmp_fd, "dangling"), 0);
    assert_int_equal(symlinkat("lost", room->tmp_fd, "nowhere"), 0);
    change(room, FRAME_MKDIR, 1, "/tmp/file", 0700, ENOTDIR);
    change(room, FRAME_MKDIR, 2, "/tmp/file/x", 0700, ENOTDIR);
    change(room, FRAME_MKDIR, 3, "/tmp/link/x", 0700, EXDEV);
    change(room, FRAME_MKDIR, 4, "/tmp/dangling", 0700, EXDEV);
    change(room, FRAME_MKDIR, 5, "/tmp/nowhere", 0700, EEXIST);
    change(room, FRAME_MKDIR, 6, "/tmp/../x", 0700, EXDEV);
    change(room, FRAME_MKDIR, 7, "/etc/x", 0700, EACCES);
    assert_int_equal(count_in(room, "outside"), 0);
    assert_false(is_there(room, "new"));
    assert_false(is_there(room, "x"));
}

static void move(struct room *room, uint32_t id, const char *from, const char *to, int error)
{
    give_move(room, id, from, to);
    take_done(room, id, error);
}

static void test_move(void **state)
{
    struct room *room = *state;

    scratch_write(&room->scratch, "tmp/a", "a");
    scratch_write(&room->scratch, "tmp/b", "b");
    scratch_folder(&room->scratch, "tmp/empty");
    scratch_folder(&room->scratch, "tmp/full/x");
    scratch_folder(&room->scratch, "tmp/folder");
    move(room, 1, "/tmp/a", "/tmp/b", 0); /* a file is replaced */
    check_text(room, "tmp/b", "a");
    move(room, 2, "/tmp/b", "/tmp/folder/c", 0);
    check_text(room, "tmp/folder/c", "a");
    move(room, 3, "/tmp/folder/c", "/workspace/c", 0); /* one file system, here */
    check_text(room, "work/c", "a");
    move(room, 4, "/tmp/folder", "/tmp/empty", 0); /* so is an empty folder */
    move(room, 5, "/tmp/empty", "/tmp/full", ENOTEMPTY);
    move(room, 6, "/workspace/c", "/tmp/full", EISDIR);
    move(room, 7, "/tmp/full", "/workspace/c", ENOTDIR);
    move(room, 8, "/tmp/full", "/tmp/full/x/y", EINVAL);
    move(room, 9, "/tmp/full/", "/tmp/other/", 0);
    assert_true(is_there(room, "tmp/other/x"));
    move(room, 10, "/workspace/c", "/workspace/d/", ENOTDIR); /* a slash means a folder */
    move(room, 11, "/workspace/c/", "/workspace/d", ENOTDIR);
    move(room, 12, "/tmp/nothing", "/tmp/x", ENOENT);
    move(room, 13, "/workspace/c", "/tmp/no/folder", ENOENT);
}

static void test_move_stays_inside(void **state)
{
    struct room *room = *state;

    scratch_write(&room->scratch, "tmp/a", "a");
    scratch_folder(&room->scratch, "outside");
    assert_int_equal(symlinkat("../outside", room->tmp_fd, "link"), 0);
    assert_int_equal(symlinkat("../canary", room->tmp_fd, "pointer"), 0);
    move(room, 1, "/tmp/a", "/tmp/link/a", EXDEV);
    move(room, 2, "/tmp/link/../canary", "/tmp/x", EXDEV);
    move(room, 3, "/tmp/../canary", "/tmp/x", EXDEV);
    move(room, 4, "/tmp/a", "/tmp/../a", EXDEV);
    move(room, 5, "/tmp/a", "/etc/a", EACCES);
    move(room, 6, "/etc/passwd", "/tmp/a", EACCES);
    move(room, 7, "", "/tmp/a", ENOENT);
    move(room, 8, "/tmp/a", "", ENOENT);
    move(room, 9, "/tmp", "/workspace/tmp", EBUSY);
    move(room, 10, "/tmp/a", "/workspace", EBUSY);
    move(room, 11, "/tmp/link/..", "/tmp/x", EINVAL);
    move(room, 12, "/tmp/pointer", "/tmp/moved", 0); /* the link itself */
    move(room, 13, "/tmp/a", "/tmp/moved", 0);       /* and it is replaced, not followed */
    check_text(room, "tmp/moved", "a");
    assert_int_equal(count_in(room, "outside"), 0);
}

static void test_chmod(void **state)
{
    struct room *room = *state;

    scratch_write(&room->scratch, "tmp/file", "");
    scratch_folder(&room->scratch, "tmp/folder");
    assert_int_equal(symlinkat("file", room->tmp_fd, "inside"), 0);
    assert_int_equal(symlinkat("../canary", room->tmp_fd, "outside"), 0);
    assert_int_equal(mkfifoat(room->tmp_fd, "fifo", 0600), 0);
    change(room, FRAME_CHMOD, 1, "/tmp/file", 07755, 0);
    assert_int_equal(mode_of(room, "tmp/file"), 0755);
    change(room, FRAME_CHMOD, 2, "/tmp/folder/", 07700, 0);
    assert_int_equal(mode_of(room, "tmp/folder"), 01700);
    change(room, FRAME_CHMOD, 3, "/tmp/inside", 0600, 0);
    assert_int_equal(mode_of(room, "tmp/file"), 0600);
    change(room, FRAME_CHMOD, 4, "/tmp/file", 0, 0); /* closed, and opened again */
    change(room, FRAME_CHMOD, 5, "/tmp/file", 0644, 0);
    assert_int_equal(mode_of(room, "tmp/file"), 0644);
    change(room, FRAME_CHMOD, 6, "/tmp/fifo", 0666, 0);
    assert_int_equal(mode_of(room, "tmp/fifo"), 0666);
    change(room, FRAME_CHMOD, 7, "/tmp/outside", 0666, EXDEV);
    change(room, FRAME_CHMOD, 8, "/tmp/../canary", 0666, EXDEV);
    change(room, FRAME_CHMOD, 9, "/tmp/nothing", 0666, ENOENT);
    change(room, FRAME_CHMOD, 10, "/tmp", 0, EBUSY);
    change(room, FRAME_CHMOD, 11, "/etc/passwd", 0666, EACCES);
    assert_int_equal(mode_of(room, "canary"), 0644);
}

static void test_remove(void **state)
{
    struct room *room = *state;

    scratch_write(&room->scratch, "tmp/file", "");
    scratch_folder(&room->scratch, "tmp/empty");
    scratch_folder(&room->scratch, "tmp/full/x");
    scratch_folder(&room->scratch, "outside/x");
    assert_int_equal(symlinkat("../outside", room->tmp_fd, "link"), 0);
    change(room, FRAME_REMOVE, 1, "/tmp/file/", 0, ENOTDIR);
    change(room, FRAME_REMOVE, 2, "/tmp/file", 0, 0);
    change(room, FRAME_REMOVE, 3, "/tmp/file", 0, ENOENT);
    change(room, FRAME_REMOVE, 4, "/tmp/full", 0, ENOTEMPTY);
    change(room, FRAME_REMOVE, 5, "/tmp/empty/", 0, 0);
    change(room, FRAME_REMOVE, 6, "/tmp/link/x", 0, EXDEV);
    change(room, FRAME_REMOVE, 7, "/tmp/link/", 0, ENOTDIR);
    change(room, FRAME_REMOVE, 8, "/tmp/link", 0, 0); /* the link itself */
    change(room, FRAME_REMOVE, 9, "/tmp/../canary", 0, EXDEV);
    change(room, FRAME_REMOVE, 10, "/tmp", 0, EBUSY);
    change(room, FRAME_REMOVE, 11, "/tmp/.", 0, EBUSY);
    change(room, FRAME_REMOVE, 12, "/tmp/full/.", 0, EINVAL);
    change(room, FRAME_REMOVE, 13, "/tmp/full/..", 0, EINVAL);
    change(room, FRAME_REMOVE, 14, "/etc/passwd", 0, EACCES);
    give_flags(room, FRAME_REMOVE, 15, "/tmp/full", 2);
    take_done(room, 15, EINVAL);
    give_flags(room, FRAME_REMOVE, 16, "/home/user/", REMOVE_TREE);
    take_done(room, 16, EBUSY);
    assert_true(is_there(room, "outside/x"));
    assert_int_equal(count_in(room, "tmp"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_ROOM(test_mkdir), IN_A_ROOM(test_mkdir_fails),       IN_A_ROOM(test_move),
        IN_A_ROOM(test_chmod), IN_A_ROOM(test_move_stays_inside), IN_A_ROOM(test_remove),
    };

    return cmocka_run_group_tests_name("warden/change", tests, NULL, NULL);
}
