/* test_put.c - files into the box: atomic and in place, over links, with modes, and cancelled. */
#include "warden/file_room.h"

/* A whole put; its DONE is the caller's to take. */
static void put(struct room *room, uint32_t id, const char *path, struct message_path message,
                const char *text)
{
    give_message(room, FRAME_PUT, id, path, message);
    give_data(room, id, 0, text);
    give(room, FRAME_PUT_END, id, NULL, 0);
}

static void take_put(struct room *room, uint32_t id, size_t length, int error)
{
    take_ack(room, id, length);
    take_done(room, id, error);
}

static void test_put(void **state)
{
    struct room *room = *state;

    give_path(room, FRAME_PUT, 1, "/tmp/a/b", 0104751); /* only the plain bits count */
    give_data(room, 1, 0, "he");
    take_ack(room, 1, 2);
    assert_false(is_there(room, "tmp/a/b")); /* not yet */
    give_data(room, 1, 2, "llo");
    take_ack(room, 1, 5);
    give(room, FRAME_PUT_END, 1, NULL, 0);
    take_done(room, 1, 0);
    check_text(room, "tmp/a/b", "hello");
    assert_int_equal(mode_of(room, "tmp/a/b"), 0751);

    give_path(room, FRAME_PUT, 2, "/tmp/a/b", 0600); /* in the place of the first; empty */
    give(room, FRAME_PUT_END, 2, NULL, 0);
    take_done(room, 2, 0);
    check_text(room, "tmp/a/b", "");
    assert_int_equal(count_in(room, "tmp/a"), 1); /* nothing is left beside it */
}

/* Mode 0: as the file that is replaced, whatever was done to it meanwhile. */
static void test_put_keeps_the_mode(void **state)
{
    struct room *room = *state;

    put(room, 1, "/tmp/new", (struct message_path){0}, "1");
    take_put(room, 1, 1, 0);
    assert_int_equal(mode_of(room, "tmp/new"), 0644);
    give_path(room, FRAME_PUT, 2, "/tmp/new", 0);
    assert_int_equal(chmod(scratch_path(&room->scratch, "tmp/new"), 04740), 0);
    give_data(room, 2, 0, "2");
    give(room, FRAME_PUT_END, 2, NULL, 0);
    take_put(room, 2, 1, 0);
    check_text(room, "tmp/new", "2");
    assert_int_equal(mode_of(room, "tmp/new"), 0740); /* never anybody else's rights */
}

static void test_put_keeps_the_owner(void **state)
{
    struct room *room = *state;
    struct stat status;

    if (geteuid() != 0) {
        print_message("giving files away needs root\n");
        skip();
    }
    room->plan.has_split = true;
    room->plan.guest_id = 1000;
    put(room, 1, "/tmp/own", (struct message_path){0}, "1");
    take_put(room, 1, 1, 0);
    assert_int_equal(stat(scratch_path(&room->scratch, "tmp/own"), &status), 0);
    assert_true(status.st_uid == 1000 && status.st_gid == 1000);
    assert_int_equal(chown(scratch_path(&room->scratch, "tmp/own"), 7, 8), 0);
    put(room, 2, "/tmp/own", (struct message_path){0}, "2");
    take_put(room, 2, 1, 0);
    assert_int_equal(stat(scratch_path(&room->scratch, "tmp/own"), &status), 0);
    assert_true(status.st_uid == 7 && status.st_gid == 8);
    put(room, 3, "/tmp/in/place", (struct message_path){.flags = PUT_IN_PLACE}, "3");
    take_put(room, 3, 1, 0);
    assert_int_equal(stat(scratch_path(&room->scratch, "tmp/in/place"), &status), 0);
    assert_true(status.st_uid == 1000 && status.st_gid == 1000);
}

