/* sha1.c - SHA-1, one call, plain C; see sha1.h for the one thing it is good for. */
#include "http/sha1.h"

#include <string.h>

#include "base/cleanup.h"

#define BLOCK 64

static uint32_t turned(uint32_t word, unsigned bits)
{
    return word << bits | word >> (32 - bits);
}

static uint32_t word_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The function and constant of a round, by the standard's four parts. */
static uint32_t part_of(int round, const uint32_t v[5])
{
    if (round < 20)
        return (v[1] & v[2]) + (~v[1] & v[3]) + 0x5a827999;
    if (round < 40)
        return (v[1] ^ v[2] ^ v[3]) + 0x6ed9eba1;
    if (round < 60)
        return ((v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3])) + 0x8f1bbcdc;
    return (v[1] ^ v[2] ^ v[3]) + 0xca62c1d6;
}

static void mix(uint32_t state[5], const uint8_t block[BLOCK])
{
    uint32_t w[80], v[5];

    for (int i = 0; i < 16; i++)
        w[i] = word_at(block + 4 * i);
    for (int i = 16; i < 80; i++)
        w[i] = turned(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, state, sizeof(v));
    for (int i = 0; i < 80; i++) {
        uint32_t next = turned(v[0], 5) + part_of(i, v) + v[4] + w[i];

        v[4] = v[3];
        v[3] = v[2];
        v[2] = turned(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (int i = 0; i < 5; i++)
        state[i] += v[i];
}

void sha1(const void *data, size_t length, uint8_t digest[SHA1_BYTES])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint64_t bits = (uint64_t)length * 8;
    const uint8_t *at = data;
    uint8_t last[2 * BLOCK] = {0};
    size_t rest = length % BLOCK, size = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;

    for (size_t i = 0; i < length / BLOCK; i++, at += BLOCK)
        mix(state, at);
    if (rest > 0)
        memcpy(last, at, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        last[size - 1 - (size_t)i] = (uint8_t)(bits >> 8 * i);
    for (size_t i = 0; i < size; i += BLOCK)
        mix(state, last + i);
    for (int i = 0; i < SHA1_BYTES; i++)
        digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
