/*
 * fake_warden.h - a box whose warden is the test: it sends any frames it likes and looks at those
 * that come. Everything that the box calls back is written down.
 */
#ifndef BAILEY_TESTS_FAKE_WARDEN_H
#define BAILEY_TESTS_FAKE_WARDEN_H

#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "runtime/box/box.h"
#include "runtime/box/files.h"
#include "wire/file_message.h"

/* What happened to one call. */
struct seen {
    int started, ended, failed, ready, entries;
    struct exec_end end;
    struct error err;
    struct buf out[4]; /* by stream */
    size_t takes;      /* bytes that the reader still takes */
    char name[LIMIT_PATH_BYTES + 1];
    uint32_t mode;
    uint64_t bytes;
};

struct fake {
    struct box *box;
    int fd; /* the warden's end */
    struct seen seen[4];
    uint32_t id[4];
    struct error err;
    uint8_t data[WIRE_FRAME_MAX]; /* the frame that came last */
};

static inline void saw_started(void *ctx)
{
    ((struct seen *)ctx)->started++;
}

static inline size_t saw_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct seen *seen = ctx;
    size_t part = length < seen->takes ? length : seen->takes;

    assert_true(length > 0);
    seen->takes -= part;
    assert_int_equal(buf_append(&seen->out[stream], data, part), 0);
    return part;
}

static inline void saw_ended(void *ctx, const struct exec_end *end)
{
    struct seen *seen = ctx;

    seen->ended++;
    seen->end = *end;
}

static inline void saw_failed(void *ctx, const struct error *err)
{
    struct seen *seen = ctx;

    seen->failed++;
    seen->err = *err;
}

static inline void saw_ready(void *ctx)
{
    ((struct seen *)ctx)->ready++;
}

static inline void saw_size(void *ctx, uint64_t bytes)
{
    struct seen *seen = ctx;

    seen->entries++;
    seen->bytes = bytes;
}

static inline size_t saw_data(void *ctx, const void *data, size_t length)
{
    return saw_output(ctx, BOX_STDOUT, data, length);
}

static inline void saw_done(void *ctx, const struct error *err)
{
    struct seen *seen = ctx;

    seen->ended++;
    seen->err = *err;
}

static inline void saw_entry(void *ctx, const struct box_entry *entry)
{
    struct seen *seen = ctx;

    seen->entries++;
    strncpy(seen->name, entry->name, sizeof(seen->name) - 1);
    seen->mode = entry->mode;
    seen->bytes = entry->bytes;
}

static const struct exec_events exec_seen = {.started = saw_started,
                                             .output = saw_output,
                                             .ended = saw_ended,
                                             .failed = saw_failed,
                                             .stdin_ready = saw_ready};
static const struct put_events put_seen = {.done = saw_done, .more = saw_ready};
static const struct get_events get_seen = {.size = saw_size, .data = saw_data, .done = saw_done};
static const struct list_events list_seen = {.entry = saw_entry, .done = saw_done};

static inline int fake_set_up(void **state)
{
    struct fake *fake = calloc(1, sizeof(*fake));
    int size = 4 << 20;
    int pair[2];

    if (!fake || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)); /* a comfort of root */
    fake->fd = pair[1];
    for (int i = 0; i < 4; i++) {
        fake->seen[i].takes = SIZE_MAX;
        for (int j = 0; j < 4; j++)
            fake->seen[i].out[j] = BUF_INIT(64 << 20);
    }
    if (box_new(pair[0], fake, &fake->box, &fake->err) < 0)
        return -1;
    *state = fake;
    return box_provider_data(fake->box) == fake && box_fd(fake->box) == pair[0] ? 0 : -1;
}

static inline int fake_tear_down(void **state)
{
    struct fake *fake = *state;

    box_free(fake->box);
    if (fake->fd >= 0)
        close(fake->fd);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++)
            buf_free(&fake->seen[i].out[j]);
    }
    free(fake);
    return 0;
}

/* ---- the warden speaks ---- */

static inline int fake_pump(struct fake *fake)
{
    return box_pump(fake->box, &fake->err);
}

static inline void say(struct fake *fake, enum frame_type type, uint32_t id, const void *payload,
                       size_t length)
{
    static uint8_t data[WIRE_FRAME_MAX];
    ssize_t sent;

    assert_in_range(length, 0, FRAME_PAYLOAD_MAX);
    frame_header(data, type, id, length);
    if (length > 0)
        memcpy(data + FRAME_HEADER, payload, length);
    sent = send(fake->fd, data, FRAME_HEADER + length, MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) { /* SO_SNDBUFFORCE was refused: make room, once */
        assert_int_equal(fake_pump(fake), 0);
        sent = send(fake->fd, data, FRAME_HEADER + length, MSG_DONTWAIT);
    }
    assert_int_equal(sent, (ssize_t)(FRAME_HEADER + length));
}

