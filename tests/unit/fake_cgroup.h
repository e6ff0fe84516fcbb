/*
 * fake_cgroup.h - control groups in a scratch folder, for unit tests of sys/cgroup.
 *
 * A kernel fills a new group's folder with files and removes them with it. Here mkdir(2) and
 * rmdir(2) are this header's own and do the same below a fake hierarchy. Included once a program.
 */
#ifndef BAILEY_TESTS_FAKE_CGROUP_H
#define BAILEY_TESTS_FAKE_CGROUP_H

#include "scratch.h"

#include <dirent.h>
#include <errno.h>

#include "sys/cgroup.h"

static const char *const *kernel_files; /* in every new group; NULL: an ordinary mkdir(2) */
static const char *mkdir_refuses;       /* a name that cannot be made */
static int sweeps_before_lock;          /* so many new groups a sweeper removes at once */

int mkdir(const char *path, mode_t mode)
{
    int fd;

    if (mkdir_refuses && strstr(path, mkdir_refuses)) {
        errno = EROFS;
        return -1;
    }
    if (mkdirat(AT_FDCWD, path, mode) < 0)
        return -1;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char *const *name = kernel_files; name && *name; name++)
        close(openat(fd, *name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    close(fd);
    if (sweeps_before_lock > 0) {
        sweeps_before_lock--;
        rmdir(path);
    }
    return 0;
}

int rmdir(const char *path)
{
    for (const char *const *name = kernel_files; name && *name; name++) {
        char file[600];

        snprintf(file, sizeof(file), "%s/%s", path, *name);
        unlink(file);
    }
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

/* An empty group has no files that rmdir(2) minds; here they are taken away. */
static inline void scratch_empty(const char *path)
{
    DIR *folder = path[0] ? opendir(path) : NULL;
    struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        if (entry->d_type != DT_DIR)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
}

static const char *const v1_files[] = {"tasks",
                                       "memory.limit_in_bytes",
                                       "memory.memsw.limit_in_bytes",
                                       "memory.oom_control",
                                       "pids.max",
                                       "cpu.cfs_period_us",
                                       "cpu.cfs_quota_us",
                                       NULL};
static const char *const v2_files[] = {
    "cgroup.procs", "memory.max", "memory.swap.max", "memory.events", "pids.max", "cpu.max", NULL};

struct cgroup_fixture {
    struct scratch scratch;
    struct cgroup_site site;
    struct cgroup group;
    const char *cpuacct; /* where it is expected; NULL: nowhere */
};

static inline int set_up(void **state)
{
    struct cgroup_fixture *fixture = calloc(1, sizeof(*fixture));

    if (!fixture)
        return -1;
    kernel_files = NULL;
    mkdir_refuses = NULL;
    sweeps_before_lock = 0;
    scratch_make(&fixture->scratch);
    cgroup_init(&fixture->group);
    *state = fixture;
    return 0;
}

static inline int tear_down(void **state)
{
    struct cgroup_fixture *fixture = *state;

    mkdir_refuses = NULL;
    cgroup_remove(&fixture->group);
    kernel_files = NULL;
    scratch_remove(&fixture->scratch);
    free(fixture);
    return 0;
}

static inline void check_file(const struct cgroup_fixture *fixture, const char *name,
                              const char *expected)
{
    char text[128];

    assert_true(scratch_read(scratch_path(&fixture->scratch, name), text, sizeof(text)));
    assert_string_equal(text, expected);
}

static inline bool is_there(const struct cgroup_fixture *fixture, const char *name)
{
    return access(scratch_path(&fixture->scratch, name), F_OK) == 0;
}

static inline void make_site(struct cgroup_fixture *fixture, enum cgroup_flavour flavour,
                             const char *memory, const char *pids, const char *cpu)
{
    const char *const names[_CONTROLLER_MAX] = {memory, pids, cpu};

    memset(&fixture->site, 0, sizeof(fixture->site));
    fixture->site.flavour = flavour;
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        if (names[i])
            snprintf(fixture->site.parent[i], CGROUP_PATH_MAX, "%s",
                     scratch_folder(&fixture->scratch, names[i]));
    }
}

static const struct cgroup_limits limits = {
    .memory_bytes = 64 << 20, .pids = 12, .cpu_millis = 500};

#define WITH_CGROUP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
