/* socks.c - SOCKS version 5, as far as a tunnel needs it; see socks.h. */
#include "egress/socks.h"

#include <errno.h>
#include <string.h>

#define COMMAND_CONNECT 1

enum { TYPE_V4 = 1, TYPE_NAME = 3, TYPE_V6 = 4 };

int socks_greeting(const uint8_t *data, size_t length)
{
    if (length < 2 || length < 2 + (size_t)data[1])
        return -EAGAIN;
    if (data[0] != SOCKS_VERSION || !memchr(data + 2, 0, data[1]))
        return -EPROTO;
    return 2 + data[1];
}

/* Bytes of the address at data[0], whose type is `type`; 0: more are needed. */
static int read_address(uint8_t type, const uint8_t *data, size_t length, struct host *ret_host)
{
    struct address address;

    if (type == TYPE_V4) {
        if (length < 4)
            return 0;
        address_from_v4(data, &address);
        host_from_address(&address, ret_host);
        return 4;
    }
    if (type == TYPE_V6) {
        if (length < sizeof(address.bytes))
            return 0;
        memcpy(address.bytes, data, sizeof(address.bytes));
        host_from_address(&address, ret_host);
        return (int)sizeof(address.bytes);
    }
    if (type != TYPE_NAME)
        return -EPROTO;
    if (length < 1 || length < 1 + (size_t)data[0])
        return 0;
    return host_parse((const char *)data + 1, data[0], ret_host) < 0 ? -EINVAL : 1 + data[0];
}

int socks_request(const uint8_t *data, size_t length, struct host *ret_host, uint16_t *ret_port,
                  enum socks_reply *ret_reply)
{
    int used;

    *ret_reply = SOCKS_FAILED;
    if (length < 4)
        return -EAGAIN;
    if (data[0] != SOCKS_VERSION || data[2] != 0)
        return -EPROTO;
    if (data[1] != COMMAND_CONNECT) {
        *ret_reply = SOCKS_NO_COMMAND; /* UDP too: it is not supported */
        return -EPROTO;
    }
    used = read_address(data[3], data + 4, length - 4, ret_host);
    if (used < 0) {
        *ret_reply = used == -EINVAL ? SOCKS_NOT_ALLOWED : SOCKS_NO_ADDRESS;
        return used;
    }
    if (used == 0 || length - 4 < (size_t)used + 2)
        return -EAGAIN;
    *ret_port = (uint16_t)(data[4 + used] << 8 | data[5 + used]);
    if (*ret_port == 0)
        return -EPROTO;
    return 4 + used + 2;
}

void socks_reply(enum socks_reply reply, uint8_t data[SOCKS_REPLY_BYTES])
{
    memset(data, 0, SOCKS_REPLY_BYTES);
    data[0] = SOCKS_VERSION;
    data[1] = (uint8_t)reply;
    data[3] = TYPE_V4;
}
