/*
 * kernel_hoard.c - takes as much as it can of one kind of kernel memory, says how much, and holds
 * it.
 *
 *   hoard KIND [PROCESSES]      prints "full COUNT", then waits until its input ends
 *
 * A guest of tests/escape/test_kernel_memory.py and of tools/print-kernel-memory, which measures
 * what the machine lost meanwhile. Each kind is a function that takes one more, and fails when
 * there is no more to be had. PROCESSES do it side by side. Without a kind it prints their names.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static unsigned long count;
static unsigned me;

static int new_file(void)
{
    char name[64];
    static unsigned number;
    snprintf(name, sizeof(name), "h%u_%u", me, number++);
    return open(name, O_RDWR | O_CREAT, 0600);
}

static int take_acl(void)
{
    static unsigned char acl[4 + 8 * 8000];
    static int fd = -1;
    static unsigned n;
    struct {
        unsigned short tag, perm;
        unsigned id;
    } *e = (void *)(acl + 4);
    if (!n) {
        *(unsigned *)acl = 2;
        unsigned i = 0;
        e[i].tag = 1;
        e[i].perm = 7;
        e[i++].id = -1u;
        for (; i < 7900; i++) {
            e[i].tag = 2;
            e[i].perm = 7;
            e[i].id = 0;
        }
        e[i].tag = 4;
        e[i].perm = 7;
        e[i++].id = -1u;
        e[i].tag = 16;
        e[i].perm = 7;
        e[i++].id = -1u;
        e[i].tag = 32;
        e[i].perm = 7;
        e[i++].id = -1u;
        n = i;
    }
    fd = new_file();
    if (fd < 0)
        return -1;
    for (unsigned i = 1; i < n - 3; i++)
        e[i].id = getuid();
    int r = fsetxattr(fd, "system.posix_acl_access", acl, 4 + 8 * n, 0);
    close(fd);
    return r;
}
static int take_xattr(void)
{
    static char value[60000];
    static int fd = -1;
    static unsigned n;
    char name[64];
    if (fd < 0 || n % 10 == 0) {
        if (fd >= 0)
            close(fd);
        fd = new_file();
    }
    snprintf(name, sizeof(name), "user.x%u", n++);
    return fd < 0 ? -1 : fsetxattr(fd, name, value, sizeof(value), 0);
}
static int take_xattr_memfd(void)
{
    static char value[60000];
    static int fd = -1;
    static unsigned n;
    char name[64];
    if (fd < 0 || n % 100 == 0)
        fd = memfd_create("x", 0);
    snprintf(name, sizeof(name), "user.x%u", n++);
    return fd < 0 ? -1 : fsetxattr(fd, name, value, sizeof(value), 0);
}
static int lock_by(int cmd)
{
    static int fd = -1;
    static unsigned n;
    if (n % 500 == 0)
        fd = new_file();
    if (fd < 0)
        return -1;
    struct flock l = {
        .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = (n++ % 500) * 2, .l_len = 1};
    return fcntl(fd, cmd, &l);
}
static int take_posix_lock(void)
{
    return lock_by(F_SETLK);
}
static int take_hidden_lock(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    return take_posix_lock();
}
static int take_ofd_lock(void)
{
    return lock_by(37 /* F_OFD_SETLK */);
}
static int take_socket_filter(void)
{
    static struct sock_filter code[4096];
    struct sock_fprog p = {.len = 4096, .filter = code};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fd < 0)
        return -1;
    for (int i = 0; i < 4095; i++)
        code[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, (unsigned)i);
    code[4095] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &p, sizeof(p));
}
static int take_seccomp(void)
{
    static struct sock_filter code[4096];
    struct sock_fprog p = {.len = 4096, .filter = code};
    for (int i = 0; i < 4095; i++)
        code[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, (unsigned)i);
    code[4095] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p);
}
static int fill_socket(int fd)
{
    static char data[65536];
    int any = -1;
    while (send(fd, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        any = 0;
    while (send(fd, data, 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        any = 0;
    return any;
}
static int take_unix_type(int type)
{
    int p[2];
    int size = 1 << 30;
    if (socketpair(AF_UNIX, type, 0, p) < 0)
        return -1;
    setsockopt(p[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    setsockopt(p[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    int a = fill_socket(p[0]), b = fill_socket(p[1]);
    return a < 0 && b < 0 ? -1 : 0;
}
static int take_unix_stream(void)
{
    return take_unix_type(SOCK_STREAM);
}
static int take_unix_dgram(void)
{
    return take_unix_type(SOCK_DGRAM);
}
static int take_unix_small(void)
{
    int p[2];
    int any = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p) < 0)
        return -1;
    while (send(p[0], "x", 1, MSG_DONTWAIT) > 0)
        any = 0;
    while (send(p[1], "x", 1, MSG_DONTWAIT) > 0)
        any = 0;
    return any;
}
static int take_tcp(void)
{
    static int listener = -1;
    static struct sockaddr_in at;
    socklen_t n = sizeof(at);
    int size = 1 << 30;
    if (listener < 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (bind(listener, (void *)&at, sizeof(at)) < 0 || listen(listener, 4096) < 0)
            return -1;
        getsockname(listener, (void *)&at, &n);
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    if (fd < 0 || connect(fd, (void *)&at, sizeof(at)) < 0)
        return -1;
    int other = accept(listener, NULL, NULL);
    if (other < 0)
        return -1;
    int a = fill_socket(fd), b = fill_socket(other);
    return a < 0 && b < 0 ? -1 : 0;
}
static int take_tcp_backlog(void) /* accepted by nobody, closed by nobody */
{
    static int listener = -1;
    static struct sockaddr_in at;
    socklen_t n = sizeof(at);
    static unsigned k;
    if (k++ % 4000 == 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        memset(&at, 0, sizeof(at));
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (bind(listener, (void *)&at, sizeof(at)) < 0 || listen(listener, 4096) < 0)
            return -1;
        getsockname(listener, (void *)&at, &n);
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (void *)&at, sizeof(at)) < 0) {
        close(fd);
        return -1;
    }
    send(fd, "x", 1, 0);
    close(fd); /* the other half waits in the listener's queue */
    return 0;
}
static int take_udp(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    int size = 1 << 30;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    static char data[60000];
    if (fd < 0 || bind(fd, (void *)&at, sizeof(at)) < 0)
        return -1;
    getsockname(fd, (void *)&at, &n);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    if (connect(fd, (void *)&at, sizeof(at)) < 0)
        return -1;
    for (int i = 0; i < 200; i++)
        send(fd, data, i % 2 ? 1 : sizeof(data), MSG_DONTWAIT);
    return 0;
}
static int take_udp_cork(void)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(9)};
    static char data[60000];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0)
        return -1;
    return sendto(fd, data, sizeof(data), MSG_MORE | MSG_DONTWAIT, (void *)&at, sizeof(at)) > 0
               ? 0
               : -1;
}
static int take_ipv6_options(void) /* sticky destination options: 2 KB */
{
    static unsigned char options[2048] = {0, 255};
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    return fd < 0 ? -1
                  : setsockopt(fd, IPPROTO_IPV6, 59 /* IPV6_DSTOPTS */, options, sizeof(options));
}
static int take_memberships(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ip_mreqn one = {.imr_ifindex = 1};
    int any = -1;
    for (unsigned group = 0; fd >= 0 && group < 20; group++) {
        one.imr_multiaddr.s_addr = htonl(0xe0000105 + group + 256 * me);
        if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &one, sizeof(one)) == 0)
            any = 0;
    }
    return any;
}
static int take_md5(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int any = -1;
    if (fd < 0)
        return -1;
    for (unsigned i = 0; i < 2000; i++) {
        struct tcp_md5sig s = {.tcpm_keylen = 16};
        struct sockaddr_in *a = (void *)&s.tcpm_addr;
        a->sin_family = AF_INET;
        a->sin_addr.s_addr = htonl(0x0a000000 + i);
        if (setsockopt(fd, IPPROTO_TCP, TCP_MD5SIG, &s, sizeof(s)) < 0)
            break;
        any = 0;
    }
    return any;
}
static int take_pass_fds(void)
{
    int p[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, p) < 0)
        return -1;
    union {
        char b[CMSG_SPACE(sizeof(int) * 250)];
        struct cmsghdr c;
    } u;
    memset(&u, 0, sizeof(u));
    struct iovec v = {"x", 1};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u)};
    u.c.cmsg_level = SOL_SOCKET;
    u.c.cmsg_type = SCM_RIGHTS;
    u.c.cmsg_len = CMSG_LEN(sizeof(int) * 250);
    for (int i = 0; i < 250; i++)
        ((int *)CMSG_DATA(&u.c))[i] = p[1];
    int any = -1;
    for (int i = 0; i < 1000 && sendmsg(p[0], &m, MSG_DONTWAIT) > 0; i++)
        any = 0;
    return any;
}
static int take_pipe(void)
{
    int p[2];
    static char data[1 << 20];
    if (pipe2(p, O_NONBLOCK) < 0)
        return -1;
    fcntl(p[0], F_SETPIPE_SZ, 1 << 20);
    return write(p[1], data, sizeof(data)) > 0 ? 0 : -1;
}
static int take_pipe_rings(void)
{
    int p[2];
    if (pipe2(p, O_NONBLOCK) < 0)
        return -1;
    fcntl(p[0], F_SETPIPE_SZ, 1 << 20);
    return 0;
}
static int take_epoll(void)
{
    static int fds[2000];
    static int n;
    if (n == 0) {
        for (n = 0; n < 2000; n++)
            fds[n] = eventfd(0, 0);
    }
    int e = epoll_create1(0);
    int any = -1;
    if (e < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        struct epoll_event ev = {.events = EPOLLIN};
        if (epoll_ctl(e, EPOLL_CTL_ADD, fds[i], &ev) < 0)
            break;
        any = 0;
    }
    return any;
}
static int take_eventfd(void)
{
    return eventfd(0, 0) < 0 ? -1 : 0;
}
static int take_timerfd(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec t = {.it_value.tv_sec = 1000};
    return fd < 0 ? -1 : timerfd_settime(fd, 0, &t, NULL);
}
static int take_timer(void)
{
    struct sigevent s = {.sigev_notify = SIGEV_NONE};
    timer_t t;
    return timer_create(CLOCK_MONOTONIC, &s, &t);
}
static int take_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    union sigval v = {0};
    return sigqueue(getpid(), SIGRTMIN + 1, v);
}
static int take_inotify_watch(void)
{
    static int in = -1;
    static unsigned n;
    char name[300];
    if (in < 0)
        in = inotify_init1(IN_NONBLOCK);
    snprintf(name, sizeof(name), "w%u_%u", me, n++);
    int fd = open(name, O_CREAT | O_RDWR, 0600);
    if (fd < 0)
        return -1;
    close(fd);
    return inotify_add_watch(in, name, IN_ALL_EVENTS) < 0 ? -1 : 0;
}
static int take_inotify_event(void)
{
    static int in[128];
    static int n;
    char a[260];
    static unsigned k;
    if (!n) {
        for (n = 0; n < 120; n++) {
            in[n] = inotify_init1(IN_NONBLOCK);
            if (in[n] < 0 || inotify_add_watch(in[n], ".", IN_ALL_EVENTS) < 0)
                break;
        }
    }
    if (!n)
        return -1;
    memset(a, 'a', 240);
    snprintf(a + 230, 20, "%u_%u", me, k++);
    int fd = open(a, O_CREAT | O_RDWR, 0600);
    if (fd >= 0)
        close(fd);
    unlink(a);
    return k > 20000 ? -1 : 0;
}
static int take_vma(void)
{
    static int prot = PROT_READ;
    prot = prot == PROT_READ ? PROT_WRITE : PROT_READ;
    return mmap(NULL, 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED
               ? -1
               : 0;
}
static int take_page_table(void)
{
    static char *at = NULL;
    static size_t used, size = 1ul << 46;
    if (!at) {
        for (; size > (1ul << 30) &&
               (at = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                          0)) == MAP_FAILED;
             size /= 2) {
        }
        if (at == MAP_FAILED)
            return -1;
    }
    if (used >= size)
        return -1;
    volatile char c = at[used];
    (void)c; /* the zero page: only the tables cost */
    used += 2 << 20;
    return 0;
}
static int take_shared_policy(void)
{
    static int fd = -1;
    static unsigned long n;
    if (fd < 0 || n % 1000000 == 0) {
        fd = memfd_create("p", 0);
        ftruncate(fd, 1l << 40);
    }
    char *at =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(n++ * 8192) % (1l << 40));
    if (at == MAP_FAILED)
        return -1;
    unsigned long mask = 1;
    int r = (int)syscall(SYS_mbind, at, 4096, 1 /* MPOL_PREFERRED */, &mask, 8, 0);
    munmap(at, 4096);
    return n > 3000000 ? -1 : r;
}
static int take_policy(void)
{
    static char *at;
    static size_t n, size = 1ul << 32;
    if (!at)
        at = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    unsigned long mask = 1;
    int r = (int)syscall(SYS_mbind, at + n * 8192, 4096, 1, &mask, 8, 0);
    n++;
    return r;
}
static void *idle(void *x)
{
    pause();
    return x;
}
static int take_thread(void)
{
    pthread_t t;
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 16384);
    return pthread_create(&t, &a, idle, NULL) ? -1 : 0;
}
static void *wait_for_many(void *unused) /* the kernel keeps a list of what a thread waits for */
{
    static unsigned words[128];
    struct {
        unsigned long long value, address;
        unsigned flags, reserved;
    } waits[128] = {0};
    (void)unused;
    for (unsigned i = 0; i < 128; i++) {
        waits[i].address = (unsigned long)&words[i];
        waits[i].flags = 2; /* 32 bits, shared */
    }
    syscall(449, waits, 128, 0, NULL, 0); /* futex_waitv */
    pause();
    return NULL;
}
static int take_futex(void)
{
    static int has_table;
    pthread_t t;
    pthread_attr_t a;
    if (!has_table++) {
        prctl(78, 1, 1 << 16, 0,
              0); /* PR_FUTEX_HASH: a table of the process's own, where there is such a call */
        errno = 0;
    }
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 32768);
    int r = pthread_create(&t, &a, wait_for_many, NULL);
    errno = r ? r : errno;
    return r ? -1 : 0;
}
static int take_msg(void)
{
    static int q = -1;
    static char m[8192];
    *(long *)m = 1;
    if (q < 0 || msgsnd(q, m, 8000, IPC_NOWAIT) < 0) {
        q = msgget(IPC_PRIVATE, 0600);
        return q < 0 ? -1 : 0;
    }
    return 0;
}
static int take_sem(void)
{
    int s = semget(IPC_PRIVATE, 32000, 0600);
    return s;
}
static int take_sem_undo(void)
{
    static int s = -1;
    static unsigned n;
    if (s < 0 || n % 32000 == 0)
        s = semget(IPC_PRIVATE, 32000, 0600);
    struct sembuf b = {.sem_num = (unsigned short)(n++ % 32000), .sem_op = 1, .sem_flg = SEM_UNDO};
    return s < 0 ? -1 : semop(s, &b, 1);
}
static int take_shm_segments(void)
{
    return shmget(IPC_PRIVATE, 4096, 0600);
}
static int take_mq(void)
{
    char name[32];
    static unsigned n;
    snprintf(name, sizeof(name), "/q%u_%u", me, n++);
    return mq_open(name, O_CREAT | O_RDWR, 0600, NULL) < 0 ? -1 : 0;
}
static int take_symlink(void)
{
    static unsigned n;
    char name[64], to[4000];
    memset(to, 'x', sizeof(to));
    to[3999] = 0;
    snprintf(name, sizeof(name), "l%u_%u", me, n++);
    return symlink(to, name);
}
static int take_inode(void)
{
    int fd = new_file();
    if (fd < 0)
        return -1;
    return close(fd);
}
static int take_name(void)
{
    static unsigned n;
    char name[256];
    memset(name, 'n', 255);
    snprintf(name + 230, 25, "%u_%u", me, n++);
    struct stat s;
    stat(name, &s); /* a negative entry */
    return n > 400000 ? -1 : 0;
}
static int take_memfd(void)
{
    return memfd_create("m", 0) < 0 ? -1 : 0;
}
static int take_pidfd(void)
{
    return (int)syscall(SYS_pidfd_open, getpid(), 0);
}
static int take_unix_listener(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    static unsigned n;
    if (fd < 0)
        return -1;
    snprintf(a.sun_path + 1, 100, "%090u_%u", me, n++);
    return bind(fd, (void *)&a, sizeof(a));
}
static int take_landlock(void)
{
    unsigned long attr = 1;
    int fd = (int)syscall(444, &attr, 8, 0);
    if (fd < 0)
        return -1;
    int any = -1;
    static unsigned n;
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "k%u_%u", me, n % 4000);
        n++;
        int f = open(name, O_CREAT | O_RDWR, 0600);
        struct {
            unsigned long access;
            int fd;
        } __attribute__((packed)) rule = {1, f};
        if (f >= 0 && syscall(445, fd, 1, &rule, 0) == 0)
            any = 0;
        if (f >= 0)
            close(f);
    }
    return any;
}
static int take_pty(void)
{
    static char data[4096];
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -1;
    grantpt(fd);
    unlockpt(fd);
    int s = open(ptsname(fd), O_RDWR | O_NOCTTY | O_NONBLOCK);
    for (int i = 0; i < 100; i++) {
        if (write(fd, data, sizeof(data)) < 0)
            break;
    }
    for (int i = 0; i < 100; i++) {
        if (s < 0 || write(s, data, sizeof(data)) < 0)
            break;
    }
    return 0;
}
static int queue_errors(int size, int sends)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(9)};
    static char data[30000];
    int one = 1;
    socklen_t length = sizeof(one);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_IP, IP_RECVERR, &one, sizeof(one));
    if (size)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    if (getsockopt(fd, IPPROTO_IP, IP_RECVERR, &one, &length) == 0 && one == 0) {
        errno = ENOPROTOOPT; /* no errors are queued */
        return -1;
    }
    if (connect(fd, (void *)&at, sizeof(at)) < 0)
        return -1;
    for (int i = 0; i < sends; i++)
        send(fd, data, i % 2 ? sizeof(data) : 1, MSG_DONTWAIT);
    return 0;
}
static int take_udp_errors(void)
{
    return queue_errors(0, 400);
}
static int take_udp_errors_large(void)
{
    return queue_errors(1 << 30, 12000);
}
static int take_time_wait(void)
{
    static int listener = -1;
    static struct sockaddr_in at;
    socklen_t n = sizeof(at);
    if (listener < 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + me);
        if (bind(listener, (void *)&at, sizeof(at)) < 0 || listen(listener, 4096) < 0)
            return -1;
        getsockname(listener, (void *)&at, &n);
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (void *)&at, sizeof(at)) < 0)
        return -1;
    int other = accept(listener, NULL, NULL);
    close(fd);
    char c;
    read(other, &c, 1);
    close(other);
    return 0;
}

