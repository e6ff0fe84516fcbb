/* protocol_io.c - the messages of broker and launcher on their socket; see protocol.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "launcher/protocol.h"

bool launcher_has_fd(enum launcher_type type)
{
    return type == LAUNCHER_BOX || type == LAUNCHER_MADE;
}

/* Room for one; what the kernel could still put behind it (alignment) is taken and closed. */
union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int))];
};

int launcher_send(int fd, const struct launcher_message *message, int with_fd)
{
    uint8_t data[LAUNCHER_MESSAGE_MAX];
    union control control = {0};
    long length = launcher_message_pack(message, data, sizeof(data));
    struct iovec part = {.iov_base = data, .iov_len = (size_t)length};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;

    if (length < 0)
        return (int)length;
    if (with_fd >= 0) {
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE(sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.align), &with_fd, sizeof(int));
    }
    do
        sent = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return 1;
    /* ETOOMANYREFS: descriptors in flight count for the user; they go when the peer reads. */
    if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)
        return 0;
    return errno == ECONNRESET ? -EPIPE : -errno;
}

/* The one descriptor, or -1 with *ret_extra set when there were more: those are closed. */
static int take_fds(struct msghdr *header, bool *ret_extra)
{
    int kept = -1;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        size_t count;

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
            if (kept < 0) {
                kept = fd;
            } else {
                close(fd);
                *ret_extra = true;
            }
        }
    }
    return kept;
}

int launcher_receive(int fd, struct launcher_message *ret, int *ret_fd)
{
    CLEANUP(fd_closep) int came = -1;
    uint8_t data[LAUNCHER_MESSAGE_MAX];
    union control control;
    struct iovec part = {.iov_base = data, .iov_len = sizeof(data)};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof(control)};
    struct launcher_message message;
    bool has_extra = false;
    ssize_t length;

    do
        length = recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (length < 0 && errno == EINTR);
    if (length < 0 && errno == EAGAIN)
        return 0;
    if (length < 0)
        return errno == ECONNRESET ? -EPIPE : -errno;
    came = take_fds(&header, &has_extra);
    if (length == 0 && came < 0)
        return -EPIPE;
    if (has_extra || header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return -EPROTO;
    if (launcher_message_unpack(data, (size_t)length, &message) < 0 ||
        launcher_has_fd(message.type) != (came >= 0))
        return -EPROTO;
    *ret = message;
    *ret_fd = fd_take(&came);
    return 1;
}
