/*
 * test_filter.c - proves the compiled filters by trying calls under them, in children.
 *
 * What must be denied is listed here again by number, apart from the table: an entry lost there is
 * found here. What must pass is compared with the same call without a filter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandbox/filter.h"
#include "sandbox/filter_table.h"

#define ROWS ARRAY_SIZE(filter_table)
#define HIGH (UINT64_C(0xdeadbeef) << 32) /* garbage where the kernel does not look */
#define SELF UINT64_C(0x5e1f)             /* stands for the child's own pid */
#define RESULTS_MAX 256

enum { NONE, GUEST, OFFLINE, APART, WARDEN, STACKED, KERNEL, MODES };

static const struct {
    const char *name;
    const struct filter *filters[2];
} modes[MODES] = {
    [NONE] = {"none", {NULL}},
    [GUEST] = {"guest", {&filter_guest}},
    [OFFLINE] = {"guest_offline", {&filter_guest_offline}},
    [APART] = {"guest_apart", {&filter_guest_apart}},
    [WARDEN] = {"warden", {&filter_warden}},
    [STACKED] = {"warden, then guest", {&filter_warden, &filter_guest}},
    [KERNEL] = {"zygote, then guest", {&filter_zygote, &filter_guest}},
};

static bool install(int mode)
{
    if (mode != NONE && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return false;
    for (int i = 0; i < 2 && modes[mode].filters[i]; i++)
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, modes[mode].filters[i]) < 0)
            return false;
    return true;
}

/* Runs `body` in a child of its own session under a mode; returns the child's wait status. */
static int run_child(int mode, int (*body)(void *), void *argument)
{
    int status = -1;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        setsid();
        _exit(install(mode) ? body(argument) : 99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void assert_child_succeeds(int mode, int (*body)(void *), void *argument)
{
    int status = run_child(mode, body, argument);

    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("under %s: wait status 0x%x", modes[mode].name, (unsigned)status);
}

/* --- single calls --- */

#define SAME (-1) /* what the call gives without a filter */
/* without a filter of ours: an outer container has one */
#define IS_REFUSED(number) ((number) == EPERM || (number) == ENOSYS)

struct call {
    const char *what;
    long number;
    uint64_t args[6];
    int guest; /* errno wanted; SAME; 0 for success */
    int offline;
    int warden;
};

struct batch {
    const struct call *calls;
    size_t count;
    int *results; /* shared with the child: 0 or errno */
    int mode;
};

static int do_batch(void *argument)
{
    const struct batch *batch = (const struct batch *)argument;

    for (size_t i = 0; i < batch->count; i++) {
        const struct call *call = &batch->calls[i];
        uint64_t a[6];

        /* else only what a filter lets through */
        if (batch->mode == NONE && IS_REFUSED(call->guest) && IS_REFUSED(call->warden))
            continue;
        for (size_t j = 0; j < 6; j++)
            a[j] = call->args[j] == SELF ? (uint64_t)getpid() : call->args[j];
        errno = 0;
        batch->results[i] = 0;
        if (syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]) == -1)
            batch->results[i] = errno;
    }
    return 0;
}

