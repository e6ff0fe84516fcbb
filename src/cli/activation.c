/* activation.c - sockets that a service manager opened for us; see activation.h. */
#include "cli/activation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define FIRST_FD 3

static int option(int fd, int name)
{
    int value = -1;
    socklen_t size = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &size) < 0 ? -1 : value;
}

static int take_unix(int fd, struct activation *ret, struct error *err)
{
    struct sockaddr_un address = {0};
    socklen_t size = sizeof(address);

    if (ret->unix_fd >= 0)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "the service manager opened more than one unix socket");
    if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        return error_errno(err, "asking for the name of a socket");
    if (address.sun_path[0] != '/') /* clients look for a path, and permissions belong to one */
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "the unix socket of the service manager has no path");
    str_copy(ret->socket, sizeof(ret->socket), address.sun_path);
    ret->unix_fd = fd;
    return 0;
}

static int take_one(int fd, struct activation *ret, struct error *err)
{
    int domain = option(fd, SO_DOMAIN), r;

    if (option(fd, SO_TYPE) != SOCK_STREAM || option(fd, SO_ACCEPTCONN) != 1 ||
        (domain != AF_UNIX && domain != AF_INET && domain != AF_INET6))
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "descriptor %d of the service manager is no listening stream socket "
                         "(ListenStream=, and Accept=no)",
                         fd);
    r = fd_set_nonblocking(fd, true);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "descriptor %d: %s", fd, strerror(-r));
    if (domain == AF_UNIX)
        return take_unix(fd, ret, err);
    if (ret->tcp_count == ACTIVATION_TCP_MAX)
        return error_set(err, -E2BIG, ERROR_BAD_CONFIG,
                         "the service manager opened more than %d TCP sockets", ACTIVATION_TCP_MAX);
    ret->tcp_fd[ret->tcp_count++] = fd;
    return 0;
}

int activation_take(char *const *env, struct activation *ret, struct error *err)
{
    const char *pid = env_value(env, "LISTEN_PID");
    const char *count = env_value(env, "LISTEN_FDS");
    uint64_t number, fds;
    int r = 0;

    *ret = ACTIVATION_INIT;
    if (!pid || !count || str_to_u64(pid, &number) < 0 || number != (uint64_t)getpid())
        return 0; /* they belong to another process */
    if (str_to_u64(count, &fds) < 0 || fds > ACTIVATION_TCP_MAX + 1)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG, "LISTEN_FDS '%.20s': 0 to %d", count,
                         ACTIVATION_TCP_MAX + 1);
    for (int fd = FIRST_FD; fd < FIRST_FD + (int)fds; fd++) {
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            return error_errno(err, "descriptor %d of LISTEN_FDS", fd);
    }
    for (int fd = FIRST_FD; fd < FIRST_FD + (int)fds && r == 0; fd++)
        r = take_one(fd, ret, err);
    return r;
}

void activation_free(struct activation *activation)
{
    fd_closep(&activation->unix_fd);
    for (size_t i = 0; i < activation->tcp_count; i++)
        fd_closep(&activation->tcp_fd[i]);
    *activation = ACTIVATION_INIT;
}
