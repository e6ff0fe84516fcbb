/* test_cgroup.c - where groups can be made on hosts of all kinds, and groups in fake trees. */
#include "fake_cgroup.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "sys/owner.h"

/* ---- where ---- */

static void find(struct cgroup_fixture *fixture, const char *mountinfo, const char *self)
{
    struct cgroup_host host = {
        .mountinfo = mountinfo, .self = self, .prefix = fixture->scratch.path};

    memset(&fixture->site, 0xff, sizeof(fixture->site));
    cgroup_find_in(&host, &fixture->site);
}

static void check_site(const struct cgroup_fixture *fixture, enum cgroup_flavour flavour,
                       const char *memory, const char *pids, const char *cpu)
{
    const char *const expected[_CONTROLLER_MAX] = {memory, pids, cpu, fixture->cpuacct};

    assert_int_equal(fixture->site.flavour, flavour);
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        const char *path = expected[i] ? scratch_path(&fixture->scratch, expected[i]) : "";

        assert_string_equal(fixture->site.parent[i], path);
    }
}

static void test_v1_separate(void **state)
{
    struct cgroup_fixture *fixture = *state;
    static const char mounts[] =
        "22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "30 22 0:25 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
        "31 30 0:26 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
        "32 30 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n"
        "33 30 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
        "34 30 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "35 30 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
    static const char self[] =
        "9:name=systemd:/\n8:pids:/\n5:cpuset:/x\n4:memory:/a/b\n1:cpu:/\n0::/\n";

    scratch_folder(&fixture->scratch, "sys/fs/cgroup/memory/a/b");
    scratch_folder(&fixture->scratch, "sys/fs/cgroup/pids");
    scratch_folder(&fixture->scratch, "sys/fs/cgroup/cpu");
    find(fixture, mounts, self);
    check_site(fixture, CGROUP_V1, "sys/fs/cgroup/memory/a/b", "sys/fs/cgroup/pids",
               "sys/fs/cgroup/cpu");
}

static void test_v1_together(void **state)
{
    struct cgroup_fixture *fixture = *state;
    static const char mounts[] = "1 0 0:1 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                                 "2 0 0:2 / /cg/both rw - cgroup cgroup rw,memory,pids\n";

    scratch_folder(&fixture->scratch, "cg/cpu,cpuacct/me");
    scratch_folder(&fixture->scratch, "cg/both/me");
    find(fixture, mounts, "3:cpu,cpuacct:/me\n2:memory,pids:/me\n");
    fixture->cpuacct = "cg/cpu,cpuacct/me";
    check_site(fixture, CGROUP_V1, "cg/both/me", "cg/both/me", "cg/cpu,cpuacct/me");
    find(fixture, mounts, "3:cpuacct:/me\n2:memory,pids:/me\n"); /* cpuacct is not cpu */
    check_site(fixture, CGROUP_V1, "cg/both/me", "cg/both/me", NULL);
}

/* Controllers on v1, an empty v2 beside them. */
static void test_hybrid(void **state)
{
    struct cgroup_fixture *fixture = *state;
    static const char mounts[] = "1 0 0:1 / /cg/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
                                 "2 0 0:2 / /cg/memory rw - cgroup cgroup rw,memory\n"
                                 "3 0 0:3 / /cg/pids rw - cgroup cgroup rw,pids\n";
    static const char self[] = "3:pids:/\n2:memory:/\n0::/\n";

    scratch_folder(&fixture->scratch, "cg/unified");
    scratch_write(&fixture->scratch, "cg/unified/cgroup.subtree_control", "memory pids\n");
    scratch_folder(&fixture->scratch, "cg/memory");
    scratch_folder(&fixture->scratch, "cg/pids");
    find(fixture, mounts, self);
    check_site(fixture, CGROUP_V1, "cg/memory", "cg/pids", NULL);
    /* A v1 that lacks one of the two is not used at all. */
    find(fixture, mounts, "2:memory:/\n0::/\n");
    check_site(fixture, CGROUP_V2, "cg/unified", "cg/unified", NULL);
}

static const char v2_mount[] = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

