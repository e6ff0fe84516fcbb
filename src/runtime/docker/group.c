/*
 * group.c - a container's control group, where Docker is on this machine: its numbers cost
 * microseconds there. Docker's own statistics wait for the next tick of its clock, up to a second.
 *
 * Believed only when the group of the process that Docker names carries the container's id: a
 * Docker of another machine, or of another pid namespace, names somebody else.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "runtime/docker/inside.h"

#define MOUNT "/sys/fs/cgroup"

/* Has the list of controllers ("cpu,cpuacct") this one? */
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
    static const struct {
        const char *word;
        enum cgroup_controller controller;
    } rows[] = {
        {"memory", CONTROLLER_MEMORY}, {"pids", CONTROLLER_PIDS}, {"cpuacct", CONTROLLER_CPU}};
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

    if (!path || !strstr(path, id))
        return;
    list++;
    *path++ = 0;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char *to = group->path[rows[i].controller];

        if (list[0] && has_word(list, rows[i].word)) {
            group->flavour = CGROUP_V1;
            str_format(to, CGROUP_PATH_MAX, MOUNT "/%s%s", list, path);
        } else if (!list[0] && group->flavour != CGROUP_V1) {
            group->flavour = CGROUP_V2;
            str_format(to, CGROUP_PATH_MAX, MOUNT "%s", path);
        }
    }
}

void docked_group_parse(char *text, const char *id, struct cgroup *ret)
{
    char *rest = text, *line;

    cgroup_init(ret);
    if (strlen(id) != 64 || strspn(id, "0123456789abcdef") != 64)
        return;
    while ((line = strsep(&rest, "\n")))
        take_line(line, id, ret);
}

void docked_group_find(struct wall_box *box, const json_t *inspect)
{
    const char *id = json_text(json_object_get(inspect, "Id"));
    long long pid = json_integer_value(json_at(inspect, "State", "Pid"));
    char path[64], text[8192];

    cgroup_init(&box->group);
    if (!str_starts(box->wall->spec.host, "unix://") || pid <= 0)
        return;
    str_format(path, sizeof(path), "/proc/%lld/cgroup", pid);
    if (fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) == 0)
        docked_group_parse(text, id, &box->group);
}

/* True: the numbers are there; else Docker has to be asked. */
bool docked_group_usage(struct wall_box *box)
{
    struct cgroup_usage usage;

    if (box->group.flavour == CGROUP_NONE)
        return false;
    cgroup_usage(&box->group, &usage);
    if (usage.cpu_us == 0 && usage.memory_bytes == 0)
        return false;
    box->cpu_us = MAX(box->cpu_us, usage.cpu_us);
    box->peak_bytes = MAX(box->peak_bytes, usage.memory_bytes);
    box->peak_bytes = MAX(box->peak_bytes, usage.memory_peak_bytes);
    box->oom_kills = MAX(box->oom_kills, cgroup_oom_kills(&box->group));
    return true;
}