static int *run_batch(int mode, const struct call *calls, size_t count)
{
    int *results = (int *)mmap(NULL, RESULTS_MAX * sizeof(int), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct batch batch = {calls, count, results, mode};

    assert_true(count <= RESULTS_MAX);
    assert_ptr_not_equal(results, MAP_FAILED);
    memset(results, 0xff, RESULTS_MAX * sizeof(int));
    assert_child_succeeds(mode, do_batch, &batch);
    return results;
}

static int wanted(const struct call *call, int mode)
{
    if (mode == OFFLINE || mode == APART)
        return call->offline;
    return mode == WARDEN ? call->warden : call->guest;
}

static void check_calls(const struct call *calls, size_t count)
{
    int *plain = run_batch(NONE, calls, count), wrong = 0;

    for (int mode = GUEST; mode < MODES; mode++) {
        int *results = run_batch(mode, calls, count);

        for (size_t i = 0; i < count; i++) {
            int want = wanted(&calls[i], mode);

            want = want == SAME ? plain[i] : want;
            if (results[i] == want || (results[i] == plain[i] && IS_REFUSED(plain[i])))
                continue;
            print_error("%s under %s: %s, wanted %s\n", calls[i].what, modes[mode].name,
                        strerror(results[i]), strerror(want));
            wrong++;
        }
        munmap(results, RESULTS_MAX * sizeof(int));
    }
    munmap(plain, RESULTS_MAX * sizeof(int));
    assert_int_equal(wrong, 0);
}

#define ALIKE(want) want, want, want
#define BUT_OFFLINE(want, offline) want, offline, want
#define BUT_WARDEN(want, warden) want, want, warden
#define CALL(name, want, ...)                                    \
    {                                                            \
#name " " #__VA_ARGS__, SYS_##name, {__VA_ARGS__ }, want \
    }

/* The refused and the harmless side of every argument rule. */
static const struct call argument_calls[] = {
    /* CLONE_SIGHAND without CLONE_VM is EINVAL: nothing is made when the filter lets it through */
    CALL(clone, ALIKE(EPERM), CLONE_SIGHAND | CLONE_NEWNS),
    CALL(clone, ALIKE(EPERM), CLONE_SIGHAND | CLONE_NEWCGROUP),
    CALL(clone, ALIKE(EPERM), CLONE_SIGHAND | CLONE_NEWUTS),
    CALL(clone, ALIKE(EPERM), CLONE_SIGHAND | CLONE_NEWIPC),
    CALL(clone, ALIKE(EPERM), CLONE_SIGHAND | CLONE_NEWUSER),
    CALL(clone, ALIKE(EPERM), CLONE_SIGHAND | CLONE_NEWPID),
    CALL(clone, ALIKE(EPERM), CLONE_SIGHAND | CLONE_NEWNET),
    CALL(clone, ALIKE(EPERM), HIGH | CLONE_SIGHAND | CLONE_NEWUSER),
    CALL(clone, ALIKE(EINVAL), CLONE_SIGHAND),
    CALL(clone, ALIKE(EINVAL), HIGH | CLONE_SIGHAND),
    CALL(unshare, ALIKE(0), 0),
    CALL(unshare, ALIKE(0), CLONE_FILES | CLONE_FS),
    CALL(unshare, ALIKE(EPERM), CLONE_NEWUSER),
    CALL(unshare, ALIKE(EPERM), CLONE_FS | CLONE_NEWNS),
    CALL(unshare, ALIKE(EPERM), CLONE_NEWTIME),
    CALL(unshare, ALIKE(EPERM), UINT64_C(1) << 37),
    CALL(personality, ALIKE(0), 0xffffffff),
    CALL(personality, ALIKE(0), HIGH | 0xffffffff),
    CALL(personality, ALIKE(0), 0),
    CALL(personality, ALIKE(EPERM), ADDR_NO_RANDOMIZE),
    CALL(personality, ALIKE(EPERM), READ_IMPLIES_EXEC),
    CALL(personality, ALIKE(EPERM), HIGH | ADDR_NO_RANDOMIZE),
    CALL(personality, ALIKE(EPERM), PER_LINUX32),
    CALL(ioctl, ALIKE(EPERM), -1UL, TIOCSTI),
    CALL(ioctl, ALIKE(EPERM), -1UL, HIGH | TIOCSTI),
    CALL(ioctl, ALIKE(EPERM), -1UL, TIOCLINUX),
    CALL(ioctl, ALIKE(EPERM), -1UL, HIGH | TIOCLINUX),
    CALL(ioctl, ALIKE(EPERM), -1UL, TIOCCONS),
    CALL(ioctl, ALIKE(EPERM), -1UL, TIOCSETD),
    CALL(ioctl, ALIKE(EBADF), -1UL, TCGETS),
    CALL(ioctl, ALIKE(EBADF), -1UL, TIOCSWINSZ),
    CALL(ioctl, ALIKE(EBADF), -1UL, TIOCSCTTY),
    CALL(ioctl, ALIKE(EBADF), -1UL, TIOCSPTLCK),
    CALL(prctl, ALIKE(EPERM), PR_SET_MM, -1UL),
    CALL(prctl, ALIKE(EPERM), HIGH | PR_SET_MM, -1UL),
    CALL(prctl, ALIKE(EPERM), 62 /* PR_SCHED_CORE */, -1UL),
    CALL(prctl, ALIKE(SAME), PR_GET_DUMPABLE),
    CALL(prctl, ALIKE(0), PR_SET_CHILD_SUBREAPER, 1),
    CALL(prctl, ALIKE(EFAULT), PR_SET_NAME, -1UL),
    CALL(seccomp, ALIKE(EPERM), SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, -1UL),
    CALL(seccomp, ALIKE(EPERM), HIGH | SECCOMP_SET_MODE_FILTER, HIGH | 9, -1UL),
    CALL(seccomp, ALIKE(EPERM), SECCOMP_GET_NOTIF_SIZES, 0, -1UL),
    CALL(seccomp, BUT_WARDEN(EINVAL, EFAULT), SECCOMP_SET_MODE_FILTER, 0, -1UL),
    CALL(seccomp, BUT_WARDEN(EINVAL, EFAULT), HIGH | SECCOMP_SET_MODE_FILTER, HIGH, -1UL),
    CALL(prctl, BUT_WARDEN(EINVAL, EFAULT), PR_SET_SECCOMP, SECCOMP_MODE_FILTER, -1UL),
    CALL(seccomp, ALIKE(EFAULT), SECCOMP_GET_ACTION_AVAIL, 0, -1UL),
    /* kernel memory that no control group counts */
    CALL(fsetxattr, BUT_WARDEN(EOPNOTSUPP, SAME), -1UL, 0, 0, 0, 0),
    CALL(setxattr, BUT_WARDEN(EOPNOTSUPP, EFAULT), -1UL, -1UL, 0, 0, 0),
    CALL(lsetxattr, BUT_WARDEN(EOPNOTSUPP, EFAULT), -1UL, -1UL, 0, 0, 0),
    CALL(fcntl, BUT_WARDEN(EINVAL, EBADF), -1UL, 37 /* F_OFD_SETLK */, 0),
    CALL(fcntl, BUT_WARDEN(EINVAL, EBADF), -1UL, HIGH | 38 /* F_OFD_SETLKW */, 0),
    CALL(fcntl, ALIKE(EBADF), -1UL, F_SETLK, 0),
    CALL(fcntl, BUT_WARDEN(EINVAL, EBADF), -1UL, 1024 /* F_SETLEASE */, 0),
    CALL(mbind, BUT_WARDEN(ENOSYS, SAME), 0, 0, 1, 0, 0, 0),
    CALL(sendmsg, BUT_WARDEN(EINVAL, EBADF), -1UL, -1UL, MSG_MORE),
    CALL(sendmsg, BUT_WARDEN(EINVAL, EBADF), -1UL, -1UL, HIGH | MSG_MORE | MSG_DONTWAIT),
    CALL(sendmsg, ALIKE(EBADF), -1UL, -1UL, MSG_DONTWAIT | MSG_NOSIGNAL),
    CALL(sendmmsg, BUT_WARDEN(EINVAL, EBADF), -1UL, -1UL, 1, MSG_MORE),
    {"sendto MSG_MORE", SYS_sendto, {-1UL, 0, 0, MSG_MORE}, EINVAL, SAME, SAME},
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, SOL_SOCKET, 26 /* ATTACH_FILTER */),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, HIGH | SOL_SOCKET, HIGH | 26),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, SOL_SOCKET, 50 /* ATTACH_BPF */),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, SOL_SOCKET, 51 /* REUSEPORT_CBPF */),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, SOL_SOCKET, 60 /* ZEROCOPY */),
    CALL(setsockopt, ALIKE(EBADF), -1UL, SOL_SOCKET, SO_REUSEADDR),
    CALL(setsockopt, ALIKE(EBADF), -1UL, SOL_SOCKET, SO_RCVBUF),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, 6, 14 /* TCP_MD5SIG */),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, 6, 31 /* TCP_ULP */),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, 6, 26),
    CALL(setsockopt, ALIKE(EBADF), -1UL, 6, 1 /* TCP_NODELAY */),
    CALL(setsockopt, ALIKE(EBADF), -1UL, 6, 36 /* TCP_INQ */),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, 17, 1 /* UDP_CORK */),
    CALL(setsockopt, ALIKE(EBADF), -1UL, 17, 103 /* UDP_SEGMENT */),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, 0, 41 /* IP_MSFILTER */),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, 0, 48 /* MCAST_MSFILTER */),
    CALL(setsockopt, ALIKE(EBADF), -1UL, 0, 35 /* IP_ADD_MEMBERSHIP */),
    CALL(setsockopt, BUT_WARDEN(0, EBADF), -1UL, 0, 11 /* IP_RECVERR */),
    CALL(setsockopt, BUT_WARDEN(0, EBADF), -1UL, 41, 25 /* IPV6_RECVERR */),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, 0, 26 /* IP_RECVERR_RFC4884 */),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, 41, 54 /* IPV6_HOPOPTS */),
    CALL(setsockopt, ALIKE(EBADF), -1UL, 41, 26 /* IPV6_V6ONLY */),
    CALL(setsockopt, BUT_WARDEN(ENOPROTOOPT, EBADF), -1UL, 282 /* TLS */, 1),
    CALL(prlimit64, ALIKE(0), 0, 7),
    CALL(prlimit64, ALIKE(0), HIGH, 7),
    {"prlimit64 on a pid", SYS_prlimit64, {SELF, 7}, EPERM, EPERM, SAME},
    CALL(setpriority, ALIKE(0), 0, 0, 19), /* less is anybody's, more is not */
    CALL(setpriority, ALIKE(EPERM), 0, SELF, 0),
    CALL(setpriority, ALIKE(EPERM), 2 /* PRIO_USER */, 0, 0),
    CALL(ioprio_set, ALIKE(SAME), 1, 0, 0),
    CALL(ioprio_set, ALIKE(EPERM), 1, SELF, 0),
    CALL(ioprio_set, ALIKE(EPERM), 3 /* IOPRIO_WHO_USER */, 0, 0),
    CALL(sched_setaffinity, ALIKE(SAME), 0, 8, -1UL),
    CALL(sched_setaffinity, ALIKE(EPERM), SELF, 8, -1UL),
    CALL(sched_setscheduler, ALIKE(SAME), 0, 0, -1UL),
    CALL(sched_setscheduler, ALIKE(EPERM), SELF, 0, -1UL),
    CALL(sched_setparam, ALIKE(SAME), 0, -1UL),
    CALL(sched_setparam, ALIKE(EPERM), SELF, -1UL),
    CALL(sched_setattr, ALIKE(SAME), 0, -1UL),
    CALL(sched_setattr, ALIKE(EPERM), SELF, -1UL),
    CALL(sched_getscheduler, ALIKE(0), SELF),
    CALL(kill, ALIKE(0), SELF, 0),
};

