/* test_put.c - files into the box: atomic and in place, over links, with modes, and cancelled. */
#include "warden/file_fixture.h"

/* A whole put; its DONE is the caller's to take. */
static void put(struct warden_fixture *fixture, uint32_t id, const char *path,
                struct message_path message, const char *text)
{
    give_message(fixture, FRAME_PUT, id, path, message);
    give_data(fixture, id, 0, text);
    give(fixture, FRAME_PUT_END, id, NULL, 0);
}

static void take_put(struct warden_fixture *fixture, uint32_t id, size_t length, int error)
{
    take_ack(fixture, id, length);
    take_done(fixture, id, error);
}

static void test_put(void **state)
{
    struct warden_fixture *fixture = *state;

    give_path(fixture, FRAME_PUT, 1, "/tmp/a/b", 0104751); /* only the plain bits count */
    give_data(fixture, 1, 0, "he");
    take_ack(fixture, 1, 2);
    assert_false(is_there(fixture, "tmp/a/b")); /* not yet */
    give_data(fixture, 1, 2, "llo");
    take_ack(fixture, 1, 5);
    give(fixture, FRAME_PUT_END, 1, NULL, 0);
    take_done(fixture, 1, 0);
    check_text(fixture, "tmp/a/b", "hello");
    assert_int_equal(mode_of(fixture, "tmp/a/b"), 0751);

    give_path(fixture, FRAME_PUT, 2, "/tmp/a/b", 0600); /* in the place of the first; empty */
    give(fixture, FRAME_PUT_END, 2, NULL, 0);
    take_done(fixture, 2, 0);
    check_text(fixture, "tmp/a/b", "");
    assert_int_equal(count_in(fixture, "tmp/a"), 1); /* nothing is left beside it */
}

/* Mode 0: as the file that is replaced, whatever was done to it meanwhile. */
static void test_put_keeps_the_mode(void **state)
{
    struct warden_fixture *fixture = *state;

    put(fixture, 1, "/tmp/new", (struct message_path){0}, "1");
    take_put(fixture, 1, 1, 0);
    assert_int_equal(mode_of(fixture, "tmp/new"), 0644);
    give_path(fixture, FRAME_PUT, 2, "/tmp/new", 0);
    assert_int_equal(chmod(scratch_path(&fixture->scratch, "tmp/new"), 04740), 0);
    give_data(fixture, 2, 0, "2");
    give(fixture, FRAME_PUT_END, 2, NULL, 0);
    take_put(fixture, 2, 1, 0);
    check_text(fixture, "tmp/new", "2");
    assert_int_equal(mode_of(fixture, "tmp/new"), 0740); /* never anybody else's rights */
}

static void test_put_keeps_the_owner(void **state)
{
    struct warden_fixture *fixture = *state;
    struct stat status;

    if (geteuid() != 0) {
        print_message("giving files away needs root\n");
        skip();
    }
    fixture->plan.has_split = true;
    fixture->plan.guest_id = 1000;
    put(fixture, 1, "/tmp/own", (struct message_path){0}, "1");
    take_put(fixture, 1, 1, 0);
    assert_int_equal(stat(scratch_path(&fixture->scratch, "tmp/own"), &status), 0);
    assert_true(status.st_uid == 1000 && status.st_gid == 1000);
    assert_int_equal(chown(scratch_path(&fixture->scratch, "tmp/own"), 7, 8), 0);
    put(fixture, 2, "/tmp/own", (struct message_path){0}, "2");
    take_put(fixture, 2, 1, 0);
    assert_int_equal(stat(scratch_path(&fixture->scratch, "tmp/own"), &status), 0);
    assert_true(status.st_uid == 7 && status.st_gid == 8);
    put(fixture, 3, "/tmp/in/place", (struct message_path){.flags = PUT_IN_PLACE}, "3");
    take_put(fixture, 3, 1, 0);
    assert_int_equal(stat(scratch_path(&fixture->scratch, "tmp/in/place"), &status), 0);
    assert_true(status.st_uid == 1000 && status.st_gid == 1000);
}

