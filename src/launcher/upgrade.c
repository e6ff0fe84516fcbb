/*
 * upgrade.c - a new program is tried, all work in progress finishes, and it takes over; see
 * upgrade.h.
 */
#include "launcher/upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/launcher_private.h"
#include "sys/calls.h"

#define PROBE_PATIENCE_MS 10000
#define REST_PATIENCE_MS 60000 /* a layer that is being committed may be large */

static void on_probe_end(struct loop_source *source, uint32_t events);

static const char *const program_names[] = {"bailey", "bailey-engine"};

void upgrade_init(struct launcher *launcher)
{
    launcher->upgrade = (struct upgrade){
        .program_fd = {-1, -1}, .probe = {.fd = -1, .ready = on_probe_end}, .answer_fd = -1};
}

bool upgrade_rests(const struct launcher *launcher)
{
    return launcher->upgrade.state == UPGRADE_RESTING && !launcher->layer_commits;
}

static void end_probe(struct launcher *launcher)
{
    struct upgrade *upgrade = &launcher->upgrade;
    int pid_fd = upgrade->probe.fd;

    if (upgrade->probe_pid > 0) {
        kill(upgrade->probe_pid, SIGKILL);
        while (waitpid(upgrade->probe_pid, NULL, __WALL) < 0 && errno == EINTR)
            ;
    }
    upgrade->probe_pid = 0;
    if (pid_fd >= 0)
        loop_remove(&launcher->loop, &upgrade->probe);
    fd_closep(&pid_fd);
    fd_closep(&upgrade->answer_fd);
    upgrade->answer_fd = -1;
}

/* Back to the state without a request. */
static void leave(struct launcher *launcher)
{
    struct upgrade *upgrade = &launcher->upgrade;

    end_probe(launcher);
    for (int i = 0; i < _UPGRADE_PROGRAM_MAX; i++) {
        fd_closep(&upgrade->program_fd[i]);
        upgrade->program_fd[i] = -1;
    }
    upgrade->state = UPGRADE_NONE;
    upgrade->at_ms = 0;
}

/* The old program continues. */
static void keep(struct launcher *launcher, const char *why)
{
    bool was_resting = launcher->upgrade.state == UPGRADE_RESTING;

    log_warning("no upgrade: %s, continuing with the program of before", why);
    leave(launcher);
    launcher_say(launcher, LAUNCHER_SAYS_KEPT, why);
    if (was_resting) {
        broker_listen(launcher);
        pool_wake(launcher);
    }
}

/* ---- tried ---- */

/* Without any privilege, with the data that it must be able to read, and a pipe for its answer. */
static _Noreturn void probe_child(struct launcher *launcher, int which, int answer_fd,
                                  int handover_fd)
{
    static char *const argv[][4] = {{"bailey", LAUNCHER_PROBE_WORD, NULL},
                                    {"bailey-engine", "probe", NULL}};
    static char *env[] = {NULL};
    int program_fd = fcntl(launcher->upgrade.program_fd[which], F_DUPFD_CLOEXEC, 256);
    struct fd_move moves[] = {{STDIN_FILENO, 0},
                              {answer_fd, 1},
                              {STDERR_FILENO, 2},
                              {LAUNCHER_PLAN_FD, LAUNCHER_PLAN_FD},
                              {handover_fd, LAUNCHER_HANDOVER_FD}};
    sigset_t none;
    int r;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    r = hand_off_privileges(launcher->plan->broker_id, launcher->plan->clears_groups);
    if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        r = -errno;
    if (r == 0)
        r = hand_fds(moves, ARRAY_SIZE(moves));
    if (r == 0)
        r = hand_exec(program_fd, argv[which], env);
    log_warning("trying the new %s: %s", program_names[which], strerror(-r));
    _exit(127);
}

static int start_probe(struct launcher *launcher, int which)
{
    struct upgrade *upgrade = &launcher->upgrade;
    CLEANUP(fd_closep) int handover_fd = -1;
    int ends[2], pid_fd = -1, r;

    r = upgrade_write(launcher, false, "", &handover_fd);
    if (r < 0)
        return r;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    upgrade->probe_pid = sys_clone_fork(0, &pid_fd, -1);
    if (upgrade->probe_pid == 0)
        probe_child(launcher, which, ends[1], handover_fd);
    r = upgrade->probe_pid < 0 ? -errno : 0;
    close(ends[1]);
    upgrade->answer_fd = ends[0];
    upgrade->probed = which;
    upgrade->at_ms = clock_now_ms() + PROBE_PATIENCE_MS;
    if (r == 0)
        r = loop_add(&launcher->loop, &upgrade->probe, pid_fd, EPOLLIN);
    if (r < 0)
        fd_closep(&pid_fd);
    return r;
}

static void next_probe(struct launcher *launcher, int which)
{
    char why[128];
    int r = start_probe(launcher, which);

    if (r == 0)
        return;
    str_format(why, sizeof(why), "the new program could not be tried: %s", strerror(-r));
    keep(launcher, why);
}

static void rest(struct launcher *launcher)
{
    launcher->upgrade.state = UPGRADE_RESTING;
    launcher->upgrade.at_ms = clock_now_ms() + REST_PATIENCE_MS;
    pool_drop(launcher);
}