/* Attack 33 and 52: families, kinds and protocols of sockets. */
static const struct call socket_calls[] = {
    CALL(socket, BUT_OFFLINE(0, EPERM), AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC),
    CALL(socket, BUT_OFFLINE(0, EPERM), HIGH | AF_UNIX, HIGH | SOCK_DGRAM | SOCK_NONBLOCK, HIGH),
    CALL(socket, BUT_OFFLINE(SAME, EPERM), AF_INET, SOCK_STREAM, 6),
    CALL(socket, BUT_OFFLINE(SAME, EPERM), AF_INET, SOCK_DGRAM, 17),
    CALL(socket, BUT_OFFLINE(SAME, EPERM), AF_INET6, SOCK_STREAM, 0),
    CALL(socket, ALIKE(EPERM), AF_INET, SOCK_RAW, 1),
    CALL(socket, ALIKE(EPERM), AF_INET6, HIGH | SOCK_RAW | SOCK_CLOEXEC, 58),
    CALL(socket, ALIKE(EPERM), AF_INET, SOCK_SEQPACKET, 132),
    CALL(socket, BUT_OFFLINE(EPROTONOSUPPORT, EPERM), AF_INET, SOCK_STREAM, 132 /* SCTP */),
    CALL(socket, BUT_OFFLINE(EPROTONOSUPPORT, EPERM), AF_INET, SOCK_DGRAM, 1 /* ICMP */),
    CALL(socket, BUT_OFFLINE(EPROTONOSUPPORT, EPERM), AF_INET, SOCK_STREAM, 262 /* MPTCP */),
    CALL(socket, BUT_OFFLINE(EAFNOSUPPORT, EPERM), AF_NETLINK, SOCK_RAW, 0),
    CALL(socket, BUT_OFFLINE(EAFNOSUPPORT, EPERM), AF_NETLINK, SOCK_DGRAM, 0),
    CALL(socket, BUT_OFFLINE(EAFNOSUPPORT, EPERM), HIGH | AF_NETLINK, SOCK_DGRAM, 0),
    CALL(socket, BUT_OFFLINE(EAFNOSUPPORT, EPERM), AF_PACKET, SOCK_RAW, 0),
    CALL(socket, BUT_OFFLINE(EAFNOSUPPORT, EPERM), AF_PACKET, SOCK_DGRAM, 0),
    CALL(socket, BUT_OFFLINE(EAFNOSUPPORT, EPERM), AF_VSOCK, SOCK_STREAM, 0),
    CALL(socket, BUT_OFFLINE(EAFNOSUPPORT, EPERM), AF_ALG, SOCK_SEQPACKET, 0),
    CALL(socket, BUT_OFFLINE(EAFNOSUPPORT, EPERM), 44 /* AF_XDP */, SOCK_RAW, 0),
    CALL(socket, BUT_OFFLINE(EAFNOSUPPORT, EPERM), 38 /* AF_ALG */, SOCK_STREAM, 0),
    /* a pair needs a place for two descriptors: EFAULT comes from the kernel, past the filter */
    CALL(socketpair, ALIKE(EFAULT), AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, -1UL),
    CALL(socketpair, ALIKE(EFAULT), AF_UNIX, SOCK_SEQPACKET, 0, -1UL),
    CALL(socketpair, BUT_OFFLINE(EFAULT, EPERM), AF_UNIX, SOCK_DGRAM, 0, -1UL),
    CALL(socketpair, ALIKE(EAFNOSUPPORT), AF_INET, SOCK_STREAM, 0, -1UL),
    CALL(socketpair, ALIKE(EAFNOSUPPORT), 30 /* AF_TIPC */, SOCK_STREAM, 0, -1UL),
    CALL(connect, BUT_OFFLINE(EBADF, EPERM), -1UL),
    CALL(bind, BUT_OFFLINE(EBADF, EPERM), -1UL),
    CALL(listen, BUT_OFFLINE(EBADF, EPERM), -1UL),
    CALL(sendto, ALIKE(EBADF), -1UL, 0, 0, 0, 0, 0),
    CALL(sendto, BUT_OFFLINE(EBADF, EPERM), -1UL, 0, 0, 0, 0x1000, 16),
    CALL(sendto, BUT_OFFLINE(EBADF, EPERM), -1UL, 0, 0, 0, HIGH, 16),
    CALL(sendmsg, ALIKE(EBADF), -1UL),
    CALL(shmctl, BUT_OFFLINE(SAME, EPERM), -1UL, -1UL),
    CALL(msgctl, BUT_OFFLINE(SAME, EPERM), -1UL, -1UL),
    CALL(semctl, BUT_OFFLINE(SAME, EPERM), -1UL, 0, -1UL),
    CALL(mq_unlink, BUT_OFFLINE(SAME, EPERM), -1UL),
};

