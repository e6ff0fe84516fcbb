/* hmac.c - see hmac.h. */
#include "base/hmac.h"

#include <string.h>

void hmac_sha256(const void *key, size_t key_length, const void *data, size_t length,
                 uint8_t digest[SHA256_BYTES])
{
    uint8_t block[SHA256_BLOCK] = {0};
    struct sha256 hash;

    if (key_length > sizeof(block))
        sha256(key, key_length, block);
    else if (key_length > 0)
        memcpy(block, key, key_length);
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] ^= 0x36;
    sha256_begin(&hash);
    sha256_add(&hash, block, sizeof(block));
    sha256_add(&hash, data, length);
    sha256_end(&hash, digest);
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] ^= 0x36 ^ 0x5c;
    sha256_begin(&hash);
    sha256_add(&hash, block, sizeof(block));
    sha256_add(&hash, digest, SHA256_BYTES);
    sha256_end(&hash, digest);
    explicit_bzero(block, sizeof(block));
}

bool hmac_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES])
{
    volatile uint8_t different = 0;

    for (int i = 0; i < SHA256_BYTES; i++)
        different |= a[i] ^ b[i];
    return different == 0;
}
