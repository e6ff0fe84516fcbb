/* pack.c - numbers and bytes in and out of a payload; see pack.h. */
#include "wire/pack.h"

#include <string.h>

static void pack_number(struct pack *pack, uint64_t value, size_t size)
{
    if (pack->failed || size > pack->capacity - pack->length) {
        pack->failed = true;
        return;
    }
    for (size_t i = 0; i < size; i++)
        pack->data[pack->length++] = (uint8_t)(value >> (8 * i));
}

void pack_u8(struct pack *pack, uint8_t value)
{
    pack_number(pack, value, 1);
}

void pack_u16(struct pack *pack, uint16_t value)
{
    pack_number(pack, value, 2);
}

void pack_u32(struct pack *pack, uint32_t value)
{
    pack_number(pack, value, 4);
}

void pack_u64(struct pack *pack, uint64_t value)
{
    pack_number(pack, value, 8);
}

void pack_bytes(struct pack *pack, const void *data, size_t length)
{
    if (pack->failed || length > pack->capacity - pack->length) {
        pack->failed = true;
        return;
    }
    if (length > 0)
        memcpy(pack->data + pack->length, data, length);
    pack->length += length;
}

static uint64_t unpack_number(struct unpack *unpack, size_t size)
{
    uint64_t value = 0;

    if (unpack->failed || size > unpack->left) {
        unpack->failed = true;
        return 0;
    }
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)unpack->data[i] << (8 * i);
    unpack->data += size;
    unpack->left -= size;
    return value;
}

uint8_t unpack_u8(struct unpack *unpack)
{
    return (uint8_t)unpack_number(unpack, 1);
}

uint16_t unpack_u16(struct unpack *unpack)
{
    return (uint16_t)unpack_number(unpack, 2);
}

uint32_t unpack_u32(struct unpack *unpack)
{
    return (uint32_t)unpack_number(unpack, 4);
}

uint64_t unpack_u64(struct unpack *unpack)
{
    return unpack_number(unpack, 8);
}

const void *unpack_rest(struct unpack *unpack, size_t *ret_length)
{
    const void *data = unpack->data;

    *ret_length = unpack->failed ? 0 : unpack->left;
    unpack->data += *ret_length;
    unpack->left -= *ret_length;
    return data;
}

bool unpack_done(const struct unpack *unpack)
{
    return !unpack->failed && unpack->left == 0;
}
