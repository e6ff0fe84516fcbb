/*
 * container.c - the box of a container that is the only one: starts `bailey` as its keeper
 * (boxes/beside.c), passes frames to its warden, and waits for its end.
 *
 * There is one box with the promised paths at a time. A session that finds another session's is
 * refused with a sentence; one that finds a run's, a prewarmed box that does not fit, or one that
 * is being removed, waits for the end of it. A run that finds it taken gets folders of its own, as
 * a one-shot run without a daemon has (BESIDE_PRIVATE), and another id. A prewarmed box waits for
 * as long as there is any other. The keeper exits when nothing of its box is left, so its exit is
 * the box's removal.
 */
#include "runtime/container/container.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "config/config.h"
#include "launcher/launcher.h"
#include "runtime/host/host_box.h"
#include "runtime/host/hosted.h"
#include "sys/calls.h"

#define WAIT_MS 30000 /* for what an earlier guest left to be removed */
#define HIGH_FD 64
#define TEXT_MAX 400
#define PLACES_MAX 6 /* the box, and runs beside it; two ids each, below those of pairs */

struct one_box {
    struct host_box box; /* first */
    pid_t pid;           /* its keeper; 0: none */
    int pid_fd, fd, log_fd;
    struct reactor_watch *end, *watch;
    bool is_removing; /* host_box_removed() is owed */
    unsigned place;   /* 0: it has the promised paths */
};

struct one {
    struct host *host;
    struct reactor_timer *turn; /* a box may have been waiting for the end of another */
    unsigned guest;             /* the guest's id; 0: the caller's */
    const char *state, *binds;
};

static struct one *one_of(const struct host *host)
{
    return host_backend(host);
}

/* ---- one at a time ---- */

static int in_use(struct error *err)
{
    return error_set(err, -EUSERS, ERROR_BUSY,
                     "there is a session already, and this container gives no namespaces, so it is "
                     "the only box: end that session first ('bailey session ls', 'bailey session "
                     "rm'), or use a machine with namespaces ('bailey doctor' says what is "
                     "missing), or SANDBOX_TYPE=docker");
}

/* The box in a place; NULL: none. */
static struct host_box *present(const struct host *host, unsigned place)
{
    struct host_box *box = host_boxes(host);

    while (box && (!box->is_there || ((struct one_box *)box)->place != place))
        box = box->next;
    return box;
}

/* Keys of sessions and runs begin as their ids do: session/session.c, session/run.c. */
static bool is_run(const struct host_box *box)
{
    return !box->is_prewarmed && str_starts(box->make.key, "r_");
}

/* True: it has a place beside the box. */
static bool take_place(struct host_box *box)
{
    struct one_box *self = (struct one_box *)box;

    for (unsigned place = 1; place < PLACES_MAX; place++) {
        if (present(box->host, place))
            continue;
        self->place = place;
        return true;
    }
    return false;
}

/* One that was asked for goes first; else each prewarmed box would be ended for it as soon as it is
 * made. */
static bool is_asked_for(const struct host *host)
{
    const struct host_box *box = host_boxes(host);

    while (box && (box->is_prewarmed || !box->is_waiting))
        box = box->next;
    return box;
}

static void one_prepare(struct host_box *box)
{
    struct host_box *other = present(box->host, 0);
    struct error err = {0};

    if (box->is_prewarmed && (other || is_asked_for(box->host))) {
        return; /* on_turn() */
    } else if (!other) {
        host_box_begin(box);
    } else if (is_run(box) && !other->is_prewarmed && take_place(box)) {
        host_box_begin(box);
    } else if (other->stage == BOX_REMOVING || other->was_asked || is_run(other)) {
        return; /* on_turn() */
    } else if (other->is_prewarmed) {
        host_box_end(other);
    } else {
        in_use(&err);
        host_box_refuse(box, &err);
    }
}

/* The next to wait: one that was asked for, before one for later. */
static void on_turn(void *ctx)
{
    const struct one *one = ctx;
    struct host_box *found = NULL;

    for (struct host_box *box = host_boxes(one->host); box; box = box->next) {
        if (box->is_waiting && (!found || found->is_prewarmed || !box->is_prewarmed))
            found = box; /* the oldest is the last of the list */
    }
    if (found)
        one_prepare(found);
}

static void one_late(struct host_box *box)
{
    struct error err = {0};

    error_set(&err, -EAGAIN, ERROR_BUSY,
              "a run has the box, or what was in it before is still being removed; try again");
    host_box_refuse(box, &err);
}

/* ---- its keeper ---- */

