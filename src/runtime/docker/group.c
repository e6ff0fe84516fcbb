/*
 * group.c - a container's control group, if Docker runs on this machine: reading it takes
 * microseconds. Docker's own statistics wait for the next tick of its clock, up to a second.
 *
 * A group is used only if its name contains the container's id, which is unique: the group of the
 * process that Docker names, or, because a Docker in another pid namespace names an unrelated
 * process, one that is found by its name. A Docker on another machine has none here.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "runtime/docker/docker_private.h"

#define MOUNT "/sys/fs/cgroup"

static const struct {
    const char *word;
    enum cgroup_controller controller;
} controllers[] = {
    {"memory", CONTROLLER_MEMORY}, {"pids", CONTROLLER_PIDS}, {"cpuacct", CONTROLLER_CPUACCT}};

/* Whether the list of controllers ("cpu,cpuacct") contains this one. */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; (at = strstr(at, word)); at += length) {
        if ((at == list || at[-1] == ',') && (at[length] == 0 || at[length] == ','))
            return true;
    }
    return false;
}

/* One line: "4:memory:/docker/<id>", on v2 "0::/docker/<id>". */
static void take_line(char *line, const char *id, struct cgroup *group)
{
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

    if (!path || !strstr(path, id))
        return;
    list++;
    *path++ = 0;
    for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
        char *to = group->path[controllers[i].controller];

        if (list[0] && has_word(list, controllers[i].word)) {
            group->flavour = CGROUP_V1;
            str_format(to, CGROUP_PATH_MAX, MOUNT "/%s%s", list, path);
        } else if (!list[0] && group->flavour != CGROUP_V1) {
            group->flavour = CGROUP_V2;
            str_format(to, CGROUP_PATH_MAX, MOUNT "%s", path);
        }
    }
}

static bool is_id(const char *id)
{
    return strlen(id) == 64 && strspn(id, "0123456789abcdef") == 64;
}

void container_group_parse(char *text, const char *id, struct cgroup *ret)
{
    char *rest = text, *line;

    cgroup_init(ret);
    if (!is_id(id))
        return;
    while ((line = strsep(&rest, "\n")))
        take_line(line, id, ret);
}

/* Finds a group in this folder by its id, as Docker's two drivers (cgroupfs, systemd) name it. */
static bool is_in(int top_fd, const char *folder, const char *id, char *ret, size_t size)
{
    struct stat status;

    if (str_format(ret, size, "%s/%s", folder, id) == 0 &&
        fstatat(top_fd, ret, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    return str_format(ret, size, "%s/docker-%s.scope", folder, id) == 0 &&
           fstatat(top_fd, ret, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool find_below(const char *top, const char *id, char *ret, size_t size)
{
    DIR *dir = opendir(top);
    const struct dirent *entry;
    bool is_found = false;

    if (!dir)
        return false;
    for (int i = 0; i < LIMIT_DOCKER_GROUPS && !is_found && (entry = readdir(dir)); i++) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            is_found = is_in(dirfd(dir), entry->d_name, id, ret, size);
    }
    closedir(dir);
    return is_found;
}

void container_group_search(const char *top, const char *id, struct cgroup *ret)
{
    char memory[CGROUP_PATH_MAX], path[CGROUP_PATH_MAX];
    bool is_v1;

    cgroup_init(ret);
    if (!is_id(id) || str_format(memory, sizeof(memory), "%s/memory", top) < 0)
        return;
    is_v1 = access(memory, F_OK) == 0;
    if (!find_below(is_v1 ? memory : top, id, path, sizeof(path)))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
        char *to = ret->path[controllers[i].controller];
        int r = is_v1 ? str_format(to, CGROUP_PATH_MAX, "%s/%s/%s", top, controllers[i].word, path)
                      : str_format(to, CGROUP_PATH_MAX, "%s/%s", top, path);

        if (r < 0 || access(to, F_OK) < 0)
            to[0] = 0;
    }
    ret->flavour = is_v1 ? CGROUP_V1 : CGROUP_V2;
}

void container_group_find(struct container *container, const json_t *inspect)
{
    const char *id = json_text(json_object_get(inspect, "Id"));
    long long pid = json_integer_value(json_at(inspect, "State", "Pid"));
    char path[64], text[8192];

    cgroup_init(&container->group);
    if (!str_starts(container->docker->spec.host, "unix://") || pid <= 0)
        return;
    str_format(path, sizeof(path), "/proc/%lld/cgroup", pid);
    if (fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) == 0)
        container_group_parse(text, id, &container->group);
    if (container->group.flavour == CGROUP_NONE)
        container_group_search(MOUNT, id, &container->group);
    container->box.is_seen = container->group.flavour != CGROUP_NONE;
}

/* True: the counters were read; else Docker has to be asked. */
bool container_group_usage(struct container *container)
{
    struct host_box *box = &container->box;
    struct cgroup_usage usage;

    if (container->group.flavour == CGROUP_NONE)
        return false;
    cgroup_usage(&container->group, &usage);
    if (usage.cpu_us == 0 && usage.memory_bytes == 0)
        return false;
    box->counted = COUNTED_ALL;
    box->cpu_us = MAX(box->cpu_us, usage.cpu_us);
    box->peak_bytes = MAX(box->peak_bytes, usage.memory_bytes);
    box->peak_bytes = MAX(box->peak_bytes, usage.memory_peak_bytes);
    box->oom_kills = MAX(box->oom_kills, cgroup_oom_kills(&container->group));
    return true;
}
