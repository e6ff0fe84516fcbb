/* frame.c - headers and byte streams; see frame.h. */
#include "wire/frame.h"

#include <errno.h>
#include <string.h>

#include "wire/pack.h"

void frame_header(uint8_t header[FRAME_HEADER], enum frame_type type, uint32_t id, size_t length)
{
    struct pack pack = {.data = header, .capacity = FRAME_HEADER};

    pack_u32(&pack, (uint32_t)(length + FRAME_HEADER));
    pack_u16(&pack, (uint16_t)type);
    pack_u16(&pack, 0);
    pack_u32(&pack, id);
}

/* Reads and checks a header; *ret_length is that of the whole frame. */
static int header_decode(const uint8_t *header, struct frame *ret, size_t *ret_length)
{
    struct unpack unpack = {.data = header, .left = FRAME_HEADER};
    uint32_t length = unpack_u32(&unpack);
    uint16_t type = unpack_u16(&unpack);
    uint16_t zero = unpack_u16(&unpack);

    if (length < FRAME_HEADER || length > WIRE_FRAME_MAX || zero != 0)
        return -EPROTO;
    if (type == 0 || type >= _FRAME_TYPE_MAX)
        return -EPROTO;
    ret->type = type;
    ret->id = unpack_u32(&unpack);
    *ret_length = length;
    return 0;
}

int frame_decode(const void *data, size_t length, struct frame *ret)
{
    size_t whole;

    if (length < FRAME_HEADER)
        return -EPROTO;
    if (header_decode(data, ret, &whole) < 0 || whole != length)
        return -EPROTO;
    ret->payload = (const uint8_t *)data + FRAME_HEADER;
    ret->length = length - FRAME_HEADER;
    return 0;
}

/* Bytes still wanted: of the header first, then of the frame it announces. 0: complete. */
static size_t stream_wants(const struct frame_stream *stream)
{
    struct frame frame;
    size_t whole;

    if (stream->have < FRAME_HEADER)
        return FRAME_HEADER - stream->have;
    if (header_decode(stream->data, &frame, &whole) < 0)
        return 0;
    return whole - stream->have;
}

size_t frame_stream_feed(struct frame_stream *stream, const void *data, size_t length)
{
    size_t taken = 0;

    if (stream_wants(stream) == 0)
        stream->have = 0; /* the complete frame was handed out before */
    while (taken < length) {
        size_t part = stream_wants(stream);

        if (part == 0)
            break;
        if (part > length - taken)
            part = length - taken;
        memcpy(stream->data + stream->have, (const uint8_t *)data + taken, part);
        stream->have += part;
        taken += part;
    }
    return taken;
}

int frame_stream_next(struct frame_stream *stream, struct frame *ret)
{
    size_t whole;

    if (stream->have < FRAME_HEADER)
        return 0;
    if (header_decode(stream->data, ret, &whole) < 0)
        return -EPROTO;
    if (stream->have < whole)
        return 0;
    ret->payload = stream->data + FRAME_HEADER;
    ret->length = whole - FRAME_HEADER;
    return 1;
}
