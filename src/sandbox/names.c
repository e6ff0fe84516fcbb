/*
 * names.c - the small namespaces: a private host name, a network with loopback only.
 *
 * Making a network namespace is the slowest single step of a bring-up (0.4 ms of 2). So a helper
 * makes it on another processor while the root is assembled: a fork that shares our descriptors,
 * makes the namespace, brings loopback up, leaves a descriptor of it behind and ends. Being of the
 * same user namespace we may enter it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/stage.h"

#define EGRESS_BACKLOG 64

int stage_host_name(struct sandbox *sandbox)
{
    const char *name = sandbox->plan->hostname;

    return sethostname(name, strlen(name)) < 0 ? -errno : 0;
}

/* Servers on 127.0.0.1 work in the box; there is no other interface and no route. */
static int loopback_up(int fd)
{
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};

    str_copy(request.ifr_name, sizeof(request.ifr_name), "lo");
    return ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

/* A descriptor of a new network namespace, or a negative errno. */
static int make_network(void)
{
    int fd, r;

    if (unshare(CLONE_NEWNET) < 0)
        return -errno;
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    r = loopback_up(fd);
    if (r == 0)
        r = ioctl(fd, SIOCGSKNS); /* the namespace of a socket: needs no /proc */
    return r < 0 ? -errno : r;
}

/* Where setns(2) or unshare(2) are refused the namespace came with the clone. */
static int use_cloned_network(struct sandbox *sandbox)
{
    CLEANUP(fd_closep) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    sandbox_have(sandbox, ISOLATION_LAYER_NETNS);
    return fd < 0 ? -errno : loopback_up(fd);
}

/* Must: come first, so that it is done by the time the rest is. */
int stage_network_begin(struct sandbox *sandbox)
{
    int ends[2];
    pid_t pid;

    if (sandbox->plan->has_network)
        return use_cloned_network(sandbox);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    sandbox->network_fd = ends[0];
    pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        int fd = make_network();

        fd_write_all(ends[1], &fd, sizeof(fd));
        _exit(0); /* shared descriptors stay open: the warden closes what it does not keep */
    }
    sandbox->network_pid = pid;
    return 0;
}

/*
 * Must: come before the capabilities are dropped. We wait for the helper's end and not the pipe's:
 * we share both ends of that, so that it would stay open after a helper that could not write.
 */
int stage_network_end(struct sandbox *sandbox)
{
    CLEANUP(fd_closep) int network_fd = -1;
    int fd = -EPIPE;
    ssize_t length;

    if (sandbox->plan->has_network)
        return 0;
    while (waitpid(sandbox->network_pid, NULL, __WALL) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    length = read(sandbox->network_fd, &fd, sizeof(fd));
    if (length != sizeof(fd) || fd < 0)
        return length == sizeof(fd) ? fd : -EPIPE;
    network_fd = fd;
    if (setns(network_fd, CLONE_NEWNET) < 0)
        return -errno;
    sandbox_have(sandbox, ISOLATION_LAYER_NETNS);
    return 0;
}

/*
 * Must: come after the network is entered and before a guest could take the port. An installer's
 * way out: the socket is handed to the egress proxy outside, which accepts on it.
 */
int stage_egress(struct sandbox *sandbox)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(sandbox->plan->egress_port),
        .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
    };
    CLEANUP(fd_closep) int fd = -1;

    if (sandbox->plan->egress_port == 0)
        return 0;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, EGRESS_BACKLOG) < 0)
        return -errno;
    sandbox->egress_fd = fd_take(&fd);
    return 0;
}
