/* test_notify.c - WATCH: what is told about a folder and a tree, and what never is. */
#include "warden/file_room.h"

/* Changes that came, as text: " +d name" for a created folder and the like. */
static const char signs[_CHANGE_KIND_MAX] = {'+', 'w', '-', '<', '>', 'm', '!'};

struct heard {
    char text[8192];
    unsigned count, lost;
};

static void add(struct heard *heard, const struct message_changed *changed)
{
    size_t used = strlen(heard->text);

    heard->count++;
    heard->lost += changed->kind == CHANGE_OVERFLOW;
    if (used + changed->path_length + 8 < sizeof(heard->text))
        snprintf(heard->text + used, sizeof(heard->text) - used, " %c%s%.*s", signs[changed->kind],
                 changed->is_folder ? "/" : "", (int)changed->path_length, changed->path);
}

/* All that the watch has to say; the errno of its DONE, or -1 while it goes on. */
static int hear(struct room *room, uint32_t id, struct heard *heard)
{
    struct message_changed changed;
    struct frame frame;
    uint32_t number;

    memset(heard, 0, sizeof(*heard));
    while (take_any(room, &frame)) {
        assert_int_equal(frame.id, id);
        if (frame.type == FRAME_DONE) {
            assert_int_equal(message_number_unpack(&frame, &number), 0);
            return (int)number;
        }
        assert_int_equal(frame.type, FRAME_CHANGED);
        assert_int_equal(message_changed_unpack(&frame, &changed), 0);
        add(heard, &changed);
    }
    return -1;
}

static void expect(struct room *room, uint32_t id, const char *text)
{
    struct heard heard;

    assert_int_equal(hear(room, id, &heard), -1);
    assert_string_equal(heard.text, text);
}

/* The same where the order is that of the names in a folder. */
static void expect_any_order(struct room *room, uint32_t id, unsigned count,
                             const char *const *parts)
{
    struct heard heard;

    assert_int_equal(hear(room, id, &heard), -1);
    assert_int_equal(heard.count, count);
    strcat(heard.text, " ");
    for (unsigned i = 0; i < count; i++)
        assert_non_null(strstr(heard.text, parts[i]));
}

static void watch(struct room *room, uint32_t id, const char *path, uint32_t flags)
{
    struct message_path entry;
    struct frame frame;

    give_flags(room, FRAME_WATCH, id, path, flags);
    frame = take(room, FRAME_ENTRY, id);
    assert_int_equal(message_path_unpack(&frame, &entry), 0);
    assert_int_equal(entry.path_length, 0);
    take_nothing(room);
}

static void stop(struct room *room, uint32_t id)
{
    give(room, FRAME_CANCEL, id, NULL, 0);
    take_done(room, id, ECANCELED);
}

static void make_file(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
}

static void test_folder(void **state)
{
    struct room *room = *state;

    scratch_folder(&room->scratch, "tmp/sub");
    watch(room, 1, "/tmp", 0);
    make_file(room->tmp_fd, "a");
    expect(room, 1, " +a wa");
    assert_int_equal(renameat(room->tmp_fd, "a", room->tmp_fd, "b"), 0);
    expect(room, 1, " <a >b");
    assert_int_equal(fchmodat(room->tmp_fd, "b", 0644, 0), 0);
    expect(room, 1, " mb");
    assert_int_equal(unlinkat(room->tmp_fd, "b", 0), 0);
    expect(room, 1, " -b");
    make_file(room->tmp_fd, "sub/below"); /* not looked into */
    assert_int_equal(mkdirat(room->tmp_fd, "new", 0700), 0);
    make_file(room->tmp_fd, "new/below");
    expect(room, 1, " +/new");
    stop(room, 1);
}

static void test_tree(void **state)
{
    struct room *room = *state;

    scratch_folder(&room->scratch, "tmp/a/b");
    watch(room, 1, "/tmp", WATCH_TREE);
    make_file(room->tmp_fd, "a/b/deep");
    expect(room, 1, " +a/b/deep wa/b/deep");
    assert_int_equal(mkdirat(room->tmp_fd, "a/new", 0700), 0);
    expect(room, 1, " +/a/new");
    make_file(room->tmp_fd, "a/new/file");
    expect(room, 1, " +a/new/file wa/new/file");
    assert_int_equal(renameat(room->tmp_fd, "a", room->tmp_fd, "z"), 0);
    expect_any_order(room, 1, 6,
                     (const char *const[]){" </a >/z ", " +/z/new ", " +z/new/file ", " +/z/b ",
                                           " +z/b/deep ", " "});
    make_file(room->tmp_fd, "z/b/again");
    expect(room, 1, " +z/b/again wz/b/again");
    stop(room, 1);
}

