/*
 * calls.h - system calls that libc lacks or types badly. Each is the bare call: -1 and errno.
 *
 * The mount calls are here too, because <sys/mount.h> and <linux/mount.h> cannot both be included
 * with glibc 2.36. Safe between clone and exec: nothing allocates or locks.
 *
 * Runs in: every process
 */
#ifndef BAILEY_SYS_CALLS_H
#define BAILEY_SYS_CALLS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/ioctl.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MNT_DETACH
#define MNT_DETACH 2
#endif
#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15)
#endif
#ifndef LANDLOCK_ACCESS_NET_BIND_TCP
#define LANDLOCK_ACCESS_NET_BIND_TCP (1ULL << 0) /* ABI 4 */
#define LANDLOCK_ACCESS_NET_CONNECT_TCP (1ULL << 1)
#endif
#define LANDLOCK_SCOPE_ABSTRACT_UNIX_BIT (1ULL << 0) /* ABI 6 */
#define LANDLOCK_SCOPE_SIGNAL_BIT (1ULL << 1)        /* ABI 6 */

/* The ruleset attributes of ABI 6; older kernels take a prefix of it. */
struct landlock_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

static inline int sys_mount(const char *source, const char *target, const char *type,
                            unsigned long flags, const char *data)
{
    return (int)syscall(SYS_mount, source, target, type, flags, data);
}

static inline int sys_umount2(const char *target, int flags)
{
    return (int)syscall(SYS_umount2, target, flags);
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int sys_open_tree(int dir_fd, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dir_fd, path, flags);
}

static inline int sys_move_mount(int from_fd, const char *from, int to_fd, const char *to,
                                 unsigned flags)
{
    return (int)syscall(SYS_move_mount, from_fd, from, to_fd, to, flags);
}

static inline int sys_mount_setattr(int dir_fd, const char *path, unsigned flags,
                                    struct mount_attr *attr)
{
    return (int)syscall(SYS_mount_setattr, dir_fd, path, flags, attr, sizeof(*attr));
}

static inline int sys_openat2(int dir_fd, const char *path, struct open_how *how)
{
    return (int)syscall(SYS_openat2, dir_fd, path, how, sizeof(*how));
}

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* Linux 6.6; the same number everywhere */
#endif

static inline int sys_fchmodat2(int dir_fd, const char *path, mode_t mode, unsigned flags)
{
    return (int)syscall(SYS_fchmodat2, dir_fd, path, mode, flags);
}

static inline int sys_renameat2(int from_fd, const char *from, int to_fd, const char *to,
                                unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

static inline int sys_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static inline int sys_pidfd_send_signal(int pid_fd, int signal)
{
    return (int)syscall(SYS_pidfd_send_signal, pid_fd, signal, NULL, 0);
}

/* The namespace of a process by its pidfd, since Linux 6.11; ENOTTY before. */
#ifndef PIDFD_GET_CGROUP_NAMESPACE
#define PIDFD_GET_CGROUP_NAMESPACE _IO(0xff, 1)
#define PIDFD_GET_IPC_NAMESPACE _IO(0xff, 2)
#define PIDFD_GET_MNT_NAMESPACE _IO(0xff, 3)
#define PIDFD_GET_NET_NAMESPACE _IO(0xff, 4)
#define PIDFD_GET_PID_NAMESPACE _IO(0xff, 5)
#define PIDFD_GET_USER_NAMESPACE _IO(0xff, 9)
#define PIDFD_GET_UTS_NAMESPACE _IO(0xff, 10)
#endif

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int sys_seccomp(unsigned operation, unsigned flags, void *arguments)
{
    return (int)syscall(SYS_seccomp, operation, flags, arguments);
}

static inline int sys_capset(cap_user_header_t header, const cap_user_data_t data)
{
    return (int)syscall(SYS_capset, header, data);
}

/* The rights that a kernel of this ABI knows (landlock.h of each version). */
static inline uint64_t landlock_rights(int abi)
{
    uint64_t rights = (UINT64_C(1) << 13) - 1; /* ABI 1: EXECUTE to MAKE_SYM */

    if (abi >= 2)
        rights |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 3)
        rights |= LANDLOCK_ACCESS_FS_TRUNCATE;
    if (abi >= 5)
        rights |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
    return rights;
}

static inline int sys_landlock_create_ruleset(const struct landlock_attr *attr, size_t size,
                                              unsigned flags)
{
    return (int)syscall(SYS_landlock_create_ruleset, attr, size, flags);
}

static inline int sys_landlock_add_rule(int ruleset_fd, int type, const void *attr)
{
    return (int)syscall(SYS_landlock_add_rule, ruleset_fd, type, attr, 0);
}

static inline int sys_landlock_restrict_self(int ruleset_fd)
{
    return (int)syscall(SYS_landlock_restrict_self, ruleset_fd, 0);
}

/*
 * fork(2) with flags: returns twice. `cgroup_fd` is used with CLONE_INTO_CGROUP. Filters of outer
 * containers often answer ENOSYS to clone3, whose flags they cannot see; the older call then has to
 * do.
 */
static inline pid_t sys_clone_fork(uint64_t flags, int *ret_pid_fd, int cgroup_fd)
{
    struct clone_args args = {
        .flags = flags | CLONE_PIDFD | (cgroup_fd >= 0 ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uint64_t)(uintptr_t)ret_pid_fd,
        .exit_signal = SIGCHLD,
        .cgroup = cgroup_fd < 0 ? 0 : (uint64_t)cgroup_fd,
    };
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

    if (pid >= 0 || errno != ENOSYS || cgroup_fd >= 0)
        return pid;
    return (pid_t)syscall(SYS_clone, flags | CLONE_PIDFD | SIGCHLD, NULL, ret_pid_fd, NULL, NULL);
}

#endif
