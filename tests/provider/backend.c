/*
 * backend.c - the provider host's side of `clone` (row.c): each step is done at once, and a box's
 * stream is a pair of sockets. In place of src/runtime/more_backends.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/isolation.h"
#include "base/str.h"
#include "box.h"
#include "boxes/boxes.h"
#include "runtime/host/host_box.h"

struct clone {
    char files[64]; /* what boxes have as /bailey; empty: not made */
};

struct clone_host_box {
    struct host_box box;
    int stream_fd, box_fd; /* ours, and the box's until it is started */
    struct reactor_watch *watch, *end;
    pid_t pid;
    int pid_fd;
};

static struct clone_host_box *of(struct host_box *box)
{
    return (struct clone_host_box *)box;
}

/* ---- what boxes have as /bailey ---- */

static int write_file(int folder, const char *path, int mode, const void *data, size_t length)
{
    CLEANUP(fd_closep) int fd = openat(folder, path, O_CREAT | O_WRONLY | O_CLOEXEC, mode);

    return fd < 0 ? -errno : fd_write_all(fd, data, length);
}

static int copy_program(int folder, int program_fd)
{
    CLEANUP(fd_closep) int fd = openat(folder, "bin/bailey", O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    struct stat status;
    off_t at = 0;

    if (fd < 0 || fstat(program_fd, &status) < 0)
        return -errno;
    while (at < status.st_size) {
        if (sendfile(fd, program_fd, &at, (size_t)(status.st_size - at)) <= 0)
            return -errno;
    }
    return 0;
}

static int make_files(struct clone *clone, int program_fd, struct error *err)
{
    const struct launch_file *module = launch_zygote_module(), *files;
    CLEANUP(fd_closep) int folder = -1;
    size_t count;
    int r;

    str_copy(clone->files, sizeof(clone->files), "/tmp/bailey-clone-XXXXXX");
    if (!mkdtemp(clone->files)) {
        clone->files[0] = 0;
        return error_errno(err, "making a folder in /tmp");
    }
    folder = open(clone->files, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    files = launch_drivers(&count);
    r = fchmod(folder, 0755) < 0 || mkdirat(folder, "bin", 0755) < 0 ||
                mkdirat(folder, "driver", 0755) < 0
            ? -errno
            : copy_program(folder, program_fd);
    for (size_t i = 0; i < count && r == 0; i++)
        r = write_file(folder, files[i].path, 0644, files[i].text, files[i].length);
    if (r == 0)
        r = write_file(folder, module->path, 0644, module->text, module->length);
    return r < 0 ? error_set(err, r, ERROR_ENGINE, "writing %s: %s", clone->files, strerror(-r))
                 : 0;
}

static void remove_files(const struct clone *clone)
{
    const struct launch_file *files;
    char path[192];
    size_t count;

    files = launch_drivers(&count);
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", clone->files, files[i].path);
        unlink(path);
    }
    static const char *const rest[] = {"bin/bailey", "bin", "driver", ""};
    snprintf(path, sizeof(path), "%s/%s", clone->files, launch_zygote_module()->path);
    unlink(path);
    for (size_t i = 0; i < ARRAY_SIZE(rest); i++) {
        snprintf(path, sizeof(path), "%s/%s", clone->files, rest[i]);
        remove(path);
    }
}

/* ---- the stream ---- */

static ssize_t stream_read(void *ctx, void *to, size_t size)
{
    ssize_t length = recv(((struct clone_host_box *)ctx)->stream_fd, to, size, MSG_DONTWAIT);

    return length < 0 ? -errno : length;
}

static ssize_t stream_write(void *ctx, const void *data, size_t length)
{
    ssize_t sent =
        send(((struct clone_host_box *)ctx)->stream_fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);

    return sent < 0 ? -errno : sent;
}

static void stream_want(void *ctx, short events)
{
    struct clone_host_box *self = ctx;

    host_reactor(self->box.host)->ops->watch_change(self->watch, events);
}

static void stream_close(void *ctx)
{
    struct clone_host_box *self = ctx;

    host_reactor(self->box.host)->ops->watch_remove(self->watch);
    self->watch = NULL;
    fd_closep(&self->stream_fd);
    self->stream_fd = -1;
}

static const struct pump_stream_ops stream_ops = {
    .read = stream_read, .write = stream_write, .want = stream_want, .close = stream_close};

static void on_stream(void *ctx, short events)
{
    host_pump_ready(&((struct clone_host_box *)ctx)->box.pump, events);
}

/* ---- the steps ---- */

/* What a test says by SANDBOX_MEMORY_LIMIT: a provider host has no variable of the test. */
#define NEVER_READY_BYTES (333ULL << 20) /* such a box is started, and nothing is heard of it */
#define FAILS_BYTES (334ULL << 20)       /* and such a one cannot be made */

static void fail(struct host_box *box, int num, const char *what)
{
    struct error err = {0};

    error_set(&err, num, ERROR_BOX_FAILED, "%s: %s", what, strerror(-num));
    host_box_fail(box, &err);
}

static void clone_create(struct host_box *box)
{
    struct clone_host_box *self = of(box);
    int pair[2];

    self->pid_fd = self->stream_fd = self->box_fd = -1;
    if (box->make.memory_bytes == FAILS_BYTES) {
        fail(box, -ENOSPC, "a test has no room for boxes");
        return;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        fail(box, -errno, "making a pair of sockets");
        return;
    }
    self->stream_fd = pair[0];
    self->box_fd = pair[1];
    fd_set_nonblocking(pair[0], true);
    host_box_created(box);
}

static void clone_attach(struct host_box *box)
{
    struct clone_host_box *self = of(box);

    self->watch = reactor_watch(host_reactor(box->host), self->stream_fd, 0, on_stream, self);
    if (!self->watch)
        fail(box, -ENOMEM, "watching the stream");
    else
        host_box_attached(box, &stream_ops, self);
}

static void clone_start(struct host_box *box)
{
    struct clone_host_box *self = of(box);
    const struct clone *clone = host_backend(box->host);
    const struct clone_box spec = {.files = clone->files,
                                   .disk_bytes = box->make.disk_bytes,
                                   .memory_bytes = box->make.memory_bytes,
                                   .stream_fd = self->box_fd};
    pid_t pid;

    if (box->make.memory_bytes == NEVER_READY_BYTES) {
        host_box_started(box);
        return;
    }
    pid = clone_box_start(&spec, &self->pid_fd);
    fd_closep(&self->box_fd);
    self->box_fd = -1;
    if (pid < 0) {
        fail(box, (int)pid, "clone");
        return;
    }
    self->pid = pid;
    host_box_started(box);
}

/* No control group: nothing holds memory, processes and cores. */
static void clone_inspect(struct host_box *box)
{
    static const uint32_t layers =
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_MOUNTNS) |
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_PIDNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS);

    box->seen = (struct host_seen){.layers = layers};
    host_box_inspected(box);
}

