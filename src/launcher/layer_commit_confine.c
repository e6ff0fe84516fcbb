/*
 * layer_commit_confine.c - the confinement of a child that works on folders a guest filled
 * (layer_commit.c): one folder, three capabilities, the system calls of files and no other.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "launcher/launcher_private.h"
#include "sys/calls.h"

#define CAP_BIT(cap) (UINT32_C(1) << (cap))

static int keep_three_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    uint32_t mask = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER);
    struct __user_cap_data_struct data[2] = {{.effective = mask, .permitted = mask}};

    for (int cap = 0; cap < 64; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            break; /* beyond the last one */
    }
    return sys_capset(&header, data) < 0 ? -errno : 0;
}

/* The one folder; nothing in it is executed, and no device, pipe or socket is made. */
static int put_on_landlock(int folder_fd)
{
    const uint64_t never = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                           LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                           LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_IOCTL_DEV;
    int abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    struct landlock_attr attr = {0};
    struct landlock_path_beneath_attr rule = {.parent_fd = folder_fd};
    CLEANUP(fd_closep) int fd = -1;
    size_t size = sizeof(attr.handled_access_fs);

    if (abi < 0)
        return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
    attr.handled_access_fs = landlock_rights(abi);
    if (abi >= 6) {
        attr.handled_access_net = LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP;
        attr.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_BIT | LANDLOCK_SCOPE_SIGNAL_BIT;
        size = sizeof(attr);
    }
    rule.allowed_access = attr.handled_access_fs & ~never;
    fd = sys_landlock_create_ruleset(&attr, size, 0);
    if (fd < 0 || sys_landlock_add_rule(fd, LANDLOCK_RULE_PATH_BENEATH, &rule) < 0 ||
        sys_landlock_restrict_self(fd) < 0)
        return -errno;
    return 0;
}

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "name the architecture here"
#endif

#define LOAD(field) \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define ALLOW(call)                                              \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(call), 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/*
 * What walking, hashing and removing needs, and how a process ends. Everything else does not exist
 * (ENOSYS): a C library that is newer than this list then does what it did before the call was
 * invented, where EPERM would be its answer.
 */
static const struct sock_filter calls[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    LOAD(nr),
    ALLOW(SYS_read),
    ALLOW(SYS_openat),
    ALLOW(SYS_close),
    ALLOW(SYS_fstat),
    ALLOW(SYS_newfstatat),
    ALLOW(SYS_statx),
    ALLOW(SYS_fcntl),
    ALLOW(SYS_getdents64),
    ALLOW(SYS_lseek),
    ALLOW(SYS_readlinkat),
    ALLOW(SYS_flistxattr),
    ALLOW(SYS_fremovexattr),
    ALLOW(SYS_fchown),
    ALLOW(SYS_fchownat),
    ALLOW(SYS_fchmod),
    ALLOW(SYS_fchmodat),
    ALLOW(SYS_unlinkat),
    ALLOW(SYS_renameat),
    ALLOW(SYS_write),
    ALLOW(SYS_fsync),
    ALLOW(SYS_syncfs),
#ifdef SYS_chmod
    ALLOW(SYS_chmod),
#endif
#ifdef SYS_rename /* of an architecture that has the older calls too: glibc uses them */
    ALLOW(SYS_rename),
#endif
    ALLOW(SYS_mmap),
    ALLOW(SYS_munmap),
    ALLOW(SYS_mremap),
    ALLOW(SYS_brk),
    ALLOW(SYS_madvise),
    ALLOW(SYS_futex),
    ALLOW(SYS_getrandom), /* malloc(3) */
    ALLOW(SYS_rt_sigreturn),
    ALLOW(SYS_rt_sigprocmask), /* abort(3), as the next ones */
    ALLOW(SYS_rt_sigaction),
    ALLOW(SYS_getpid),
    ALLOW(SYS_gettid),
    ALLOW(SYS_sigaltstack), /* sanitizers, at the end */
    ALLOW(SYS_exit_group),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
};

static int put_on_filter(void)
{
    struct sock_fprog program = {.len = ARRAY_SIZE(calls), .filter = (struct sock_filter *)calls};

    return sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

int layer_commit_confine(int folder_fd, int answer_fd)
{
    int low = folder_fd < answer_fd ? folder_fd : answer_fd;
    int high = folder_fd < answer_fd ? answer_fd : folder_fd;
    int r;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    prctl(PR_SET_NAME, "seal");
    if ((low > 3 && sys_close_range(3, (unsigned)low - 1, 0) < 0) ||
        (high > low + 1 && sys_close_range((unsigned)low + 1, (unsigned)high - 1, 0) < 0) ||
        sys_close_range((unsigned)high + 1, ~0U, 0) < 0)
        return -errno;
    r = keep_three_capabilities();
    if (r == 0)
        r = put_on_landlock(folder_fd);
    return r < 0 ? r : put_on_filter();
}
