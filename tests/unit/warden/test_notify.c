/* test_notify.c - WATCH: what is told about a folder and a tree, and what never is. */
#include "warden/file_fixture.h"

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
static int hear(struct warden_fixture *fixture, uint32_t id, struct heard *heard)
{
    struct message_changed changed;
    struct frame frame;
    uint32_t number;

    memset(heard, 0, sizeof(*heard));
    while (take_any(fixture, &frame)) {
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

static void expect(struct warden_fixture *fixture, uint32_t id, const char *text)
{
    struct heard heard;

    assert_int_equal(hear(fixture, id, &heard), -1);
    assert_string_equal(heard.text, text);
}

/* The same where the order is that of the names in a folder. */
static void expect_any_order(struct warden_fixture *fixture, uint32_t id, unsigned count,
                             const char *const *parts)
{
    struct heard heard;

    assert_int_equal(hear(fixture, id, &heard), -1);
    assert_int_equal(heard.count, count);
    strcat(heard.text, " ");
    for (unsigned i = 0; i < count; i++)
        assert_non_null(strstr(heard.text, parts[i]));
}

static void watch(struct warden_fixture *fixture, uint32_t id, const char *path, uint32_t flags)
{
    struct message_path entry;
    struct frame frame;

    give_flags(fixture, FRAME_WATCH, id, path, flags);
    frame = take(fixture, FRAME_ENTRY, id);
    assert_int_equal(message_path_unpack(&frame, &entry), 0);
    assert_int_equal(entry.path_length, 0);
    take_nothing(fixture);
}

static void stop(struct warden_fixture *fixture, uint32_t id)
{
    give(fixture, FRAME_CANCEL, id, NULL, 0);
    take_done(fixture, id, ECANCELED);
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
    struct warden_fixture *fixture = *state;

    scratch_folder(&fixture->scratch, "tmp/sub");
    watch(fixture, 1, "/tmp", 0);
    make_file(fixture->tmp_fd, "a");
    expect(fixture, 1, " +a wa");
    assert_int_equal(renameat(fixture->tmp_fd, "a", fixture->tmp_fd, "b"), 0);
    expect(fixture, 1, " <a >b");
    assert_int_equal(fchmodat(fixture->tmp_fd, "b", 0644, 0), 0);
    expect(fixture, 1, " mb");
    assert_int_equal(unlinkat(fixture->tmp_fd, "b", 0), 0);
    expect(fixture, 1, " -b");
    make_file(fixture->tmp_fd, "sub/below"); /* not looked into */
    assert_int_equal(mkdirat(fixture->tmp_fd, "new", 0700), 0);
    make_file(fixture->tmp_fd, "new/below");
    expect(fixture, 1, " +/new");
    stop(fixture, 1);
}

static void test_tree(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_folder(&fixture->scratch, "tmp/a/b");
    watch(fixture, 1, "/tmp", WATCH_TREE);
    make_file(fixture->tmp_fd, "a/b/deep");
    expect(fixture, 1, " +a/b/deep wa/b/deep");
    assert_int_equal(mkdirat(fixture->tmp_fd, "a/new", 0700), 0);
    expect(fixture, 1, " +/a/new");
    make_file(fixture->tmp_fd, "a/new/file");
    expect(fixture, 1, " +a/new/file wa/new/file");
    assert_int_equal(renameat(fixture->tmp_fd, "a", fixture->tmp_fd, "z"), 0);
    expect_any_order(fixture, 1, 6,
                     (const char *const[]){" </a >/z ", " +/z/new ", " +z/new/file ", " +/z/b ",
                                           " +z/b/deep ", " "});
    make_file(fixture->tmp_fd, "z/b/again");
    expect(fixture, 1, " +z/b/again wz/b/again");
    stop(fixture, 1);
}

/* What came into a new folder before anybody looked is told all the same. */
static void test_new_folder_is_full(void **state)
{
    struct warden_fixture *fixture = *state;
    struct heard heard;

    watch(fixture, 1, "/tmp", WATCH_TREE);
    scratch_folder(&fixture->scratch, "tmp/n/m");
    scratch_write(&fixture->scratch, "tmp/n/m/file", "");
    assert_int_equal(hear(fixture, 1, &heard), -1);
    assert_string_equal(heard.text, " +/n +/n/m +n/m/file");
    make_file(fixture->tmp_fd, "n/m/more");
    expect(fixture, 1, " +n/m/more wn/m/more");
    stop(fixture, 1);
}

/* A tree that moves out of sight is not followed there. */
static void test_folder_leaves(void **state)
{
    struct warden_fixture *fixture = *state;
    int work_fd = fixture->sandbox.share_fd[SHARE_WORKSPACE];

    scratch_folder(&fixture->scratch, "tmp/a/b/c");
    watch(fixture, 1, "/tmp", WATCH_TREE);
    assert_int_equal(renameat(fixture->tmp_fd, "a/b", work_fd, "b"), 0);
    make_file(work_fd, "b/c/secret");
    make_file(work_fd, "b/secret");
    expect(fixture, 1, " </a/b");
    make_file(work_fd, "b/c/later");
    expect(fixture, 1, "");
    assert_int_equal(renameat(work_fd, "b", fixture->tmp_fd, "back"), 0);
    expect_any_order(fixture, 1, 5,
                     (const char *const[]){" >/back ", " +back/secret ", " +/back/c ",
                                           " +back/c/later ", " +back/c/secret "});
    stop(fixture, 1);
}

/* Links are told, and nothing about where they lead. */
static void test_links_are_not_followed(void **state)
{
    struct warden_fixture *fixture = *state;
    int fd = open(scratch_folder(&fixture->scratch, "outside"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(symlinkat("../outside", fixture->tmp_fd, "old"), 0);
    watch(fixture, 1, "/tmp", WATCH_TREE);
    assert_int_equal(symlinkat("../outside", fixture->tmp_fd, "link"), 0);
    expect(fixture, 1, " +link");
    make_file(fd, "secret");
    expect(fixture, 1, "");
    give_flags(fixture, FRAME_WATCH, 2, "/tmp/link", 0);
    take_done(fixture, 2, EXDEV);
    give_flags(fixture, FRAME_WATCH, 3, "/tmp/../outside", WATCH_TREE);
    take_done(fixture, 3, EXDEV);
    /* A folder that became a link before it was looked into. */
    assert_int_equal(mkdirat(fixture->tmp_fd, "swap", 0700), 0);
    assert_int_equal(unlinkat(fixture->tmp_fd, "swap", AT_REMOVEDIR), 0);
    assert_int_equal(symlinkat("../outside", fixture->tmp_fd, "swap"), 0);
    expect(fixture, 1, " +/swap -/swap +swap");
    make_file(fd, "another");
    expect(fixture, 1, "");
    close(fd);
    stop(fixture, 1);
}

static void test_watch_fails(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_write(&fixture->scratch, "tmp/file", "");
    give_flags(fixture, FRAME_WATCH, 1, "/tmp/file", 0);
    take_done(fixture, 1, ENOTDIR);
    give_flags(fixture, FRAME_WATCH, 2, "/tmp/nothing", WATCH_TREE);
    take_done(fixture, 2, ENOENT);
    give_flags(fixture, FRAME_WATCH, 3, "/etc", 0);
    take_done(fixture, 3, EACCES);
    give_flags(fixture, FRAME_WATCH, 4, "/tmp", 2);
    take_done(fixture, 4, EINVAL);
}

/* What is watched is what the name led to: when that goes or moves the watch is over. */
static void test_root_goes(void **state)
{
    struct warden_fixture *fixture = *state;
    struct heard heard;

    scratch_folder(&fixture->scratch, "tmp/a");
    scratch_folder(&fixture->scratch, "tmp/b");
    watch(fixture, 1, "/tmp/a", WATCH_TREE);
    assert_int_equal(unlinkat(fixture->tmp_fd, "a", AT_REMOVEDIR), 0);
    assert_int_equal(hear(fixture, 1, &heard), ENOENT);
    watch(fixture, 2, "/tmp/b", 0);
    assert_int_equal(renameat(fixture->tmp_fd, "b", fixture->tmp_fd, "c"), 0);
    assert_int_equal(hear(fixture, 2, &heard), ENOENT);
}

/* Two watches over one folder have each its own names, and each its own end. */
static void test_two_watches(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_changed changed;
    struct heard heard[2] = {0};
    struct frame frame;

    scratch_folder(&fixture->scratch, "tmp/a/b");
    watch(fixture, 1, "/tmp", WATCH_TREE);
    watch(fixture, 2, "/tmp/a/b", WATCH_TREE);
    make_file(fixture->tmp_fd, "a/b/x");
    while (take_any(fixture, &frame)) {
        assert_int_equal(message_changed_unpack(&frame, &changed), 0);
        add(&heard[frame.id - 1], &changed);
    }
    assert_string_equal(heard[0].text, " +a/b/x wa/b/x");
    assert_string_equal(heard[1].text, " +x wx");
    stop(fixture, 1);
    make_file(fixture->tmp_fd, "a/b/y");
    expect(fixture, 2, " +y wy");
    stop(fixture, 2);
    watch(fixture, 3, "/tmp", 0); /* and again from nothing */
    stop(fixture, 3);
}

/* A put is one event for who watches: its name appears. */
static void test_put_is_quiet(void **state)
{
    struct warden_fixture *fixture = *state;

    watch(fixture, 1, "/tmp", WATCH_TREE);
    give_path(fixture, FRAME_PUT, 2, "/tmp/file", 0);
    give_data(fixture, 2, 0, "bytes");
    take_ack(fixture, 2, 5);
    expect(fixture, 1, "");
    give(fixture, FRAME_PUT_END, 2, NULL, 0);
    take(fixture, FRAME_DONE, 2);
    expect(fixture, 1, " >file");
    stop(fixture, 1);
}

/* A host that does not read: its changes collapse into one word, and memory stays bounded. */
static void test_slow_host(void **state)
{
    struct warden_fixture *fixture = *state;
    struct heard heard;
    unsigned made = 0;

    watch(fixture, 1, "/tmp", 0);
    for (int i = 0; i < 60; i++) {
        for (int j = 0; j < 200; j++, made++) {
            char name[64];

            snprintf(name, sizeof(name), "a-file-with-a-name-of-some-length-%u", made);
            make_file(fixture->tmp_fd, name);
        }
        for (int j = 0; j < 8; j++)
            turn(fixture);
    }
    assert_int_equal(hear(fixture, 1, &heard), -1);
    assert_true(heard.count < 2 * made);
    assert_in_range(heard.lost, 1, 60);
    assert_non_null(strstr(heard.text, " +a-file-with-a-name-of-some-length-0 "));
    make_file(fixture->tmp_fd, "last");
    expect(fixture, 1, " +last wlast");
    stop(fixture, 1);
}

/* The kernel's own queue overflows while the warden does not come to read it. */
static void test_kernel_overflow(void **state)
{
    struct warden_fixture *fixture = *state;
    struct heard heard;
    struct message_changed changed;
    struct frame frame;
    bool is_lost = false;

    watch(fixture, 1, "/tmp", WATCH_TREE);
    for (int i = 0; i < 10000; i++) { /* fs.inotify.max_queued_events is 16384 */
        make_file(fixture->tmp_fd, "a");
        assert_int_equal(unlinkat(fixture->tmp_fd, "a", 0), 0);
    }
    scratch_folder(&fixture->scratch, "tmp/unseen/folder");
    while (take_any(fixture, &frame)) {
        assert_int_equal(message_changed_unpack(&frame, &changed), 0);
        is_lost |= changed.kind == CHANGE_OVERFLOW;
    }
    if (!is_lost) {
        print_message("this kernel's inotify queue took it all\n");
        stop(fixture, 1);
        skip();
    }
    make_file(fixture->tmp_fd, "unseen/folder/file"); /* the folders were found all the same */
    assert_int_equal(hear(fixture, 1, &heard), -1);
    assert_string_equal(heard.text, " +unseen/folder/file wunseen/folder/file");
    stop(fixture, 1);
}

/* A tree with more folders than a box may watch cannot be watched. */
static void test_too_many_folders(void **state)
{
    struct warden_fixture *fixture = *state;
    struct frame frame;

    for (unsigned i = 0; i < LIMIT_WATCHES - 1; i++) {
        char name[16];

        snprintf(name, sizeof(name), "%u", i);
        assert_int_equal(mkdirat(fixture->tmp_fd, name, 0700), 0);
    }
    give_flags(fixture, FRAME_WATCH, 1, "/tmp", WATCH_TREE);
    assert_true(take_any(fixture, &frame));
    if (frame.type == FRAME_DONE) {
        print_message("this host allows fewer inotify watches\n");
        skip();
    }
    assert_int_equal(frame.type, FRAME_ENTRY); /* with the folder itself it is just enough */
    assert_int_equal(mkdirat(fixture->tmp_fd, "one-more", 0700), 0);
    take_done(fixture, 1, ENOSPC);
    give_flags(fixture, FRAME_WATCH, 2, "/tmp", WATCH_TREE);
    take_done(fixture, 2, ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WARDEN(test_folder),
        WITH_WARDEN(test_tree),
        WITH_WARDEN(test_new_folder_is_full),
        WITH_WARDEN(test_folder_leaves),
        WITH_WARDEN(test_links_are_not_followed),
        WITH_WARDEN(test_watch_fails),
        WITH_WARDEN(test_root_goes),
        WITH_WARDEN(test_two_watches),
        WITH_WARDEN(test_put_is_quiet),
        WITH_WARDEN(test_slow_host),
        WITH_WARDEN(test_kernel_overflow),
        WITH_WARDEN(test_too_many_folders),
    };

    return cmocka_run_group_tests_name("warden/notify", tests, NULL, NULL);
}
