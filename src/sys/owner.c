/* owner.c - which process made a control group or folder, and whether it has ended; see owner.h. */
#include "sys/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

uint64_t owner_pid_namespace(void)
{
    struct stat status;

    return stat("/proc/self/ns/pid", &status) == 0 ? (uint64_t)status.st_ino : 0;
}

void owner_name(char text[OWNER_MAX])
{
    str_format(text, OWNER_MAX, "n%llu-%d", (unsigned long long)owner_pid_namespace(),
               (int)getpid());
}

static const char *skip_digits(const char *text)
{
    size_t length = strspn(text, "0123456789");

    return length > 0 ? text + length : NULL;
}

const char *owner_skip_name(const char *text)
{
    const char *at = text[0] == 'n' ? skip_digits(text + 1) : NULL;

    return at && *at == '-' ? skip_digits(at + 1) : NULL;
}

static int lock_folder(int dir_fd, const char *name, int *ret_fd)
{
    CLEANUP(fd_closep)
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    *ret_fd = fd_take(&fd);
    return 0;
}

int owner_hold(const char *path, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = -1;
    int r = lock_folder(AT_FDCWD, path, &fd);

    if (r == -ENOENT)
        return -EAGAIN;
    if (r < 0)
        return r;
    /* A sweeper may have removed it after it was opened here and before it was locked. No other
     * process makes one of this name. */
    if (access(path, F_OK) < 0)
        return -EAGAIN;
    *ret_fd = fd_take(&fd);
    return 0;
}

int owner_inherit(int dir_fd, const char *name, int *ret_fd)
{
    return lock_folder(dir_fd, name, ret_fd);
}
