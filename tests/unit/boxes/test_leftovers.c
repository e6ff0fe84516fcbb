/* test_leftovers.c - what an id has left is found by its owner: all of it goes, and nothing that
 * belongs to others changes. */
#include "scratch.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "boxes/boxes_private.h"

#define GUEST 1999990000u
#define DEPTH 300 /* more than the sweep goes down */
#define CHILDREN 1000

/* ---- files ---- */

static void needs_root(void)
{
    if (geteuid() != 0)
        skip();
}

static const char *given(const struct scratch *scratch, const char *name)
{
    const char *path = scratch_folder(scratch, name);

    assert_int_equal(chown(path, GUEST, GUEST), 0);
    return path;
}

static bool is_there(const struct scratch *scratch, const char *name)
{
    struct stat status;

    return lstat(scratch_path(scratch, name), &status) == 0;
}

static mode_t mode_of(const struct scratch *scratch, const char *name)
{
    struct stat status;

    assert_int_equal(stat(scratch_path(scratch, name), &status), 0);
    return status.st_mode & 07777;
}

/* Read-only folders are common: Go's module cache is made of them. */
static void test_the_modes_of_folders_of_others_stay(void **state)
{
    struct scratch scratch;

    (void)state;
    needs_root();
    scratch_make(&scratch);
    scratch_folder(&scratch, "cache/module");
    scratch_write(&scratch, "cache/module/file", "x");
    assert_int_equal(chmod(scratch_path(&scratch, "cache/module"), 0555), 0);
    assert_int_equal(chmod(scratch_path(&scratch, "cache"), 0311), 0);
    leftovers_files(GUEST, scratch.path);
    assert_int_equal(mode_of(&scratch, "cache"), 0311);
    assert_int_equal(mode_of(&scratch, "cache/module"), 0555);
    assert_true(is_there(&scratch, "cache/module/file"));
    scratch_remove(&scratch);
}

static void test_a_closed_folder_in_one_of_others_is_removed(void **state)
{
    struct scratch scratch;

    (void)state;
    needs_root();
    scratch_make(&scratch);
    scratch_folder(&scratch, "open");
    assert_int_equal(chmod(scratch_path(&scratch, "open"), 01777), 0);
    scratch_write(&scratch, "open/others", "x");
    given(&scratch, "open/closed");
    given(&scratch, "open/closed/below");
    assert_int_equal(chmod(scratch_path(&scratch, "open/closed"), 0), 0);
    leftovers_files(GUEST, scratch.path);
    assert_false(is_there(&scratch, "open/closed"));
    assert_true(is_there(&scratch, "open/others"));
    scratch_remove(&scratch);
}

static void test_no_folder_is_too_deep(void **state)
{
    struct scratch scratch;
    int fd;

    (void)state;
    needs_root();
    scratch_make(&scratch);
    fd = open(given(&scratch, "workspace"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEPTH && fd >= 0; i++) {
        int next;

        assert_int_equal(mkdirat(fd, "d", 0700), 0);
        assert_int_equal(fchownat(fd, "d", GUEST, GUEST, 0), 0);
        next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    assert_true(fd >= 0);
    close(fd);
    leftovers_files(GUEST, scratch.path);
    assert_false(is_there(&scratch, "workspace"));
    scratch_remove(&scratch);
}

/* Of a file that all may write, a guest can make one (fs.protected_hardlinks). */
static void test_a_hard_link_to_a_file_of_others_does_not_keep_a_folder(void **state)
{
    struct scratch scratch;

    (void)state;
    needs_root();
    scratch_make(&scratch);
    given(&scratch, "workspace");
    scratch_write(&scratch, "others", "alive");
    scratch_write(&scratch, "workspace/single", "alive");
    assert_int_equal(link(scratch_path(&scratch, "others"), scratch_path(&scratch, "linked")), 0);
    assert_int_equal(
        link(scratch_path(&scratch, "others"), scratch_path(&scratch, "workspace/link")), 0);
    leftovers_files(GUEST, scratch.path);
    assert_false(is_there(&scratch, "workspace/link"));
    assert_true(is_there(&scratch, "workspace/single")); /* the only name that it has */
    assert_true(is_there(&scratch, "others") && is_there(&scratch, "linked"));
    scratch_remove(&scratch);
}

/* ---- processes ---- */

/* The ids of the process that signals all of an id, when it does; NULL: not watched. */
static uid_t *killer;

int kill(pid_t pid, int number)
{
    if (pid == -1 && killer)
        getresuid(&killer[0], &killer[1], &killer[2]);
    return (int)syscall(SYS_kill, pid, number);
}

/* A process may signal another if it has the other's real or saved id. */
static void test_the_guest_cannot_stop_the_process_that_ends_its_processes(void **state)
{
    (void)state;
    needs_root();
    killer =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); /* zeros */
    assert_true(killer != MAP_FAILED);
    leftovers_processes(GUEST);
    assert_int_equal(killer[1], GUEST);
    assert_int_not_equal(killer[0], GUEST);
    assert_int_not_equal(killer[2], GUEST);
    assert_true(killer[0] != 0 && killer[2] != 0); /* it would signal root's processes, too */
    munmap(killer, 4096);
    killer = NULL;
}

static void test_all_descendants_end_however_many(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        for (int i = 0; i < CHILDREN; i++) {
            pid_t child = fork();

            if (child == 0) {
                pause();
                _exit(0);
            }
            if (child < 0)
                _exit(2);
        }
        leftovers_children();
        _exit(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_modes_of_folders_of_others_stay),
        cmocka_unit_test(test_a_closed_folder_in_one_of_others_is_removed),
        cmocka_unit_test(test_no_folder_is_too_deep),
        cmocka_unit_test(test_a_hard_link_to_a_file_of_others_does_not_keep_a_folder),
        cmocka_unit_test(test_the_guest_cannot_stop_the_process_that_ends_its_processes),
        cmocka_unit_test(test_all_descendants_end_however_many),
    };

    return cmocka_run_group_tests_name("boxes/leftovers", tests, NULL, NULL);
}
