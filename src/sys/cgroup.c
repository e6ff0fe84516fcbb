/*
 * cgroup.c - control groups of boxes; see cgroup.h.
 *
 * Where groups are made: on v1 below our own group in each hierarchy, so that the limits around us
 * go on holding. On v2 a group with members may not give controllers to children, so the nearest
 * ancestor that already does (cgroup.subtree_control has memory and pids) is used.
 */
#include "sys/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/str.h"
#include "sys/owner.h"

#define CPU_PERIOD_US 100000
#define SOCKET_BUFFERS_MIN (UINT64_C(12) << 20)

static const char *const controller_names[_CONTROLLER_MAX] = {"memory", "pids", "cpu", "cpuacct"};

/* True when `word` is one of the comma- or blank-separated words of `list`. */
static bool list_has(const char *list, size_t length, const char *word)
{
    size_t word_length = strlen(word);

    for (size_t start = 0; start < length;) {
        size_t end = start;

        while (end < length && !strchr(", \n", list[end]))
            end++;
        if (end - start == word_length && memcmp(list + start, word, word_length) == 0)
            return true;
        start = end + 1;
    }
    return false;
}

/* One line of mountinfo that is a cgroup mount. */
struct group_mount {
    char root[CGROUP_PATH_MAX];
    char point[CGROUP_PATH_MAX];
    bool is_v2;
    const char *options; /* super block options, to the end of the line */
    size_t options_length;
};

/* mountinfo: id parent dev ROOT POINT options... - TYPE source SUPER_OPTIONS */
static bool parse_mount(const char *line, size_t length, struct group_mount *ret)
{
    char text[1024], type[32];
    const char *dash;
    int offset = 0;

    if (length >= sizeof(text))
        return false;
    memcpy(text, line, length);
    text[length] = 0;
    dash = strstr(text, " - ");
    if (!dash || sscanf(text, "%*d %*d %*s %511s %511s", ret->root, ret->point) != 2)
        return false;
    if (sscanf(dash, " - %31s %*s %n", type, &offset) != 1 || offset == 0)
        return false;
    if (!str_equal(type, "cgroup") && !str_equal(type, "cgroup2"))
        return false;
    ret->is_v2 = str_equal(type, "cgroup2");
    ret->options = line + (dash - text) + offset;
    ret->options_length = (size_t)(line + length - ret->options);
    return true;
}

/* The path of our own group in the hierarchy that has `controller` (NULL: the v2 one). */
static bool own_group(const char *self, const char *controller, char *path, size_t size)
{
    for (const char *line = self; line && *line;) {
        const char *end = strchrnul(line, '\n');
        const char *names = strchr(line, ':');
        const char *name_end = names ? strchr(names + 1, ':') : NULL;

        if (name_end && name_end < end) {
            size_t length = (size_t)(name_end - names - 1);
            bool found = controller ? list_has(names + 1, length, controller) : length == 0;

            if (found && (size_t)(end - name_end - 1) < size) {
                memcpy(path, name_end + 1, (size_t)(end - name_end - 1));
                path[end - name_end - 1] = 0;
                return true;
            }
        }
        line = *end ? end + 1 : NULL;
    }
    return false;
}

/* The folder of group `path` as this mount shows it; a group outside the mount has none. */
static bool group_folder(const char *prefix, const struct group_mount *mount, const char *path,
                         char *folder)
{
    const char *below = path;

    if (!str_equal(mount->root, "/")) {
        if (!str_starts(path, mount->root))
            return false;
        below = path + strlen(mount->root);
        if (*below && *below != '/')
            return false;
    }
    if (str_equal(below, "/"))
        below = "";
    return str_format(folder, CGROUP_PATH_MAX, "%s%s%s", prefix, mount->point, below) == 0;
}

/*
 * v2: goes up from our own group to the first that hands memory and pids to its children;
 * *ret_has_cpu says whether it hands cpu on too.
 */
static bool delegating_ancestor(char *folder, size_t floor_length, bool *ret_has_cpu)
{
    for (;;) {
        char name[CGROUP_PATH_MAX + 32], text[256];
        char *slash;

        if (str_format(name, sizeof(name), "%s/cgroup.subtree_control", folder) < 0)
            return false;
        if (fd_read_text_at(AT_FDCWD, name, text, sizeof(text)) >= 0 &&
            list_has(text, strlen(text), "memory") && list_has(text, strlen(text), "pids") &&
            access(folder, W_OK) == 0) {
            *ret_has_cpu = list_has(text, strlen(text), "cpu");
            return true;
        }
        slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < floor_length)
            return false;
        *slash = 0;
    }
}