/* With arguments that nothing can be done with, should one get through. */
#define MINUS                              \
    {                                      \
        -1UL, -1UL, -1UL, -1UL, -1UL, -1UL \
    }
#define DENIED(name)                           \
    {                                          \
#name, SYS_##name, MINUS, ALIKE(EPERM) \
    }
#define ABSENT(name)                            \
    {                                           \
#name, SYS_##name, MINUS, ALIKE(ENOSYS) \
    }

static const struct call refused_calls[] = {
    DENIED(chroot),
    DENIED(fsconfig),
    DENIED(fsmount),
    DENIED(fsopen),
    DENIED(fspick),
    DENIED(mount),
    DENIED(mount_setattr),
    DENIED(move_mount),
    DENIED(name_to_handle_at),
    DENIED(open_by_handle_at),
    DENIED(open_tree),
    DENIED(pivot_root),
    DENIED(umount2),
    DENIED(fanotify_init),
    DENIED(fanotify_mark),
    DENIED(quotactl),
    DENIED(sync),
    DENIED(syncfs),
    DENIED(kcmp),
    DENIED(migrate_pages),
    DENIED(move_pages),
    DENIED(perf_event_open),
    DENIED(pidfd_getfd),
    DENIED(process_madvise),
    DENIED(process_vm_readv),
    DENIED(process_vm_writev),
    DENIED(ptrace),
    DENIED(setns),
    DENIED(acct),
    DENIED(add_key),
    DENIED(adjtimex),
    DENIED(bpf),
    DENIED(clock_adjtime),
    DENIED(clock_settime),
    DENIED(delete_module),
    DENIED(finit_module),
    DENIED(init_module),
    DENIED(kexec_load),
    DENIED(keyctl),
    DENIED(lookup_dcookie),
    DENIED(memfd_secret),
    DENIED(nfsservctl),
    DENIED(reboot),
    DENIED(request_key),
    DENIED(setdomainname),
    DENIED(sethostname),
    DENIED(settimeofday),
    DENIED(swapoff),
    DENIED(swapon),
    DENIED(syslog),
    DENIED(userfaultfd),
    DENIED(vhangup),
    DENIED(vmsplice),
#if defined(__x86_64__)
    DENIED(_sysctl),
    DENIED(create_module),
    DENIED(get_kernel_syms),
    DENIED(ioperm),
    DENIED(iopl),
    DENIED(kexec_file_load),
    DENIED(modify_ldt),
    DENIED(query_module),
    DENIED(sysfs),
    DENIED(uselib),
    DENIED(ustat),
    {"x32 getpid", 0x40000000 | SYS_getpid, {0}, ALIKE(ENOSYS)},
    {"x32 execve", 0x40000000 | 520, MINUS, ALIKE(ENOSYS)},
#endif
    {"quotactl_fd", 443, MINUS, ALIKE(EPERM)}, /* newer than some headers */
    {"process_mrelease", 448, MINUS, ALIKE(EPERM)},
    {"set_mempolicy_home_node", 450, MINUS, ALIKE(EPERM)},
    ABSENT(clone3),
    ABSENT(io_uring_setup),
    ABSENT(io_uring_enter),
    ABSENT(io_uring_register),
    {"a call of the future", 500, MINUS, ALIKE(ENOSYS)},
    {"a far number", 100000, MINUS, ALIKE(ENOSYS)},
    {"the last number", 0x7fffffff, MINUS, ALIKE(ENOSYS)},
};

