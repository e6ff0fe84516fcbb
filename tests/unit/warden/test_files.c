/* test_files.c - get, list and stat of a warden in this process. */
#include "warden/file_fixture.h"

static void test_get(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_bytes bytes;
    struct frame frame;

    scratch_write(&fixture->scratch, "tmp/file", "some bytes");
    give_path(fixture, FRAME_GET, 4, "/tmp/file", 0);
    take_size(fixture, 4, 10);
    frame = take(fixture, FRAME_DATA, 4);
    assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
    assert_true(bytes.stream == 0 && bytes.offset == 0 && bytes.length == 10);
    assert_memory_equal(bytes.data, "some bytes", 10);
    take_done(fixture, 4, 0);
    scratch_write(&fixture->scratch, "tmp/empty", "");
    give_path(fixture, FRAME_GET, 5, "/tmp/empty", 0);
    take_size(fixture, 5, 0);
    take_done(fixture, 5, 0);
}

static void get_part(struct warden_fixture *fixture, uint32_t id, uint64_t offset, uint64_t length,
                     const char *expected)
{
    struct message_bytes bytes;
    struct frame frame;

    give_message(fixture, FRAME_GET, id, "/tmp/file",
                 (struct message_path){.offset = offset, .bytes = length});
    take_size(fixture, id, strlen(expected));
    if (expected[0]) {
        frame = take(fixture, FRAME_DATA, id);
        assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
        assert_true(bytes.offset == 0); /* of the stream, not of the file */
        assert_int_equal(bytes.length, strlen(expected));
        assert_memory_equal(bytes.data, expected, bytes.length);
    }
    take_done(fixture, id, 0);
}

static void test_get_a_part(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_write(&fixture->scratch, "tmp/file", "0123456789");
    get_part(fixture, 1, 3, 0, "3456789");
    get_part(fixture, 2, 3, 2, "34");
    get_part(fixture, 3, 0, 1000, "0123456789");
    get_part(fixture, 4, 9, UINT64_MAX, "9");
    get_part(fixture, 5, 10, 0, "");
    get_part(fixture, 6, UINT64_MAX, UINT64_MAX, "");
}

/* A file that grows while it is read ends where it ended when it was opened. */
static void test_get_while_it_grows(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_bytes bytes;
    struct frame frame;

    scratch_write(&fixture->scratch, "tmp/file", "begin");
    give_path(fixture, FRAME_GET, 1, "/tmp/file", 0);
    scratch_write(&fixture->scratch, "tmp/file", "begin and more");
    take_size(fixture, 1, 5);
    frame = take(fixture, FRAME_DATA, 1);
    assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
    assert_int_equal(bytes.length, 5);
    take_done(fixture, 1, 0);
    give_path(fixture, FRAME_GET, 2, "/tmp/file", 0);
    scratch_write(&fixture->scratch, "tmp/file", ""); /* or earlier, when it shrinks */
    take_size(fixture, 2, 14);
    take_done(fixture, 2, 0);
}

static void test_get_is_cancelled(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_write(&fixture->scratch, "tmp/large", "");
    assert_int_equal(truncate(scratch_path(&fixture->scratch, "tmp/large"), 1 << 30), 0);
    give_path(fixture, FRAME_GET, 1, "/tmp/large", 0);
    take_size(fixture, 1, 1 << 30);
    take(fixture, FRAME_DATA, 1);
    give(fixture, FRAME_CANCEL, 1, NULL, 0);
    for (;;) { /* what was sent before it heard of that */
        struct frame frame;

        assert_true(take_any(fixture, &frame));
        if (frame.type == FRAME_DONE)
            break;
        assert_int_equal(frame.type, FRAME_DATA);
    }
    take_nothing(fixture);
}

static void test_get_what_is_no_file(void **state)
{
    struct warden_fixture *fixture = *state;

    assert_int_equal(mkfifoat(fixture->tmp_fd, "fifo", 0600), 0);
    assert_int_equal(symlinkat("/etc/passwd", fixture->tmp_fd, "link"), 0);
    give_path(fixture, FRAME_GET, 1, "/tmp/fifo", 0);
    take_done(fixture, 1, EINVAL);
    give_path(fixture, FRAME_GET, 2, "/tmp", 0);
    take_done(fixture, 2, EISDIR);
    give_path(fixture, FRAME_GET, 3, "/tmp/link", 0);
    take_done(fixture, 3, EXDEV);
    give_path(fixture, FRAME_GET, 4, "/tmp/nothing", 0);
    take_done(fixture, 4, ENOENT);
    give_path(fixture, FRAME_GET, 5, "/dev/zero", 0);
    take_done(fixture, 5, EACCES);
    give_path(fixture, FRAME_GET, 6, "/tmp/../etc/passwd", 0);
    take_done(fixture, 6, EXDEV);
    give_path(fixture, FRAME_GET, 7, "", 0);
    take_done(fixture, 7, ENOENT);
}

