/*
 * link.h - links to outputs, and to ports of sessions, that need no key for a limited time: signed
 * with the daemon's own secret. Pure.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_LINK_H
#define BAILEY_API_LINK_H

#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/sha256.h"

#define LINK_SKEW_S 30 /* allowed difference of clocks */
#define LINK_MAX 256

/* "/v1/artifacts/ID?expires=SECONDS&signature=HEX"; expires_s: since 1970. */
void link_make(const uint8_t secret[SHA256_BYTES], const char *id, uint64_t expires_s,
               char text[LINK_MAX]);
/* The two arguments as received. -EACCES (link_expired): expired, or not signed by this daemon. */
int link_check(const uint8_t secret[SHA256_BYTES], const char *id, const char *expires,
               const char *signature, uint64_t now_s, struct error *err);

/*
 * "/v1/ports/ID/PORT/SECONDS/HEX/": the signature is in the path, so that addresses relative to it
 * work too.
 */
void link_port_make(const uint8_t secret[SHA256_BYTES], const char *session, unsigned port,
                    uint64_t expires_s, char text[LINK_MAX]);
int link_port_check(const uint8_t secret[SHA256_BYTES], const char *session, unsigned port,
                    const char *expires, const char *signature, uint64_t now_s, struct error *err);

#endif
