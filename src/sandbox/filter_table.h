/*
 * filter_table.h - what each system call gets, one row each, with its reason.
 *
 * Included by tools/gen-filter.c, which compiles it, and by the test that proves the result; by
 * nothing that runs in a box. A call without a row does not exist in a box (ENOSYS): programs then
 * fall back to what they did before the call was invented. A denied one is EPERM. Calls of another
 * architecture kill the process; x32 numbers are beyond every row, so ENOSYS.
 *
 * Rules look at one 32-bit word of an argument, because the kernel does: all arguments tested here
 * are int or unsigned int to it (clone too takes only the low half of its flags), so what stands in
 * the high half must neither bypass a rule nor break a call. Where the kernel reads all 64 bits
 * (unshare, pointers) the high word has a rule of its own.
 *
 * Runs in: box child, zygote
 */
#ifndef BAILEY_SANDBOX_FILTER_TABLE_H
#define BAILEY_SANDBOX_FILTER_TABLE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

enum filter_profile {
    FILTER_GUEST = 1 << 0,   /* inside namespaces */
    FILTER_OFFLINE = 1 << 1, /* no namespaces: calls that they would confine are denied */
    FILTER_WARDEN = 1 << 2,  /* our PID 1; allows all that the two above allow */
    FILTER_ZYGOTE = 1 << 3,  /* a warm Python outside of boxes; allows all that a guest may */
    FILTER_ONE_ID = 1 << 4,  /* a zygote that shares its id with other processes */
    FILTER_APART = 1 << 5,   /* no namespaces either, but an id that no other process has */
    FILTER_ZYGOTES = FILTER_ZYGOTE | FILTER_ONE_ID,
    FILTER_OUTSIDE = FILTER_OFFLINE | FILTER_APART, /* every socket is the machine's */
    FILTER_INSIDE = FILTER_GUEST | FILTER_WARDEN | FILTER_ZYGOTES, /* namespaces hold the rest */
    FILTER_EVERY = FILTER_INSIDE | FILTER_OUTSIDE,
};

/* What a call gets: 0 to go ahead, FILTER_NO_EFFECT, else the errno it fails with. */
enum filter_action {
    FILTER_ALLOW = 0,
    FILTER_DENY = EPERM,
    FILTER_NOSYS = ENOSYS,
    FILTER_NO_OPTION = ENOPROTOOPT, /* as of a kernel that lacks the option */
    FILTER_NO_COMMAND = EINVAL,     /* as of a kernel that lacks the command or flag */
    FILTER_NO_EFFECT = 4096,        /* succeeds and does nothing; above every errno */
};

enum filter_test {
    FILTER_TEST_END,    /* ends a list of rules */
    FILTER_TEST_IS,     /* the rule applies when (word & mask) is one of the values */
    FILTER_TEST_IS_NOT, /* ... when it is none of them */
    FILTER_TEST_ONLY,   /* the rules up to the next ONLY are looked at when it is one of them */
};

#define FILTER_VALUES_MAX 7

struct filter_rule {
    uint8_t test;
    uint8_t word; /* FILTER_LOW(argument) or FILTER_HIGH(argument) */
    uint8_t count;
    uint16_t action;
    uint32_t mask;
    uint32_t values[FILTER_VALUES_MAX];
};

struct filter_row {
    const char *name;
    uint16_t number; /* of calls newer than libseccomp 2.5.4, the same everywhere; else 0 */
    uint16_t action; /* when no rule applies */
    uint8_t profiles;
    const struct filter_rule *rules; /* the first that applies decides; may be NULL */
    const char *reason;
};

#define FILTER_LOW(argument) ((argument)*2)
#define FILTER_HIGH(argument) ((argument)*2 + 1)

#define FILTER_COUNT(...) (sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))
#define FILTER_RULE(test_, word_, mask_, action_, ...)                          \
    {                                                                           \
        .test = (test_), .word = (word_), .mask = (mask_), .action = (action_), \
        .count = FILTER_COUNT(__VA_ARGS__), .values = {                         \
            __VA_ARGS__                                                         \
        }                                                                       \
    }
#define IF(word, mask, action, ...) FILTER_RULE(FILTER_TEST_IS, word, mask, action, __VA_ARGS__)
#define UNLESS(word, mask, action, ...) \
    FILTER_RULE(FILTER_TEST_IS_NOT, word, mask, action, __VA_ARGS__)
#define ONLY(word, ...) FILTER_RULE(FILTER_TEST_ONLY, word, WHOLE, FILTER_ALLOW, __VA_ARGS__)
#define WHOLE UINT32_MAX

#define FILTER_RULES(...) ((const struct filter_rule[]){__VA_ARGS__, {.test = FILTER_TEST_END}})
#define ROW(name, action, profiles, reason)     \
    {                                           \
        name, 0, action, profiles, NULL, reason \
    }