#define BATCH 1000
/* Locks whose taker is gone: a child takes them on descriptors of its parent, and ends. */
static int lock_by_child(const int *fds, int n)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < n; i++)
            if (flock(fds[i], LOCK_SH | LOCK_NB) < 0)
                _exit(1);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}
static int open_batch(int *fds)
{
    char name[64];
    int n = 0;
    static unsigned number; /* the kernel looks through all locks of a file for each new one */
    snprintf(name, sizeof(name), "f%u_%u", me, number++);
    while (n < BATCH && (fds[n] = open(name, O_RDWR | O_CREAT, 0600)) >= 0)
        n++;
    return n;
}
static int take_flock_orphan(void)
{
    int fds[BATCH];
    int n = open_batch(fds), error = errno;
    if (n < BATCH && n > 0 && error == EMFILE) { /* a process that only holds them, and on */
        pid_t pid = fork();
        if (pid < 0)
            return -1;
        if (pid == 0) {
            for (;;)
                pause();
        }
        close_range(3, ~0u, 0);
        n = open_batch(fds);
    }
    return n > 0 ? lock_by_child(fds, n) : -1;
}
static int take_flock_mapped(void)
{
    int fds[BATCH];
    int n = open_batch(fds), any = n > 0 ? lock_by_child(fds, n) : -1;
    for (int i = 0; i < n; i++) {
        if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_SHARED, fds[i], 0) == MAP_FAILED)
            any = -1;
        close(fds[i]);
    }
    return any;
}
static int lock_thousand(void *fd)
{
    struct flock l = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
    for (int i = 0; i < BATCH; i++, l.l_start += 2)
        if (fcntl(*(int *)fd, F_SETLK, &l) < 0)
            return 1;
    return 0;
}
/* POSIX locks belong to the table of descriptors; a child that shares it takes them, and ends. */
static int take_posix_orphan(void)
{
    static char stack[65536];
    static int fd = -1;
    int status = -1;
    fd = new_file();
    if (fd < 0)
        return -1;
    pid_t pid = clone(lock_thousand, stack + sizeof(stack), CLONE_FILES | SIGCHLD, &fd);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}
