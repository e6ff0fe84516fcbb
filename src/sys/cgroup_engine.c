/* cgroup_engine.c - the group of an engine, handed to its id, and what a group has used. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/cgroup.h"
#include "sys/owner.h"

#define LEAF_NAME "launcher"

/* Files that a process must own to make groups below; missing ones are skipped. */
static const char *const handed_files[] = {"tasks", "cgroup.procs", "cgroup.threads",
                                           "cgroup.subtree_control"};

static int hand_over(const char *path, int64_t owner)
{
    CLEANUP(fd_closep) int fd = -1;
    uid_t id = (uid_t)owner;

    if (owner < 0)
        return 0;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchown(fd, id, id) < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_SIZE(handed_files); i++) {
        if (fchownat(fd, handed_files[i], id, id, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT)
            return -errno;
    }
    return 0;
}

/* With `ret_lock_fd` its maker holds it; 0700: another user could take the lock otherwise. */
static int make_folder(const char *path, int64_t owner, int *ret_lock_fd)
{
    int r;

    if (mkdir(path, 0700) < 0)
        return -errno;
    r = ret_lock_fd ? owner_hold(path, ret_lock_fd) : 0;
    if (r == 0)
        r = hand_over(path, owner);
    if (r < 0)
        rmdir(path);
    return r;
}

/* v2: controllers for the boxes; a group with members may not have any. */
static int divide(const struct cgroup_site *site)
{
    char path[CGROUP_PATH_MAX + 32];
    int r = str_format(path, sizeof(path), "%s/cgroup.subtree_control", site->parent[0]);

    if (r < 0)
        return r;
    return fd_write_text_at(
        AT_FDCWD, path, site->parent[CONTROLLER_CPU][0] ? "+memory +pids +cpu" : "+memory +pids");
}

/* A share in a folder that is no struct cgroup; a missing file is a controller that is not on. */
static int write_share(const char *folder, enum cgroup_flavour flavour, uint32_t share)
{
    char path[CGROUP_PATH_MAX + 64], text[16];
    int r = str_format(path, sizeof(path), "%s/%s", folder,
                       flavour == CGROUP_V1 ? "cpu.shares" : "cpu.weight");

    str_format(text, sizeof(text), "%u", cgroup_share_number(flavour, share));
    return r < 0 ? r : fd_write_text_at(AT_FDCWD, path, text);
}

/* The launcher's own, beside those of the boxes. */
static int make_leaf(const char *parent, enum cgroup_flavour flavour, int64_t owner)
{
    char path[CGROUP_PATH_MAX + 32];
    int r = str_format(path, sizeof(path), "%s/" LEAF_NAME, parent);

    if (r == 0)
        r = make_folder(path, owner, NULL);
    if (r == 0)
        write_share(path, flavour, CGROUP_SHARE_LAUNCHER);
    return r;
}

static int open_leaf(const struct cgroup_site *site, int *ret_fd)
{
    char path[CGROUP_PATH_MAX + 32];

    str_format(path, sizeof(path), "%s/" LEAF_NAME, site->parent[0]);
    *ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

static bool is_repeated(const struct cgroup_site *site, int controller)
{
    for (int i = 0; i < controller; i++) {
        if (str_equal(site->parent[i], site->parent[controller]))
            return true;
    }
    return false;
}

void cgroup_remove_engine(struct cgroup_site *site)
{
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        char path[CGROUP_PATH_MAX + 32];

        if (!site->parent[i][0] || is_repeated(site, i))
            continue;
        if (str_format(path, sizeof(path), "%s/" LEAF_NAME, site->parent[i]) == 0)
            rmdir(path);
        rmdir(site->parent[i]);
    }
    memset(site, 0, sizeof(*site));
}

void cgroup_join_engine(const struct cgroup_site *site)
{
    for (int i = 0; i < _CONTROLLER_MAX && site->flavour == CGROUP_V1; i++) {
        char path[CGROUP_PATH_MAX + 32];

        if (site->parent[i][0] && !is_repeated(site, i) &&
            str_format(path, sizeof(path), "%s/" LEAF_NAME "/tasks", site->parent[i]) == 0)
            fd_write_text_at(AT_FDCWD, path, "0");
    }
}

static int make_all(const struct cgroup_site *site, const char *name, int64_t owner,
                    struct cgroup_site *ret, int ret_lock_fds[_CONTROLLER_MAX])
{
    int r = 0;

    *ret = (struct cgroup_site){.flavour = site->flavour};
    for (int i = 0; i < _CONTROLLER_MAX && r == 0; i++) {
        if (!site->parent[i][0])
            continue;
        r = str_format(ret->parent[i], CGROUP_PATH_MAX, "%s/%s", site->parent[i], name);
        if (r == 0 && !is_repeated(ret, i))
            r = make_folder(ret->parent[i], owner, &ret_lock_fds[i]);
        if (r == 0 && !is_repeated(ret, i) && ret->flavour == CGROUP_V1)
            make_leaf(ret->parent[i], CGROUP_V1, owner); /* a comfort: cgroup_join_engine() */
        if (r < 0)
            ret->parent[i][0] = 0;
    }
    return r;
}

static void remove_all(struct cgroup_site *site, int lock_fds[_CONTROLLER_MAX])
{
    cgroup_remove_engine(site);
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        fd_closep(&lock_fds[i]);
        lock_fds[i] = -1;
    }
}

