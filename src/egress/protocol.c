/* protocol.c - what the launcher and the egress proxy say to each other; see protocol.h. */
#include "egress/protocol.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "sys/packet.h"
#include "wire/fields.h"

#define TEXT(member, allowed)                                                    \
    {                                                                            \
        .kind = FIELD_TEXT, FIELD_OF(struct egress_verdict, member), .width = 2, \
        .letters = (allowed)                                                     \
    }

static const struct field verdict_fields[] = {
    FIELD_NUMBER_OF(struct egress_verdict, is_allowed, 1),
    FIELD_NUMBER_OF(struct egress_verdict, port, 0),
    TEXT(host, NULL),
    TEXT(reason, "abcdefghijklmnopqrstuvwxyz_"),
};

long egress_message_pack(const struct egress_message *message, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u8(&pack, (uint8_t)message->type);
    pack_u32(&pack, message->number);
    if (message->type == EGRESS_ADD)
        pack_u8(&pack, (uint8_t)message->policy);
    if (message->type == EGRESS_VERDICT)
        fields_pack(&pack, verdict_fields, ARRAY_SIZE(verdict_fields), &message->verdict);
    return pack.failed ? -EMSGSIZE : (long)pack.length;
}

static bool unpack_verdict(struct unpack *unpack, struct egress_verdict *ret)
{
    return fields_unpack(unpack, verdict_fields, ARRAY_SIZE(verdict_fields), ret) && ret->host[0] &&
           !strchr(ret->host, ' ') && ret->reason[0];
}

int egress_message_unpack(const uint8_t *data, size_t length, struct egress_message *ret)
{
    struct unpack unpack = {.data = data, .left = length};
    struct egress_message message = {0};

    message.type = unpack_u8(&unpack);
    message.number = unpack_u32(&unpack);
    if (message.type == EGRESS_ADD)
        message.policy = unpack_u8(&unpack);
    else if (message.type == EGRESS_VERDICT && !unpack_verdict(&unpack, &message.verdict))
        return -EPROTO;
    if (!unpack_done(&unpack) || message.type == 0 || message.type >= _EGRESS_TYPE_MAX ||
        message.policy >= _EGRESS_POLICY_MAX)
        return -EPROTO;
    *ret = message;
    return 0;
}

int egress_send(int fd, const struct egress_message *message, int with_fd)
{
    uint8_t data[EGRESS_MESSAGE_MAX];
    long length = egress_message_pack(message, data, sizeof(data));

    return length < 0 ? (int)length : packet_offer(fd, data, (size_t)length, with_fd);
}

int egress_receive(int fd, struct egress_message *ret, int *ret_fd)
{
    CLEANUP(fd_closep) int came = -1;
    uint8_t data[EGRESS_MESSAGE_MAX];
    ssize_t length = packet_take(fd, data, sizeof(data), &came);
    struct egress_message message;

    if (length <= 0)
        return (int)length;
    if (egress_message_unpack(data, (size_t)length, &message) < 0 ||
        (message.type == EGRESS_ADD) != (came >= 0))
        return -EPROTO;
    *ret = message;
    *ret_fd = fd_take(&came);
    return 1;
}