static void test_v2_delegated_above(void **state)
{
    struct cgroup_fixture *fixture = *state;
    static const char self[] = "0::/user.slice/user-1.slice/app/mine\n";

    scratch_folder(&fixture->scratch, "sys/fs/cgroup/user.slice/user-1.slice/app/mine");
    scratch_write(&fixture->scratch, "sys/fs/cgroup/cgroup.subtree_control", "cpu memory pids\n");
    scratch_write(&fixture->scratch, "sys/fs/cgroup/user.slice/cgroup.subtree_control",
                  "cpu memory pids\n");
    scratch_write(&fixture->scratch, "sys/fs/cgroup/user.slice/user-1.slice/cgroup.subtree_control",
                  "memory pids\n");
    scratch_write(&fixture->scratch,
                  "sys/fs/cgroup/user.slice/user-1.slice/app/cgroup.subtree_control", "memory\n");
    scratch_write(&fixture->scratch,
                  "sys/fs/cgroup/user.slice/user-1.slice/app/mine/cgroup.subtree_control", "");
    find(fixture, v2_mount, self);
    check_site(fixture, CGROUP_V2, "sys/fs/cgroup/user.slice/user-1.slice",
               "sys/fs/cgroup/user.slice/user-1.slice", NULL);
}

static void test_v2_root(void **state)
{
    struct cgroup_fixture *fixture = *state;

    scratch_folder(&fixture->scratch, "sys/fs/cgroup");
    scratch_write(&fixture->scratch, "sys/fs/cgroup/cgroup.subtree_control", "memory pids\n");
    find(fixture, v2_mount, "0::/\n");
    check_site(fixture, CGROUP_V2, "sys/fs/cgroup", "sys/fs/cgroup", NULL);
    scratch_write(&fixture->scratch, "sys/fs/cgroup/cgroup.subtree_control",
                  "cpuset cpu io memory pids\n");
    find(fixture, v2_mount, "0::/\n");
    check_site(fixture, CGROUP_V2, "sys/fs/cgroup", "sys/fs/cgroup", "sys/fs/cgroup");
    scratch_write(&fixture->scratch, "sys/fs/cgroup/cgroup.subtree_control", "memory_x pids\n");
    find(fixture, v2_mount, "0::/\n");
    check_site(fixture, CGROUP_NONE, NULL, NULL, NULL);
}

/* The search goes up to the mount and not beyond it, whatever lies there. */
static void test_v2_stops_at_the_mount(void **state)
{
    struct cgroup_fixture *fixture = *state;

    scratch_folder(&fixture->scratch, "sys/fs/cgroup/a");
    scratch_write(&fixture->scratch, "sys/fs/cgroup.subtree_control", "memory pids\n");
    scratch_write(&fixture->scratch, "cgroup.subtree_control", "memory pids\n");
    find(fixture, v2_mount, "0::/a\n");
    check_site(fixture, CGROUP_NONE, NULL, NULL, NULL);
}

/* In a container without a cgroup namespace the mount shows a part of the hierarchy only. */
static void test_mount_of_a_part(void **state)
{
    struct cgroup_fixture *fixture = *state;
    static const char mount[] = "9 8 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
    static const char v1[] = "1 0 0:1 /docker/x /cg/memory rw - cgroup cgroup rw,memory\n"
                             "2 0 0:2 /docker/x /cg/pids rw - cgroup cgroup rw,pids\n";

    scratch_folder(&fixture->scratch, "sys/fs/cgroup/in");
    scratch_write(&fixture->scratch, "sys/fs/cgroup/cgroup.subtree_control", "memory pids\n");
    find(fixture, mount, "0::/docker/x\n");
    check_site(fixture, CGROUP_V2, "sys/fs/cgroup", "sys/fs/cgroup", NULL);
    find(fixture, mount, "0::/docker/x/in\n");
    check_site(fixture, CGROUP_V2, "sys/fs/cgroup", "sys/fs/cgroup", NULL);
    find(fixture, mount, "0::/docker/xy\n"); /* a group beside it */
    check_site(fixture, CGROUP_NONE, NULL, NULL, NULL);
    find(fixture, mount, "0::/\n");
    check_site(fixture, CGROUP_NONE, NULL, NULL, NULL);

    scratch_folder(&fixture->scratch, "cg/memory/in");
    scratch_folder(&fixture->scratch, "cg/pids");
    find(fixture, v1, "1:memory:/docker/x/in\n2:pids:/docker/x\n");
    check_site(fixture, CGROUP_V1, "cg/memory/in", "cg/pids", NULL);
}

