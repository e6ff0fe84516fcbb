/*
 * engine.c - the launcher inside its namespaces: PID 1, one thread, one loop; see serve.h.
 *
 * It hears the broker (protocol.h, hostile), the stub (trusted), the ends of its children, and the
 * clock. Nothing here waits for anybody. Whatever happens to the broker, boxes stay;
 * whatever happens to the launcher, the kernel ends them all.
 */
#include "launcher/engine.h"

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
#include "launcher/handover.h"
#include "sys/packet.h"

void engine_say(struct engine *engine, char what, const char *text)
{
    char message[ERROR_TEXT_MAX + 1] = {what};

    (void)engine;
    str_copy(message + 1, sizeof(message) - 1, text);
    send(ENGINE_STUB_FD, message, 1 + strlen(message + 1), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Everything ends, now; the loop stops with this turn. */
void engine_finish(struct engine *engine, int status)
{
    if (engine->is_over)
        return;
    engine->is_over = true;
    engine->status = status;
    engine->loop.stop = true;
    broker_kill(engine);
    zygotes_end(engine);
    boxes_end_all(engine);
    pool_end(engine);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return !a ? b : !b || a < b ? a : b;
}

/* One timer for all deadlines; 0 in any means none. */
static void set_timer(struct engine *engine, uint64_t now)
{
    uint64_t next = sooner(engine->restart_at_ms, engine->stop_at_ms);
    struct itimerspec when = {0};

    next = sooner(next, makings_deadline_ms(engine));
    if (engine->graves && engine->graves_at_ms > now)
        next = sooner(next, engine->graves_at_ms);
    next = sooner(next, engine->pool.at_ms);
    if (engine->pool.is_due && engine->pool.hold_ms > now)
        next = sooner(next, engine->pool.hold_ms);
    next = sooner(next, zygotes_deadline(engine));
    next = sooner(next, engine->upgrade.at_ms);
    if (next == engine->timer_ms)
        return;
    engine->timer_ms = next;
    when.it_value.tv_sec = (time_t)(next / 1000);
    when.it_value.tv_nsec = (long)(next % 1000) * 1000000;
    timerfd_settime(engine->timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_timer(struct loop_source *source, uint32_t events)
{
    struct engine *engine = CONTAINER_OF(source, struct engine, timer);
    uint64_t count, now = clock_now_ms();

    (void)events;
    if (read(source->fd, &count, sizeof(count)) < 0)
        return;
    if (engine->stop_at_ms && now >= engine->stop_at_ms) {
        log_warning("the broker did not say goodbye in time, ending everything without it");
        engine_finish(engine, 0);
        return;
    }
    engine->timer_ms = 0;
    broker_tick(engine, now);
    makings_tick(engine, now);
    zygotes_tick(engine, now);
    if (engine->pool.at_ms && now >= engine->pool.at_ms) {
        engine->pool.at_ms = 0;
        pool_wake(engine);
    }
}

bool engine_is_quiet(const struct engine *engine)
{
    struct pollfd loop = {.fd = engine->loop.fd, .events = POLLIN};

    return poll(&loop, 1, 0) == 0;
}

/*
 * What no descriptor announces. First what the broker waits for, one in each turn, so that those
 * that stand are told meanwhile; the rest only when nobody has said anything that waits.
 */
static void before_wait(void *ctx)
{
    struct engine *engine = ctx;
    uint64_t now;

    if (makings_can_begin(engine))
        makings_begin(engine);
    now = clock_now_ms();
    upgrade_turn(engine, now);
    if (engine->grave_count > LIMIT_GRAVES)
        graves_tick(engine, now);
    if (pool_is_due(engine, now) && !engine->queue) {
        if (engine_is_quiet(engine))
            pool_tick(engine);
    } else if (graves_are_due(engine, now) && engine_is_quiet(engine)) {
        graves_tick(engine, now);
    }
    /*
     * What is due and was not done now has somebody before it, and comes again at once. Nobody may
     * rely on being woken by whoever that was: it may be the timer, which set_timer() takes back.
     */
    engine->loop.is_busy = makings_can_begin(engine) || graves_are_due(engine, now) ||
                           (pool_is_due(engine, now) && !engine->queue);
    set_timer(engine, now);
}

/* Asked to stop: the broker has a grace time for its goodbye; without a broker there is none. */
static void stop(struct engine *engine)
{
    struct launcher_message message = {.type = LAUNCHER_STOPPING,
                                       .number = engine->plan->stop_grace_ms};

    if (engine->is_stopping || engine->is_over)
        return;
    engine->is_stopping = true;
    if (engine->broker_pid <= 0 || !engine->was_ready) {
        engine_finish(engine, engine->was_ready ? 0 : 1);
        return;
    }
    /* The broker kills what has used up its grace, and then writes down how everything ended. */
    engine->stop_at_ms = clock_now_ms() + engine->plan->stop_grace_ms + STOP_PATIENCE_MS;
    broker_send(engine, &message, -1);
}

static void on_stub(struct loop_source *source, uint32_t events)
{
    struct engine *engine = CONTAINER_OF(source, struct engine, stub);
    char what;
    ssize_t length;
    int fds[_UPGRADE_PROGRAM_MAX];
    size_t count = ARRAY_SIZE(fds);

    (void)events;
    length = packet_receive(source->fd, &what, 1, fds, &count, MSG_DONTWAIT);
    if (length == 1 && what == ENGINE_SAYS_UPGRADE) {
        upgrade_asked(engine, fds, count);
        return;
    }
    for (size_t i = 0; length > 0 && i < count; i++)
        close(fds[i]);
    if (length == 1 && what == ENGINE_SAYS_STOP)
        stop(engine);
    else if (length == 1 && what == ENGINE_SAYS_PING)
        engine_say(engine, ENGINE_SAYS_PING, "");
    else if (length == 0 || (length < 0 && length != -EAGAIN))
        engine_finish(engine, 1); /* the stub is gone, and so are we */
}

static void on_signal(struct loop_source *source, uint32_t events)
{
    struct engine *engine = CONTAINER_OF(source, struct engine, signals);
    struct signalfd_siginfo info;

    (void)events;
    while (read(source->fd, &info, sizeof(info)) == sizeof(info))
        stop(engine);
}

/* ---- start ---- */

static int watch(struct engine *engine, struct loop_source *source, int fd,
                 void (*ready)(struct loop_source *, uint32_t))
{
    int r;

    if (fd < 0)
        return -errno;
    source->ready = ready;
    r = loop_add(&engine->loop, source, fd, EPOLLIN);
    return r;
}

static int open_loop(struct engine *engine)
{
    sigset_t set;
    int r = loop_init(&engine->loop);

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (r == 0 && sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        r = -errno;
    signal(SIGPIPE, SIG_IGN);
    if (r == 0)
        r = watch(engine, &engine->stub, ENGINE_STUB_FD, on_stub);
    if (r == 0)
        r = watch(engine, &engine->signals, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
                  on_signal);
    if (r == 0)
        r = watch(engine, &engine->timer,
                  timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), on_timer);
    return r;
}

static int open_folders(struct engine *engine, struct error *err)
{
    for (size_t i = 0; i < ENGINE_FOLDER_COUNT; i++) {
        char path[PATH_MAX + 16];

        str_format(path, sizeof(path), "%s/%s", engine->plan->state, engine_folders[i]);
        engine->folder_fd[i] = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (engine->folder_fd[i] < 0)
            return error_errno(err, "opening the folder '%s' inside", engine_folders[i]);
    }
    return 0;
}

/* One that nobody can change, as long as ours or shorter: what is behind its end is zero. */
static const struct engine_plan *read_plan(void)
{
    static const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    static struct engine_plan plan;
    int has = fcntl(ENGINE_PLAN_FD, F_GET_SEALS);
    struct stat status;

    if (has < 0 || (has & seals) != seals || fstat(ENGINE_PLAN_FD, &status) < 0 ||
        status.st_size < (off_t)sizeof(plan.magic) || status.st_size > (off_t)sizeof(plan) ||
        pread(ENGINE_PLAN_FD, &plan, (size_t)status.st_size, 0) != status.st_size)
        return NULL;
    return memcmp(plan.magic, ENGINE_MAGIC, sizeof(ENGINE_MAGIC)) == 0 ? &plan : NULL;
}

void engine_close_on_exec(const struct engine_plan *plan, bool closes)
{
    int flag = closes ? FD_CLOEXEC : 0;

    for (int fd = ENGINE_PLAN_FD; fd <= ENGINE_HANDOVER_FD; fd++)
        fcntl(fd, F_SETFD, flag);
    /* Without a wall it is /dev/null, or something of a program from before there were any. */
    if (plan->has_wall || closes)
        fcntl(ENGINE_WALL_FD, F_SETFD, flag);
    for (int i = 0; i < (int)plan->dataset_count; i++)
        fcntl(BROKER_DATASET_FD + i, F_SETFD, flag);
    for (int i = 0; i < (int)plan->tcp_count; i++)
        fcntl(BROKER_TCP_FD + i, F_SETFD, flag);
}

static int engine_start(struct engine *engine, struct error *err)
{
    int r;

    engine->notes_end = &engine->notes;
    engine->queue_end = &engine->queue;
    engine->graves_end = &engine->graves;
    engine->control.fd = engine->broker.fd = -1;
    engine->stub.fd = engine->signals.fd = engine->timer.fd = -1;
    engine_close_on_exec(engine->plan, true);
    upgrade_init(engine);
    for (uint32_t i = 0; i < engine->plan->bind_count; i++)
        engine->binds[i] = (struct launch_bind){.host = engine->plan->binds[i].host,
                                                .box = engine->plan->binds[i].box};
    /* Our ids are other processes' too where there is one only. The maps of our children can still
     * be written: since the exec this memory belongs to our own user namespace. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_errno(err, "starting the launcher");
    prctl(PR_SET_NAME, "launcher");
    r = open_loop(engine);
    if (r == 0)
        r = egress_open(engine);
    if (r == 0)
        r = wall_open(engine);
    if (r == 0)
        r = installer_open(engine);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "starting the launcher: %s", strerror(-r));
    r = open_folders(engine, err);
    if (r == 0 && !upgrade_is_taken()) /* else an installer may still be at work */
        seal_sweep(engine);
    return r;
}

_Noreturn void serve_inside(void)
{
    static struct engine engine;
    struct error err = {0};
    int r;

    if (getpid() == 1) /* only as the stub starts it */
        engine.plan = read_plan();
    if (!engine.plan) {
        log_error("this is how the daemon calls itself, not a command");
        _exit(125);
    }
    log_set_level((enum log_level)engine.plan->log_level);
    log_set_json(engine.plan->log_is_json);
    str_copy(engine.layer, sizeof(engine.layer), engine.plan->layer);
    r = engine_start(&engine, &err);
    if (r == 0 && upgrade_is_taken())
        r = upgrade_take(&engine, &err);
    if (r < 0) {
        engine_say(&engine, ENGINE_SAYS_FAILED, err.text);
        _exit(1);
    }
    broker_start(&engine);
    pool_start(&engine);
    if (loop_run(&engine.loop, before_wait, &engine) < 0)
        engine_finish(&engine, 1);
    _exit(engine.status);
}

static int pass_engine(void *ctx, const struct handover_engine *engine)
{
    (void)ctx;
    (void)engine;
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

/* Everything that this program would have to understand, and nothing done with it. */
int serve_probe(void)
{
    static const struct handover_reader reader = {pass_engine, pass_box, pass_kernel, NULL};
    CLEANUP(buf_free) struct buf text = BUF_INIT(HANDOVER_BYTES_MAX);
    struct error err = {0};
    int r = read_plan() ? buf_read_fd(&text, ENGINE_HANDOVER_FD) : -EBADMSG;

    if (r < 0)
        error_set(&err, r, ERROR_ENGINE, "the plan of the daemon's start is of another version");
    else
        r = handover_read(buf_text(&text), text.length, &reader, &err);
    if (r < 0) {
        log_error("taking over: %s", err.text);
        return 125;
    }
    r = fd_write_all(STDOUT_FILENO, SERVE_PROBE_ANSWER, strlen(SERVE_PROBE_ANSWER));
    return r < 0;
}
