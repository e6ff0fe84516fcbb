/* sha256.h - SHA-256 (FIPS 180-4) of bytes in memory, for names of artifacts. Pure; not for
 * secrets. */
#ifndef BAILEY_STORE_SHA256_H
#define BAILEY_STORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

void sha256(const void *data, size_t length, uint8_t digest[SHA256_BYTES]);

#endif
