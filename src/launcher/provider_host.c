/*
 * provider_host.c - the launcher's side of the Docker provider host: it only brings broker and
 * provider host together.
 *
 * For each broker, and again when a provider host was started anew, a pair of sockets is made: one
 * end goes to the provider host over the rendezvous socket, the other to the broker
 * (LAUNCHER_PROVIDER_HOST). Nothing of what they say to each other comes by here, and the provider
 * host is believed nothing but that it lives.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "launcher/launcher_private.h"
#include "sys/packet.h"

static void hang_up(struct launcher *launcher)
{
    CLEANUP(fd_closep) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    log_warning("nobody keeps the Docker wall any more, continuing without it");
    loop_remove(&launcher->loop, &launcher->provider_host);
    /* The number stays taken: a program that takes over looks there. */
    if (null_fd < 0 || dup3(null_fd, LAUNCHER_PROVIDER_HOST_FD, O_CLOEXEC) < 0)
        shutdown(LAUNCHER_PROVIDER_HOST_FD, SHUT_RDWR);
}

void provider_host_offer(struct launcher *launcher)
{
    static const char word = HOST_SAYS_CHANNEL;
    struct launcher_message message = {.type = LAUNCHER_PROVIDER_HOST};
    int pair[2];

    if (launcher->provider_host.fd < 0)
        return;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        log_warning("no channel to the Docker wall could be made, continuing without it");
        return;
    }
    /* Without room there the provider host does not read: its end is closed, and the broker sees
     * that. */
    if (packet_offer(LAUNCHER_PROVIDER_HOST_FD, &word, 1, pair[1]) <= 0)
        log_warning("the Docker wall does not answer, continuing without it");
    close(pair[1]);
    broker_send(launcher, &message, pair[0]);
}

/* A byte: it was started again, and knows no broker. */
static void on_provider_host(struct loop_source *source, uint32_t events)
{
    struct launcher *launcher = CONTAINER_OF(source, struct launcher, provider_host);
    char word;
    int fd = -1;
    ssize_t length = packet_take(source->fd, &word, 1, &fd);

    (void)events;
    if (length > 0)
        fd_closep(&fd);
    if (length < 0)
        hang_up(launcher);
    else if (length > 0 && launcher->has_said_hello && !launcher->greets_later)
        provider_host_offer(launcher);
}

int provider_host_open(struct launcher *launcher)
{
    struct stat status;

    launcher->provider_host.fd = -1;
    launcher->provider_host.ready = on_provider_host;
    if (!launcher->plan->has_provider_host || fstat(LAUNCHER_PROVIDER_HOST_FD, &status) < 0 ||
        !S_ISSOCK(status.st_mode))
        return 0;
    return loop_add(&launcher->loop, &launcher->provider_host, LAUNCHER_PROVIDER_HOST_FD, EPOLLIN);
}
