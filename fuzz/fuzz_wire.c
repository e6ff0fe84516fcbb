/*
 * fuzz_wire.c - any bytes as a stream of frames, each frame through every unpacker. What a peer
 * can send must not be able to do more than break its own connection.
 *
 * The first byte says how large the pieces are in which the stream is fed.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/file_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

/* Unpacked bytes have to lie in the frame; all of them are read. */
static void check_inside(const struct frame *frame, const void *data, size_t length)
{
    const uint8_t *start = data;
    volatile uint8_t sum = 0;

    check(start >= frame->payload && length <= frame->length);
    check(start + length <= frame->payload + frame->length);
    for (size_t i = 0; i < length; i++)
        sum = (uint8_t)(sum + start[i]);
}

/* What could be unpacked packs to the same bytes. */
static void check_packed(const struct frame *frame, const uint8_t *packed, ssize_t length)
{
    check(length == (ssize_t)frame->length && memcmp(packed, frame->payload, (size_t)length) == 0);
}

static void unpack_fixed(const struct frame *frame)
{
    static uint8_t packed[WIRE_FRAME_MAX];
    struct message_ready ready;
    struct message_fail fail;
    struct message_exec exec;
    struct message_ack ack;
    struct message_exited exited;
    struct message_inventory inventory;
    struct message_resume resume;
    struct message_size terminal;
    struct message_kernel kernel;
    struct message_cell cell;
    struct message_started started;
    uint32_t number;

    if (message_ready_unpack(frame, &ready) == 0)
        check_packed(frame, packed, message_ready_pack(&ready, packed, sizeof(packed)));
    if (message_fail_unpack(frame, &fail) == 0)
        check_packed(frame, packed, message_fail_pack(&fail, packed, sizeof(packed)));
    if (message_exec_unpack(frame, &exec) == 0)
        check_packed(frame, packed, message_exec_pack(&exec, packed, sizeof(packed)));
    if (message_ack_unpack(frame, &ack) == 0)
        check_packed(frame, packed, message_ack_pack(&ack, packed, sizeof(packed)));
    if (message_exited_unpack(frame, &exited) == 0)
        check_packed(frame, packed, message_exited_pack(&exited, packed, sizeof(packed)));
    if (message_inventory_unpack(frame, &inventory) == 0)
        check_packed(frame, packed, message_inventory_pack(&inventory, packed, sizeof(packed)));
    if (message_resume_unpack(frame, &resume) == 0)
        check_packed(frame, packed, message_resume_pack(&resume, packed, sizeof(packed)));
    if (message_size_unpack(frame, &terminal) == 0)
        check_packed(frame, packed, message_size_pack(&terminal, packed, sizeof(packed)));
    if (message_kernel_unpack(frame, &kernel) == 0)
        check_packed(frame, packed, message_kernel_pack(&kernel, packed, sizeof(packed)));
    if (message_cell_unpack(frame, &cell) == 0)
        check_packed(frame, packed, message_cell_pack(&cell, packed, sizeof(packed)));
    if (message_started_unpack(frame, &started) == 0)
        check_packed(frame, packed, message_started_pack(&started, packed, sizeof(packed)));
    if (message_number_unpack(frame, &number) == 0)
        check_packed(frame, packed, message_number_pack(number, packed, sizeof(packed)));
}

static void unpack_all(const struct frame *stream_frame)
{
    /* A copy whose memory ends with the frame: a read behind it is seen. */
    uint8_t *copy = malloc(stream_frame->length + (stream_frame->length == 0));
    struct frame frame = *stream_frame;
    struct message_bytes bytes;
    struct message_path path;

    check(copy != NULL);
    memcpy(copy, frame.payload, frame.length);
    frame.payload = copy;
    unpack_fixed(&frame);
    if (message_bytes_unpack(&frame, &bytes) == 0)
        check_inside(&frame, bytes.data, bytes.length);
    if (message_path_unpack(&frame, &path) == 0)
        check_inside(&frame, path.path, path.path_length);
    free(copy);
}

/* One whole message, as it comes over a socket that keeps messages apart. */
static void decode_whole(const uint8_t *data, size_t size)
{
    struct frame frame;

    if (frame_decode(data, size, &frame) == 0) {
        check(frame.length + FRAME_HEADER == size);
        unpack_all(&frame);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct frame_stream stream;
    size_t piece = size > 0 && data[0] > 0 ? data[0] : SIZE_MAX;

    decode_whole(data, size);
    stream.have = 0;
    for (size_t at = 1; at < size;) {
        size_t part = piece < size - at ? piece : size - at;
        size_t taken = frame_stream_feed(&stream, data + at, part);
        struct frame frame;
        int r;

        check(taken > 0 && taken <= part);
        at += taken;
        r = frame_stream_next(&stream, &frame);
        if (r < 0)
            break;
        if (r == 1) {
            check(frame.type > 0 && frame.type < _FRAME_TYPE_MAX);
            check(frame.length <= FRAME_PAYLOAD_MAX);
            unpack_all(&frame);
        }
    }
    return 0;
}
