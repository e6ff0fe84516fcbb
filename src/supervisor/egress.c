/*
 * egress.c - the process that waits until the egress proxy is needed, and keeps it running; see
 * supervisor.h.
 *
 * The proxy has to be in the host's network, which no process inside the engine can enter, with its
 * own id, which cannot be taken once the privilege is gone; and it loads many libraries, which a
 * daemon that never installs anything should not pay for. So a child is forked before the privilege
 * is dropped, drops its own, and waits for the launcher's first message: the socket between them is
 * the proxy's, the message stays in it, and the program is executed then. A proxy that died is
 * started again by the next message; the boxes it served have lost their network.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "egress/protocol.h"
#include "supervisor/supervisor_private.h"
#include "sys/calls.h"

#define PROGRAM_FD 4       /* between those of protocol.h */
#define SHORT_LIFE_MS 1000 /* one that ended so soon could not do what it was started for */
#define END_PATIENCE_MS 2000

/* ---- the process that waits to become the proxy ---- */

struct keeper {
    pid_t pid; /* the proxy; 0: there is none */
    int pid_fd;
    uint64_t started_ms;
};

static _Noreturn void proxy_child(void)
{
    static char *argv[] = {"bailey-engine", "egress", NULL};
    static char *env[] = {NULL};

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the same id: it comes */
    log_error("starting the egress proxy: %s", strerror(-hand_exec(PROGRAM_FD, argv, env)));
    _exit(1);
}

static void start_proxy(struct keeper *keeper)
{
    keeper->started_ms = clock_now_ms();
    keeper->pid = sys_clone_fork(0, &keeper->pid_fd, -1);
    if (keeper->pid == 0)
        proxy_child();
    if (keeper->pid < 0) {
        char word[EGRESS_MESSAGE_MAX];

        log_error("the egress proxy could not be forked: %s", strerror(errno));
        keeper->pid = 0;
        /* Without room for it the box's socket is closed, so that the box finds no listener. */
        (void)!recv(EGRESS_CONTROL_FD, word, sizeof(word), MSG_DONTWAIT);
    }
}

/*
 * The proxy is not started again and again for one message: a proxy that ended at once takes a
 * message with it.
 */
static void reap_proxy(struct keeper *keeper)
{
    char word[EGRESS_MESSAGE_MAX];
    int status = 0;

    while (waitpid(keeper->pid, &status, 0) < 0 && errno == EINTR)
        ;
    keeper->pid = 0;
    fd_closep(&keeper->pid_fd);
    if (clock_now_ms() - keeper->started_ms < SHORT_LIFE_MS)
        (void)!recv(EGRESS_CONTROL_FD, word, sizeof(word), MSG_DONTWAIT);
    log_warning("the egress proxy ended (%s %d), the next installation starts another",
                WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static _Noreturn void keep_proxy(void)
{
    struct keeper keeper = {.pid_fd = -1};

    for (;;) {
        struct pollfd fds[] = {{.fd = EGRESS_CONTROL_FD, .events = keeper.pid ? 0 : POLLIN},
                               {.fd = keeper.pid_fd, .events = POLLIN}};

        if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
            _exit(1);
        if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            break; /* the launcher is gone */
        if (keeper.pid && fds[1].revents)
            reap_proxy(&keeper);
        else if (fds[0].revents & POLLIN)
            start_proxy(&keeper);
    }
    if (keeper.pid) {
        kill(keeper.pid, SIGKILL);
        while (waitpid(keeper.pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    _exit(0);
}

/* Must: keep nothing of the caller's: neither locks nor sockets, neither rights nor terminal. */
static _Noreturn void waiting_child(struct supervisor *supervisor, int control_fd, int settings_fd)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct fd_move moves[] = {
        {null_fd, 0},
        {null_fd, 1},
        {supervisor->spec->stderr_fd >= 0 ? supervisor->spec->stderr_fd : null_fd, 2},
        {control_fd, EGRESS_CONTROL_FD},
        {supervisor->engine_fd, PROGRAM_FD},
        {settings_fd, EGRESS_SETTINGS_FD},
    };
    int r = hand_fds(moves, ARRAY_SIZE(moves));

    if (r == 0 && sys_close_range(EGRESS_SETTINGS_FD + 1, ~0U, 0) < 0)
        r = -errno;
    if (r == 0 && (setsid() < 0 || chdir("/") < 0 || fcntl(PROGRAM_FD, F_SETFD, FD_CLOEXEC) < 0))
        r = -errno;
    if (r == 0)
        r = hand_off_privileges(
            supervisor->is_range ? (int64_t)supervisor->first + LAUNCHER_EGRESS_ID : -1,
            supervisor->is_range);
    if (r == 0 && prctl(PR_SET_DUMPABLE, 0) < 0)
        r = -errno;
    if (r < 0) {
        log_error("waiting for the egress proxy's work: %s", strerror(-r));
        _exit(1);
    }
    prctl(PR_SET_NAME, "egress-keeper");
    keep_proxy();
}

/* ---- in the supervisor ---- */

int supervisor_egress_start(struct supervisor *supervisor, struct error *err)
{
    CLEANUP(fd_closep) int settings_fd = -1;
    int pair[2];
    int r;

    if (!supervisor->spec->egress)
        return 0;
    r = hand_bytes("egress", supervisor->spec->egress, strlen(supervisor->spec->egress),
                   &settings_fd, err);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return error_errno(err, "making the channel to the egress proxy");
    supervisor->egress_pid = sys_clone_fork(0, &supervisor->egress_pid_fd, -1);
    if (supervisor->egress_pid == 0)
        waiting_child(supervisor, pair[1], settings_fd);
    supervisor->egress_fd = pair[0];
    close(pair[1]);
    if (supervisor->egress_pid < 0) {
        supervisor->egress_pid = 0;
        return error_errno(err, "forking what waits for the egress proxy's work");
    }
    return 0;
}

/* It leaves by itself when the launcher's end is closed: that is waited for, not long. */
void supervisor_egress_end(struct supervisor *supervisor)
{
    struct pollfd end = {.fd = supervisor->egress_pid_fd, .events = POLLIN};

    fd_closep(&supervisor->egress_fd);
    if (supervisor->egress_pid > 0 && poll(&end, 1, END_PATIENCE_MS) > 0)
        waitpid(supervisor->egress_pid, NULL, WNOHANG);
    supervisor->egress_pid = 0;
    fd_closep(&supervisor->egress_pid_fd);
}
