/*
 * file_fixture.h - a warden in the test's own process: frames in by dispatch_frame(), frames out of
 * a socket. Its shares are folders of a scratch folder ("work", "tmp", "home"; "data" when a test
 * opens it), beside which a canary lies.
 *
 * The plan must say that there are no namespaces: a warden that ends its box would otherwise kill
 * everybody it can.
 */
#ifndef BAILEY_TESTS_FILE_FIXTURE_H
#define BAILEY_TESTS_FILE_FIXTURE_H

#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "warden/warden_private.h"
#include "wire/file_message.h"

#define TURNS_MAX 100000 /* of the warden's loop: more than any of these tests needs */

struct warden_fixture {
    struct scratch scratch;
    struct sandbox_plan plan;
    struct sandbox sandbox;
    struct warden warden;
    int fd;     /* the host's end */
    int tmp_fd; /* as sandbox.share_fd */
    uint8_t data[WIRE_FRAME_MAX];
};

static inline int warden_fixture_set_up(void **state)
{
    static const char *const names[] = {"work", "tmp", "home"};
    struct warden_fixture *fixture = calloc(1, sizeof(*fixture));
    int pair[2];

    if (!fixture || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    scratch_make(&fixture->scratch);
    fixture->plan.has_namespaces = false;
    sandbox_init(&fixture->sandbox, &fixture->plan);
    for (int i = 0; i < SHARE_DATA; i++)
        fixture->sandbox.share_fd[i] =
            open(scratch_folder(&fixture->scratch, names[i]), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fixture->tmp_fd = fixture->sandbox.share_fd[SHARE_TMP];
    scratch_write(&fixture->scratch, "canary", "out");
    fixture->warden = (struct warden){.sandbox = &fixture->sandbox,
                                      .control = BUF_INIT(4 * MIB),
                                      .args = BUF_INIT(LIMIT_ARGV_BYTES)};
    fixture->fd = pair[0];
    *state = fixture;
    return loop_init(&fixture->warden.loop) < 0 || channel_open(&fixture->warden, pair[1]) < 0 ? -1
                                                                                               : 0;
}

static inline int warden_fixture_tear_down(void **state)
{
    struct warden_fixture *fixture = *state;
    char text[8];

    assert_null(fixture->warden.files); /* every operation has ended */
    assert_null(fixture->warden.notify);
    assert_int_equal(fixture->warden.control.length, 0);
    assert_true(scratch_read(scratch_path(&fixture->scratch, "canary"), text, sizeof(text)));
    assert_string_equal(text, "out");
    close(fixture->warden.channel.fd);
    loop_close(&fixture->warden.loop);
    buf_free(&fixture->warden.control);
    close(fixture->fd);
    for (int i = 0; i < _SHARE_MAX; i++) {
        if (fixture->sandbox.share_fd[i] >= 0)
            close(fixture->sandbox.share_fd[i]);
    }
    scratch_remove(&fixture->scratch);
    free(fixture);
    return 0;
}

#define WITH_WARDEN(test) \
    cmocka_unit_test_setup_teardown(test, warden_fixture_set_up, warden_fixture_tear_down)

/* ---- the host speaks ---- */

static inline void give(struct warden_fixture *fixture, enum frame_type type, uint32_t id,
                        const void *payload, size_t length)
{
    struct frame frame = {.type = type, .id = id, .payload = payload, .length = length};

    dispatch_frame(&fixture->warden, &frame);
}

static inline void give_message(struct warden_fixture *fixture, enum frame_type type, uint32_t id,
                                const char *path, struct message_path message)
{
    static uint8_t payload[LIMIT_PATH_BYTES + MESSAGE_PATH_HEADER];

    message.path = path;
    message.path_length = strlen(path);
    give(fixture, type, id, payload, (size_t)message_path_pack(&message, payload, sizeof(payload)));
}

static inline void give_path(struct warden_fixture *fixture, enum frame_type type, uint32_t id,
                             const char *path, uint32_t mode)
{
    give_message(fixture, type, id, path, (struct message_path){.mode = mode});
}

static inline void give_flags(struct warden_fixture *fixture, enum frame_type type, uint32_t id,
                              const char *path, uint32_t flags)
{
    give_message(fixture, type, id, path, (struct message_path){.flags = flags});
}

static inline void give_move(struct warden_fixture *fixture, uint32_t id, const char *from,
                             const char *to)
{
    struct message_move move = {
        .from = from, .from_length = strlen(from), .to = to, .to_length = strlen(to)};
    static uint8_t payload[2 * LIMIT_PATH_BYTES];

    give(fixture, FRAME_MOVE, id, payload,
         (size_t)message_move_pack(&move, payload, sizeof(payload)));
}

static inline void give_data(struct warden_fixture *fixture, uint32_t id, uint64_t offset,
                             const char *text)
{
    uint8_t payload[256];

    message_bytes_header(payload, 0, offset);
    memcpy(payload + MESSAGE_BYTES_HEADER, text, strlen(text));
    give(fixture, FRAME_PUT_DATA, id, payload, MESSAGE_BYTES_HEADER + strlen(text));
}

/* ---- the host listens ---- */

/* One turn of the warden's loop, which does not wait. */
static inline void turn(struct warden_fixture *fixture)
{
    struct loop *loop = &fixture->warden.loop;
    struct epoll_event events[LOOP_BATCH];
    int count;

    channel_flush(&fixture->warden);
    count = epoll_wait(loop->fd, events, LOOP_BATCH, 0);
    loop->batch_count = count;
    for (int i = 0; i < count; i++)
        loop->batch[i] = events[i].data.ptr;
    for (int i = 0; i < count; i++) {
        if (loop->batch[i])
            loop->batch[i]->ready(loop->batch[i], events[i].events);
    }
    loop->batch_count = 0;
    channel_flush(&fixture->warden);
}

/* The next frame; false when there is none and the warden has nothing left to do. */
static inline bool take_any(struct warden_fixture *fixture, struct frame *frame)
{
    for (int i = 0; i < TURNS_MAX; i++) {
        ssize_t length;

        turn(fixture);
        length = recv(fixture->fd, fixture->data, sizeof(fixture->data), MSG_DONTWAIT);
        if (length >= 0) {
            assert_int_equal(frame_decode(fixture->data, (size_t)length, frame), 0);
            return true;
        }
        if (!fixture->warden.loop.is_busy)
            return false;
    }
    fail_msg("the warden is busy for ever");
    return false;
}

static inline void take_nothing(struct warden_fixture *fixture)
{
    struct frame frame;

    assert_false(take_any(fixture, &frame));
}

static inline struct frame take(struct warden_fixture *fixture, enum frame_type type, uint32_t id)
{
    struct frame frame;

    assert_true(take_any(fixture, &frame));
    assert_int_equal(frame.type, type);
    assert_int_equal(frame.id, id);
    return frame;
}

static inline void take_done(struct warden_fixture *fixture, uint32_t id, int error)
{
    struct frame frame = take(fixture, FRAME_DONE, id);
    uint32_t number = 0;

    assert_int_equal(message_number_unpack(&frame, &number), 0);
    assert_int_equal(number, error);
    take_nothing(fixture);
}

/* What a get says first: how many bytes follow. */
static inline void take_size(struct warden_fixture *fixture, uint32_t id, uint64_t bytes)
{
    struct frame frame = take(fixture, FRAME_ENTRY, id);
    struct message_path message;

    assert_int_equal(message_path_unpack(&frame, &message), 0);
    assert_int_equal(message.path_length, 0);
    assert_true(message.bytes == bytes);
}

static inline void take_ack(struct warden_fixture *fixture, uint32_t id, uint64_t offset)
{
    struct frame frame = take(fixture, FRAME_ACK, id);
    struct message_ack ack;

    assert_int_equal(message_ack_unpack(&frame, &ack), 0);
    assert_true(ack.stream == 0 && ack.offset == offset);
}

static inline void check_text(struct warden_fixture *fixture, const char *name,
                              const char *expected)
{
    char text[64];

    assert_true(scratch_read(scratch_path(&fixture->scratch, name), text, sizeof(text)));
    assert_string_equal(text, expected);
}

static inline bool is_there(struct warden_fixture *fixture, const char *name)
{
    struct stat status;

    return lstat(scratch_path(&fixture->scratch, name), &status) == 0;
}

static inline unsigned mode_of(struct warden_fixture *fixture, const char *name)
{
    struct stat status;

    assert_int_equal(lstat(scratch_path(&fixture->scratch, name), &status), 0);
    return status.st_mode & 07777;
}

/* Entries in a folder, hidden ones too. */
static inline unsigned count_in(struct warden_fixture *fixture, const char *name)
{
    DIR *folder = opendir(scratch_path(&fixture->scratch, name));
    unsigned count = 0;

    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 2; /* . and .. */
}

/* A chain of folders, which may be deeper than any name. */
static inline void make_chain(int dir_fd, const char *name, unsigned depth)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (unsigned i = 0; i < depth; i++) {
        int next;

        assert_int_equal(mkdirat(fd, name, 0755), 0);
        next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(fd);
        fd = next;
    }
    close(fd);
}

#endif
