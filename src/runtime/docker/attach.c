/*
 * attach.c - parses the packets in which Docker sends the output of a container without a terminal.
 */
#include <errno.h>
#include <string.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "runtime/docker/docker_private.h"

static uint32_t big_endian(const uint8_t bytes[4])
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Stream 0 is standard input, which is never sent to us; 3 is an error of Docker itself. */
static int check_head(const uint8_t head[8])
{
    bool is_known = head[0] == PACKET_STDOUT || head[0] == PACKET_STDERR;

    return is_known && !head[1] && !head[2] && !head[3] ? 0 : -EPROTO;
}

ssize_t packets_take(struct packets *packets, const uint8_t *data, size_t length, int *ret_stream,
                     const uint8_t **ret, size_t *ret_length)
{
    size_t part;

    *ret_length = 0;
    if (packets->left == 0) {
        part = MIN(length, sizeof(packets->head) - packets->have);
        memcpy(packets->head + packets->have, data, part);
        packets->have += part;
        if (packets->have < sizeof(packets->head))
            return (ssize_t)part;
        if (check_head(packets->head) < 0)
            return -EPROTO;
        packets->have = 0;
        packets->left = big_endian(packets->head + 4);
        return (ssize_t)part;
    }
    part = MIN(length, (size_t)packets->left);
    packets->left -= (uint32_t)part;
    *ret_stream = packets->head[0];
    *ret = data;
    *ret_length = part;
    return (ssize_t)part;
}
