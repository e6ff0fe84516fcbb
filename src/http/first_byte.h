/*
 * first_byte.h - one address for HTTPS and for plain HTTP: accepts its connections, and gives each
 * to one of two servers of libmicrohttpd by its first byte, which is 0x16 where TLS begins (RFC
 * 8446, section 5.1: a handshake record) and a letter where HTTP does.
 *
 * Owned by an http_server, which it calls back; never blocks. A connection that says nothing is
 * closed after its time, and the oldest of them when there are FIRST_BYTE_MAX.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_FIRST_BYTE_H
#define BAILEY_HTTP_FIRST_BYTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/reactor.h"

#define FIRST_BYTE_MAX 256 /* connections that have said nothing yet */

struct first_byte;

struct first_byte_spec {
    struct reactor *reactor;
    int listen_fd;    /* borrowed; does not block */
    uint64_t wait_ms; /* for the first byte */
    /* Takes the descriptor over. */
    void (*accepted)(void *ctx, int fd, bool is_tls, const struct sockaddr *from, socklen_t length);
    void *ctx;
};

struct first_byte *first_byte_new(const struct first_byte_spec *spec); /* NULL: no memory */
/* The listener is not touched any more; connections that wait are closed. NULL is fine. */
void first_byte_free(struct first_byte *first_byte);

/* Whether a connection that begins so speaks TLS. Pure. */
bool first_byte_is_tls(uint8_t byte);

#endif