/* A link in the way is replaced, not written through. */
static void test_put_over_a_link(void **state)
{
    struct warden_fixture *fixture = *state;

    assert_int_equal(symlinkat("../canary", fixture->tmp_fd, "link"), 0);
    put(fixture, 1, "/tmp/link", (struct message_path){.mode = 0600}, "in");
    take_put(fixture, 1, 2, 0);
    check_text(fixture, "tmp/link", "in");
    assert_int_equal(mode_of(fixture, "canary"), 0644);
}

/* A name that means a folder is said to be one before any byte comes. */
static void test_put_to_a_folder(void **state)
{
    static const char *const names[] = {"/tmp",        "/tmp/",      "/tmp/.",      "/tmp/new/",
                                        "/tmp/folder", "/tmp/new/.", "/tmp/new/..", "/tmp/.."};
    struct warden_fixture *fixture = *state;
    uint32_t id = 1;

    scratch_folder(&fixture->scratch, "tmp/folder/full");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (uint32_t flags = 0; flags <= PUT_IN_PLACE; flags++, id++) {
            give_flags(fixture, FRAME_PUT, id, names[i], flags);
            take_done(fixture, id, EISDIR);
            give(fixture, FRAME_PUT_END, id, NULL, 0);
            take_nothing(fixture);
        }
    }
    assert_int_equal(count_in(fixture, "tmp"), 1);
}

static void test_put_fails(void **state)
{
    struct warden_fixture *fixture = *state;

    give_path(fixture, FRAME_PUT, 2, "/etc/passwd", 0600);
    take_done(fixture, 2, EACCES);
    give_data(fixture, 2, 0, "on its way already");
    take_ack(fixture, 2, 18);
    give(fixture, FRAME_PUT_END, 2, NULL, 0);
    assert_null(fixture->warden.files);

    give_path(fixture, FRAME_PUT, 3, "/tmp/../x", 0600);
    take_done(fixture, 3, EXDEV);
    give(fixture, FRAME_PUT_END, 3, NULL, 0);
    give_path(fixture, FRAME_PUT, 4, "", 0600);
    take_done(fixture, 4, ENOENT);
    give(fixture, FRAME_PUT_END, 4, NULL, 0);
    give_message(fixture, FRAME_PUT, 5, "/tmp/x", (struct message_path){.offset = 1});
    take_done(fixture, 5, EINVAL); /* only in place */
    give(fixture, FRAME_PUT_END, 5, NULL, 0);
    give_flags(fixture, FRAME_PUT, 6, "/tmp/x", 4);
    take_done(fixture, 6, EINVAL);
    give(fixture, FRAME_PUT_END, 6, NULL, 0);
    assert_int_equal(count_in(fixture, "tmp"), 0);
}

static void test_put_new(void **state)
{
    struct warden_fixture *fixture = *state;

    put(fixture, 1, "/tmp/a", (struct message_path){.flags = PUT_NEW}, "1");
    take_put(fixture, 1, 1, 0);
    give_flags(fixture, FRAME_PUT, 2, "/tmp/a", PUT_NEW);
    take_done(fixture, 2, EEXIST);
    give(fixture, FRAME_PUT_END, 2, NULL, 0);
    give_flags(fixture, FRAME_PUT, 3, "/tmp/b", PUT_NEW);
    scratch_write(&fixture->scratch, "tmp/b", "first"); /* somebody else was faster */
    give(fixture, FRAME_PUT_END, 3, NULL, 0);
    take_done(fixture, 3, EEXIST);
    check_text(fixture, "tmp/b", "first");
    give_flags(fixture, FRAME_PUT, 4, "/tmp/a", PUT_NEW | PUT_IN_PLACE);
    take_done(fixture, 4, EEXIST);
    give(fixture, FRAME_PUT_END, 4, NULL, 0);
    put(fixture, 5, "/tmp/c", (struct message_path){.flags = PUT_NEW | PUT_IN_PLACE}, "5");
    take_put(fixture, 5, 1, 0);
    check_text(fixture, "tmp/c", "5");
    assert_int_equal(symlinkat("../canary", fixture->tmp_fd, "link"), 0);
    give_flags(fixture, FRAME_PUT, 6, "/tmp/link", PUT_NEW | PUT_IN_PLACE);
    take_done(fixture, 6, EEXIST);
    give(fixture, FRAME_PUT_END, 6, NULL, 0);
}

