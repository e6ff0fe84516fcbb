/*
 * upgrade.c - how an upgrade is requested: the supervisor's second socket, and its client; see
 * upgrade.h.
 *
 * One packet with descriptors, one packet back; after a takeover the client stays connected, and
 * its end is the end of the daemon. The supervisor reads nothing of the programs and decides
 * nothing: it checks the client's id, and passes the request on.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "supervisor/supervisor_private.h"
#include "sys/packet.h"

#define UPGRADE_SUFFIX ".upgrade"
#define ANSWER_MAX (ERROR_TEXT_MAX + 1)
#define ANSWER_PATIENCE_S 180 /* more than the launcher has for all its steps */

void upgrade_door_init(struct upgrade_door *door)
{
    *door = (struct upgrade_door){.listen_fd = -1, .client_fd = -1, .terminal_fd = -1};
}

void upgrade_door_close(struct upgrade_door *door)
{
    fd_closep(&door->listen_fd);
    fd_closep(&door->client_fd);
    fd_closep(&door->terminal_fd);
    upgrade_door_init(door);
}

static int socket_path(const char *socket, char path[PATH_MAX], struct error *err)
{
    return str_format(path, PATH_MAX, "%s" UPGRADE_SUFFIX, socket) < 0
               ? error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "the socket's path is too long")
               : 0;
}

void upgrade_door_remove(const char *socket)
{
    char path[PATH_MAX];

    if (socket_path(socket, path, NULL) == 0)
        unlink(path);
}

int upgrade_door_open(struct upgrade_door *door, const char *socket, struct error *err)
{
    char path[PATH_MAX];
    int r = socket_path(socket, path, err);

    door->owner = geteuid();
    return r < 0 ? r : supervisor_socket_listen(path, SOCK_SEQPACKET, &door->listen_fd, err);
}

/* ---- turns ---- */

static void say_kept(int fd, const char *why)
{
    char text[128] = {LAUNCHER_SAYS_KEPT};

    str_copy(text + 1, sizeof(text) - 1, why);
    packet_send(fd, text, 1 + strlen(text + 1), NULL, 0, MSG_DONTWAIT);
}

/* The folder admits no other user; this is checked anyway. */
static bool may_ask(const struct upgrade_door *door, int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || peer.uid == door->owner);
}

/* One client at a time. One that has not sent anything yet makes room for the next. */
static void let_in(struct upgrade_door *door)
{
    int fd = accept4(door->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    if (door->is_asked || !may_ask(door, fd)) {
        say_kept(fd, door->is_asked ? "another upgrade is under way"
                                    : "only the user who started the daemon may upgrade it");
        close(fd);
        return;
    }
    fd_closep(&door->client_fd);
    door->client_fd = fd;
}

static void hang_up(struct upgrade_door *door)
{
    fd_closep(&door->client_fd);
    door->client_fd = -1;
    door->is_asked = false;
}

/* The request is carried out even if its client does not wait for the answer any more. */
static void hear_client(struct upgrade_door *door, int launcher_fd)
{
    int fds[PACKET_FDS_MAX];
    size_t count = ARRAY_SIZE(fds);
    char what = 0;
    ssize_t length = packet_receive(door->client_fd, &what, 1, fds, &count, MSG_DONTWAIT);

    if (length == -EAGAIN)
        return;
    if (length == 1 &&
        ((what == LAUNCHER_SAYS_UPGRADE && count == _UPGRADE_PROGRAM_MAX) ||
         (what == LAUNCHER_SAYS_TAKEOVER && count >= _TAKEOVER_FIXED)) &&
        !door->is_asked && packet_send(launcher_fd, &what, 1, fds, count, MSG_DONTWAIT) == 0)
        door->is_asked = true;
    else
        hang_up(door);
    for (size_t i = 0; length > 0 && i < count; i++)
        close(fds[i]);
}

void upgrade_door_turn(struct upgrade_door *door, int launcher_fd)
{
    if (door->listen_fd >= 0)
        let_in(door);
    if (door->client_fd >= 0)
        hear_client(door, launcher_fd);
}

void upgrade_door_answer(struct upgrade_door *door, const char *message, size_t length)
{
    if (door->client_fd >= 0)
        packet_send(door->client_fd, message, length, NULL, 0, MSG_DONTWAIT);
    if (message[0] == LAUNCHER_SAYS_TAKEN && door->client_fd >= 0)
        door->terminal_fd = fd_take(&door->client_fd); /* it stays */
    hang_up(door);
}

/* ---- the client ---- */

int upgrade_door_call(const char *socket, int *ret_fd, struct error *err)
{
    CLEANUP(fd_closep) int fd = -1;
    char path[PATH_MAX];
    int r = socket_path(socket, path, err);

    if (r == 0)
        r = supervisor_socket_connect(path, SOCK_SEQPACKET, &fd, err);
    if (r < 0)
        return r;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = ANSWER_PATIENCE_S},
               sizeof(struct timeval));
    *ret_fd = fd_take(&fd);
    return 0;
}

int supervisor_upgrade(const char *socket, const char *program, const char *engine,
                       char *ret_version, size_t size, struct error *err)
{
    static const char what = LAUNCHER_SAYS_UPGRADE;
    CLEANUP(fd_closep) int fd = -1;
    CLEANUP(fd_closep) int program_fd = -1;
    CLEANUP(fd_closep) int engine_fd = -1;
    char answer[ANSWER_MAX + 1];
    size_t none = 0;
    ssize_t length;
    int r = upgrade_door_call(socket, &fd, err);

    if (r == 0)
        r = hand_program(program, &program_fd, err);
    if (r == 0)
        r = hand_program(engine, &engine_fd, err);
    if (r < 0)
        return r;
    r = packet_send(fd, &what, 1, (const int[]){program_fd, engine_fd}, 2, 0);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "handing the programs over: %s", strerror(-r));
    length = packet_receive(fd, answer, sizeof(answer) - 1, NULL, &none, 0);
    if (length <= 0)
        return error_set(err, length < 0 ? (int)length : -EPIPE, ERROR_ENGINE,
                         "the daemon did not answer; 'bailey daemon status' shows whether it runs");
    answer[length] = 0;
    if (answer[0] != LAUNCHER_SAYS_UPGRADED)
        return error_set(err, -EIO, ERROR_ENGINE,
                         "nothing was changed, the daemon continues unchanged: %s", answer + 1);
    str_copy(ret_version, size, answer + 1);
    return 0;
}
