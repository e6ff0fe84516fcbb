/* hosted.c - one box of a provider host for a blocking command; see hosted.h. */
#include "runtime/host/hosted.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "config/config.h"
#include "launcher/launcher.h"
#include "launcher/protocol.h"
#include "runtime/box/box.h"
#include "runtime/local/local.h"
#include "runtime/provider.h"
#include "sys/calls.h"
#include "sys/packet.h"

/*
 * An image may have to be pulled first; the provider host has a better error if that takes too
 * long.
 */
#define MAKE_PATIENCE_MS (HOST_MAKE_MS + 60000)
#define END_PATIENCE_MS 20000
#define HIGH_FD 64
#define KEY "run"

struct hosted_box {
    const struct provider_row *row;
    pid_t pid;
    int pid_fd, control_fd, rendezvous_fd;
    int cancel_fd; /* borrowed; -1: cannot be cancelled */
    uint32_t number;
    struct box_facts facts;
};

/* ---- the provider host's process ---- */

static _Noreturn void host_child(const struct provider_row *row, const struct box_spec *spec,
                                 int rendezvous_fd, int program_fd)
{
    char *argv[] = {"bailey-engine", "host", (char *)row->name, NULL};
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int rendezvous = fcntl(rendezvous_fd, F_DUPFD_CLOEXEC, HIGH_FD);
    int program = fcntl(program_fd, F_DUPFD_CLOEXEC, HIGH_FD);
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid(); /* Ctrl-C is for the command: the provider host removes its box when the command
                 closes the socket */
    if (dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 || dup2(rendezvous, HOST_RENDEZVOUS_FD) < 0 ||
        dup2(program, HOST_WARDEN_FD) < 0)
        _exit(127);
    sys_close_range(HOST_WARDEN_FD + 1, ~0U, 0);
    execve(spec->engine, argv, (char *const *)spec->engine_env);
    _exit(127);
}

static int start_host(struct hosted_box *self, const struct box_spec *spec, struct error *err)
{
    static const char word = HOST_SAYS_CHANNEL;
    CLEANUP(fd_closep) int program_fd = open(spec->warden, O_RDONLY | O_CLOEXEC);
    int rendezvous[2], control[2], r;

    if (program_fd < 0)
        return error_errno(err, "opening %s", spec->warden);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, rendezvous) < 0)
        return error_errno(err, "making the channel to the provider host");
    self->rendezvous_fd = rendezvous[0];
    self->pid = sys_clone_fork(0, &self->pid_fd, -1);
    if (self->pid == 0)
        host_child(self->row, spec, rendezvous[1], program_fd);
    close(rendezvous[1]);
    if (self->pid < 0) {
        self->pid = 0;
        return error_errno(err, "starting %s", spec->engine);
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, control) < 0)
        return error_errno(err, "making the channel to the provider host");
    self->control_fd = control[0];
    r = packet_send(self->rendezvous_fd, &word, 1, &control[1], 1, 0);
    close(control[1]);
    return r < 0
               ? error_set(err, r, ERROR_ENGINE, "speaking to the provider host: %s", strerror(-r))
               : 0;
}

