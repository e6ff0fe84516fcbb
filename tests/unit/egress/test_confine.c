/*
 * test_confine.c - the proxy's walls, tried from inside: a child puts them on and reports what each
 * attempt came to.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "egress/egress.h"
#include "scratch.h"

static struct scratch scratch;
static int tcp_fd;
static pid_t parent;

static int came_to(long r)
{
    return r < 0 ? errno : 0;
}

static int came_to_fd(int fd)
{
    int r = came_to(fd);

    if (fd >= 0)
        close(fd);
    return r;
}

static int try_exec(void)
{
    char *argv[] = {"true", NULL};

    return came_to(execve("/bin/true", argv, argv + 1));
}

static int try_fork(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    return came_to(pid);
}

static int try_kill(void)
{
    return came_to(kill(parent, 0));
}

static int try_ptrace(void)
{
    return came_to(ptrace(PTRACE_ATTACH, parent, NULL, NULL));
}

static int try_unshare(void)
{
    return came_to(unshare(CLONE_NEWUSER));
}

static int try_unix(void)
{
    return came_to_fd(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int try_netlink(void)
{
    return came_to_fd(socket(AF_NETLINK, SOCK_RAW, 0));
}

static int try_raw(void)
{
    return came_to_fd(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
}

static int try_bind(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r = came_to(bind(fd, (struct sockaddr *)&address, sizeof(address)));

    close(fd);
    return r;
}

static int try_write(void)
{
    return came_to_fd(open(scratch_path(&scratch, "new"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static int try_read_elsewhere(void)
{
    return came_to_fd(open(scratch_path(&scratch, "secret"), O_RDONLY | O_CLOEXEC));
}

/* ---- what it needs ---- */

static int try_connect(void)
{
    struct sockaddr_in address;
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r;

    getsockname(tcp_fd, (struct sockaddr *)&address, &size);
    r = came_to(connect(fd, (struct sockaddr *)&address, size));
    close(fd);
    return r;
}

static void *resolve(void *ret)
{
    struct addrinfo *list = NULL;

    *(int *)ret = getaddrinfo("localhost", NULL, NULL, &list);
    if (list)
        freeaddrinfo(list);
    return NULL;
}

/* In a thread, as libuv does it. */
static int try_resolve(void)
{
    pthread_t thread;
    int result = -1;

    if (pthread_create(&thread, NULL, resolve, &result) != 0)
        return EAGAIN;
    pthread_join(thread, NULL);
    return result;
}

static const struct {
    const char *name;
    int (*attempt)(void);
    int expected, or_else;
    bool needs_landlock;
} attempts[] = {
    {"exec", try_exec, EPERM, 0, false},
    {"fork", try_fork, EPERM, 0, false},
    {"kill", try_kill, EPERM, 0, false},
    {"ptrace", try_ptrace, EPERM, 0, false},
    {"unshare", try_unshare, EPERM, 0, false},
    {"unix socket", try_unix, EAFNOSUPPORT, 0, false},
    {"netlink socket", try_netlink, EAFNOSUPPORT, 0, false},
    {"raw socket", try_raw, EPERM, EPROTONOSUPPORT, false},
    {"bind", try_bind, EPERM, 0, false},
    {"write a file", try_write, EACCES, 0, true},
    {"read a file", try_read_elsewhere, EACCES, 0, true},
    {"connect", try_connect, 0, 0, false},
    {"resolve", try_resolve, 0, 0, false},
};

static void test_walls(void **state)
{
    bool has_landlock = syscall(SYS_landlock_create_ruleset, NULL, 0, 1) > 0;
    int results[ARRAY_SIZE(attempts)], pipe_fd[2], status;
    pid_t child;

    (void)state;
    assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
    parent = getpid();
    child = fork();
    if (child == 0) {
        struct error err = {0};

        if (egress_confine_calls("a test", false, &err) < 0 ||
            egress_confine_files("a test", &err) < 0)
            _exit(1);
        for (size_t i = 0; i < ARRAY_SIZE(attempts); i++)
            results[i] = attempts[i].attempt();
        _exit(write(pipe_fd[1], results, sizeof(results)) == sizeof(results) ? 0 : 2);
    }
    close(pipe_fd[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(pipe_fd[0], results, sizeof(results)), sizeof(results));
    close(pipe_fd[0]);
    for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
        if (attempts[i].needs_landlock && !has_landlock)
            continue;
        if (results[i] != attempts[i].expected &&
            !(attempts[i].or_else && results[i] == attempts[i].or_else))
            fail_msg("%s: %s", attempts[i].name, strerror(results[i]));
    }
}

static int setup(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    (void)state;
    scratch_make(&scratch);
    scratch_write(&scratch, "secret", "x");
    tcp_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(tcp_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(tcp_fd, 4), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(tcp_fd);
    scratch_remove(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_walls, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
