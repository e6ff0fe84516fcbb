/* address.c - an IP address in one form, and its kind; see address.h. */
#include "egress/address.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

struct range {
    uint8_t bytes[16];
    uint8_t bits;
    enum address_kind kind;
};

#define V4(a, b, c, d, bits_, kind_)                                              \
    {                                                                             \
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}, 96 + bits_, kind_ \
    }

/*
 * The first that matches counts. From IANA's registries of special addresses; the ranges for
 * documentation are left out, because they lead nowhere special. Metadata services: AWS, Google,
 * Azure and others (169.254.169.254), ECS (169.254.170.2), Alibaba (100.100.100.200), Azure's wire
 * server (168.63.129.16), AWS over IPv6.
 */
static const struct range ranges[] = {
    V4(169, 254, 169, 254, 32, ADDRESS_METADATA),
    V4(169, 254, 170, 2, 32, ADDRESS_METADATA),
    V4(100, 100, 100, 200, 32, ADDRESS_METADATA),
    V4(168, 63, 129, 16, 32, ADDRESS_METADATA),
    V4(0, 0, 0, 0, 8, ADDRESS_RESERVED),
    V4(10, 0, 0, 0, 8, ADDRESS_PRIVATE),
    V4(100, 64, 0, 0, 10, ADDRESS_PRIVATE),
    V4(127, 0, 0, 0, 8, ADDRESS_LOOPBACK),
    V4(169, 254, 0, 0, 16, ADDRESS_LINK_LOCAL),
    V4(172, 16, 0, 0, 12, ADDRESS_PRIVATE),
    V4(192, 0, 0, 0, 24, ADDRESS_RESERVED),
    V4(192, 88, 99, 0, 24, ADDRESS_RESERVED),
    V4(192, 168, 0, 0, 16, ADDRESS_PRIVATE),
    V4(198, 18, 0, 0, 15, ADDRESS_RESERVED),
    V4(224, 0, 0, 0, 4, ADDRESS_MULTICAST),
    V4(240, 0, 0, 0, 4, ADDRESS_RESERVED),
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, ADDRESS_PUBLIC}, /* the rest of IPv4 */
    {{[15] = 1}, 128, ADDRESS_LOOPBACK},
    {{0}, 8, ADDRESS_RESERVED}, /* unspecified, IPv4-compatible, IPv4-translated */
    {{0x01}, 64, ADDRESS_RESERVED},
    {{0x20, 0x01, 0, 0}, 23, ADDRESS_RESERVED}, /* Teredo, ORCHID and the like */
    {{0x20, 0x02}, 16, ADDRESS_RESERVED},       /* 6to4 */
    {{0xfd, 0, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54}, 128, ADDRESS_METADATA},
    {{0xfc}, 7, ADDRESS_PRIVATE},
    {{0xfe, 0x80}, 10, ADDRESS_LINK_LOCAL},
    {{0xfe, 0xc0}, 10, ADDRESS_PRIVATE},
    {{0xff}, 8, ADDRESS_MULTICAST},
};

/* NAT64 (RFC 6052): contains an IPv4 address, which is judged instead. */
static const uint8_t nat64[12] = {0, 0x64, 0xff, 0x9b};

static bool is_within(const uint8_t *bytes, const struct range *range)
{
    size_t whole = range->bits / 8;
    uint8_t mask = (uint8_t)(0xff00 >> (range->bits % 8));

    if (memcmp(bytes, range->bytes, whole) != 0)
        return false;
    return range->bits % 8 == 0 || ((bytes[whole] ^ range->bytes[whole]) & mask) == 0;
}

enum address_kind address_kind(const struct address *address)
{
    struct address inner = *address;

    if (memcmp(address->bytes, nat64, sizeof(nat64)) == 0)
        memcpy(inner.bytes, mapped, sizeof(mapped));
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
        if (is_within(inner.bytes, &ranges[i]))
            return ranges[i].kind;
    return ADDRESS_PUBLIC;
}

const char *address_kind_word(enum address_kind kind)
{
    static const char *const words[_ADDRESS_KIND_MAX] = {
        [ADDRESS_PUBLIC] = "public_address",     [ADDRESS_PRIVATE] = "private_address",
        [ADDRESS_LOOPBACK] = "loopback_address", [ADDRESS_LINK_LOCAL] = "link_local_address",
        [ADDRESS_METADATA] = "metadata_address", [ADDRESS_MULTICAST] = "multicast_address",
        [ADDRESS_RESERVED] = "reserved_address",
    };

    return words[kind];
}

void address_from_v4(const uint8_t bytes[4], struct address *ret)
{
    memcpy(ret->bytes, mapped, sizeof(mapped));
    memcpy(ret->bytes + sizeof(mapped), bytes, 4);
}

bool address_is_v4(const struct address *address)
{
    return memcmp(address->bytes, mapped, sizeof(mapped)) == 0;
}

bool address_equal(const struct address *a, const struct address *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

void address_text(const struct address *address, char text[ADDRESS_TEXT_MAX])
{
    bool is_v4 = address_is_v4(address);

    text[0] = 0;
    inet_ntop(is_v4 ? AF_INET : AF_INET6, address->bytes + (is_v4 ? sizeof(mapped) : 0), text,
              ADDRESS_TEXT_MAX);
}

bool address_from_socket(const struct sockaddr *from, struct address *ret)
{
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;

        address_from_v4((const uint8_t *)&v4->sin_addr, ret);
        return true;
    }
    if (from->sa_family == AF_INET6) {
        memcpy(ret->bytes, &((const struct sockaddr_in6 *)from)->sin6_addr, sizeof(ret->bytes));
        return true;
    }
    return false;
}

void address_to_socket(const struct address *address, uint16_t port, struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (address_is_v4(address)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)ret;

        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, address->bytes + sizeof(mapped), 4);
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        memcpy(&v6->sin6_addr, address->bytes, sizeof(address->bytes));
    }
}
