/* test_cgroup_engine.c - the group that holds an engine's boxes, in fake trees; what groups used.
 */
#include "fake_cgroup.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "sys/owner.h"

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

/* The path of this process's engine group in the scratch folder; two at a time. */
static const char *engine(const char *top, const char *rest)
{
    static char paths[2][CGROUP_PATH_MAX];
    static unsigned turn;
    char *path = paths[turn++ % 2], owner[OWNER_MAX];

    owner_name(owner);
    snprintf(path, CGROUP_PATH_MAX, "%s/bailey-%s-engine%s", top, owner, rest);
    return path;
}

/* As the kernel does when the stub has ended. */
static void let_go(int locks[_CONTROLLER_MAX])
{
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        fd_closep(&locks[i]);
        locks[i] = -1;
    }
}

static void test_engine_v2(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct cgroup_site site;
    struct stat by_fd, by_path;
    int leaf_fd = -1, locks[_CONTROLLER_MAX];

    kernel_files = v2_engine_files;
    make_site(fixture, CGROUP_V2, "top", "top", "top");
    cgroup_make_engine(&fixture->site, -1, &site, &leaf_fd, locks);
    assert_int_equal(site.flavour, CGROUP_V2);
    for (int i = 0; i <= CONTROLLER_CPU; i++)
        assert_string_equal(site.parent[i], scratch_path(&fixture->scratch, engine("top", "")));
    assert_string_equal(site.parent[CONTROLLER_CPUACCT], ""); /* v1 only */
    assert_true(locks[0] >= 0 && locks[1] == -1 && locks[2] == -1 && locks[3] == -1);
    check_file(fixture, engine("top", "/cgroup.subtree_control"), "+memory +pids +cpu");
    assert_int_equal(fstat(leaf_fd, &by_fd), 0);
    assert_int_equal(stat(scratch_path(&fixture->scratch, engine("top", "/launcher")), &by_path),
                     0);
    assert_true(by_fd.st_ino == by_path.st_ino);
    close(leaf_fd);
    assert_int_equal(cgroup_make(&site, "box-0", &limits, &fixture->group, NULL), 0);
    check_file(fixture, engine("top", "/box-0/pids.max"), "12");
    cgroup_remove(&fixture->group);
    cgroup_remove_engine(&site);
    assert_false(is_there(fixture, engine("top", "")));
    assert_int_equal(site.flavour, CGROUP_NONE);
    cgroup_remove_engine(&site); /* twice is fine */
    let_go(locks);
}

/* The lock on an engine's group keeps sweeps away from the empty groups of its boxes (issue 13). */
static void test_sweep_of_a_living_engine(void **state)
{
    static const enum cgroup_flavour flavours[] = {CGROUP_V1, CGROUP_V2};
    struct cgroup_fixture *fixture = *state;

    for (size_t i = 0; i < ARRAY_SIZE(flavours); i++) {
        struct cgroup_site site;
        int leaf_fd = -1, locks[_CONTROLLER_MAX];

        kernel_files = flavours[i] == CGROUP_V2 ? v2_engine_files : NULL;
        make_site(fixture, flavours[i], "top", "top", NULL);
        cgroup_make_engine(&fixture->site, -1, &site, &leaf_fd, locks);
        assert_int_equal(site.flavour, flavours[i]);
        fd_closep(&leaf_fd);
        kernel_files = NULL;
        scratch_empty(scratch_path(&fixture->scratch, engine("top", "/launcher")));
        scratch_empty(site.parent[0]);
        scratch_folder(&fixture->scratch, engine("top", "/box-0"));
        cgroup_sweep(&fixture->site);
        assert_true(is_there(fixture, engine("top", "/box-0")));
        let_go(locks);
        cgroup_sweep(&fixture->site);
        assert_false(is_there(fixture, engine("top", "")));
    }
}

/* What cannot be divided is no group at all, and nothing of it stays. */
static void test_engine_that_cannot_be(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct cgroup_site site;
    int leaf_fd = 0, locks[_CONTROLLER_MAX];

    kernel_files = v2_files; /* nothing to hand controllers on with */
    make_site(fixture, CGROUP_V2, "top", "top", NULL);
    cgroup_make_engine(&fixture->site, -1, &site, &leaf_fd, locks);
    assert_int_equal(site.flavour, CGROUP_NONE);
    assert_int_equal(leaf_fd, -1);
    assert_false(is_there(fixture, engine("top", "")));
    kernel_files = v1_files;
    mkdir_refuses = "pids/bailey";
    make_site(fixture, CGROUP_V1, "memory", "pids", "cpu");
    cgroup_make_engine(&fixture->site, -1, &site, &leaf_fd, locks);
    assert_int_equal(site.flavour, CGROUP_NONE);
    assert_false(is_there(fixture, engine("memory", "")));
    memset(&fixture->site, 0, sizeof(fixture->site));
    cgroup_make_engine(&fixture->site, -1, &site, &leaf_fd, locks);
    assert_int_equal(site.flavour, CGROUP_NONE);
}