static void find_v2(const struct cgroup_host *host, const struct group_mount *mount,
                    struct cgroup_site *site)
{
    char path[CGROUP_PATH_MAX], folder[CGROUP_PATH_MAX];
    size_t floor_length = strlen(host->prefix) + strlen(mount->point);
    bool has_cpu = false;

    if (!own_group(host->self, NULL, path, sizeof(path)) ||
        !group_folder(host->prefix, mount, path, folder) ||
        !delegating_ancestor(folder, floor_length, &has_cpu))
        return;
    site->flavour = CGROUP_V2;
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        if (i < CONTROLLER_CPU || (i == CONTROLLER_CPU && has_cpu))
            str_copy(site->parent[i], sizeof(site->parent[i]), folder);
    }
}

static void find_v1(const struct cgroup_host *host, const struct group_mount *mount,
                    struct cgroup_site *site)
{
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        char path[CGROUP_PATH_MAX], folder[CGROUP_PATH_MAX];

        if (site->parent[i][0] ||
            !list_has(mount->options, mount->options_length, controller_names[i]) ||
            !own_group(host->self, controller_names[i], path, sizeof(path)) ||
            !group_folder(host->prefix, mount, path, folder) || access(folder, W_OK) < 0)
            continue;
        site->flavour = CGROUP_V1;
        str_copy(site->parent[i], sizeof(site->parent[i]), folder);
    }
}

void cgroup_find_in(const struct cgroup_host *host, struct cgroup_site *site)
{
    struct group_mount v2;
    bool has_v2 = false;

    memset(site, 0, sizeof(*site));
    for (const char *line = host->mountinfo; line && *line;) {
        const char *end = strchrnul(line, '\n');
        struct group_mount mount;

        if (parse_mount(line, (size_t)(end - line), &mount)) {
            if (!mount.is_v2) {
                find_v1(host, &mount, site);
            } else if (!has_v2) {
                v2 = mount;
                has_v2 = true;
            }
        }
        line = *end ? end + 1 : NULL;
    }
    /* Hybrid hosts: memory is where it counts. Only a v1 that has both is used. */
    if (site->parent[CONTROLLER_MEMORY][0] && site->parent[CONTROLLER_PIDS][0])
        return;
    memset(site, 0, sizeof(*site));
    if (has_v2)
        find_v2(host, &v2, site);
}

void cgroup_find(struct cgroup_site *site)
{
    static const size_t size = 256 * 1024; /* a host with a thousand mounts */
    CLEANUP(freep) char *text = malloc(size);
    char self[4096];
    struct cgroup_host host = {.prefix = ""};

    memset(site, 0, sizeof(*site));
    if (!text || fd_read_text_at(AT_FDCWD, "/proc/self/mountinfo", text, size) < 0 ||
        fd_read_text_at(AT_FDCWD, "/proc/self/cgroup", self, sizeof(self)) < 0)
        return;
    host.mountinfo = text;
    host.self = self;
    cgroup_find_in(&host, site);
}

bool cgroup_is_v1(void)
{
    char self[4096], path[CGROUP_PATH_MAX];

    return fd_read_text_at(AT_FDCWD, "/proc/self/cgroup", self, sizeof(self)) >= 0 &&
           own_group(self, "memory", path, sizeof(path));
}

void cgroup_init(struct cgroup *group)
{
    memset(group, 0, sizeof(*group));
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        group->join_fd[i] = group->lock_fd[i] = -1;
}

/* Is this controller's folder the one of an earlier controller (v2, or v1 mounted together)? */
static bool is_repeated(const struct cgroup *group, int controller)
{
    for (int i = 0; i < controller; i++) {
        if (str_equal(group->path[i], group->path[controller]))
            return true;
    }
    return false;
}

static int set_limit(const struct cgroup *group, enum cgroup_controller controller,
                     const char *file, uint64_t value, bool must, struct error *err)
{
    char path[CGROUP_PATH_MAX + 64], text[64];
    int r;

    if (!group->path[controller][0])
        return 0;
    r = str_format(path, sizeof(path), "%s/%s", group->path[controller], file);
    if (r == 0)
        r = str_format(text, sizeof(text), "%llu", (unsigned long long)value);
    if (r == 0)
        r = fd_write_text_at(AT_FDCWD, path, text);
    if (r < 0 && must)
        return error_set(err, r, ERROR_ENGINE, "writing %s to %s: %s", text, path, strerror(-r));
    return 0;
}