static void test_none(void **state)
{
    struct cgroup_fixture *fixture = *state;
    char *mounts = malloc(5000);

    assert_non_null(mounts);
    find(fixture, "", "");
    check_site(fixture, CGROUP_NONE, NULL, NULL, NULL);
    find(fixture, "22 1 0:21 / / rw - ext4 /dev/vda rw\n", "0::/\n");
    check_site(fixture, CGROUP_NONE, NULL, NULL, NULL);
    find(fixture, "nonsense\n - \n1 2 3 4 5 - cgroup2\n- cgroup cgroup rw,memory\n",
         ":::\n::\n:\n0\n");
    check_site(fixture, CGROUP_NONE, NULL, NULL, NULL);
    find(fixture, v2_mount, "0::/"); /* mounted, but nothing is there */
    check_site(fixture, CGROUP_NONE, NULL, NULL, NULL);
    memset(mounts, 'x', 4999); /* one endless line */
    mounts[4999] = 0;
    memcpy(mounts, "1 0 0:1 / /", 11);
    memcpy(mounts + 4960, " - cgroup2 c rw", 15);
    find(fixture, mounts, mounts);
    check_site(fixture, CGROUP_NONE, NULL, NULL, NULL);
    free(mounts);
}

/* ---- groups ---- */

static void test_make_v1(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct error err = {0};

    kernel_files = v1_files;
    make_site(fixture, CGROUP_V1, "memory", "pids", "cpu");
    assert_int_equal(cgroup_make(&fixture->site, "bailey-1-0", &limits, &fixture->group, &err), 0);
    check_file(fixture, "memory/bailey-1-0/memory.limit_in_bytes", "67108864");
    check_file(fixture, "memory/bailey-1-0/memory.memsw.limit_in_bytes", "67108864");
    check_file(fixture, "pids/bailey-1-0/pids.max", "12");
    check_file(fixture, "cpu/bailey-1-0/cpu.cfs_period_us", "100000");
    check_file(fixture, "cpu/bailey-1-0/cpu.cfs_quota_us", "50000");
    check_file(fixture, "pids/bailey-1-0/tasks", "");
    assert_int_equal(cgroup_join(&fixture->group), 0);
    check_file(fixture, "memory/bailey-1-0/tasks", "0");
    check_file(fixture, "pids/bailey-1-0/tasks", "0");
    check_file(fixture, "cpu/bailey-1-0/tasks", "0");
    cgroup_remove(&fixture->group);
    assert_false(is_there(fixture, "memory/bailey-1-0"));
    assert_false(is_there(fixture, "pids/bailey-1-0"));
    assert_false(is_there(fixture, "cpu/bailey-1-0"));
    assert_int_equal(fixture->group.flavour, CGROUP_NONE);
    assert_int_equal(fixture->group.join_fd[0], -1);
    cgroup_remove(&fixture->group); /* twice is fine, and so is nothing */
    cgroup_remove(NULL);
}

static void test_share_numbers(void **state)
{
    (void)state;
    assert_int_equal(cgroup_share_number(CGROUP_V1, 1000), 1024); /* the kernel's defaults */
    assert_int_equal(cgroup_share_number(CGROUP_V2, 1000), 100);
    assert_int_equal(cgroup_share_number(CGROUP_V1, CGROUP_SHARE_TENANT), 8192);
    assert_int_equal(cgroup_share_number(CGROUP_V2, CGROUP_SHARE_TENANT), 800);
    assert_int_equal(cgroup_share_number(CGROUP_V1, 0), 2); /* and what it takes at all */
    assert_int_equal(cgroup_share_number(CGROUP_V2, 0), 1);
    assert_int_equal(cgroup_share_number(CGROUP_V1, UINT32_MAX), 262144);
    assert_int_equal(cgroup_share_number(CGROUP_V2, UINT32_MAX), 10000);
}

