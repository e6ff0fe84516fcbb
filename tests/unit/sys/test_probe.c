/* test_probe.c - doctor's probes: they say what is so, also where the kernel refuses. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "open_fds.h"
#include "sys/cgroup.h"
#include "sys/probe.h"

#define V1 "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
#define V1_NAMED "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
#define V2 "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
#define PROC "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
#define BINFMT "30 22 0:28 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw,fd=29\n"
#define MASK "99 22 0:6 /null /proc/kcore rw,nosuid - devtmpfs devtmpfs rw\n"

static void test_cgroup_flavours(void **state)
{
    static const struct {
        const char *mountinfo;
        const char *flavour;
    } hosts[] = {
        {"", "none"},
        {PROC, "none"},
        {PROC V2, "v2"},
        {V1 PROC, "v1"},
        {V1 V2, "hybrid: controllers on v1"},
        {V1_NAMED V2 PROC, "hybrid: controllers on v2"},
        {"a strange line\n" V2, "v2"},
        {"41 31 0:38 / /sys/fs/cgroup rw - cgroup2", "none"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(hosts); i++)
        assert_string_equal(probe_cgroup_flavour(hosts[i].mountinfo), hosts[i].flavour);
}

static void test_masked_proc(void **state)
{
    (void)state;
    assert_false(probe_proc_is_masked(""));
    assert_false(probe_proc_is_masked(V2 PROC));
    assert_false(probe_proc_is_masked(PROC BINFMT));
    assert_true(probe_proc_is_masked(PROC BINFMT MASK));
}

static void test_host(void **state)
{
    struct probe_host host;
    struct utsname name;

    (void)state;
    assert_int_equal(probe_host(&host, NULL), 0);
    assert_int_equal(uname(&name), 0);
    assert_string_equal(host.kernel, name.release);
    assert_string_equal(host.machine, name.machine);
    assert_int_equal(host.uid, geteuid());
    assert_true(host.cgroup[0] != '\0');
    assert_true(host.lsm[0] != '\0');
    assert_true(host.landlock_abi >= 0);
}

/* Groups of probes whose process is gone, so that other doctors at work are not counted. */
static int count_left_groups(const struct cgroup_site *site)
{
    DIR *folder = opendir(site->parent[CONTROLLER_MEMORY]);
    struct dirent *entry;
    int count = 0, pid, length;

    while (folder && (entry = readdir(folder))) {
        length = 0;
        if (sscanf(entry->d_name, "bailey-%d-probe%n", &pid, &length) == 1 && length > 0)
            count += kill((pid_t)pid, 0) < 0 && errno == ESRCH;
    }
    if (folder)
        closedir(folder);
    return count;
}

static void test_rows(void **state)
{
    struct probe_row rows[_ISOLATION_LAYER_MAX];
    struct cgroup_site site;
    unsigned fds = open_fds();
    int groups;

    (void)state;
    cgroup_find(&site);
    groups = count_left_groups(&site);
    assert_int_equal(probe_layers(rows, NULL), 0);
    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++) {
        assert_int_equal(rows[i].layer, i);
        assert_true(rows[i].result <= 0);
        assert_true(rows[i].detail[0] != '\0');
        assert_int_not_equal(rows[i].result, -ECHILD);
        print_message("# %s: %s\n", isolation_layer_table[i].name, rows[i].detail);
    }
    assert_int_equal(rows[ISOLATION_LAYER_NO_NEW_PRIVS].result, 0);

    /* nothing is left behind */
    assert_int_equal(open_fds(), fds);
    assert_int_equal(count_left_groups(&site), groups);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* What is proved in a child does not happen to us. */
static void test_probing_changes_nothing_here(void **state)
{
    struct probe_row rows[_ISOLATION_LAYER_MAX];
    int privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    int caps = prctl(PR_CAPBSET_READ, 0, 0, 0, 0);
    int filters = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);

    (void)state;
    assert_int_equal(probe_layers(rows, NULL), 0);
    assert_int_equal(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), privs);
    assert_int_equal(prctl(PR_CAPBSET_READ, 0, 0, 0, 0), caps);
    assert_int_equal(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), filters);
}

/* Refuses namespaces and Landlock, as the filters of outer containers do. */
static int refuse_namespaces(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x7e020000, 0, 3),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {ARRAY_SIZE(code), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* Runs in a child: the number of rows that say something else than what was refused. */
static int probe_refused(void)
{
    static const enum isolation_layer refused[] = {
        ISOLATION_LAYER_USERNS, ISOLATION_LAYER_MOUNTNS,  ISOLATION_LAYER_PIDNS,
        ISOLATION_LAYER_NETNS,  ISOLATION_LAYER_IPCNS,    ISOLATION_LAYER_UTSNS,
        ISOLATION_LAYER_PROC,   ISOLATION_LAYER_CGROUPNS, ISOLATION_LAYER_UID_SPLIT,
        ISOLATION_LAYER_OVERLAY};
    struct probe_row rows[_ISOLATION_LAYER_MAX];
    struct probe_host host;
    int wrong = 0;

    if (refuse_namespaces() < 0 || probe_layers(rows, NULL) < 0 || probe_host(&host, NULL) < 0)
        return 99;
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        const struct probe_row *row = &rows[refused[i]];

        wrong += row->result != -EPERM || !strstr(row->detail, "EPERM");
    }
    wrong += rows[ISOLATION_LAYER_LANDLOCK].result != -EOPNOTSUPP || host.landlock_abi != 0;
    wrong +=
        rows[ISOLATION_LAYER_SECCOMP].result != 0 || rows[ISOLATION_LAYER_NO_NEW_PRIVS].result != 0;
    wrong += rows[ISOLATION_LAYER_CAPS].result != (geteuid() == 0 ? 0 : -EPERM);
    return wrong;
}

static void test_refusal_is_reported(void **state)
{
    int status = -1;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(probe_refused());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cgroup_flavours),
        cmocka_unit_test(test_masked_proc),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_probing_changes_nothing_here),
        cmocka_unit_test(test_refusal_is_reported),
    };

    return cmocka_run_group_tests_name("sys/probe", tests, NULL, NULL);
}
