/*
 * sha1.h - SHA-1 (FIPS 180-4) of a short text, for Sec-WebSocket-Accept, which RFC 6455 requires.
 * Pure. Proves nothing about the origin of the text: use base/sha256.h for that.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_SHA1_H
#define BAILEY_HTTP_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define SHA1_BYTES 20

void sha1(const void *data, size_t length, uint8_t digest[SHA1_BYTES]);

#endif
