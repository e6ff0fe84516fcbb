/*
 * engine_wall.c - the launcher's side of the Docker wall: it only brings broker and wall together.
 *
 * For each broker, and again when a wall was started anew, a pair of sockets is made: one end goes
 * to the wall over the meeting point, the other to the broker (LAUNCHER_WALL). Nothing of what they
 * say to each other comes by here, and the wall is believed nothing but that it lives.
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
#include "launcher/engine.h"
#include "sys/packet.h"

static void hang_up(struct engine *engine)
{
    CLEANUP(fd_closep) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    log_warning("nobody keeps the Docker wall any more, continuing without it");
    loop_remove(&engine->loop, &engine->wall);
    /* The number stays taken: a program that takes over looks there. */
    if (null_fd < 0 || dup3(null_fd, ENGINE_WALL_FD, O_CLOEXEC) < 0)
        shutdown(ENGINE_WALL_FD, SHUT_RDWR);
}

void wall_offer(struct engine *engine)
{
    static const char word = WALL_SAYS_CHANNEL;
    struct launcher_message message = {.type = LAUNCHER_WALL};
    int pair[2];

    if (engine->wall.fd < 0)
        return;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        log_warning("no channel to the Docker wall could be made, continuing without it");
        return;
    }
    /* Without room there the wall does not read: its end is closed, and the broker sees that. */
    if (packet_offer(ENGINE_WALL_FD, &word, 1, pair[1]) <= 0)
        log_warning("the Docker wall does not answer, continuing without it");
    close(pair[1]);
    broker_send(engine, &message, pair[0]);
}

/* A byte: it was started again, and knows no broker. */
static void on_wall(struct loop_source *source, uint32_t events)
{
    struct engine *engine = CONTAINER_OF(source, struct engine, wall);
    char word;
    int fd = -1;
    ssize_t length = packet_take(source->fd, &word, 1, &fd);

    (void)events;
    if (length > 0)
        fd_closep(&fd);
    if (length < 0)
        hang_up(engine);
    else if (length > 0 && engine->has_said_hello && !engine->greets_later)
        wall_offer(engine);
}

int wall_open(struct engine *engine)
{
    struct stat status;

    engine->wall.fd = -1;
    engine->wall.ready = on_wall;
    if (!engine->plan->has_wall || fstat(ENGINE_WALL_FD, &status) < 0 || !S_ISSOCK(status.st_mode))
        return 0;
    return loop_add(&engine->loop, &engine->wall, ENGINE_WALL_FD, EPOLLIN);
}
