/* test_ids.c - the ids of a box that no engine made are not those of an engine beside it. */
#include "unit.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "boxes/boxes_private.h"
#include "boxes/launch.h"
#include "sys/subid.h"

#define BASE 1000000000u

static pid_t pid; /* what this process has; 0: its own */

pid_t getpid(void)
{
    return pid ? pid : (pid_t)syscall(SYS_getpid);
}

/* In a container pids are small, and the first ids of a range are the broker's, and its guest's. */
static void test_ids_of_a_daemon_are_not_taken(void **state)
{
    static const pid_t pids[] = {1, 2, 3, 7, 32752, 32760, 32767, 32768, 32769, 65536, 98304};
    const struct launch_spec spec = {.id_base = BASE};
    unsigned first, count;

    (void)state;
    subid_find_for_root(BASE, &first, &count);
    if (geteuid() != 0 || count <= 2 * PAIR_FIRST)
        skip();
    for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
        struct id_plan ids;

        pid = pids[i];
        ids_choose(&spec, &ids);
        pid = 0;
        assert_true(ids.host_warden >= first + PAIR_FIRST);
        assert_int_equal(ids.host_guest, ids.host_warden + 1);
        assert_true(ids.host_guest < (uint64_t)first + count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_of_a_daemon_are_not_taken),
    };

    return cmocka_run_group_tests_name("boxes/ids", tests, NULL, NULL);
}
