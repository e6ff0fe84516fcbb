/*
 * provider_host.c - the processes that keep the provider hosts (`bailey-engine host NAME`); see
 * supervisor.h and docs/design/2026-11-16-the-docker-provider-host.md.
 *
 * A provider host has the sockets and keys to make boxes elsewhere; Docker's socket amounts to root
 * on this machine. So no process inside the engine has them. A child (the keeper) is forked before
 * privileges are dropped: it keeps the caller's id, which that socket requires, and no capability,
 * and starts the provider host with one end of the rendezvous socket. A provider host that died is
 * started again, on the same end, and the launcher gets one byte: the boxes of the earlier one are
 * gone with it. A provider host that is older than the broker (HOST_STATUS_OUTDATED) is replaced by
 * the installed program: by its path, with the caller's id. The launcher never supplies the
 * program, because it must not be able to run one with that id. A provider host of another type
 * than the daemon's is started when the broker says its first word to it: until then the channel
 * that the launcher offered waits in the rendezvous socket. When the launcher is gone the
 * provider host ends its boxes and exits, and so does the keeper. The process `upstream`
 * (upstream/upstream.h) is kept in the same way, under an id of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "supervisor/supervisor_private.h"
#include "sys/calls.h"

#define PROGRAM_FD 5 /* after those of the provider host */
#define PAUSE_FIRST_MS 50
#define PAUSE_MAX_MS 5000
#define GOOD_LIFE_MS 10000      /* a provider host that lived this long is restarted at once */
#define LEAVE_PATIENCE_MS 20000 /* time to remove the boxes when the daemon ends */

struct keeper {
    const struct supervisor_spec *spec;
    const struct supervisor_host *host;
    pid_t pid; /* the provider host; 0: none */
    int pid_fd;
    char guest[64];      /* HOST_GUEST_ID=N; empty: none */
    char self[PATH_MAX]; /* path of the installed `bailey`; empty: unknown */
    uint64_t started_ms, pause_ms, start_at_ms;
};

/* Its environment and one variable more; the process executes, or exits. */
static char *const *with_guest(const struct keeper *keeper)
{
    char *const *env = (char *const *)keeper->host->env;
    size_t count = 0;
    char **more;

    while (env[count])
        count++;
    more = calloc(count + 2, sizeof(*more));
    if (!more)
        _exit(1);
    memcpy(more, env, count * sizeof(*more));
    more[count] = (char *)keeper->guest;
    return more;
}

static _Noreturn void provider_host_child(const struct keeper *keeper)
{
    char *argv[] = {"bailey-engine", "host", (char *)keeper->host->name, NULL};
    char *const *env = (char *const *)keeper->host->env;
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (keeper->guest[0])
        env = with_guest(keeper);
    log_error("starting the provider host: %s", strerror(-hand_exec(PROGRAM_FD, argv, env)));
    _exit(1);
}

/*
 * The byte is sent after the fork: what the launcher sends then waits in the socket for the new
 * process.
 */
