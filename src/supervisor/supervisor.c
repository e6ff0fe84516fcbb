/*
 * supervisor.c - starts the daemon: opens resources, clones the launcher, then supervises it; see
 * supervisor.h.
 */
#include "supervisor/supervisor.h"
#include "launcher/launcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "supervisor/supervisor_private.h"

/* Must come before the clone: no signal is lost, and the launcher inherits the mask. */
static int open_signals(struct supervisor *supervisor, struct error *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return error_errno(err, "blocking signals");
    supervisor->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return supervisor->signal_fd < 0 ? error_errno(err, "opening a signalfd") : 0;
}

/*
 * Drops all rights. The id becomes the launcher's own: the kernel sends a death signal only if the
 * dying parent could have sent it itself, and it must reach the launcher in every state. The shared
 * id gives neither process power over the other: the launcher does not see the supervisor's pid
 * namespace, and the supervisor has no capability in the launcher's user namespace.
 */
static int drop_everything(struct supervisor *supervisor, struct error *err)
{
    int64_t id = supervisor->plan->own_id ? supervisor->plan->own_id : supervisor->first;
    int r = hand_off_privileges(supervisor->is_range ? id : -1, supervisor->is_range);

    if (r == 0 && prctl(PR_SET_DUMPABLE, 0) < 0)
        r = -errno;
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "dropping privileges: %s", strerror(-r));
    fd_closep(&supervisor->listen_fd);
    fd_closep(&supervisor->settings_fd);
    fd_closep(&supervisor->self_fd);
    fd_closep(&supervisor->engine_fd);
    fd_closep(&supervisor->leaf_fd);
    fd_closep(&supervisor->root_tree);
    fd_closep(&supervisor->egress_fd);
    for (size_t i = 0; i < LAUNCHER_HOSTS_MAX; i++)
        fd_closep(&supervisor->host_fds[i]);
    fd_closep(&supervisor->installer_fd);
    for (size_t i = 0; i < LAUNCHER_FOLDER_COUNT; i++) {
        fd_closep(&supervisor->folder_fd[i]);
        fd_closep(&supervisor->folder_tree[i]);
    }
    for (size_t i = 0; i < LAUNCHER_BINDS_MAX; i++)
        fd_closep(&supervisor->bind_tree[i]);
    for (size_t i = 0; i < LAUNCHER_WHEELS_MAX; i++)
        fd_closep(&supervisor->wheel_tree[i]);
    for (size_t i = 0; i < LAUNCHER_DATASETS_MAX; i++)
        fd_closep(&supervisor->dataset_fd[i]);
    for (size_t i = 0; i < BROKER_TCP_MAX; i++)
        fd_closep(&supervisor->tcp_fd[i]);
    return 0;
}

static void tell_starter(const struct supervisor *supervisor, const char *text)
{
    if (supervisor->spec->ready_fd < 0)
        return;
    (void)fd_write_all(supervisor->spec->ready_fd, text,
                       strlen(text)); /* the reader may have stopped waiting */
    close(supervisor->spec->ready_fd);
}

struct launcher_watch {
    struct supervisor *supervisor;
    bool was_ready, has_failed;
};

static void tell_upgrade(struct launcher_watch *watch, const char *text, size_t length)
{
    char status[128];

    upgrade_door_answer(&watch->supervisor->upgrade, text, length);
    str_format(status, sizeof(status), "STATUS=serving, version %s", text + 1);
    if (text[0] == LAUNCHER_SAYS_UPGRADED)
        notify_say(&watch->supervisor->notify, status);
}

/* 1: a message arrived, 0: none for now, or the end. */
static int hear_launcher(struct launcher_watch *watch, struct error *err)
{
    char text[ERROR_TEXT_MAX + 1];
    ssize_t length = recv(watch->supervisor->supervisor_fd, text, sizeof(text) - 1, MSG_DONTWAIT);

    if (length <= 0)
        return 0;
    text[length] = 0;
    if (text[0] == LAUNCHER_SAYS_READY && !watch->was_ready) {
        watch->was_ready = true;
        tell_starter(watch->supervisor, "ready\n");
        notify_say(&watch->supervisor->notify, "READY=1\nSTATUS=serving, version " BAILEY_VERSION);
    } else if (text[0] == LAUNCHER_SAYS_PING) {
        notify_say(&watch->supervisor->notify, "WATCHDOG=1");
    } else if (text[0] == LAUNCHER_SAYS_UPGRADED || text[0] == LAUNCHER_SAYS_KEPT ||
               text[0] == LAUNCHER_SAYS_TAKEN) {
        tell_upgrade(watch, text, (size_t)length);
    } else if (text[0] == LAUNCHER_SAYS_REFUSED) {
        watch->has_failed = true;
        supervisor_refused(-EPERM, text + 1, err);
    } else if (text[0] == LAUNCHER_SAYS_FAILED) {
        watch->has_failed = true;
        error_set(err, -EIO, ERROR_ENGINE, "%s", text + 1);
    }
    return 1;
}

