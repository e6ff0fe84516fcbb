/*
 * listen.c - the TCP addresses of a daemon, opened with the caller's rights (its ports) in the
 * host's network, which the broker is not in; see supervisor.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "supervisor/supervisor_private.h"

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name;
    socklen_t length;
};

static int wrong(const char *text, struct error *err)
{
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "'%.100s' is no address to listen on: write it in numbers with its port, such "
                     "as 127.0.0.1:7070 or [::1]:7070, or 'none'",
                     text);
}

/* ADDRESS:PORT; the only name that is resolved is this one. */
static int parse(const char *text, struct address *ret, struct error *err)
{
    const char *colon = strrchr(text, ':');
    char host[INET6_ADDRSTRLEN + 2];
    uint64_t port;
    size_t length;

    if (!colon || str_to_u64(colon + 1, &port) < 0 || port > UINT16_MAX ||
        str_format(host, sizeof(host), "%.*s", (int)(colon - text), text) < 0)
        return wrong(text, err);
    length = strlen(host);
    *ret = (struct address){0};
    if (str_equal(host, "localhost"))
        str_copy(host, sizeof(host), "127.0.0.1");
    if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
        host[length - 1] = '\0';
        ret->name.v6.sin6_family = AF_INET6;
        ret->name.v6.sin6_port = htons((uint16_t)port);
        ret->length = sizeof(ret->name.v6);
        return inet_pton(AF_INET6, host + 1, &ret->name.v6.sin6_addr) == 1 ? 0 : wrong(text, err);
    }
    ret->name.v4.sin_family = AF_INET;
    ret->name.v4.sin_port = htons((uint16_t)port);
    ret->length = sizeof(ret->name.v4);
    return inet_pton(AF_INET, host, &ret->name.v4.sin_addr) == 1 ? 0 : wrong(text, err);
}

static int failed(const char *text, struct error *err)
{
    switch (errno) {
    case EADDRINUSE:
        return error_set(err, -EADDRINUSE, ERROR_BAD_INPUT,
                         "listening on %s: another program has this port; choose another with "
                         "--listen ADDRESS:PORT, or --listen none for the socket alone",
                         text);
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
        return error_set(err, -errno, ERROR_BAD_INPUT,
                         "listening on %s: this machine has no such address", text);
    case EACCES:
        return error_set(err, -EACCES, ERROR_BAD_INPUT,
                         "listening on %s: ports below 1024 are root's; choose a higher one", text);
    default:
        return error_errno(err, "listening on %s", text);
    }
}

static int open_address(const char *text, int *ret_fd, struct error *err)
{
    static const int yes = 1;
    CLEANUP(fd_closep) int fd = -1;
    struct address address;
    int r = parse(text, &address, err);

    if (r < 0)
        return r;
    fd = socket(address.name.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Usable at once after a stop; and [::] besides 0.0.0.0, independent of each other. */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
        (address.name.any.sa_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes)) < 0) ||
        bind(fd, &address.name.any, address.length) < 0 || listen(fd, SOMAXCONN) < 0)
        return failed(text, err);
    *ret_fd = fd_take(&fd);
    return 0;
}

static int take_open(int fd, int *ret_fd, struct error *err)
{
    CLEANUP(fd_closep) int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    if (copy < 0 || fd_set_nonblocking(copy, true) < 0)
        return error_errno(err, "taking over a socket that listens");
    *ret_fd = fd_take(&copy);
    return 0;
}

int supervisor_listen(struct supervisor *supervisor, struct error *err)
{
    const struct supervisor_spec *spec = supervisor->spec;
    size_t count = spec->listen_fd_count;
    int r = 0;

    for (size_t i = 0; spec->listen && spec->listen[i]; i++)
        count++;
    if (count > BROKER_TCP_MAX)
        return error_set(err, -E2BIG, ERROR_BAD_INPUT, "more than %d addresses to listen on",
                         BROKER_TCP_MAX);
    for (size_t i = 0; i < count && r == 0; i++) {
        if (i < spec->listen_fd_count)
            r = take_open(spec->listen_fds[i], &supervisor->tcp_fd[i], err);
        else
            r = open_address(spec->listen[i - spec->listen_fd_count], &supervisor->tcp_fd[i], err);
    }
    supervisor->plan->tcp_count = (uint32_t)count;
    return r;
}
