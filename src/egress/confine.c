/*
 * confine.c - the proxy's own confinement: system calls first, files once the event loop exists.
 *
 * It reads what boxes and servers send, so it may be compromised. What it needs is little: to
 * accept, to connect, to resolve names. egress_confine_calls() comes before any library is used: no
 * new privileges, and a filter above the guest's: no processes, no programs, only inet sockets.
 * libuv 1.45 and later would make an io_uring in uv_loop_init() and abort when a filter that comes
 * afterwards refuses its use (see broker/confine.c). egress_confine_files() comes when everything
 * is open: Landlock (what getaddrinfo reads, nothing to write, no TCP port of its own, no signals
 * or abstract sockets outside).
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
#include "egress/egress.h"
#include "sandbox/filter.h"
#include "sys/calls.h"

/*
 * Folders, not files: resolv.conf is replaced when the host changes its network, and a rule applies
 * to the file that existed then. All of them are world-readable; our id opens nothing else.
 */
static const char *const readable[] = {
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
};

static int put_on_landlock(void)
{
    int abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    struct landlock_attr attr = {0};
    CLEANUP(fd_closep) int fd = -1;
    size_t size = sizeof(attr.handled_access_fs);

    if (abi < 0)
        return -errno;
    attr.handled_access_fs = landlock_rights(abi);
    if (abi >= 4) {
        attr.handled_access_net = LANDLOCK_ACCESS_NET_BIND_TCP;
        size = offsetof(struct landlock_attr, scoped);
    }
    if (abi >= 6) {
        attr.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_BIT | LANDLOCK_SCOPE_SIGNAL_BIT;
        size = sizeof(attr);
    }
    fd = sys_landlock_create_ruleset(&attr, size, 0);
    if (fd < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_SIZE(readable); i++) {
        CLEANUP(fd_closep) int folder = open(readable[i], O_PATH | O_CLOEXEC);
        struct landlock_path_beneath_attr rule = {.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE |
                                                                    LANDLOCK_ACCESS_FS_READ_DIR,
                                                  .parent_fd = folder};

        if (folder >= 0 && sys_landlock_add_rule(fd, LANDLOCK_RULE_PATH_BENEATH, &rule) < 0)
            return -errno;
    }
    return sys_landlock_restrict_self(fd) < 0 ? -errno : 0;
}

/* Calls that make a process, reach another one, or open another way out. */
static const int refused[] = {
    SYS_execve,
    SYS_execveat,
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_send_signal,
    SYS_pidfd_open,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_bind,
    SYS_setns,
    SYS_unshare,
    SYS_mount,
};

#define LOAD(field) \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), yes, no)
#define ANSWER(errno_) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (errno_))
#define ALLOWED BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static int put_on(const struct sock_filter *code, size_t length)
{
    struct sock_fprog program = {.len = (unsigned short)length,
                                 .filter = (struct sock_filter *)code};

    return sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

static int put_on_own_filter(bool has_pairs)
{
    struct sock_filter code[4 + 2 * ARRAY_SIZE(refused)] = {LOAD(nr)};
    size_t length = 1;

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        code[length++] = (struct sock_filter)IS(refused[i], 0, 1);
        code[length++] = (struct sock_filter)ANSWER(EPERM);
    }
    if (!has_pairs) {
        code[length++] = (struct sock_filter)IS(SYS_socketpair, 0, 1);
        code[length++] = (struct sock_filter)ANSWER(EPERM);
    }
    code[length++] = (struct sock_filter)ALLOWED;
    return put_on(code, length);
}

/* Little endian: the low half of an argument, which is all that the kernel takes of these. */
static int put_on_arguments(void)
{
    const struct sock_filter code[] = {
        LOAD(nr), /* the guest's filter checks the architecture */
        /* glibc then uses clone(2), whose flags can be checked: a thread, or nothing. */
        IS(SYS_clone3, 0, 1),
        ANSWER(ENOSYS),
        IS(SYS_clone, 0, 4),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
        ANSWER(EPERM),
        ALLOWED,
        IS(SYS_socket, 0, 5),
        LOAD(args[0]),
        IS(AF_INET, 2, 0),
        IS(AF_INET6, 1, 0),
        ANSWER(EAFNOSUPPORT), /* unix: nscd and the like; getaddrinfo works without them */
        ALLOWED,
        IS(SYS_tgkill, 0, 4), /* abort(3) signals itself */
        LOAD(args[0]),
        IS(getpid(), 1, 0),
        ANSWER(EPERM),
        ALLOWED,
        ALLOWED,
    };

    return put_on(code, ARRAY_SIZE(code));
}

static int put_on_filters(bool has_pairs)
{
    int r = put_on_own_filter(has_pairs);

    if (r == 0)
        r = put_on_arguments();
    if (r == 0)
        r = put_on(filter_guest.code, filter_guest.length);
    return r;
}

int egress_confine_calls(const char *who, bool has_pairs, struct error *err)
{
    int r;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_errno(err, "giving up new privileges");
    r = put_on_filters(has_pairs);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "%s: its system call filter: %s", who, strerror(-r));
    return 0;
}

int egress_confine_files(const char *who, struct error *err)
{
    int r = put_on_landlock();

    if (r == -ENOSYS || r == -EOPNOTSUPP)
        log_warning("this kernel has no Landlock, continuing without it around %s", who);
    else if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "Landlock around %s: %s", who, strerror(-r));
    return 0;
}