static void test_arguments(void **state)
{
    (void)state;
    check_calls(argument_calls, ARRAY_SIZE(argument_calls));
}

static void test_sockets(void **state)
{
    (void)state;
    check_calls(socket_calls, ARRAY_SIZE(socket_calls));
}

static void test_refused(void **state)
{
    (void)state;
    check_calls(refused_calls, ARRAY_SIZE(refused_calls));
}

/* --- another architecture --- */

#if defined(__x86_64__)
static int call_32_bit(void *argument)
{
    long result = 20; /* getpid of i386 */

    (void)argument;
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return 1;
}

static void test_32_bit_calls_kill(void **state)
{
    (void)state;
    for (int mode = GUEST; mode < MODES; mode++) {
        int status = run_child(mode, call_32_bit, NULL);

        /* SIGSEGV where the kernel was built without 32-bit calls: then there is no such gate */
        assert_true(WIFSIGNALED(status));
        assert_true(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV);
    }
}
#endif

/* --- programs still work --- */

static void *thread_body(void *argument)
{
    *(int *)argument = 42;
    return NULL;
}

static int use_threads(void *argument)
{
    pthread_t thread;
    int value = 0;

    (void)argument;
    if (pthread_create(&thread, NULL, thread_body, &value) != 0)
        return 1;
    return pthread_join(thread, NULL) == 0 && value == 42 ? 0 : 2;
}

