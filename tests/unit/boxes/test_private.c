/* test_private.c - removing a folder that a guest filled, and sweeping those of processes that are
 * gone: nothing is left, nothing outside is touched. */
#include "scratch.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "boxes/boxes_private.h"
#include "sys/owner.h"

#define NOBODY 65534

/* `box` is what is removed; the canaries lie beside it. */
struct private_fixture {
    struct scratch scratch;
    char box[128];
};

static int set_up(void **state)
{
    struct private_fixture *fixture = calloc(1, sizeof(*fixture));

    if (!fixture)
        return -1;
    scratch_make(&fixture->scratch);
    snprintf(fixture->box, sizeof(fixture->box), "%s", scratch_folder(&fixture->scratch, "box"));
    scratch_folder(&fixture->scratch, "canary");
    scratch_write(&fixture->scratch, "canary/file", "alive");
    assert_int_equal(chmod(scratch_path(&fixture->scratch, "canary"), 0751), 0);
    assert_int_equal(chmod(scratch_path(&fixture->scratch, "canary/file"), 0640), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct private_fixture *fixture = *state;
    struct stat folder, file;

    assert_int_equal(stat(scratch_path(&fixture->scratch, "canary"), &folder), 0);
    assert_int_equal(stat(scratch_path(&fixture->scratch, "canary/file"), &file), 0);
    assert_int_equal(folder.st_mode & 07777, 0751);
    assert_int_equal(file.st_mode & 07777, 0640);
    assert_int_equal(file.st_size, 5);
    scratch_remove(&fixture->scratch);
    free(fixture);
    return 0;
}

static void check_gone(const struct private_fixture *fixture)
{
    struct stat status;

    assert_int_equal(lstat(fixture->box, &status), -1);
    assert_int_equal(errno, ENOENT);
}

/* Folders in one another, `depth` of them, with a file at the bottom. */
static void make_deep(const char *path, int depth)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < depth && fd >= 0; i++) {
        int next;

        assert_int_equal(mkdirat(fd, "d", 0700), 0);
        next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    assert_true(fd >= 0);
    close(openat(fd, "bottom", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    close(fd);
}

/* Links out, folders nobody may enter, things that are no files. */
static void make_nasty(const struct private_fixture *fixture)
{
    int fd = open(fixture->box, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(symlinkat("../canary", fd, "folder-link"), 0);
    assert_int_equal(symlinkat("../canary/file", fd, "file-link"), 0);
    assert_int_equal(symlinkat("/", fd, "root-link"), 0);
    assert_int_equal(symlinkat("loop", fd, "loop"), 0);
    assert_int_equal(mkdirat(fd, "locked", 0700), 0);
    assert_int_equal(mkdirat(fd, "locked/inner", 0700), 0);
    assert_int_equal(symlinkat("../../../canary", fd, "locked/inner/link"), 0);
    close(openat(fd, "locked/inner/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0));
    assert_int_equal(fchmodat(fd, "locked/inner", 0, 0), 0);
    assert_int_equal(fchmodat(fd, "locked", 0, 0), 0);
    assert_int_equal(mkdirat(fd, "read-only", 0700), 0);
    close(openat(fd, "read-only/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0));
    assert_int_equal(fchmodat(fd, "read-only", 0500, 0), 0);
    assert_int_equal(mkfifoat(fd, "fifo", 0600), 0);
    assert_int_equal(
        linkat(AT_FDCWD, scratch_path(&fixture->scratch, "canary/file"), fd, "hard", 0), 0);
    close(openat(fd, "-rf *\n", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    close(fd);
}

static void test_nasty_tree(void **state)
{
    struct private_fixture *fixture = *state;

    make_nasty(fixture);
    private_remove(fixture->box);
    check_gone(fixture);
}

static void test_deep_tree(void **state)
{
    struct private_fixture *fixture = *state;
    struct rlimit before, few;

    make_deep(fixture->box, 5000);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 128; /* no descriptor for each level */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    private_remove(fixture->box);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    check_gone(fixture);
}

/* Names that the removal itself would use are there already: it still ends, with nothing left. */
static void test_planted_names(void **state)
{
    struct private_fixture *fixture = *state;
    int fd = open(fixture->box, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < 300; i++) {
        char name[32];

        snprintf(name, sizeof(name), ".moved-%d", i);
        if (i % 2)
            close(openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        else
            assert_int_equal(mkdirat(fd, name, 0700), 0);
        snprintf(name, sizeof(name), ".moved-%d/full", i);
        mkdirat(fd, name, 0700);
    }
    close(fd);
    make_deep(fixture->box, 300);
    private_remove(fixture->box);
    check_gone(fixture);
}

static void test_wide_tree(void **state)
{
    struct private_fixture *fixture = *state;
    int fd = open(fixture->box, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < 5000; i++) {
        char name[32];

        snprintf(name, sizeof(name), "%d", i);
        if (i % 2)
            assert_int_equal(mkdirat(fd, name, 0), 0);
        else
            close(openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    }
    close(fd);
    private_remove(fixture->box);
    check_gone(fixture);
}

/* An ordinary user has no rights but those of the owner. */
static void test_nasty_tree_of_a_user(void **state)
{
    struct private_fixture *fixture = *state;
    int status;
    pid_t pid;

    if (geteuid() != 0) {
        print_message("becoming another user needs root; the other tests ran as one\n");
        skip();
    }
    assert_int_equal(chmod(fixture->scratch.path, 0777), 0);
    assert_int_equal(unlinkat(AT_FDCWD, fixture->box, AT_REMOVEDIR), 0);
    pid = fork();
    if (pid == 0) {
        if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0 || mkdir(fixture->box, 0700) < 0)
            _exit(2);
        if (mkdir(strcat(fixture->box, "/locked"), 0700) < 0)
            _exit(3);
        make_deep(fixture->box, 100);
        if (chmod(fixture->box, 0) < 0 || symlink("../canary", strcat(fixture->box, "-link")) < 0)
            _exit(4);
        fixture->box[strlen(fixture->box) - strlen("/locked-link")] = 0;
        private_remove(fixture->box);
        _exit(access(fixture->box, F_OK) == 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    check_gone(fixture);
}

static void test_what_is_no_folder(void **state)
{
    struct private_fixture *fixture = *state;
    char path[128];

    private_remove(""); /* none was made */
    private_remove(scratch_path(&fixture->scratch, "nothing"));
    snprintf(path, sizeof(path), "%s", scratch_path(&fixture->scratch, "link"));
    assert_int_equal(symlink("canary", path), 0);
    private_remove(path); /* not followed: the canary is looked at later */
    private_remove(scratch_path(&fixture->scratch, "canary/file"));
}

/* The lock decides, not the pid: its maker may live where its pid is another one. */
static void test_sweep(void **state)
{
    static const struct {
        const char *name;
        bool stays;
    } rows[] = {
        {"bailey-n4026531836-7-box_1", false},
        {"bailey-n1-1-box_2", false},
        {"bailey-4194304-box_1", false}, /* an older version's */
        {"bailey-n1-7-bo", true},
        {"bailey-n1-box_1", true},
        {"bailey-box_1", true},
        {"bailey-x7-7-box_1", true},
    };
    struct private_fixture *fixture = *state;
    const char *held = "bailey-n1-7-box_3";
    int lock_fd = -1;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        scratch_folder(&fixture->scratch, rows[i].name);
    make_deep(scratch_path(&fixture->scratch, rows[0].name), 3);
    assert_int_equal(owner_hold(scratch_folder(&fixture->scratch, held), &lock_fd), 0);
    assert_int_equal(symlink("canary", scratch_path(&fixture->scratch, "bailey-n1-7-box_4")), 0);
    setenv("TMPDIR", fixture->scratch.path, 1);
    private_sweep();
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_int_equal(access(scratch_path(&fixture->scratch, rows[i].name), F_OK),
                         rows[i].stays ? 0 : -1);
    assert_int_equal(access(scratch_path(&fixture->scratch, held), F_OK), 0);
    close(lock_fd); /* as the kernel does when its maker has ended */
    private_sweep();
    unsetenv("TMPDIR");
    assert_int_equal(access(scratch_path(&fixture->scratch, held), F_OK), -1);
    assert_int_equal(access(fixture->box, F_OK), 0);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_nasty_tree),
        WITH_FIXTURE(test_deep_tree),
        WITH_FIXTURE(test_wide_tree),
        WITH_FIXTURE(test_planted_names),
        WITH_FIXTURE(test_nasty_tree_of_a_user),
        WITH_FIXTURE(test_what_is_no_folder),
        WITH_FIXTURE(test_sweep),
    };

    return cmocka_run_group_tests_name("boxes/private", tests, NULL, NULL);
}
