/* test_private_trouble.c - folders whose owner works against their removal. */
#include "scratch.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "boxes/boxes_private.h"

#define NOBODY 65534

/* fchmodat() follows links. private_sweep() of a root start empties folders that anybody may have
 * planted in /tmp (bailey-<free pid>-box_x), while their owner is alive: between unlinkat(2) saying
 * EISDIR and the chmod he puts a link in the folder's place, and root makes its target 0700.
 * unlinkat() here plays that owner. */
static int swap_once;

int unlinkat(int fd, const char *name, int flags)
{
    int r = (int)syscall(SYS_unlinkat, fd, name, flags);

    if (r < 0 && errno == EISDIR && swap_once && strcmp(name, "victim") == 0) {
        swap_once = 0;
        syscall(SYS_unlinkat, fd, "victim", AT_REMOVEDIR);
        assert_int_equal(symlinkat("../canary", fd, "victim"), 0);
        errno = EISDIR;
    }
    return r;
}

static void test_chmod_through_a_link(void **state)
{
    struct scratch scratch;
    struct stat status;

    (void)state;
    scratch_make(&scratch);
    scratch_folder(&scratch, "canary");
    scratch_folder(&scratch, "box/victim");
    assert_int_equal(chmod(scratch_path(&scratch, "canary"), 0755), 0);
    swap_once = 1;
    private_remove(scratch_path(&scratch, "box"));
    assert_int_equal(stat(scratch_path(&scratch, "canary"), &status), 0);
    scratch_remove(&scratch);
    assert_int_equal(status.st_mode & 07777, 0755);
}

/* Not root: the guest has the same id and may chmod the folder itself (Landlock does not know
 * chmod); it can then not be opened and stays for ever. */
static void test_locked_top(void **state)
{
    struct scratch scratch;
    char box[128];
    int status;
    pid_t pid;

    (void)state;
    scratch_make(&scratch);
    chmod(scratch.path, 0777);
    snprintf(box, sizeof(box), "%s", scratch_path(&scratch, "box"));
    pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
            _exit(2);
        if (mkdir(box, 0700) < 0 || chmod(box, 0) < 0)
            _exit(2);
        private_remove(box);
        _exit(access(box, F_OK) == 0);
    }
    waitpid(pid, &status, 0);
    scratch_remove(&scratch);
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chmod_through_a_link),
        cmocka_unit_test(test_locked_top),
    };

    return cmocka_run_group_tests_name("boxes/private trouble", tests, NULL, NULL);
}
