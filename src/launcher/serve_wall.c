/*
 * serve_wall.c - the process that keeps the wall of containers (`bailey-engine docker`); see
 * serve.h and docs/design/2026-11-16-the-docker-wall.md.
 *
 * Whoever may speak to Docker's socket is root on the machine, so nobody inside the engine can. A
 * child is forked before the privilege goes: it keeps the caller's id, which that socket asks for,
 * and no capability, and starts the wall with one end of the meeting point. A wall that died is
 * started again, on the same end, and the launcher is told by one byte: the boxes of the one before
 * are gone with it. One that is older than the broker (WALL_STATUS_OUTDATED) is started from what
 * is installed now: by its path, with the caller's id. No program comes through the launcher, which
 * must not be able to have one run with that id. When the launcher is gone the wall ends its boxes
 * and leaves, and so does the keeper.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "launcher/engine.h"
#include "sys/calls.h"

#define PROGRAM_FD 5 /* behind those of the wall */
#define PAUSE_FIRST_MS 50
#define PAUSE_MAX_MS 5000
#define GOOD_LIFE_MS 10000      /* one that lived so long is started again at once */
#define LEAVE_PATIENCE_MS 20000 /* for the containers of a daemon that ends */

struct keeper {
    const struct serve_spec *spec;
    pid_t pid; /* the wall; 0: there is none */
    int pid_fd;
    char self[PATH_MAX]; /* where `bailey` was, and will be again; empty: not known */
    uint64_t started_ms, pause_ms, start_at_ms;
};

static _Noreturn void wall_child(const struct keeper *keeper)
{
    static char *argv[] = {"bailey-engine", "docker", NULL};
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    log_error("starting the Docker wall: %s",
              strerror(-hand_exec(PROGRAM_FD, argv, (char *const *)keeper->spec->wall_env)));
    _exit(1);
}

