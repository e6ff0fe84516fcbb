/*
 * fd.h - file descriptors: born close-on-exec, owned by one variable, closed once.
 *
 * Every function retries EINTR. None of them blocks longer than the call it wraps.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_FD_H
#define BAILEY_BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

void fd_closep(int *fd); /* for CLEANUP(); -1 is fine; keeps errno */

/* Takes the descriptor out of the variable, which then holds -1. */
static inline int fd_take(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

/* Writes all of it, or returns a negative errno. For blocking descriptors. */
int fd_write_all(int fd, const void *data, size_t length);

/* Reads up to `size` bytes until end of file. Returns the count or a negative errno. */
ssize_t fd_read_all(int fd, void *data, size_t size);

/*
 * Reads a small text file (a proc or cgroup file) beneath dir_fd into `text`, NUL-terminated, with
 * trailing newlines removed. -EFBIG when it does not fit in size-1.
 */
int fd_read_text_at(int dir_fd, const char *name, char *text, size_t size);

/* One open, one write, one close: how proc and cgroup files want it. */
int fd_write_text_at(int dir_fd, const char *name, const char *text);

int fd_set_nonblocking(int fd, bool on);

#endif