#define ALLOW(name, reason) ROW(name, FILTER_ALLOW, FILTER_EVERY, reason)
#define DENY(name, reason) ROW(name, FILTER_DENY, FILTER_EVERY, reason)
#define NOSYS(name, reason) ROW(name, FILTER_NOSYS, FILTER_EVERY, reason)
#define NEWER(name, number, reason)                            \
    {                                                          \
        name, number, FILTER_ALLOW, FILTER_EVERY, NULL, reason \
    }
#define CHECK(name, profiles, reason, ...)                                 \
    {                                                                      \
        name, 0, FILTER_ALLOW, profiles, FILTER_RULES(__VA_ARGS__), reason \
    }
#define SHARED(name, reason) \
    ROW(name, FILTER_ALLOW, FILTER_INSIDE, reason), ROW(name, FILTER_DENY, FILTER_OUTSIDE, reason)

/* What the warden may do and no guest, nor package code in a zygote. */
#define FILTER_CONFINED (FILTER_GUEST | FILTER_OUTSIDE | FILTER_ZYGOTES)
#define GUARDED(name, reason, ...)                     \
    CHECK(name, FILTER_CONFINED, reason, __VA_ARGS__), \
        ROW(name, FILTER_ALLOW, FILTER_WARDEN, reason)
#define REFUSED(name, action, reason) \
    ROW(name, action, FILTER_CONFINED, reason), ROW(name, FILTER_ALLOW, FILTER_WARDEN, reason)

#define XATTR_REASON                                                                         \
    "extended attributes and ACLs are kernel memory that no control group counts; programs " \
    "that copy files continue without them"
#define NO_XATTR(name) REFUSED(name, EOPNOTSUPP, XATTR_REASON)
#define MORE_REASON "MSG_MORE gathers a datagram in kernel memory that no control group counts"
#define NO_MORE(word) IF(word, UINT32_C(0x8000) /* MSG_MORE */, FILTER_NO_COMMAND, 0x8000)

#define BY_NAME_REASON \
    "not covered by Landlock: without a mount namespace it would reach the caller's files"
#define FILTER_BY_ID (FILTER_INSIDE | FILTER_APART) /* the id says whose files they are */
#define BY_NAME(name)                                      \
    ROW(name, FILTER_ALLOW, FILTER_BY_ID, BY_NAME_REASON), \
        ROW(name, FILTER_DENY, FILTER_OFFLINE, BY_NAME_REASON)

#define FILTER_NEW_NAMESPACES UINT32_C(0x7e020000) /* every CLONE_NEW* that clone() knows */
#define FILTER_SHARE_FILES UINT32_C(0x00010400)    /* CLONE_THREAD, CLONE_FILES */
#define FILTER_UNSHARE_SAFE UINT32_C(0x00040600)   /* CLONE_FS, CLONE_FILES, CLONE_SYSVSEM */

