/*
 * provider_host.c - the launcher's side of the provider hosts: it only connects broker and provider
 * hosts.
 *
 * For each broker, and again when a provider host was restarted, it makes a pair of sockets: one
 * end goes to the provider host over its rendezvous socket, the other to the broker
 * (LAUNCHER_PROVIDER_HOST) with the provider's name. Their messages do not pass through the
 * launcher, which trusts a provider host for nothing but being alive.
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
#include "base/str.h"
#include "launcher/launcher_private.h"
#include "sys/packet.h"

static const char *name_of(const struct provider_host *host)
{
    return host->launcher->plan->host_names[host - host->launcher->hosts];
}

static int fd_of(const struct provider_host *host)
{
    return LAUNCHER_PROVIDER_HOST_FD + (int)(host - host->launcher->hosts);
}

static void hang_up(struct provider_host *host)
{
    CLEANUP(fd_closep) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    log_warning("the keeper of the provider host '%s' ended, continuing without it", name_of(host));
    loop_remove(&host->launcher->loop, &host->source);
    /* The number stays in use: a program that takes over looks there. */
    if (null_fd < 0 || dup3(null_fd, fd_of(host), O_CLOEXEC) < 0)
        shutdown(fd_of(host), SHUT_RDWR);
}

static void offer(struct provider_host *host)
{
    static const char word = HOST_SAYS_CHANNEL;
    struct launcher_message message = {.type = LAUNCHER_PROVIDER_HOST};
    int pair[2];

    if (host->source.fd < 0)
        return;
    str_copy(message.host, sizeof(message.host), name_of(host));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        log_warning("no channel to the provider host '%s' could be made, continuing without it",
                    name_of(host));
        return;
    }
    /* If the socket is full the provider host does not read: its end is closed, and the broker
     * sees that. */
    if (packet_offer(fd_of(host), &word, 1, pair[1]) <= 0)
        log_warning("the provider host '%s' does not answer, continuing without it", name_of(host));
    close(pair[1]);
    broker_send(host->launcher, &message, pair[0]);
}

void provider_hosts_offer(struct launcher *launcher)
{
    for (uint32_t i = 0; i < launcher->plan->host_count; i++)
        offer(&launcher->hosts[i]);
}

/* A byte: it was restarted, and has no broker yet. */
static void on_provider_host(struct loop_source *source, uint32_t events)
{
    struct provider_host *host = CONTAINER_OF(source, struct provider_host, source);
    char word;
    int fd = -1;
    ssize_t length = packet_take(source->fd, &word, 1, &fd);

    (void)events;
    if (length > 0)
        fd_closep(&fd);
    if (length < 0)
        hang_up(host);
    else if (length > 0 && host->launcher->has_said_hello && !host->launcher->greets_later)
        offer(host);
}

int provider_hosts_open(struct launcher *launcher)
{
    int r = 0;

    for (uint32_t i = 0; i < LAUNCHER_HOSTS_MAX && r == 0; i++) {
        struct provider_host *host = &launcher->hosts[i];
        struct stat status;

        *host = (struct provider_host){.launcher = launcher,
                                       .source = {.fd = -1, .ready = on_provider_host}};
        if (i < launcher->plan->host_count && fstat(fd_of(host), &status) == 0 &&
            S_ISSOCK(status.st_mode))
            r = loop_add(&launcher->loop, &host->source, fd_of(host), EPOLLIN);
    }
    return r;
}
