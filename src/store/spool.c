/*
 * spool.c - a stream's newest bytes at their offsets in a sparse file; see spool.h.
 *
 * Where the kept part begins follows from the length alone (`keep` bytes before the end, rounded
 * down to a whole step), so the next broker can compute it. Holes show it too (SEEK_DATA), and are
 * used because `keep` may have been smaller before; alone they would not suffice: not every file
 * system reports them, and some make them from any zeroes.
 *
 * syscalls: openat fstat lseek pread64 pwrite64 ftruncate fallocate unlinkat close
 */
#include "store/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#define FILE_MODE 0600
#define STEP_BYTES (64 * KIB) /* steps are multiples: of every block and page size there is */

/* ---- where the kept part begins ---------------------------------------------------------------
 */

static uint64_t step_of(uint64_t keep)
{
    uint64_t quarter = keep / 4;

    return quarter < STEP_BYTES ? STEP_BYTES : quarter / STEP_BYTES * STEP_BYTES;
}

static uint64_t first_of(uint64_t length, uint64_t keep)
{
    uint64_t step = step_of(keep);

    return length <= keep ? 0 : (length - keep) / step * step;
}

/* Gives back everything between `head` and `first`. */
static int punch(int fd, uint64_t head, uint64_t first)
{
    int r;

    if (first <= head)
        return 0;
    do {
        r = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)head,
                      (off_t)(first - head));
    } while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : 0;
}

/* Offset of the first byte after `head` that is not in a hole; the length if all are. */
static int find_data(int fd, uint64_t head, uint64_t length, uint64_t *ret)
{
    off_t found = lseek(fd, (off_t)head, SEEK_DATA);

    if (found < 0 && errno == ENXIO)
        *ret = length;
    else if (found < 0 && errno == EINVAL)
        *ret = 0; /* the file system does not report holes */
    else if (found < 0)
        return -errno;
    else
        *ret = MIN((uint64_t)found, length);
    if (*ret <= head)
        *ret = 0; /* nothing is missing */
    return 0;
}

/* ---- open and close ---------------------------------------------------------------------------
 */

static int check_name(const char *name, struct error *err)
{
    if (!name[0] || strchr(name, '/') || str_equal(name, ".") || str_equal(name, ".."))
        return error_set(err, -EINVAL, ERROR_ENGINE, "'%s' is not a name for a file of output",
                         name);
    return 0;
}

static int say_errno(struct error *err, int num, const char *doing, const char *name)
{
    if (num == -ENOSPC || num == -EDQUOT)
        return error_set(err, -ENOSPC, ERROR_DISK_FULL, "%s%s: no space (%s)", doing, name,
                         error_name(-num));
    errno = -num;
    return error_errno(err, "%s%s", doing, name);
}

int spool_open(struct spool *spool, int folder_fd, const char *name, uint64_t keep, uint64_t head,
               struct error *err)
{
    static const char doing[] = "opening the file of output ";
    CLEANUP(fd_closep) int fd = -1;
    uint64_t length, first = 0, wanted;
    struct stat st;
    int r = check_name(name, err);

    if (r < 0)
        return r;
    fd = openat(folder_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                FILE_MODE);
    if (fd < 0 || fstat(fd, &st) < 0)
        return say_errno(err, -errno, doing, name);
    if (!S_ISREG(st.st_mode))
        return error_set(err, -EINVAL, ERROR_ENGINE, "%s%s: not a file", doing, name);
    length = (uint64_t)st.st_size;
    head = (head + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
    if (length > head)
        r = find_data(fd, head, length, &first);
    if (r < 0)
        return say_errno(err, r, doing, name);
    wanted = first_of(length, keep);
    if (wanted > first) {
        /* Left over from a kill, or a larger keep. Where holes cannot be, it is all there. */
        if (punch(fd, head, wanted) != -EOPNOTSUPP)
            first = wanted;
    }
    *spool = (struct spool){
        .fd = fd_take(&fd), .length = length, .first = first, .keep = keep, .head = head};
    return 0;
}

void spool_close(struct spool *spool)
{
    fd_closep(&spool->fd);
}

int spool_remove(int folder_fd, const char *name)
{
    int r = check_name(name, NULL);

    if (r < 0)
        return r;
    return unlinkat(folder_fd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* ---- bytes ------------------------------------------------------------------------------------
 */

static int write_at(int fd, const char *data, size_t length, uint64_t offset)
{
    while (length > 0) {
        ssize_t count = pwrite(fd, data, length, (off_t)offset);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        if (count == 0)
            return -EIO;
        data += count;
        offset += (uint64_t)count;
        length -= (size_t)count;
    }
    return 0;
}

int spool_append(struct spool *spool, const void *data, size_t length, struct error *err)
{
    uint64_t first;
    int r;

    if (spool->fd < 0)
        return error_set(err, -EBADF, ERROR_ENGINE, "keeping output: the file is closed");
    if (length > (uint64_t)INT64_MAX - spool->length)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE, "keeping output: too much output");
    r = write_at(spool->fd, data, length, spool->length);
    first = MAX(spool->first, first_of(spool->length + length, spool->keep));
    if (r == 0 && first > spool->first)
        r = punch(spool->fd, spool->head, first);
    if (r == 0) {
        spool->length += length;
        spool->first = first;
        return 0;
    }
    /* A part of it may be there; the hole is not. */
    while (ftruncate(spool->fd, (off_t)spool->length) < 0 && errno == EINTR)
        ;
    if (r == -EOPNOTSUPP)
        return error_set(err, r, ERROR_ENGINE,
                         "keeping output: its file system cannot give back old bytes, so that "
                         "nothing is kept behind the first %llu",
                         (unsigned long long)spool->length);
    return say_errno(err, r, "keeping output", "");
}

ssize_t spool_read(const struct spool *spool, uint64_t offset, void *data, size_t size)
{
    ssize_t count;

    uint64_t end = offset < spool->first ? spool->head : spool->length;

    if (offset < spool->first && offset >= spool->head)
        return -ERANGE;
    end = MIN(end, spool->length);
    if (offset >= end)
        return 0;
    do {
        count = pread(spool->fd, data, (size_t)MIN((uint64_t)size, end - offset), (off_t)offset);
    } while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}