/* The cpu controller's part may exist before the rest: who builds the box is in it already. */
static void test_share_v1(void **state)
{
    static const struct cgroup_limits divided = {
        .memory_bytes = 1 << 20, .pids = 3, .cpu_share = 4000};
    static const char *const files[] = {"tasks",      "memory.limit_in_bytes", "pids.max",
                                        "cpu.shares", "cpu.cfs_quota_us",      NULL};
    struct cgroup_fixture *fixture = *state;
    struct error err = {0};
    int fd;

    kernel_files = files;
    make_site(fixture, CGROUP_V1, "memory", "pids", "cpu");
    cgroup_init(&fixture->group);
    cgroup_make_cpu(&fixture->site, "box-1", 4000, &fixture->group);
    check_file(fixture, "cpu/box-1/cpu.shares", "4096");
    assert_false(is_there(fixture, "memory/box-1"));
    fd = fixture->group.join_fd[CONTROLLER_CPU];
    assert_true(fd >= 0);
    assert_int_equal(cgroup_make(&fixture->site, "box-1", &divided, &fixture->group, &err), 0);
    assert_int_equal(fixture->group.join_fd[CONTROLLER_CPU], fd);
    check_file(fixture, "memory/box-1/memory.limit_in_bytes", "1048576");
    check_file(fixture, "cpu/box-1/cpu.cfs_quota_us", ""); /* a share is no limit */
    assert_int_equal(cgroup_set_share(&fixture->group, 1000), 0);
    check_file(fixture, "cpu/box-1/cpu.shares", "1024");
    cgroup_remove(&fixture->group);
    assert_false(is_there(fixture, "cpu/box-1"));
    assert_int_equal(cgroup_set_share(&fixture->group, 1000), -ENODEV);
    /* Without the controller there is no share, and the rest is as it was. */
    make_site(fixture, CGROUP_V1, "memory2", "pids2", NULL);
    cgroup_make_cpu(&fixture->site, "box-2", 4000, &fixture->group);
    assert_int_equal(fixture->group.flavour, CGROUP_NONE);
    assert_int_equal(cgroup_make(&fixture->site, "box-2", &divided, &fixture->group, &err), 0);
    assert_int_equal(cgroup_set_share(&fixture->group, 1000), -ENODEV);
    cgroup_remove(&fixture->group);
}

/* For one more process, after those of the making are closed; `file` is what it writes to. */
static void check_open_join(struct cgroup_fixture *fixture, size_t wanted, const char *file)
{
    int fds[_CONTROLLER_MAX];
    size_t count = 0;

    assert_int_equal(cgroup_open_join(&fixture->group, NULL, NULL, fds), 0);
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        if (fds[i] < 0)
            continue;
        count++;
        assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        assert_int_equal(write(fds[i], "0", 1), 1);
        close(fds[i]);
    }
    assert_int_equal(count, wanted);
    check_file(fixture, file, "0");
}

static int note_become(const struct cgroup *group, void *ctx)
{
    assert_int_equal(group->flavour, CGROUP_V1);
    return *(int *)ctx;
}

/* Whoever opens the file is another than who opened its folder; or nobody opens it. */
static void test_open_join_as_another(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct error err = {0};
    int fds[_CONTROLLER_MAX], answer = 0;

    kernel_files = v1_files;
    make_site(fixture, CGROUP_V1, "memory", "pids", "cpu");
    assert_int_equal(cgroup_make(&fixture->site, "bailey-1-3", &limits, &fixture->group, &err), 0);
    assert_int_equal(cgroup_open_join(&fixture->group, note_become, &answer, fds), 0);
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        close(fds[i]);
    answer = -EPERM;
    assert_int_equal(cgroup_open_join(&fixture->group, note_become, &answer, fds), -EPERM);
    assert_true(fds[0] == -1 && fds[1] == -1 && fds[2] == -1);
    cgroup_remove(&fixture->group);
}

