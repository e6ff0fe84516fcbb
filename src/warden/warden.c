/* warden.c - PID 1's life: start, signals, reaping, end; see warden.h. */
#include "warden/warden.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "sys/packet.h"
#include "sys/slice.h"
#include "warden/warden_private.h"

/*
 * The end of PID 1 is the end of the box. Without a pid namespace all processes have to be found
 * and reaped: when we have no children left we have no descendants either, since orphans become our
 * children.
 */
void warden_end(struct warden *warden)
{
    struct timespec pause = {.tv_nsec = 500000};

    proc_tree_kill(warden->sandbox);
    while (!warden->sandbox->plan->has_namespaces) {
        pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);

        if (pid < 0 && errno == ECHILD)
            break;
        if (pid == 0) {
            nanosleep(&pause, NULL);
            proc_tree_kill(warden->sandbox);
        }
    }
    _exit(0);
}

/* Orphans become ours; only commands that we started are reported. */
void warden_reap(struct warden *warden)
{
    struct rusage usage;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0 ||
           (pid < 0 && errno == EINTR)) {
        if (pid <= 0)
            continue;
        zygote_exited(warden, pid);
        command_exited(warden, pid, status, &usage);
    }
    warden->is_alone = pid < 0 && errno == ECHILD;
}

static void signals_ready(struct loop_source *source, uint32_t events)
{
    struct warden *warden = (struct warden *)((char *)source - offsetof(struct warden, signals));
    struct signalfd_siginfo info[8];

    (void)events;
    while (read(source->fd, info, sizeof(info)) > 0)
        ;
    warden_reap(warden);
}

static int signals_open(struct warden *warden)
{
    sigset_t mask;
    int fd;

    sigfillset(&mask);
    /* A signal that is not blocked does not come by the signalfd: the end of a child is missed. */
    if (sigprocmask(SIG_SETMASK, &mask, NULL) < 0)
        return -errno;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    warden->signals.ready = signals_ready;
    warden_reap(warden); /* the network's helper has ended before we listened */
    return loop_add(&warden->loop, &warden->signals, fd, EPOLLIN);
}

/*
 * Nothing was sent before, so there is room. The descriptors for the launcher go with this frame,
 * if the channel can carry them.
 */
static int send_with(struct warden *warden, const struct message_ready *ready, const int *fds,
                     size_t fd_count)
{
    uint8_t data[FRAME_HEADER + 512];
    ssize_t length = message_ready_pack(ready, data + FRAME_HEADER, sizeof(data) - FRAME_HEADER);

    if (length < 0)
        return (int)length;
    if (warden->stream) {
        channel_control(warden, FRAME_READY, 0, data + FRAME_HEADER, (size_t)length);
        return fd_count == 0 ? 0 : -EINVAL;
    }
    frame_header(data, FRAME_READY, 0, (size_t)length);
    return packet_send(warden->channel.fd, data, FRAME_HEADER + (size_t)length, fds, fd_count, 0);
}

static int send_ready(struct warden *warden)
{
    struct sandbox *sandbox = warden->sandbox;
    struct message_ready ready = {
        .version = WIRE_VERSION,
        .layers = sandbox->layers,
        .missing = sandbox->missing,
        .stage_count = (uint8_t)MIN(sandbox->stage_count, (unsigned)MESSAGE_STAGES_MAX),
    };
    int fds[READY_FDS_MAX];
    size_t fd_count = 0;
    int r;

    memcpy(ready.stage_ns, sandbox->stage_ns, sizeof(uint32_t) * ready.stage_count);
    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++)
        ready.lack_errno[i] = sandbox->lack_errno[i];
    if (sandbox->plan->hands_ruleset && sandbox->ruleset_fd >= 0) {
        ready.descriptors |= READY_HAS_RULESET;
        fds[fd_count++] = sandbox->ruleset_fd;
    }
    if (sandbox->egress_fd >= 0) {
        ready.descriptors |= READY_HAS_EGRESS;
        fds[fd_count++] = sandbox->egress_fd;
    }
    r = send_with(warden, &ready, fds, fd_count);
    fd_closep(&sandbox->egress_fd); /* it is the proxy's now */
    sandbox->egress_fd = -1;
    return r;
}

static void before_wait(void *ctx)
{
    channel_flush(ctx);
}

/* out_fd -1: in_fd is a socket, both ways. */
static _Noreturn void run(struct sandbox *sandbox, int in_fd, int out_fd)
{
    /* Small, and on the stack of a process that never returns from here. */
    struct warden warden = {
        .sandbox = sandbox,
        .control = BUF_INIT(4 * MIB),
        .args = BUF_INIT(LIMIT_CELL_TEXT),
        .given = {-1, -1, -1},
        .channel.fd = -1,
        .signals.fd = -1,
        .timer.fd = -1,
    };
    int r = loop_init(&warden.loop);

    slice_be_short(); /* what it starts has the usual one */
    if (r == 0)
        r = signals_open(&warden);
    if (r == 0)
        r = out_fd < 0 ? channel_open(&warden, in_fd) : stream_open(&warden, in_fd, out_fd);
    if (r < 0 || watch_start(&warden) < 0 || send_ready(&warden) < 0)
        warden_end(&warden);
    loop_run(&warden.loop, before_wait, &warden);
    warden_end(&warden);
}

void warden_run(struct sandbox *sandbox, int channel_fd)
{
    run(sandbox, channel_fd, -1);
}

void warden_run_stream(struct sandbox *sandbox, int in_fd, int out_fd)
{
    run(sandbox, in_fd, out_fd);
}
