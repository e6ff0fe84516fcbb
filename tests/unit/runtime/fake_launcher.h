/*
 * fake_launcher.h - a launcher that a test plays itself, at the other end of a socket pair.
 *
 * What the broker's side says is read with expect(); answers are given with say().
 */
#ifndef BAILEY_UNIT_RUNTIME_FAKE_LAUNCHER_H
#define BAILEY_UNIT_RUNTIME_FAKE_LAUNCHER_H

#include "reactor.h"

#include <sys/socket.h>
#include <unistd.h>

#include "launcher/protocol.h"

static inline void pair_of(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
}

/* The descriptor of a box without a warden. */
static inline int channel(void)
{
    int pair[2];

    pair_of(pair);
    close(pair[1]);
    return pair[0];
}

static inline struct launcher_message expect(int fd, enum launcher_type type)
{
    struct launcher_message message = {0};
    int with_fd = -1;

    assert_int_equal(launcher_receive(fd, &message, &with_fd), 1);
    assert_int_equal(with_fd, -1);
    assert_int_equal(message.type, type);
    return message;
}

static inline void expect_nothing(int fd)
{
    struct launcher_message message;
    int with_fd = -1;

    assert_int_equal(launcher_receive(fd, &message, &with_fd), 0);
}

/* Closes `with_fd`, and lets the other side read. */
static inline void say(struct poll_reactor *loop, int fd, const struct launcher_message *message,
                       int with_fd)
{
    assert_int_equal(launcher_send(fd, message, with_fd), 1);
    if (with_fd >= 0)
        close(with_fd);
    poll_reactor_turn(loop, 1000);
}

#endif