static int add(char ***env, const char *name, unsigned long long value)
{
    char text[96];

    str_format(text, sizeof(text), "%s=%llu", name, value);
    return strv_push(env, text);
}

static int add_text(char ***env, const char *name, const char *value)
{
    char text[LIMIT_PATH_BYTES * 8];
    int r;

    if (!value || !value[0])
        return 0;
    r = str_format(text, sizeof(text), "%s=%s", name, value);
    return r < 0 ? r : strv_push(env, text);
}

/* strv. Must: be whole or fail, because without its id a guest would have the caller's. */
static int keeper_env(const struct one_box *self, char ***env)
{
    const struct one *one = one_of(self->box.host);
    const struct launcher_make *make = &self->box.make;
    char path[LIMIT_PATH_BYTES + 1];
    int failed = 0;

    *env = strv_new();
    if (!*env)
        return -ENOMEM;
    failed |= add(env, BESIDE_MEMORY, make->memory_bytes);
    failed |= add(env, BESIDE_DISK, make->disk_bytes);
    failed |= add(env, BESIDE_PIDS, make->pids);
    failed |= add(env, BESIDE_CPU, make->cpu_millis);
    if (one->guest)
        failed |= add(env, BESIDE_GUEST, one->guest + 2 * self->place);
    if (self->place > 0)
        failed |= add(env, BESIDE_PRIVATE, 1);
    failed |= add_text(env, BESIDE_PYTHON,
                       make->python[0] ? make->python : host_spec(self->box.host)->python);
    failed |= add_text(env, BESIDE_BINDS, one->binds);
    failed |= add_text(env, "TMPDIR", getenv("TMPDIR"));
    if (one->state) {
        failed |= str_format(path, sizeof(path), "%s/box-%u.lock", one->state, self->place);
        failed |= add_text(env, BESIDE_LOCK, path);
    }
    return failed < 0 ? -E2BIG : 0;
}

static _Noreturn void keeper_child(int program_fd, int stream_fd, int log_fd, char *const *env)
{
    char *argv[] = {"bailey", WARDEN_BESIDE_WORD, NULL};
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int stream = fcntl(stream_fd, F_DUPFD_CLOEXEC, HIGH_FD);
    int log = fcntl(log_fd, F_DUPFD_CLOEXEC, HIGH_FD);
    int program = fcntl(program_fd, F_DUPFD_CLOEXEC, HIGH_FD);
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (dup2(stream, 0) < 0 || dup2(null_fd, 1) < 0 || dup2(log, 2) < 0)
        _exit(127);
    syscall(SYS_execveat, program, "", argv, env, AT_EMPTY_PATH);
    _exit(127);
}

/* Its first line, for an error or the log. */
static void read_log(const struct one_box *self, char text[TEXT_MAX])
{
    ssize_t length = self->log_fd < 0 ? 0 : pread(self->log_fd, text, TEXT_MAX - 1, 0);

    text[length > 0 ? length : 0] = 0;
    text[strcspn(text, "\n")] = 0;
}

