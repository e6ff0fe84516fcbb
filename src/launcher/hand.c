/* hand.c - what survives an exec and what does not: descriptors, programs, privileges. */
#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "launcher/hand.h"
#include "sys/calls.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

#define HIGH_FD 256 /* above every number that is handed over */

int hand_fds(struct fd_move *moves, size_t count)
{
    int low = 0;

    /* Out of the way first: one's source may be another's number. */
    for (size_t i = 0; i < count; i++) {
        if (moves[i].from < 0)
            continue;
        moves[i].from = fcntl(moves[i].from, F_DUPFD_CLOEXEC, HIGH_FD);
        if (moves[i].from < 0)
            return -errno;
    }
    for (size_t i = 0; i < count; i++) {
        if (moves[i].from < 0)
            continue;
        if (dup2(moves[i].from, moves[i].to) < 0)
            return -errno;
        if (moves[i].to > low &&
            sys_close_range((unsigned)low, (unsigned)moves[i].to - 1, CLOSE_RANGE_CLOEXEC) < 0)
            return -errno;
        low = moves[i].to + 1;
    }
    return sys_close_range((unsigned)low, ~0U, CLOSE_RANGE_CLOEXEC) < 0 ? -errno : 0;
}

/* Programs say MFD_EXEC, data says nothing; kernels that do not know it execute anyway. */
static int make_memfd(const char *name, unsigned flags)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

    if (fd < 0 && errno == EINVAL && flags)
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

static int seal(int fd)
{
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0
               ? -errno
               : 0;
}

int hand_program(const char *path, int *ret_fd, struct error *err)
{
    CLEANUP(fd_closep) int from = open(path, O_RDONLY | O_CLOEXEC);
    CLEANUP(fd_closep) int to = -1;
    struct stat status;

    if (from < 0 || fstat(from, &status) < 0)
        return error_errno(err, "opening the program %s", path);
    if (!S_ISREG(status.st_mode))
        return error_set(err, -EACCES, ERROR_ENGINE, "%s is not a program", path);
    to = make_memfd("bailey", MFD_EXEC);
    if (to < 0)
        return error_errno(err, "making a file in memory");
    for (off_t left = status.st_size; left > 0;) {
        ssize_t count = sendfile(to, from, NULL, (size_t)left);

        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return error_errno(err, "copying the program %s", path);
        left -= count;
    }
    if (seal(to) < 0)
        return error_errno(err, "sealing the copy of %s", path);
    *ret_fd = fd_take(&to);
    return 0;
}

int hand_bytes(const char *name, const void *data, size_t length, int *ret_fd, struct error *err)
{
    CLEANUP(fd_closep) int fd = make_memfd(name, 0);

    if (fd < 0)
        return error_errno(err, "making a file in memory");
    if (fd_write_all(fd, data, length) < 0 || lseek(fd, 0, SEEK_SET) < 0 || seal(fd) < 0)
        return error_errno(err, "writing a file in memory");
    *ret_fd = fd_take(&fd);
    return 0;
}

int hand_exec(int program_fd, char *const *argv, char *const *env)
{
    syscall(SYS_execveat, program_fd, "", argv, env, AT_EMPTY_PATH);
    return -errno;
}

/* root's automatic capabilities off, for good; KEEP_CAPS stays off, locked. */
#define SECUREBITS \
    (SECBIT_NOROOT | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_CAP_AMBIENT_RAISE | SECURE_ALL_LOCKS)

/*
 * The bounding set and the securebits need CAP_SETPCAP, so they come before the ids; a process that
 * never had it has nothing to lose either, and no_new_privs keeps it so.
 */
int hand_off_privileges(int64_t id, bool clears_groups)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};

    for (int cap = 0; cap < 64; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            break; /* beyond the last one, or not allowed */
    }
    prctl(PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0);
    if (clears_groups && syscall(SYS_setgroups, 0, NULL) < 0)
        return -errno;
    if (id >= 0 &&
        (syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0))
        return -errno;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        sys_capset(&header, none) < 0)
        return -errno;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}
