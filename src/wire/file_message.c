/* file_message.c - what the frames about files say; see file_message.h. */
#include "wire/file_message.h"

#include <errno.h>
#include <string.h>

#include "wire/pack.h"

static bool is_path(const char *path, size_t length)
{
    return length <= LIMIT_PATH_BYTES && !memchr(path, 0, length);
}

ssize_t message_path_pack(const struct message_path *path, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u32(&pack, path->mode);
    pack_u32(&pack, path->flags);
    pack_u32(&pack, path->depth);
    pack_u64(&pack, path->offset);
    pack_u64(&pack, path->bytes);
    pack_u64(&pack, path->time_ns);
    pack_bytes(&pack, path->path, path->path_length);
    return pack.failed ? -EMSGSIZE : (ssize_t)pack.length;
}

int message_path_unpack(const struct frame *frame, struct message_path *ret)
{
    struct unpack unpack = {.data = frame->payload, .left = frame->length};

    ret->mode = unpack_u32(&unpack);
    ret->flags = unpack_u32(&unpack);
    ret->depth = unpack_u32(&unpack);
    ret->offset = unpack_u64(&unpack);
    ret->bytes = unpack_u64(&unpack);
    ret->time_ns = unpack_u64(&unpack);
    ret->path = unpack_rest(&unpack, &ret->path_length);
    return unpack_done(&unpack) && is_path(ret->path, ret->path_length) ? 0 : -EPROTO;
}

ssize_t message_move_pack(const struct message_move *move, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    if (move->from_length > LIMIT_PATH_BYTES)
        return -EMSGSIZE;
    pack_u16(&pack, (uint16_t)move->from_length);
    pack_bytes(&pack, move->from, move->from_length);
    pack_bytes(&pack, move->to, move->to_length);
    return pack.failed ? -EMSGSIZE : (ssize_t)pack.length;
}

int message_move_unpack(const struct frame *frame, struct message_move *ret)
{
    struct unpack unpack = {.data = frame->payload, .left = frame->length};

    ret->from_length = unpack_u16(&unpack);
    ret->from = unpack_rest(&unpack, &ret->to_length);
    if (!unpack_done(&unpack) || ret->from_length > ret->to_length)
        return -EPROTO;
    ret->to = ret->from + ret->from_length;
    ret->to_length -= ret->from_length;
    return is_path(ret->from, ret->from_length) && is_path(ret->to, ret->to_length) ? 0 : -EPROTO;
}

ssize_t message_changed_pack(const struct message_changed *changed, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u8(&pack, changed->kind);
    pack_u8(&pack, changed->is_folder);
    pack_bytes(&pack, changed->path, changed->path_length);
    return pack.failed ? -EMSGSIZE : (ssize_t)pack.length;
}

int message_changed_unpack(const struct frame *frame, struct message_changed *ret)
{
    struct unpack unpack = {.data = frame->payload, .left = frame->length};

    uint8_t is_folder;

    ret->kind = unpack_u8(&unpack);
    is_folder = unpack_u8(&unpack);
    ret->path = unpack_rest(&unpack, &ret->path_length);
    if (!unpack_done(&unpack) || ret->kind >= _CHANGE_KIND_MAX || is_folder > 1)
        return -EPROTO;
    ret->is_folder = is_folder;
    return is_path(ret->path, ret->path_length) ? 0 : -EPROTO;
}
