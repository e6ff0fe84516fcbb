/*
 * leftovers.c - what a guest's id has left in a container that is its only box: processes, System V
 * IPC, files.
 *
 * Everything is found by its owner, not by a list of places: a guest has an id that no other
 * process of the container has. POSIX shared memory, semaphores and message queues are files of
 * mounted file systems; sockets in the file system too; timers, and what has no name, end with
 * their process.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/limits.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "sys/calls.h"

#define KILLS_MAX 2000 /* of half a millisecond */
#define IPC_BYTES (256 * KIB)
#define LIST_BYTES (64 * KIB) /* of children: about ten thousand */

/* ---- processes ---- */

/*
 * In a child with that effective id: the kernel reaches all its processes at once. Its other ids
 * are the next one, which no process has: so they cannot stop the child before it has sent.
 */
static void kill_as(uid_t id)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (syscall(SYS_setresuid, id + 1, id, id + 1) == 0)
            kill(-1, SIGKILL);
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/*
 * A process that has ended and waits for its parent, which is not us, counts as gone; one of which
 * only the first thread has ended does not.
 */
static bool is_dead(int proc_fd, const char *pid)
{
    char path[300], text[512];
    const char *tail;
    char state;
    unsigned threads;

    str_format(path, sizeof(path), "%s/stat", pid);
    if (fd_read_text_at(proc_fd, path, text, sizeof(text)) < 0)
        return true;
    tail = strrchr(text, ')'); /* fields 3 and 20: proc(5) */
    return tail &&
           sscanf(tail, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u",
                  &state, &threads) == 2 &&
           (state == 'Z' || state == 'X') && threads <= 1;
}

static bool has_processes(uid_t id)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    bool has_one = false;

    while (proc && !has_one && (entry = readdir(proc))) {
        struct stat status;

        has_one = isdigit((unsigned char)entry->d_name[0]) &&
                  fstatat(dirfd(proc), entry->d_name, &status, 0) == 0 && status.st_uid == id &&
                  !is_dead(dirfd(proc), entry->d_name);
    }
    if (proc)
        closedir(proc);
    return has_one;
}

void leftovers_processes(uid_t id)
{
    struct timespec pause = {.tv_nsec = 500000};

    for (int tries = 0; tries < KILLS_MAX; tries++) {
        kill_as(id);
        while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
            ; /* orphans are ours */
        if (!has_processes(id))
            return;
        nanosleep(&pause, NULL);
    }
}

