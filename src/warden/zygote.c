/*
 * zygote.c - the box's own zygote, in a container: a warm Python, a guest like any other, from
 * which Python kernels are forked.
 *
 * Theory of operation. It is spawned as a guest with a socket, imports, and sends READY. A kernel
 * that may be forked waits for that, then for two messages: FORKED (its parent is the warden now)
 * and JOINED (it has its descriptors, and this pid). From then on it is a child that we spawned.
 * Nothing else differs, since everything that makes a guest is inherited: id, limits, Landlock,
 * filter.
 *
 * Messages of the zygote are untrusted. It may claim any pid, so that must be a child of ours that
 * belongs to no command; it may send nothing, so it has a deadline; anything unexpected ends it. A
 * kernel that was waiting is then started as a new interpreter, as if there had never been a
 * zygote. A kernel that is still being forked finds its socket closed and ends.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/guest_stage.h"
#include "sys/packet.h"
#include "warden/kernel.h"
#include "zygote/zygote.h"

struct zygote {
    struct warden *warden;
    struct loop_source control; /* its socket */
    pid_t pid;                  /* 0: it is reaped */
    bool is_ready;
    struct command *wanted;   /* the kernel that is asked for; NULL: none */
    struct message_exec exec; /* as it was asked for; its strings are its `text` */
    uint64_t deadline_ns;     /* for the zygote's next message about it */
    uint32_t serial;          /* of the last request */
    int fd[3];                /* our ends for it: socket, standard output and error */
    bool is_forked;
    pid_t joined; /* 0: not yet */
};

static void close_ends(struct zygote *zygote)
{
    for (int i = 0; i < 3; i++) {
        fd_closep(&zygote->fd[i]);
        zygote->fd[i] = -1;
    }
}

static void zygote_free(struct zygote *zygote)
{
    int fd = zygote->control.fd;

    if (zygote->pid > 0)
        kill(zygote->pid, SIGKILL);
    loop_remove(&zygote->warden->loop, &zygote->control);
    fd_closep(&fd);
    close_ends(zygote);
    zygote->warden->zygote = NULL;
    free(zygote);
}

/* No kernel is forked from it any more. */
static void zygote_drop(struct zygote *zygote)
{
    struct command *wanted = zygote->wanted;
    struct message_exec exec = zygote->exec;

    zygote_free(zygote);
    if (wanted)
        command_start_later(wanted, &exec);
}

/* ---- a kernel ---- */

