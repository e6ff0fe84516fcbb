/*
 * create.c - the request that creates a container, and the check that Docker did what was
 * requested.
 *
 * Every setting is requested by name, even if it is Docker's default: a default may be changed in
 * daemon.json. The settings are read back (inspect) and compared; a setting that Docker did not
 * apply is a refusal, not a weaker box.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/isolation.h"
#include "base/str.h"
#include "runtime/docker/docker_private.h"

static const char *const tmpfs_paths[] = {"/tmp", "/workspace", "/home/user"};
/* For the warden's link /mnt/data to /workspace (boxes/container.c): most images have no such name,
 * and their root is read-only. */
#define MNT "/mnt"
#define MNT_OPTIONS "rw,noexec,nosuid,nodev,size=4096,nr_inodes=8,mode=0755,uid=1000,gid=1000"
static const char *const tmpfs_modes[] = {"1777", "0755", "0755"};

/*
 * Paths that are hidden in a container: Docker's own list, complete because the request replaces
 * it, and the kernel's settings, groups and devices below /sys. The processors stay visible as in a
 * local box, because libraries read their number. A missing path is no error.
 */
static const char *const masked_paths[] = {
    "/proc/acpi",
    "/proc/asound",
    "/proc/cmdline",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/locks",
    "/proc/modules",
    "/proc/sched_debug",
    "/proc/schedstat",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices/LNXSYSTM:00",
    "/sys/devices/pci0000:00",
    "/sys/devices/platform",
    "/sys/devices/pnp0",
    "/sys/devices/virtual",
    "/sys/firmware",
    "/sys/fs",
    "/sys/hypervisor",
    "/sys/kernel",
    "/sys/module",
    "/sys/power",
};

/* Paths that are read-only: Docker's own list. */
static const char *const constant_paths[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                                             "/proc/sysrq-trigger"};

/* ---- the request ---- */

static json_t *texts_json(const char *const *texts, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

static json_t *masks_json(void)
{
    return texts_json(masked_paths, ARRAY_SIZE(masked_paths));
}

static json_t *constants_json(void)
{
    return texts_json(constant_paths, ARRAY_SIZE(constant_paths));
}

static uint64_t shm_bytes(const struct container_spec *spec)
{
    return MIN(spec->disk_bytes, (uint64_t)LIMIT_DOCKER_SHM);
}

static json_t *tmpfs_json(const struct container_spec *spec)
{
    json_t *all = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(tmpfs_paths); i++) {
        char text[192];

        str_format(text, sizeof(text),
                   "rw,exec,nosuid,nodev,size=%llu,nr_inodes=%llu,mode=%s,uid=1000,gid=1000",
                   (unsigned long long)spec->disk_bytes,
                   (unsigned long long)LIMIT_INODES(spec->disk_bytes), tmpfs_modes[i]);
        json_object_set_new(all, tmpfs_paths[i], json_string(text));
    }
    json_object_set_new(all, MNT, json_string(MNT_OPTIONS));
    return all;
}

static json_t *security_json(const struct container_spec *spec)
{
    json_t *list = json_array();

    json_array_append_new(list, json_string("no-new-privileges:true"));
    if (spec->seccomp)
        json_array_append_new(list, json_sprintf("seccomp=%s", spec->seccomp));
    return list;
}

/* Docker refuses more CPUs than it has. */
static uint64_t nano_cpus(const struct container_spec *spec)
{
    uint64_t millis = spec->cpu_millis;

    if (spec->cpu_count > 0)
        millis = MIN(millis, spec->cpu_count * 1000ULL);
    return millis * 1000000;
}

/* One more process than the guest may have: the warden. */
static int64_t pids_limit(const struct container_spec *spec)
{
    return (int64_t)spec->pids + 1;
}

static json_t *host_json(const struct container_spec *spec)
{
    json_t *host = json_pack(
        "{s:b, s:b, s:[s], s:o, s:I, s:I, s:I, s:I, s:o, s:I, s:s, s:s, s:{s:s}, s:b, s:b, s:s}",
        "AutoRemove", 1, "ReadonlyRootfs", 1, "CapDrop", "ALL", "SecurityOpt", security_json(spec),
        "Memory", (json_int_t)spec->memory_bytes, "MemorySwap", (json_int_t)spec->memory_bytes,
        "NanoCpus", (json_int_t)nano_cpus(spec), "PidsLimit", (json_int_t)pids_limit(spec), "Tmpfs",
        tmpfs_json(spec), "ShmSize", (json_int_t)shm_bytes(spec), "IpcMode", "private",
        "CgroupnsMode", "private", "LogConfig", "Type", "none", "Init", 0, "Privileged", 0,
        "NetworkMode", spec->docker->has_network ? "bridge" : "none");

    if (!host)
        return NULL;
    json_object_set_new(host, "Mounts",
                        json_pack("[{s:s, s:s, s:s, s:b, s:{s:b, s:{s:s}}}]", "Type", "volume",
                                  "Source", spec->volume, "Target", DOCKER_VOLUME_AT, "ReadOnly", 1,
                                  "VolumeOptions", "NoCopy", 1, "Labels", VOLUME_LABEL,
                                  spec->volume_hash));
    json_object_set_new(host, "MaskedPaths", masks_json());
    json_object_set_new(host, "ReadonlyPaths", constants_json());
    if (spec->docker->runtime && spec->docker->runtime[0])
        json_object_set_new(host, "Runtime", json_string(spec->docker->runtime));
    return host;
}