/* v2: a group in the engine's, in which one id may move processes; v1 needs none. */
static void test_owner(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct cgroup_site site = {.flavour = CGROUP_V1}, within;
    struct error err = {0};
    struct stat status;
    static const char *const files[] = {
        "memory.max",   "memory.swap.max",        "pids.max",         "cpu.max",
        "cgroup.procs", "cgroup.subtree_control", "memory.oom.group", NULL};

    kernel_files = v1_files;
    make_site(fixture, CGROUP_V1, "memory", "pids", "cpu");
    site = fixture->site;
    assert_int_equal(cgroup_make_owner(&site, "owner-20", getuid(), &within), 0);
    assert_string_equal(within.parent[0], site.parent[0]);
    kernel_files = files;
    make_site(fixture, CGROUP_V2, "top", "top", "top");
    assert_int_equal(cgroup_make_owner(&fixture->site, "owner-20", getuid(), &within), 0);
    assert_non_null(strstr(within.parent[CONTROLLER_PIDS], "/top/owner-20"));
    check_file(fixture, "top/owner-20/cgroup.subtree_control", "+memory +pids +cpu");
    assert_int_equal(cgroup_make(&within, "box-1", &limits, &fixture->group, &err), 0);
    assert_int_equal(cgroup_let_in(&fixture->group, getuid()), 0);
    assert_int_equal(fstat(fixture->group.join_fd[0], &status), 0);
    assert_int_equal(status.st_mode & 0777, 0711); /* its files by name, and nothing listed */
    cgroup_remove(&fixture->group);
    cgroup_remove_owner(&within);
    assert_int_equal(access(within.parent[0], F_OK), -1);
}

static void test_open_join(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct error err = {0};
    int fds[_CONTROLLER_MAX];

    kernel_files = v1_files;
    make_site(fixture, CGROUP_V1, "memory", "pids", "cpu");
    assert_int_equal(cgroup_make(&fixture->site, "bailey-1-3", &limits, &fixture->group, &err), 0);
    check_open_join(fixture, 3, "cpu/bailey-1-3/tasks");
    cgroup_remove(&fixture->group);
    assert_int_equal(cgroup_open_join(&fixture->group, NULL, NULL, fds),
                     0); /* without a group there is no file */
    assert_true(fds[0] == -1 && fds[1] == -1 && fds[2] == -1);
    kernel_files = v2_files;
    make_site(fixture, CGROUP_V2, "top", "top", "top");
    assert_int_equal(cgroup_make(&fixture->site, "bailey-1-4", &limits, &fixture->group, &err), 0);
    check_open_join(fixture, 1, "top/bailey-1-4/cgroup.procs");
    fixture->group.path[0][0] = '-'; /* somewhere else */
    assert_int_equal(cgroup_open_join(&fixture->group, NULL, NULL, fds), -ENOENT);
    assert_true(fds[0] == -1 && fds[1] == -1 && fds[2] == -1);
    fixture->group.path[0][0] = '/';
    cgroup_remove(&fixture->group);
}

/* One hierarchy for two controllers: one folder, made and entered once; no cpu limit, no group. */
static void test_make_v1_together(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct cgroup_limits few = {.memory_bytes = 1 << 20, .pids = 3};
    struct error err = {0};

    kernel_files = v1_files;
    make_site(fixture, CGROUP_V1, "both", "both", "cpu");
    assert_int_equal(cgroup_make(&fixture->site, "bailey-1-1", &few, &fixture->group, &err), 0);
    check_file(fixture, "both/bailey-1-1/memory.limit_in_bytes", "1048576");
    check_file(fixture, "both/bailey-1-1/pids.max", "3");
    assert_false(is_there(fixture, "cpu/bailey-1-1"));
    assert_int_equal(fixture->group.join_fd[CONTROLLER_PIDS], -1);
    assert_int_equal(cgroup_join(&fixture->group), 0);
    check_file(fixture, "both/bailey-1-1/tasks", "0");
    assert_int_equal(cgroup_try_remove(&fixture->group), 0);
    assert_int_equal(fixture->group.flavour, CGROUP_NONE);
    assert_int_equal(cgroup_try_remove(&fixture->group), 0);
    assert_false(is_there(fixture, "both/bailey-1-1"));
}

