/* names.c - the small namespaces: a host name of its own, a loopback of its own. */
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/stage.h"

int stage_host_name(struct sandbox *sandbox)
{
    const char *name = sandbox->plan->hostname;

    return sethostname(name, strlen(name)) < 0 ? -errno : 0;
}

/* Servers on 127.0.0.1 work in the box; there is no other interface and no route. */
int stage_loopback(struct sandbox *sandbox)
{
    CLEANUP(fd_closep) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};

    (void)sandbox;
    if (fd < 0)
        return errno == EAFNOSUPPORT ? 0 : -errno;
    str_copy(request.ifr_name, sizeof(request.ifr_name), "lo");
    return ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}
