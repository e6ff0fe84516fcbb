/* test_group.c - where a container's numbers are, as the kernel names it; and who is not believed.
 */
#include "unit.h"

#include <string.h>

#include "runtime/docker/inside.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void test_v1(void **state)
{
    char text[] = "9:name=systemd:/docker/" ID "\n8:pids:/docker/" ID "\n4:cpu,cpuacct:/docker/" ID
                  "\n3:memory:/docker/" ID "\n0::/\n";
    struct cgroup group;

    (void)state;
    docked_group_parse(text, ID, &group);
    assert_int_equal(group.flavour, CGROUP_V1);
    assert_string_equal(group.path[CONTROLLER_MEMORY], "/sys/fs/cgroup/memory/docker/" ID);
    assert_string_equal(group.path[CONTROLLER_CPU], "/sys/fs/cgroup/cpu,cpuacct/docker/" ID);
}

static void test_v2(void **state)
{
    char text[] = "0::/system.slice/docker-" ID ".scope";
    struct cgroup group;

    (void)state;
    docked_group_parse(text, ID, &group);
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

        docked_group_parse(text, ids[i], &group);
        assert_int_equal(group.flavour, CGROUP_NONE);
        assert_string_equal(group.path[CONTROLLER_MEMORY], "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v1),
        cmocka_unit_test(test_v2),
        cmocka_unit_test(test_not_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