static bool is_free_child(const struct warden *warden, pid_t pid)
{
    siginfo_t info = {0};

    for (const struct command *command = warden->commands; command; command = command->next) {
        if (command->pid == pid && !command->has_exited)
            return false;
    }
    return pid > 1 && pid != warden->zygote->pid &&
           waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

/* True when it is ready, or will never be. */
static bool arrived(struct zygote *zygote)
{
    struct command *command = zygote->wanted;

    if (!zygote->is_forked || zygote->joined == 0)
        return true;
    if (!is_free_child(zygote->warden, zygote->joined))
        return false;
    zygote->wanted = NULL;
    command->pid = zygote->joined;
    command->start_ns = clock_now_ns();
    command->has_started = command->is_forked = true;
    buf_free(&command->text);
    watch_somebody(zygote->warden);
    kernel_place(command->kernel, command->pid, zygote->fd);
    for (int i = 0; i < 3; i++)
        zygote->fd[i] = -1;
    command_tell_start(command);
    kernel_next(command->kernel);
    return true;
}

static int ask(struct zygote *zygote, bool is_prewarmed)
{
    struct zygote_request request = {
        .serial = ++zygote->serial,
        .fds = 1u << ZYGOTE_FD_SOCKET | 1u << ZYGOTE_FD_OUT | 1u << ZYGOTE_FD_ERR,
        .is_prewarmed = is_prewarmed,
    };
    int theirs[3];
    int r = spawn_ends(zygote->fd, theirs);

    if (r < 0)
        return r;
    zygote->is_forked = false;
    zygote->joined = 0;
    zygote->deadline_ns = clock_now_ns() + LIMIT_ZYGOTE_FORK_MS * UINT64_C(1000000);
    r = packet_send(zygote->control.fd, &request, sizeof(request), theirs, 3, MSG_DONTWAIT);
    for (int i = 0; i < 3; i++)
        close(theirs[i]);
    return r;
}

bool zygote_take(struct command *command, const struct message_exec *exec)
{
    struct warden *warden = command->warden;
    struct zygote *zygote = warden->zygote;

    if (!zygote || zygote->wanted)
        return false;
    if (zygote->is_ready && ask(zygote, false) < 0) {
        zygote_drop(zygote);
        return false;
    }
    zygote->wanted = command;
    zygote->exec = *exec;
    command->text = warden->args;
    warden->args = BUF_INIT(command->text.maximum);
    kernel_open(command, 0, (int[3]){-1, -1, -1});
    return true;
}

/* ---- messages of the zygote ---- */

/* False: the zygote broke the protocol. */
static bool take_word(struct zygote *zygote, const struct zygote_word *word)
{
    if (word->type == ZYGOTE_READY) {
        if (zygote->is_ready)
            return false;
        zygote->is_ready = true;
        /* Kernels that were requested before it was ready are not urgent. */
        return !zygote->wanted || ask(zygote, true) == 0;
    }
    if (!zygote->is_ready || !zygote->wanted || word->serial != zygote->serial)
        return false;
    if (word->type == ZYGOTE_FORKED && word->error == 0 && !zygote->is_forked)
        zygote->is_forked = true;
    else if (word->type == ZYGOTE_JOINED && zygote->joined == 0 && word->pid > 0)
        zygote->joined = word->pid;
    else
        return false;
    return arrived(zygote);
}

static void control_ready(struct loop_source *source, uint32_t events)
{
    struct zygote *zygote = (struct zygote *)((char *)source - offsetof(struct zygote, control));
    struct zygote_word word;
    ssize_t length;

    (void)events;
    /* One each turn. Descriptors that come along are not taken: the kernel closes them. */
    length = recv(source->fd, &word, sizeof(word), MSG_DONTWAIT | MSG_TRUNC);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (length != sizeof(word) || !take_word(zygote, &word))
        zygote_drop(zygote);
}

void zygote_look(struct warden *warden)
{
    struct zygote *zygote = warden->zygote;

    if (zygote && zygote->wanted && clock_now_ns() > zygote->deadline_ns)
        zygote_drop(zygote);
}

/* Its socket reports the rest; but its pid may be reused from now on. */
void zygote_exited(struct warden *warden, pid_t pid)
{
    if (warden->zygote && warden->zygote->pid == pid)
        warden->zygote->pid = 0;
}

/* ---- its beginning ---- */

/* Its output is dropped. A failed exec shows at its socket. */
static int watch_zygote(struct zygote *zygote, struct spawned *spawned)
{
    struct warden *warden = zygote->warden;
    int r;

    zygote->pid = spawned->pid;
    drain_take(warden, spawned->fd[1]);
    drain_take(warden, spawned->fd[2]);
    drain_take(warden, spawned->exec_fd);
    watch_somebody(warden);
    zygote->control.ready = control_ready;
    r = loop_add(&warden->loop, &zygote->control, spawned->socket_fd, EPOLLIN);
    if (r < 0)
        close(spawned->socket_fd);
    return r;
}

void zygote_start(struct warden *warden, const struct frame *frame)
{
    struct zygote *zygote = calloc(1, sizeof(*zygote));
    struct guest_start start = {.has_socket = true, .has_packets = true};
    struct spawned spawned;
    struct message_exec exec;
    int r;

    if (!zygote || warden->zygote || message_exec_unpack(frame, &exec) < 0 || frame->id != 0 ||
        exec.flags != 0)
        warden_end(warden);
    *zygote = (struct zygote){
        .warden = warden,
        .control.fd = -1,
        .fd = {-1, -1, -1},
        .deadline_ns = clock_now_ns() + LIMIT_ZYGOTE_START_MS * UINT64_C(1000000),
    };
    warden->zygote = zygote;
    r = command_spawn(warden, &exec, &warden->args, &start, &spawned);
    buf_clear(&warden->args);
    if (r == -EPROTO)
        warden_end(warden);
    if (r < 0 || watch_zygote(zygote, &spawned) < 0)
        zygote_free(zygote);
}
