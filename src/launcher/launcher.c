/*
 * launcher.c - the launcher inside its namespaces: PID 1, one thread, one loop; see
 * supervisor/supervisor.h.
 *
 * Its events are messages of the broker (protocol.h, hostile) and of the supervisor (trusted), ends
 * of its children, and its timer. It never blocks. Boxes survive the broker; if the launcher ends,
 * the kernel ends all boxes.
 */
#include "launcher/launcher_private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/hand.h"
#include "launcher/handover.h"
#include "sys/packet.h"
#include "sys/slice.h"

void launcher_say(struct launcher *launcher, char what, const char *text)
{
    char message[ERROR_TEXT_MAX + 1] = {what};

    (void)launcher;
    str_copy(message + 1, sizeof(message) - 1, text);
    send(LAUNCHER_SUPERVISOR_FD, message, 1 + strlen(message + 1), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Ends everything now; the loop stops with this turn. */
void launcher_finish(struct launcher *launcher, int status)
{
    if (launcher->is_over)
        return;
    launcher->is_over = true;
    launcher->status = status;
    launcher->loop.stop = true;
    broker_kill(launcher);
    zygotes_end(launcher);
    boxes_end_all(launcher);
    pool_end(launcher);
    share_end(launcher);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return !a ? b : !b || a < b ? a : b;
}

/* One timer for all deadlines; 0 means none. */
static void set_timer(struct launcher *launcher, uint64_t now)
{
    uint64_t next = sooner(launcher->restart_at_ms, launcher->stop_at_ms);
    struct itimerspec when = {0};

    next = sooner(next, bringups_deadline_ms(launcher));
    if (launcher->dead_groups && launcher->reap_groups_at_ms > now)
        next = sooner(next, launcher->reap_groups_at_ms);
    next = sooner(next, launcher->pool.at_ms);
    if (launcher->pool.is_due && launcher->pool.hold_ms > now)
        next = sooner(next, launcher->pool.hold_ms);
    next = sooner(next, zygotes_deadline(launcher));
    next = sooner(next, launcher->shares.at_ms);
    next = sooner(next, launcher->upgrade.at_ms);
    if (next == launcher->timer_ms)
        return;
    launcher->timer_ms = next;
    when.it_value.tv_sec = (time_t)(next / 1000);
    when.it_value.tv_nsec = (long)(next % 1000) * 1000000;
    timerfd_settime(launcher->timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_timer(struct loop_source *source, uint32_t events)
{
    struct launcher *launcher = CONTAINER_OF(source, struct launcher, timer);
    uint64_t count, now = clock_now_ms();

    (void)events;
    if (read(source->fd, &count, sizeof(count)) < 0)
        return;
    if (launcher->stop_at_ms && now >= launcher->stop_at_ms) {
        log_warning("the broker did not stop in time, ending everything without it");
        launcher_finish(launcher, 0);
        return;
    }
    launcher->timer_ms = 0;
    broker_tick(launcher, now);
    bringups_tick(launcher, now);
    zygotes_tick(launcher, now);
    if (launcher->shares.at_ms && now >= launcher->shares.at_ms)
        share_tick(launcher, now);
    if (launcher->pool.at_ms && now >= launcher->pool.at_ms) {
        launcher->pool.at_ms = 0;
        pool_wake(launcher);
    }
}

bool launcher_is_quiet(const struct launcher *launcher)
{
    struct pollfd loop = {.fd = launcher->loop.fd, .events = POLLIN};

    return poll(&loop, 1, 0) == 0;
}

/*
 * Work that no descriptor announces. First what the broker waits for, one item in each turn, so
 * that finished boxes are reported in between; the rest only when no message waits.
 */
static void before_wait(void *ctx)
{
    struct launcher *launcher = ctx;
    uint64_t now;

    if (bringups_can_begin(launcher))
        bringups_begin(launcher);
    now = clock_now_ms();
    upgrade_turn(launcher, now);
    if (launcher->dead_group_count > LIMIT_DEAD_GROUPS)
        cgroup_reaper_tick(launcher, now);
    if (pool_is_due(launcher, now) && (!launcher->queue || pool_lacks_kept(launcher))) {
        if (launcher_is_quiet(launcher))
            pool_tick(launcher);
    } else if (cgroup_reaper_is_due(launcher, now) && launcher_is_quiet(launcher)) {
        cgroup_reaper_tick(launcher, now);
    }
    /* Work that is due and was not done in this turn waits behind other work, and the loop turns
     * again at once. It must not rely on being woken by that other work: it may be the timer,
     * which set_timer() resets. */
    launcher->loop.is_busy = bringups_can_begin(launcher) || cgroup_reaper_is_due(launcher, now) ||
                             (pool_is_due(launcher, now) && !launcher->queue);
    set_timer(launcher, now);
}

/*
 * Asked to stop: the broker gets a grace time to end its sessions; without a broker there is none.
 */
static void stop(struct launcher *launcher)
{
    struct launcher_message message = {.type = LAUNCHER_STOPPING,
                                       .number = launcher->plan->stop_grace_ms};

    if (launcher->is_stopping || launcher->is_over)
        return;
    launcher->is_stopping = true;
    if (launcher->broker_pid <= 0 || !launcher->was_ready) {
        launcher_finish(launcher, launcher->was_ready ? 0 : 1);
        return;
    }
    /* The broker kills programs after the grace time, and then records how everything ended. */
    launcher->stop_at_ms = clock_now_ms() + launcher->plan->stop_grace_ms + STOP_PATIENCE_MS;
    broker_send(launcher, &message, -1);
}

static void on_supervisor(struct loop_source *source, uint32_t events)
{
    struct launcher *launcher = CONTAINER_OF(source, struct launcher, supervisor);
    char what;
    ssize_t length;
    int fds[PACKET_FDS_MAX];
    size_t count = ARRAY_SIZE(fds);

    (void)events;
    length = packet_receive(source->fd, &what, 1, fds, &count, MSG_DONTWAIT);
    if (length == 1 && what == LAUNCHER_SAYS_TAKEOVER) {
        takeover_asked(launcher, fds, count);
        return;
    }
    if (length == 1 && what == LAUNCHER_SAYS_UPGRADE) {
        upgrade_asked(launcher, fds, count);
        return;
    }
    for (size_t i = 0; length > 0 && i < count; i++)
        close(fds[i]);
    if (length == 1 && what == LAUNCHER_SAYS_STOP)
        stop(launcher);
    else if (length == 1 && what == LAUNCHER_SAYS_PING)
        launcher_say(launcher, LAUNCHER_SAYS_PING, "");
    else if (length == 0 || (length < 0 && length != -EAGAIN))
        launcher_finish(launcher, 1); /* the supervisor is gone, so the launcher ends */
}

static void on_signal(struct loop_source *source, uint32_t events)
{
    struct launcher *launcher = CONTAINER_OF(source, struct launcher, signals);
    struct signalfd_siginfo info;

    (void)events;
    while (read(source->fd, &info, sizeof(info)) == sizeof(info))
        stop(launcher);
}

/* ---- start ---- */

static int watch(struct launcher *launcher, struct loop_source *source, int fd,
                 void (*ready)(struct loop_source *, uint32_t))
{
    int r;

    if (fd < 0)
        return -errno;
    source->ready = ready;
    r = loop_add(&launcher->loop, source, fd, EPOLLIN);
    return r;
}

static int open_loop(struct launcher *launcher)
{
    sigset_t set;
    int r = loop_init(&launcher->loop);

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (r == 0 && sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        r = -errno;
    signal(SIGPIPE, SIG_IGN);
    if (r == 0)
        r = watch(launcher, &launcher->supervisor, LAUNCHER_SUPERVISOR_FD, on_supervisor);
    if (r == 0)
        r = watch(launcher, &launcher->signals, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
                  on_signal);
    if (r == 0)
        r = watch(launcher, &launcher->timer,
                  timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), on_timer);
    return r;
}

static int open_folders(struct launcher *launcher, struct error *err)
{
    for (size_t i = 0; i < LAUNCHER_FOLDER_COUNT; i++) {
        char path[PATH_MAX + 16];

        str_format(path, sizeof(path), "%s/%s", launcher->plan->state, state_folders[i]);
        launcher->folder_fd[i] = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (launcher->folder_fd[i] < 0)
            return error_errno(err, "opening the folder '%s' inside", state_folders[i]);
    }
    return 0;
}

/*
 * The plan is sealed; it may be shorter than the struct of this version: missing fields are zero.
 */
static const struct launcher_plan *read_plan(void)
{
    static const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    static struct launcher_plan plan;
    int has = fcntl(LAUNCHER_PLAN_FD, F_GET_SEALS);
    struct stat status;

    if (has < 0 || (has & seals) != seals || fstat(LAUNCHER_PLAN_FD, &status) < 0 ||
        status.st_size < (off_t)sizeof(plan.magic) || status.st_size > (off_t)sizeof(plan) ||
        pread(LAUNCHER_PLAN_FD, &plan, (size_t)status.st_size, 0) != status.st_size)
        return NULL;
    if (plan.has_provider_host && plan.host_count == 0)
        plan.host_count = 1; /* from a program that supported one host only, without a name */
    return memcmp(plan.magic, LAUNCHER_PLAN_MAGIC, sizeof(LAUNCHER_PLAN_MAGIC)) == 0 ? &plan : NULL;
}

void launcher_close_on_exec(const struct launcher_plan *plan, bool closes)
{
    int flag = closes ? FD_CLOEXEC : 0;

    for (int fd = LAUNCHER_PLAN_FD; fd <= LAUNCHER_HANDOVER_FD; fd++)
        fcntl(fd, F_SETFD, flag);
    /* Without a provider host the number is /dev/null, or belongs to a program from before
     * provider hosts. */
    for (int i = 0; i < (closes ? LAUNCHER_HOSTS_MAX : (int)plan->host_count); i++)
        fcntl(LAUNCHER_PROVIDER_HOST_FD + i, F_SETFD, flag);
    for (int i = 0; i < (int)plan->dataset_count; i++)
        fcntl(BROKER_DATASET_FD + i, F_SETFD, flag);
    for (int i = 0; i < (int)plan->tcp_count; i++)
        fcntl(BROKER_TCP_FD + i, F_SETFD, flag);
}

/*
 * Without namespaces it has the caller's id up to here, because its folders can be out of reach for
 * every other one. It makes no boxes, so it needs no right.
 */
static int become_nobody(const struct launcher_plan *plan, struct error *err)
{
    int r;

    if (!plan->has_no_namespaces)
        return 0;
    r = hand_off_privileges(plan->own_id ? (int64_t)plan->own_id : -1, plan->own_id != 0);
    /* A new id clears both. */
    if (r == 0 && (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0))
        r = -errno;
    return r < 0 ? error_set(err, r, ERROR_ENGINE, "dropping privileges: %s", strerror(-r)) : 0;
}

static int launcher_start(struct launcher *launcher, struct error *err)
{
    int r;

    launcher->notes_end = &launcher->notes;
    launcher->queue_end = &launcher->queue;
    launcher->dead_groups_end = &launcher->dead_groups;
    launcher->control.fd = launcher->broker.fd = -1;
    launcher->supervisor.fd = launcher->signals.fd = launcher->timer.fd = -1;
    launcher_close_on_exec(launcher->plan, true);
    upgrade_init(launcher);
    takeover_init(launcher);
    for (uint32_t i = 0; i < launcher->plan->bind_count; i++)
        launcher->binds[i] = (struct launch_bind){.host = launcher->plan->binds[i].host,
                                                  .box = launcher->plan->binds[i].box};
    /* If there is only one id, other processes have the launcher's id too. The maps of its
     * children can still be written: since the exec this memory belongs to its own user
     * namespace. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_errno(err, "starting the launcher");
    prctl(PR_SET_NAME, "launcher");
    slice_be_short();
    r = open_loop(launcher);
    if (r == 0)
        r = egress_open(launcher);
    if (r == 0)
        r = provider_hosts_open(launcher);
    if (r == 0)
        r = installer_open(launcher);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "starting the launcher: %s", strerror(-r));
    r = open_folders(launcher, err);
    if (r == 0 && !upgrade_is_taken()) /* else an installer may still be running */
        layer_commit_sweep(launcher);
    return r < 0 ? r : become_nobody(launcher->plan, err);
}

_Noreturn void launcher_inside(void)
{
    static struct launcher launcher;
    struct error err = {0};
    int r;

    launcher.plan = read_plan(); /* only if the supervisor started it */
    if (!launcher.plan || (getpid() != 1 && !launcher.plan->has_no_namespaces)) {
        log_error("this argument is only for the daemon itself, not a command");
        _exit(125);
    }
    log_set_level((enum log_level)launcher.plan->log_level);
    log_set_json(launcher.plan->log_is_json);
    str_copy(launcher.layer, sizeof(launcher.layer), launcher.plan->layer);
    r = launcher_start(&launcher, &err);
    if (r == 0 && upgrade_is_taken())
        r = upgrade_take(&launcher, &err);
    if (r < 0) {
        launcher_say(&launcher, LAUNCHER_SAYS_FAILED, err.text);
        _exit(1);
    }
    broker_start(&launcher);
    pool_start(&launcher);
    if (loop_run(&launcher.loop, before_wait, &launcher) < 0)
        launcher_finish(&launcher, 1);
    _exit(launcher.status);
}

static int pass_launcher(void *ctx, const struct handover_launcher *launcher)
{
    (void)ctx;
    (void)launcher;
    return 0;
}

static int pass_box(void *ctx, const struct handover_box *box)
{
    (void)ctx;
    (void)box;
    return 0;
}

static int pass_kernel(void *ctx, const struct handover_kernel *kernel)
{
    (void)ctx;
    (void)kernel;
    return 0;
}

/* Reads everything that this program would take over, without acting on it. */
int launcher_probe(void)
{
    static const struct handover_reader reader = {pass_launcher, pass_box, pass_kernel, NULL};
    CLEANUP(buf_free) struct buf text = BUF_INIT(HANDOVER_BYTES_MAX);
    struct error err = {0};
    int r = read_plan() ? buf_read_fd(&text, LAUNCHER_HANDOVER_FD) : -EBADMSG;

    if (r < 0)
        error_set(&err, r, ERROR_ENGINE, "the plan of the daemon's start is of another version");
    else
        r = handover_read(buf_text(&text), text.length, &reader, &err);
    if (r < 0) {
        log_error("taking over: %s", err.text);
        return 125;
    }
    r = fd_write_all(STDOUT_FILENO, LAUNCHER_PROBE_ANSWER, strlen(LAUNCHER_PROBE_ANSWER));
    return r < 0;
}