static int use_processes(void *argument)
{
    char *words[] = {(char *)"sh", (char *)"-c", (char *)"echo x | grep -q x", NULL};
    char *none[] = {NULL};
    int status = -1;
    pid_t pid = fork();

    (void)argument;
    if (pid == 0)
        _exit(7);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 7)
        return 1;
    if (posix_spawn(&pid, "/bin/sh", NULL, NULL, words, none) != 0)
        return 2;
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 3;
}

static void test_programs_work(void **state)
{
    (void)state;
    for (int mode = GUEST; mode < MODES; mode++) {
        assert_child_succeeds(mode, use_threads, NULL);
        assert_child_succeeds(mode, use_processes, NULL);
    }
}

/* --- the table itself --- */

static const struct filter_row *find_row(const char *name, uint8_t profile)
{
    for (size_t i = 0; i < ROWS; i++)
        if ((filter_table[i].profiles & profile) && strcmp(filter_table[i].name, name) == 0)
            return &filter_table[i];
    return NULL;
}

static bool has_rule(const struct filter_row *row, const struct filter_rule *rule)
{
    for (const struct filter_rule *r = row->rules; r && r->test; r++)
        if (r->test == rule->test && r->word == rule->word && r->mask == rule->mask &&
            r->count == rule->count && memcmp(r->values, rule->values, sizeof(r->values)) == 0)
            return true;
    return false;
}