/* A link in the way is replaced, not written through. */
static void test_put_over_a_link(void **state)
{
    struct room *room = *state;

    assert_int_equal(symlinkat("../canary", room->tmp_fd, "link"), 0);
    put(room, 1, "/tmp/link", (struct message_path){.mode = 0600}, "in");
    take_put(room, 1, 2, 0);
    check_text(room, "tmp/link", "in");
    assert_int_equal(mode_of(room, "canary"), 0644);
}

/* A name that means a folder is said to be one before any byte comes. */
static void test_put_to_a_folder(void **state)
{
    static const char *const names[] = {"/tmp",        "/tmp/",      "/tmp/.",      "/tmp/new/",
                                        "/tmp/folder", "/tmp/new/.", "/tmp/new/..", "/tmp/.."};
    struct room *room = *state;
    uint32_t id = 1;

    scratch_folder(&room->scratch, "tmp/folder/full");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (uint32_t flags = 0; flags <= PUT_IN_PLACE; flags++, id++) {
            give_flags(room, FRAME_PUT, id, names[i], flags);
            take_done(room, id, EISDIR);
            give(room, FRAME_PUT_END, id, NULL, 0);
            take_nothing(room);
        }
    }
    assert_int_equal(count_in(room, "tmp"), 1);
}

static void test_put_fails(void **state)
{
    struct room *room = *state;

    give_path(room, FRAME_PUT, 2, "/etc/passwd", 0600);
    take_done(room, 2, EACCES);
    give_data(room, 2, 0, "on its way already");
    take_ack(room, 2, 18);
    give(room, FRAME_PUT_END, 2, NULL, 0);
    assert_null(room->warden.files);

    give_path(room, FRAME_PUT, 3, "/tmp/../x", 0600);
    take_done(room, 3, EXDEV);
    give(room, FRAME_PUT_END, 3, NULL, 0);
    give_path(room, FRAME_PUT, 4, "", 0600);
    take_done(room, 4, ENOENT);
    give(room, FRAME_PUT_END, 4, NULL, 0);
    give_message(room, FRAME_PUT, 5, "/tmp/x", (struct message_path){.offset = 1});
    take_done(room, 5, EINVAL); /* only in place */
    give(room, FRAME_PUT_END, 5, NULL, 0);
    give_flags(room, FRAME_PUT, 6, "/tmp/x", 4);
    take_done(room, 6, EINVAL);
    give(room, FRAME_PUT_END, 6, NULL, 0);
    assert_int_equal(count_in(room, "tmp"), 0);
}

static void test_put_new(void **state)
{
    struct room *room = *state;

    put(room, 1, "/tmp/a", (struct message_path){.flags = PUT_NEW}, "1");
    take_put(room, 1, 1, 0);
    give_flags(room, FRAME_PUT, 2, "/tmp/a", PUT_NEW);
    take_done(room, 2, EEXIST);
    give(room, FRAME_PUT_END, 2, NULL, 0);
    give_flags(room, FRAME_PUT, 3, "/tmp/b", PUT_NEW);
    scratch_write(&room->scratch, "tmp/b", "first"); /* somebody else was faster */
    give(room, FRAME_PUT_END, 3, NULL, 0);
    take_done(room, 3, EEXIST);
    check_text(room, "tmp/b", "first");
    give_flags(room, FRAME_PUT, 4, "/tmp/a", PUT_NEW | PUT_IN_PLACE);
    take_done(room, 4, EEXIST);
    give(room, FRAME_PUT_END, 4, NULL, 0);
    put(room, 5, "/tmp/c", (struct message_path){.flags = PUT_NEW | PUT_IN_PLACE}, "5");
    take_put(room, 5, 1, 0);
    check_text(room, "tmp/c", "5");
    assert_int_equal(symlinkat("../canary", room->tmp_fd, "link"), 0);
    give_flags(room, FRAME_PUT, 6, "/tmp/link", PUT_NEW | PUT_IN_PLACE);
    take_done(room, 6, EEXIST);
    give(room, FRAME_PUT_END, 6, NULL, 0);
}

