/*
 * box.c - see box.h. Between clone and exec there are system calls only, each with the name of its
 * step for standard error; the root is a tmpfs with this machine's /usr and /etc, read-only.
 */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "boxes/boxes.h"
#include "sys/calls.h"

#define ROOT "/tmp/root" /* on a tmpfs that only this process sees */
#define BOX_ID 1000
#define DEVICES "null", "zero", "full", "random", "urandom", "tty"

static _Noreturn void give_up(const char *step)
{
    dprintf(STDERR_FILENO, "clone: %s: %s\n", step, strerror(errno));
    _exit(1);
}

static void need(const char *step, long result)
{
    if (result < 0)
        give_up(step);
}

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    need(path, fd);
    need(path, write(fd, text, strlen(text)));
    close(fd);
}

/* One id is enough, and needs no privilege: that of whoever runs the host. */
static void map_ids(uid_t user, gid_t group)
{
    char text[64];

    /* A provider host is not, and then its files in /proc are root's; this copy of it may be. */
    need("dumpable", prctl(PR_SET_DUMPABLE, 1));
    write_file("/proc/self/setgroups", "deny");
    snprintf(text, sizeof(text), "%d %u 1", BOX_ID, (unsigned)user);
    write_file("/proc/self/uid_map", text);
    snprintf(text, sizeof(text), "%d %u 1", BOX_ID, (unsigned)group);
    write_file("/proc/self/gid_map", text);
}

static void bind_read_only(const char *from, const char *to)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

    need(to, mkdir(to, 0755));
    need(from, mount(from, to, NULL, MS_BIND | MS_REC, NULL));
    need(to, syscall(SYS_mount_setattr, -1, to, AT_RECURSIVE, &attr, sizeof(attr)));
}

/* In place of a file of this machine's. */
static void put_over(const char *path, const char *text)
{
    static const char above[] = "/tmp/over";
    int fd = open(above, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);

    need(path, fd);
    need(path, write(fd, text, strlen(text)));
    close(fd);
    need(path, mount(above, path, NULL, MS_BIND, NULL));
    need(path, unlink(above));
}

static void bind_device(const char *name)
{
    char from[64], to[64];
    int fd;

    snprintf(from, sizeof(from), "/dev/%s", name);
    snprintf(to, sizeof(to), ROOT "/dev/%s", name);
    fd = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    need(to, fd);
    close(fd);
    need(from, mount(from, to, NULL, MS_BIND, NULL));
}

static void share(const char *path, uint64_t bytes, const char *mode)
{
    char options[96];

    snprintf(options, sizeof(options), "size=%llu,mode=%s", (unsigned long long)bytes, mode);
    need(path, mkdir(path, 0755));
    need(path, mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options));
}

static void make_devices(uint64_t bytes)
{
    static const char *const names[] = {DEVICES};

    need("dev", mkdir(ROOT "/dev", 0755));
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        bind_device(names[i]);
    need("pts", mkdir(ROOT "/dev/pts", 0755));
    need("devpts", mount("devpts", ROOT "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
                         "newinstance,ptmxmode=0666,mode=0620"));
    need("ptmx", symlink("pts/ptmx", ROOT "/dev/ptmx"));
    need("fd", symlink("/proc/self/fd", ROOT "/dev/fd"));
    need("stdin", symlink("/proc/self/fd/0", ROOT "/dev/stdin"));
    need("stdout", symlink("/proc/self/fd/1", ROOT "/dev/stdout"));
    need("stderr", symlink("/proc/self/fd/2", ROOT "/dev/stderr"));
    share(ROOT "/dev/shm", bytes, "1777");
}

static void make_root(const struct clone_box *box)
{
    static const char *const links[] = {"bin", "sbin", "lib", "lib64"};

    need("private", mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL));
    /* What is to be shown is found before the tmpfs covers where it may lie. */
    need("files", chdir(box->files));
    need("tmpfs", mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755"));
    need("root", mkdir(ROOT, 0755));
    need("root", mount("tmpfs", ROOT, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755"));
    bind_read_only("/usr", ROOT "/usr");
    bind_read_only("/etc", ROOT "/etc");
    bind_read_only(".", ROOT "/bailey");
    put_over(ROOT "/etc/passwd", "user:x:1000:1000::/home/user:/bin/bash\n");
    put_over(ROOT "/etc/group", "user:x:1000:\n");
    for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
        char target[32], path[64];

        snprintf(target, sizeof(target), "usr/%s", links[i]);
        snprintf(path, sizeof(path), ROOT "/%s", links[i]);
        need(path, symlink(target, path));
    }
    make_devices(box->disk_bytes);
    share(ROOT "/tmp", box->disk_bytes, "1777");
    share(ROOT "/workspace", box->disk_bytes, "0755");
    need("home", mkdir(ROOT "/home", 0755));
    share(ROOT "/home/user", box->disk_bytes, "0755");
    need("proc", mkdir(ROOT "/proc", 0755));
    need("proc", mount("proc", ROOT "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
    need("chdir", chdir(ROOT));
    need("pivot_root", syscall(SYS_pivot_root, ".", "."));
    need("umount", umount2(".", MNT_DETACH));
    need("read-only root",
         mount("", "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL));
    need("chdir", chdir("/workspace"));
}

static _Noreturn void box_child(const struct clone_box *box, uid_t user, gid_t group)
{
    static char *argv[] = {"bailey", WARDEN_INSIDE_WORD, NULL};
    char disk[64], memory[64];
    char *env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", disk, memory, NULL};
    sigset_t none;

    snprintf(disk, sizeof(disk), "BAILEY_DISK_BYTES=%llu", (unsigned long long)box->disk_bytes);
    snprintf(memory, sizeof(memory), "BAILEY_MEMORY_BYTES=%llu",
             (unsigned long long)box->memory_bytes);
    map_ids(user, group);
    make_root(box);
    need("sethostname", sethostname("bailey", 6));
    need("streams", dup2(box->stream_fd, STDIN_FILENO));
    need("streams", dup2(box->stream_fd, STDOUT_FILENO));
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    setsid();
    execve("/bailey/bin/bailey", argv, env);
    give_up("exec");
}

pid_t clone_box_start(const struct clone_box *box, int *ret_pid_fd)
{
    static const uint64_t walls = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                  CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    uid_t user = geteuid();
    gid_t group = getegid();
    pid_t pid = sys_clone_fork(walls, ret_pid_fd, -1);

    if (pid == 0)
        box_child(box, user, group);
    return pid < 0 ? -errno : pid;
}