static void end_host(struct hosted_box *self)
{
    struct pollfd end = {.fd = self->pid_fd, .events = POLLIN};

    fd_closep(&self->control_fd);
    fd_closep(&self->rendezvous_fd);
    if (self->pid > 0) {
        while (poll(&end, 1, END_PATIENCE_MS) < 0 && errno == EINTR)
            ;
        if (!(end.revents & POLLIN))
            kill(self->pid, SIGKILL);
        while (waitpid(self->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    fd_closep(&self->pid_fd);
    free(self);
}

/* ---- messages of the provider host ---- */

static int host_is_gone(struct hosted_box *self, struct error *err)
{
    siginfo_t info = {0};

    waitid(P_PID, (id_t)self->pid, &info, WEXITED | WNOWAIT | WNOHANG);
    return error_set(err, -EPIPE, ERROR_ENGINE, "the process that speaks to %s ended (%s %d)%s",
                     self->row->title, info.si_code == CLD_EXITED ? "status" : "signal",
                     info.si_status,
                     info.si_status == 127 ? ": bailey-engine could not be executed" : "");
}

/* The next message; a cancelled caller gets an error, unless the end is being waited for. */
static int hear(struct hosted_box *self, uint64_t until_ms, bool can_cancel,
                struct launcher_message *ret, int *ret_fd, struct error *err)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = self->control_fd, .events = POLLIN},
                               {.fd = can_cancel ? self->cancel_fd : -1, .events = POLLIN}};
        uint64_t now = clock_now_ms();
        int r = launcher_receive(self->control_fd, ret, ret_fd);

        if (r > 0)
            return 0;
        if (r == -EPROTO)
            return error_set(err, r, ERROR_ENGINE,
                             "the provider host sent a message that cannot be read");
        if (r < 0)
            return host_is_gone(self, err);
        if (now >= until_ms)
            return error_set(err, -ETIMEDOUT, ERROR_PROVIDER_UNAVAILABLE,
                             "%s did not answer in time", self->row->title);
        if (poll(fds, ARRAY_SIZE(fds), (int)(until_ms - now)) < 0 && errno != EINTR)
            return error_errno(err, "waiting for the provider host");
        if (fds[1].revents)
            return error_set(err, -ECANCELED, ERROR_CANCELLED, "the run was ended by its caller");
    }
}

static int say(struct hosted_box *self, const struct launcher_message *message, struct error *err)
{
    int r = launcher_send(self->control_fd, message, -1);

    if (r > 0)
        return 0;
    return r == 0 ? error_set(err, -EAGAIN, ERROR_ENGINE, "the provider host does not read")
                  : host_is_gone(self, err);
}

static int ask_for_box(struct hosted_box *self, const struct box_spec *spec, struct error *err)
{
    struct launcher_message hello = {.type = LAUNCHER_HELLO, .number = LAUNCHER_VERSION};
    struct launcher_message make = {.type = LAUNCHER_MAKE,
                                    .make = {.serial = 1,
                                             .key = KEY,
                                             .memory_bytes = spec->limits.memory_bytes,
                                             .disk_bytes = spec->limits.disk_bytes,
                                             .pids = spec->limits.pids,
                                             .cpu_millis = spec->limits.cpu_millis,
                                             .minimum = (uint8_t)spec->minimum,
                                             .tier = TIER_NONE}};
    int r = say(self, &hello, err);

    return r < 0 ? r : say(self, &make, err);
}

static void take_facts(struct hosted_box *self, const struct launcher_box *box)
{
    self->number = box->number;
    self->facts = (struct box_facts){
        .layers = box->layers,
        .missing = box->missing,
        .memory_by = local_limit_by(box->memory_by, box->group),
        .pids_by = local_limit_by(box->pids_by, box->group),
        .cpu_by = local_limit_by(box->cpu_by, box->group),
        .disk_by = local_limit_by(box->disk_by, box->group),
    };
}

/* Waits until the box is ready or was refused; *ret_fd is its channel. */
static int wait_for_box(struct hosted_box *self, int *ret_fd, struct error *err)
{
    uint64_t until_ms = clock_now_ms() + MAKE_PATIENCE_MS;

    for (;;) {
        struct launcher_message message;
        int fd = -1;
        int r = hear(self, until_ms, true, &message, &fd, err);

        if (r < 0)
            return r;
        if (message.type == LAUNCHER_MADE) {
            take_facts(self, &message.box);
            *ret_fd = fd;
            return 0;
        }
        fd_closep(&fd);
        if (message.type == LAUNCHER_REFUSED) {
            self->facts.layers = message.refused.layers;
            self->facts.missing = message.refused.missing;
            if (err)
                *err = message.refused.error;
            if (err && err->code == ERROR_PROVIDER_UNAVAILABLE)
                err->provider = self->row->name;
            return message.refused.error.num;
        }
    }
}