static json_t *env_json(const struct container_spec *spec)
{
    json_t *list = json_array();

    json_array_append_new(
        list, json_sprintf("BAILEY_DISK_BYTES=%llu", (unsigned long long)spec->disk_bytes));
    json_array_append_new(
        list, json_sprintf("BAILEY_MEMORY_BYTES=%llu", (unsigned long long)spec->memory_bytes));
    json_array_append_new(list, json_sprintf("BAILEY_PIDS=%u", (unsigned)spec->pids));
    return list;
}

json_t *create_json(const struct container_spec *spec)
{
    json_t *body = json_pack(
        "{s:s, s:[s,s], s:[], s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:o, s:{s:s, s:s, s:s}}",
        "Image", spec->docker->image, "Cmd", DOCKER_VOLUME_AT "/bin/bailey", "warden-inside",
        "Entrypoint", "User", DOCKER_USER, "WorkingDir", "/workspace", "OpenStdin", 1, "StdinOnce",
        1, "AttachStdin", 1, "AttachStdout", 1, "AttachStderr", 1, "Tty", 0, "NetworkDisabled",
        !spec->docker->has_network, "Env", env_json(spec), "Labels", "bailey.engine", spec->engine,
        "bailey.key", spec->key, "bailey.state", spec->state);

    if (!body || json_object_set_new(body, "HostConfig", host_json(spec)) < 0) {
        json_decref(body);
        return NULL;
    }
    json_object_set_new(body, "Hostname", json_string("bailey"));
    /* Docker would wait ten seconds at a stop for a warden that ignores signals. */
    json_object_set_new(body, "StopSignal", json_string("SIGKILL"));
    /* An image's own health check would be executed by Docker in the box, without the warden and
     * its filters. */
    json_object_set_new(body, "Healthcheck", json_pack("{s:[s]}", "Test", "NONE"));
    return body;
}

/* ---- reading back ---- */

static int not_done(const char *what, struct error *err)
{
    return error_set(err, -EPERM, ERROR_REFUSED, "Docker did not apply %s to the container", what);
}

static bool is_empty(const json_t *json)
{
    return !json || json_is_null(json) || (json_is_array(json) && json_array_size(json) == 0) ||
           (json_is_object(json) && json_object_size(json) == 0) ||
           (json_is_string(json) && !json_string_value(json)[0]);
}

static bool has_text(const json_t *list, const char *prefix)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (str_starts(json_text(json_array_get(list, i)), prefix))
            return true;
    }
    return false;
}

static bool is_text(const json_t *host, const char *name, const char *wanted)
{
    return str_equal(json_text(json_object_get(host, name)), wanted);
}

static bool is_number(const json_t *host, const char *name, uint64_t wanted)
{
    return (uint64_t)json_integer_value(json_object_get(host, name)) == wanted;
}

/* Only the volume, and no path of the host. */
static bool has_only_volume(const json_t *inspect, const struct container_spec *spec)
{
    const json_t *mounts = json_object_get(inspect, "Mounts");
    unsigned volumes = 0;

    for (size_t i = 0; i < json_array_size(mounts); i++) {
        const json_t *mount = json_array_get(mounts, i);

        if (is_text(mount, "Type", "tmpfs"))
            continue;
        if (!is_text(mount, "Type", "volume") || !is_text(mount, "Name", spec->volume) ||
            !is_text(mount, "Destination", DOCKER_VOLUME_AT) ||
            !json_is_false(json_object_get(mount, "RW")))
            return false;
        volumes++;
    }
    return volumes == 1;
}

static bool has_tmpfs(const json_t *host, const struct container_spec *spec)
{
    char size[48];

    str_format(size, sizeof(size), "size=%llu,", (unsigned long long)spec->disk_bytes);
    for (size_t i = 0; i < ARRAY_SIZE(tmpfs_paths); i++) {
        const char *options = json_text(json_at(host, "Tmpfs", tmpfs_paths[i]));

        if (!strstr(options, size) || !strstr(options, "nosuid") || !strstr(options, "nodev"))
            return false;
    }
    return is_text(json_object_get(host, "Tmpfs"), MNT, MNT_OPTIONS);
}

/* Takes over `asked`. */
static bool has_paths(const json_t *host, const char *name, json_t *asked)
{
    bool has_all = json_equal(asked, json_object_get(host, name));

    json_decref(asked);
    return has_all;
}

/* Only the warden executes programs in it. */
static bool has_healthcheck(const json_t *config)
{
    const json_t *test = json_at(config, "Healthcheck", "Test");

    return !is_empty(test) && !str_equal(json_text(json_array_get(test, 0)), "NONE");
}