static void test_make_v2(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct stat by_fd, by_path;
    struct error err = {0};

    kernel_files = v2_files;
    make_site(fixture, CGROUP_V2, "top", "top", "top");
    assert_int_equal(cgroup_make(&fixture->site, "bailey-1-2", &limits, &fixture->group, &err), 0);
    check_file(fixture, "top/bailey-1-2/memory.max", "67108864");
    check_file(fixture, "top/bailey-1-2/memory.swap.max", "0");
    check_file(fixture, "top/bailey-1-2/pids.max", "12");
    check_file(fixture, "top/bailey-1-2/cpu.max", "50000 100000");
    assert_int_equal(fstat(fixture->group.join_fd[0], &by_fd), 0);
    assert_int_equal(stat(fixture->group.path[0], &by_path), 0);
    assert_true(by_fd.st_ino == by_path.st_ino);
    assert_int_equal(cgroup_join(&fixture->group), 0); /* entered by the clone: nothing to do */
    check_file(fixture, "top/bailey-1-2/cgroup.procs", "");
    cgroup_remove(&fixture->group);
    assert_false(is_there(fixture, "top/bailey-1-2"));
}

/* On failure nothing is left, and the error names the file. */
static void test_make_fails(void **state)
{
    static const char *const no_pids[] = {"tasks", "memory.limit_in_bytes", NULL};
    static const char *const no_tasks[] = {"memory.limit_in_bytes", "pids.max", NULL};
    struct cgroup_fixture *fixture = *state;
    struct error err = {0};

    make_site(fixture, CGROUP_V1, "memory", "pids", "cpu");
    kernel_files = no_pids;
    assert_int_equal(cgroup_make(&fixture->site, "g", &limits, &fixture->group, &err), -ENOENT);
    assert_non_null(strstr(err.text, "pids/g/pids.max"));
    assert_false(is_there(fixture, "memory/g") || is_there(fixture, "pids/g") ||
                 is_there(fixture, "cpu/g"));
    kernel_files = no_tasks;
    assert_int_equal(cgroup_make(&fixture->site, "g", &limits, &fixture->group, &err), -ENOENT);
    assert_non_null(strstr(err.text, "memory/g/tasks"));
    assert_false(is_there(fixture, "memory/g"));
    kernel_files = v1_files;
    mkdir_refuses = "pids/g";
    assert_int_equal(cgroup_make(&fixture->site, "g", &limits, &fixture->group, &err), -EROFS);
    assert_non_null(strstr(err.text, "pids/g"));
    assert_false(is_there(fixture, "memory/g"));
    assert_int_equal(fixture->group.flavour, CGROUP_NONE);
}

static void test_make_where_none_can_be(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct error err = {0};
    char name[CGROUP_PATH_MAX];

    memset(&fixture->site, 0, sizeof(fixture->site));
    assert_int_equal(cgroup_make(&fixture->site, "g", &limits, &fixture->group, &err), -ENODEV);
    make_site(fixture, CGROUP_V1, "memory", NULL, "cpu");
    assert_int_equal(cgroup_make(&fixture->site, "g", &limits, &fixture->group, &err), -ENODEV);
    assert_false(is_there(fixture, "memory/g"));
    make_site(fixture, CGROUP_V1, "memory", "pids", NULL);
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    assert_int_equal(cgroup_make(&fixture->site, name, &limits, &fixture->group, &err),
                     -ENAMETOOLONG);
    /* Somebody else's group of that name is not touched. */
    scratch_folder(&fixture->scratch, "memory/g");
    assert_int_equal(cgroup_make(&fixture->site, "g", &limits, &fixture->group, &err), -EEXIST);
    assert_true(is_there(fixture, "memory/g"));
}