static void test_put_in_place(void **state)
{
    struct room *room = *state;
    const uint32_t flags = PUT_IN_PLACE;

    put(room, 1, "/tmp/d/log", (struct message_path){.flags = flags}, "one");
    take_put(room, 1, 3, 0);
    check_text(room, "tmp/d/log", "one");
    assert_int_equal(mode_of(room, "tmp/d/log"), 0644);
    put(room, 2, "/tmp/d/log", (struct message_path){.flags = flags, .offset = 3}, " two");
    take_put(room, 2, 4, 0);
    check_text(room, "tmp/d/log", "one two");
    put(room, 3, "/tmp/d/log", (struct message_path){.flags = flags, .mode = 0600}, "ONE");
    take_put(room, 3, 3, 0);
    check_text(room, "tmp/d/log", "ONE two"); /* the rest of it stays */
    assert_int_equal(mode_of(room, "tmp/d/log"), 0600);
    assert_int_equal(count_in(room, "tmp/d"), 1);
}

static void test_put_in_place_through_links(void **state)
{
    struct room *room = *state;
    struct message_path in_place = {.flags = PUT_IN_PLACE};

    scratch_write(&room->scratch, "tmp/real", "....");
    scratch_folder(&room->scratch, "tmp/sub");
    assert_int_equal(symlinkat("../real", room->tmp_fd, "sub/inside"), 0);
    assert_int_equal(symlinkat("../canary", room->tmp_fd, "outside"), 0);
    assert_int_equal(symlinkat("/etc/passwd", room->tmp_fd, "absolute"), 0);
    assert_int_equal(symlinkat("nothing", room->tmp_fd, "dangling"), 0);
    put(room, 1, "/tmp/sub/inside", in_place, "in");
    take_put(room, 1, 2, 0);
    check_text(room, "tmp/real", "in..");
    give_message(room, FRAME_PUT, 2, "/tmp/outside", in_place);
    take_done(room, 2, EXDEV);
    give(room, FRAME_PUT_END, 2, NULL, 0);
    give_message(room, FRAME_PUT, 3, "/tmp/absolute", in_place);
    take_done(room, 3, EXDEV);
    give(room, FRAME_PUT_END, 3, NULL, 0);
    give_message(room, FRAME_PUT, 4, "/tmp/dangling", in_place);
    take_done(room, 4, ENOENT);
    give(room, FRAME_PUT_END, 4, NULL, 0);
    assert_false(is_there(room, "tmp/nothing"));
}

