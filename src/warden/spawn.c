/* spawn.c - starts a guest: pipes or a terminal, fork, and the message that its program runs. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "warden/warden_private.h"

#define GUEST_OOM_SCORE "500" /* the kernel takes the guest before the warden */

static int make_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC) < 0 ? -errno : 0;
}

/*
 * In the child, which may share our memory until its exec: it reads the plan and makes system
 * calls. Every guest stage but the exec comes before the time is taken: they are our own work.
 */
static _Noreturn void become_guest(const struct sandbox *sandbox, const struct guest_start *start)
{
    struct exec_failure failure = {0};
    int r = sandbox_enter_guest(sandbox, start, &failure.stage);

    failure.error = (uint16_t)-r;
    fd_write_all(start->note_fd, &failure, sizeof(failure));
    _exit(127);
}

/* If oom_score_adj cannot be written, the guest keeps the warden's value. */
static void oom_score(const struct sandbox *sandbox, const char *score)
{
    if (sandbox->oom_fd >= 0 && pwrite(sandbox->oom_fd, score, strlen(score), 0) < 0)
        return;
}

struct pipes {
    int in[2], out[2], err[2], note[2], socket[2];
};

static void close_pipes(struct pipes *pipes)
{
    int *ends = (int *)pipes;

    for (size_t i = 0; i < sizeof(*pipes) / sizeof(int); i++)
        fd_closep(&ends[i]);
}

static int open_pipes(struct pipes *pipes, bool has_stdin)
{
    int r = 0;

    if (has_stdin) {
        r = make_pipe(pipes->in);
    } else {
        pipes->in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (pipes->in[0] < 0)
            r = -errno;
    }
    if (r == 0)
        r = make_pipe(pipes->out);
    if (r == 0)
        r = make_pipe(pipes->err);
    return r;
}

/* Our end twice, since the loop knows a source by its descriptor: one to write, one to read. */
static int open_terminal(struct pipes *pipes, const struct sandbox *sandbox,
                         const struct message_size *terminal)
{
    int r = pty_pair_open(sandbox, terminal, &pipes->out[0], &pipes->in[0]);

    if (r < 0)
        return r;
    pipes->in[1] = fcntl(pipes->out[0], F_DUPFD_CLOEXEC, 0);
    return pipes->in[1] < 0 ? -errno : 0;
}

/* The guest's end becomes its descriptor 3: what the child needs until then is not there. */
static int open_socket(struct pipes *pipes, int type)
{
    int moved;

    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pipes->socket) < 0)
        return -errno;
    if (pipes->note[1] != 3)
        return 0;
    moved = fcntl(3, F_DUPFD_CLOEXEC, 4);
    if (moved < 0)
        return -errno;
    close(3);
    pipes->note[1] = moved;
    return 0;
}

int spawn_guest(const struct sandbox *sandbox, const struct guest_start *wanted, bool has_stdin,
                const struct message_size *terminal, bool is_first, struct spawned *ret)
{
    CLEANUP(close_pipes)
    struct pipes pipes = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    struct guest_start start = *wanted;
    pid_t pid;
    int r = terminal ? open_terminal(&pipes, sandbox, terminal) : open_pipes(&pipes, has_stdin);

    if (r == 0)
        r = make_pipe(pipes.note);
    if (r == 0 && start.has_socket)
        r = open_socket(&pipes, start.has_packets ? SOCK_SEQPACKET : SOCK_STREAM);
    if (r < 0)
        return r;
    start.stdio[0] = pipes.in[0];
    start.stdio[1] = terminal ? pipes.in[0] : pipes.out[1];
    start.stdio[2] = terminal ? pipes.in[0] : pipes.err[1];
    start.note_fd = pipes.note[1];
    start.socket_fd = pipes.socket[1];
    oom_score(sandbox, GUEST_OOM_SCORE); /* inherited by the child */
    pid = is_first ? vfork() : fork();
    if (pid == 0)
        become_guest(sandbox, &start);
    r = -errno;
    oom_score(sandbox, sandbox->oom_score);
    if (pid < 0)
        return r;
    /* The change of ids in a child that shares our memory set the flag to fs.suid_dumpable. */
    if (is_first)
        prctl(PR_SET_DUMPABLE, 0);
    ret->pid = pid;
    ret->fd[0] = fd_take(&pipes.in[1]);
    ret->fd[1] = fd_take(&pipes.out[0]);
    ret->fd[2] = fd_take(&pipes.err[0]);
    ret->socket_fd = fd_take(&pipes.socket[0]);
    ret->exec_fd = fd_take(&pipes.note[0]);
    for (int i = 0; i < 3; i++) {
        if (ret->fd[i] >= 0)
            fd_set_nonblocking(ret->fd[i], true);
    }
    fd_set_nonblocking(ret->exec_fd, true);
    return 0;
}

int spawn_ends(int ret_ours[3], int ret_theirs[3])
{
    CLEANUP(close_pipes)
    struct pipes pipes = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    int r = open_pipes(&pipes, false);

    if (r == 0)
        r = open_socket(&pipes, SOCK_STREAM);
    if (r < 0)
        return r;
    ret_ours[0] = fd_take(&pipes.socket[0]);
    ret_ours[1] = fd_take(&pipes.out[0]);
    ret_ours[2] = fd_take(&pipes.err[0]);
    ret_theirs[0] = fd_take(&pipes.socket[1]);
    ret_theirs[1] = fd_take(&pipes.out[1]);
    ret_theirs[2] = fd_take(&pipes.err[1]);
    return 0;
}
