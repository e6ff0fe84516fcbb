/*
 * hmac.h - HMAC-SHA-256 (RFC 2104), and a comparison that takes the same time wherever two texts
 * differ: for hashes of keys and for signed links. Pure.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_HMAC_H
#define BAILEY_BASE_HMAC_H

#include "base/sha256.h"

void hmac_sha256(const void *key, size_t key_length, const void *data, size_t length,
                 uint8_t digest[SHA256_BYTES]);
bool hmac_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES]);

#endif
