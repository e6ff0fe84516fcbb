/*
 * pack.h - numbers and bytes in and out of a payload, little endian, bounds checked once.
 *
 * A pack or unpack that went over its end is `failed` and stays so: write or read a whole message,
 * then look at the flag once. Nothing here allocates; unpacked bytes point into the payload.
 *
 * Runs in: broker, hosts, launcher, box
 */
#ifndef BAILEY_WIRE_PACK_H
#define BAILEY_WIRE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack {
    uint8_t *data;
    size_t length;
    size_t capacity;
    bool failed;
};

void pack_u8(struct pack *pack, uint8_t value);
void pack_u16(struct pack *pack, uint16_t value);
void pack_u32(struct pack *pack, uint32_t value);
void pack_u64(struct pack *pack, uint64_t value);
void pack_bytes(struct pack *pack, const void *data, size_t length); /* as they are, no length */

struct unpack {
    const uint8_t *data;
    size_t left;
    bool failed;
};

uint8_t unpack_u8(struct unpack *unpack);
uint16_t unpack_u16(struct unpack *unpack);
uint32_t unpack_u32(struct unpack *unpack);
uint64_t unpack_u64(struct unpack *unpack);
const void *unpack_rest(struct unpack *unpack, size_t *ret_length);

/* True when everything was there and nothing is left over. */
bool unpack_done(const struct unpack *unpack);

#endif
