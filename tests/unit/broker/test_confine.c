/*
 * test_confine.c - the broker's walls, tried from inside: a child puts them on and reports what
 * each attempt came to.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "broker/broker.h"
#include "scratch.h"
#include "sys/calls.h"

static struct scratch scratch;
static int listen_fd, tcp_fd, parent_pid_fd;
static pid_t parent;

/* What an attempt came to: 0, or the errno. */
static int came_to(long r)
{
    return r < 0 ? errno : 0;
}

/* A descriptor that was got is given back. */
static int came_to_fd(int fd)
{
    int r = came_to(fd);

    if (fd >= 0)
        close(fd);
    return r;
}

/* ---- processes and programs ---- */

static int try_fork(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    return came_to(pid);
}

static int try_clone(void)
{
    long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0)
        _exit(0);
    return came_to(pid);
}

/* The bit that makes a thread, in the half that the kernel does not look at. */
static int try_clone_high(void)
{
    long pid = syscall(SYS_clone, (uint64_t)CLONE_THREAD << 32 | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0)
        _exit(0);
    return came_to(pid);
}

static int try_clone3(void)
{
    return came_to(syscall(SYS_clone3, NULL, 0));
}

#ifdef SYS_fork
static int try_old_fork(void)
{
    long pid = syscall(SYS_fork);

    if (pid == 0)
        _exit(0);
    return came_to(pid);
}
#endif

static int try_exec(void)
{
    char *argv[] = {"true", NULL};

    return came_to(execve("/bin/true", argv, argv + 1));
}

static int try_execveat(void)
{
    char *argv[] = {"true", NULL};

    return came_to(syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, argv + 1, 0));
}

static int try_unshare(void)
{
    return came_to(unshare(CLONE_NEWUSER));
}

static int try_setns(void)
{
    return came_to(setns(parent_pid_fd, CLONE_NEWUSER));
}

/* ---- other processes ---- */

static int try_kill(void)
{
    return came_to(kill(parent, 0));
}

static int try_tkill(void)
{
    return came_to(syscall(SYS_tkill, parent, 0));
}

static int try_tgkill(void)
{
    return came_to(syscall(SYS_tgkill, parent, parent, 0));
}

static int try_tgkill_self(void)
{
    return came_to(syscall(SYS_tgkill, getpid(), gettid(), 0));
}

static int try_sigqueue(void)
{
    siginfo_t info = {.si_code = SI_QUEUE};

    return came_to(syscall(SYS_rt_sigqueueinfo, parent, SIGWINCH, &info));
}

static int try_tgsigqueue(void)
{
    siginfo_t info = {.si_code = SI_QUEUE};

    return came_to(syscall(SYS_rt_tgsigqueueinfo, parent, parent, SIGWINCH, &info));
}

static int try_pidfd_signal(void)
{
    return came_to(syscall(SYS_pidfd_send_signal, parent_pid_fd, 0, NULL, 0));
}

static int try_ptrace(void)
{
    return came_to(ptrace(PTRACE_SEIZE, parent, NULL, NULL));
}

static int try_vm_read(void)
{
    char byte;
    struct iovec to = {&byte, 1}, from = {&parent, 1};

    return came_to(syscall(SYS_process_vm_readv, parent, &to, 1, &from, 1, 0));
}

static int try_memory_file(void)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/mem", (int)parent);
    return came_to_fd(open(path, O_RDWR | O_CLOEXEC));
}

/* ---- sockets ---- */

static int try_socket_unix(void)
{
    return came_to_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static int try_socket_inet(void)
{
    return came_to_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

static int try_socket_pair(void)
{
    int pair[2];
    int r = socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair);

    return came_to(r);
}

static int try_packet_pair(void)
{
    int pair[2];

    return came_to(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
}

/* For WebSockets behind TLS; and it leads nowhere but to its other end. */
static int try_stream_pair(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int pair[2];
    int r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);

    if (r < 0)
        return errno;
    snprintf(to.sun_path, sizeof(to.sun_path), "%s", scratch_path(&scratch, "socket"));
    r = sendto(pair[0], "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof(to)) < 0 ? 0 : EBADE;
    close(pair[0]);
    close(pair[1]);
    return r;
}

static int try_connect(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};

    return came_to(connect(tcp_fd, (struct sockaddr *)&to, sizeof(to)));
}

static int try_bind(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET};

    return came_to(bind(tcp_fd, (struct sockaddr *)&to, sizeof(to)));
}