static void on_keeper_end(void *ctx, short events)
{
    struct one_box *self = ctx;
    struct host_box *box = &self->box;
    const struct reactor *reactor = host_reactor(box->host);
    struct error err = {0};
    char text[TEXT_MAX];

    (void)events;
    while (waitpid(self->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    self->pid = 0;
    reactor->ops->watch_remove(self->end);
    self->end = NULL;
    fd_closep(&self->pid_fd);
    self->pid_fd = -1;
    if (self->is_removing) {
        self->is_removing = false;
        host_box_removed(box, 0);
        return;
    }
    if (box->stage == BOX_REMOVING || box->stage == BOX_GIVEN || box->stage == BOX_IDLE) {
        /* Its stream has ended, too; but if the keeper was killed, the warden still has its end. */
        if (self->fd >= 0)
            shutdown(self->fd, SHUT_RDWR);
        return;
    }
    read_log(self, text);
    error_set(&err, -EIO, ERROR_BOX_FAILED, "the box could not be made: %s",
              text[0] ? text : "its keeper ended");
    host_box_fail(box, &err);
}

static int start_keeper(struct one_box *self, struct error *err)
{
    CLEANUP(strv_freep) char **env = NULL;
    int pair[2];

    if (keeper_env(self, &env) < 0)
        return error_set(err, -E2BIG, ERROR_ENGINE,
                         "the settings of the box's keeper do not fit into its environment");
    self->log_fd = memfd_create("box-log", MFD_CLOEXEC);
    if (self->log_fd < 0)
        return error_errno(err, "making the log of the box's keeper");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the channel to the box");
    self->fd = pair[0];
    fd_set_nonblocking(self->fd, true);
    self->pid = sys_clone_fork(0, &self->pid_fd, -1);
    if (self->pid == 0)
        keeper_child(host_spec(self->box.host)->program_fd, pair[1], self->log_fd, env);
    close(pair[1]);
    if (self->pid < 0) {
        self->pid = 0;
        return error_errno(err, "forking the box's keeper");
    }
    self->end =
        reactor_watch(host_reactor(self->box.host), self->pid_fd, POLLIN, on_keeper_end, self);
    return self->end ? 0 : error_memory(err);
}

static void one_create(struct host_box *box)
{
    struct one_box *self = (struct one_box *)box;
    struct error err = {0};

    self->pid_fd = self->fd = self->log_fd = -1;
    if (start_keeper(self, &err) == 0) {
        host_box_created(box);
        return;
    }
    box->is_creating = false;
    box->is_there = self->pid > 0;
    host_box_fail(box, &err);
}

/* ---- the stream ---- */

static ssize_t stream_read(void *stream, void *to, size_t size)
{
    const struct one_box *self = stream;
    ssize_t length = recv(self->fd, to, size, MSG_DONTWAIT);

    if (length < 0)
        return errno == EAGAIN || errno == EINTR ? -EAGAIN : errno == ECONNRESET ? 0 : -errno;
    return length;
}

static ssize_t stream_write(void *stream, const void *data, size_t length)
{
    const struct one_box *self = stream;
    ssize_t sent = send(self->fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);

    return sent >= 0 ? sent : errno == EAGAIN || errno == EINTR ? -EAGAIN : -errno;
}

static void stream_want(void *stream, short events)
{
    struct one_box *self = stream;

    if (self->watch)
        host_reactor(self->box.host)->ops->watch_change(self->watch, events);
}

static void stream_close(void *stream)
{
    struct one_box *self = stream;

    if (self->watch)
        host_reactor(self->box.host)->ops->watch_remove(self->watch);
    self->watch = NULL;
    fd_closep(&self->fd);
    self->fd = -1;
}

static const struct pump_stream_ops stream_ops = {
    .read = stream_read, .write = stream_write, .want = stream_want, .close = stream_close};

static void on_stream(void *ctx, short events)
{
    host_pump_ready(&((struct one_box *)ctx)->box.pump, events);
}

static void one_attach(struct host_box *box)
{
    struct one_box *self = (struct one_box *)box;
    struct error err = {0};

    self->watch = reactor_watch(host_reactor(box->host), self->fd, POLLIN, on_stream, self);
    if (self->watch) {
        host_box_attached(box, &stream_ops, self);
        return;
    }
    error_memory(&err);
    host_box_fail(box, &err);
}

static void one_start(struct host_box *box)
{
    host_box_started(box); /* it runs since it was created */
}

/* Which layers hold the warden says; what holds the limits is decided (boxes/plan_builder.c). */
static void one_inspect(struct host_box *box)
{
    box->seen = (struct host_seen){
        .memory_by = HELD_BY_WARDEN,
        .pids_by = HELD_BY_RLIMIT,
        .cpu_by = box->make.cpu_millis > 0 ? HELD_BY_AFFINITY : HELD_BY_NOTHING,
        .disk_by = HELD_BY_WARDEN,
    };
    host_box_inspected(box);
}

/* ---- its end ---- */

static int one_remove(struct host_box *box)
{
    struct one_box *self = (struct one_box *)box;
    char text[TEXT_MAX];

    read_log(self, text);
    if (text[0])
        log_info("the box's keeper says: %s", text);
    if (self->pid == 0) {
        host_box_removed(box, 0);
        return 0;
    }
    self->is_removing = true;
    sys_pidfd_send_signal(self->pid_fd, SIGTERM);
    return 0;
}

static void one_cancel(struct host_box *box)
{
    struct one_box *self = (struct one_box *)box;

    if (box->is_there && self->fd >= 0 && !box->pump.stream)
        stream_close(self);
}

/* The keeper goes on without us: it ends with its warden, whose stream is closed. */
static void one_free(struct host_box *box)
{
    struct one_box *self = (struct one_box *)box;
    const struct one *one = one_of(box->host);
    const struct reactor *reactor = host_reactor(box->host);

    if (self->end)
        reactor->ops->watch_remove(self->end);
    if (self->pid > 0 || self->log_fd > 0) {
        fd_closep(&self->fd);
        fd_closep(&self->pid_fd);
        fd_closep(&self->log_fd);
    }
    if (one && one->turn)
        reactor->ops->timer_set(one->turn, 0);
}

static void one_leave_behind(struct host_box *box)
{
    (void)box;
}

/* ---- usage ---- */

/* CPU time of a process, and of its children that have ended; 0: it is gone. */
static uint64_t process_ticks(int proc_fd, const char *pid)
{
    char path[300], text[1024];
    unsigned long ticks[4];
    const char *tail;

    str_format(path, sizeof(path), "%s/stat", pid);
    if (fd_read_text_at(proc_fd, path, text, sizeof(text)) < 0)
        return 0;
    tail = strrchr(text, ')');
    if (!tail || sscanf(tail, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
                        &ticks[0], &ticks[1], &ticks[2], &ticks[3]) != 4)
        return 0;
    return ticks[0] + ticks[1] + ticks[2] + ticks[3];
}

/* All processes with the guest's id, the warden among them. */
static uint64_t guest_ticks(uid_t guest)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    uint64_t total = 0;

    while (proc && (entry = readdir(proc))) {
        struct stat status;

        if (isdigit((unsigned char)entry->d_name[0]) &&
            fstatat(dirfd(proc), entry->d_name, &status, 0) == 0 && status.st_uid == guest)
            total += process_ticks(dirfd(proc), entry->d_name);
    }
    if (proc)
        closedir(proc);
    return total;
}

static bool one_usage(struct host_box *box)
{
    struct one_box *self = (struct one_box *)box;
    const struct one *one = one_of(box->host);
    char name[24];
    DIR *proc;
    uint64_t ticks = 0;

    if (one->guest) {
        ticks = guest_ticks(one->guest + 2 * self->place);
    } else if (self->pid > 0 && (proc = opendir("/proc"))) {
        str_format(name, sizeof(name), "%d", (int)self->pid);
        ticks = process_ticks(dirfd(proc), name);
        closedir(proc);
    }
    box->cpu_us = MAX(box->cpu_us, ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK));
    box->counted = MAX(box->counted, COUNTED_SOME);
    return true;
}