static int set_cpu(const struct cgroup *group, uint32_t millis, struct error *err)
{
    uint64_t quota = (uint64_t)millis * CPU_PERIOD_US / 1000;
    char path[CGROUP_PATH_MAX + 64], text[64];
    int r;

    if (millis == 0 || !group->path[CONTROLLER_CPU][0])
        return 0;
    if (group->flavour == CGROUP_V1) {
        r = set_limit(group, CONTROLLER_CPU, "cpu.cfs_period_us", CPU_PERIOD_US, true, err);
        return r < 0 ? r : set_limit(group, CONTROLLER_CPU, "cpu.cfs_quota_us", quota, true, err);
    }
    r = str_format(path, sizeof(path), "%s/cpu.max", group->path[CONTROLLER_CPU]);
    if (r == 0)
        r = str_format(text, sizeof(text), "%llu %d", (unsigned long long)quota, CPU_PERIOD_US);
    if (r == 0)
        r = fd_write_text_at(AT_FDCWD, path, text);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "writing %s: %s", path, strerror(-r));
    return 0;
}

unsigned cgroup_share_number(enum cgroup_flavour flavour, uint32_t share)
{
    uint64_t normal = flavour == CGROUP_V1 ? 1024 : 100;
    uint64_t least = flavour == CGROUP_V1 ? 2 : 1, most = flavour == CGROUP_V1 ? 262144 : 10000;
    uint64_t number = normal * share / 1000;

    return (unsigned)MIN(MAX(number, least), most);
}

int cgroup_set_share(const struct cgroup *group, uint32_t share)
{
    if (group->flavour == CGROUP_NONE || !group->path[CONTROLLER_CPU][0])
        return -ENODEV;
    return set_limit(group, CONTROLLER_CPU,
                     group->flavour == CGROUP_V1 ? "cpu.shares" : "cpu.weight",
                     cgroup_share_number(group->flavour, share), true, NULL);
}

static int set_limits(const struct cgroup *group, const struct cgroup_limits *limits,
                      struct error *err)
{
    bool v1 = group->flavour == CGROUP_V1;
    int r = 0;

    if (limits->memory_bytes) {
        r = set_limit(group, CONTROLLER_MEMORY, v1 ? "memory.limit_in_bytes" : "memory.max",
                      limits->memory_bytes, true, err);
        if (r < 0)
            return r;
        /* No swap: memory and swap together may not be more. The file is absent without swap
         * accounting; then there is nothing to close. */
        set_limit(group, CONTROLLER_MEMORY, v1 ? "memory.memsw.limit_in_bytes" : "memory.swap.max",
                  v1 ? limits->memory_bytes : 0, false, NULL);
        /* v1 counts socket buffers apart, and without a limit of theirs not at all: they get a
         * small one, because it comes on top of the memory limit. */
        if (v1)
            set_limit(group, CONTROLLER_MEMORY, "memory.kmem.tcp.limit_in_bytes",
                      MAX(limits->memory_bytes / 10, SOCKET_BUFFERS_MIN), false, NULL);
    }
    if (limits->pids)
        r = set_limit(group, CONTROLLER_PIDS, "pids.max", limits->pids, true, err);
    if (limits->cpu_share)
        cgroup_set_share(group, limits->cpu_share); /* not a limit: the box is as safe without */
    return r < 0 ? r : set_cpu(group, limits->cpu_millis, err);
}

static int open_join(struct cgroup *group, int controller, struct error *err)
{
    char path[CGROUP_PATH_MAX + 16];
    int flags = group->flavour == CGROUP_V1 ? O_WRONLY : O_RDONLY | O_DIRECTORY;

    if (str_format(path, sizeof(path), "%s%s", group->path[controller],
                   group->flavour == CGROUP_V1 ? "/tasks" : "") < 0)
        return error_set(err, -ENAMETOOLONG, ERROR_ENGINE, "the control group's path is too long");
    group->join_fd[controller] = open(path, flags | O_CLOEXEC);
    if (group->join_fd[controller] < 0)
        return error_errno(err, "opening %s", path);
    return 0;
}

/* 0700: another user could take the lock of a folder that is readable. */
static int make_folder(struct cgroup *group, int controller, bool is_own, struct error *err)
{
    const char *path = group->path[controller];
    int r;

    if (mkdir(path, 0700) < 0) {
        r = error_errno(err, "making the control group %s", path);
        group->path[controller][0] = 0;
        return r;
    }
    r = is_own ? owner_hold(path, &group->lock_fd[controller]) : 0;
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "locking the control group %s: %s", path,
                         strerror(-r));
    return open_join(group, controller, err);
}

