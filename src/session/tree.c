/* tree.c - removes a folder of the state with all below it, by descriptors, never following a link.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "session/inside.h"

#define DEPTH_MAX 128 /* our own folders are never deeper: what is in them was made by us */

static int empty_folder(int fd, int depth)
{
    DIR *folder = fdopendir(fd); /* takes the descriptor */
    struct dirent *entry;
    int r = 0;

    if (!folder) {
        close(fd);
        return -errno;
    }
    while ((entry = readdir(folder))) {
        int child;

        if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, ".."))
            continue;
        if (unlinkat(dirfd(folder), entry->d_name, 0) == 0)
            continue;
        child =
            openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (child < 0 || depth == 0) {
            r = child < 0 ? -errno : -ELOOP;
            if (child >= 0)
                close(child);
            continue;
        }
        empty_folder(child, depth - 1);
        if (unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR) < 0)
            r = -errno;
    }
    closedir(folder);
    return r;
}

int remove_tree(int folder_fd, const char *name)
{
    int fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    empty_folder(fd, DEPTH_MAX);
    return unlinkat(folder_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}
