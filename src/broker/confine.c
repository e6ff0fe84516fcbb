/*
 * confine.c - the broker's own confinement: system calls first, files once they are open.
 *
 * The broker talks to clients and reads what wardens send, so it is the process most likely to be
 * compromised. It needs little: its descriptors, files beneath eight folders, memory, the clock.
 *
 * Two steps, and their order matters. broker_confine_calls() runs before any library is used: no
 * new privileges, the guest's system call filter, and a second filter that leaves no way to make a
 * process or a socket. A library that probes for a kernel facility then finds what it will really
 * have. libuv 1.45 and later make an io_uring in uv_loop_init() and abort when a filter that comes
 * afterwards refuses to let them use it; refused at its set-up, they use epoll alone.
 * broker_confine_files() runs when everything is open: Landlock (the folders, libraries to read, no
 * TCP, no abstract sockets or signals outside). Landlock applies to what is opened later, so it
 * takes nothing away from a library. Without Landlock in the kernel the broker logs a warning and
 * continues.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "broker/broker.h"
#include "sandbox/filter.h"
#include "sys/calls.h"

#define READ_RIGHTS \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

static int allow_fd(int ruleset_fd, int fd, uint64_t rights)
{
    struct landlock_path_beneath_attr attr = {.allowed_access = rights, .parent_fd = fd};

    return sys_landlock_add_rule(ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &attr) < 0 ? -errno : 0;
}

static int allow_path(int ruleset_fd, const char *path, uint64_t rights)
{
    CLEANUP(fd_closep) int fd = open(path, O_PATH | O_CLOEXEC);

    return fd < 0 ? 0 : allow_fd(ruleset_fd, fd, rights);
}

static int put_on_landlock(const struct confine_spec *spec)
{
    /* /proc: SQLite and artifacts name their folders by descriptor, through /proc/self/fd. */
    static const char *const readable[] = {"/usr", "/lib", "/lib64", "/proc", "/etc/localtime"};
    int abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    struct landlock_attr attr = {0};
    CLEANUP(fd_closep) int fd = -1;
    size_t size = sizeof(attr.handled_access_fs);
    int r = 0;

    if (abi < 0)
        return -errno;
    attr.handled_access_fs = landlock_rights(abi);
    if (abi >= 4) {
        attr.handled_access_net = LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP;
        size = offsetof(struct landlock_attr, scoped);
    }
    if (abi >= 6) {
        attr.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_BIT | LANDLOCK_SCOPE_SIGNAL_BIT;
        size = sizeof(attr);
    }
    fd = sys_landlock_create_ruleset(&attr, size, 0);
    if (fd < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_SIZE(readable) && r == 0; i++)
        r = allow_path(fd, readable[i],
                       i == 4 ? LANDLOCK_ACCESS_FS_READ_FILE
                              : READ_RIGHTS & ~(uint64_t)LANDLOCK_ACCESS_FS_EXECUTE);
    for (size_t i = 0; i < spec->write_count && r == 0; i++)
        r = allow_fd(fd, spec->write_fds[i],
                     attr.handled_access_fs & ~(uint64_t)LANDLOCK_ACCESS_FS_EXECUTE);
    for (size_t i = 0; i < spec->read_count && r == 0; i++)
        r = allow_fd(fd, spec->read_fds[i], READ_RIGHTS & ~(uint64_t)LANDLOCK_ACCESS_FS_EXECUTE);
    if (r == 0 && sys_landlock_restrict_self(fd) < 0)
        r = -errno;
    return r;
}

#define LOAD(field) \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
/* A call that fails with EPERM. */
#define REFUSE(call)                                             \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(call), 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

/* The calls that make a process or reach another one, a program, or a socket. */
static const struct sock_filter no_processes[] = {
    LOAD(nr), /* the filter below has checked the architecture */
    REFUSE(SYS_execve),
    REFUSE(SYS_execveat),
#ifdef SYS_fork
    REFUSE(SYS_fork),
    REFUSE(SYS_vfork),
#endif
    REFUSE(SYS_kill),
    REFUSE(SYS_tkill),
    REFUSE(SYS_rt_sigqueueinfo),
    REFUSE(SYS_rt_tgsigqueueinfo),
    REFUSE(SYS_pidfd_send_signal),
    REFUSE(SYS_ptrace),
    REFUSE(SYS_process_vm_readv),
    REFUSE(SYS_process_vm_writev),
    REFUSE(SYS_socket),
    REFUSE(SYS_connect),
    REFUSE(SYS_bind),
    REFUSE(SYS_setns),
    REFUSE(SYS_unshare),
    /*
     * One end of a datagram pair can be pointed at any named socket; a stream's cannot, and
     * libmicrohttpd makes one for each WebSocket over TLS.
     */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_socketpair, 0, 5),
    LOAD(args[1]),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    /* glibc then uses clone(2), whose flags can be checked: a thread, or nothing. */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_clone3, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_clone, 0, 3),
    LOAD(args[0]), /* little endian: the low half */
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

/* abort(3) signals itself by tgkill(2): its own threads only. */
static int put_on_own_signals(void)
{
    const struct sock_filter only_own[] = {
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)SYS_tgkill, 0, 3),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = ARRAY_SIZE(only_own),
                                 .filter = (struct sock_filter *)only_own};

    return sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

static int put_on_filters(void)
{
    struct sock_fprog guest = {.len = filter_guest.length,
                               .filter = (struct sock_filter *)filter_guest.code};
    struct sock_fprog own = {.len = ARRAY_SIZE(no_processes),
                             .filter = (struct sock_filter *)no_processes};
    int r;

    if (sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &own) < 0)
        return -errno;
    r = put_on_own_signals();
    if (r == 0 && sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &guest) < 0)
        r = -errno;
    return r;
}

int broker_confine_calls(struct error *err)
{
    int r;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_errno(err, "giving up new privileges");
    r = put_on_filters();
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "the broker's system call filter: %s", strerror(-r));
    return 0;
}

int broker_confine_files(const struct confine_spec *spec, struct error *err)
{
    int r = put_on_landlock(spec);

    if (r == -ENOSYS || r == -EOPNOTSUPP)
        log_warning("this kernel has no Landlock, continuing without it around the broker");
    else if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "Landlock around the broker: %s", strerror(-r));
    return 0;
}
