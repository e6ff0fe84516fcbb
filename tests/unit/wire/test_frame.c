/* test_frame.c - headers, whole messages and byte streams, with peers that lie. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

/* Writes a frame with `length` bytes of payload, each `fill`; returns its whole length. */
static size_t write_frame(uint8_t *to, enum frame_type type, uint32_t id, size_t length, int fill)
{
    frame_header(to, type, id, length);
    memset(to + FRAME_HEADER, fill, length);
    return FRAME_HEADER + length;
}

static void check_frame(const struct frame *frame, enum frame_type type, uint32_t id, size_t length,
                        int fill)
{
    assert_int_equal(frame->type, type);
    assert_int_equal(frame->id, id);
    assert_int_equal(frame->length, length);
    for (size_t i = 0; i < length; i++)
        assert_int_equal(frame->payload[i], fill);
}

static void test_header(void **state)
{
    static const uint8_t expected[FRAME_HEADER] = {0x12, 1, 0, 0, FRAME_OUTPUT, 0, 0, 0,
                                                   4,    3, 2, 1};
    uint8_t header[FRAME_HEADER];

    (void)state;
    frame_header(header, FRAME_OUTPUT, 0x01020304, 0x106);
    assert_memory_equal(header, expected, sizeof(expected));
}

static void test_decode(void **state)
{
    static uint8_t data[WIRE_FRAME_MAX + 1];
    struct frame frame;
    size_t length;

    (void)state;
    for (int type = 1; type < _FRAME_TYPE_MAX; type++) {
        length = write_frame(data, (enum frame_type)type, (uint32_t)type * 7, 3, 'x');
        assert_int_equal(frame_decode(data, length, &frame), 0);
        check_frame(&frame, (enum frame_type)type, (uint32_t)type * 7, 3, 'x');
        assert_ptr_equal(frame.payload, data + FRAME_HEADER);
    }
    length = write_frame(data, FRAME_GO, 0, 0, 0);
    assert_int_equal(frame_decode(data, length, &frame), 0);
    assert_int_equal(frame.length, 0);
    length = write_frame(data, FRAME_DATA, UINT32_MAX, FRAME_PAYLOAD_MAX, 'y');
    assert_int_equal(length, WIRE_FRAME_MAX);
    assert_int_equal(frame_decode(data, length, &frame), 0);
    check_frame(&frame, FRAME_DATA, UINT32_MAX, FRAME_PAYLOAD_MAX, 'y');
}

/* What a header may not say. */
static const struct {
    uint32_t length;
    uint16_t type, zero;
} hostile[] = {
    {0, FRAME_OUTPUT, 0},
    {11, FRAME_OUTPUT, 0},
    {WIRE_FRAME_MAX + 1, FRAME_OUTPUT, 0},
    {0x80000000, FRAME_OUTPUT, 0},
    {UINT32_MAX, FRAME_OUTPUT, 0},
    {12, 0, 0},
    {12, _FRAME_TYPE_MAX, 0},
    {12, 0x0100, 0},
    {12, UINT16_MAX, 0},
    {12, FRAME_OUTPUT, 1},
    {12, FRAME_OUTPUT, 0x8000},
};

static void write_hostile(uint8_t header[FRAME_HEADER], size_t index)
{
    memset(header, 0, FRAME_HEADER);
    for (int i = 0; i < 4; i++)
        header[i] = (uint8_t)(hostile[index].length >> (8 * i));
    header[4] = (uint8_t)hostile[index].type;
    header[5] = (uint8_t)(hostile[index].type >> 8);
    header[6] = (uint8_t)hostile[index].zero;
    header[7] = (uint8_t)(hostile[index].zero >> 8);
}

static void test_decode_hostile(void **state)
{
    uint8_t data[64];
    struct frame frame;
    size_t length = write_frame(data, FRAME_ACK, 1, 5, 0);

    (void)state;
    for (size_t cut = 0; cut < length; cut++)
        assert_int_equal(frame_decode(data, cut, &frame), -EPROTO);
    assert_int_equal(frame_decode(data, length + 1, &frame), -EPROTO);
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        uint8_t header[FRAME_HEADER];

        write_hostile(header, i);
        assert_int_equal(frame_decode(header, sizeof(header), &frame), -EPROTO);
    }
}

