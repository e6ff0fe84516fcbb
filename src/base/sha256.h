/*
 * sha256.h - SHA-256 (FIPS 180-4), for names of artifacts and contents of layers. Pure; not for
 * secrets. Uses the processor's own instructions where it has them.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_SHA256_H
#define BAILEY_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32
#define SHA256_BLOCK 64
#define SHA256_TEXT (2 * SHA256_BYTES + 1)

void sha256(const void *data, size_t length, uint8_t digest[SHA256_BYTES]);

/* Bytes that come in pieces. */
struct sha256 {
    uint32_t state[8];
    uint64_t length; /* so far */
    uint8_t block[SHA256_BLOCK];
    bool is_plain; /* without the processor's help; set after sha256_begin() by a test */
};
void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t length);
void sha256_end(struct sha256 *hash, uint8_t digest[SHA256_BYTES]);

void sha256_text(const uint8_t digest[SHA256_BYTES], char text[SHA256_TEXT]); /* hexadecimal */

#endif
