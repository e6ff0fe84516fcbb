/*
 * test_boxes.c - a box as this machine can make it, and that nothing is left of it: no process,
 * descriptor, mount, control group or folder.
 */
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "boxes/boxes_private.h"
#include "boxes/launch.h"

static const struct launch_spec spec = {
    .memory_bytes = 128 * MIB,
    .disk_bytes = 16 * MIB,
    .pids = 16,
    .cpu_millis = 1000,
    .minimum = ISOLATION_PROCESS,
    .id_base = 1879048192,
};

static unsigned count_entries(const char *path, const char *prefix)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    unsigned count = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)))
        count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    closedir(folder);
    return count;
}

static unsigned count_mounts(void)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    unsigned count = 0;
    int c;

    assert_non_null(file);
    while ((c = getc(file)) != EOF)
        count += c == '\n';
    fclose(file);
    return count;
}

/* Makes one box; false with a reason when this machine lets nobody make one. */
static bool make(struct launched *launched)
{
    struct error err = {0};

    if (launch_make(&spec, launched, &err) == 0)
        return true;
    print_message("no box can be made here: %s\n", err.text);
    return false;
}

static void test_make_and_end(void **state)
{
    unsigned fds = count_entries("/proc/self/fd", ""), mounts = count_mounts();
    struct launch_usage usage = {0};
    struct launched launched;
    struct cgroup group;
    char folder[256], prefix[32];
    pid_t pid;

    (void)state;
    if (!make(&launched))
        skip();
    pid = launched.pid;
    group = launched.group;
    snprintf(folder, sizeof(folder), "%s", launched.folder);
    assert_true(pid > 0 && launched.pid_fd >= 0 && launched.channel_fd >= 0);
    assert_int_equal(kill(pid, 0), 0);
    assert_int_not_equal(launched.layers, 0);
    assert_int_equal(launched.layers & launched.missing, 0);
    assert_true(launched.timing_count > 0);
    assert_int_equal(launch_oom_kills(&launched), 0);
    launch_end(&launched, &usage);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        if (group.path[i][0])
            assert_int_equal(access(group.path[i], F_OK), -1);
    }
    if (folder[0])
        assert_int_equal(access(folder, F_OK), -1);
    snprintf(prefix, sizeof(prefix), "bailey-%d-", (int)getpid());
    assert_int_equal(count_entries("/tmp", prefix), 0);
    assert_int_equal(count_entries("/proc/self/fd", ""), fds);
    assert_int_equal(count_mounts(), mounts);
    assert_true(usage.max_rss_bytes > 0);
    assert_int_equal(usage.oom_kills, 0);
    launch_end(&launched, NULL); /* twice is fine, and so is nothing */
    launch_end(NULL, NULL);
}

static void finish(struct launch *launch)
{
    struct error err = {0};
    int r = 0;

    while (r == 0) {
        struct pollfd fd = {.fd = launch->launched.channel_fd, .events = POLLIN};

        assert_int_equal(poll(&fd, 1, 20000), 1);
        r = launch_turn(launch, &err);
    }
    if (r < 0)
        fail_msg("%s", err.text);
}

/* Begun beside each other, finished in the other order; a third is given up in between. */
static void test_several_at_once(void **state)
{
    unsigned fds = count_entries("/proc/self/fd", "");
    struct launch first, second, third;
    struct launched probe;

    (void)state;
    if (!make(&probe))
        skip();
    launch_end(&probe, NULL);
    assert_int_equal(launch_begin(&first, &spec, NULL), 0);
    assert_int_equal(launch_begin(&second, &spec, NULL), 0);
    assert_int_equal(launch_begin(&third, &spec, NULL), 0);
    launch_drop(&third);
    finish(&second);
    finish(&first);
    assert_true(first.launched.layers == second.launched.layers);
    assert_int_not_equal(first.launched.pid, second.launched.pid);
    assert_int_equal(third.launched.pid, 0);
    launch_end(&first.launched, NULL);
    launch_end(&second.launched, NULL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(count_entries("/proc/self/fd", ""), fds);
}

/* READY brings the ruleset along when it is wanted, and not otherwise. */
static void test_the_ruleset_comes_out(void **state)
{
    struct launch_spec wanted = spec;
    struct launched launched;
    unsigned fds = count_entries("/proc/self/fd", "");

    (void)state;
    if (!make(&launched))
        skip();
    assert_int_equal(launched.ruleset_fd, -1);
    assert_int_equal(launched.egress_fd, -1);
    launch_end(&launched, NULL);
    wanted.wants_ruleset = true;
    assert_int_equal(launch_make(&wanted, &launched, NULL), 0);
    assert_true((launched.ruleset_fd >= 0) ==
                !!(launched.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_LANDLOCK)));
    if (launched.ruleset_fd >= 0) {
        char path[64], name[64] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%d", launched.ruleset_fd);
        assert_true(readlink(path, name, sizeof(name) - 1) > 0);
        assert_non_null(strstr(name, "landlock"));
        assert_int_equal(fcntl(launched.ruleset_fd, F_GETFD), FD_CLOEXEC);
    }
    launch_end(&launched, NULL);
    assert_int_equal(launched.ruleset_fd, -1);
    assert_int_equal(count_entries("/proc/self/fd", ""), fds);
}