static void test_rows_are_sound(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        const struct filter_row *row = &filter_table[i];

        assert_true(row->name && row->name[0]);
        assert_true(row->reason && row->reason[0]);
        assert_true(row->profiles && (row->profiles & ~FILTER_EVERY) == 0);
        for (uint8_t bit = 1; bit & FILTER_EVERY; bit = (uint8_t)(bit << 1))
            if (row->profiles & bit)
                assert_ptr_equal(find_row(row->name, bit), row);
        for (const struct filter_rule *rule = row->rules; rule && rule->test; rule++) {
            assert_in_range(rule->count, 1, FILTER_VALUES_MAX);
            assert_in_range(rule->word, 0, FILTER_HIGH(5));
            for (unsigned v = 0; v < rule->count; v++)
                assert_int_equal(rule->values[v] & ~rule->mask, 0);
        }
    }
}

/* Filters stack: what the warden's refuses, no guest can have. */
static void test_warden_allows_what_guests_may(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        const struct filter_row *guest = &filter_table[i];
        const struct filter_row *warden = find_row(guest->name, FILTER_WARDEN);

        if (guest->action != FILTER_ALLOW || !(guest->profiles & ~FILTER_ZYGOTES))
            continue;
        assert_non_null(warden);
        assert_int_equal(warden->action, FILTER_ALLOW);
        for (const struct filter_rule *rule = warden->rules; rule && rule->test; rule++)
            if (!has_rule(guest, rule))
                fail_msg("the warden's rule for %s is not the guest's", guest->name);
    }
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int time_install(void *argument)
{
    const struct filter *filter = *(const struct filter **)argument;
    uint64_t start;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return 1;
    start = now_ns();
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) < 0)
        return 2;
    printf("# %u instructions, loaded in %lu us\n", filter->length,
           (unsigned long)((now_ns() - start) / 1000));
    return fflush(stdout) == 0 ? 0 : 3;
}

/* Tells the sizes and costs; only that it loads, and fits its budget of instructions, is asserted.
 */
static void test_sizes(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct filter), sizeof(struct sock_fprog));
    assert_int_equal(offsetof(struct filter, code), offsetof(struct sock_fprog, filter));
    fflush(stdout);
    for (int mode = GUEST; mode <= WARDEN; mode++) {
        const struct filter *filter = modes[mode].filters[0];

        assert_child_succeeds(NONE, time_install, &filter);
        assert_in_range(filter->length, 1, 300);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_sound),
        cmocka_unit_test(test_warden_allows_what_guests_may),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_refused),
#if defined(__x86_64__)
        cmocka_unit_test(test_32_bit_calls_kill),
#endif
        cmocka_unit_test(test_programs_work),
        cmocka_unit_test(test_sizes),
    };

    return cmocka_run_group_tests_name("sandbox/filter", tests, NULL, NULL);
}
