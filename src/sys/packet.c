/* packet.c - one packet with descriptors; see packet.h. */
#include "sys/packet.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"

union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int) * PACKET_FDS_MAX)];
};

int packet_send(int fd, const void *data, size_t length, const int *fds, size_t fd_count, int flags)
{
    union control control = {0};
    struct iovec part = {.iov_base = (void *)data, .iov_len = length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;

    if (fd_count > PACKET_FDS_MAX)
        return -EINVAL;
    if (fd_count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * fd_count);
    }
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | flags);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

/*
 * All descriptors received, up to `room`; false: there were more, which cannot happen (see the
 * caller).
 */
static bool take_fds(struct msghdr *message, int *fds, size_t room, size_t *ret_count)
{
    bool is_whole = true;
    size_t have = 0;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        size_t count;

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
            if (have < room) {
                fds[have++] = fd;
            } else {
                fd_closep(&fd);
                is_whole = false;
            }
        }
    }
    *ret_count = have;
    return is_whole;
}

ssize_t packet_receive(int fd, void *data, size_t size, int *fds, size_t *fd_count, int flags)
{
    union control control;
    struct iovec part = {.iov_base = data, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
    size_t room = MIN(*fd_count, (size_t)PACKET_FDS_MAX);
    ssize_t length;

    *fd_count = 0;
    /*
     * Without the padding after the last one: the kernel would fill that too. It closes what it
     * cannot deliver, and sets MSG_CTRUNC.
     */
    message.msg_controllen = CMSG_LEN(sizeof(int) * room);
    do
        length = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | flags);
    while (length < 0 && errno == EINTR);
    if (length < 0)
        return -errno;
    if (take_fds(&message, fds, room, fd_count) && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return length;
    for (size_t i = 0; i < *fd_count; i++)
        fd_closep(&fds[i]);
    *fd_count = 0;
    return -EPROTO;
}

int packet_offer(int fd, const void *data, size_t length, int with_fd)
{
    int r = packet_send(fd, data, length, &with_fd, with_fd >= 0, MSG_DONTWAIT);

    if (r == 0)
        return 1;
    /* ETOOMANYREFS: descriptors in flight count for the user; they go when the peer reads. */
    if (r == -EAGAIN || r == -ENOBUFS || r == -ETOOMANYREFS)
        return 0;
    return r == -ECONNRESET ? -EPIPE : r;
}

ssize_t packet_take(int fd, void *data, size_t size, int *ret_fd)
{
    CLEANUP(fd_closep) int came = -1;
    size_t count = 1;
    ssize_t length = packet_receive(fd, data, size, &came, &count, MSG_DONTWAIT);

    if (length == -EAGAIN)
        return 0;
    if (length == -ECONNRESET || (length == 0 && count == 0))
        return -EPIPE;
    if (length == 0)
        return -EPROTO;
    if (length > 0)
        *ret_fd = fd_take(&came);
    return length;
}
