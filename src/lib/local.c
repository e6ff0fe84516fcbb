/*
 * local.c - boxes made by the library itself: executes the program that it carries, and moves bytes
 * between it and the job.
 *
 * The caller may have any threads, handlers, descriptors and secrets, and a box's first process is
 * a fork of the one that makes it: so that one is a program of its own, without any of them. It
 * is started as posix_spawn(3) starts one: the child shares the caller's memory and the calling
 * thread sleeps until it has executed, so everything is prepared before clone(2) and the child
 * makes system calls only. Its pidfd is the only name by which it is waited for.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/reactor.h"
#include "lib/lib_private.h"
#include "maker/maker.h"
#include "sys/calls.h"

#define STACK_BYTES ((size_t)64 * KIB)
#define PIECE ((size_t)64 * KIB)
#define ABOVE 16 /* where descriptors are put out of the way of the final numbers */
#define END_PATIENCE_MS (BRINGUP_PATIENCE_MS + KILL_PATIENCE_MS)
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3; without it vm.memfd_noexec may take the right away */
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* box_program.c */
extern const char box_program[], box_program_end[];

int local_program(int *ret_fd, struct error *err)
{
    CLEANUP(fd_closep)
    int fd = memfd_create(MAKER_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(MAKER_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_errno(err, "making memory for the program that makes boxes (memfd_create)");
    if (fd_write_all(fd, box_program, (size_t)(box_program_end - box_program)) < 0 ||
        fchmod(fd, 0500) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return error_errno(err, "writing the program that makes boxes");
    *ret_fd = fd_take(&fd);
    return 0;
}

/* ---- starting ---- */

struct spawn {
    int channel_fd, program_fd; /* numbers from ABOVE on */
    char *const *env;
    int error; /* of the child, in the memory that both share */
};

/* Whether the caller has it, and lets programs that it executes have it. */
static bool has_stderr(void)
{
    int flags = fcntl(2, F_GETFD);

    return flags >= 0 && !(flags & FD_CLOEXEC);
}

/* System calls only. The standard error stays as it is, if there is one. */
static int prepare_descriptors(const struct spawn *spawn)
{
    int low_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int null_fd = low_fd < 0 ? -1 : fcntl(low_fd, F_DUPFD_CLOEXEC, ABOVE);

    if (null_fd < 0)
        return -1;
    for (int fd = 0; fd <= 2; fd++) {
        if ((fd < 2 || !has_stderr()) && dup3(null_fd, fd, 0) < 0)
            return -1;
    }
    if (dup3(spawn->channel_fd, MAKER_FD, 0) < 0 ||
        dup3(spawn->program_fd, MAKER_PROGRAM_FD, O_CLOEXEC) < 0)
        return -1;
    return sys_close_range(MAKER_PROGRAM_FD + 1, ~0U, 0);
}

static int child(void *ctx)
{
    struct spawn *spawn = ctx;
    char name[] = MAKER_NAME;
    char *argv[] = {name, NULL};

    if (prepare_descriptors(spawn) == 0)
        syscall(SYS_execveat, MAKER_PROGRAM_FD, "", argv, spawn->env, AT_EMPTY_PATH);
    spawn->error = errno;
    _exit(127);
}

/* With every signal blocked, those that libc keeps to itself too: no handler runs in the child. */
static int clone_child(struct spawn *spawn, char *stack, int *ret_pid_fd)
{
    uint64_t all = ~UINT64_C(0), before = 0;
    pid_t pid;
    int error;

    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
    pid = clone(child, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, spawn,
                ret_pid_fd);
    error = pid < 0 ? errno : spawn->error;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(all));
    return pid < 0 ? -error : 0;
}

/* Waits for the maker alone. Ignored children are reaped by the kernel: then it is gone, too. */
static void reap(int pid_fd)
{
    siginfo_t info;

    while (waitid((idtype_t)P_PIDFD, (id_t)pid_fd, &info, WEXITED) < 0 && errno == EINTR)
        ;
}

static int spawn_maker(struct bailey_job *job, int channel_fd, struct error *err)
{
    CLEANUP(freep) char *stack = aligned_alloc(16, STACK_BYTES);
    CLEANUP(fd_closep) int channel = fcntl(channel_fd, F_DUPFD_CLOEXEC, ABOVE);
    CLEANUP(fd_closep) int program = fcntl(job->engine->program_fd, F_DUPFD_CLOEXEC, ABOVE);
    struct spawn spawn = {.channel_fd = channel, .program_fd = program, .env = environ};
    int r;

    if (!stack)
        return error_memory(err);
    if (channel < 0 || program < 0)
        return error_errno(err, "starting the program that makes boxes");
    r = clone_child(&spawn, stack, &job->pid_fd);
    if (r < 0) {
        errno = -r;
        return error_errno(err, "starting the program that makes boxes");
    }
    if (spawn.error == 0)
        return 0;
    reap(job->pid_fd);
    fd_closep(&job->pid_fd);
    errno = spawn.error;
    return error_errno(err, "executing the program that makes boxes from memory%s",
                       spawn.error == EACCES ? " (is vm.memfd_noexec set?)" : "");
}

/* ---- talking ---- */

static void lost(struct bailey_job *job, int num)
{
    struct error err = {0};

    error_set(&err, num, ERROR_BOX_LOST, "the program that makes the box has ended too early");
    job_end(job, &err);
}

/* 1: all of it is sent. */
static int send_some(struct bailey_job *job)
{
    while (job->request.length > 0) {
        ssize_t length = send(job->fd, buf_text(&job->request), job->request.length,
                              MSG_NOSIGNAL | MSG_DONTWAIT);

        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0)
            return errno == EAGAIN ? 0 : -errno;
        buf_consume(&job->request, (size_t)length);
    }
    return 1;
}

/* 0 at the end, -EAGAIN: nothing more now. */
static ssize_t receive_some(struct bailey_job *job)
{
    char data[PIECE];
    ssize_t length = recv(job->fd, data, sizeof(data), MSG_DONTWAIT);

    if (length < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    if (length > 0 && job_take(job, data, (size_t)length) < 0)
        return -EPROTO;
    return length;
}

static void on_ready(void *ctx, short events)
{
    struct bailey_job *job = ctx;
    ssize_t length;

    if (job->request.length > 0 && events & POLLOUT && send_some(job) != 0) {
        buf_clear(&job->request); /* one that is refused may not be read to its end */
        turner_reactor(job->engine->turner)->ops->watch_change(job->watch, POLLIN);
    }
    length = receive_some(job);
    if (length > 0 || length == -EAGAIN)
        return;
    if (length < 0)
        lost(job, (int)length);
    else
        job_end(job, &(struct error){0});
}

static int make_request(struct bailey_job *job, const struct job_spec *spec, struct error *err)
{
    struct maker_head head = {.magic = MAKER_MAGIC, .length = (uint32_t)spec->body_length};

    if (spec->body_length > MAKER_REQUEST_MAX)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE, "the run has more than %u MB",
                         MAKER_REQUEST_MAX >> 20);
    if (buf_append(&job->request, &head, sizeof(head)) < 0 ||
        buf_append(&job->request, spec->body, spec->body_length) < 0)
        return error_memory(err);
    return 0;
}

int local_start(struct bailey_job *job, const struct job_spec *spec, struct error *err)
{
    struct reactor *reactor = turner_reactor(job->engine->turner);
    CLEANUP(fd_closep) int ours = -1;
    CLEANUP(fd_closep) int theirs = -1;
    int pair[2], r = make_request(job, spec, err);

    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the channel to the program that makes boxes");
    ours = pair[0];
    theirs = pair[1];
    job->is_stream = true;
    r = spawn_maker(job, theirs, err);
    if (r < 0)
        return r;
    job->fd = fd_take(&ours);
    job->watch = reactor_watch(reactor, job->fd, POLLIN | POLLOUT, on_ready, job);
    return job->watch ? 0 : error_memory(err);
}

void local_cancel(struct bailey_job *job)
{
    shutdown(job->fd, SHUT_WR); /* it ends the box, and says how that went */
}

void local_drop(struct bailey_job *job)
{
    struct pollfd gone = {.fd = job->pid_fd, .events = POLLIN};
    int ready;

    if (job->watch)
        turner_reactor(job->engine->turner)->ops->watch_remove(job->watch);
    job->watch = NULL;
    fd_closep(&job->fd); /* the maker sees it, and ends its box */
    if (job->pid_fd < 0)
        return;
    do
        ready = poll(&gone, 1, END_PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        sys_pidfd_send_signal(job->pid_fd, SIGKILL); /* its box ends with it */
    reap(job->pid_fd);
    fd_closep(&job->pid_fd);
}