/* ---- the backend ---- */

static bool one_is_slow(const struct host *host)
{
    (void)host;
    return false;
}

static void one_fill(const struct config *config, struct host_spec *spec)
{
    spec->pool_size = config->pool_size > 0;
    spec->wait_ms = WAIT_MS;
}

static int one_open(struct host *host, const struct config *config, void **ret, struct error *err)
{
    struct one *one = calloc(1, sizeof(*one));
    const char *guest = getenv(HOST_GUEST_ID);
    uint64_t number;

    (void)config;
    if (!one)
        return error_memory(err);
    one->host = host;
    one->state = getenv(HOST_ENV_STATE);
    one->binds = getenv(HOST_ENV_BINDS);
    if (guest) {
        if (str_to_u64(guest, &number) < 0 || number == 0 || number > UINT32_MAX - 2 * PLACES_MAX) {
            free(one);
            return error_set(err, -EINVAL, ERROR_ENGINE, HOST_GUEST_ID " '%s' is no guest's id",
                             guest);
        }
        one->guest = (unsigned)number;
    }
    one->turn = reactor_timer(host_reactor(host), on_turn, one);
    if (!one->turn) {
        free(one);
        return error_memory(err);
    }
    host_set_cpu_count(host, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
    *ret = one;
    return 0;
}

static void one_close(struct host *host)
{
    struct one *one = one_of(host);

    host_reactor(host)->ops->timer_remove(one->turn);
    free(one);
}

static void one_timed_out(const struct host *host, struct error *err)
{
    (void)host;
    error_set(err, -ETIMEDOUT, ERROR_BOX_FAILED, "the box's keeper did not start in time");
}

static void one_leave(struct host *host)
{
    (void)host;
}

static bool one_is_busy(const struct host *host)
{
    (void)host;
    return false;
}

const struct backend_ops container_ops = {
    .box_size = sizeof(struct one_box),
    .fill = one_fill,
    .open = one_open,
    .close = one_close,
    .prepare = one_prepare,
    .late = one_late,
    .is_slow = one_is_slow,
    .create = one_create,
    .attach = one_attach,
    .start = one_start,
    .inspect = one_inspect,
    .remove = one_remove,
    .cancel = one_cancel,
    .leave_behind = one_leave_behind,
    .free_box = one_free,
    .usage = one_usage,
    .timed_out = one_timed_out,
    .leave = one_leave,
    .is_busy = one_is_busy,
};
