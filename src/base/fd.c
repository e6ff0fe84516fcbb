/* fd.c - reading, writing and closing descriptors without losing bytes or errno; see fd.h. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

void fd_closep(int *fd)
{
    int saved_errno = errno;

    /* Linux closes the number even when close() says EINTR: never again for the same one. */
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    errno = saved_errno;
}

int fd_write_all(int fd, const void *data, size_t length)
{
    const char *next = data;

    while (length > 0) {
        ssize_t count = write(fd, next, length);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        if (count == 0)
            return -EIO; /* nothing on Linux does this; a loop would be forever */
        next += count;
        length -= (size_t)count;
    }
    return 0;
}

ssize_t fd_read_all(int fd, void *data, size_t size)
{
    char *to = data;
    size_t have = 0;

    while (have < size) {
        ssize_t count = read(fd, to + have, size - have);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        if (count == 0)
            break;
        have += (size_t)count;
    }
    return (ssize_t)have;
}

static int open_at(int dir_fd, const char *name, int flags)
{
    int fd;

    do {
        fd = openat(dir_fd, name, flags | O_CLOEXEC | O_NOCTTY);
    } while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

int fd_read_text_at(int dir_fd, const char *name, char *text, size_t size)
{
    CLEANUP(fd_closep) int fd = -1;
    ssize_t count, more;
    char beyond;

    if (size == 0)
        return -EINVAL;
    text[0] = '\0';
    fd = open_at(dir_fd, name, O_RDONLY);
    if (fd < 0)
        return fd;
    count = fd_read_all(fd, text, size - 1);
    more = count < 0 ? count : fd_read_all(fd, &beyond, 1);
    if (more != 0) {
        text[0] = '\0';
        return more < 0 ? (int)more : -EFBIG;
    }
    while (count > 0 && text[count - 1] == '\n')
        count--;
    text[count] = '\0';
    return 0;
}

int fd_write_text_at(int dir_fd, const char *name, const char *text)
{
    CLEANUP(fd_closep) int fd = -1;
    size_t length = strlen(text);
    ssize_t count;

    fd = open_at(dir_fd, name, O_WRONLY);
    if (fd < 0)
        return fd;
    /* The kernel takes each write to such a file as one whole value: a rest must not follow. */
    do {
        count = write(fd, text, length);
    } while (count < 0 && errno == EINTR);
    if (count < 0)
        return -errno;
    return (size_t)count == length ? 0 : -EIO;
}

int fd_set_nonblocking(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);
    int wanted;

    if (flags < 0)
        return -errno;
    wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    if (wanted != flags && fcntl(fd, F_SETFL, wanted) < 0)
        return -errno;
    return 0;
}
