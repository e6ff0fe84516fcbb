/*
 * outer.c - which container this process runs in; see outer.h.
 *
 * Theory of operation. Container runtimes leave marks: files, variables, names of control groups.
 * A mark alone proves nothing: a virtual machine whose disk was made from an image of Docker has
 * /.dockerenv too. So a mark counts only where at least one namespace of this process is not the
 * kernel's first one; their inode numbers are constants of the kernel (include/linux/proc_ns.h).
 */
#include "sys/outer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/probe.h"

#define TEXT_MAX (64 * 1024)

enum outer_kind { OUTER_DOCKER, OUTER_PODMAN, OUTER_KUBERNETES, OUTER_LXC, OUTER_OTHER };

static const struct outer_row rows[] = {
    [OUTER_DOCKER] = {"docker", "a Docker container",
                      "docker run --security-opt seccomp=" OUTER_PROFILE " "
                      "--security-opt apparmor=unconfined --security-opt systempaths=unconfined "
                      "..."},
    [OUTER_PODMAN] = {"podman", "a Podman container",
                      "podman run --security-opt seccomp=" OUTER_PROFILE " "
                      "--security-opt apparmor=unconfined --security-opt unmask=ALL ..."},
    [OUTER_KUBERNETES] = {"kubernetes", "a container of a Kubernetes pod",
                          "in the pod's spec: hostUsers: false, and in the container's "
                          "securityContext: {seccompProfile: {type: Unconfined}, "
                          "appArmorProfile: {type: Unconfined}, procMount: Unmasked}"},
    [OUTER_LXC] = {"lxc", "an LXC container",
                   "lxc config set NAME security.nesting true && lxc restart NAME"},
    [OUTER_OTHER] = {"container", "a container",
                     "have its runtime allow these system calls: clone and unshare with "
                     "namespaces, setns, mount, umount2, pivot_root, open_tree, move_mount, "
                     "mount_setattr, sethostname; and show /proc without masks"},
};

/* Namespaces whose first one has the same number on every machine. */
static const struct {
    const char *link, *first;
} first_namespaces[] = {
    {"proc/self/ns/pid", "pid:[4026531836]"},       {"proc/self/ns/uts", "uts:[4026531838]"},
    {"proc/self/ns/ipc", "ipc:[4026531839]"},       {"proc/self/ns/user", "user:[4026531837]"},
    {"proc/self/ns/cgroup", "cgroup:[4026531835]"},
};

/* Files and folders that a runtime puts there. A pod has the marks of what runs it too. */
static const struct {
    const char *path;
    enum outer_kind kind;
} files[] = {
    {"var/run/secrets/kubernetes.io", OUTER_KUBERNETES},
    {"run/.containerenv", OUTER_PODMAN},
    {".dockerenv", OUTER_DOCKER},
};

/* Part of a control group's path, as seen without a cgroup namespace. */
static const struct {
    const char *part;
    enum outer_kind kind;
} groups[] = {
    {"/kubepods", OUTER_KUBERNETES}, {"/libpod", OUTER_PODMAN}, {"/docker/", OUTER_DOCKER},
    {"/docker-", OUTER_DOCKER},      {"/lxc/", OUTER_LXC},      {"/lxc.payload", OUTER_LXC},
};

/* The value of `container`, which a runtime gives to the first process it starts. */
static const struct {
    const char *value;
    enum outer_kind kind;
} values[] = {
    {"docker", OUTER_DOCKER},
    {"podman", OUTER_PODMAN},
    {"lxc", OUTER_LXC},
};

static void found(struct outer *ret, enum outer_kind kind, const char *seen)
{
    ret->row = &rows[kind];
    str_copy(ret->seen, sizeof(ret->seen), seen);
}

/* Without /proc namespaces cannot be compared: then the marks alone count. */
static bool has_own_namespace(int root_fd)
{
    bool is_known = false;

    for (size_t i = 0; i < ARRAY_SIZE(first_namespaces); i++) {
        char text[64] = "";

        if (readlinkat(root_fd, first_namespaces[i].link, text, sizeof(text) - 1) <= 0)
            continue;
        is_known = true;
        if (!str_equal(text, first_namespaces[i].first))
            return true;
    }
    return !is_known;
}

static bool by_file(int root_fd, struct outer *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        char seen[64];

        if (faccessat(root_fd, files[i].path, F_OK, 0) < 0)
            continue;
        str_format(seen, sizeof(seen), "/%s", files[i].path);
        found(ret, files[i].kind, seen);
        return true;
    }
    return false;
}

static bool by_group(int root_fd, struct outer *ret)
{
    char text[8192];

    if (fd_read_text_at(root_fd, "proc/1/cgroup", text, sizeof(text)) < 0)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
        char seen[64];

        if (!strstr(text, groups[i].part))
            continue;
        str_format(seen, sizeof(seen), "'%s' in /proc/1/cgroup", groups[i].part);
        found(ret, groups[i].kind, seen);
        return true;
    }
    return false;
}

static bool by_value(const char *value, const char *where, struct outer *ret)
{
    enum outer_kind kind = OUTER_OTHER;
    char seen[96];

    if (!value || !value[0])
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        if (str_equal(value, values[i].value))
            kind = values[i].kind;
    }
    str_format(seen, sizeof(seen), "container=%.32s in %s", value, where);
    found(ret, kind, seen);
    return true;
}

/* The environment of the first process can be read by its own user; systemd copies the value. */
static bool by_first_process(int root_fd, struct outer *ret)
{
    CLEANUP(fd_closep) int fd = openat(root_fd, "proc/1/environ", O_RDONLY | O_CLOEXEC);
    char text[8192], value[64] = "";
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

    for (ssize_t at = 0; at < length; at += (ssize_t)strlen(text + at) + 1) {
        text[length] = 0;
        if (str_starts(text + at, "container="))
            return by_value(text + at + strlen("container="), "the first process", ret);
    }
    if (fd_read_text_at(root_fd, "run/systemd/container", value, sizeof(value)) < 0)
        return false;
    value[strcspn(value, "\n")] = 0;
    return by_value(value, "/run/systemd/container", ret);
}

/* Every container runtime covers parts of /proc, so this does not say which one it is. */
static bool by_masks(int root_fd, struct outer *ret)
{
    char text[TEXT_MAX];

    if (fd_read_text_at(root_fd, "proc/self/mountinfo", text, sizeof(text)) < 0 ||
        !probe_proc_is_masked(text))
        return false;
    found(ret, OUTER_OTHER, "parts of /proc are masked");
    return true;
}

void outer_find_at(int root_fd, char *const *env, struct outer *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (!has_own_namespace(root_fd))
        return;
    if (env_text(env, "KUBERNETES_SERVICE_HOST")) {
        found(ret, OUTER_KUBERNETES, "KUBERNETES_SERVICE_HOST is set");
        return;
    }
    if (by_file(root_fd, ret) || by_value(env_text(env, "container"), "the environment", ret) ||
        by_group(root_fd, ret) || by_first_process(root_fd, ret))
        return;
    by_masks(root_fd, ret);
}

void outer_find(struct outer *ret)
{
    CLEANUP(fd_closep) int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    memset(ret, 0, sizeof(*ret));
    if (root_fd >= 0)
        outer_find_at(root_fd, environ, ret);
}
