/*
 * output_file.c - a file that came out of a box, written to a folder of the host; see
 * output_file.h.
 */
#include "store/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

const char *output_kind_problem(uint32_t mode)
{
    if (S_ISLNK(mode))
        return "symbolic link";
    if (S_ISFIFO(mode))
        return "fifo";
    if (S_ISSOCK(mode))
        return "socket";
    if (S_ISCHR(mode) || S_ISBLK(mode))
        return "device";
    return S_ISREG(mode) ? NULL : "not a regular file";
}

const char *output_name_problem(const char *name)
{
    for (const char *at = name;;) {
        size_t length = strcspn(at, "/");

        if (length == 0)
            return "empty name";
        if (at[0] == '.')
            return "hidden name";
        if (length > 255)
            return "name too long";
        for (size_t i = 0; i < length; i++) {
            if ((unsigned char)at[i] < 0x20 || at[i] == 0x7f)
                return "control character in the name";
        }
        if (!at[length])
            break;
        at += length + 1;
    }
    name = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    return strcasecmp(name, "bailey.yaml") == 0 ? "would be configuration" : NULL;
}

/* Walks down to the folder of a name, making what is missing. */
static int enter_parent(int out_fd, const char *name, int *ret_fd, const char **ret_last)
{
    CLEANUP(fd_closep) int fd = fcntl(out_fd, F_DUPFD_CLOEXEC, 0);
    const char *slash;

    if (fd < 0)
        return -errno;
    while ((slash = strchr(name, '/'))) {
        char part[256];
        int next;

        str_format(part, sizeof(part), "%.*s", (int)(slash - name), name);
        if (mkdirat(fd, part, 0777) < 0 && errno != EEXIST)
            return -errno;
        next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -errno;
        close(fd);
        fd = next;
        name = slash + 1;
    }
    *ret_fd = fd_take(&fd);
    *ret_last = name;
    return 0;
}

/*
 * Two containers may write into one folder with the same pid, so the name has the pid namespace,
 * too (0 where /proc is hidden). A file of this name is of a process of ours that was killed.
 */
static void name_temporary(struct output_writer *writer)
{
    struct stat status;
    bool is_known = stat("/proc/self/ns/pid", &status) == 0;

    str_format(writer->temporary, sizeof(writer->temporary), ".bailey-out-%llu-%d",
               is_known ? (unsigned long long)status.st_ino : 0, (int)getpid());
}

int output_writer_begin(struct output_writer *writer, int folder_fd, const char *name,
                        uint32_t mode)
{
    int r = enter_parent(folder_fd, name, &writer->dir_fd, &writer->last);

    if (r < 0)
        return r;
    name_temporary(writer);
    unlinkat(writer->dir_fd, writer->temporary, 0);
    writer->fd = openat(writer->dir_fd, writer->temporary,
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (writer->fd >= 0)
        return 0;
    r = -errno;
    writer->temporary[0] = 0;
    output_writer_cancel(writer);
    return r;
}

int output_writer_write(struct output_writer *writer, const void *data, size_t length)
{
    return fd_write_all(writer->fd, data, length);
}

int output_writer_end(struct output_writer *writer)
{
    int r = close(fd_take(&writer->fd)) < 0 ? -errno : 0;

    if (r == 0 && renameat(writer->dir_fd, writer->temporary, writer->dir_fd, writer->last) < 0)
        r = -errno;
    if (r == 0)
        writer->temporary[0] = 0;
    output_writer_cancel(writer);
    return r;
}

void output_writer_cancel(struct output_writer *writer)
{
    fd_closep(&writer->fd);
    writer->fd = -1;
    if (writer->dir_fd >= 0 && writer->temporary[0])
        unlinkat(writer->dir_fd, writer->temporary, 0);
    writer->temporary[0] = 0;
    fd_closep(&writer->dir_fd);
    writer->dir_fd = -1;
}
