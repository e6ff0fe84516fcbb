/* test_file_message.c - messages about files there and back, and cut, stretched or out of range. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/file_message.h"

static int unpack_path(const struct frame *frame)
{
    struct message_path path;

    return message_path_unpack(frame, &path);
}

static int unpack_move(const struct frame *frame)
{
    struct message_move move;

    return message_move_unpack(frame, &move);
}

static int unpack_changed(const struct frame *frame)
{
    struct message_changed changed;

    return message_changed_unpack(frame, &changed);
}

static struct frame frame_of(const uint8_t *data, ssize_t length)
{
    assert_true(length >= 0);
    return (struct frame){.payload = data, .length = (size_t)length};
}

/*
 * Every payload shorter than `least` breaks the protocol; the rest is a name of any length. Each
 * try gets memory of its own, so that a sanitizer sees a read behind it.
 */
static void check_lengths(int (*unpack)(const struct frame *), const uint8_t *data, ssize_t whole,
                          ssize_t least)
{
    for (ssize_t length = 0; length <= whole; length++) {
        uint8_t *copy = calloc(1, (size_t)length + (length == 0));
        struct frame frame = {.payload = copy, .length = (size_t)length};

        assert_non_null(copy);
        memcpy(copy, data, (size_t)length);
        assert_int_equal(unpack(&frame), length < least ? -EPROTO : 0);
        free(copy);
    }
}

static void test_path(void **state)
{
    static char longest[LIMIT_PATH_BYTES + 1];
    static uint8_t data[LIMIT_PATH_BYTES + 64];
    struct message_path path = {.mode = 0100644,
                                .flags = PUT_IN_PLACE,
                                .depth = UINT32_MAX,
                                .offset = UINT64_MAX - 1,
                                .bytes = UINT64_MAX,
                                .time_ns = 1234567890123456789,
                                .path = "/tmp/a b",
                                .path_length = 8},
                        back;
    ssize_t length = message_path_pack(&path, data, sizeof(data));
    struct frame frame = frame_of(data, length);

    (void)state;
    assert_int_equal(length, MESSAGE_PATH_HEADER + 8);
    assert_int_equal(message_path_unpack(&frame, &back), 0);
    assert_int_equal(back.mode, 0100644);
    assert_int_equal(back.flags, PUT_IN_PLACE);
    assert_true(back.depth == UINT32_MAX && back.offset == UINT64_MAX - 1);
    assert_true(back.bytes == UINT64_MAX && back.time_ns == 1234567890123456789);
    assert_int_equal(back.path_length, 8);
    assert_memory_equal(back.path, "/tmp/a b", 8);
    check_lengths(unpack_path, data, length, MESSAGE_PATH_HEADER);
    data[MESSAGE_PATH_HEADER + 2] = 0; /* a NUL in the name */
    assert_int_equal(message_path_unpack(&frame, &back), -EPROTO);

    memset(longest, 'x', sizeof(longest));
    path.path = longest;
    path.path_length = LIMIT_PATH_BYTES;
    frame = frame_of(data, message_path_pack(&path, data, sizeof(data)));
    assert_int_equal(message_path_unpack(&frame, &back), 0);
    path.path_length = LIMIT_PATH_BYTES + 1;
    frame = frame_of(data, message_path_pack(&path, data, sizeof(data)));
    assert_int_equal(message_path_unpack(&frame, &back), -EPROTO);
    assert_int_equal(message_path_pack(&path, data, 100), -EMSGSIZE);
}

static void test_move(void **state)
{
    static char longest[LIMIT_PATH_BYTES + 1];
    static uint8_t data[2 * LIMIT_PATH_BYTES + 64];
    struct message_move move = {.from = "/tmp/a",
                                .from_length = 6,
                                .to = "/tmp/bc",
                                .to_length = 7},
                        back;
    ssize_t length = message_move_pack(&move, data, sizeof(data));
    struct frame frame = frame_of(data, length);

    (void)state;
    assert_int_equal(message_move_unpack(&frame, &back), 0);
    assert_int_equal(back.from_length, 6);
    assert_memory_equal(back.from, "/tmp/a", 6);
    assert_int_equal(back.to_length, 7);
    assert_memory_equal(back.to, "/tmp/bc", 7);
    check_lengths(unpack_move, data, length, 2 + 6);
    data[2 + 6 + 1] = 0; /* a NUL in the second name */
    assert_int_equal(message_move_unpack(&frame, &back), -EPROTO);
    data[2 + 6 + 1] = 'x';
    data[2 + 1] = 0; /* and in the first */
    assert_int_equal(message_move_unpack(&frame, &back), -EPROTO);

    memset(longest, 'x', sizeof(longest));
    move = (struct message_move){.from = longest,
                                 .from_length = LIMIT_PATH_BYTES,
                                 .to = longest,
                                 .to_length = LIMIT_PATH_BYTES};
    frame = frame_of(data, message_move_pack(&move, data, sizeof(data)));
    assert_int_equal(message_move_unpack(&frame, &back), 0);
    assert_int_equal(message_move_pack(&move, data, 2 * LIMIT_PATH_BYTES), -EMSGSIZE);
    move.to_length++;
    frame = frame_of(data, message_move_pack(&move, data, sizeof(data)));
    assert_int_equal(message_move_unpack(&frame, &back), -EPROTO);
    move.from_length++;
    assert_int_equal(message_move_pack(&move, data, sizeof(data)), -EMSGSIZE);
    data[0] = data[1] = 0xff; /* longer than the frame */
    assert_int_equal(message_move_unpack(&frame, &back), -EPROTO);
}

static void test_changed(void **state)
{
    uint8_t data[64];
    struct message_changed changed = {.kind = CHANGE_RENAMED_TO,
                                      .is_folder = true,
                                      .path = "a/b",
                                      .path_length = 3},
                           back;
    ssize_t length = message_changed_pack(&changed, data, sizeof(data));
    struct frame frame = frame_of(data, length);

    (void)state;
    assert_int_equal(message_changed_unpack(&frame, &back), 0);
    assert_int_equal(back.kind, CHANGE_RENAMED_TO);
    assert_true(back.is_folder);
    assert_int_equal(back.path_length, 3);
    assert_memory_equal(back.path, "a/b", 3);
    check_lengths(unpack_changed, data, length, 2);
    data[1] = 2; /* neither a folder nor none */
    assert_int_equal(message_changed_unpack(&frame, &back), -EPROTO);
    data[1] = 0;
    data[0] = _CHANGE_KIND_MAX;
    assert_int_equal(message_changed_unpack(&frame, &back), -EPROTO);
    data[0] = CHANGE_CREATED;
    data[3] = 0;
    assert_int_equal(message_changed_unpack(&frame, &back), -EPROTO);
    assert_int_equal(message_changed_pack(&changed, data, 4), -EMSGSIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_move),
        cmocka_unit_test(test_changed),
    };

    return cmocka_run_group_tests_name("wire/file_message", tests, NULL, NULL);
}
