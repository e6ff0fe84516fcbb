/* serve.c - the daemon as its starter sees it: open, clone, then be the stub; see serve.h. */
#include "launcher/serve.h"

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
#include "launcher/engine.h"

/* Must: come before the clone: no signal is lost, and the launcher has the same mask. */
static int open_signals(struct serve *serve, struct error *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return error_errno(err, "blocking signals");
    serve->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return serve->signal_fd < 0 ? error_errno(err, "opening a signalfd") : 0;
}

/*
 * Nothing is left but the wait. The id is the launcher's own: the kernel sends a death signal only
 * where the dying parent might have sent it itself, and ours has to reach the launcher whatever
 * that is doing. Neither can do anything to the other with it: the launcher does not see our pid
 * namespace, we have no capability in its user namespace.
 */
static int drop_everything(struct serve *serve, struct error *err)
{
    int r = hand_off_privileges(serve->is_range ? (int64_t)serve->first : -1, serve->is_range);

    if (r == 0 && prctl(PR_SET_DUMPABLE, 0) < 0)
        r = -errno;
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "dropping privileges: %s", strerror(-r));
    fd_closep(&serve->listen_fd);
    fd_closep(&serve->settings_fd);
    fd_closep(&serve->self_fd);
    fd_closep(&serve->engine_fd);
    fd_closep(&serve->leaf_fd);
    fd_closep(&serve->root_tree);
    fd_closep(&serve->egress_fd);
    fd_closep(&serve->wall_fd);
    fd_closep(&serve->installer_fd);
    for (size_t i = 0; i < ENGINE_FOLDER_COUNT; i++) {
        fd_closep(&serve->folder_fd[i]);
        fd_closep(&serve->folder_tree[i]);
    }
    for (size_t i = 0; i < ENGINE_BINDS_MAX; i++)
        fd_closep(&serve->bind_tree[i]);
    for (size_t i = 0; i < ENGINE_WHEELS_MAX; i++)
        fd_closep(&serve->wheel_tree[i]);
    for (size_t i = 0; i < ENGINE_DATASETS_MAX; i++)
        fd_closep(&serve->dataset_fd[i]);
    for (size_t i = 0; i < SERVE_LISTEN_MAX; i++)
        fd_closep(&serve->tcp_fd[i]);
    return 0;
}

static void tell_starter(const struct serve *serve, const char *text)
{
    if (serve->spec->ready_fd < 0)
        return;
    (void)fd_write_all(serve->spec->ready_fd, text, strlen(text)); /* it may have stopped waiting */
    close(serve->spec->ready_fd);
}

struct stub {
    struct serve *serve;
    bool was_ready, has_failed;
};

static void tell_upgrade(struct stub *stub, const char *text, size_t length)
{
    char status[128];

    upgrade_door_answer(&stub->serve->upgrade, text, length);
    str_format(status, sizeof(status), "STATUS=serving, version %s", text + 1);
    if (text[0] == ENGINE_SAYS_UPGRADED)
        notify_say(&stub->serve->notify, status);
}

/* 1: something came, 0: nothing more for now, or the end. */
static int hear_launcher(struct stub *stub, struct error *err)
{
    char text[ERROR_TEXT_MAX + 1];
    ssize_t length = recv(stub->serve->stub_fd, text, sizeof(text) - 1, MSG_DONTWAIT);

    if (length <= 0)
        return 0;
    text[length] = 0;
    if (text[0] == ENGINE_SAYS_READY && !stub->was_ready) {
        stub->was_ready = true;
        tell_starter(stub->serve, "ready\n");
        notify_say(&stub->serve->notify, "READY=1\nSTATUS=serving, version " BAILEY_VERSION);
    } else if (text[0] == ENGINE_SAYS_PING) {
        notify_say(&stub->serve->notify, "WATCHDOG=1");
    } else if (text[0] == ENGINE_SAYS_UPGRADED || text[0] == ENGINE_SAYS_KEPT) {
        tell_upgrade(stub, text, (size_t)length);
    } else if (text[0] == ENGINE_SAYS_REFUSED) {
        stub->has_failed = true;
        serve_refused(-EPERM, text + 1, err);
    } else if (text[0] == ENGINE_SAYS_FAILED) {
        stub->has_failed = true;
        error_set(err, -EIO, ERROR_ENGINE, "%s", text + 1);
    }
    return 1;
}