static void test_put_in_place(void **state)
{
    struct warden_fixture *fixture = *state;
    const uint32_t flags = PUT_IN_PLACE;

    put(fixture, 1, "/tmp/d/log", (struct message_path){.flags = flags}, "one");
    take_put(fixture, 1, 3, 0);
    check_text(fixture, "tmp/d/log", "one");
    assert_int_equal(mode_of(fixture, "tmp/d/log"), 0644);
    put(fixture, 2, "/tmp/d/log", (struct message_path){.flags = flags, .offset = 3}, " two");
    take_put(fixture, 2, 4, 0);
    check_text(fixture, "tmp/d/log", "one two");
    put(fixture, 3, "/tmp/d/log", (struct message_path){.flags = flags, .mode = 0600}, "ONE");
    take_put(fixture, 3, 3, 0);
    check_text(fixture, "tmp/d/log", "ONE two"); /* the rest of it stays */
    assert_int_equal(mode_of(fixture, "tmp/d/log"), 0600);
    assert_int_equal(count_in(fixture, "tmp/d"), 1);
}

static void test_put_in_place_through_links(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_path in_place = {.flags = PUT_IN_PLACE};

    scratch_write(&fixture->scratch, "tmp/real", "....");
    scratch_folder(&fixture->scratch, "tmp/sub");
    assert_int_equal(symlinkat("../real", fixture->tmp_fd, "sub/inside"), 0);
    assert_int_equal(symlinkat("../canary", fixture->tmp_fd, "outside"), 0);
    assert_int_equal(symlinkat("/etc/passwd", fixture->tmp_fd, "absolute"), 0);
    assert_int_equal(symlinkat("nothing", fixture->tmp_fd, "dangling"), 0);
    put(fixture, 1, "/tmp/sub/inside", in_place, "in");
    take_put(fixture, 1, 2, 0);
    check_text(fixture, "tmp/real", "in..");
    give_message(fixture, FRAME_PUT, 2, "/tmp/outside", in_place);
    take_done(fixture, 2, EXDEV);
    give(fixture, FRAME_PUT_END, 2, NULL, 0);
    give_message(fixture, FRAME_PUT, 3, "/tmp/absolute", in_place);
    take_done(fixture, 3, EXDEV);
    give(fixture, FRAME_PUT_END, 3, NULL, 0);
    give_message(fixture, FRAME_PUT, 4, "/tmp/dangling", in_place);
    take_done(fixture, 4, ENOENT);
    give(fixture, FRAME_PUT_END, 4, NULL, 0);
    assert_false(is_there(fixture, "tmp/nothing"));
}