static int make_folders(const struct cgroup_site *site, const char *name, bool is_own,
                        bool wants_cpu, struct cgroup *group, struct error *err)
{
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        int r;

        if (!site->parent[i][0] || (i == CONTROLLER_CPU && !wants_cpu) ||
            group->join_fd[i] >= 0) /* cgroup_make_cpu() */
            continue;
        if (str_format(group->path[i], CGROUP_PATH_MAX, "%s/%s", site->parent[i], name) < 0) {
            group->path[i][0] = 0;
            return error_set(err, -ENAMETOOLONG, ERROR_ENGINE,
                             "the control group's path is too long");
        }
        if (is_repeated(group, i))
            continue;
        r = make_folder(group, i, is_own, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int make_named(const struct cgroup_site *site, const char *name, bool is_own,
                      const struct cgroup_limits *limits, struct cgroup *group, struct error *err)
{
    bool is_begun = group->flavour != CGROUP_NONE; /* cgroup_make_cpu() */
    int r;

    if (site->flavour == CGROUP_NONE || !site->parent[CONTROLLER_MEMORY][0] ||
        !site->parent[CONTROLLER_PIDS][0])
        return error_set(err, -ENODEV, ERROR_ENGINE, "no control group can be made here");
    group->flavour = site->flavour;
    r = make_folders(site, name, is_own, limits->cpu_millis || limits->cpu_share, group, err);
    if (r == 0)
        r = set_limits(group, limits, err);
    if (r < 0 && is_begun) { /* its process is in it: what stays goes with the engine's group */
        cgroup_try_remove(group);
        cgroup_init(group);
    } else if (r < 0) {
        cgroup_remove(group);
    }
    return r;
}

/* A cpu controller that shares its folder with another one is made with that. */
void cgroup_make_cpu(const struct cgroup_site *site, const char *name, uint32_t share,
                     struct cgroup *group)
{
    char *path = group->path[CONTROLLER_CPU];

    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        if (i != CONTROLLER_CPU && str_equal(site->parent[i], site->parent[CONTROLLER_CPU]))
            return;
    }
    if (site->flavour != CGROUP_V1 || !share || !site->parent[CONTROLLER_CPU][0] ||
        str_format(path, CGROUP_PATH_MAX, "%s/%s", site->parent[CONTROLLER_CPU], name) < 0)
        return;
    group->flavour = CGROUP_V1;
    if (make_folder(group, CONTROLLER_CPU, false, NULL) < 0)
        cgroup_remove(group);
    else
        cgroup_set_share(group, share);
}

int cgroup_make(const struct cgroup_site *site, const char *name,
                const struct cgroup_limits *limits, struct cgroup *group, struct error *err)
{
    if (group->flavour == CGROUP_NONE)
        cgroup_init(group);
    return make_named(site, name, false, limits, group, err);
}

int cgroup_make_own(const struct cgroup_site *site, const struct cgroup_limits *limits,
                    struct cgroup *group, struct error *err)
{
    static unsigned serial;
    char owner[OWNER_MAX], name[OWNER_MAX + 32];
    int r = -EAGAIN;

    owner_name(owner);
    /* -EEXIST: of one that had our number, in a namespace that had our namespace's number. */
    for (int tries = 0; tries < OWNER_TRIES && (r == -EAGAIN || r == -EEXIST); tries++) {
        str_format(name, sizeof(name), CGROUP_PREFIX "%s-%u", owner, serial++);
        cgroup_init(group);
        r = make_named(site, name, true, limits, group, err);
    }
    return r;
}

int cgroup_join(const struct cgroup *group)
{
    if (group->flavour != CGROUP_V1)
        return 0;
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        if (group->join_fd[i] >= 0 && write(group->join_fd[i], "0", 1) < 0)
            return -errno;
    }
    return 0;
}

int cgroup_open_join(const struct cgroup *group, int (*become)(const struct cgroup *, void *),
                     void *ctx, int ret_fds[_CONTROLLER_MAX])
{
    const char *file = group->flavour == CGROUP_V1 ? "tasks" : "cgroup.procs";
    int folders[_CONTROLLER_MAX];
    int r = 0;

    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        folders[i] = ret_fds[i] = -1;
        if (r < 0 || group->flavour == CGROUP_NONE || !group->path[i][0] || is_repeated(group, i))
            continue;
        folders[i] = open(group->path[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        r = folders[i] < 0 ? -errno : 0;
    }
    if (r == 0 && become && group->flavour != CGROUP_NONE)
        r = become(group, ctx);
    for (int i = 0; i < _CONTROLLER_MAX && r == 0; i++) {
        if (folders[i] < 0)
            continue;
        ret_fds[i] = openat(folders[i], file, O_WRONLY | O_CLOEXEC);
        r = ret_fds[i] < 0 ? -errno : 0;
    }
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        fd_closep(&folders[i]);
        if (r == 0)
            continue;
        fd_closep(&ret_fds[i]);
        ret_fds[i] = -1;
    }
    return r;
}

