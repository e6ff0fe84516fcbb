/*
 * fuzz_file_message.c - any bytes as the payload of a frame about files: what can be unpacked lies
 * in the frame, keeps its promises and packs to the same bytes.
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

/* A name lies in the frame, is not too long and has no NUL; all of it is read. */
static void check_name(const struct frame *frame, const char *name, size_t length)
{
    const uint8_t *start = (const uint8_t *)name;

    check(start >= frame->payload && length <= frame->length && length <= LIMIT_PATH_BYTES);
    check(start + length <= frame->payload + frame->length);
    check(!memchr(name, 0, length));
}

static void check_packed(const struct frame *frame, const uint8_t *packed, ssize_t length)
{
    check(length == (ssize_t)frame->length && memcmp(packed, frame->payload, (size_t)length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t packed[WIRE_FRAME_MAX];
    struct message_changed changed;
    struct message_move move;
    struct message_path path;
    struct frame frame = {.length = size};
    /* A copy whose memory ends with the payload: a read behind it is seen. */
    uint8_t *copy;

    if (size > FRAME_PAYLOAD_MAX)
        return 0;
    copy = malloc(size + (size == 0));
    check(copy != NULL);
    memcpy(copy, data, size);
    frame.payload = copy;
    if (message_path_unpack(&frame, &path) == 0) {
        check_name(&frame, path.path, path.path_length);
        check_packed(&frame, packed, message_path_pack(&path, packed, sizeof(packed)));
    }
    if (message_move_unpack(&frame, &move) == 0) {
        check_name(&frame, move.from, move.from_length);
        check_name(&frame, move.to, move.to_length);
        check_packed(&frame, packed, message_move_pack(&move, packed, sizeof(packed)));
    }
    if (message_changed_unpack(&frame, &changed) == 0) {
        check_name(&frame, changed.path, changed.path_length);
        check(changed.kind < _CHANGE_KIND_MAX);
        check_packed(&frame, packed, message_changed_pack(&changed, packed, sizeof(packed)));
    }
    free(copy);
    return 0;
}
