/*
 * egress.c - the launcher's side of the egress proxy: it sends the proxy boxes with a network, and
 * forwards the proxy's verdicts to the broker.
 *
 * The proxy reads what boxes and servers send, so it may be compromised: a message that is not a
 * verdict ends the connection. It sends a bounded number for each box (LIMIT_EGRESS_VERDICTS), so
 * what waits for a broker that does not read is bounded too.
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
#include "egress/protocol.h"
#include "launcher/launcher_private.h"

#define MESSAGES_PER_TURN 16

static void hang_up(struct launcher *launcher, const char *why)
{
    CLEANUP(fd_closep) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    log_warning("the egress proxy %s, continuing without network for installations", why);
    loop_remove(&launcher->loop, &launcher->egress);
    /* The number stays taken: a program that takes over looks there. */
    if (null_fd < 0 || dup3(null_fd, LAUNCHER_EGRESS_FD, O_CLOEXEC) < 0)
        shutdown(LAUNCHER_EGRESS_FD, SHUT_RDWR);
}

static void pass_on(struct launcher *launcher, const struct egress_message *from)
{
    struct launcher_message message = {.type = LAUNCHER_VERDICT,
                                       .verdict = {.number = from->number,
                                                   .is_allowed = from->verdict.is_allowed,
                                                   .port = from->verdict.port}};

    str_copy(message.verdict.host, sizeof(message.verdict.host), from->verdict.host);
    str_copy(message.verdict.reason, sizeof(message.verdict.reason), from->verdict.reason);
    if (launcher->has_said_hello)
        broker_send(launcher, &message, -1);
}

static void on_egress(struct loop_source *source, uint32_t events)
{
    struct launcher *launcher = CONTAINER_OF(source, struct launcher, egress);

    (void)events;
    for (int i = 0; i < MESSAGES_PER_TURN; i++) {
        struct egress_message message;
        int fd = -1;
        int r = egress_receive(source->fd, &message, &fd);

        if (r == 0)
            return;
        fd_closep(&fd);
        if (r < 0 || message.type != EGRESS_VERDICT) {
            hang_up(launcher, r == -EPIPE ? "is gone" : "sent an invalid message");
            return;
        }
        pass_on(launcher, &message);
    }
}

/* Otherwise the program that ran here before an upgrade lost the proxy. */
static bool is_socket(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

int egress_open(struct launcher *launcher)
{
    launcher->egress.fd = -1;
    launcher->egress.ready = on_egress;
    if (!launcher->plan->has_egress || !is_socket(LAUNCHER_EGRESS_FD))
        return 0;
    return loop_add(&launcher->loop, &launcher->egress, LAUNCHER_EGRESS_FD, EPOLLIN);
}

void egress_add(struct launcher *launcher, struct managed_box *box)
{
    struct egress_message message = {
        .type = EGRESS_ADD, .number = box->facts.number, .policy = EGRESS_INSTALLER};
    int r = -EPIPE;

    if (box->launched.egress_fd < 0)
        return;
    if (launcher->egress.fd >= 0)
        r = egress_send(launcher->egress.fd, &message, box->launched.egress_fd);
    if (r <= 0)
        log_warning("box %u gets no network: the egress proxy %s", (unsigned)box->facts.number,
                    r < 0 ? "is gone" : "does not answer");
    fd_closep(&box->launched.egress_fd); /* now only the proxy has it, or there is no listener */
}

void egress_remove(struct launcher *launcher, uint32_t number)
{
    struct egress_message message = {.type = EGRESS_REMOVE, .number = number};

    /*
     * A proxy that does not get the message notices anyway: the box's end closes every connection
     * in it.
     */
    if (launcher->egress.fd >= 0)
        egress_send(launcher->egress.fd, &message, -1);
}