/* Nothing but a regular file is written to, and nothing holds the warden up. */
static void test_put_in_place_special(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_path in_place = {.flags = PUT_IN_PLACE};
    int reader;

    assert_int_equal(mkfifoat(fixture->tmp_fd, "fifo", 0600), 0);
    give_message(fixture, FRAME_PUT, 1, "/tmp/fifo", in_place);
    take_done(fixture, 1, EINVAL);
    give(fixture, FRAME_PUT_END, 1, NULL, 0);
    reader = openat(fixture->tmp_fd, "fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    give_message(fixture, FRAME_PUT, 2, "/tmp/fifo", in_place);
    take_done(fixture, 2, EINVAL);
    give(fixture, FRAME_PUT_END, 2, NULL, 0);
    close(reader);
    give_message(fixture, FRAME_PUT, 3, "/tmp/far",
                 (struct message_path){.flags = PUT_IN_PLACE, .offset = UINT64_MAX});
    take_done(fixture, 3, EINVAL);
    give(fixture, FRAME_PUT_END, 3, NULL, 0);
    give_message(fixture, FRAME_PUT, 4, "/tmp/far",
                 (struct message_path){.flags = PUT_IN_PLACE, .offset = INT64_MAX - 1});
    give_data(fixture, 4, 0, "over the end");
    take(fixture, FRAME_DONE, 4);
    take_ack(fixture, 4, 12);
    give(fixture, FRAME_PUT_END, 4, NULL, 0);
}

static void test_cancel(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_write(&fixture->scratch, "tmp/old", "old");
    give_path(fixture, FRAME_PUT, 1, "/tmp/old", 0);
    give_data(fixture, 1, 0, "half");
    take_ack(fixture, 1, 4);
    give(fixture, FRAME_CANCEL, 1, NULL, 0);
    take_done(fixture, 1, ECANCELED);
    check_text(fixture, "tmp/old", "old");
    assert_int_equal(count_in(fixture, "tmp"), 1);

    give_path(fixture, FRAME_PUT, 2, "/etc/x", 0);
    take_done(fixture, 2, EACCES);
    give(fixture, FRAME_CANCEL, 2, NULL, 0); /* DONE was sent: nothing more */
    take_nothing(fixture);
    give(fixture, FRAME_CANCEL, 3, NULL, 0); /* nobody */
    take_nothing(fixture);
}

/* A new host came: what the old one had begun is gone without a word. */
static void test_forget_all(void **state)
{
    struct warden_fixture *fixture = *state;

    give_path(fixture, FRAME_PUT, 1, "/tmp/half", 0);
    give_path(fixture, FRAME_PUT, 2, "/etc/x", 0);
    take_done(fixture, 2, EACCES);
    give_flags(fixture, FRAME_WATCH, 3, "/tmp", WATCH_TREE);
    give_path(fixture, FRAME_LIST, 4, "/tmp", 0);
    file_forget_all(&fixture->warden);
    take_nothing(fixture);
    assert_int_equal(count_in(fixture, "tmp"), 0);
}

/* At most so many at once; a put that is too much may already have sent its bytes. */
static void test_too_many(void **state)
{
    struct warden_fixture *fixture = *state;
    uint32_t id = 1;

    for (; id <= LIMIT_FILE_OPS; id++)
        give_path(fixture, FRAME_PUT, id, "/tmp/x", 0);
    take_nothing(fixture);
    give_path(fixture, FRAME_GET, id, "/tmp/x", 0);
    take_done(fixture, id, EAGAIN);
    put(fixture, ++id, "/tmp/y", (struct message_path){0}, "late");
    take(fixture, FRAME_DONE, id);
    take_ack(fixture, id, 4);
    take_nothing(fixture);
    give(fixture, FRAME_CANCEL, 1, NULL, 0);
    take_done(fixture, 1, ECANCELED);
    put(fixture, ++id, "/tmp/y", (struct message_path){0}, "now");
    take_put(fixture, id, 3, 0);
    check_text(fixture, "tmp/y", "now");
    file_forget_all(&fixture->warden);
    assert_int_equal(count_in(fixture, "tmp"), 1);
}

/* Datasets are a share of their own; without one /tmp/data is a folder of /tmp. */
static void test_data_share(void **state)
{
    struct warden_fixture *fixture = *state;

    put(fixture, 1, "/tmp/data/x", (struct message_path){0}, "1");
    take_put(fixture, 1, 1, 0);
    check_text(fixture, "tmp/data/x", "1");
    fixture->sandbox.share_fd[SHARE_DATA] =
        open(scratch_folder(&fixture->scratch, "data"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put(fixture, 2, "/tmp/data/x", (struct message_path){0}, "2");
    take_put(fixture, 2, 1, 0);
    check_text(fixture, "tmp/data/x", "1");
    check_text(fixture, "data/x", "2");
    put(fixture, 3, "/tmp/database", (struct message_path){0}, "3");
    take_put(fixture, 3, 1, 0);
    check_text(fixture, "tmp/database", "3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WARDEN(test_put),
        WITH_WARDEN(test_put_keeps_the_mode),
        WITH_WARDEN(test_put_keeps_the_owner),
        WITH_WARDEN(test_put_over_a_link),
        WITH_WARDEN(test_put_to_a_folder),
        WITH_WARDEN(test_put_fails),
        WITH_WARDEN(test_put_new),
        WITH_WARDEN(test_put_in_place),
        WITH_WARDEN(test_put_in_place_through_links),
        WITH_WARDEN(test_put_in_place_special),
        WITH_WARDEN(test_cancel),
        WITH_WARDEN(test_forget_all),
        WITH_WARDEN(test_too_many),
        WITH_WARDEN(test_data_share),
    };

    return cmocka_run_group_tests_name("warden/put", tests, NULL, NULL);
}