uint64_t cgroup_oom_kills(const struct cgroup *group)
{
    bool v1 = group->flavour == CGROUP_V1;
    char path[CGROUP_PATH_MAX + 32], text[1024];
    unsigned long long count = 0;
    const char *word;

    if (group->flavour == CGROUP_NONE ||
        str_format(path, sizeof(path), "%s/%s", group->path[CONTROLLER_MEMORY],
                   v1 ? "memory.oom_control" : "memory.events") < 0 ||
        fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
        return 0;
    word = strstr(text, "oom_kill ");
    if (!word || sscanf(word, "oom_kill %llu", &count) != 1)
        return 0;
    return count;
}

void cgroup_stop_forks(const struct cgroup *group)
{
    if (group->flavour != CGROUP_NONE)
        set_limit(group, CONTROLLER_PIDS, "pids.max", 0, false, NULL);
}

/* The last member may still be on its way out when its parent has already been told. */
static void remove_folder(const char *path)
{
    struct timespec pause = {.tv_nsec = 200000};

    for (int tries = 0; tries < 500; tries++) {
        if (rmdir(path) == 0 || errno != EBUSY)
            return;
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 10000000)
            pause.tv_nsec *= 2;
    }
}

void cgroup_remove(struct cgroup *group)
{
    if (!group)
        return;
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        fd_closep(&group->join_fd[i]);
        group->join_fd[i] = -1;
        if (group->path[i][0] && !is_repeated(group, i))
            remove_folder(group->path[i]);
        fd_closep(&group->lock_fd[i]);
    }
    cgroup_init(group);
}

int cgroup_try_remove(struct cgroup *group)
{
    int r = 0;

    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        fd_closep(&group->join_fd[i]);
        group->join_fd[i] = -1;
        if (!group->path[i][0] || is_repeated(group, i))
            continue;
        if (rmdir(group->path[i]) < 0 && errno == EBUSY) {
            r = -EBUSY;
            continue;
        }
        group->path[i][0] = 0;
        fd_closep(&group->lock_fd[i]);
    }
    if (r == 0)
        cgroup_init(group);
    return r;
}

/* "bailey-<maker>-..." */
static bool is_named_by_us(const char *name)
{
    const char *rest =
        str_starts(name, CGROUP_PREFIX) ? owner_skip_name(name + strlen(CGROUP_PREFIX)) : NULL;

    return rest && *rest == '-';
}

static void remove_owner(int engine_fd, const char *name);

/* Groups of boxes that have members refuse, and then so does the engine's own. */
static void remove_boxes(int group_fd, bool is_owners)
{
    DIR *folder = folder_list(group_fd, ".");
    struct dirent *entry;

    if (!folder)
        return;
    while ((entry = readdir(folder))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        if (str_starts(entry->d_name, CGROUP_OWNER_PREFIX) && !is_owners)
            remove_owner(dirfd(folder), entry->d_name);
        unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
    }
    closedir(folder);
}

static void remove_owner(int engine_fd, const char *name)
{
    CLEANUP(fd_closep)
    int fd = openat(engine_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0)
        remove_boxes(fd, true);
}

static void sweep_folder(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;

    if (!folder)
        return;
    while ((entry = readdir(folder))) {
        CLEANUP(fd_closep) int lock_fd = -1;

        if (!is_named_by_us(entry->d_name) ||
            owner_inherit(dirfd(folder), entry->d_name, &lock_fd) < 0)
            continue;
        if (str_ends(entry->d_name, CGROUP_ENGINE_SUFFIX))
            remove_boxes(lock_fd, false);
        unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR); /* refuses one with members */
    }
    closedir(folder);
}

void cgroup_sweep(const struct cgroup_site *site)
{
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        bool seen = false;

        for (int j = 0; j < i; j++)
            seen |= str_equal(site->parent[i], site->parent[j]);
        if (site->parent[i][0] && !seen)
            sweep_folder(site->parent[i]);
    }
}
