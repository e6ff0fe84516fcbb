/*
 * tree.c - a tree of the host as a detached mount, cloned with the caller's own rights before a box
 * gets an id that could not reach it.
 *
 * Theory of operation. open_tree(2) with OPEN_TREE_CLONE needs CAP_SYS_ADMIN in the user namespace
 * that owns the mounts. Root of a machine has it, root of a container does not. In a new user
 * namespace where every id is mapped to itself a process has all capabilities over the same files:
 * a short-lived child clones the tree there and sends it back. Mapping root's id needs CAP_SETUID,
 * CAP_SETGID and CAP_SETFCAP, which a container has by default; where they are missing there is no
 * tree, and the box tries the path itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "sys/calls.h"
#include "sys/packet.h"

#define MAP_MAX 4096

/*
 * The clone of a shared mount is its peer: what the box mounts on it would be mounted on the host
 * too. So it leaves the peers at once. `below`: AT_RECURSIVE, or 0.
 */
static int clone_private(int folder_fd, const char *path, unsigned below)
{
    struct mount_attr attr = {.propagation = MS_PRIVATE};
    CLEANUP(fd_closep)
    int fd =
        sys_open_tree(folder_fd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | below);

    if (fd < 0 || sys_mount_setattr(fd, "", AT_EMPTY_PATH | below, &attr) < 0)
        return -1;
    return fd_take(&fd);
}

static int clone_tree(const char *path, bool is_folder)
{
    CLEANUP(fd_closep) int fd = -1;

    if (!is_folder)
        return clone_private(AT_FDCWD, path, AT_RECURSIVE);
    fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -1 : clone_private(fd, "", AT_RECURSIVE);
}

/* Our own map with its left column on both sides: each id becomes itself. */
static int write_identity(pid_t pid, const char *name)
{
    char path[64], own[MAP_MAX], text[MAP_MAX];
    char *rest = own, *line;
    size_t length = 0;
    int r;

    str_format(path, sizeof(path), "/proc/self/%s", name);
    r = fd_read_text_at(AT_FDCWD, path, own, sizeof(own));
    if (r < 0)
        return r;
    text[0] = 0;
    while ((line = strsep(&rest, "\n"))) {
        unsigned long long inside, outside, count;

        if (sscanf(line, "%llu %llu %llu", &inside, &outside, &count) != 3)
            continue;
        if (str_format(text + length, sizeof(text) - length, "%llu %llu %llu\n", inside, inside,
                       count) < 0)
            return -E2BIG;
        length += strlen(text + length);
    }
    str_format(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    return fd_write_text_at(AT_FDCWD, path, text);
}

/* In the child: system calls only. */
static _Noreturn void clone_inside(int socket_fd, const char *path, bool is_folder)
{
    char byte;
    int tree_fd;

    if (recv(socket_fd, &byte, 1, 0) != 1)
        _exit(1); /* no maps */
    tree_fd = clone_tree(path, is_folder);
    _exit(tree_fd < 0 || packet_send(socket_fd, "t", 1, &tree_fd, 1, 0) < 0);
}

/* -1: none. */
static int clone_apart(const char *path, bool is_folder)
{
    CLEANUP(fd_closep) int ours = -1;
    CLEANUP(fd_closep) int pid_fd = -1;
    int pair[2], tree_fd = -1;
    size_t count = 1;
    char byte;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    ours = pair[0];
    pid = sys_clone_fork(CLONE_NEWUSER | CLONE_NEWNS, &pid_fd, -1);
    if (pid == 0) {
        close(pair[0]);
        clone_inside(pair[1], path, is_folder);
    }
    close(pair[1]);
    if (pid < 0)
        return -1;
    if (write_identity(pid, "uid_map") < 0 || write_identity(pid, "gid_map") < 0 ||
        packet_send(ours, "g", 1, NULL, 0, 0) < 0)
        shutdown(ours, SHUT_RDWR); /* it ends without a message */
    if (packet_receive(ours, &byte, 1, &tree_fd, &count, 0) != 1 || count != 1)
        tree_fd = -1;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return tree_fd;
}

static int clone_somehow(const char *path, bool is_folder)
{
    int fd;

    if (geteuid() != 0)
        return -1;
    fd = clone_tree(path, is_folder);
    return fd < 0 && errno == EPERM ? clone_apart(path, is_folder) : fd;
}

int root_clone_tree(const char *path)
{
    return clone_somehow(path, false);
}

int root_clone_mount(const char *path)
{
    return geteuid() == 0 ? clone_private(AT_FDCWD, path, 0) : -1;
}

int root_clone_folder(const char *path, const char *target, int *ret_fd, struct error *err)
{
    struct stat status;

    errno = 0;
    *ret_fd = clone_somehow(path, true);
    if (*ret_fd >= 0)
        return 0;
    if (errno == ENOTDIR || errno == ELOOP ||
        (lstat(path, &status) == 0 && !S_ISDIR(status.st_mode)))
        return error_set(err, -ENOTDIR, ERROR_BAD_INPUT, "what should be /%s is not a folder",
                         target);
    return 0;
}
