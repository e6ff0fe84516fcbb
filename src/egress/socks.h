/*
 * socks.h - SOCKS version 5 (RFC 1928), as far as a tunnel needs it: no authentication, CONNECT,
 * names and addresses. Pure functions over hostile bytes; fuzzed.
 *
 * Runs in: egress
 */
#ifndef BAILEY_EGRESS_SOCKS_H
#define BAILEY_EGRESS_SOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "egress/host.h"

#define SOCKS_VERSION 5

enum socks_reply {
    SOCKS_DONE = 0,
    SOCKS_FAILED = 1,
    SOCKS_NOT_ALLOWED = 2,
    SOCKS_UNREACHABLE = 4,
    SOCKS_NO_COMMAND = 7,
    SOCKS_NO_ADDRESS = 8,
};

#define SOCKS_REPLY_BYTES 10

/* Both: the bytes used (more than 0), -EAGAIN, or refused with what to answer in *ret_reply. */
int socks_greeting(const uint8_t *data, size_t length); /* -EPROTO: answer {5, 0xff} */
int socks_request(const uint8_t *data, size_t length, struct host *ret_host, uint16_t *ret_port,
                  enum socks_reply *ret_reply);
void socks_reply(enum socks_reply reply, uint8_t data[SOCKS_REPLY_BYTES]);

#endif