/* With a network it is one of Docker's own, never the host's or another container's. */
static bool has_its_network(const json_t *host, bool has_network)
{
    const char *mode = json_text(json_object_get(host, "NetworkMode"));

    if (!has_network)
        return str_equal(mode, "none");
    return mode[0] && !str_equal(mode, "host") && !str_starts(mode, "container:");
}

static int check_isolation(const json_t *inspect, const json_t *host,
                           const struct container_spec *spec, struct error *err)
{
    const json_t *security = json_object_get(host, "SecurityOpt");
    const json_t *config = json_object_get(inspect, "Config");

    if (!is_text(config, "User", DOCKER_USER))
        return not_done("its user", err);
    if (has_healthcheck(config))
        return not_done("'no health check'", err);
    if (!json_is_false(json_object_get(host, "Privileged")))
        return not_done("Privileged=false", err);
    if (!has_text(json_object_get(host, "CapDrop"), "ALL") ||
        !is_empty(json_object_get(host, "CapAdd")))
        return not_done("CapDrop", err);
    if (!has_text(security, "no-new-privileges") || has_text(security, "no-new-privileges:false"))
        return not_done("no-new-privileges", err);
    if (has_text(security, "seccomp=unconfined") || has_text(security, "seccomp:unconfined") ||
        (spec->seccomp && !has_text(security, "seccomp=")))
        return not_done("the seccomp profile", err);
    if (!json_is_true(json_object_get(host, "ReadonlyRootfs")))
        return not_done("ReadonlyRootfs", err);
    if (!has_paths(host, "MaskedPaths", masks_json()))
        return not_done("MaskedPaths", err);
    if (!has_paths(host, "ReadonlyPaths", constants_json()))
        return not_done("ReadonlyPaths", err);
    if (!has_its_network(host, spec->docker->has_network))
        return not_done("NetworkMode", err);
    if (!is_empty(json_object_get(host, "PidMode")) || !is_text(host, "IpcMode", "private") ||
        !is_empty(json_object_get(host, "UTSMode")) || !is_text(host, "CgroupnsMode", "private") ||
        !is_empty(json_object_get(host, "UsernsMode")))
        return not_done("its own namespaces", err);
    if (!is_empty(json_object_get(host, "Devices")) ||
        !is_empty(json_object_get(host, "DeviceRequests")) ||
        !is_empty(json_object_get(host, "DeviceCgroupRules")))
        return not_done("'no devices'", err);
    if (!is_empty(json_object_get(host, "Binds")) ||
        !is_empty(json_object_get(host, "VolumesFrom")) || !has_only_volume(inspect, spec))
        return not_done("'no mounts but its volume'", err);
    return 0;
}

static int check_limits(const json_t *host, const struct container_spec *spec,
                        struct host_seen *facts, struct error *err)
{
    int64_t swap = json_integer_value(json_object_get(host, "MemorySwap"));

    if (!has_tmpfs(host, spec) || !is_number(host, "ShmSize", shm_bytes(spec)))
        return not_done("the sizes of its folders", err);
    /* If the kernel cannot count, Docker drops a limit with a warning, and it is 0 or -1. */
    facts->has_memory =
        is_number(host, "Memory", spec->memory_bytes) && swap == (int64_t)spec->memory_bytes;
    facts->has_pids = is_number(host, "PidsLimit", (uint64_t)pids_limit(spec));
    facts->has_cpu = spec->cpu_millis && is_number(host, "NanoCpus", nano_cpus(spec));
    if (!facts->has_memory && json_integer_value(json_object_get(host, "Memory")) > 0 && swap > 0)
        return not_done("the memory limit", err);
    if (!facts->has_pids && json_integer_value(json_object_get(host, "PidsLimit")) > 0)
        return not_done("the limit of processes", err);
    if (spec->docker->runtime && spec->docker->runtime[0] &&
        !is_text(host, "Runtime", spec->docker->runtime))
        return not_done("DOCKER_RUNTIME", err);
    return 0;
}

int create_check(const json_t *inspect, const struct container_spec *spec, bool has_userns,
                 struct host_seen *ret, struct error *err)
{
    const json_t *host = json_object_get(inspect, "HostConfig");
    struct host_seen facts = {0};
    int r;

    if (!json_is_true(json_at(inspect, "State", "Running")))
        return error_set(err, -EPIPE, ERROR_BOX_LOST, "the container ended at its start");
    r = check_isolation(inspect, host, spec, err);
    if (r == 0)
        r = check_limits(host, spec, &facts, err);
    if (r < 0)
        return r;
    facts.layers =
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_MOUNTNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_PIDNS) |
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_IPCNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_UTSNS) |
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_CGROUPNS) |
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_NO_NEW_PRIVS) |
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_CAPS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_PROC);
    if (has_userns)
        facts.layers |= ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS);
    if (!spec->docker->has_network)
        facts.layers |= ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS);
    if (facts.has_memory && facts.has_pids)
        facts.layers |= ISOLATION_LAYER_BIT(ISOLATION_LAYER_CGROUP);
    *ret = facts;
    return 0;
}