static void start_provider_host(struct keeper *keeper, bool is_again)
{
    static const char word = HOST_SAYS_AGAIN;

    keeper->start_at_ms = 0;
    keeper->started_ms = clock_now_ms();
    keeper->pid = sys_clone_fork(0, &keeper->pid_fd, -1);
    if (keeper->pid == 0)
        provider_host_child(keeper);
    if (keeper->pid < 0) {
        log_error("the provider host could not be forked: %s", strerror(errno));
        keeper->pid = 0;
        keeper->start_at_ms = clock_now_ms() + PAUSE_MAX_MS;
    } else if (is_again) {
        (void)!send(HOST_RENDEZVOUS_FD, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* Both programs, or neither. */
static void renew_programs(struct keeper *keeper)
{
    CLEANUP(fd_closep) int engine_fd = -1;
    CLEANUP(fd_closep) int self_fd = -1;
    struct error err = {0};
    int r = hand_program(keeper->spec->engine, &engine_fd, &err);

    if (r == 0)
        r = hand_program(keeper->self, &self_fd, &err);
    if (r == 0 && (dup3(engine_fd, PROGRAM_FD, O_CLOEXEC) < 0 || dup2(self_fd, HOST_WARDEN_FD) < 0))
        r = error_errno(&err, "renewing the provider host");
    if (r < 0)
        log_warning("%s, continuing with the former program", err.text);
}

static void reap_provider_host(struct keeper *keeper)
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
    if (WIFEXITED(status) && WEXITSTATUS(status) == HOST_STATUS_OUTDATED)
        renew_programs(keeper);
    log_warning("the provider host ended (%s %d), starting it again",
                WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* The launcher is gone, which the provider host sees too: it has time to remove its containers. */
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

/* The first channel of the rendezvous socket, which stays there; -1: none. */
static int look_at_channel(void)
{
    char word;
    struct iovec part = {.iov_base = &word, .iov_len = 1};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    int fd = -1;

    if (recvmsg(HOST_RENDEZVOUS_FD, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
        return -1;
    if (message.msg_controllen >= CMSG_LEN(sizeof(int)) && control.head.cmsg_level == SOL_SOCKET &&
        control.head.cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
    else /* it was lost on its way */
        (void)!recv(HOST_RENDEZVOUS_FD, &word, 1, MSG_DONTWAIT);
    return fd;
}

/* Must not read the broker's word: the provider host does. */
static void wait_for_need(struct keeper *keeper)
{
    for (;;) {
        CLEANUP(fd_closep) int channel_fd = look_at_channel();
        struct pollfd fds[] = {{.fd = HOST_RENDEZVOUS_FD, .events = channel_fd < 0 ? POLLIN : 0},
                               {.fd = channel_fd, .events = POLLIN}};
        char word;

        if (poll(fds, ARRAY_SIZE(fds), -1) < 0) {
            if (errno != EINTR)
                _exit(1);
            continue;
        }
        if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            leave(keeper);
        if (fds[1].revents & POLLIN)
            return;
        if (fds[1].revents) /* its broker is gone, and never needed a host */
            (void)!recv(HOST_RENDEZVOUS_FD, &word, 1, MSG_DONTWAIT);
    }
}

static _Noreturn void keep_provider_host(struct keeper *keeper)
{
    if (keeper->host->is_lazy)
        wait_for_need(keeper);
    start_provider_host(keeper, false);
    for (;;) {
        struct pollfd fds[] = {{.fd = HOST_RENDEZVOUS_FD},
                               {.fd = keeper->pid_fd, .events = POLLIN}};

        if (poll(fds, ARRAY_SIZE(fds), until(keeper)) < 0 && errno != EINTR)
            _exit(1);
        if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            leave(keeper);
        if (keeper->pid && fds[1].revents)
            reap_provider_host(keeper);
        if (keeper->start_at_ms && clock_now_ms() >= keeper->start_at_ms)
            start_provider_host(keeper, true);
    }
}

/*
 * What gives a guest an id of its own, and removes what it left. An exec of root's gives what the
 * bounding set has, so the rest goes from there; a process that may not change it never had more
 * than its container.
 */
static int keep_rights(void)
{
    static const int kept[] = {CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_KILL,
                               CAP_SETGID, CAP_SETUID,       CAP_SETPCAP};

    for (int cap = 0; cap < 64; cap++) {
        bool is_kept = false;

        for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
            is_kept = is_kept || kept[i] == cap;
        if (!is_kept && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            break; /* beyond the last one, or not allowed */
    }
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

/* Must keep nothing of the caller's except the id and its groups. */
static _Noreturn void keeper_child(struct supervisor *supervisor,
                                   const struct supervisor_host *host, int rendezvous_fd)
{
    struct keeper keeper = {.spec = supervisor->spec, .host = host, .pid_fd = -1};
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct fd_move moves[] = {
        {null_fd, 0},
        {null_fd, 1},
        {supervisor->spec->stderr_fd >= 0 ? supervisor->spec->stderr_fd : null_fd, 2},
        {rendezvous_fd, HOST_RENDEZVOUS_FD},
        {supervisor->self_fd, HOST_WARDEN_FD},
        {supervisor->engine_fd, PROGRAM_FD},
    };
    int r = hand_fds(moves, ARRAY_SIZE(moves));

    if (r == 0 && sys_close_range(PROGRAM_FD + 1, ~0U, 0) < 0)
        r = -errno;
    if (r == 0 && (setsid() < 0 || chdir("/") < 0 || fcntl(PROGRAM_FD, F_SETFD, FD_CLOEXEC) < 0))
        r = -errno;
    if (r == 0 && host->keeps_rights)
        r = keep_rights();
    else if (r == 0)
        r = hand_off_privileges(host->has_own_id && supervisor->is_range
                                    ? (int64_t)supervisor->first + LAUNCHER_UPSTREAM_ID
                                    : -1,
                                host->has_own_id && supervisor->is_range);
    if (r == 0 && host->has_own_id && prctl(PR_SET_DUMPABLE, 0) < 0) /* its environment: a key */
        r = -errno;
    if (r < 0) {
        log_error("starting the provider host: %s", strerror(-r));
        _exit(1);
    }
    if (host->keeps_rights && supervisor->is_range)
        str_format(keeper.guest, sizeof(keeper.guest), HOST_GUEST_ID "=%u",
                   supervisor->first + LAUNCHER_GUEST_ID);
    prctl(PR_SET_NAME, "host-keeper");
    if (readlink("/proc/self/exe", keeper.self, sizeof(keeper.self) - 1) < 0)
        keeper.self[0] = 0;
    keep_provider_host(&keeper);
}

/* ---- in the supervisor ---- */

static int start_keeper(struct supervisor *supervisor, size_t index, struct error *err)
{
    const struct supervisor_host *host = &supervisor->spec->hosts[index];
    pid_t *pid = &supervisor->host_pids[index];
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return error_errno(err, "making the channel to the provider host '%s'", host->name);
    *pid = sys_clone_fork(0, &supervisor->host_pid_fds[index], -1);
    if (*pid == 0)
        keeper_child(supervisor, host, pair[1]);
    supervisor->host_fds[index] = pair[0];
    close(pair[1]);
    if (*pid < 0) {
        *pid = 0;
        return error_errno(err, "forking what keeps the provider host '%s'", host->name);
    }
    return 0;
}

int supervisor_hosts_start(struct supervisor *supervisor, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < supervisor->spec->host_count && r == 0; i++)
        r = start_keeper(supervisor, i, err);
    return r;
}

/*
 * They exit by themselves when the launcher's ends are closed: afterwards nothing of the daemon is
 * left.
 */
void supervisor_hosts_end(struct supervisor *supervisor)
{
    for (size_t i = 0; i < LAUNCHER_HOSTS_MAX; i++)
        fd_closep(&supervisor->host_fds[i]);
    for (size_t i = 0; i < LAUNCHER_HOSTS_MAX; i++) {
        struct pollfd end = {.fd = supervisor->host_pid_fds[i], .events = POLLIN};

        if (supervisor->host_pids[i] > 0 && poll(&end, 1, LEAVE_PATIENCE_MS + 1000) > 0)
            waitpid(supervisor->host_pids[i], NULL, WNOHANG);
        supervisor->host_pids[i] = 0;
        fd_closep(&supervisor->host_pid_fds[i]);
    }
}
