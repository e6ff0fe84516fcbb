/*
 * takeover.c - `bailey serve` where a daemon runs that was started on demand: hands it what a
 * server has, and stays as its terminal; see supervisor.h and launcher/takeover.h.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "supervisor/supervisor_private.h"
#include "sys/packet.h"

#define ENV_MAX_BYTES (256 * KIB)

static int write_env(const char *const *env, int *ret_fd, struct error *err)
{
    static const char version[] = TAKEOVER_VERSION "=" BAILEY_VERSION;
    CLEANUP(buf_free) struct buf text = BUF_INIT(ENV_MAX_BYTES);
    int r = buf_append(&text, version, sizeof(version));

    for (; r == 0 && *env; env++)
        r = buf_append(&text, *env, strlen(*env) + 1);
    return r < 0 ? error_memory(err) : hand_bytes("env", text.data, text.length, ret_fd, err);
}

static int send_all(struct supervisor *supervisor, int door_fd, struct error *err)
{
    static const char what = LAUNCHER_SAYS_TAKEOVER;
    const struct supervisor_spec *spec = supervisor->spec;
    size_t tcp_count = supervisor->plan->tcp_count;
    CLEANUP(fd_closep) int plan_fd = -1;
    CLEANUP(fd_closep) int settings_fd = -1;
    CLEANUP(fd_closep) int env_fd = -1;
    int fds[PACKET_FDS_MAX];
    int r = 0;

    if (_TAKEOVER_FIXED + tcp_count > PACKET_FDS_MAX)
        return error_set(err, -E2BIG, ERROR_BAD_INPUT,
                         "more than %d addresses cannot be handed to the daemon that runs",
                         PACKET_FDS_MAX - _TAKEOVER_FIXED);
    r = hand_bytes("plan", supervisor->plan, sizeof(*supervisor->plan), &plan_fd, err);
    if (r == 0)
        r = hand_bytes("settings", spec->settings, spec->settings_length, &settings_fd, err);
    if (r == 0)
        r = write_env(spec->broker_env, &env_fd, err);
    if (r < 0)
        return r;
    fds[TAKEOVER_PLAN] = plan_fd;
    fds[TAKEOVER_SETTINGS] = settings_fd;
    fds[TAKEOVER_ENV] = env_fd;
    fds[TAKEOVER_STDERR] = spec->stderr_fd;
    for (size_t i = 0; i < tcp_count; i++)
        fds[_TAKEOVER_FIXED + i] = supervisor->tcp_fd[i];
    r = packet_send(door_fd, &what, 1, fds, _TAKEOVER_FIXED + tcp_count, 0);
    return r < 0 ? error_set(err, r, ERROR_ENGINE, "handing the settings over: %s", strerror(-r))
                 : 0;
}

static int hear_answer(int door_fd, struct error *err)
{
    char answer[ERROR_TEXT_MAX + 1];
    size_t none = 0;
    ssize_t length = packet_receive(door_fd, answer, sizeof(answer) - 1, NULL, &none, 0);

    if (length <= 0)
        return error_set(err, length < 0 ? (int)length : -EPIPE, ERROR_ENGINE,
                         "the daemon that runs did not answer; 'bailey daemon status' shows "
                         "whether it runs");
    answer[length] = 0;
    if (answer[0] == LAUNCHER_SAYS_TAKEN)
        return 0;
    return error_set(err, -EBUSY, ERROR_BAD_INPUT,
                     "the daemon that runs cannot become this server, and goes on as before: "
                     "%.500s. 'bailey daemon stop' ends it",
                     answer + 1);
}

/* Until the daemon has ended. */
static int stay(int door_fd, int signal_fd, struct error *err)
{
    static const char stop = LAUNCHER_SAYS_STOP;
    struct pollfd fds[] = {{.fd = door_fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
    struct signalfd_siginfo info;

    while (fds[0].revents == 0) {
        if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
            return error_errno(err, "waiting for the daemon");
        while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
            packet_send(door_fd, &stop, 1, NULL, 0, MSG_DONTWAIT);
    }
    return 0;
}

static int open_signals(int *ret_fd, struct error *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return error_errno(err, "blocking signals");
    *ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return *ret_fd < 0 ? error_errno(err, "opening a signalfd") : 0;
}

int supervisor_take_over(const struct supervisor_spec *spec, void (*taken)(void *ctx), void *ctx,
                         struct error *err)
{
    CLEANUP(freep) struct launcher_plan *plan = calloc(1, sizeof(*plan));
    CLEANUP(fd_closep) int door_fd = -1;
    CLEANUP(fd_closep) int signal_fd = -1;
    struct supervisor supervisor;
    int r;

    if (!plan)
        return error_memory(err);
    supervisor_init(&supervisor, spec, plan);
    r = open_signals(&signal_fd, err);
    if (r == 0)
        r = supervisor_write_plan(&supervisor, err);
    if (r == 0)
        r = supervisor_listen(&supervisor, err);
    if (r == 0)
        r = upgrade_door_call(spec->socket, &door_fd, err);
    if (r == 0)
        r = send_all(&supervisor, door_fd, err);
    supervisor_close(&supervisor); /* the daemon has taken the listeners, or they are closed */
    if (r == 0)
        r = hear_answer(door_fd, err);
    if (r < 0)
        return r;
    taken(ctx);
    return stay(door_fd, signal_fd, err);
}