static int try_accept(void)
{
    return came_to_fd(accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

/* ---- files ---- */

static int open_in(const char *name, int flags)
{
    return came_to_fd(open(scratch_path(&scratch, name), flags | O_CLOEXEC, 0600));
}

static int try_read_outside(void)
{
    return open_in("outside/file", O_RDONLY);
}

static int try_write_outside(void)
{
    return open_in("outside/file", O_WRONLY);
}

static int try_create_outside(void)
{
    return open_in("outside/new", O_WRONLY | O_CREAT);
}

static int try_above(void)
{
    return open_in("write/../outside/file", O_RDONLY);
}

static int try_link_out(void)
{
    return open_in("write/link", O_RDONLY);
}

static int try_truncate_outside(void)
{
    return came_to(truncate(scratch_path(&scratch, "outside/file"), 0));
}

static int try_mkdir_outside(void)
{
    return came_to(mkdir(scratch_path(&scratch, "outside/folder"), 0700));
}

static int try_remove_outside(void)
{
    return came_to(unlink(scratch_path(&scratch, "outside/file")));
}

static int try_move_out(void)
{
    return came_to(
        rename(scratch_path(&scratch, "write/file"), scratch_path(&scratch, "outside/moved")));
}

static int try_move_in(void)
{
    return came_to(
        rename(scratch_path(&scratch, "outside/file"), scratch_path(&scratch, "write/moved")));
}

static int try_passwd(void)
{
    return came_to_fd(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
}

static int try_write_in_read(void)
{
    return open_in("read/file", O_WRONLY);
}

static int try_create_in_read(void)
{
    return open_in("read/new", O_WRONLY | O_CREAT);
}

static int try_read_in_read(void)
{
    return open_in("read/file", O_RDONLY);
}

static int try_work(void)
{
    int r = came_to(mkdir(scratch_path(&scratch, "write/folder"), 0700));

    r = r ? r : open_in("write/folder/new", O_RDWR | O_CREAT | O_EXCL);
    r = r ? r
          : came_to(rename(scratch_path(&scratch, "write/folder/new"),
                           scratch_path(&scratch, "write/new")));
    r = r ? r : came_to(truncate(scratch_path(&scratch, "write/new"), 100));
    r = r ? r : came_to(unlink(scratch_path(&scratch, "write/new")));
    return r ? r : came_to(rmdir(scratch_path(&scratch, "write/folder")));
}

static int try_own_proc(void)
{
    return came_to_fd(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
}

/* ---- what it still needs ---- */

static void *in_thread(void *ctx)
{
    *(int *)ctx = 1;
    return NULL;
}

static int try_thread(void)
{
    pthread_t thread;
    int ran = 0;
    int r = pthread_create(&thread, NULL, in_thread, &ran);

    if (r == 0)
        r = pthread_join(thread, NULL);
    return r ? r : ran ? 0 : ECHILD;
}

static int try_loop(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC), event_fd = eventfd(1, EFD_CLOEXEC);
    int r = came_to(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &event));

    r = r ? r : came_to(epoll_wait(epoll_fd, &event, 1, 0));
    r = r ? r : came_to_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    close(epoll_fd);
    close(event_fd);
    return r;
}

static int try_memory(void)
{
    char bytes[16];
    void *pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        return errno;
    munmap(pages, 1 << 20);
    return came_to(getrandom(bytes, sizeof(bytes), 0));
}

static int try_new_privileges(void)
{
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : EPERM;
}

enum { ALWAYS, LANDLOCK, LANDLOCK_MOVES };

static const struct attempt {
    const char *name;
    int (*try)(void);
    int expected;
    int needs;
} attempts[] = {
    {"fork", try_fork, EPERM, ALWAYS},
    {"clone", try_clone, EPERM, ALWAYS},
    {"clone, with a bit too high", try_clone_high, EPERM, ALWAYS},
    {"clone3", try_clone3, ENOSYS, ALWAYS},
#ifdef SYS_fork
    {"the old fork", try_old_fork, EPERM, ALWAYS},
#endif
    {"execve", try_exec, EPERM, ALWAYS},
    {"execveat", try_execveat, EPERM, ALWAYS},
    {"unshare", try_unshare, EPERM, ALWAYS},
    {"setns", try_setns, EPERM, ALWAYS},
    {"kill", try_kill, EPERM, ALWAYS},
    {"tkill", try_tkill, EPERM, ALWAYS},
    {"tgkill", try_tgkill, EPERM, ALWAYS},
    {"rt_sigqueueinfo", try_sigqueue, EPERM, ALWAYS},
    {"rt_tgsigqueueinfo", try_tgsigqueue, EPERM, ALWAYS},
    {"pidfd_send_signal", try_pidfd_signal, EPERM, ALWAYS},
    {"ptrace", try_ptrace, EPERM, ALWAYS},
    {"process_vm_readv", try_vm_read, EPERM, ALWAYS},
    {"the memory of another", try_memory_file, EACCES, LANDLOCK},
    {"socket, unix", try_socket_unix, EPERM, ALWAYS},
    {"socket, inet", try_socket_inet, EPERM, ALWAYS},
    {"socketpair, datagrams", try_socket_pair, EPERM, ALWAYS},
    {"socketpair, packets", try_packet_pair, EPERM, ALWAYS},
    {"connect", try_connect, EPERM, ALWAYS},
    {"bind", try_bind, EPERM, ALWAYS},
    {"reading outside", try_read_outside, EACCES, LANDLOCK},
    {"writing outside", try_write_outside, EACCES, LANDLOCK},
    {"creating outside", try_create_outside, EACCES, LANDLOCK},
    {"by the folder above", try_above, EACCES, LANDLOCK},
    {"by a link", try_link_out, EACCES, LANDLOCK},
    {"truncating outside", try_truncate_outside, EACCES, LANDLOCK_MOVES},
    {"a folder outside", try_mkdir_outside, EACCES, LANDLOCK},
    {"removing outside", try_remove_outside, EACCES, LANDLOCK},
    {"moving out", try_move_out, EACCES, LANDLOCK_MOVES},
    {"moving in", try_move_in, EACCES, LANDLOCK_MOVES},
    {"/etc/passwd", try_passwd, EACCES, LANDLOCK},
    {"writing where it reads", try_write_in_read, EACCES, LANDLOCK},
    {"creating where it reads", try_create_in_read, EACCES, LANDLOCK},
    {"a signal for itself", try_tgkill_self, 0, ALWAYS},
    {"socketpair, streams", try_stream_pair, 0, ALWAYS},
    {"accepting", try_accept, EAGAIN, ALWAYS},
    {"reading where it may", try_read_in_read, 0, ALWAYS},
    {"working where it may", try_work, 0, ALWAYS},
    {"its own proc", try_own_proc, 0, ALWAYS},
    {"a thread", try_thread, 0, ALWAYS},
    {"a loop", try_loop, 0, ALWAYS},
    {"memory", try_memory, 0, ALWAYS},
    {"no new privileges", try_new_privileges, 0, ALWAYS},
};

static int open_folder(const char *name)
{
    int fd = open(scratch_path(&scratch, name), O_PATH | O_DIRECTORY | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static int setup(void **state)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    (void)state;
    scratch_make(&scratch);
    for (size_t i = 0; i < 3; i++)
        scratch_folder(&scratch, (const char *const[]){"write", "read", "outside"}[i]);
    scratch_write(&scratch, "write/file", "w");
    scratch_write(&scratch, "read/file", "r");
    scratch_write(&scratch, "outside/file", "o");
    assert_int_equal(
        symlink(scratch_path(&scratch, "outside/file"), scratch_path(&scratch, "write/link")), 0);
    snprintf(name.sun_path, sizeof(name.sun_path), "%s", scratch_path(&scratch, "socket"));
    listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listen_fd, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(listen(listen_fd, 1), 0);
    tcp_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    parent = getpid();
    parent_pid_fd = (int)syscall(SYS_pidfd_open, parent, 0);
    assert_true(parent_pid_fd >= 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(listen_fd);
    close(tcp_fd);
    close(parent_pid_fd);
    scratch_remove(&scratch);
    return 0;
}

static _Noreturn void child(int results_fd)
{
    int write_fd = open_folder("write"), read_fd = open_folder("read");
    struct confine_spec spec = {
        .write_fds = &write_fd, .write_count = 1, .read_fds = &read_fd, .read_count = 1};
    int results[ARRAY_SIZE(attempts)];
    struct error err = {0};

    if (broker_confine_calls(&err) < 0 || broker_confine_files(&spec, &err) < 0)
        _exit(2);
    for (size_t i = 0; i < ARRAY_SIZE(attempts); i++)
        results[i] = attempts[i].try();
    _exit(write(results_fd, results, sizeof(results)) == (ssize_t)sizeof(results) ? 0 : 3);
}

static void test_walls(void **state)
{
    int abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    int results[ARRAY_SIZE(attempts)];
    int pipe_fds[2], status, wrong = 0;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child(pipe_fds[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(read(pipe_fds[0], results, sizeof(results)), sizeof(results));
    for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
        if (results[i] == attempts[i].expected || (attempts[i].needs == LANDLOCK && abi < 1) ||
            (attempts[i].needs == LANDLOCK_MOVES && abi < 3))
            continue;
        print_error("%s: %s\n", attempts[i].name, strerror(results[i]));
        wrong++;
    }
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    assert_int_equal(wrong, 0);
}

/* Its own end stays what it is, so that a log says how it died. */
static void test_abort_is_seen(void **state)
{
    struct error err = {0};
    int status;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        if (broker_confine_calls(&err) < 0)
            _exit(2);
        abort();
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walls),
        cmocka_unit_test(test_abort_is_seen),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
