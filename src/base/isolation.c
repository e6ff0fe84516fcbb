/* isolation.c - the table of layers and the levels they add up to; see isolation.h. */
#include "base/isolation.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

const struct isolation_layer_row isolation_layer_table[_ISOLATION_LAYER_MAX] = {
    [ISOLATION_LAYER_USERNS] =
        {
            "userns",
            true,
            "own user namespace: root in the box has no rights outside",
            "sysctl -w user.max_user_namespaces=15000; on Ubuntu 23.10 and later also "
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0; on older Debian "
            "sysctl -w kernel.unprivileged_userns_clone=1; in Docker start the outer container "
            "with --security-opt seccomp=FILE --security-opt apparmor=unconfined, where FILE has "
            "what 'bailey doctor --seccomp-profile' prints",
        },
    [ISOLATION_LAYER_MOUNTNS] =
        {
            "mountns",
            true,
            "own mount namespace: a minimal read-only root instead of the host's files",
            "sysctl -w user.max_mnt_namespaces=15000; without root it also needs userns",
        },
    [ISOLATION_LAYER_PIDNS] =
        {
            "pidns",
            true,
            "own pid namespace: the box sees and signals only its own processes",
            "sysctl -w user.max_pid_namespaces=15000; without root it also needs userns",
        },
    [ISOLATION_LAYER_NETNS] =
        {
            "netns",
            true,
            "own network namespace: no interface but loopback, no abstract sockets",
            "sysctl -w user.max_net_namespaces=15000; without root it also needs userns",
        },
    [ISOLATION_LAYER_IPCNS] =
        {
            "ipcns",
            true,
            "own IPC namespace: no shared memory, semaphores or queues of the host",
            "sysctl -w user.max_ipc_namespaces=15000; without root it also needs userns",
        },
    [ISOLATION_LAYER_UTSNS] =
        {
            "utsns",
            true,
            "own UTS namespace: a host name that reveals nothing about this machine",
            "sysctl -w user.max_uts_namespaces=15000; without root it also needs userns",
        },
    [ISOLATION_LAYER_CGROUPNS] =
        {
            "cgroupns",
            true,
            "own cgroup namespace: the host's cgroup paths are not visible",
            "sysctl -w user.max_cgroup_namespaces=15000; without root it also needs userns",
        },
    [ISOLATION_LAYER_SECCOMP] =
        {
            "seccomp",
            true,
            "system call filter: calls a program does not need are refused",
            "a kernel with CONFIG_SECCOMP_FILTER=y (check: zgrep SECCOMP_FILTER /proc/config.gz)",
        },
    [ISOLATION_LAYER_LANDLOCK] =
        {
            "landlock",
            true,
            "Landlock: files are opened by rule, whatever the mounts show",
            "Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK=y, booted with landlock in the "
            "list: "
            "lsm=landlock,lockdown,yama,integrity,apparmor on the kernel command line "
            "(check: cat /sys/kernel/security/lsm)",
        },
    [ISOLATION_LAYER_CGROUP] =
        {
            "cgroup",
            true,
            "control group: memory, processes and CPU are limited by the kernel",
            "run as root, or systemd-run --user --scope -p Delegate=yes bailey ...; in a container "
            "make the cgroup file system writable (docs/deploy.md says how, and what that opens)",
        },
    [ISOLATION_LAYER_NO_NEW_PRIVS] =
        {
            "no_new_privs",
            true,
            "no_new_privs: no set-uid program gives anything back",
            "Linux 3.5 or later; every supported kernel has it",
        },
    [ISOLATION_LAYER_CAPS] =
        {
            "caps",
            true,
            "no capability in any set, the bounding set is empty",
            "clearing the bounding set needs userns, or run as root",
        },
    [ISOLATION_LAYER_UID_SPLIT] =
        {
            "uid_split",
            true,
            "the guest's user id differs from the warden's and the caller's",
            "run as root, or apt-get install uidmap and give your user a range of ids: "
            "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER "
            "(entries in /etc/subuid and /etc/subgid)",
        },
    [ISOLATION_LAYER_PROC] =
        {
            "proc",
            false,
            "a fresh /proc that shows the box's own processes only",
            "an outer container masks parts of /proc, so the kernel refuses a fresh one; the box "
            "has none. Start the outer container with --security-opt systempaths=unconfined "
            "(docker), --security-opt unmask=ALL (podman), procMount: Unmasked (Kubernetes)",
        },
    [ISOLATION_LAYER_OVERLAY] =
        {
            "overlay",
            false,
            "programs of the host are shown through an overlay of the box's own: inotify shows no "
            "other process's use of them, and no lock on them reaches the host",
            "Linux 5.11 or later with overlayfs (modprobe overlay), and no other mounts below /usr "
            "or the interpreter's folder",
        },
};

static const char *const isolation_names[_ISOLATION_MAX] = {
    [ISOLATION_PROCESS] = "process",
    [ISOLATION_STANDARD] = "standard",
    [ISOLATION_STRICT] = "strict",
};

/*
 * The layers of the level "standard": these four together, or Landlock alone; always with seccomp.
 */
#define LAYERS_WALLS                                                                              \
    (ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_MOUNTNS) | \
     ISOLATION_LAYER_BIT(ISOLATION_LAYER_PIDNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS))

const char *isolation_name(enum isolation level)
{
    if (level < 0 || level >= _ISOLATION_MAX)
        return "invalid";
    return isolation_names[level];
}

enum isolation isolation_from_name(const char *name)
{
    for (int i = 0; i < _ISOLATION_MAX; i++) {
        if (str_equal(isolation_names[i], name))
            return (enum isolation)i;
    }
    return _ISOLATION_INVALID;
}

static uint32_t strict_layers(void)
{
    uint32_t mask = 0;

    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++) {
        if (isolation_layer_table[i].strict)
            mask |= ISOLATION_LAYER_BIT(i);
    }
    return mask;
}

static bool has_walls(uint32_t layers)
{
    return (layers & LAYERS_WALLS) == LAYERS_WALLS ||
           (layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_LANDLOCK));
}

enum isolation isolation_of_layers(uint32_t layers)
{
    uint32_t strict = strict_layers();

    if ((layers & strict) == strict)
        return ISOLATION_STRICT;
    if ((layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_SECCOMP)) && has_walls(layers))
        return ISOLATION_STANDARD;
    return ISOLATION_PROCESS;
}

uint32_t isolation_lacking(uint32_t layers, enum isolation wanted)
{
    uint32_t needed = 0;

    if (wanted <= isolation_of_layers(layers))
        return 0;
    if (wanted == ISOLATION_STRICT)
        return strict_layers() & ~layers;
    needed = ISOLATION_LAYER_BIT(ISOLATION_LAYER_SECCOMP);
    if (!has_walls(layers))
        needed |= LAYERS_WALLS | ISOLATION_LAYER_BIT(ISOLATION_LAYER_LANDLOCK);
    return needed & ~layers;
}

void isolation_layer_list(uint32_t mask, char *text, unsigned long size)
{
    size_t have = 0;

    if (size == 0)
        return;
    text[0] = '\0';
    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++) {
        if (!(mask & ISOLATION_LAYER_BIT(i)))
            continue;
        if (str_format(text + have, size - have, "%s%s", have > 0 ? ", " : "",
                       isolation_layer_table[i].name) < 0)
            return;
        have += strlen(text + have);
    }
}