/* Nothing but a regular file is written to, and nothing holds the warden up. */
static void test_put_in_place_special(void **state)
{
    struct room *room = *state;
    struct message_path in_place = {.flags = PUT_IN_PLACE};
    int reader;

    assert_int_equal(mkfifoat(room->tmp_fd, "fifo", 0600), 0);
    give_message(room, FRAME_PUT, 1, "/tmp/fifo", in_place);
    take_done(room, 1, EINVAL);
    give(room, FRAME_PUT_END, 1, NULL, 0);
    reader = openat(room->tmp_fd, "fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    give_message(room, FRAME_PUT, 2, "/tmp/fifo", in_place);
    take_done(room, 2, EINVAL);
    give(room, FRAME_PUT_END, 2, NULL, 0);
    close(reader);
    give_message(room, FRAME_PUT, 3, "/tmp/far",
                 (struct message_path){.flags = PUT_IN_PLACE, .offset = UINT64_MAX});
    take_done(room, 3, EINVAL);
    give(room, FRAME_PUT_END, 3, NULL, 0);
    give_message(room, FRAME_PUT, 4, "/tmp/far",
                 (struct message_path){.flags = PUT_IN_PLACE, .offset = INT64_MAX - 1});
    give_data(room, 4, 0, "over the end");
    take(room, FRAME_DONE, 4);
    take_ack(room, 4, 12);
    give(room, FRAME_PUT_END, 4, NULL, 0);
}

static void test_cancel(void **state)
{
    struct room *room = *state;

    scratch_write(&room->scratch, "tmp/old", "old");
    give_path(room, FRAME_PUT, 1, "/tmp/old", 0);
    give_data(room, 1, 0, "half");
    take_ack(room, 1, 4);
    give(room, FRAME_CANCEL, 1, NULL, 0);
    take_done(room, 1, ECANCELED);
    check_text(room, "tmp/old", "old");
    assert_int_equal(count_in(room, "tmp"), 1);

    give_path(room, FRAME_PUT, 2, "/etc/x", 0);
    take_done(room, 2, EACCES);
    give(room, FRAME_CANCEL, 2, NULL, 0); /* DONE was sent: nothing more */
    take_nothing(room);
    give(room, FRAME_CANCEL, 3, NULL, 0); /* nobody */
    take_nothing(room);
}

/* A new host came: what the old one had begun is gone without a word. */
static void test_forget_all(void **state)
{
    struct room *room = *state;

    give_path(room, FRAME_PUT, 1, "/tmp/half", 0);
    give_path(room, FRAME_PUT, 2, "/etc/x", 0);
    take_done(room, 2, EACCES);
    give_flags(room, FRAME_WATCH, 3, "/tmp", WATCH_TREE);
    give_path(room, FRAME_LIST, 4, "/tmp", 0);
    file_forget_all(&room->warden);
    take_nothing(room);
    assert_int_equal(count_in(room, "tmp"), 0);
}

/* At most so many at once; a put that is too much may already have sent its bytes. */
static void test_too_many(void **state)
{
    struct room *room = *state;
    uint32_t id = 1;

    for (; id <= LIMIT_FILE_OPS; id++)
        give_path(room, FRAME_PUT, id, "/tmp/x", 0);
    take_nothing(room);
    give_path(room, FRAME_GET, id, "/tmp/x", 0);
    take_done(room, id, EAGAIN);
    put(room, ++id, "/tmp/y", (struct message_path){0}, "late");
    take(room, FRAME_DONE, id);
    take_ack(room, id, 4);
    take_nothing(room);
    give(room, FRAME_CANCEL, 1, NULL, 0);
    take_done(room, 1, ECANCELED);
    put(room, ++id, "/tmp/y", (struct message_path){0}, "now");
    take_put(room, id, 3, 0);
    check_text(room, "tmp/y", "now");
    file_forget_all(&room->warden);
    assert_int_equal(count_in(room, "tmp"), 1);
}

/* Datasets are a share of their own; without one /tmp/data is a folder of /tmp. */
static void test_data_share(void **state)
{
    struct room *room = *state;

    put(room, 1, "/tmp/data/x", (struct message_path){0}, "1");
    take_put(room, 1, 1, 0);
    check_text(room, "tmp/data/x", "1");
    room->sandbox.share_fd[SHARE_DATA] =
        open(scratch_folder(&room->scratch, "data"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put(room, 2, "/tmp/data/x", (struct message_path){0}, "2");
    take_put(room, 2, 1, 0);
    check_text(room, "tmp/data/x", "1");
    check_text(room, "data/x", "2");
    put(room, 3, "/tmp/database", (struct message_path){0}, "3");
    take_put(room, 3, 1, 0);
    check_text(room, "tmp/database", "3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_ROOM(test_put),
        IN_A_ROOM(test_put_keeps_the_mode),
        IN_A_ROOM(test_put_keeps_the_owner),
        IN_A_ROOM(test_put_over_a_link),
        IN_A_ROOM(test_put_to_a_folder),
        IN_A_ROOM(test_put_fails),
        IN_A_ROOM(test_put_new),
        IN_A_ROOM(test_put_in_place),
        IN_A_ROOM(test_put_in_place_through_links),
        IN_A_ROOM(test_put_in_place_special),
        IN_A_ROOM(test_cancel),
        IN_A_ROOM(test_forget_all),
        IN_A_ROOM(test_too_many),
        IN_A_ROOM(test_data_share),
    };

    return cmocka_run_group_tests_name("warden/put", tests, NULL, NULL);
}
