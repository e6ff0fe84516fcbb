/*
 * hoard.c - native code of a hostile package, loaded by a template's zygote: it keeps every
 * descriptor that it ever sees, and tries all processes that it can name.
 *
 *     hoard PID WON what TARGET      it could do that to this process
 *     hoard PID SAW namespace|pidfd INODE
 *     hoard PID ENTERED user INODE   through a descriptor that it kept
 *     hoard PID ROUND n              everybody was tried once more
 *
 * Numbers of processes are those of the engine's namespace. Each is said once, on standard error.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIDS 3000
#define KEPT_FROM 300
#define KEPT_MAX 200
#define SCANS_PER_ROUND 1500

enum { KILL, TRACE, READ, PROC, NAMESPACE, SETNS, GETFD, LIMITS, KINDS };
static const char *const names[KINDS] = {"kill",      "ptrace", "process_vm_readv", "proc",
                                         "namespace", "setns",  "pidfd_getfd",      "prlimit"};

static unsigned char (*won)[KINDS]; /* shared with children: what was said */
static unsigned long seen[KEPT_MAX];
static unsigned char *entered;
static int kept_count;
static int self;

static void say(const char *format, ...)
{
    char text[160];
    int length = snprintf(text, sizeof(text), "hoard %d ", self);
    va_list args;

    va_start(args, format);
    length += vsnprintf(text + length, sizeof(text) - (size_t)length, format, args);
    va_end(args);
    if (write(2, text, (size_t)length) < 0)
        return;
}

static void win(int kind, int pid)
{
    if (won[pid][kind]++ == 0)
        say("WON %s %d\n", names[kind], pid);
}

static void keep(void)
{
    for (int fd = 3; fd < KEPT_FROM; fd++) {
        struct statfs type;
        struct stat status;
        int known = 0, copy;

        if (fstat(fd, &status) < 0)
            continue;
        for (int i = 0; i < kept_count; i++)
            known |= seen[i] == status.st_ino;
        if (known || kept_count == KEPT_MAX)
            continue;
        copy = fcntl(fd, F_DUPFD_CLOEXEC, KEPT_FROM);
        if (copy < 0 || fstat(copy, &status) < 0)
            continue;
        seen[kept_count] = status.st_ino;
        dup3(copy, KEPT_FROM + 200 + kept_count, O_CLOEXEC);
        close(copy);
        copy = KEPT_FROM + 200 + kept_count++;
        if (fstatfs(copy, &type) == 0 && type.f_type == 0x6e736673 /* nsfs */)
            say("SAW namespace %lu\n", (unsigned long)status.st_ino);
        else if (fcntl(copy, F_GETFD) >= 0 && syscall(SYS_pidfd_send_signal, copy, 0, NULL, 0) == 0)
            say("SAW pidfd %lu\n", (unsigned long)status.st_ino);
    }
}

/* In a child of its own: entering cannot be undone. */
static void enter_kept(void)
{
    for (int i = 0; i < kept_count; i++) {
        pid_t child = fork();

        if (child == 0) {
            if (!entered[i] && setns(KEPT_FROM + 200 + i, CLONE_NEWUSER) == 0) {
                entered[i] = 1;
                say("ENTERED user %lu\n", seen[i]);
            }
            _exit(0);
        }
        waitpid(child, NULL, __WALL);
    }
}

static void by_pidfd(int pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0), other;

    if (fd < 0)
        return;
    other = ioctl(fd, _IO(0xff, 9) /* PIDFD_GET_USER_NAMESPACE */, 0);
    if (other >= 0)
        win(NAMESPACE, pid);
    if (syscall(SYS_pidfd_getfd, fd, 0, 0) >= 0)
        win(GETFD, pid);
    if (setns(fd, CLONE_NEWNET) == 0 || setns(fd, CLONE_NEWPID) == 0 ||
        setns(fd, CLONE_NEWUSER) == 0 || (other >= 0 && setns(other, CLONE_NEWUSER) == 0))
        win(SETNS, pid);
    close(fd);
}

static void try(int pid)
{
    static const char *const files[] = {"mem", "environ", "maps", "root/etc/passwd", "ns/user"};
    char byte, path[64];
    struct iovec ours = {&byte, 1}, theirs = {(void *)4096, 1};
    unsigned char limits[16];

    if (kill(pid, 0) < 0 && errno == ESRCH)
        return;
    if (kill(pid, 0) == 0)
        win(KILL, pid);
    if (process_vm_readv(pid, &ours, 1, &theirs, 1, 0) >= 0 || errno == EFAULT)
        win(READ, pid);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && (i > 2 || read(fd, &byte, 1) >= 0 || errno == EIO))
            win(PROC, pid);
        close(fd);
    }
    if (syscall(SYS_prlimit64, pid, 7, NULL, limits) == 0)
        win(LIMITS, pid);
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) == 0)
        win(TRACE, pid); /* ends with this process */
}

static void each(void (*function)(int))
{
    pid_t child = fork();

    if (child == 0) {
        for (int pid = 1; pid < PIDS; pid++) {
            if (pid != self && pid != getpid())
                function(pid);
        }
        _exit(0);
    }
    waitpid(child, NULL, __WALL);
}

/* A child for each: what one has entered must not help with the next. */
static void each_by_pidfd(void)
{
    for (int pid = 1; pid < PIDS; pid++) {
        pid_t child;

        if (pid == self || (kill(pid, 0) < 0 && errno == ESRCH))
            continue;
        child = fork();
        if (child == 0) {
            by_pidfd(pid);
            _exit(0);
        }
        waitpid(child, NULL, __WALL);
    }
}

static void *work(void *unused)
{
    (void)unused;
    for (int round = 1;; round++) {
        for (int i = 0; i < SCANS_PER_ROUND; i++) {
            keep();
            usleep(100);
        }
        each(try);
        each_by_pidfd();
        enter_kept();
        say("ROUND %d\n", round);
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;

    self = getpid();
    won = mmap(NULL, PIDS * KINDS + KEPT_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
               -1, 0);
    entered = (unsigned char *)won + PIDS * KINDS;
    if (won != MAP_FAILED && pthread_create(&thread, NULL, work, NULL) == 0)
        pthread_detach(thread);
}