void cgroup_make_engine(const struct cgroup_site *site, int64_t owner, struct cgroup_site *ret,
                        int *ret_leaf_fd, int ret_lock_fds[_CONTROLLER_MAX])
{
    char maker[OWNER_MAX], name[OWNER_MAX + 32];
    int r = -EAGAIN;

    *ret_leaf_fd = -1;
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        ret_lock_fds[i] = -1;
    owner_name(maker);
    str_format(name, sizeof(name), CGROUP_PREFIX "%s" CGROUP_ENGINE_SUFFIX, maker);
    for (int tries = 1; tries <= OWNER_TRIES && (r == -EAGAIN || r == -EEXIST); tries++) {
        r = make_all(site, name, owner, ret, ret_lock_fds);
        if (r < 0)
            remove_all(ret, ret_lock_fds);
        str_format(name, sizeof(name), CGROUP_PREFIX "%s-%d" CGROUP_ENGINE_SUFFIX, maker, tries);
    }
    if (r == 0 && ret->flavour == CGROUP_V2)
        r = divide(ret);
    if (r == 0 && ret->flavour == CGROUP_V2)
        r = make_leaf(ret->parent[0], CGROUP_V2, owner);
    if (r == 0 && ret->flavour == CGROUP_V2)
        r = open_leaf(ret, ret_leaf_fd);
    if (r < 0)
        remove_all(ret, ret_lock_fds);
}

int cgroup_make_owner(const struct cgroup_site *site, const char *name, uid_t owner,
                      struct cgroup_site *ret)
{
    CLEANUP(fd_closep) int fd = -1;
    int r = 0;

    *ret = *site;
    if (site->flavour != CGROUP_V2)
        return 0;
    for (int i = 0; i < _CONTROLLER_MAX && r == 0; i++) {
        if (site->parent[i][0])
            r = str_format(ret->parent[i], CGROUP_PATH_MAX, "%s/%s", site->parent[i], name);
    }
    if (r < 0)
        return r;
    if (mkdir(ret->parent[0], 0711) < 0 && errno != EEXIST) /* of boxes that were handed over */
        return -errno;
    r = divide(ret);
    if (r == 0) {
        fd = open(ret->parent[0], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 || fchownat(fd, "cgroup.procs", owner, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0
                ? -errno
                : 0;
    }
    if (r < 0)
        rmdir(ret->parent[0]);
    return r;
}

int cgroup_set_owner_share(const struct cgroup_site *site, uint32_t share)
{
    if (site->flavour != CGROUP_V2 || !site->parent[CONTROLLER_CPU][0])
        return 0;
    return write_share(site->parent[CONTROLLER_CPU], CGROUP_V2, share);
}

void cgroup_remove_owner(const struct cgroup_site *site)
{
    if (site->flavour == CGROUP_V2 && site->parent[0][0])
        rmdir(site->parent[0]);
}

int cgroup_let_in(const struct cgroup *group, uid_t owner)
{
    int fd = group->join_fd[0];

    if (group->flavour != CGROUP_V2)
        return 0;
    return fchmod(fd, 0711) < 0 ||
                   fchownat(fd, "cgroup.procs", owner, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0
               ? -errno
               : 0;
}

size_t cgroup_members(const struct cgroup *group, pid_t *ret, size_t room)
{
    char path[CGROUP_PATH_MAX + 32], text[8192];
    size_t count = 0;
    char *rest = NULL;

    if (group->flavour == CGROUP_NONE || !group->path[CONTROLLER_PIDS][0] ||
        str_format(path, sizeof(path), "%s/cgroup.procs", group->path[CONTROLLER_PIDS]) < 0 ||
        fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
        return 0;
    for (char *line = strtok_r(text, "\n", &rest); line && count < room;
         line = strtok_r(NULL, "\n", &rest)) {
        long pid = strtol(line, NULL, 10);

        if (pid > 1)
            ret[count++] = (pid_t)pid;
    }
    return count;
}

/* The number after `word` ("" : the first) in a file of the group; 0 if there is none. */
static uint64_t read_number(const struct cgroup *group, enum cgroup_controller controller,
                            const char *file, const char *word)
{
    char path[CGROUP_PATH_MAX + 64], text[4096];
    unsigned long long number = 0;
    const char *at;

    if (!group->path[controller][0] ||
        str_format(path, sizeof(path), "%s/%s", group->path[controller], file) < 0 ||
        fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
        return 0;
    at = strstr(text, word);
    return at && sscanf(at + strlen(word), "%llu", &number) == 1 ? number : 0;
}

uint64_t cgroup_cpu_us(const struct cgroup *group)
{
    if (group->flavour == CGROUP_V1)
        return read_number(group, CONTROLLER_CPUACCT, "cpuacct.usage", "") / 1000;
    if (group->flavour == CGROUP_V2) /* counted whether or not the cpu controller is on */
        return read_number(group, CONTROLLER_MEMORY, "cpu.stat", "usage_usec ");
    return 0;
}

void cgroup_usage(const struct cgroup *group, struct cgroup_usage *ret)
{
    bool v1 = group->flavour == CGROUP_V1;

    memset(ret, 0, sizeof(*ret));
    if (group->flavour == CGROUP_NONE)
        return;
    ret->memory_bytes =
        read_number(group, CONTROLLER_MEMORY, v1 ? "memory.usage_in_bytes" : "memory.current", "");
    ret->memory_peak_bytes =
        read_number(group, CONTROLLER_MEMORY, v1 ? "memory.max_usage_in_bytes" : "memory.peak", "");
    ret->cpu_us = cgroup_cpu_us(group);
}
