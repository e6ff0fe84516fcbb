/* test_cgroup_engine.c - the group that holds an engine's boxes, in fake trees; what groups used.
 */
#include "fake_cgroup.h"

#include <sys/wait.h>

#include "base/cleanup.h"

static const char *const v2_engine_files[] = {"cgroup.procs",
                                              "cgroup.threads",
                                              "memory.max",
                                              "memory.swap.max",
                                              "pids.max",
                                              "cpu.max",
                                              "memory.current",
                                              "memory.peak",
                                              "cpu.stat",
                                              "cgroup.subtree_control",
                                              NULL};

static void test_engine_v2(void **state)
{
    struct room *room = *state;
    struct cgroup_site site;
    struct stat by_fd, by_path;
    int leaf_fd = -1;

    kernel_files = v2_engine_files;
    make_site(room, CGROUP_V2, "top", "top", "top");
    cgroup_make_engine(&room->site, 77, -1, &site, &leaf_fd);
    assert_int_equal(site.flavour, CGROUP_V2);
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        assert_string_equal(site.parent[i], scratch_path(&room->scratch, "top/bailey-77-engine"));
    check_file(room, "top/bailey-77-engine/cgroup.subtree_control", "+memory +pids +cpu");
    assert_int_equal(fstat(leaf_fd, &by_fd), 0);
    assert_int_equal(stat(scratch_path(&room->scratch, "top/bailey-77-engine/launcher"), &by_path),
                     0);
    assert_true(by_fd.st_ino == by_path.st_ino);
    close(leaf_fd);
    assert_int_equal(cgroup_make(&site, "box-0", &limits, &room->group, NULL), 0);
    check_file(room, "top/bailey-77-engine/box-0/pids.max", "12");
    cgroup_remove(&room->group);
    cgroup_remove_engine(&site);
    assert_false(is_there(room, "top/bailey-77-engine"));
    assert_int_equal(site.flavour, CGROUP_NONE);
    cgroup_remove_engine(&site); /* twice is fine */
}

/* What cannot be divided is no group at all, and nothing of it stays. */
static void test_engine_that_cannot_be(void **state)
{
    struct room *room = *state;
    struct cgroup_site site;
    int leaf_fd = 0;

    kernel_files = v2_files; /* nothing to hand controllers on with */
    make_site(room, CGROUP_V2, "top", "top", NULL);
    cgroup_make_engine(&room->site, 77, -1, &site, &leaf_fd);
    assert_int_equal(site.flavour, CGROUP_NONE);
    assert_int_equal(leaf_fd, -1);
    assert_false(is_there(room, "top/bailey-77-engine"));
    kernel_files = v1_files;
    mkdir_refuses = "pids/bailey";
    make_site(room, CGROUP_V1, "memory", "pids", "cpu");
    cgroup_make_engine(&room->site, 77, -1, &site, &leaf_fd);
    assert_int_equal(site.flavour, CGROUP_NONE);
    assert_false(is_there(room, "memory/bailey-77-engine"));
    memset(&room->site, 0, sizeof(room->site));
    cgroup_make_engine(&room->site, 77, -1, &site, &leaf_fd);
    assert_int_equal(site.flavour, CGROUP_NONE);
}

static void test_engine_is_handed_over(void **state)
{
    static const char *const handed[] = {"", "/tasks", "/cgroup.procs"};
    static const char *const files[] = {"tasks", "cgroup.procs", "memory.limit_in_bytes", NULL};
    struct room *room = *state;
    struct cgroup_site site;
    struct stat status;
    char path[CGROUP_PATH_MAX + 64];
    int leaf_fd = 0;

    if (geteuid() != 0) {
        print_message("giving folders away needs root\n");
        skip();
    }
    kernel_files = files;
    make_site(room, CGROUP_V1, "both", "both", NULL);
    cgroup_make_engine(&room->site, 77, 4000000, &site, &leaf_fd);
    assert_int_equal(site.flavour, CGROUP_V1);
    assert_int_equal(leaf_fd, -1);
    for (size_t i = 0; i < ARRAY_SIZE(handed); i++) {
        snprintf(path, sizeof(path), "%s%s", site.parent[0], handed[i]);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_uid, 4000000);
        assert_int_equal(status.st_gid, 4000000);
    }
    cgroup_join_engine(&site);
    check_file(room, "both/bailey-77-engine/launcher/tasks", "0");
    check_file(room, "both/bailey-77-engine/tasks", "");
    /* Its own limits stay the host's. */
    snprintf(path, sizeof(path), "%s/memory.limit_in_bytes", site.parent[0]);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_uid, 0);
    cgroup_remove_engine(&site);
    assert_false(is_there(room, "both/bailey-77-engine"));
}

