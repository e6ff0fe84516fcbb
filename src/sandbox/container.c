/*
 * container.c - a box that another engine made: what of it can be seen from inside, and the folders
 * that it must have.
 *
 * Only what the warden can see counts: what it cannot see is missing with ENODATA, and the engine
 * that made the container may know better.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/stage.h"

#define WHOLE_ID_RANGE 4294967295u

/* A /proc of our own pid namespace calls us what we are called there. */
static int see_proc(struct sandbox *sandbox)
{
    char text[16] = "";

    if (readlink("/proc/self", text, sizeof(text) - 1) < 0)
        return -errno;
    if (!str_equal(text, "1"))
        return -EXDEV;
    sandbox->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return sandbox->proc_fd < 0 ? -errno : 0;
}

static int see_pids(struct sandbox *sandbox)
{
    (void)sandbox;
    return getpid() == 1 ? 0 : -EXDEV;
}

/* In the first user namespace of a machine every id is itself. */
static int see_ids(struct sandbox *sandbox)
{
    unsigned inside, outside, count;
    char text[1024];
    int r = fd_read_text_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof(text));

    (void)sandbox;
    if (r < 0)
        return r;
    if (sscanf(text, "%u %u %u", &inside, &outside, &count) != 3)
        return -ENODATA;
    return inside == 0 && outside == 0 && count == WHOLE_ID_RANGE ? -EPERM : 0;
}

/* The origin of the files cannot be seen; that they cannot be changed can. */
static int see_root(struct sandbox *sandbox)
{
    struct statvfs status;

    (void)sandbox;
    if (statvfs("/", &status) < 0)
        return -errno;
    return status.f_flag & ST_RDONLY ? 0 : -ENODATA;
}

/* No interface is up but loopback; the kernel puts some into every namespace that are down. */
static int see_network(struct sandbox *sandbox)
{
    CLEANUP(fd_closep) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char text[8192], *rest = text, *line;

    (void)sandbox;
    if (fd < 0)
        return -errno;
    if (fd_read_text_at(AT_FDCWD, "/proc/self/net/dev", text, sizeof(text)) < 0)
        return -ENODATA;
    while ((line = strsep(&rest, "\n"))) {
        struct ifreq request = {0};
        char *name = line + strspn(line, " ");
        size_t length = strcspn(name, ":");

        if (!name[length]) /* the two lines of the heading */
            continue;
        name[length] = 0;
        if (str_equal(name, "lo"))
            continue;
        str_copy(request.ifr_name, sizeof(request.ifr_name), name);
        if (ioctl(fd, SIOCGIFFLAGS, &request) < 0)
            return -errno;
        if (request.ifr_flags & IFF_UP)
            return -ENETUNREACH;
    }
    return 0;
}

/* Every path in it begins at the top: "N:controllers:/" for each hierarchy. */
static int see_groups(struct sandbox *sandbox)
{
    char text[4096], *rest = text, *line;
    int r = fd_read_text_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text));

    (void)sandbox;
    if (r < 0)
        return r;
    while ((line = strsep(&rest, "\n"))) {
        const char *path = strrchr(line, ':');

        if (!path || !str_equal(path, ":/"))
            return -EXDEV;
    }
    return 0;
}

static int see_nothing(struct sandbox *sandbox)
{
    (void)sandbox;
    return -ENODATA;
}

/* Of drivers that share no inode of an image between two containers: an overlay, or a copy. */
static int see_own_root(struct sandbox *sandbox)
{
    struct statfs root;

    (void)sandbox;
    if (statfs("/usr", &root) < 0)
        return -errno;
    return root.f_type == OVERLAYFS_SUPER_MAGIC ? 0 : -ENODATA;
}

static int see_one_id(struct sandbox *sandbox)
{
    (void)sandbox;
    return -EPERM; /* warden and guest share it: they have no privilege to be different */
}

/* What the stages do not find out by doing it. */
static const struct {
    enum isolation_layer layer;
    int (*see)(struct sandbox *sandbox); /* 0: it holds */
} sights[] = {
    {ISOLATION_LAYER_USERNS, see_ids},       {ISOLATION_LAYER_MOUNTNS, see_root},
    {ISOLATION_LAYER_PIDNS, see_pids},       {ISOLATION_LAYER_NETNS, see_network},
    {ISOLATION_LAYER_IPCNS, see_nothing},    {ISOLATION_LAYER_UTSNS, see_nothing},
    {ISOLATION_LAYER_CGROUPNS, see_groups},  {ISOLATION_LAYER_PROC, see_proc},
    {ISOLATION_LAYER_UID_SPLIT, see_one_id}, {ISOLATION_LAYER_OVERLAY, see_own_root},
};

void container_note(struct sandbox *sandbox)
{
    for (size_t i = 0; i < ARRAY_SIZE(sights); i++) {
        int r = sights[i].see(sandbox);

        if (r < 0)
            sandbox_lack(sandbox, sights[i].layer, r);
        else
            sandbox_have(sandbox, sights[i].layer);
    }
}

static int make_folder(int dir_fd, const char *name)
{
    if (mkdirat(dir_fd, name, 0755) == 0 || errno == EEXIST)
        return 0;
    return -errno;
}

/* runc gives a tmpfs the mode of the image's folder below it, whatever was asked for. */
static void allow_ourselves(int fd)
{
    struct stat status;

    if (fstat(fd, &status) == 0 && status.st_uid == geteuid() && (~status.st_mode & S_IRWXU))
        fchmod(fd, status.st_mode | S_IRWXU);
}

/*
 * Must: come after the ids and the shares. A share that cannot be written is the container's fault:
 * the step says which (enum share, and 1).
 */
int stage_container_shares(struct sandbox *sandbox)
{
    static const char *const folders[] = {"output", "data"};

    umask(0); /* as in a box of ours: modes are as they are asked for */
    for (int i = 0; i < _SHARE_MAX; i++) {
        if (sandbox->share_fd[i] < 0)
            continue;
        sandbox->failed_step = (uint16_t)(i + 1);
        allow_ourselves(sandbox->share_fd[i]);
        if (faccessat(sandbox->share_fd[i], ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0)
            return -errno;
    }
    sandbox->failed_step = SHARE_TMP + 1;
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        int r = make_folder(sandbox->share_fd[SHARE_TMP], folders[i]);

        if (r < 0)
            return r;
    }
    return 0;
}
