/*
 * test_proc_tree.c - everybody below this process: their memory, their end; and the bytes in the
 * shares.
 *
 * Only the way without namespaces: with them proc_tree_kill() kills all that this process may kill.
 */
#include "scratch.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "warden/warden_private.h"

static const struct sandbox_plan plan = {.has_namespaces = false, .watch_disk_bytes = 1 * MIB};

/* A child with `bytes` of its own and a grandchild; returns when both are up. */
static pid_t start_family(size_t bytes)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        char *memory =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        close(ready[0]);
        if (fork() == 0)
            setsid();
        else
            memset(memory, 1, bytes);
        if (write(ready[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    close(ready[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void test_memory_and_kill(void **state)
{
    struct sandbox sandbox;
    uint64_t before, with;
    int killed = 0, status;

    (void)state;
    sandbox_init(&sandbox, &plan);
    before = proc_tree_memory(&sandbox);
    assert_int_equal(before, 0); /* nobody, and this process does not count */
    start_family(32 * MIB);
    with = proc_tree_memory(&sandbox);
    assert_true(with >= 32 * MIB);
    proc_tree_kill(&sandbox);
    while (waitpid(-1, &status, 0) > 0) {
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        killed++;
    }
    assert_int_equal(killed, 2); /* the orphan came to us */
    assert_int_equal(proc_tree_memory(&sandbox), 0);
    proc_tree_kill(&sandbox); /* nobody: nothing happens */
}

/* A child with a session of its own, whose child has another group; returns when both are up. */
static pid_t start_session(pid_t *ret_grandchild)
{
    int ready[2];
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        setsid();
        pid = fork();
        if (pid == 0) {
            setpgid(0, 0);
            pid = getpid();
            if (write(ready[1], &pid, sizeof(pid)) < 0)
                _exit(1);
        }
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], ret_grandchild, sizeof(pid_t)), (ssize_t)sizeof(pid_t));
    close(ready[0]);
    return pid;
}

/* In a box that has no /proc the numbers are tried one by one; only this session may be met. */
static void test_tree_without_proc(void **state)
{
    static const struct sandbox_plan walled = {.has_namespaces = true};
    pid_t child, grandchild, other, others_child;
    struct sandbox sandbox;
    int status;

    (void)state;
    sandbox_init(&sandbox, &walled);
    child = start_session(&grandchild);
    other = start_session(&others_child);
    if (grandchild >= 100000) {
        proc_tree_kill(&(struct sandbox){.plan = &plan, .proc_fd = -1, .outer_proc_fd = -1});
        while (waitpid(-1, NULL, 0) > 0)
            ;
        print_message("the numbers of this machine's processes are too high\n");
        skip();
    }
    proc_tree_kill_tree(&sandbox, child, -1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(waitpid(grandchild, &status, 0), grandchild); /* it came to us */
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(waitpid(-1, &status, WNOHANG), 0); /* the others live */
    proc_tree_kill_tree(&sandbox, other, -1);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(waitpid(others_child, &status, 0), others_child);
}

static void test_disk_of_the_shares(void **state)
{
    struct scratch scratch;
    struct sandbox sandbox;
    struct warden warden = {.sandbox = &sandbox};
    static char text[MIB / 2];
    char deep[5 * LIMIT_TREE_DEPTH] = "a";

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    scratch_make(&scratch);
    sandbox_init(&sandbox, &plan);
    for (int i = 0; i < _SHARE_MAX; i++)
        sandbox.share_fd[i] =
            open(scratch_folder(&scratch, (const char *[]){"a", "b", "c", "data"}[i]),
                 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_false(watch_disk_full(&warden));
    scratch_write(&scratch, "a/file", text);
    assert_int_equal(symlinkat("/usr", sandbox.share_fd[0], "usr"), 0); /* not followed */
    assert_false(watch_disk_full(&warden));
    scratch_write(&scratch, "data/file", text); /* datasets are the host's */
    scratch_write(&scratch, "data/more", text);
    assert_false(watch_disk_full(&warden));
    scratch_folder(&scratch, "b/sub");
    scratch_write(&scratch, "b/sub/file", text);
    scratch_write(&scratch, "c/file", text);
    assert_true(watch_disk_full(&warden)); /* together they are over it */
    assert_int_equal(unlinkat(sandbox.share_fd[1], "sub/file", 0), 0);
    assert_int_equal(unlinkat(sandbox.share_fd[2], "file", 0), 0);
    for (int i = 0; i < 2 * LIMIT_TREE_DEPTH; i++)
        strcat(deep, "/d");
    assert_false(watch_disk_full(&warden));
    scratch_folder(&scratch, deep); /* deeper than it looks: could hold anything */
    assert_true(watch_disk_full(&warden));
    for (int i = 0; i < _SHARE_MAX; i++)
        close(sandbox.share_fd[i]);
    scratch_remove(&scratch);
}

static int become_reaper(void **state)
{
    (void)state;
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_and_kill),
        cmocka_unit_test(test_tree_without_proc),
        cmocka_unit_test(test_disk_of_the_shares),
    };

    return cmocka_run_group_tests_name("warden/proc_tree", tests, become_reaper, NULL);
}
