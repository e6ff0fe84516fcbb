/*
 * scan.c - the names in a folder, a few at a time: a small buffer of ours instead of the 32 KB that
 * readdir(3) takes for each folder.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "warden/file_op.h"

void scan_open(struct scan *scan, int fd)
{
    scan->fd = fd;
    scan->at = scan->have = 0;
}

void scan_close(struct scan *scan)
{
    fd_closep(&scan->fd);
    scan->fd = -1;
}

/* Some file systems do not say what a name is. */
static bool is_folder(const struct scan *scan, const struct dirent64 *entry)
{
    struct stat status;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(scan->fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(status.st_mode);
}

int scan_next(struct scan *scan, const char **ret_name, bool *ret_is_folder)
{
    const struct dirent64 *entry;

    do {
        if (scan->at == scan->have) {
            ssize_t length = getdents64(scan->fd, scan->data, sizeof(scan->data));

            if (length <= 0)
                return length < 0 && errno != ENOENT ? -errno : 0; /* removed: nothing is in it */
            scan->at = 0;
            scan->have = (size_t)length;
        }
        entry = (const struct dirent64 *)(scan->data + scan->at);
        scan->at += entry->d_reclen;
    } while (str_equal(entry->d_name, ".") || str_equal(entry->d_name, ".."));
    *ret_name = entry->d_name;
    *ret_is_folder = is_folder(scan, entry);
    return 1;
}
