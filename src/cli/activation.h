/*
 * activation.h - sockets that a service manager opened for us: sd_listen_fds(3), without its
 * library.
 *
 * Descriptors from 3 on, LISTEN_FDS of them, when LISTEN_PID is ours. Each has to be a listening
 * stream socket: one unix socket at most, which replaces our own, and TCP sockets, which replace
 * SANDBOX_LISTEN. The caller owns them until activation_free().
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_ACTIVATION_H
#define BAILEY_CLI_ACTIVATION_H

#include <limits.h>
#include <stddef.h>

#include "base/error.h"

#define ACTIVATION_TCP_MAX 8

struct activation {
    int unix_fd;           /* -1: none */
    char socket[PATH_MAX]; /* its path */
    int tcp_fd[ACTIVATION_TCP_MAX];
    size_t tcp_count;
};

#define ACTIVATION_INIT ((struct activation){.unix_fd = -1})

/* No sockets were passed: 0, and *ret is empty. All of them are close-on-exec afterwards. */
int activation_take(char *const *env, struct activation *ret, struct error *err);
void activation_free(struct activation *activation);

#endif