/* Told after the fork: what the launcher sends then waits in the socket for the new one. */
static void start_wall(struct keeper *keeper, bool is_again)
{
    static const char word = WALL_SAYS_AGAIN;

    keeper->start_at_ms = 0;
    keeper->started_ms = clock_now_ms();
    keeper->pid = sys_clone_fork(0, &keeper->pid_fd, -1);
    if (keeper->pid == 0)
        wall_child(keeper);
    if (keeper->pid < 0) {
        log_error("the Docker wall could not be forked: %s", strerror(errno));
        keeper->pid = 0;
        keeper->start_at_ms = clock_now_ms() + PAUSE_MAX_MS;
    } else if (is_again) {
        (void)!send(WALL_MEETING_FD, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* Both programs, or none. */
static void renew_programs(struct keeper *keeper)
{
    CLEANUP(fd_closep) int engine_fd = -1;
    CLEANUP(fd_closep) int self_fd = -1;
    struct error err = {0};
    int r = hand_program(keeper->spec->engine, &engine_fd, &err);

    if (r == 0)
        r = hand_program(keeper->self, &self_fd, &err);
    if (r == 0 && (dup3(engine_fd, PROGRAM_FD, O_CLOEXEC) < 0 || dup2(self_fd, WALL_WARDEN_FD) < 0))
        r = error_errno(&err, "renewing the Docker wall");
    if (r < 0)
        log_warning("%s, continuing with the former program", err.text);
}

static void bury_wall(struct keeper *keeper)
{
    uint64_t now = clock_now_ms();
    int status = 0;

    while (waitpid(keeper->pid, &status, 0) < 0 && errno == EINTR)
        ;
    keeper->pid = 0;
    fd_closep(&keeper->pid_fd);
    if (now - keeper->started_ms >= GOOD_LIFE_MS)
        keeper->pause_ms = 0;
    keeper->pause_ms =
        keeper->pause_ms ? MIN(2 * keeper->pause_ms, (uint64_t)PAUSE_MAX_MS) : PAUSE_FIRST_MS;
    keeper->start_at_ms = now + keeper->pause_ms;
    if (WIFEXITED(status) && WEXITSTATUS(status) == WALL_STATUS_OUTDATED)
        renew_programs(keeper);
    log_warning("the Docker wall ended (%s %d), starting it again",
                WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* The launcher is gone, which the wall hears too: it has time to remove its containers. */
static _Noreturn void leave(struct keeper *keeper)
{
    struct pollfd end = {.fd = keeper->pid_fd, .events = POLLIN};

    if (keeper->pid) {
        if (poll(&end, 1, LEAVE_PATIENCE_MS) <= 0)
            kill(keeper->pid, SIGKILL);
        while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    _exit(0);
}

static int until(const struct keeper *keeper)
{
    uint64_t now = clock_now_ms();

    if (!keeper->start_at_ms)
        return -1;
    return keeper->start_at_ms > now ? (int)(keeper->start_at_ms - now) : 0;
}

static _Noreturn void keep_wall(struct keeper *keeper)
{
    start_wall(keeper, false);
    for (;;) {
        struct pollfd fds[] = {{.fd = WALL_MEETING_FD}, {.fd = keeper->pid_fd, .events = POLLIN}};

        if (poll(fds, ARRAY_SIZE(fds), until(keeper)) < 0 && errno != EINTR)
            _exit(1);
        if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            leave(keeper);
        if (keeper->pid && fds[1].revents)
            bury_wall(keeper);
        if (keeper->start_at_ms && clock_now_ms() >= keeper->start_at_ms)
            start_wall(keeper, true);
    }
}

/* Must: keep nothing of the caller's but the id and its groups. */
static _Noreturn void keeper_child(struct serve *serve, int meeting_fd)
{
    struct keeper keeper = {.spec = serve->spec, .pid_fd = -1};
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct fd_move moves[] = {
        {null_fd, 0},
        {null_fd, 1},
        {serve->spec->stderr_fd >= 0 ? serve->spec->stderr_fd : null_fd, 2},
        {meeting_fd, WALL_MEETING_FD},
        {serve->self_fd, WALL_WARDEN_FD},
        {serve->engine_fd, PROGRAM_FD},
    };
    int r = hand_fds(moves, ARRAY_SIZE(moves));

    if (r == 0 && sys_close_range(PROGRAM_FD + 1, ~0U, 0) < 0)
        r = -errno;
    if (r == 0 && (setsid() < 0 || chdir("/") < 0 || fcntl(PROGRAM_FD, F_SETFD, FD_CLOEXEC) < 0))
        r = -errno;
    if (r == 0)
        r = hand_off_privileges(-1, false);
    if (r < 0) {
        log_error("starting the Docker wall: %s", strerror(-r));
        _exit(1);
    }
    prctl(PR_SET_NAME, "wall-keeper");
    if (readlink("/proc/self/exe", keeper.self, sizeof(keeper.self) - 1) < 0)
        keeper.self[0] = 0;
    keep_wall(&keeper);
}

/* ---- in the stub ---- */

int serve_wall_start(struct serve *serve, struct error *err)
{
    int pair[2];

    if (!serve->spec->wall_env)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return error_errno(err, "making the channel to the Docker wall");
    serve->wall_pid = sys_clone_fork(0, &serve->wall_pid_fd, -1);
    if (serve->wall_pid == 0)
        keeper_child(serve, pair[1]);
    serve->wall_fd = pair[0];
    close(pair[1]);
    if (serve->wall_pid < 0) {
        serve->wall_pid = 0;
        return error_errno(err, "forking what keeps the Docker wall");
    }
    return 0;
}

/* It leaves by itself when the launcher's end is closed: nothing is left of the daemon then. */
void serve_wall_end(struct serve *serve)
{
    struct pollfd end = {.fd = serve->wall_pid_fd, .events = POLLIN};

    fd_closep(&serve->wall_fd);
    if (serve->wall_pid > 0 && poll(&end, 1, LEAVE_PATIENCE_MS + 1000) > 0)
        waitpid(serve->wall_pid, NULL, WNOHANG);
    serve->wall_pid = 0;
    fd_closep(&serve->wall_pid_fd);
}