/* What came into a new folder before anybody looked is told all the same. */
static void test_new_folder_is_full(void **state)
{
    struct room *room = *state;
    struct heard heard;

    watch(room, 1, "/tmp", WATCH_TREE);
    scratch_folder(&room->scratch, "tmp/n/m");
    scratch_write(&room->scratch, "tmp/n/m/file", "");
    assert_int_equal(hear(room, 1, &heard), -1);
    assert_string_equal(heard.text, " +/n +/n/m +n/m/file");
    make_file(room->tmp_fd, "n/m/more");
    expect(room, 1, " +n/m/more wn/m/more");
    stop(room, 1);
}

/* A tree that moves out of sight is not followed there. */
static void test_folder_leaves(void **state)
{
    struct room *room = *state;
    int work_fd = room->sandbox.share_fd[SHARE_WORKSPACE];

    scratch_folder(&room->scratch, "tmp/a/b/c");
    watch(room, 1, "/tmp", WATCH_TREE);
    assert_int_equal(renameat(room->tmp_fd, "a/b", work_fd, "b"), 0);
    make_file(work_fd, "b/c/secret");
    make_file(work_fd, "b/secret");
    expect(room, 1, " </a/b");
    make_file(work_fd, "b/c/later");
    expect(room, 1, "");
    assert_int_equal(renameat(work_fd, "b", room->tmp_fd, "back"), 0);
    expect_any_order(room, 1, 5,
                     (const char *const[]){" >/back ", " +back/secret ", " +/back/c ",
                                           " +back/c/later ", " +back/c/secret "});
    stop(room, 1);
}