/* A get is at most one window ahead of what the host has acknowledged. */
static void test_get_window(void **state)
{
    struct warden_fixture *fixture = *state;
    const uint64_t size = 3 * WIRE_STREAM_WINDOW + 5;
    uint64_t received = 0, acked = 0;
    struct frame frame;
    bool is_done = false;

    scratch_write(&fixture->scratch, "tmp/large", "");
    assert_int_equal(truncate(scratch_path(&fixture->scratch, "tmp/large"), (off_t)size), 0);
    give_path(fixture, FRAME_GET, 6, "/tmp/large", 0);
    take_size(fixture, 6, size);
    while (!is_done) {
        uint8_t payload[9];
        struct message_bytes bytes;

        while (take_any(fixture, &frame) && frame.type == FRAME_DATA) {
            assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
            assert_true(bytes.offset == received);
            received += bytes.length;
            assert_true(received - acked <= WIRE_STREAM_WINDOW);
        }
        is_done = frame.type == FRAME_DONE;
        assert_true(is_done || received > acked); /* an acknowledgement lets it go on */
        acked = received;
        if (!is_done)
            give(fixture, FRAME_ACK, 6, payload,
                 (size_t)message_ack_pack(&(struct message_ack){.offset = acked}, payload,
                                          sizeof(payload)));
    }
    assert_true(received == size);
}

/* ---- listings ---- */

struct entries {
    unsigned count;
    uint64_t time_ns; /* of the last */
    char text[1024];  /* " name:mode-kind" of each, in any order */
};

static void take_list(struct warden_fixture *fixture, uint32_t id, int error,
                      struct entries *entries)
{
    struct frame frame;
    uint32_t number = 0;

    memset(entries, 0, sizeof(*entries));
    for (;;) {
        struct message_path path;
        size_t used = strlen(entries->text);

        assert_true(take_any(fixture, &frame));
        if (frame.type == FRAME_DONE)
            break;
        assert_int_equal(frame.type, FRAME_ENTRY);
        assert_int_equal(message_path_unpack(&frame, &path), 0);
        entries->count++;
        entries->time_ns = path.time_ns;
        if (used + path.path_length + 16 < sizeof(entries->text))
            snprintf(entries->text + used, sizeof(entries->text) - used, " %.*s:%o:%llu;",
                     (int)path.path_length, path.path, path.mode & S_IFMT,
                     (unsigned long long)path.bytes);
    }
    assert_int_equal(frame.id, id);
    assert_int_equal(message_number_unpack(&frame, &number), 0);
    assert_int_equal(number, error);
}

static void test_list(void **state)
{
    struct warden_fixture *fixture = *state;
    struct entries entries;

    scratch_folder(&fixture->scratch, "tmp/a/b");
    scratch_write(&fixture->scratch, "tmp/a/b/deep", "1234");
    scratch_write(&fixture->scratch, "tmp/top", "");
    assert_int_equal(symlinkat("/etc", fixture->tmp_fd, "a/link"), 0);
    assert_int_equal(mkfifoat(fixture->tmp_fd, "a/fifo", 0600), 0);
    give_path(fixture, FRAME_LIST, 1, "/tmp", 0);
    take_list(fixture, 1, 0, &entries);
    assert_int_equal(entries.count, 6);
    assert_non_null(strstr(entries.text, " a:40000:"));
    assert_non_null(strstr(entries.text, " a/b:40000:"));
    assert_non_null(strstr(entries.text, " a/b/deep:100000:4;"));
    assert_non_null(strstr(entries.text, " top:100000:0;"));
    assert_non_null(strstr(entries.text, " a/link:120000:4;")); /* said, not followed */
    assert_non_null(strstr(entries.text, " a/fifo:10000:0;"));
    give_path(fixture, FRAME_LIST, 2, "/tmp/a/b", 0);
    take_list(fixture, 2, 0, &entries);
    assert_string_equal(entries.text, " deep:100000:4;"); /* names begin at the listed folder */
}

static void test_list_depth(void **state)
{
    struct warden_fixture *fixture = *state;
    struct entries entries;
    struct timespec times[2] = {{.tv_sec = 7, .tv_nsec = 9}, {.tv_sec = 12, .tv_nsec = 34}};

    scratch_folder(&fixture->scratch, "tmp/a/b/c");
    assert_int_equal(utimensat(fixture->tmp_fd, "a/b/c", times, 0), 0);
    give_message(fixture, FRAME_LIST, 1, "/tmp", (struct message_path){.depth = 1});
    take_list(fixture, 1, 0, &entries);
    assert_int_equal(entries.count, 1);
    give_message(fixture, FRAME_LIST, 2, "/tmp", (struct message_path){.depth = 2});
    take_list(fixture, 2, 0, &entries);
    assert_int_equal(entries.count, 2);
    give_message(fixture, FRAME_LIST, 3, "/tmp", (struct message_path){.depth = UINT32_MAX});
    take_list(fixture, 3, 0, &entries);
    assert_int_equal(entries.count, 3);
    assert_true(entries.time_ns == 12000000034);
    times[1].tv_sec = -1;
    assert_int_equal(utimensat(fixture->tmp_fd, "a/b/c", times, 0), 0);
    give_path(fixture, FRAME_LIST, 4, "/tmp/a/b", 0);
    take_list(fixture, 4, 0, &entries);
    assert_true(entries.time_ns == 0);
}