/* clang-format off */
static const struct filter_row filter_table[] = {
    /* Files and folders: names are held by mounts, Landlock and ids, not by this filter. */
    ALLOW("access", "files"),
    ALLOW("chdir", "files"),
    BY_NAME("chmod"),
    BY_NAME("chown"),
    ALLOW("close", "files"),
    ALLOW("close_range", "files"),
    ALLOW("copy_file_range", "files"),
    ALLOW("creat", "files"),
    ALLOW("dup", "files"),
    ALLOW("dup2", "files"),
    ALLOW("dup3", "files"),
    ALLOW("faccessat", "files"),
    ALLOW("faccessat2", "files"),
    ALLOW("fadvise64", "files"),
    ALLOW("fallocate", "files; bounded by the box's disk"),
    ALLOW("fchdir", "files"),
    BY_NAME("fchmod"),
    BY_NAME("fchmodat"),
    {"fchmodat2", 452, FILTER_ALLOW, FILTER_BY_ID, NULL, BY_NAME_REASON},
    {"fchmodat2", 452, FILTER_DENY, FILTER_OFFLINE, NULL, BY_NAME_REASON},
    BY_NAME("fchown"),
    BY_NAME("fchownat"),
    GUARDED("fcntl", "F_OFD_* locks and leases: kernel memory that no control group counts and that belongs to "
            "no process; F_SETLK and flock() remain, and are watched",
            IF(FILTER_LOW(1), WHOLE, FILTER_NO_COMMAND, 37 /* F_OFD_SETLK */, 38 /* F_OFD_SETLKW */,
               1024 /* F_SETLEASE */)),
    ALLOW("fdatasync", "files"),
    ALLOW("fgetxattr", "files"),
    ALLOW("flistxattr", "files"),
    ALLOW("flock", "files"),
    BY_NAME("fremovexattr"),
    NO_XATTR("fsetxattr"),
    ALLOW("fstat", "files"),
    ALLOW("fstatfs", "files"),
    ALLOW("fsync", "files"),
    ALLOW("ftruncate", "files"),
    BY_NAME("futimesat"),
    ALLOW("getcwd", "files"),
    ALLOW("getdents", "files"),
    ALLOW("getdents64", "files"),
    BY_NAME("getxattr"),
    SHARED("inotify_add_watch", "not covered by Landlock: would reveal changes of the caller's files"),
    ALLOW("inotify_init", "watching files"),
    ALLOW("inotify_init1", "watching files"),
    ALLOW("inotify_rm_watch", "watching files"),
    BY_NAME("lchown"),
    BY_NAME("lgetxattr"),
    ALLOW("link", "files"),
    ALLOW("linkat", "files"),
    BY_NAME("listxattr"),
    BY_NAME("llistxattr"),
    BY_NAME("lremovexattr"),
    ALLOW("lseek", "files"),
    NO_XATTR("lsetxattr"),
    ALLOW("lstat", "files"),
    ALLOW("memfd_create", "files in memory; counted by the memory limit"),
    ALLOW("mkdir", "files"),
    ALLOW("mkdirat", "files"),
    ALLOW("mknod", "fifos; devices need a capability that no process in a box has"),
    ALLOW("mknodat", "fifos; devices need a capability that no process in a box has"),
    ALLOW("newfstatat", "files"),
    ALLOW("open", "files"),
    ALLOW("openat", "files"),
    ALLOW("openat2", "files"),
    ALLOW("pread64", "files"),
    ALLOW("preadv", "files"),
    ALLOW("preadv2", "files"),
    ALLOW("pwrite64", "files"),
    ALLOW("pwritev", "files"),
    ALLOW("pwritev2", "files"),
    ALLOW("read", "files"),
    ALLOW("readahead", "files"),
    ALLOW("readlink", "files"),
    ALLOW("readlinkat", "files"),
    ALLOW("readv", "files"),
    BY_NAME("removexattr"),
    ALLOW("rename", "files"),
    ALLOW("renameat", "files"),
    ALLOW("renameat2", "files"),
    ALLOW("rmdir", "files"),
    ALLOW("sendfile", "files"),
    NO_XATTR("setxattr"),
    ALLOW("splice", "copying between pipes and files; Go fails without it"),
    ALLOW("stat", "files"),
    ALLOW("statfs", "files"),
    ALLOW("statx", "files"),
    ALLOW("symlink", "files"),
    ALLOW("symlinkat", "files"),
    ALLOW("sync_file_range", "files"),
    ALLOW("tee", "copying between pipes"),
    ALLOW("truncate", "files"),
    ALLOW("umask", "files"),
    ALLOW("unlink", "files"),
    ALLOW("unlinkat", "files"),
    BY_NAME("utime"),
    ROW("utimensat", FILTER_ALLOW, FILTER_BY_ID, BY_NAME_REASON),
    {"utimensat", 0, FILTER_DENY, FILTER_OFFLINE,
     FILTER_RULES(UNLESS(FILTER_LOW(1), WHOLE, FILTER_DENY, 0),
                  UNLESS(FILTER_HIGH(1), WHOLE, FILTER_DENY, 0),
                  IF(FILTER_LOW(1), WHOLE, FILTER_ALLOW, 0)),
     "futimens() is this without a name; with one it is like chmod"},
    BY_NAME("utimes"),
    ALLOW("write", "files"),
    ALLOW("writev", "files"),

    /* Waiting for descriptors and for time. */
    ALLOW("alarm", "time"),
    ALLOW("clock_getres", "time"),
    ALLOW("clock_gettime", "time"),
    ALLOW("clock_nanosleep", "time"),
    ALLOW("epoll_create", "events"),
    ALLOW("epoll_create1", "events"),
    ALLOW("epoll_ctl", "events"),
    ALLOW("epoll_pwait", "events"),
    ALLOW("epoll_pwait2", "events"),
    ALLOW("epoll_wait", "events"),
    ALLOW("eventfd", "events"),
    ALLOW("eventfd2", "events"),
    ALLOW("getitimer", "time"),
    ALLOW("gettimeofday", "time"),
    ALLOW("nanosleep", "time"),
    ALLOW("pause", "events"),
    ALLOW("pipe", "events"),
    ALLOW("pipe2", "events"),
    ALLOW("poll", "events"),
    ALLOW("ppoll", "events"),
    ALLOW("pselect6", "events"),
    ALLOW("select", "events"),
    ALLOW("setitimer", "time"),
    ALLOW("signalfd", "events"),
    ALLOW("signalfd4", "events"),
    ALLOW("time", "time"),
    ALLOW("timer_create", "time"),
    ALLOW("timer_delete", "time"),
    ALLOW("timer_getoverrun", "time"),
    ALLOW("timer_gettime", "time"),
    ALLOW("timer_settime", "time"),
    ALLOW("timerfd_create", "time"),
    ALLOW("timerfd_gettime", "time"),
    ALLOW("timerfd_settime", "time"),
    ALLOW("times", "time"),

    /* Memory. */
    ALLOW("brk", "memory"),
    ALLOW("get_mempolicy", "memory; OpenBLAS and numactl use it"),
    ALLOW("madvise", "memory"),
    REFUSED("mbind", FILTER_NOSYS, "policies of shared memory are kernel memory that no control group counts"),
    ALLOW("membarrier", "memory"),
    ALLOW("mincore", "memory"),
    ALLOW("mlock", "memory; bounded by RLIMIT_MEMLOCK"),
    ALLOW("mlock2", "memory; bounded by RLIMIT_MEMLOCK"),
    ALLOW("mlockall", "memory; bounded by RLIMIT_MEMLOCK"),
    ALLOW("mmap", "memory"),
    ALLOW("mprotect", "memory"),
    ALLOW("mremap", "memory"),
    NEWER("mseal", 462, "memory; only tightens"),
    ALLOW("msync", "memory"),
    ALLOW("munlock", "memory"),
    ALLOW("munlockall", "memory"),
    ALLOW("munmap", "memory"),
    ALLOW("pkey_alloc", "memory; V8 protects its code with it"),
    ALLOW("pkey_free", "memory"),
    ALLOW("pkey_mprotect", "memory"),
    ALLOW("set_mempolicy", "memory; the caller's own pages only"),

    /* Processes, threads, signals. */
    ALLOW("arch_prctl", "thread pointer"),
    ALLOW("execve", "processes; no_new_privs stays in effect"),
    ALLOW("execveat", "processes; no_new_privs stays in effect"),
    ALLOW("exit", "processes"),
    ALLOW("exit_group", "processes"),
    ALLOW("fork", "processes; counted by the pids limit"),
    ALLOW("futex", "threads"),
    NEWER("futex_requeue", 456, "threads"),
    NEWER("futex_wait", 455, "threads"),
    ALLOW("futex_waitv", "threads"),
    NEWER("futex_wake", 454, "threads"),
    ALLOW("get_robust_list", "threads"),
    ALLOW("getcpu", "threads"),
    ALLOW("getpgid", "processes"),
    ALLOW("getpgrp", "processes"),
    ALLOW("getpid", "processes"),
    ALLOW("getppid", "processes"),
    ALLOW("getpriority", "processes"),
    ALLOW("getrandom", "random numbers"),
    ALLOW("getrlimit", "processes"),
    ALLOW("getrusage", "processes"),
    ALLOW("getsid", "processes"),
    ALLOW("gettid", "threads"),
    ALLOW("ioprio_get", "processes"),
    ALLOW("kill", "signals; limited by the pid namespace and ids"),
    ALLOW("landlock_add_rule", "only tightens"),
    ALLOW("landlock_create_ruleset", "only tightens"),
    ALLOW("landlock_restrict_self", "only tightens"),
    ROW("pidfd_open", FILTER_ALLOW, FILTER_GUEST | FILTER_OUTSIDE | FILTER_WARDEN | FILTER_ZYGOTE,
        "processes"),
    ROW("pidfd_open", FILTER_NOSYS, FILTER_ONE_ID,
        "the way into the box of any process with the same id; asyncio falls back"),
    ALLOW("pidfd_send_signal", "signals"),
    ALLOW("restart_syscall", "signals"),
    ALLOW("rseq", "threads"),
    ALLOW("rt_sigaction", "signals"),
    ALLOW("rt_sigpending", "signals"),
    ALLOW("rt_sigprocmask", "signals"),
    ALLOW("rt_sigqueueinfo", "signals"),
    ALLOW("rt_sigreturn", "signals"),
    ALLOW("rt_sigsuspend", "signals"),
    ALLOW("rt_sigtimedwait", "signals"),
    ALLOW("rt_tgsigqueueinfo", "signals"),
    ALLOW("sched_get_priority_max", "scheduling"),
    ALLOW("sched_get_priority_min", "scheduling"),
    ALLOW("sched_getaffinity", "scheduling; numpy counts its cores with it"),
    ALLOW("sched_getattr", "scheduling"),
    ALLOW("sched_getparam", "scheduling"),
    ALLOW("sched_getscheduler", "scheduling"),
    ALLOW("sched_rr_get_interval", "scheduling"),
    ALLOW("sched_yield", "scheduling"),
    ALLOW("set_robust_list", "threads"),
    ALLOW("set_tid_address", "threads"),
    ALLOW("setpgid", "processes"),
    ALLOW("setrlimit", "processes; never above the hard limit"),
    ALLOW("setsid", "processes"),
    ALLOW("sigaltstack", "signals"),
    ALLOW("sysinfo", "glibc and the JVM size themselves with it"),
    ALLOW("tgkill", "signals"),
    ALLOW("tkill", "signals"),
    ALLOW("uname", "processes"),
    ALLOW("vfork", "processes; counted by the pids limit"),
    ALLOW("wait4", "processes"),
    ALLOW("waitid", "processes"),

    /* Identity: with no_new_privs and no capability these cannot gain anything. */
    ALLOW("capget", "identity"),
    ALLOW("capset", "identity; only tightens"),
    ALLOW("getegid", "identity"),
    ALLOW("geteuid", "identity"),
    ALLOW("getgid", "identity"),
    ALLOW("getgroups", "identity"),
    ALLOW("getresgid", "identity"),
    ALLOW("getresuid", "identity"),
    ALLOW("getuid", "identity"),
    ALLOW("setfsgid", "identity; the warden needs it, a guest gains nothing"),
    ALLOW("setfsuid", "identity; the warden needs it, a guest gains nothing"),
    ALLOW("setgid", "identity; the warden needs it, a guest gains nothing"),
    ALLOW("setgroups", "identity; the warden needs it, a guest gains nothing"),
    ALLOW("setregid", "identity; the warden needs it, a guest gains nothing"),
    ALLOW("setresgid", "identity; the warden needs it, a guest gains nothing"),
    ALLOW("setresuid", "identity; the warden needs it, a guest gains nothing"),
    ALLOW("setreuid", "identity; the warden needs it, a guest gains nothing"),
    ALLOW("setuid", "identity; the warden needs it, a guest gains nothing"),

    /* Sockets. What may be reached is the network namespace's business; which kinds, ours. */
    CHECK("socket", FILTER_INSIDE,
          "other families (netlink, packet, vsock, alg, xdp) are kernel surface and ways out; "
          "raw sockets forge packets; other protocols (ICMP, SCTP, MPTCP) are not promised",
          UNLESS(FILTER_LOW(0), WHOLE, EAFNOSUPPORT, 1 /* UNIX */, 2 /* INET */, 10 /* INET6 */),
          UNLESS(FILTER_LOW(1), 0xf, FILTER_DENY, 1 /* STREAM */, 2 /* DGRAM */),
          UNLESS(FILTER_LOW(2), WHOLE, EPROTONOSUPPORT, 0, 6 /* TCP */, 17 /* UDP */)),
    ROW("socket", FILTER_DENY, FILTER_OUTSIDE,
        "without a network namespace every socket is the host's: inet, and abstract unix too"),
    CHECK("socketpair", FILTER_INSIDE, "pairs are local; only unix has a use",
          UNLESS(FILTER_LOW(0), WHOLE, EAFNOSUPPORT, 1)),
    CHECK("socketpair", FILTER_OUTSIDE,
          "one end of a datagram pair can be pointed at any unix socket of the host by sendmsg",
          UNLESS(FILTER_LOW(0), WHOLE, EAFNOSUPPORT, 1),
          UNLESS(FILTER_LOW(1), 0xf, FILTER_DENY, 1 /* STREAM */, 5 /* SEQPACKET */)),
    SHARED("bind", "names of sockets are the network namespace's"),
    SHARED("connect", "what it reaches is limited by the network namespace"),
    SHARED("listen", "what it opens is limited by the network namespace"),
    CHECK("sendto", FILTER_GUEST | FILTER_ZYGOTES, MORE_REASON, NO_MORE(FILTER_LOW(3))),
    ROW("sendto", FILTER_ALLOW, FILTER_WARDEN, "sockets"),
    CHECK("sendto", FILTER_OUTSIDE, "send() is this without an address; with one it is connect",
          UNLESS(FILTER_LOW(4), WHOLE, FILTER_DENY, 0),
          UNLESS(FILTER_HIGH(4), WHOLE, FILTER_DENY, 0)),
    ALLOW("accept", "sockets"),
    ALLOW("accept4", "sockets"),
    ALLOW("getpeername", "sockets"),
    ALLOW("getsockname", "sockets"),
    ALLOW("getsockopt", "sockets"),
    ALLOW("recvfrom", "sockets"),
    ALLOW("recvmmsg", "sockets"),
    ALLOW("recvmsg", "sockets"),
    GUARDED("sendmmsg", MORE_REASON, NO_MORE(FILTER_LOW(3))),
    GUARDED("sendmsg", MORE_REASON, NO_MORE(FILTER_LOW(2))),
    GUARDED("setsockopt",
            "only the options that programs use; others (packet filters, MD5 keys, source lists, "
            "extension headers, zero copy) take kernel memory that no control group counts; IP_RECVERR "
            "(which resolvers set) succeeds and queues no errors, which would be such memory too",
            UNLESS(FILTER_LOW(1), WHOLE, FILTER_NO_OPTION, 0 /* IP */, 1 /* SOL_SOCKET */, 6 /* TCP */,
                   17 /* UDP */, 41 /* IPV6 */),
            ONLY(FILTER_LOW(1), 1 /* SOL_SOCKET */),
            IF(FILTER_LOW(2), WHOLE, FILTER_NO_OPTION, 26 /* ATTACH_FILTER */, 50 /* ATTACH_BPF */,
               51 /* ATTACH_REUSEPORT_CBPF */, 52 /* ATTACH_REUSEPORT_EBPF */, 60 /* ZEROCOPY */),
            IF(FILTER_LOW(2), WHOLE, FILTER_NO_OPTION, 37, 65 /* TIMESTAMPING, of what is sent too */),
            ONLY(FILTER_LOW(1), 6 /* TCP */),
            IF(FILTER_LOW(2), WHOLE, FILTER_ALLOW, 1 /* NODELAY */, 2 /* MAXSEG */, 3 /* CORK */,
               4 /* KEEPIDLE */, 5 /* KEEPINTVL */, 6 /* KEEPCNT */),
            IF(FILTER_LOW(2), WHOLE, FILTER_ALLOW, 7 /* SYNCNT */, 8 /* LINGER2 */, 9 /* DEFER_ACCEPT */,
               10 /* WINDOW_CLAMP */, 12 /* QUICKACK */, 13 /* CONGESTION */),
            UNLESS(FILTER_LOW(2), WHOLE, FILTER_NO_OPTION, 18 /* USER_TIMEOUT */, 23 /* FASTOPEN */,
                   25 /* NOTSENT_LOWAT */, 30 /* FASTOPEN_CONNECT */, 36 /* INQ */),
            ONLY(FILTER_LOW(1), 17 /* UDP */),
            UNLESS(FILTER_LOW(2), WHOLE, FILTER_NO_OPTION, 103 /* SEGMENT */, 104 /* GRO */),
            ONLY(FILTER_LOW(1), 0 /* IP */),
            IF(FILTER_LOW(2), WHOLE, FILTER_NO_EFFECT, 11 /* RECVERR */),
            IF(FILTER_LOW(2), WHOLE, FILTER_ALLOW, 1 /* TOS */, 2 /* TTL */, 8 /* PKTINFO */,
               10 /* MTU_DISCOVER */, 12 /* RECVTTL */),
            IF(FILTER_LOW(2), WHOLE, FILTER_ALLOW, 13 /* RECVTOS */, 15 /* FREEBIND */,
               24 /* BIND_ADDRESS_NO_PORT */, 32 /* MULTICAST_IF */, 33 /* MULTICAST_TTL */,
               34 /* MULTICAST_LOOP */),
            UNLESS(FILTER_LOW(2), WHOLE, FILTER_NO_OPTION, 35 /* ADD_MEMBERSHIP */,
                   36 /* DROP_MEMBERSHIP */, 49 /* MULTICAST_ALL */, 51 /* LOCAL_PORT_RANGE */),
            ONLY(FILTER_LOW(1), 41 /* IPV6 */),
            IF(FILTER_LOW(2), WHOLE, FILTER_NO_EFFECT, 25 /* RECVERR */),
            IF(FILTER_LOW(2), WHOLE, FILTER_ALLOW, 16 /* UNICAST_HOPS */, 17 /* MULTICAST_IF */,
               18 /* MULTICAST_HOPS */, 19 /* MULTICAST_LOOP */, 20 /* JOIN_GROUP */, 21 /* LEAVE_GROUP */),
            IF(FILTER_LOW(2), WHOLE, FILTER_ALLOW, 23 /* MTU_DISCOVER */, 26 /* V6ONLY */,
               49 /* RECVPKTINFO */, 51 /* RECVHOPLIMIT */),
            UNLESS(FILTER_LOW(2), WHOLE, FILTER_NO_OPTION, 62 /* DONTFRAG */, 66 /* RECVTCLASS */,
                   67 /* TCLASS */, 78 /* FREEBIND */)),
    ALLOW("shutdown", "sockets"),

    /* Memory and messages with keys: the IPC namespace's; without one they are the host's. */
    SHARED("mq_getsetattr", "limited by the ipc namespace"),
    SHARED("mq_notify", "limited by the ipc namespace"),
    SHARED("mq_open", "limited by the ipc namespace"),
    SHARED("mq_timedreceive", "limited by the ipc namespace"),
    SHARED("mq_timedsend", "limited by the ipc namespace"),
    SHARED("mq_unlink", "limited by the ipc namespace"),
    SHARED("msgctl", "limited by the ipc namespace"),
    SHARED("msgget", "limited by the ipc namespace"),
    SHARED("msgrcv", "limited by the ipc namespace"),
    SHARED("msgsnd", "limited by the ipc namespace"),
    SHARED("semctl", "limited by the ipc namespace"),
    SHARED("semget", "limited by the ipc namespace"),
    SHARED("semop", "limited by the ipc namespace"),
    SHARED("semtimedop", "limited by the ipc namespace"),
    SHARED("shmat", "limited by the ipc namespace"),
    SHARED("shmctl", "limited by the ipc namespace"),
    SHARED("shmdt", "limited by the ipc namespace"),
    SHARED("shmget", "limited by the ipc namespace"),

    /* Allowed, but not with every argument. */
    CHECK("clone", FILTER_WARDEN, "a new namespace is a new kernel surface, with capabilities in it",
          UNLESS(FILTER_LOW(0), FILTER_NEW_NAMESPACES, FILTER_DENY, 0)),
    CHECK("clone", FILTER_CONFINED, "a new namespace is a new kernel surface, with capabilities in it; file locks "
          "of a process that shares its descriptors with another (CLONE_FILES) outlive it, and nothing shows them",
          UNLESS(FILTER_LOW(0), FILTER_NEW_NAMESPACES, FILTER_DENY, 0),
          IF(FILTER_LOW(0), FILTER_SHARE_FILES, FILTER_NO_COMMAND, 0x400 /* CLONE_FILES alone */)),
    CHECK("unshare", FILTER_EVERY, "as clone; only what a thread may unshare without a namespace",
          UNLESS(FILTER_LOW(0), ~FILTER_UNSHARE_SAFE, FILTER_DENY, 0),
          UNLESS(FILTER_HIGH(0), WHOLE, FILTER_DENY, 0)),
    CHECK("ioctl", FILTER_EVERY, "typing into or taking over another terminal (CVE-2017-5226)",
          IF(FILTER_LOW(1), WHOLE, FILTER_DENY, 0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */,
             0x541d /* TIOCCONS */, 0x5423 /* TIOCSETD */, 0x5437 /* TIOCVHANGUP */)),
    CHECK("personality", FILTER_EVERY, "switching off address randomisation, executable data",
          UNLESS(FILTER_LOW(0), WHOLE, FILTER_DENY, 0, 0xffffffff /* only asks */)),
    CHECK("prctl", FILTER_WARDEN | FILTER_ZYGOTES, "rewriting /proc/self/exe and cmdline; core scheduling of others",
          IF(FILTER_LOW(0), WHOLE, FILTER_DENY, 35 /* PR_SET_MM */, 62 /* PR_SCHED_CORE */)),
    CHECK("prctl", FILTER_GUEST | FILTER_OUTSIDE,
          "rewriting /proc/self/exe and cmdline; core scheduling of others; a filter of its own, as seccomp",
          IF(FILTER_LOW(0), WHOLE, FILTER_DENY, 35 /* PR_SET_MM */, 62 /* PR_SCHED_CORE */),
          IF(FILTER_LOW(0), WHOLE, FILTER_NO_COMMAND, 22 /* PR_SET_SECCOMP */)),
    CHECK("seccomp", FILTER_WARDEN | FILTER_ZYGOTES, "may tighten; a listener would answer calls instead of us",
          UNLESS(FILTER_LOW(0), WHOLE, FILTER_DENY, 0 /* SET_MODE_STRICT */,
                 1 /* SET_MODE_FILTER */, 2 /* GET_ACTION_AVAIL */),
          UNLESS(FILTER_LOW(1), 8 /* FLAG_NEW_LISTENER */, FILTER_DENY, 0)),
    CHECK("seccomp", FILTER_GUEST | FILTER_OUTSIDE,
          "a filter's machine code counts against a limit of the whole host (net.core.bpf_jit_limit), "
          "and no control group counts it; a listener would answer calls instead of us",
          UNLESS(FILTER_LOW(0), WHOLE, FILTER_DENY, 0 /* SET_MODE_STRICT */,
                 1 /* SET_MODE_FILTER */, 2 /* GET_ACTION_AVAIL */),
          UNLESS(FILTER_LOW(1), 8 /* FLAG_NEW_LISTENER */, FILTER_DENY, 0),
          IF(FILTER_LOW(0), WHOLE, FILTER_NO_COMMAND, 1 /* SET_MODE_FILTER */)),
    CHECK("prlimit64", FILTER_GUEST | FILTER_OUTSIDE | FILTER_ZYGOTES,
          "on itself only: where guest and warden share an id it would reach the warden",
          UNLESS(FILTER_LOW(0), WHOLE, FILTER_DENY, 0)),
    ROW("prlimit64", FILTER_ALLOW, FILTER_WARDEN, "sets the limits of what it starts"),
    CHECK("setpriority", FILTER_EVERY, "on itself only, as prlimit64",
          UNLESS(FILTER_LOW(0), WHOLE, FILTER_DENY, 0 /* PRIO_PROCESS */),
          UNLESS(FILTER_LOW(1), WHOLE, FILTER_DENY, 0)),
    CHECK("ioprio_set", FILTER_EVERY, "on itself only, as prlimit64",
          UNLESS(FILTER_LOW(0), WHOLE, FILTER_DENY, 1 /* IOPRIO_WHO_PROCESS */),
          UNLESS(FILTER_LOW(1), WHOLE, FILTER_DENY, 0)),
    CHECK("sched_setaffinity", FILTER_EVERY, "on itself only, as prlimit64",
          UNLESS(FILTER_LOW(0), WHOLE, FILTER_DENY, 0)),
    CHECK("sched_setattr", FILTER_EVERY, "on itself only, as prlimit64",
          UNLESS(FILTER_LOW(0), WHOLE, FILTER_DENY, 0)),
    CHECK("sched_setparam", FILTER_EVERY, "on itself only, as prlimit64",
          UNLESS(FILTER_LOW(0), WHOLE, FILTER_DENY, 0)),
    CHECK("sched_setscheduler", FILTER_EVERY, "on itself only, as prlimit64",
          UNLESS(FILTER_LOW(0), WHOLE, FILTER_DENY, 0)),

    /* Said not to exist, so that libraries take the older way. */
    NOSYS("clone3", "its flags are in memory where a filter cannot see them; glibc then uses clone"),
    NOSYS("io_uring_enter", "does calls that no filter sees; libuv and others fall back"),
    NOSYS("io_uring_register", "does calls that no filter sees; libuv and others fall back"),
    NOSYS("io_uring_setup", "does calls that no filter sees; libuv and others fall back"),

    /* Denied: the file system's shape. */
    DENY("chroot", "the root is made once, outside"),
    DENY("fsconfig", "mounts are made once, outside"),
    DENY("fsmount", "mounts are made once, outside"),
    DENY("fsopen", "mounts are made once, outside"),
    DENY("fspick", "mounts are made once, outside"),
    DENY("mount", "mounts are made once, outside"),
    DENY("mount_setattr", "would make a read-only mount writable"),
    DENY("move_mount", "mounts are made once, outside"),
    DENY("name_to_handle_at", "first half of opening files by handle, past every mount"),
    DENY("open_by_handle_at", "opens files by handle, past every mount (shocker, 2014)"),
    DENY("open_tree", "mounts are made once, outside"),
    DENY("pivot_root", "the root is made once, outside"),
    DENY("umount2", "would uncover what a mount covers"),
    DENY("fanotify_init", "watches whole mounts"),
    DENY("fanotify_mark", "watches whole mounts"),
    DENY("quotactl", "quotas are the host's"),
    DENY("quotactl_fd", "quotas are the host's"),
    DENY("sync", "writes out every disk of the host; callers cannot see that it did not"),
    DENY("syncfs", "writes out the host's whole file system below a mount"),
    DENY("sysfs", "obsolete; reveals the host's file systems"),
    DENY("ustat", "obsolete"),
    DENY("uselib", "obsolete; maps a library past the loader"),

    /* Denied: other processes. */
    DENY("kcmp", "compares kernel pointers of other processes"),
    DENY("migrate_pages", "moves other processes' memory"),
    DENY("move_pages", "moves other processes' memory; reveals where pages are"),
    DENY("perf_event_open", "large kernel surface; measures neighbours"),
    DENY("pidfd_getfd", "takes descriptors out of other processes"),
    DENY("process_madvise", "changes other processes' memory"),
    DENY("process_mrelease", "changes other processes' memory"),
    DENY("process_vm_readv", "reads other processes' memory"),
    DENY("process_vm_writev", "writes other processes' memory"),
    DENY("ptrace", "controls other processes; has bypassed filters before Linux 4.8"),
    ROW("setns", FILTER_DENY, FILTER_GUEST | FILTER_OUTSIDE | FILTER_WARDEN,
        "enters other namespaces"),
    CHECK("setns", FILTER_ZYGOTES,
          "into boxes that its id owns, one namespace at a time; a guest's filter comes on top",
          UNLESS(FILTER_LOW(1), WHOLE, FILTER_DENY, 0x00020000 /* NEWNS */,
                 0x02000000 /* NEWCGROUP */, 0x04000000 /* NEWUTS */, 0x08000000 /* NEWIPC */,
                 0x10000000 /* NEWUSER */, 0x20000000 /* NEWPID */, 0x40000000 /* NEWNET */)),

    /* Denied: the kernel itself and the host's state. */
    DENY("_sysctl", "obsolete"),
    DENY("acct", "the host's process accounting"),
    DENY("add_key", "kernel keyrings are not namespaced"),
    DENY("adjtimex", "the host's clock"),
    DENY("bpf", "loads programs into the kernel"),
    DENY("clock_adjtime", "the host's clock"),
    DENY("clock_settime", "the host's clock"),
    DENY("create_module", "kernel modules"),
    DENY("delete_module", "kernel modules"),
    DENY("finit_module", "kernel modules"),
    DENY("get_kernel_syms", "kernel modules"),
    DENY("init_module", "kernel modules"),
    DENY("ioperm", "hardware ports"),
    DENY("iopl", "hardware ports"),
    DENY("kexec_file_load", "starts another kernel"),
    DENY("kexec_load", "starts another kernel"),
    DENY("keyctl", "kernel keyrings are not namespaced"),
    DENY("lookup_dcookie", "profiling of the whole host"),
    DENY("memfd_secret", "memory that neither swap nor the host can reclaim or look at"),
    DENY("modify_ldt", "16-bit segments: unneeded kernel surface (CVE-2015-5157)"),
    DENY("nfsservctl", "the host's NFS server"),
    DENY("query_module", "kernel modules"),
    DENY("reboot", "the host"),
    DENY("request_key", "kernel keyrings are not namespaced"),
    DENY("set_mempolicy_home_node", "unneeded kernel surface"),
    DENY("setdomainname", "names are given once, outside"),
    DENY("sethostname", "names are given once, outside"),
    DENY("settimeofday", "the host's clock"),
    DENY("swapoff", "the host's swap"),
    DENY("swapon", "the host's swap"),
    DENY("syslog", "the host's kernel log"),
    DENY("userfaultfd", "stops the kernel in the middle of a copy: makes races easy to win"),
    DENY("vhangup", "the terminal of others"),
    DENY("vmsplice", "lends pages to pipes; only ever used for zero copy tricks"),
};
/* clang-format on */

#undef ROW
#undef ALLOW
#undef DENY
#undef NOSYS
#undef NEWER
#undef CHECK
#undef SHARED
#undef IF
#undef UNLESS
#undef ONLY
#undef GUARDED
#undef REFUSED
#undef NO_XATTR
#undef NO_MORE
#undef WHOLE

#endif
