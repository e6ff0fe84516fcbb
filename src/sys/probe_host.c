/* probe_host.c - facts about this host that need no trying; see probe.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/calls.h"
#include "sys/probe.h"

#define MOUNTINFO_MAX (256 * 1024) /* a host with a thousand mounts */
#define FIELD_MAX 256

/* One line of mountinfo: id parent dev root POINT options... - TYPE source SUPER_OPTIONS */
struct mount_line {
    char point[FIELD_MAX];
    char type[32];
    char options[FIELD_MAX]; /* of the super block */
};

/* Parses the line at *text and moves past it; false at the end. A malformed line is empty. */
static bool next_mount(const char **text, struct mount_line *line)
{
    const char *end = strchrnul(*text, '\n');
    char copy[1024];
    const char *dash;
    size_t length = MIN((size_t)(end - *text), sizeof(copy) - 1);

    if (**text == '\0')
        return false;
    memset(line, 0, sizeof(*line));
    memcpy(copy, *text, length);
    copy[length] = '\0';
    *text = *end ? end + 1 : end;
    dash = strstr(copy, " - ");
    if (!dash || sscanf(copy, "%*s %*s %*s %*s %255s", line->point) != 1 ||
        sscanf(dash, " - %31s %*s %255s", line->type, line->options) != 2)
        memset(line, 0, sizeof(*line));
    return true;
}

static bool has_controllers(const char *options)
{
    return strstr(options, "memory") || strstr(options, "pids");
}

const char *probe_cgroup_flavour(const char *mountinfo)
{
    struct mount_line line;
    bool v1 = false, v2 = false, on_v1 = false;

    while (next_mount(&mountinfo, &line)) {
        if (str_equal(line.type, "cgroup2"))
            v2 = true;
        if (!str_equal(line.type, "cgroup"))
            continue;
        v1 = true;
        on_v1 |= has_controllers(line.options);
    }
    if (v1 && v2)
        return on_v1 ? "hybrid: controllers on v1" : "hybrid: controllers on v2";
    if (v2)
        return "v2";
    return v1 ? "v1" : "none";
}

bool probe_proc_is_masked(const char *mountinfo)
{
    struct mount_line line;

    while (next_mount(&mountinfo, &line)) {
        /* binfmt_misc has an always empty folder: the kernel does not mind that mount */
        if (str_starts(line.point, "/proc/") && !str_starts(line.point, "/proc/sys/fs/binfmt_misc"))
            return true;
    }
    return false;
}

int probe_host(struct probe_host *host, struct error *err)
{
    CLEANUP(freep) char *mountinfo = malloc(MOUNTINFO_MAX);
    struct utsname name;
    int abi;

    memset(host, 0, sizeof(*host));
    if (!mountinfo)
        return error_memory(err);
    if (uname(&name) < 0)
        return error_errno(err, "asking for the kernel's name");
    str_copy(host->kernel, sizeof(host->kernel), name.release);
    str_copy(host->machine, sizeof(host->machine), name.machine);
    host->uid = geteuid();

    abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    host->landlock_abi = abi > 0 ? abi : 0;

    /* doctor works on a host without /proc too: what it cannot read is empty or unknown. */
    if (fd_read_text_at(AT_FDCWD, "/proc/self/mountinfo", mountinfo, MOUNTINFO_MAX) < 0)
        mountinfo[0] = '\0';
    str_copy(host->cgroup, sizeof(host->cgroup), probe_cgroup_flavour(mountinfo));
    host->in_container_masked_proc = probe_proc_is_masked(mountinfo);
    if (fd_read_text_at(AT_FDCWD, "/sys/kernel/security/lsm", host->lsm, sizeof(host->lsm)) < 0 ||
        host->lsm[0] == '\0')
        str_copy(host->lsm, sizeof(host->lsm), "unknown");
    return 0;
}