static inline void say_started(struct fake *fake, uint32_t id)
{
    struct message_started started = {.start_ns = 12345};
    uint8_t payload[8];

    say(fake, FRAME_STARTED, id, payload,
        (size_t)message_started_pack(&started, payload, sizeof(payload)));
}

/* OUTPUT or DATA with `length` bytes, each `fill`. */
static inline void say_bytes(struct fake *fake, enum frame_type type, uint32_t id, uint8_t stream,
                             uint64_t offset, size_t length, int fill)
{
    static uint8_t payload[FRAME_PAYLOAD_MAX];

    message_bytes_header(payload, stream, offset);
    memset(payload + MESSAGE_BYTES_HEADER, fill, length);
    say(fake, type, id, payload, MESSAGE_BYTES_HEADER + length);
}

static inline void say_exited(struct fake *fake, uint32_t id, const struct message_exited *exited)
{
    uint8_t payload[64];

    say(fake, FRAME_EXITED, id, payload,
        (size_t)message_exited_pack(exited, payload, sizeof(payload)));
}

static inline void say_fail(struct fake *fake, uint32_t id, uint16_t stage, uint16_t error)
{
    struct message_fail fail = {.stage = stage, .error = error};
    uint8_t payload[8];

    say(fake, FRAME_NOEXEC, id, payload, (size_t)message_fail_pack(&fail, payload, 8));
}

static inline void say_done(struct fake *fake, uint32_t id, uint32_t number)
{
    uint8_t payload[4];

    say(fake, FRAME_DONE, id, payload, (size_t)message_number_pack(number, payload, 4));
}

static inline void say_ack(struct fake *fake, uint32_t id, uint8_t stream, uint64_t offset)
{
    struct message_ack ack = {.stream = stream, .offset = offset};
    uint8_t payload[9];

    say(fake, FRAME_ACK, id, payload, (size_t)message_ack_pack(&ack, payload, sizeof(payload)));
}

static inline void say_entry(struct fake *fake, uint32_t id, const char *name, size_t length)
{
    struct message_path path = {.mode = 0100640, .bytes = 77, .path = name, .path_length = length};
    static uint8_t payload[LIMIT_PATH_BYTES + 64];

    say(fake, FRAME_ENTRY, id, payload, (size_t)message_path_pack(&path, payload, sizeof(payload)));
}

/* ---- the warden listens ---- */

/* True when a frame is there; the payload is valid until the next. */
static inline bool hear_any(struct fake *fake, struct frame *frame)
{
    ssize_t length = recv(fake->fd, fake->data, sizeof(fake->data), MSG_DONTWAIT | MSG_TRUNC);

    if (length < 0 && errno == EAGAIN)
        return false;
    assert_true(length > 0);
    assert_int_equal(frame_decode(fake->data, (size_t)length, frame), 0);
    return true;
}

static inline struct frame hear(struct fake *fake, enum frame_type type, uint32_t id)
{
    struct frame frame;

    assert_true(hear_any(fake, &frame));
    assert_int_equal(frame.type, type);
    assert_int_equal(frame.id, id);
    return frame;
}

static inline void hear_nothing(struct fake *fake)
{
    struct frame frame;

    assert_false(hear_any(fake, &frame));
}

/* ---- calls of the host ---- */

static inline uint32_t start_exec(struct fake *fake, int index, uint64_t timeout_ms)
{
    static const char *const argv[] = {"true", NULL};
    struct exec_spec spec = {.argv = argv, .stdin_open = true, .timeout_ms = timeout_ms};

    assert_int_equal(
        box_exec(fake->box, &spec, &exec_seen, &fake->seen[index], &fake->id[index], &fake->err),
        0);
    hear(fake, FRAME_ARGS, 0);
    hear(fake, FRAME_EXEC, fake->id[index]);
    return fake->id[index];
}

static inline void check_alive(struct fake *fake)
{
    assert_int_equal(fake_pump(fake), 0);
}

/* The box is lost, and says so for ever; every call in `pending` has failed exactly once. */
static inline void check_lost(struct fake *fake, int pending)
{
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_ptr_equal(fake->err.code, ERROR_BOX_LOST);
    assert_int_equal(fake_pump(fake), -EPIPE);
    for (int i = 0; i < pending; i++) {
        assert_int_equal(fake->seen[i].ended + fake->seen[i].failed, 1);
        assert_ptr_equal(fake->seen[i].err.code, ERROR_BOX_LOST);
    }
}

#endif