/* An installer's box listens for the proxy, and the socket is ours, not the box's. */
static void test_the_listening_socket_comes_out(void **state)
{
    char folder[] = "/tmp/bailey-unit-XXXXXX";
    struct launch_spec installer = spec;
    socklen_t size = sizeof(int);
    struct launched launched;
    int listens = 0;

    (void)state;
    if (!make(&launched))
        skip();
    launch_end(&launched, NULL);
    if (!(launched.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS))) {
        print_message("a box has no network namespace here\n");
        skip();
    }
    assert_non_null(mkdtemp(folder));
    installer.stages = STAGING_PACKAGES;
    installer.staging = folder;
    assert_int_equal(launch_make(&installer, &launched, NULL), 0);
    assert_int_equal(launched.ruleset_fd, -1);
    assert_true(launched.egress_fd >= 0);
    assert_int_equal(getsockopt(launched.egress_fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size), 0);
    assert_int_equal(listens, 1);
    launch_end(&launched, NULL);
    assert_int_equal(launched.egress_fd, -1);
    rmdir(folder);
}

/* The limits stand in the group's files, when there is a group. */
static void test_limits_are_written(void **state)
{
    struct launched launched;
    char path[CGROUP_PATH_MAX + 64], text[64];
    bool v1;

    (void)state;
    if (!make(&launched))
        skip();
    v1 = launched.group.flavour == CGROUP_V1;
    if (launched.group.flavour == CGROUP_NONE) {
        launch_end(&launched, NULL);
        print_message("no control group can be made here\n");
        skip();
    }
    snprintf(path, sizeof(path), "%s/%s", launched.group.path[CONTROLLER_MEMORY],
             v1 ? "memory.limit_in_bytes" : "memory.max");
    assert_true(scratch_read(path, text, sizeof(text)));
    assert_string_equal(text, "134217728\n");
    snprintf(path, sizeof(path), "%s/pids.max", launched.group.path[CONTROLLER_PIDS]);
    assert_true(scratch_read(path, text, sizeof(text)));
    assert_string_equal(text, "17\n"); /* and one for the warden */
    snprintf(path, sizeof(path), "%s/cgroup.procs", launched.group.path[CONTROLLER_PIDS]);
    assert_true(scratch_read(path, text, sizeof(text)));
    assert_int_equal(strtol(text, NULL, 10), launched.pid);
    launch_end(&launched, NULL);
}

/* A warden that was killed from outside leaves as little. */
static void test_end_of_a_killed_box(void **state)
{
    unsigned fds = count_entries("/proc/self/fd", "");
    struct launched launched;
    struct cgroup group;

    (void)state;
    if (!make(&launched))
        skip();
    group = launched.group;
    assert_int_equal(kill(launched.pid, SIGKILL), 0);
    launch_end(&launched, NULL);
    assert_int_equal(count_entries("/proc/self/fd", ""), fds);
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        if (group.path[i][0])
            assert_int_equal(access(group.path[i], F_OK), -1);
    }
}

/* A root that is none fails in words, with nothing left. */
static void test_make_fails(void **state)
{
    unsigned fds = count_entries("/proc/self/fd", "");
    struct launch_spec wrong = spec;
    struct launched launched;
    struct error err = {0};

    (void)state;
    wrong.root = "/no/such/root";
    assert_true(launch_make(&wrong, &launched, &err) < 0);
    assert_true(err.num < 0);
    assert_non_null(err.code);
    assert_true(err.text[0] != 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(count_entries("/proc/self/fd", ""), fds);
}

static void test_ids_of_root_and_others(void **state)
{
    struct id_plan ids;
    int status;
    pid_t pid;

    (void)state;
    if (geteuid() != 0) {
        print_message("ids of a root start need root\n");
        skip();
    }
    ids_choose(&spec, &ids);
    assert_int_equal(ids.way, IDS_DIRECT);
    assert_true(ids.host_warden != 0 && ids.host_guest == ids.host_warden + 1);
    pid = fork();
    if (pid == 0) {
        if (setuid(4000000) < 0) /* nobody has this one, nor a range for it */
            _exit(2);
        ids_choose(&spec, &ids);
        _exit(ids.way != IDS_SINGLE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_make_and_end),
        cmocka_unit_test(test_several_at_once),
        cmocka_unit_test(test_the_ruleset_comes_out),
        cmocka_unit_test(test_the_listening_socket_comes_out),
        cmocka_unit_test(test_limits_are_written),
        cmocka_unit_test(test_end_of_a_killed_box),
        cmocka_unit_test(test_make_fails),
        cmocka_unit_test(test_ids_of_root_and_others),
    };

    return cmocka_run_group_tests_name("launcher", tests, NULL, NULL);
}
