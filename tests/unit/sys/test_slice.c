/* test_slice.c - a short slice of CPU time, of one process and not of its children. */
#include "unit.h"

#include <linux/sched/types.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/slice.h"

static unsigned long long slice_ns(void)
{
    struct sched_attr attr = {.size = sizeof(attr)};

    assert_int_equal(syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0), 0);
    return attr.sched_runtime;
}

static void test_own_and_not_of_children(void **state)
{
    unsigned long long before = slice_ns(), after;
    int nice = getpriority(PRIO_PROCESS, 0), status;
    pid_t pid;

    (void)state;
    slice_be_short();
    after = slice_ns();
    assert_int_equal(getpriority(PRIO_PROCESS, 0), nice);
    if (before == 0) {
        print_message("this kernel has no slices to ask for (Linux 6.12)\n");
        skip();
    }
    assert_true(after > 0 && after < before);
    pid = fork();
    if (pid == 0)
        _exit(slice_ns() == before ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_and_not_of_children)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