static void test_engine_is_handed_over(void **state)
{
    static const char *const handed[] = {"", "/tasks", "/cgroup.procs"};
    static const char *const files[] = {"tasks", "cgroup.procs", "memory.limit_in_bytes", NULL};
    struct cgroup_fixture *fixture = *state;
    struct cgroup_site site;
    struct stat status;
    char path[CGROUP_PATH_MAX + 64];
    int leaf_fd = 0, locks[_CONTROLLER_MAX];

    if (geteuid() != 0) {
        print_message("giving folders away needs root\n");
        skip();
    }
    kernel_files = files;
    make_site(fixture, CGROUP_V1, "both", "both", NULL);
    cgroup_make_engine(&fixture->site, 4000000, &site, &leaf_fd, locks);
    assert_int_equal(site.flavour, CGROUP_V1);
    assert_int_equal(leaf_fd, -1);
    for (size_t i = 0; i < ARRAY_SIZE(handed); i++) {
        snprintf(path, sizeof(path), "%s%s", site.parent[0], handed[i]);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_uid, 4000000);
        assert_int_equal(status.st_gid, 4000000);
    }
    cgroup_join_engine(&site);
    check_file(fixture, engine("both", "/launcher/tasks"), "0");
    check_file(fixture, engine("both", "/tasks"), "");
    /* Its own limits stay the host's. */
    snprintf(path, sizeof(path), "%s/memory.limit_in_bytes", site.parent[0]);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_uid, 0);
    cgroup_remove_engine(&site);
    assert_false(is_there(fixture, engine("both", "")));
}

/* A container's first process has the same number each time, its namespace perhaps too. */
static void test_engine_beside_one_of_its_name(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct cgroup_site site, second;
    int leaf_fd = -1, locks[_CONTROLLER_MAX], second_locks[_CONTROLLER_MAX];
    char path[CGROUP_PATH_MAX];

    make_site(fixture, CGROUP_V1, "memory", "memory", NULL);
    cgroup_make_engine(&fixture->site, -1, &site, &leaf_fd, locks);
    cgroup_make_engine(&fixture->site, -1, &second, &leaf_fd, second_locks);
    assert_int_equal(second.flavour, CGROUP_V1);
    assert_string_not_equal(site.parent[0], second.parent[0]);
    snprintf(path, sizeof(path), "%s", second.parent[0]);
    let_go(second_locks); /* it died */
    cgroup_sweep(&fixture->site);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(site.parent[0], F_OK), 0);
    cgroup_remove_engine(&site);
    let_go(locks);
}

static void test_engine_meets_a_sweeper(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct cgroup_site site;
    int leaf_fd = -1, locks[_CONTROLLER_MAX];

    make_site(fixture, CGROUP_V1, "memory", "pids", NULL);
    sweeps_before_lock = 1;
    cgroup_make_engine(&fixture->site, -1, &site, &leaf_fd, locks);
    assert_int_equal(site.flavour, CGROUP_V1);
    assert_true(locks[0] >= 0 && locks[1] >= 0);
    cgroup_remove_engine(&site);
    let_go(locks);
    sweeps_before_lock = 1000;
    cgroup_make_engine(&fixture->site, -1, &site, &leaf_fd, locks);
    assert_int_equal(site.flavour, CGROUP_NONE);
    assert_true(locks[0] == -1 && locks[1] == -1);
}

static void test_sweep_of_an_engine(void **state)
{
    struct cgroup_fixture *fixture = *state;

    make_site(fixture, CGROUP_V1, "memory", "memory", NULL);
    scratch_folder(&fixture->scratch, "memory/bailey-n7-3-engine/box-3");
    scratch_folder(&fixture->scratch, "memory/bailey-n7-3-engine/launcher");
    scratch_folder(&fixture->scratch, "memory/bailey-n7-4-engine/box-3/members");
    cgroup_sweep(&fixture->site);
    assert_false(is_there(fixture, "memory/bailey-n7-3-engine"));
    assert_true(is_there(fixture, "memory/bailey-n7-4-engine/box-3/members"));
}

static void test_usage(void **state)
{
    struct cgroup_fixture *fixture = *state;
    struct cgroup_usage usage;

    cgroup_usage(&fixture->group, &usage); /* none */
    assert_int_equal(usage.memory_bytes, 0);
    kernel_files = v2_engine_files;
    make_site(fixture, CGROUP_V2, "top", "top", "top");
    assert_int_equal(cgroup_make(&fixture->site, "g", &limits, &fixture->group, NULL), 0);
    cgroup_usage(&fixture->group, &usage); /* empty files */
    assert_int_equal(usage.memory_bytes, 0);
    scratch_write(&fixture->scratch, "top/g/memory.current", "4096\n");
    scratch_write(&fixture->scratch, "top/g/memory.peak", "8192\n");
    scratch_write(&fixture->scratch, "top/g/cpu.stat", "usage_usec 17\nuser_usec 3\n");
    cgroup_usage(&fixture->group, &usage);
    assert_int_equal(usage.memory_bytes, 4096);
    assert_int_equal(usage.memory_peak_bytes, 8192);
    assert_int_equal(usage.cpu_us, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CGROUP(test_engine_v2),
        WITH_CGROUP(test_engine_that_cannot_be),
        WITH_CGROUP(test_engine_is_handed_over),
        WITH_CGROUP(test_engine_beside_one_of_its_name),
        WITH_CGROUP(test_engine_meets_a_sweeper),
        WITH_CGROUP(test_sweep_of_a_living_engine),
        WITH_CGROUP(test_sweep_of_an_engine),
        WITH_CGROUP(test_usage),
    };

    return cmocka_run_group_tests_name("sys/cgroup_engine", tests, NULL, NULL);
}