static void test_stream_hostile(void **state)
{
    static struct frame_stream stream;
    struct frame frame;

    (void)state;
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        uint8_t header[FRAME_HEADER];

        write_hostile(header, i);
        stream.have = 0;
        for (size_t at = 0; at < FRAME_HEADER; at++) {
            assert_int_equal(frame_stream_next(&stream, &frame), 0);
            assert_int_equal(frame_stream_feed(&stream, header + at, 1), 1);
        }
        assert_int_equal(frame_stream_next(&stream, &frame), -EPROTO);
        assert_int_equal(frame_stream_next(&stream, &frame), -EPROTO); /* and stays so */
    }
}

/* Three frames behind one another: an empty one, a small one and the largest. */
static const struct {
    enum frame_type type;
    uint32_t id;
    size_t length;
    int fill;
} row[] = {
    {FRAME_STDIN_END, 7, 0, 0}, {FRAME_ACK, 8, 9, 'a'}, {FRAME_DATA, 9, FRAME_PAYLOAD_MAX, 'b'}};

#define ROW_COUNT 3

static size_t write_row(uint8_t *to)
{
    size_t length = 0;

    for (size_t i = 0; i < ROW_COUNT; i++)
        length += write_frame(to + length, row[i].type, row[i].id, row[i].length, row[i].fill);
    return length;
}

/* Feeds pieces of sizes that `piece` chooses; every frame has to come out once, in order. */
static void feed_row(size_t (*piece)(void))
{
    static struct frame_stream stream;
    static uint8_t data[WIRE_FRAME_MAX + 64];
    size_t length = write_row(data), at = 0, seen = 0;

    stream.have = 0;
    while (at < length) {
        size_t part = piece();
        struct frame frame;
        size_t taken;

        part = part > length - at ? length - at : part;
        taken = frame_stream_feed(&stream, data + at, part);
        assert_in_range(taken, 1, part);
        at += taken;
        if (frame_stream_next(&stream, &frame) == 1) {
            assert_in_range(seen, 0, ROW_COUNT - 1);
            check_frame(&frame, row[seen].type, row[seen].id, row[seen].length, row[seen].fill);
            seen++;
        }
    }
    assert_int_equal(seen, ROW_COUNT);
}

static size_t one_byte(void)
{
    return 1;
}

static size_t all_at_once(void)
{
    return SIZE_MAX;
}

static size_t any_piece(void)
{
    return rand() % 8 ? 1 + (size_t)(rand() % 20) : 1 + (size_t)(rand() % 40000);
}

static void test_stream_pieces(void **state)
{
    (void)state;
    feed_row(one_byte);
    feed_row(all_at_once);
    srand(1);
    for (int i = 0; i < 50; i++)
        feed_row(any_piece);
}

/* A feed takes nothing that belongs to the frame after the current one. */
static void test_stream_stops_at_the_end(void **state)
{
    static struct frame_stream stream;
    uint8_t data[64];
    size_t first = write_frame(data, FRAME_GO, 1, 4, 1);
    size_t second = write_frame(data + first, FRAME_ACK, 2, 9, 2);
    struct frame frame;

    (void)state;
    assert_int_equal(frame_stream_feed(&stream, data, 0), 0);
    assert_int_equal(frame_stream_feed(&stream, data, first + second), first);
    assert_int_equal(frame_stream_next(&stream, &frame), 1);
    check_frame(&frame, FRAME_GO, 1, 4, 1);
    assert_int_equal(frame_stream_next(&stream, &frame), 1); /* until the next feed */
    assert_int_equal(frame_stream_feed(&stream, data + first, second), second);
    assert_int_equal(frame_stream_next(&stream, &frame), 1);
    check_frame(&frame, FRAME_ACK, 2, 9, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),         cmocka_unit_test(test_decode),
        cmocka_unit_test(test_decode_hostile), cmocka_unit_test(test_stream_hostile),
        cmocka_unit_test(test_stream_pieces),  cmocka_unit_test(test_stream_stops_at_the_end),
    };

    return cmocka_run_group_tests_name("wire/frame", tests, NULL, NULL);
}