/* Links are told, and nothing about where they lead. */
static void test_links_are_not_followed(void **state)
{
    struct room *room = *state;
    int fd = open(scratch_folder(&room->scratch, "outside"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(symlinkat("../outside", room->tmp_fd, "old"), 0);
    watch(room, 1, "/tmp", WATCH_TREE);
    assert_int_equal(symlinkat("../outside", room->tmp_fd, "link"), 0);
    expect(room, 1, " +link");
    make_file(fd, "secret");
    expect(room, 1, "");
    give_flags(room, FRAME_WATCH, 2, "/tmp/link", 0);
    take_done(room, 2, EXDEV);
    give_flags(room, FRAME_WATCH, 3, "/tmp/../outside", WATCH_TREE);
    take_done(room, 3, EXDEV);
    /* A folder that became a link before it was looked into. */
    assert_int_equal(mkdirat(room->tmp_fd, "swap", 0700), 0);
    assert_int_equal(unlinkat(room->tmp_fd, "swap", AT_REMOVEDIR), 0);
    assert_int_equal(symlinkat("../outside", room->tmp_fd, "swap"), 0);
    expect(room, 1, " +/swap -/swap +swap");
    make_file(fd, "another");
    expect(room, 1, "");
    close(fd);
    stop(room, 1);
}

static void test_watch_fails(void **state)
{
    struct room *room = *state;

    scratch_write(&room->scratch, "tmp/file", "");
    give_flags(room, FRAME_WATCH, 1, "/tmp/file", 0);
    take_done(room, 1, ENOTDIR);
    give_flags(room, FRAME_WATCH, 2, "/tmp/nothing", WATCH_TREE);
    take_done(room, 2, ENOENT);
    give_flags(room, FRAME_WATCH, 3, "/etc", 0);
    take_done(room, 3, EACCES);
    give_flags(room, FRAME_WATCH, 4, "/tmp", 2);
    take_done(room, 4, EINVAL);
}

/* What is watched is what the name led to: when that goes or moves the watch is over. */
static void test_root_goes(void **state)
{
    struct room *room = *state;
    struct heard heard;

    scratch_folder(&room->scratch, "tmp/a");
    scratch_folder(&room->scratch, "tmp/b");
    watch(room, 1, "/tmp/a", WATCH_TREE);
    assert_int_equal(unlinkat(room->tmp_fd, "a", AT_REMOVEDIR), 0);
    assert_int_equal(hear(room, 1, &heard), ENOENT);
    watch(room, 2, "/tmp/b", 0);
    assert_int_equal(renameat(room->tmp_fd, "b", room->tmp_fd, "c"), 0);
    assert_int_equal(hear(room, 2, &heard), ENOENT);
}

/* Two watches over one folder have each its own names, and each its own end. */
static void test_two_watches(void **state)
{
    struct room *room = *state;
    struct message_changed changed;
    struct heard heard[2] = {0};
    struct frame frame;

    scratch_folder(&room->scratch, "tmp/a/b");
    watch(room, 1, "/tmp", WATCH_TREE);
    watch(room, 2, "/tmp/a/b", WATCH_TREE);
    make_file(room->tmp_fd, "a/b/x");
    while (take_any(room, &frame)) {
        assert_int_equal(message_changed_unpack(&frame, &changed), 0);
        add(&heard[frame.id - 1], &changed);
    }
    assert_string_equal(heard[0].text, " +a/b/x wa/b/x");
    assert_string_equal(heard[1].text, " +x wx");
    stop(room, 1);
    make_file(room->tmp_fd, "a/b/y");
    expect(room, 2, " +y wy");
    stop(room, 2);
    watch(room, 3, "/tmp", 0); /* and again from nothing */
    stop(room, 3);
}

/* A put is one event for who watches: its name appears. */
static void test_put_is_quiet(void **state)
{
    struct room *room = *state;

    watch(room, 1, "/tmp", WATCH_TREE);
    give_path(room, FRAME_PUT, 2, "/tmp/file", 0);
    give_data(room, 2, 0, "bytes");
    take_ack(room, 2, 5);
    expect(room, 1, "");
    give(room, FRAME_PUT_END, 2, NULL, 0);
    take(room, FRAME_DONE, 2);
    expect(room, 1, " >file");
    stop(room, 1);
}

/* A host that does not read: its changes collapse into one word, and memory stays bounded. */
static void test_slow_host(void **state)
{
    struct room *room = *state;
    struct heard heard;
    unsigned made = 0;

    watch(room, 1, "/tmp", 0);
    for (int i = 0; i < 60; i++) {
        for (int j = 0; j < 200; j++, made++) {
            char name[64];

            snprintf(name, sizeof(name), "a-file-with-a-name-of-some-length-%u", made);
            make_file(room->tmp_fd, name);
        }
        for (int j = 0; j < 8; j++)
            turn(room);
    }
    assert_int_equal(hear(room, 1, &heard), -1);
    assert_true(heard.count < 2 * made);
    assert_in_range(heard.lost, 1, 60);
    assert_non_null(strstr(heard.text, " +a-file-with-a-name-of-some-length-0 "));
    make_file(room->tmp_fd, "last");
    expect(room, 1, " +last wlast");
    stop(room, 1);
}

/* The kernel's own queue overflows while the warden does not come to read it. */
static void test_kernel_overflow(void **state)
{
    struct room *room = *state;
    struct heard heard;
    struct message_changed changed;
    struct frame frame;
    bool is_lost = false;

    watch(room, 1, "/tmp", WATCH_TREE);
    for (int i = 0; i < 10000; i++) { /* fs.inotify.max_queued_events is 16384 */
        make_file(room->tmp_fd, "a");
        assert_int_equal(unlinkat(room->tmp_fd, "a", 0), 0);
    }
    scratch_folder(&room->scratch, "tmp/unseen/folder");
    while (take_any(room, &frame)) {
        assert_int_equal(message_changed_unpack(&frame, &changed), 0);
        is_lost |= changed.kind == CHANGE_OVERFLOW;
    }
    if (!is_lost) {
        print_message("this kernel's inotify queue took it all\n");
        stop(room, 1);
        skip();
    }
    make_file(room->tmp_fd, "unseen/folder/file"); /* the folders were found all the same */
    assert_int_equal(hear(room, 1, &heard), -1);
    assert_string_equal(heard.text, " +unseen/folder/file wunseen/folder/file");
    stop(room, 1);
}

/* A tree with more folders than a box may watch cannot be watched. */
static void test_too_many_folders(void **state)
{
    struct room *room = *state;
    struct frame frame;

    for (unsigned i = 0; i < LIMIT_WATCHES - 1; i++) {
        char name[16];

        snprintf(name, sizeof(name), "%u", i);
        assert_int_equal(mkdirat(room->tmp_fd, name, 0700), 0);
    }
    give_flags(room, FRAME_WATCH, 1, "/tmp", WATCH_TREE);
    assert_true(take_any(room, &frame));
    if (frame.type == FRAME_DONE) {
        print_message("this host allows fewer inotify watches\n");
        skip();
    }
    assert_int_equal(frame.type, FRAME_ENTRY); /* with the folder itself it is just enough */
    assert_int_equal(mkdirat(room->tmp_fd, "one-more", 0700), 0);
    take_done(room, 1, ENOSPC);
    give_flags(room, FRAME_WATCH, 2, "/tmp", WATCH_TREE);
    take_done(room, 2, ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_ROOM(test_folder),
        IN_A_ROOM(test_tree),
        IN_A_ROOM(test_new_folder_is_full),
        IN_A_ROOM(test_folder_leaves),
        IN_A_ROOM(test_links_are_not_followed),
        IN_A_ROOM(test_watch_fails),
        IN_A_ROOM(test_root_goes),
        IN_A_ROOM(test_two_watches),
        IN_A_ROOM(test_put_is_quiet),
        IN_A_ROOM(test_slow_host),
        IN_A_ROOM(test_kernel_overflow),
        IN_A_ROOM(test_too_many_folders),
    };

    return cmocka_run_group_tests_name("warden/notify", tests, NULL, NULL);
}