static void stat_of(struct warden_fixture *fixture, uint32_t id, const char *path, unsigned mode,
                    uint64_t bytes)
{
    struct message_path message;
    struct frame frame;

    give_path(fixture, FRAME_STAT, id, path, 0);
    frame = take(fixture, FRAME_ENTRY, id);
    assert_int_equal(message_path_unpack(&frame, &message), 0);
    assert_int_equal(message.path_length, 0);
    assert_int_equal(message.mode, mode);
    assert_true(S_ISDIR(mode) || message.bytes == bytes);
    assert_true(message.time_ns > 0);
    take_done(fixture, id, 0);
}

static void test_stat(void **state)
{
    struct warden_fixture *fixture = *state;

    scratch_write(&fixture->scratch, "tmp/file", "1234");
    scratch_folder(&fixture->scratch, "tmp/folder");
    assert_int_equal(symlinkat("/etc/passwd", fixture->tmp_fd, "link"), 0);
    assert_int_equal(symlinkat("..", fixture->tmp_fd, "up"), 0);
    assert_int_equal(mkfifoat(fixture->tmp_fd, "fifo", 0600), 0);
    stat_of(fixture, 1, "/tmp/file", S_IFREG | 0644, 4);
    stat_of(fixture, 2, "/tmp/folder/", S_IFDIR | 0755, 0);
    stat_of(fixture, 3, "/tmp/link", S_IFLNK | 0777, 11); /* itself, wherever it leads */
    stat_of(fixture, 4, "/tmp/fifo", S_IFIFO | 0600, 0);
    stat_of(fixture, 5, "/workspace", S_IFDIR | 0755, 0);
    give_path(fixture, FRAME_STAT, 6, "/tmp/nothing", 0);
    take_done(fixture, 6, ENOENT);
    give_path(fixture, FRAME_STAT, 7, "/tmp/link/x", 0);
    take_done(fixture, 7, EXDEV);
    give_path(fixture, FRAME_STAT, 8, "/tmp/up/canary", 0);
    take_done(fixture, 8, EXDEV);
    give_path(fixture, FRAME_STAT, 9, "/tmp/../etc/passwd", 0);
    take_done(fixture, 9, EXDEV);
    give_path(fixture, FRAME_STAT, 10, "/etc/passwd", 0);
    take_done(fixture, 10, EACCES);
    give_path(fixture, FRAME_STAT, 11, "/tmp/file/", 0);
    take_done(fixture, 11, ENOTDIR);
}

static void test_list_fails(void **state)
{
    struct warden_fixture *fixture = *state;
    struct entries entries;

    scratch_write(&fixture->scratch, "tmp/file", "");
    assert_int_equal(symlinkat("..", fixture->tmp_fd, "up"), 0);
    give_path(fixture, FRAME_LIST, 1, "/tmp/none", 0);
    take_list(fixture, 1, ENOENT, &entries);
    give_path(fixture, FRAME_LIST, 2, "/tmp/file", 0);
    take_list(fixture, 2, ENOTDIR, &entries);
    give_path(fixture, FRAME_LIST, 3, "/tmp/up", 0);
    take_list(fixture, 3, EXDEV, &entries);
    give_path(fixture, FRAME_LIST, 4, "/", 0);
    take_list(fixture, 4, EACCES, &entries);
}

/* A tree deeper than anybody looks: the listing ends at its ceiling and uses no more descriptors.
 */
static void test_list_deep_tree(void **state)
{
    struct warden_fixture *fixture = *state;
    char path[4 * LIMIT_TREE_DEPTH] = "tmp";
    struct entries entries;

    for (int i = 0; i < LIMIT_TREE_DEPTH + 20; i++)
        strcat(path, "/d");
    scratch_folder(&fixture->scratch, path);
    give_path(fixture, FRAME_LIST, 1, "/tmp", 0);
    take_list(fixture, 1, 0, &entries);
    assert_int_equal(entries.count, LIMIT_TREE_DEPTH);
}

/* Many entries on a channel that is full again and again: all of them come, and once. */
static void test_list_many(void **state)
{
    struct warden_fixture *fixture = *state;
    struct entries entries;
    const unsigned count = 2000;

    for (unsigned i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "%u", i);
        close(openat(fixture->tmp_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    }
    give_path(fixture, FRAME_LIST, 1, "/tmp", 0);
    take_list(fixture, 1, 0, &entries);
    assert_int_equal(entries.count, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WARDEN(test_get),
        WITH_WARDEN(test_get_a_part),
        WITH_WARDEN(test_get_while_it_grows),
        WITH_WARDEN(test_get_window),
        WITH_WARDEN(test_get_is_cancelled),
        WITH_WARDEN(test_get_what_is_no_file),
        WITH_WARDEN(test_list),
        WITH_WARDEN(test_list_depth),
        WITH_WARDEN(test_list_fails),
        WITH_WARDEN(test_list_many),
        WITH_WARDEN(test_list_deep_tree),
        WITH_WARDEN(test_stat),
    };

    return cmocka_run_group_tests_name("warden/files", tests, NULL, NULL);
}
