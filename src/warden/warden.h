/*
 * warden.h - PID 1 of a box: commands, files and what they need, over one channel to the host.
 *
 * Runs in the cloned child after sandbox_bring_up(). Single thread, plain epoll. When the channel
 * closes everything in the box ends. Never returns.
 *
 * Runs in: box, launcher, commands
 */
#ifndef BAILEY_WARDEN_WARDEN_H
#define BAILEY_WARDEN_WARDEN_H

struct sandbox;

_Noreturn void warden_run(struct sandbox *sandbox, int channel_fd); /* SOCK_SEQPACKET */

/* The same over two byte streams (pipes), which carry no descriptors: there is no KERNEL frame. */
_Noreturn void warden_run_stream(struct sandbox *sandbox, int in_fd, int out_fd);

#endif