static void on_probe_end(struct loop_source *source, uint32_t events)
{
    struct launcher *launcher = CONTAINER_OF(source, struct launcher, upgrade.probe);
    struct upgrade *upgrade = &launcher->upgrade;
    char said[sizeof(LAUNCHER_PROBE_ANSWER) + 1] = "", why[192];
    siginfo_t info = {0};
    int probed = upgrade->probed;
    ssize_t length = read(upgrade->answer_fd, said, sizeof(said) - 1);
    bool can =
        length == sizeof(LAUNCHER_PROBE_ANSWER) - 1 && str_equal(said, LAUNCHER_PROBE_ANSWER);

    (void)events;
    waitid(P_PID, (id_t)upgrade->probe_pid, &info, WEXITED | WNOWAIT | WNOHANG);
    end_probe(launcher);
    if (!can || info.si_code != CLD_EXITED || info.si_status != 0) {
        str_format(why, sizeof(why),
                   "the new %s cannot take over (%s %d%s); the daemon's log may say why",
                   program_names[probed], info.si_code == CLD_EXITED ? "status" : "signal",
                   info.si_status, can || info.si_status ? "" : ", without an error message");
        keep(launcher, why);
    } else if (probed == UPGRADE_SELF) {
        next_probe(launcher, UPGRADE_ENGINE);
    } else {
        rest(launcher);
    }
}

static bool is_sealed(int fd)
{
    static const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    int has = fcntl(fd, F_GET_SEALS);

    return has >= 0 && (has & seals) == seals;
}

void upgrade_asked(struct launcher *launcher, const int *fds, size_t count)
{
    struct upgrade *upgrade = &launcher->upgrade;
    const char *why = NULL;

    if (count != _UPGRADE_PROGRAM_MAX || !is_sealed(fds[0]) || !is_sealed(fds[1]))
        why = "the descriptors received are not two sealed programs";
    else if (upgrade->state != UPGRADE_NONE || launcher->takeover.state != TAKEOVER_NONE)
        why = "another upgrade is under way";
    else if (launcher->plan->has_no_namespaces) /* it has no right left to begin anew with */
        why =
            "it has no namespaces of its own, and changes its program only by a new start ('bailey "
            "daemon stop' ends it, and its session)";
    else if (launcher->is_stopping || launcher->is_over || !launcher->was_ready)
        why = "the daemon is starting or stopping";
    if (why) {
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
        launcher_say(launcher, LAUNCHER_SAYS_KEPT, why);
        return;
    }
    for (int i = 0; i < _UPGRADE_PROGRAM_MAX; i++)
        upgrade->program_fd[i] = fds[i];
    upgrade->state = UPGRADE_TRYING;
    next_probe(launcher, UPGRADE_SELF);
}

/* ---- rested ---- */

/* Nothing is in progress: no boxes, kernels or layers being made, no prewarmed boxes ending. */
static bool has_rest(const struct launcher *launcher)
{
    return !launcher->layer_commits && !launcher->bringups && !launcher->asked_kernels &&
           !boxes_has_prewarmed(launcher);
}

static void go(struct launcher *launcher)
{
    char why[128];
    int r;

    log_info("a new program takes over");
    broker_kill(launcher);
    zygotes_leave(launcher);
    cgroup_reaper_end(launcher);
    r = upgrade_exec(launcher, launcher->upgrade.program_fd, false, "");
    str_format(why, sizeof(why), "executing the new program: %s", strerror(-r));
    keep(launcher, why);
    broker_start(launcher);
    zygotes_start(launcher);
}

/* ---- holding ---- */

void upgrade_served(struct launcher *launcher)
{
    if (launcher->upgrade.state != UPGRADE_HOLDING)
        return;
    leave(launcher);
    launcher_say(launcher, LAUNCHER_SAYS_UPGRADED, BAILEY_VERSION);
    log_info("bailey %s has taken over", BAILEY_VERSION);
}

void upgrade_failed(struct launcher *launcher, const char *why)
{
    int r;

    if (launcher->upgrade.state != UPGRADE_HOLDING)
        return;
    log_warning("%s, going back to the program of before", why);
    broker_kill(launcher);
    zygotes_leave(launcher);
    cgroup_reaper_end(launcher);
    r = upgrade_exec(launcher, launcher->upgrade.program_fd, true, why);
    log_error("going back: %s, continuing with the new program", strerror(-r));
    leave(launcher);
    launcher_say(launcher, LAUNCHER_SAYS_KEPT,
                 "the new broker does not serve, and the old program "
                 "cannot be executed; the daemon's log says why");
}

/* ---- turns ---- */

static void too_late(struct launcher *launcher)
{
    switch (launcher->upgrade.state) {
    case UPGRADE_TRYING:
        keep(launcher, "the new program did not answer in time");
        return;
    case UPGRADE_RESTING:
        keep(launcher, launcher->layer_commits
                           ? "a layer is being sealed; try again later"
                           : "boxes did not become idle in time; try again later");
        return;
    case UPGRADE_HOLDING:
        launcher->upgrade.at_ms = 0;
        broker_end(launcher); /* which fails the upgrade, from the loop */
        return;
    default:
        return;
    }
}

void upgrade_turn(struct launcher *launcher, uint64_t now_ms)
{
    struct upgrade *upgrade = &launcher->upgrade;

    if (upgrade->state == UPGRADE_NONE || launcher->is_over)
        return;
    if (launcher->is_stopping && upgrade->state != UPGRADE_HOLDING)
        keep(launcher, "the daemon is stopping");
    else if (upgrade->state == UPGRADE_RESTING && has_rest(launcher))
        go(launcher);
    else if (upgrade->state == UPGRADE_RESTING && now_ms < upgrade->at_ms)
        broker_listen(launcher); /* or not, once the last layer is committed */
    else if (upgrade->at_ms && now_ms >= upgrade->at_ms)
        too_late(launcher);
}