static int take_lease(void)
{
    int fd = new_file();
    return fd < 0 ? -1 : fcntl(fd, F_SETLEASE, F_WRLCK);
}
static int take_fasync(void)
{
    int p[2];
    if (pipe(p) < 0 || fcntl(p[0], F_SETOWN, getpid()) < 0)
        return -1;
    signal(SIGIO, SIG_IGN);
    return fcntl(p[0], F_SETFL, O_ASYNC) < 0 || fcntl(p[1], F_SETFL, O_ASYNC) < 0 ? -1 : 0;
}
static int take_dnotify(void)
{
    int fd = open("/workspace", O_RDONLY | O_DIRECTORY);
    signal(SIGIO, SIG_IGN);
    return fd < 0 ? -1 : fcntl(fd, F_NOTIFY, DN_CREATE | DN_MULTISHOT);
}
static int take_splice(void) /* SPLICE_F_MORE gathers a datagram, as MSG_MORE does */
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(9)};
    static char data[60000];
    int p[2];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || connect(fd, (void *)&at, sizeof(at)) < 0 || pipe(p) < 0)
        return -1;
    write(p[1], data, sizeof(data));
    int any = splice(p[0], NULL, fd, NULL, sizeof(data), SPLICE_F_MORE) > 0 ? 0 : -1;
    close(p[0]);
    close(p[1]);
    return any;
}
static int take_tcp_small(void) /* many connections with a byte in each direction */
{
    static int listener = -1;
    static struct sockaddr_in at;
    socklen_t n = sizeof(at);
    if (listener < 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (bind(listener, (void *)&at, sizeof(at)) < 0 || listen(listener, 4096) < 0)
            return -1;
        getsockname(listener, (void *)&at, &n);
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (void *)&at, sizeof(at)) < 0)
        return -1;
    int other = accept(listener, NULL, NULL);
    if (other < 0)
        return -1;
    send(fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    send(other, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    return 0;
}

static const struct {
    const char *name;
    int (*take)(void);
} kinds[] = {
    {"acl", take_acl},
    {"xattr", take_xattr},
    {"xattr_memfd", take_xattr_memfd},
    {"posix_lock", take_posix_lock},
    {"hidden_lock", take_hidden_lock},
    {"ofd_lock", take_ofd_lock},
    {"socket_filter", take_socket_filter},
    {"seccomp_filter", take_seccomp},
    {"unix_stream", take_unix_stream},
    {"unix_dgram", take_unix_dgram},
    {"unix_small", take_unix_small},
    {"tcp", take_tcp},
    {"tcp_backlog", take_tcp_backlog},
    {"udp", take_udp},
    {"udp_cork", take_udp_cork},
    {"ipv6_options", take_ipv6_options},
    {"multicast", take_memberships},
    {"md5", take_md5},
    {"passed_fds", take_pass_fds},
    {"pipe", take_pipe},
    {"pipe_rings", take_pipe_rings},
    {"epoll", take_epoll},
    {"eventfd", take_eventfd},
    {"timerfd", take_timerfd},
    {"timer", take_timer},
    {"signal", take_signal},
    {"inotify_watch", take_inotify_watch},
    {"inotify_event", take_inotify_event},
    {"vma", take_vma},
    {"page_table", take_page_table},
    {"shared_policy", take_shared_policy},
    {"policy", take_policy},
    {"thread", take_thread},
    {"futex", take_futex},
    {"msg", take_msg},
    {"sem", take_sem},
    {"sem_undo", take_sem_undo},
    {"shm_segments", take_shm_segments},
    {"mq", take_mq},
    {"symlink", take_symlink},
    {"inode", take_inode},
    {"negative_name", take_name},
    {"memfd", take_memfd},
    {"pidfd", take_pidfd},
    {"unix_listener", take_unix_listener},
    {"landlock", take_landlock},
    {"pty", take_pty},
    {"udp_errors", take_udp_errors},
    {"udp_errors_large", take_udp_errors_large},
    {"time_wait", take_time_wait},
    {"tcp_small", take_tcp_small},
    {"flock_orphan", take_flock_orphan},
    {"posix_orphan", take_posix_orphan},
    {"flock_mapped", take_flock_mapped},
    {"lease", take_lease},
    {"fasync", take_fasync},
    {"dnotify", take_dnotify},
    {"splice", take_splice},
};

int main(int argc, char **argv)
{
    unsigned processes = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    int seconds = argc > 3 ? atoi(argv[3]) : 20;
    int (*take)(void) = NULL;
    unsigned long *counts =
        mmap(NULL, 4096 * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed = 0;
    if (argc < 2) {
        for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
            puts(kinds[i].name);
        return 0;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (!strcmp(kinds[i].name, argv[1]))
            take = kinds[i].take;
    if (!take)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    if (chdir("/workspace") < 0 && chdir("/tmp") < 0) {
    }
    for (unsigned i = 0; i < processes; i++) {
        if (fork() == 0) {
            me = i;
            time_t end = time(NULL) + seconds;
            errno = 0;
            while (take() >= 0) {
                counts[i]++;
                if (counts[i] % 64 == 0 && time(NULL) > end)
                    break;
            }
            counts[1024 + i] = (unsigned long)errno + 1;
            pause();
            _exit(0);
        }
    }
    time_t end = time(NULL) + seconds + 5;
    for (;;) {
        unsigned done = 0;
        count = 0;
        for (unsigned i = 0; i < processes; i++) {
            done += counts[1024 + i] != 0;
            count += counts[i];
            failed = counts[1024 + i] ? (int)counts[1024 + i] - 1 : failed;
        }
        if (done == processes || time(NULL) > end)
            break;
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        usleep(20000);
    }
    printf("full %lu, last: %s\n", count, strerror(failed));
    fflush(stdout);
    while (argc > 4) /* what it has is held until somebody ends it */
        pause();
    char c;
    while (read(0, &c, 1) > 0) {
    }
    kill(0, SIGKILL);
}
