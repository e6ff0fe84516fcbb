/*
 * host.h - the one parser for the name of a host, wherever it was written: a CONNECT line, a URL,
 * SOCKS, the operator's list. Pure functions over hostile bytes; fuzzed.
 *
 * A name is letters, digits, hyphens and dots, made lower-case, without the dot at its end. What
 * some program might take for an address is an address here (decimal, octal, hexadecimal and short
 * forms, IPv6 in brackets) and has one form from then on. Everything else is refused: user names,
 * percent signs, NUL, blanks, zones, letters that are not ASCII (names of those are written xn--).
 *
 * Runs in: egress, commands
 */
#ifndef BAILEY_EGRESS_HOST_H
#define BAILEY_EGRESS_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/address.h"

#define HOST_TEXT_MAX 254 /* with the NUL; of a name without its last dot (RFC 1035) */

struct host {
    bool is_address;
    struct address address;
    char name[HOST_TEXT_MAX]; /* the name, or the address's text */
};

int host_parse(const char *text, size_t length, struct host *ret); /* 0 or -EINVAL */
/* "host:port", or "host" alone where default_port is not 0 (a port of 0 is never valid). */
int host_parse_port(const char *text, size_t length, uint16_t default_port, struct host *ret,
                    uint16_t *ret_port);
void host_from_address(const struct address *address, struct host *ret);
bool host_equal(const struct host *a, const struct host *b);
/* As in a URL: IPv6 in brackets. */
const char *host_in_url(const struct host *host, char text[HOST_TEXT_MAX + 2]);

#endif
