/* protocol_io.c - sends and receives the messages between broker and launcher; see protocol.h. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "launcher/protocol.h"
#include "sys/packet.h"

bool launcher_has_fd(enum launcher_type type)
{
    return type == LAUNCHER_BOX || type == LAUNCHER_MADE || type == LAUNCHER_SETTINGS ||
           type == LAUNCHER_PROVIDER_HOST;
}

int launcher_send(int fd, const struct launcher_message *message, int with_fd)
{
    uint8_t data[LAUNCHER_MESSAGE_MAX];
    long length = launcher_message_pack(message, data, sizeof(data));

    return length < 0 ? (int)length : packet_offer(fd, data, (size_t)length, with_fd);
}

int launcher_receive(int fd, struct launcher_message *ret, int *ret_fd)
{
    CLEANUP(fd_closep) int came = -1;
    uint8_t data[LAUNCHER_MESSAGE_MAX];
    ssize_t length = packet_take(fd, data, sizeof(data), &came);
    struct launcher_message message;

    if (length <= 0)
        return (int)length;
    if (launcher_message_unpack(data, (size_t)length, &message) < 0 ||
        launcher_has_fd(message.type) != (came >= 0))
        return -EPROTO;
    *ret = message;
    *ret_fd = fd_take(&came);
    return 1;
}