static void test_oom_kills(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct cgroup *group = &fixture->group;

    assert_int_equal(cgroup_oom_kills(group), 0);
    snprintf(group->path[0], CGROUP_PATH_MAX, "%s", fixture->scratch.path);
    group->flavour = CGROUP_V1;
    assert_int_equal(cgroup_oom_kills(group), 0); /* no such file */
    scratch_write(&fixture->scratch, "memory.oom_control",
                  "oom_kill_disable 7\nunder_oom 0\noom_kill 3\n");
    assert_int_equal(cgroup_oom_kills(group), 3);
    scratch_write(&fixture->scratch, "memory.oom_control", "oom_kill_disable 7\nunder_oom 0\n");
    assert_int_equal(cgroup_oom_kills(group), 0);
    group->flavour = CGROUP_V2;
    scratch_write(&fixture->scratch, "memory.events",
                  "low 0\nhigh 1\nmax 9\noom 5\noom_kill 18446744073709551615\noom_group_kill 2\n");
    assert_true(cgroup_oom_kills(group) == UINT64_MAX);
    scratch_write(&fixture->scratch, "memory.events", "oom_kill x\n");
    assert_int_equal(cgroup_oom_kills(group), 0);
    cgroup_init(group); /* the folder is not a group's: not to be removed */
}

/* ---- whose ---- */

static void own_path(const struct cgroup *group, int controller, char path[CGROUP_PATH_MAX])
{
    assert_true(group->path[controller][0]);
    snprintf(path, CGROUP_PATH_MAX, "%s", group->path[controller]);
}

/* A maker's group carries its name, and is its own until it is removed: v1, a lock for each. */
static void check_own(struct cgroup_fixture *fixture, enum cgroup_flavour flavour, size_t locks)
{
    char owner[OWNER_MAX], start[OWNER_MAX + 16], path[CGROUP_PATH_MAX];
    struct error err = {0};
    size_t count = 0;

    assert_int_equal(cgroup_make_own(&fixture->site, &limits, &fixture->group, &err), 0);
    assert_int_equal(fixture->group.flavour, flavour);
    owner_name(owner);
    snprintf(start, sizeof(start), "/bailey-%s-", owner);
    own_path(&fixture->group, CONTROLLER_PIDS, path);
    assert_non_null(strstr(path, start));
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        count += fixture->group.lock_fd[i] >= 0;
    assert_int_equal(count, locks);
    kernel_files = NULL; /* a fake group would not be empty: the lock alone keeps it */
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        scratch_empty(fixture->group.path[i]);
    cgroup_sweep(&fixture->site);
    assert_int_equal(access(path, F_OK), 0);
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        fd_closep(&fixture->group.lock_fd[i]); /* as the kernel does when the maker dies */
    cgroup_sweep(&fixture->site);
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        assert_int_equal(access(fixture->group.path[i], F_OK), -1);
    cgroup_remove(&fixture->group);
}

static void test_own_v1(void **state)
{
    struct cgroup_fixture *fixture = *state;

    kernel_files = v1_files;
    make_site(fixture, CGROUP_V1, "memory", "pids", "cpu");
    check_own(fixture, CGROUP_V1, 3);
    kernel_files = v1_files;
    make_site(fixture, CGROUP_V1, "both", "both", "cpu");
    check_own(fixture, CGROUP_V1, 2);
}

static void test_own_v2(void **state)
{
    struct cgroup_fixture *fixture = *state;

    kernel_files = v2_files;
    make_site(fixture, CGROUP_V2, "top", "top", "top");
    check_own(fixture, CGROUP_V2, 1);
}

/* Two makers with the same number, each in a namespace of its own, or one after the other. */
static void test_own_names_do_not_meet(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct cgroup second;
    struct error err = {0};
    char first[CGROUP_PATH_MAX], next[CGROUP_PATH_MAX], *dash;

    kernel_files = v1_files;
    make_site(fixture, CGROUP_V1, "both", "both", NULL);
    assert_int_equal(cgroup_make_own(&fixture->site, &limits, &fixture->group, &err), 0);
    own_path(&fixture->group, 0, first);
    dash = strrchr(first, '-');
    snprintf(next, sizeof(next), "%.*s-%d", (int)(dash - first), first, atoi(dash + 1) + 1);
    assert_int_equal(mkdirat(AT_FDCWD, next, 0700), 0); /* the name that would come next */
    assert_int_equal(cgroup_make_own(&fixture->site, &limits, &second, &err), 0);
    assert_string_not_equal(second.path[0], next);
    assert_string_not_equal(second.path[0], first);
    cgroup_remove(&second);
    assert_int_equal(access(next, F_OK), 0);
    unlinkat(AT_FDCWD, next, AT_REMOVEDIR);
}

