/* test_group.c - where a container's numbers are, as the kernel names it; and who is not believed.
 */
#include "unit.h"

#include <string.h>

#include "runtime/docker/docker_private.h"
#include "scratch.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_v1(void **state)
{
    char text[] = "9:name=systemd:/docker/" ID "\n8:pids:/docker/" ID "\n4:cpu,cpuacct:/docker/" ID
                  "\n3:memory:/docker/" ID "\n0::/\n";
    struct cgroup group;

    (void)state;
    container_group_parse(text, ID, &group);
    assert_int_equal(group.flavour, CGROUP_V1);
    assert_string_equal(group.path[CONTROLLER_MEMORY], "/sys/fs/cgroup/memory/docker/" ID);
    assert_string_equal(group.path[CONTROLLER_CPUACCT], "/sys/fs/cgroup/cpu,cpuacct/docker/" ID);
}

static void test_v2(void **state)
{
    char text[] = "0::/system.slice/docker-" ID ".scope";
    struct cgroup group;

    (void)state;
    container_group_parse(text, ID, &group);
    assert_int_equal(group.flavour, CGROUP_V2);
    assert_string_equal(group.path[CONTROLLER_MEMORY],
                        "/sys/fs/cgroup/system.slice/docker-" ID ".scope");
}

/* A process that is somebody else's, an id that is none. */
static void test_not_believed(void **state)
{
    static const char *const ids[] = {ID, "", "/", "docker"};

    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        char text[] = "3:memory:/user.slice\n0::/docker/other\nnonsense\n::\n";
        struct cgroup group;

        container_group_parse(text, ids[i], &group);
        assert_int_equal(group.flavour, CGROUP_NONE);
        assert_string_equal(group.path[CONTROLLER_MEMORY], "");
    }
}

/* A Docker of another pid namespace: by the container's name alone, in whatever folder it is. */
static void test_found_by_name(void **state)
{
    struct scratch scratch;
    struct cgroup group;
    const char *top = scratch.path, *wanted;

    (void)state;
    scratch_make(&scratch);
    container_group_search(top, ID, &group);
    assert_int_equal(group.flavour, CGROUP_NONE);
    wanted = scratch_folder(&scratch, "system.slice/docker-" ID ".scope");
    container_group_search(top, ID, &group);
    assert_int_equal(group.flavour, CGROUP_V2);
    assert_string_equal(group.path[CONTROLLER_MEMORY], wanted);

    scratch_folder(&scratch,
                   "memory/other"); /* the first version has a folder for each controller */
    container_group_search(top, ID, &group);
    assert_int_equal(group.flavour, CGROUP_NONE);
    wanted = scratch_folder(&scratch, "memory/parent/" ID);
    container_group_search(top, ID, &group);
    assert_int_equal(group.flavour, CGROUP_V1);
    assert_string_equal(group.path[CONTROLLER_MEMORY], wanted);
    assert_string_equal(group.path[CONTROLLER_CPUACCT], ""); /* not there: not claimed */
    container_group_search(top, "../parent", &group);
    assert_int_equal(group.flavour, CGROUP_NONE);
    container_group_search("/nowhere", ID, &group);
    assert_int_equal(group.flavour, CGROUP_NONE);
    scratch_remove(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v1),
        cmocka_unit_test(test_v2),
        cmocka_unit_test(test_not_believed),
        cmocka_unit_test(test_found_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