static void forward_signals(const struct serve *serve)
{
    static const char stop = ENGINE_SAYS_STOP;
    struct signalfd_siginfo info;

    while (read(serve->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        notify_say(&serve->notify, "STOPPING=1");
        send(serve->stub_fd, &stop, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/*
 * The manager hears that we live only when the launcher has said so: its loop turns. A broker that
 * is gone is the launcher's business, and no reason to end every session. Returns how long to wait.
 */
static int feed_watchdog(const struct serve *serve, uint64_t *at_ms)
{
    static const char ping = ENGINE_SAYS_PING;
    uint64_t now = clock_now_ms();

    if (!serve->spec->watchdog_ms || serve->notify.length == 0)
        return -1;
    if (now >= *at_ms) {
        send(serve->stub_fd, &ping, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        *at_ms = now + serve->spec->watchdog_ms;
    }
    return (int)MIN(*at_ms - now, (uint64_t)INT_MAX);
}

/* Until the launcher is gone. Its words are read to the last one. */
static int wait_for_launcher(struct stub *stub, struct error *err)
{
    struct serve *serve = stub->serve;
    struct pollfd fds[] = {{.fd = serve->signal_fd, .events = POLLIN},
                           {.fd = serve->pid_fd, .events = POLLIN},
                           {.fd = serve->stub_fd, .events = POLLIN},
                           {.fd = serve->upgrade.listen_fd, .events = POLLIN},
                           {.events = POLLIN}};
    uint64_t watchdog_ms = 0;
    int status = 0;

    for (;;) {
        fds[4].fd = serve->upgrade.client_fd;
        if (poll(fds, ARRAY_SIZE(fds), feed_watchdog(serve, &watchdog_ms)) < 0 && errno != EINTR)
            return error_errno(err, "waiting for the launcher");
        forward_signals(serve);
        while (hear_launcher(stub, err) > 0)
            ;
        upgrade_door_turn(&serve->upgrade, serve->stub_fd);
        if (fds[2].revents & (POLLHUP | POLLERR))
            fds[2].fd = -1; /* its end comes next */
        if (fds[1].revents)
            break;
    }
    while (waitpid(serve->pid, &status, __WALL) < 0 && errno == EINTR)
        ;
    serve->pid = 0;
    if (stub->has_failed)
        return err ? err->num : -EIO;
    if (WIFSIGNALED(status))
        return error_set(err, -EOWNERDEAD, ERROR_ENGINE,
                         "the launcher was ended by signal %d, and every session with it",
                         WTERMSIG(status));
    if (WEXITSTATUS(status) != 0 || !stub->was_ready)
        return error_set(err, -EIO, ERROR_ENGINE, "the launcher ended with status %d",
                         WEXITSTATUS(status));
    return 0;
}

int serve_run(const struct serve_spec *spec, struct error *err)
{
    CLEANUP(freep) struct engine_plan *plan = calloc(1, sizeof(*plan));
    struct error own = {0};
    struct serve serve;
    struct stub stub = {.serve = &serve};
    int r;

    if (!plan)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    serve_init(&serve, spec, plan);
    r = open_signals(&serve, &own);
    if (r == 0)
        r = serve_open(&serve, &own);
    if (r == 0)
        r = serve_egress_start(&serve, &own);
    if (r == 0)
        r = serve_wall_start(&serve, &own);
    if (r == 0)
        r = serve_clone(&serve, &own);
    if (r == 0)
        r = drop_everything(&serve, &own);
    if (r == 0)
        r = wait_for_launcher(&stub, &own);
    if (serve.listen_fd >= 0 || serve.pid_fd >= 0) {
        if (spec->socket_fd == 0)
            unlink(spec->socket); /* fails after a root start: the next one takes it away */
        upgrade_door_remove(spec->socket);
    }
    cgroup_remove_engine(&plan->site); /* likewise */
    if (!stub.was_ready && r < 0)
        tell_starter(&serve, own.text);
    serve_egress_end(&serve);
    serve_wall_end(&serve);
    serve_close(&serve);
    if (err)
        *err = own;
    return r;
}