/* A sweeper that comes between the making and the lock: another group is made. */
static void test_own_meets_a_sweeper(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct error err = {0};

    kernel_files = v1_files;
    make_site(fixture, CGROUP_V1, "both", "both", NULL);
    sweeps_before_lock = 2;
    assert_int_equal(cgroup_make_own(&fixture->site, &limits, &fixture->group, &err), 0);
    assert_int_equal(sweeps_before_lock, 0);
    assert_int_equal(access(fixture->group.path[0], F_OK), 0);
    cgroup_remove(&fixture->group);
    sweeps_before_lock = 1000; /* each time: that is given up */
    assert_int_equal(cgroup_make_own(&fixture->site, &limits, &fixture->group, &err), -EAGAIN);
    assert_non_null(strstr(err.text, "locking the control group"));
    assert_int_equal(fixture->group.flavour, CGROUP_NONE);
}

/* Which names a sweep looks at. None of these has a maker. */
static void test_sweep(void **state)
{
    static const struct {
        const char *name;
        bool stays;
    } rows[] = {
        {"memory/bailey-n4026531836-77-0", false},
        {"memory/bailey-n1-77-15", false},    /* another pid namespace */
        {"memory/bailey-n0-1-engine", false}, /* a namespace without /proc */
        {"cpu/bailey-n1-2-1-engine", false},  /* the second of its maker */
        {"cpu/bailey-n1-77-1/members", true}, /* not empty */
        {"memory/bailey-77-0", true},         /* an older version's, which held no lock */
        {"memory/bailey-4026531836-77", true},
        {"memory/bailey-n1-77", true},
        {"memory/bailey-n1-77x0", true},
        {"memory/bailey-n-77-0", true},
        {"memory/bailey-n1--0", true},
        {"memory/bailey-n", true},
        {"memory/bailey-x", true},
        {"memory/bailey-", true},
        {"memory/other", true},
    };
    struct cgroup_fixture *fixture = *state;

    make_site(fixture, CGROUP_V1, "memory", "memory", "cpu");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        scratch_folder(&fixture->scratch, rows[i].name);
    cgroup_sweep(&fixture->site);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_int_equal(is_there(fixture, rows[i].name), rows[i].stays);
    memset(&fixture->site, 0, sizeof(fixture->site));
    cgroup_sweep(&fixture->site); /* nowhere: nothing to do */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CGROUP(test_v1_separate),
        WITH_CGROUP(test_v1_together),
        WITH_CGROUP(test_hybrid),
        WITH_CGROUP(test_v2_delegated_above),
        WITH_CGROUP(test_v2_root),
        WITH_CGROUP(test_v2_stops_at_the_mount),
        WITH_CGROUP(test_mount_of_a_part),
        WITH_CGROUP(test_none),
        WITH_CGROUP(test_make_v1),
        cmocka_unit_test(test_share_numbers),
        WITH_CGROUP(test_share_v1),
        WITH_CGROUP(test_make_v1_together),
        WITH_CGROUP(test_open_join),
        WITH_CGROUP(test_open_join_as_another),
        WITH_CGROUP(test_owner),
        WITH_CGROUP(test_make_v2),
        WITH_CGROUP(test_make_fails),
        WITH_CGROUP(test_make_where_none_can_be),
        WITH_CGROUP(test_oom_kills),
        WITH_CGROUP(test_sweep),
        WITH_CGROUP(test_own_v1),
        WITH_CGROUP(test_own_v2),
        WITH_CGROUP(test_own_names_do_not_meet),
        WITH_CGROUP(test_own_meets_a_sweeper),
    };

    return cmocka_run_group_tests_name("sys/cgroup", tests, NULL, NULL);
}
