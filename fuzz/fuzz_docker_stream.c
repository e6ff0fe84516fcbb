/*
 * fuzz_docker_stream.c - any bytes as what an attached container sends: Docker's packets, and in
 * them frames. In whatever pieces they come, the same is understood.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/docker/docker_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

struct understood {
    size_t bytes[3]; /* of each stream */
    uint64_t sum;    /* of frames: in order, with what is in them */
    unsigned frames;
    int trouble;
};

static void add(uint64_t *sum, const void *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        *sum = (*sum ^ ((const uint8_t *)data)[i]) * UINT64_C(1099511628211);
}

/* Bytes of standard output, as pump.c feeds them. */
static int feed(struct frame_stream *stream, const uint8_t *data, size_t length,
                struct understood *ret)
{
    size_t taken = 0;

    while (taken < length) {
        size_t part = frame_stream_feed(stream, data + taken, length - taken);
        struct frame frame;
        int r;

        check(part > 0 && part <= length - taken);
        taken += part;
        r = frame_stream_next(stream, &frame);
        if (r < 0)
            return r;
        if (r == 0)
            continue;
        check(frame.length <= FRAME_PAYLOAD_MAX && frame.payload == stream->data + FRAME_HEADER);
        ret->frames++;
        add(&ret->sum, &frame.id, sizeof(frame.id));
        add(&ret->sum, frame.payload, frame.length);
    }
    return 0;
}

static void understand(const uint8_t *data, size_t size, size_t piece, struct understood *ret)
{
    static struct frame_stream stream;
    struct packets packets = {0};

    stream.have = 0;
    *ret = (struct understood){0};
    for (size_t at = 0; at < size;) {
        size_t room = MIN(piece, size - at), length = 0;
        const uint8_t *bytes = NULL;
        int number = 0;
        ssize_t done = packets_take(&packets, data + at, room, &number, &bytes, &length);

        if (done < 0) {
            ret->trouble = (int)done;
            return;
        }
        check(done > 0 && (size_t)done <= room && length <= (size_t)done);
        if (length > 0) {
            check(number == PACKET_STDOUT || number == PACKET_STDERR);
            check(bytes == data + at);
            ret->bytes[number] += length;
        }
        at += (size_t)done;
        if (length > 0 && number == PACKET_STDOUT && feed(&stream, bytes, length, ret) < 0) {
            ret->trouble = -EBADMSG;
            return;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct understood whole, cut;
    size_t piece = size > 0 ? data[0] % 13 + 1 : 1;

    understand(data, size, size, &whole);
    understand(data, size, piece, &cut);
    check(whole.trouble == cut.trouble && whole.frames == cut.frames && whole.sum == cut.sum);
    if (whole.trouble == 0)
        check(whole.bytes[1] == cut.bytes[1] && whole.bytes[2] == cut.bytes[2]);
    return 0;
}