/* False: the kernel has no such list, or it is longer than our room. */
static bool kill_listed(void)
{
    static char text[LIST_BYTES];
    char path[64], *rest = text, *name;

    str_format(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    if (fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
        return false;
    while ((name = strsep(&rest, " "))) {
        uint64_t pid;

        if (str_to_u64(name, &pid) == 0 && pid > 1)
            kill((pid_t)pid, SIGKILL);
    }
    return true;
}

/* By what each process says its parent is; false: there is no /proc. */
static bool kill_found(void)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;

    while (proc && (entry = readdir(proc))) {
        char path[300], text[512];
        const char *tail;
        uint64_t pid;
        int parent;

        str_format(path, sizeof(path), "%s/stat", entry->d_name);
        if (str_to_u64(entry->d_name, &pid) < 0 || pid <= 1 ||
            fd_read_text_at(dirfd(proc), path, text, sizeof(text)) < 0)
            continue;
        tail = strrchr(text, ')');
        if (tail && sscanf(tail, ") %*c %d", &parent) == 1 && parent == getpid())
            kill((pid_t)pid, SIGKILL);
    }
    if (proc)
        closedir(proc);
    return proc;
}

void leftovers_children(void)
{
    do {
        if (!kill_listed() && !kill_found())
            return; /* the warden has ended what it found */
    } while (waitpid(-1, NULL, __WALL) > 0 || errno == EINTR);
}

/* ---- System V IPC ---- */

static void remove_shm(int number)
{
    shmctl(number, IPC_RMID, NULL);
}

static void remove_sem(int number)
{
    semctl(number, 0, IPC_RMID);
}

static void remove_msg(int number)
{
    msgctl(number, IPC_RMID, NULL);
}

/* The number is the second field of a line; owner and maker are in columns that differ. */
static const struct {
    const char *path;
    int uid, cuid; /* fields, from 0 */
    void (*remove)(int number);
} ipc_kinds[] = {
    {"/proc/sysvipc/shm", 7, 9, remove_shm},
    {"/proc/sysvipc/sem", 4, 6, remove_sem},
    {"/proc/sysvipc/msg", 7, 9, remove_msg},
};

static bool field(const char *line, int index, unsigned long long *ret)
{
    for (int i = 0; i < index; i++) {
        line += strspn(line, " ");
        line += strcspn(line, " ");
    }
    return sscanf(line, "%llu", ret) == 1;
}

static _Noreturn void remove_ipc(uid_t id)
{
    static char text[IPC_BYTES];

    if (syscall(SYS_setresuid, id, id, id) < 0) /* it may remove its own: we need no right for it */
        _exit(1);
    for (size_t i = 0; i < ARRAY_SIZE(ipc_kinds); i++) {
        char *rest = text, *line;

        if (fd_read_text_at(AT_FDCWD, ipc_kinds[i].path, text, sizeof(text)) < 0)
            continue;
        while ((line = strsep(&rest, "\n"))) {
            unsigned long long number, uid, cuid;

            if (field(line, 1, &number) && field(line, ipc_kinds[i].uid, &uid) &&
                field(line, ipc_kinds[i].cuid, &cuid) && (uid == id || cuid == id))
                ipc_kinds[i].remove((int)number);
        }
    }
    _exit(0);
}

void leftovers_ipc(uid_t id)
{
    pid_t pid = fork();

    if (pid == 0)
        remove_ipc(id);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* ---- files ---- */

/* Views of the kernel's own state, in which no guest can leave anything. */
static bool is_view(int fd)
{
    static const unsigned long views[] = {PROC_SUPER_MAGIC,   SYSFS_MAGIC,
                                          CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC,
                                          DEVPTS_SUPER_MAGIC, SECURITYFS_MAGIC};
    struct statfs status;

    if (fstatfs(fd, &status) < 0)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
        if ((unsigned long)status.f_type == views[i])
            return true;
    }
    return false;
}

/* The id may have made names in it: it is its own, or open to all. */
static bool may_hold(const struct stat *status, uid_t id)
{
    return status->st_uid == id || status->st_gid == id || status->st_mode & S_IWOTH;
}

static void sweep_folder(int fd, uid_t id, const struct stat *own, unsigned depth);

/* The guest may have closed its own to everyone; the mode of another's folder is not changed. */
static int open_to_sweep(int dir_fd, const char *name, bool is_his)
{
    return is_his ? folder_open(dir_fd, name)
                  : openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void sweep_below(int dir_fd, const char *name, const struct stat *status, uid_t id,
                        dev_t device, unsigned depth)
{
    bool is_his = status->st_uid == id;
    CLEANUP(fd_closep) int fd = -1;

    /* A guest decides how deep its folders are: this removes them with a few descriptors. */
    if (depth >= LIMIT_TREE_DEPTH && is_his)
        folder_remove(dir_fd, name);
    if (depth >= LIMIT_TREE_DEPTH)
        return;
    fd = open_to_sweep(dir_fd, name, is_his);
    if (fd >= 0 && (status->st_dev == device || !is_view(fd)))
        sweep_folder(fd_take(&fd), id, status, depth + 1);
}

/* `own`: of the folder that it is in. */
static void sweep_entry(int dir_fd, const struct dirent *entry, uid_t id, const struct stat *own,
                        unsigned depth)
{
    const char *name = entry->d_name;
    struct stat status;

    if (!may_hold(own, id) && entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)
        return;
    if (fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (S_ISDIR(status.st_mode)) {
        sweep_below(dir_fd, name, &status, id, own->st_dev, depth);
        if (status.st_uid == id)
            unlinkat(dir_fd, name, AT_REMOVEDIR);
    } else if (status.st_uid == id || (own->st_uid == id && status.st_nlink > 1)) {
        unlinkat(dir_fd, name, 0); /* or one more name of another's file, in the guest's folder */
    }
}

/* Takes the descriptor. */
static void sweep_folder(int fd, uid_t id, const struct stat *own, unsigned depth)
{
    DIR *folder = fdopendir(fd);
    const struct dirent *entry;

    if (!folder) {
        close(fd);
        return;
    }
    while ((entry = readdir(folder))) {
        if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
            sweep_entry(dirfd(folder), entry, id, own, depth);
    }
    closedir(folder);
}

void leftovers_files(uid_t id, const char *path)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;

    if (fd >= 0 && fstat(fd, &status) == 0 && !is_view(fd))
        sweep_folder(fd_take(&fd), id, &status, 0);
}