/* A container's first process has the same number each time. */
static void test_engine_replaces_a_stale_one(void **state)
{
    struct room *room = *state;
    struct cgroup_site site;
    int leaf_fd = -1;

    make_site(room, CGROUP_V1, "memory", "memory", NULL);
    scratch_folder(&room->scratch, "memory/bailey-1-engine/box-3");
    cgroup_make_engine(&room->site, 1, -1, &site, &leaf_fd);
    assert_string_equal(site.parent[0], scratch_path(&room->scratch, "memory/bailey-1-engine"));
    assert_false(is_there(room, "memory/bailey-1-engine/box-3"));
    scratch_write(&room->scratch, "memory/bailey-1-engine/member", ""); /* it cannot be removed */
    cgroup_make_engine(&room->site, 1, -1, &site, &leaf_fd);
    assert_string_equal(site.parent[0], scratch_path(&room->scratch, "memory/bailey-1-1-engine"));
    assert_true(is_there(room, "memory/bailey-1-engine/member"));
}

static void test_sweep_of_an_engine(void **state)
{
    struct room *room = *state;
    pid_t gone = fork();
    char name[64];

    if (gone == 0)
        _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    make_site(room, CGROUP_V1, "memory", "memory", NULL);
    snprintf(name, sizeof(name), "memory/bailey-%d-engine/box-3", (int)gone);
    scratch_folder(&room->scratch, name);
    snprintf(name, sizeof(name), "memory/bailey-%d-engine/launcher", (int)gone);
    scratch_folder(&room->scratch, name);
    snprintf(name, sizeof(name), "memory/bailey-%d-engine/box-0", (int)getpid());
    scratch_folder(&room->scratch, name); /* a living one's */
    cgroup_sweep(&room->site);
    assert_true(is_there(room, name));
    snprintf(name, sizeof(name), "memory/bailey-%d-engine", (int)gone);
    assert_false(is_there(room, name));
}

static void test_usage(void **state)
{
    struct room *room = *state;
    struct cgroup_usage usage;

    cgroup_usage(&room->group, &usage); /* none */
    assert_int_equal(usage.memory_bytes, 0);
    kernel_files = v2_engine_files;
    make_site(room, CGROUP_V2, "top", "top", "top");
    assert_int_equal(cgroup_make(&room->site, "g", &limits, &room->group, NULL), 0);
    cgroup_usage(&room->group, &usage); /* empty files */
    assert_int_equal(usage.memory_bytes, 0);
    scratch_write(&room->scratch, "top/g/memory.current", "4096\n");
    scratch_write(&room->scratch, "top/g/memory.peak", "8192\n");
    scratch_write(&room->scratch, "top/g/cpu.stat", "usage_usec 17\nuser_usec 3\n");
    cgroup_usage(&room->group, &usage);
    assert_int_equal(usage.memory_bytes, 4096);
    assert_int_equal(usage.memory_peak_bytes, 8192);
    assert_int_equal(usage.cpu_us, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_ROOM(test_engine_v2),
        IN_A_ROOM(test_engine_that_cannot_be),
        IN_A_ROOM(test_engine_is_handed_over),
        IN_A_ROOM(test_engine_replaces_a_stale_one),
        IN_A_ROOM(test_sweep_of_an_engine),
        IN_A_ROOM(test_usage),
    };

    return cmocka_run_group_tests_name("sys/cgroup_engine", tests, NULL, NULL);
}
