/*
 * test_files.c - put, get and list of a warden in this process: frames in by dispatch_frame(),
 * frames out of a socket.
 *
 * The plan must say that there are no namespaces: a warden that ends its box would otherwise kill
 * everybody it can.
 */
#include "scratch.h"

#include <errno.h>
#include <sys/socket.h>

#include "warden/inside.h"
#include "wire/file_message.h"

struct room {
    struct scratch scratch;
    struct sandbox_plan plan;
    struct sandbox sandbox;
    struct warden warden;
    int fd; /* the host's end */
    uint8_t data[WIRE_FRAME_MAX];
};

static int set_up(void **state)
{
    struct room *room = calloc(1, sizeof(*room));
    int pair[2];

    if (!room || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    scratch_make(&room->scratch);
    room->plan.has_namespaces = false;
    sandbox_init(&room->sandbox, &room->plan);
    room->sandbox.share_fd[SHARE_TMP] =
        open(scratch_folder(&room->scratch, "tmp"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    room->warden = (struct warden){.sandbox = &room->sandbox,
                                   .control = BUF_INIT(4 * MIB),
                                   .args = BUF_INIT(LIMIT_ARGV_BYTES)};
    room->fd = pair[0];
    *state = room;
    return loop_init(&room->warden.loop) < 0 || channel_open(&room->warden, pair[1]) < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    struct room *room = *state;

    assert_null(room->warden.files); /* every operation has ended */
    assert_int_equal(room->warden.control.length, 0);
    close(room->warden.channel.fd);
    loop_close(&room->warden.loop);
    buf_free(&room->warden.control);
    close(room->fd);
    close(room->sandbox.share_fd[SHARE_TMP]);
    scratch_remove(&room->scratch);
    free(room);
    return 0;
}

static void give(struct room *room, enum frame_type type, uint32_t id, const void *payload,
                 size_t length)
{
    struct frame frame = {.type = type, .id = id, .payload = payload, .length = length};

    dispatch_frame(&room->warden, &frame);
}

static void give_path(struct room *room, enum frame_type type, uint32_t id, const char *path,
                      uint32_t mode)
{
    struct message_path message = {.mode = mode, .path = path, .path_length = strlen(path)};
    static uint8_t payload[LIMIT_PATH_BYTES + MESSAGE_PATH_HEADER];

    give(room, type, id, payload, (size_t)message_path_pack(&message, payload, sizeof(payload)));
}

static void give_data(struct room *room, uint32_t id, uint64_t offset, const char *text)
{
    uint8_t payload[256];

    message_bytes_header(payload, 0, offset);
    memcpy(payload + MESSAGE_BYTES_HEADER, text, strlen(text));
    give(room, FRAME_PUT_DATA, id, payload, MESSAGE_BYTES_HEADER + strlen(text));
}

static bool take_any(struct room *room, struct frame *frame)
{
    ssize_t length;

    channel_flush(&room->warden);
    length = recv(room->fd, room->data, sizeof(room->data), MSG_DONTWAIT);
    if (length < 0)
        return false;
    room->warden.is_blocked = false; /* the loop would say so: there is room again */
    assert_int_equal(frame_decode(room->data, (size_t)length, frame), 0);
    return true;
}

static struct frame take(struct room *room, enum frame_type type, uint32_t id)
{
    struct frame frame;

    assert_true(take_any(room, &frame));
    assert_int_equal(frame.type, type);
    assert_int_equal(frame.id, id);
    return frame;
}

static void take_done(struct room *room, uint32_t id, int error)
{
    struct frame frame = take(room, FRAME_DONE, id);
    uint32_t number = 0;

    assert_int_equal(message_number_unpack(&frame, &number), 0);
    assert_int_equal(number, error);
    assert_false(take_any(room, &frame));
}

static void take_ack(struct room *room, uint32_t id, uint64_t offset)
{
    struct frame frame = take(room, FRAME_ACK, id);
    struct message_ack ack;

    assert_int_equal(message_ack_unpack(&frame, &ack), 0);
    assert_true(ack.stream == 0 && ack.offset == offset);
}

static void check_text(struct room *room, const char *name, const char *expected)
{
    char text[64];

    assert_true(scratch_read(scratch_path(&room->scratch, name), text, sizeof(text)));
    assert_string_equal(text, expected);
}

static void test_put(void **state)
{
    struct room *room = *state;
    struct stat status;

    give_path(room, FRAME_PUT, 1, "/tmp/a/b", 0104751); /* only the plain bits count */
    give_data(room, 1, 0, "he");
    take_ack(room, 1, 2);
    assert_int_equal(access(scratch_path(&room->scratch, "tmp/a/b"), F_OK), -1); /* not yet */
    give_data(room, 1, 2, "llo");
    take_ack(room, 1, 5);
    give(room, FRAME_PUT_END, 1, NULL, 0);
    take_done(room, 1, 0);
    check_text(room, "tmp/a/b", "hello");
    assert_int_equal(stat(scratch_path(&room->scratch, "tmp/a/b"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0751);

    give_path(room, FRAME_PUT, 2, "/tmp/a/b", 0600); /* in the place of the first; empty */
    give(room, FRAME_PUT_END, 2, NULL, 0);
    take_done(room, 2, 0);
    check_text(room, "tmp/a/b", "");
    assert_int_equal(unlinkat(room->sandbox.share_fd[SHARE_TMP], "a/b", 0), 0);
    assert_int_equal(unlinkat(room->sandbox.share_fd[SHARE_TMP], "a", AT_REMOVEDIR), 0);
}

/* A link in the way is replaced, not written through. */
static void test_put_over_a_link(void **state)
{
    struct room *room = *state;

    scratch_write(&room->scratch, "canary", "out");
    assert_int_equal(symlinkat("../canary", room->sandbox.share_fd[SHARE_TMP], "link"), 0);
    give_path(room, FRAME_PUT, 1, "/tmp/link", 0600);
    give_data(room, 1, 0, "in");
    take_ack(room, 1, 2);
    give(room, FRAME_PUT_END, 1, NULL, 0);
    take_done(room, 1, 0);
    check_text(room, "canary", "out");
    check_text(room, "tmp/link", "in");
}

static void test_put_fails(void **state)
{
    struct room *room = *state;

    scratch_folder(&room->scratch, "tmp/folder/full");
    give_path(room, FRAME_PUT, 1, "/tmp/folder", 0600);
    give(room, FRAME_PUT_END, 1, NULL, 0);
    take_done(room, 1, EISDIR);
    assert_int_equal(access(scratch_path(&room->scratch, "tmp/.bailey-put-1"), F_OK), -1);

    give_path(room, FRAME_PUT, 2, "/etc/passwd", 0600);
    take_done(room, 2, EACCES);
    give_data(room, 2, 0, "on its way already");
    take_ack(room, 2, 18);
    give(room, FRAME_PUT_END, 2, NULL, 0);
    assert_null(room->warden.files);

    give_path(room, FRAME_PUT, 3, "/tmp/../x", 0600);
    take_done(room, 3, EINVAL);
    give(room, FRAME_PUT_END, 3, NULL, 0);
}

static void test_get(void **state)
{
    struct room *room = *state;
    struct message_bytes bytes;
    struct frame frame;

    scratch_write(&room->scratch, "tmp/file", "some bytes");
    give_path(room, FRAME_GET, 4, "/tmp/file", 0);
    frame = take(room, FRAME_DATA, 4);
    assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
    assert_true(bytes.stream == 0 && bytes.offset == 0 && bytes.length == 10);
    assert_memory_equal(bytes.data, "some bytes", 10);
    take_done(room, 4, 0);
    scratch_write(&room->scratch, "tmp/empty", "");
    give_path(room, FRAME_GET, 5, "/tmp/empty", 0);
    take_done(room, 5, 0);
}

static void test_get_what_is_no_file(void **state)
{
    struct room *room = *state;
    int tmp_fd = room->sandbox.share_fd[SHARE_TMP];

    assert_int_equal(mkfifoat(tmp_fd, "fifo", 0600), 0);
    assert_int_equal(symlinkat("/etc/passwd", tmp_fd, "link"), 0);
    give_path(room, FRAME_GET, 1, "/tmp/fifo", 0);
    take_done(room, 1, EINVAL);
    give_path(room, FRAME_GET, 2, "/tmp", 0);
    take_done(room, 2, EISDIR);
    give_path(room, FRAME_GET, 3, "/tmp/link", 0);
    take_done(room, 3, EXDEV);
    give_path(room, FRAME_GET, 4, "/tmp/nothing", 0);
    take_done(room, 4, ENOENT);
    give_path(room, FRAME_GET, 5, "/dev/zero", 0);
    take_done(room, 5, EACCES);
}

/* A get is at most one window ahead of what the host has acknowledged. */
static void test_get_window(void **state)
{
    struct room *room = *state;
    const uint64_t size = 3 * WIRE_STREAM_WINDOW + 5;
    uint64_t received = 0, acked = 0;
    struct frame frame;
    bool is_done = false;

    scratch_write(&room->scratch, "tmp/large", "");
    assert_int_equal(truncate(scratch_path(&room->scratch, "tmp/large"), (off_t)size), 0);
    give_path(room, FRAME_GET, 6, "/tmp/large", 0);
    while (!is_done) {
        uint8_t payload[9];
        struct message_bytes bytes;

        while (take_any(room, &frame) && frame.type == FRAME_DATA) {
            assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
            assert_true(bytes.offset == received);
            received += bytes.length;
            assert_true(received - acked <= WIRE_STREAM_WINDOW);
        }
        is_done = frame.type == FRAME_DONE;
        assert_true(is_done || received > acked); /* an acknowledgement lets it go on */
        acked = received;
        if (!is_done)
            give(room, FRAME_ACK, 6, payload,
                 (size_t)message_ack_pack(&(struct message_ack){.offset = acked}, payload,
                                          sizeof(payload)));
    }
    assert_true(received == size);
}

/* ---- listings ---- */

struct entries {
    unsigned count;
    char text[1024]; /* " name:mode-kind" of each, in any order */
};

static void take_list(struct room *room, uint32_t id, int error, struct entries *entries)
{
    struct frame frame;
    uint32_t number = 0;

    memset(entries, 0, sizeof(*entries));
    for (;;) {
        struct message_path path;
        size_t used = strlen(entries->text);

        assert_true(take_any(room, &frame));
        if (frame.type == FRAME_DONE)
            break;
        assert_int_equal(frame.type, FRAME_ENTRY);
        assert_int_equal(message_path_unpack(&frame, &path), 0);
        entries->count++;
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
    struct room *room = *state;
    struct entries entries;

    scratch_folder(&room->scratch, "tmp/a/b");
    scratch_write(&room->scratch, "tmp/a/b/deep", "1234");
    scratch_write(&room->scratch, "tmp/top", "");
    assert_int_equal(symlinkat("/etc", room->sandbox.share_fd[SHARE_TMP], "a/link"), 0);
    assert_int_equal(mkfifoat(room->sandbox.share_fd[SHARE_TMP], "a/fifo", 0600), 0);
    give_path(room, FRAME_LIST, 1, "/tmp", 0);
    take_list(room, 1, 0, &entries);
    assert_int_equal(entries.count, 6);
    assert_non_null(strstr(entries.text, " a:40000:"));
    assert_non_null(strstr(entries.text, " a/b:40000:"));
    assert_non_null(strstr(entries.text, " a/b/deep:100000:4;"));
    assert_non_null(strstr(entries.text, " top:100000:0;"));
    assert_non_null(strstr(entries.text, " a/link:120000:4;")); /* said, not followed */
    assert_non_null(strstr(entries.text, " a/fifo:10000:0;"));
    give_path(room, FRAME_LIST, 2, "/tmp/a/b", 0);
    take_list(room, 2, 0, &entries);
    assert_string_equal(entries.text, " deep:100000:4;"); /* names begin at the listed folder */
}

static void test_list_fails(void **state)
{
    struct room *room = *state;
    struct entries entries;

    scratch_write(&room->scratch, "tmp/file", "");
    assert_int_equal(symlinkat("..", room->sandbox.share_fd[SHARE_TMP], "up"), 0);
    give_path(room, FRAME_LIST, 1, "/tmp/none", 0);
    take_list(room, 1, ENOENT, &entries);
    give_path(room, FRAME_LIST, 2, "/tmp/file", 0);
    take_list(room, 2, ENOTDIR, &entries);
    give_path(room, FRAME_LIST, 3, "/tmp/up", 0);
    take_list(room, 3, EXDEV, &entries);
    give_path(room, FRAME_LIST, 4, "/", 0);
    take_list(room, 4, EACCES, &entries);
}

/* A tree deeper than anybody looks: the listing ends at its ceiling and uses no more descriptors.
 */
static void test_list_deep_tree(void **state)
{
    struct room *room = *state;
    char path[4 * LIMIT_TREE_DEPTH] = "tmp";
    struct entries entries;

    for (int i = 0; i < LIMIT_TREE_DEPTH + 20; i++)
        strcat(path, "/d");
    scratch_folder(&room->scratch, path);
    give_path(room, FRAME_LIST, 1, "/tmp", 0);
    take_list(room, 1, 0, &entries);
    assert_int_equal(entries.count, LIMIT_TREE_DEPTH);
}

/* Many entries on a channel that is full again and again: all of them come, and once. */
static void test_list_many(void **state)
{
    struct room *room = *state;
    struct entries entries;
    const unsigned count = 2000;

    for (unsigned i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "%u", i);
        close(
            openat(room->sandbox.share_fd[SHARE_TMP], name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    }
    give_path(room, FRAME_LIST, 1, "/tmp", 0);
    take_list(room, 1, 0, &entries);
    assert_int_equal(entries.count, count);
}

#define IN_A_ROOM(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_ROOM(test_put),        IN_A_ROOM(test_put_over_a_link),
        IN_A_ROOM(test_put_fails),  IN_A_ROOM(test_get),
        IN_A_ROOM(test_get_window), IN_A_ROOM(test_get_what_is_no_file),
        IN_A_ROOM(test_list),       IN_A_ROOM(test_list_fails),
        IN_A_ROOM(test_list_many),  IN_A_ROOM(test_list_deep_tree),
    };

    return cmocka_run_group_tests_name("warden/files", tests, NULL, NULL);
}
