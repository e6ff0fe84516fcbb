/*
 * packet.h - one packet with descriptors on a SOCK_SEQPACKET socket (SCM_RIGHTS, unix(7)).
 *
 * Called by processes that send descriptors to another: launcher, zygotes, wardens, proxy. EINTR is
 * retried; `flags` (MSG_DONTWAIT) and the socket decide whether it waits. Received descriptors are
 * close-on-exec. Safe between clone and exec: nothing allocates or locks.
 *
 * Runs in: every process
 */
#ifndef BAILEY_SYS_PACKET_H
#define BAILEY_SYS_PACKET_H

#include <stddef.h>
#include <sys/types.h>

#define PACKET_FDS_MAX 16

/* 0, or a negative errno; a peer that is gone is -EPIPE or -ECONNRESET, never a signal. */
int packet_send(int fd, const void *data, size_t length, const int *fds, size_t fd_count,
                int flags);

/*
 * The packet's length (0: the peer has closed, or an empty packet), or a negative errno. *fd_count
 * is the room in `fds`, then the number received, which the caller owns. -EPROTO: the packet was
 * longer, or had more descriptors, than there is room for; as after every other error nothing is
 * kept, and *fd_count is 0.
 */
ssize_t packet_receive(int fd, void *data, size_t size, int *fds, size_t *fd_count, int flags);

/*
 * The same for an event loop, with one descriptor or none (-1). packet_offer(): 1 sent, 0 there is
 * no room now. packet_take(): the length, never 0 for a packet; 0 there is none now; *ret_fd is
 * written when it is above 0. -EPIPE: the peer is gone. An empty packet with a descriptor: -EPROTO.
 */
int packet_offer(int fd, const void *data, size_t length, int with_fd);
ssize_t packet_take(int fd, void *data, size_t size, int *ret_fd);

#endif
