/*
 * address.h - an IP address in one form, and its kind. Pure functions.
 *
 * IPv4 is kept as IPv4-mapped IPv6, so that an address has exactly one form here however it was
 * written, and two are the same when their bytes are.
 *
 * Runs in: egress
 */
#ifndef BAILEY_EGRESS_ADDRESS_H
#define BAILEY_EGRESS_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct address {
    uint8_t bytes[16];
};

enum address_kind {
    ADDRESS_PUBLIC,
    ADDRESS_PRIVATE, /* of an organisation: RFC 1918, RFC 6598, unique local */
    ADDRESS_LOOPBACK,
    ADDRESS_LINK_LOCAL,
    ADDRESS_METADATA, /* of a cloud: gives credentials to every client */
    ADDRESS_MULTICAST,
    ADDRESS_RESERVED, /* "this network", broadcast, ways into IPv4 by another name */
    _ADDRESS_KIND_MAX,
};

#define ADDRESS_TEXT_MAX 48

void address_from_v4(const uint8_t bytes[4], struct address *ret);
bool address_is_v4(const struct address *address);
bool address_equal(const struct address *a, const struct address *b);
enum address_kind address_kind(const struct address *address);
const char *address_kind_word(enum address_kind kind); /* "private_address"; a verdict's reason */
void address_text(const struct address *address, char text[ADDRESS_TEXT_MAX]);

/* Both ways; false: neither IPv4 nor IPv6. An IPv4-mapped address becomes an IPv4 socket's. */
bool address_from_socket(const struct sockaddr *from, struct address *ret);
void address_to_socket(const struct address *address, uint16_t port, struct sockaddr_storage *ret);

#endif