static void say_stop(const struct supervisor *supervisor)
{
    static const char stop = LAUNCHER_SAYS_STOP;

    notify_say(&supervisor->notify, "STOPPING=1");
    send(supervisor->supervisor_fd, &stop, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void forward_signals(const struct supervisor *supervisor)
{
    struct signalfd_siginfo info;

    while (read(supervisor->signal_fd, &info, sizeof(info)) == sizeof(info))
        say_stop(supervisor);
}

/*
 * The service manager is notified only after the launcher has answered: its loop works. A missing
 * broker is restarted by the launcher, and no reason to end every session. Returns how long to
 * wait.
 */
static int feed_watchdog(const struct supervisor *supervisor, uint64_t *at_ms)
{
    static const char ping = LAUNCHER_SAYS_PING;
    uint64_t now = clock_now_ms();

    if (!supervisor->spec->watchdog_ms || supervisor->notify.length == 0)
        return -1;
    if (now >= *at_ms) {
        send(supervisor->supervisor_fd, &ping, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        *at_ms = now + supervisor->spec->watchdog_ms;
    }
    return (int)MIN(*at_ms - now, (uint64_t)INT_MAX);
}

/* Until the launcher is gone. All its messages are read. */
static int wait_for_launcher(struct launcher_watch *watch, struct error *err)
{
    struct supervisor *supervisor = watch->supervisor;
    struct pollfd fds[] = {{.fd = supervisor->signal_fd, .events = POLLIN},
                           {.fd = supervisor->pid_fd, .events = POLLIN},
                           {.fd = supervisor->supervisor_fd, .events = POLLIN},
                           {.fd = supervisor->upgrade.listen_fd, .events = POLLIN},
                           {.events = POLLIN},
                           {.events = POLLIN}};
    bool has_terminal_stopped = false;
    uint64_t watchdog_ms = 0;
    int status = 0;

    for (;;) {
        fds[4].fd = supervisor->upgrade.client_fd;
        fds[5].fd = has_terminal_stopped ? -1 : supervisor->upgrade.terminal_fd;
        if (poll(fds, ARRAY_SIZE(fds), feed_watchdog(supervisor, &watchdog_ms)) < 0 &&
            errno != EINTR)
            return error_errno(err, "waiting for the launcher");
        forward_signals(supervisor);
        while (hear_launcher(watch, err) > 0)
            ;
        upgrade_door_turn(&supervisor->upgrade, supervisor->supervisor_fd);
        if (fds[5].fd >= 0 && fds[5].revents) { /* it was told to stop, or is gone */
            has_terminal_stopped = true;
            say_stop(supervisor);
        }
        if (fds[2].revents & (POLLHUP | POLLERR))
            fds[2].fd = -1; /* its end follows */
        if (fds[1].revents)
            break;
    }
    while (waitpid(supervisor->pid, &status, __WALL) < 0 && errno == EINTR)
        ;
    supervisor->pid = 0;
    if (watch->has_failed)
        return err ? err->num : -EIO;
    if (WIFSIGNALED(status))
        return error_set(err, -EOWNERDEAD, ERROR_ENGINE,
                         "the launcher was ended by signal %d, and every session with it",
                         WTERMSIG(status));
    if (WEXITSTATUS(status) != 0 || !watch->was_ready)
        return error_set(err, -EIO, ERROR_ENGINE, "the launcher ended with status %d",
                         WEXITSTATUS(status));
    return 0;
}

int supervisor_run(const struct supervisor_spec *spec, struct error *err)
{
    CLEANUP(freep) struct launcher_plan *plan = calloc(1, sizeof(*plan));
    struct error own = {0};
    struct supervisor supervisor;
    struct launcher_watch watch = {.supervisor = &supervisor};
    int r;

    if (!plan)
        return error_memory(err);
    supervisor_init(&supervisor, spec, plan);
    r = open_signals(&supervisor, &own);
    if (r == 0)
        r = supervisor_open(&supervisor, &own);
    if (r == 0)
        r = supervisor_egress_start(&supervisor, &own);
    if (r == 0)
        r = supervisor_hosts_start(&supervisor, &own);
    if (r == 0)
        r = supervisor_clone(&supervisor, &own);
    if (r == 0)
        r = drop_everything(&supervisor, &own);
    if (r == 0)
        r = wait_for_launcher(&watch, &own);
    if (supervisor.listen_fd >= 0 || supervisor.pid_fd >= 0) {
        if (spec->socket_fd == 0)
            unlink(spec->socket); /* fails after a start as root: the next start removes it */
        upgrade_door_remove(spec->socket);
    }
    cgroup_remove_engine(&plan->site); /* the same */
    if (!watch.was_ready && r < 0)
        tell_starter(&supervisor, own.text);
    supervisor_egress_end(&supervisor);
    supervisor_hosts_end(&supervisor);
    supervisor_close(&supervisor);
    if (err)
        *err = own;
    return r;
}