/* Its usage is known when it has ended. */
static void wait_for_end(struct hosted_box *self)
{
    struct launcher_message end = {.type = LAUNCHER_END, .number = self->number};
    uint64_t until_ms = clock_now_ms() + END_PATIENCE_MS;
    struct launcher_message message;
    struct error err = {0};
    int fd = -1;

    if (say(self, &end, &err) < 0)
        return;
    while (hear(self, until_ms, false, &message, &fd, &err) == 0) {
        fd_closep(&fd);
        if (message.type != LAUNCHER_ENDED || message.usage.number != self->number)
            continue;
        /* A box that ended by itself was reported before, with its usage: this answer has none. */
        self->facts.oom_kills = MAX(self->facts.oom_kills, message.usage.oom_kills);
        self->facts.usage.cpu_us = MAX(self->facts.usage.cpu_us, message.usage.cpu_us);
        self->facts.usage.max_rss_bytes =
            MAX(self->facts.usage.max_rss_bytes, message.usage.memory_bytes);
        self->facts.usage.by = MAX(self->facts.usage.by, local_usage_by(message.usage.counted));
        if (message.usage.was_asked)
            return;
    }
}

/* ---- settings of the process ---- */

static int push(char ***env, const char *name, const char *value)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    int r = buf_printf(&text, "%s=%s", name, value);

    return r < 0 ? r : strv_push(env, buf_text(&text));
}

char **hosted_env(const struct config *config, bool shows_progress)
{
    const struct provider_row *row = config_provider(config);
    const char *const kept[] = {"HOME", "PATH", row ? row->secret : NULL};
    CLEANUP(strv_freep) char **env = strv_new();
    int r = env ? 0 : -ENOMEM;

    for (size_t key = 0; key < _KEY_MAX && r == 0; key++) {
        const char *value = config->values[key].text;

        if (config_table[key].env && value)
            r = push(&env, config_table[key].env, value);
    }
    for (size_t i = 0; i < ARRAY_SIZE(kept) && r == 0; i++) {
        const char *value = kept[i] ? getenv(kept[i]) : NULL;

        if (value)
            r = push(&env, kept[i], value);
    }
    if (r == 0 && shows_progress)
        r = push(&env, HOST_ENV_PROGRESS, "1");
    return r < 0 ? NULL : ptr_take(&env);
}

/* ---- the box ---- */

static int hosted_create(const struct provider_row *row, const struct box_spec *spec,
                         struct box **ret, struct box_facts *facts, struct error *err)
{
    struct hosted_box *self = calloc(1, sizeof(*self));
    CLEANUP(fd_closep) int fd = -1;
    int r;

    if (!self)
        return error_memory(err);
    self->pid_fd = self->control_fd = self->rendezvous_fd = -1;
    self->row = row;
    self->cancel_fd = spec->cancel_fd;
    if (!spec->engine || !spec->warden)
        r = error_set(err, -ENOSYS, ERROR_ENGINE,
                      "this command cannot make boxes of %s itself; start a daemon", row->title);
    else
        r = start_host(self, spec, err);
    if (r == 0)
        r = ask_for_box(self, spec, err);
    if (r == 0)
        r = wait_for_box(self, &fd, err);
    *facts = self->facts;
    if (r == 0)
        r = box_new(fd, self, ret, err);
    if (r < 0) {
        end_host(self);
        return r;
    }
    fd = -1; /* the box owns it now */
    box_set_provider(*ret, row);
    return 0;
}

static void hosted_destroy(struct box *box, struct box_facts *facts)
{
    struct hosted_box *self;

    if (!box)
        return;
    self = box_provider_data(box);
    box_free(box);
    wait_for_end(self);
    *facts = self->facts;
    end_host(self);
}

const struct runtime_ops hosted_ops = {
    .create = hosted_create,
    .destroy = hosted_destroy,
};