static void over(struct clone_host_box *self)
{
    while (self->pid > 0 && waitpid(self->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    self->pid = 0;
    fd_closep(&self->pid_fd);
    self->pid_fd = -1;
}

static void on_end(void *ctx, short events)
{
    struct clone_host_box *self = ctx;

    (void)events;
    host_reactor(self->box.host)->ops->watch_remove(self->end);
    self->end = NULL;
    over(self);
    host_box_removed(&self->box, 0);
}

static int clone_remove(struct host_box *box)
{
    struct clone_host_box *self = of(box);

    if (self->pid <= 0) {
        host_box_removed(box, 0);
        return 0;
    }
    self->end = reactor_watch(host_reactor(box->host), self->pid_fd, POLLIN, on_end, self);
    if (!self->end)
        return -ENOMEM;
    kill(self->pid, SIGKILL);
    return 0;
}

static void clone_cancel(struct host_box *box)
{
    struct clone_host_box *self = of(box);

    if (self->watch && !box->pump.stream)
        stream_close(self);
}

static void clone_free(struct host_box *box)
{
    struct clone_host_box *self = of(box);

    if (!box->is_there)
        return; /* its descriptors were never opened */
    if (self->end)
        host_reactor(box->host)->ops->watch_remove(self->end);
    if (self->pid > 0)
        kill(self->pid, SIGKILL);
    over(self);
    fd_closep(&self->box_fd);
    fd_closep(&self->stream_fd);
}

/* ---- the whole ---- */

static void clone_prepare(struct host_box *box)
{
    host_box_begin(box);
}

static void clone_late(struct host_box *box)
{
    (void)box;
}

static void clone_leave_behind(struct host_box *box)
{
    (void)box;
}

static bool clone_usage(struct host_box *box)
{
    (void)box;
    return false;
}

static void clone_timed_out(const struct host *host, struct error *err)
{
    (void)host;
    error_set(err, -ETIMEDOUT, ERROR_PROVIDER_UNAVAILABLE, "clone(2) not available");
}

static void clone_leave(struct host *host)
{
    (void)host;
}

static bool is_never(const struct host *host)
{
    (void)host;
    return false;
}

static int clone_open(struct host *host, const struct config *config, void **ret, struct error *err)
{
    struct clone *clone = calloc(1, sizeof(*clone));
    int r;

    (void)config;
    if (!clone)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    *ret = clone; /* host_close() ends it, whatever comes */
    r = make_files(clone, host_spec(host)->program_fd, err);
    return r;
}

static void clone_close(struct host *host)
{
    struct clone *clone = host_backend(host);

    if (clone->files[0])
        remove_files(clone);
    free(clone);
}

static json_t *clone_doctor(const struct config *config)
{
    (void)config;
    return json_pack("{s:s, s:b, s:[], s:[[s, s]]}", "host", "this machine", "ok", 1, "problems",
                     "lines", "made by", "clone(2)");
}

static const struct backend_ops clone_ops = {
    .box_size = sizeof(struct clone_host_box),
    .open = clone_open,
    .close = clone_close,
    .prepare = clone_prepare,
    .late = clone_late,
    .is_slow = is_never,
    .create = clone_create,
    .attach = clone_attach,
    .start = clone_start,
    .inspect = clone_inspect,
    .remove = clone_remove,
    .cancel = clone_cancel,
    .leave_behind = clone_leave_behind,
    .free_box = clone_free,
    .usage = clone_usage,
    .timed_out = clone_timed_out,
    .leave = clone_leave,
    .is_busy = is_never,
};

static const struct backend_row clone_backend = {
    .name = "clone", .ops = &clone_ops, .doctor = clone_doctor};
const struct backend_row *const backend_rows_more[] = {&clone_backend, NULL};
