/*
 * probe.c - tries every layer; see probe.h.
 *
 * Each layer is tried in a forked child, which writes its row into shared memory. Layers that need
 * namespaces are tried in a grandchild, cloned into a user namespace of its own: the child writes
 * its id maps, then lets it go on through a pipe.
 */
#include "sys/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "sys/calls.h"
#include "sys/cgroup.h"
#include "sys/subid.h"

#define PROBE_PATIENCE_S 10
#define SECOND_ID 1 /* the guest's id inside the namespace of the uid_split probe */

/* Fills the row from errno. */
static int row_fail(struct probe_row *row, const char *what)
{
    int num = errno;

    row->result = -num;
    str_format(row->detail, sizeof(row->detail), "%s: %s (%s)", what, error_name(num),
               strerror(num));
    return -num;
}

static int row_fail_with(struct probe_row *row, int num, const char *what)
{
    errno = num;
    return row_fail(row, what);
}

static void row_pass(struct probe_row *row, const char *what)
{
    row->result = 0;
    str_copy(row->detail, sizeof(row->detail), what);
}

/* --- a grandchild in its own namespaces --- */

/* One try in namespaces; `map` gives the grandchild its ids, `body` looks whether it holds. */
struct attempt {
    struct probe_row *row;
    uint64_t flags;
    const char *ns_file; /* below /proc/self/ns; NULL: not compared */
    char ns_before[64];
    int (*map)(struct attempt *attempt, pid_t pid);
    void (*body)(struct attempt *attempt);
};

static int write_map(struct probe_row *row, pid_t pid, const char *file, const char *text)
{
    char path[64], what[96];
    int r;

    str_format(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    r = fd_write_text_at(AT_FDCWD, path, text);
    if (r < 0) {
        str_format(what, sizeof(what), "writing %s", file);
        return row_fail_with(row, -r, what);
    }
    return 0;
}

/* An ordinary user may map its own id, and groups only after giving up setgroups(2). */
static int map_own_id(struct attempt *attempt, pid_t pid)
{
    char text[64];
    int r;

    r = write_map(attempt->row, pid, "setgroups", "deny");
    str_format(text, sizeof(text), "0 %u 1", geteuid());
    r = r < 0 ? r : write_map(attempt->row, pid, "uid_map", text);
    str_format(text, sizeof(text), "0 %u 1", getegid());
    return r < 0 ? r : write_map(attempt->row, pid, "gid_map", text);
}

static ssize_t read_ns(const char *file, char *link, size_t size)
{
    char path[64];
    ssize_t n;

    str_format(path, sizeof(path), "/proc/self/ns/%s", file);
    n = readlink(path, link, size - 1);
    link[n > 0 ? n : 0] = '\0';
    return n;
}

static void wait_for(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void attempt_inside(struct attempt *attempt, int go_fd)
{
    char go = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (read(go_fd, &go, 1) == 1)
        attempt->body(attempt);
    _exit(0);
}

static void attempt_run(struct attempt *attempt)
{
    CLEANUP(fd_closep) int read_fd = -1;
    CLEANUP(fd_closep) int write_fd = -1;
    CLEANUP(fd_closep) int pid_fd = -1;
    int pipe_fds[2];
    pid_t pid;

    if (attempt->ns_file)
        read_ns(attempt->ns_file, attempt->ns_before, sizeof(attempt->ns_before));
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        row_fail(attempt->row, "making a pipe");
        return;
    }
    read_fd = pipe_fds[0];
    write_fd = pipe_fds[1];
    pid = sys_clone_fork(attempt->flags | CLONE_NEWUSER, &pid_fd, -1);
    if (pid < 0) {
        row_fail(attempt->row, "clone into new namespaces");
        return;
    }
    if (pid == 0) {
        fd_closep(&write_fd);
        attempt_inside(attempt, read_fd);
    }
    if (attempt->map(attempt, pid) == 0 && write(write_fd, "g", 1) != 1)
        row_fail(attempt->row, "starting the probe");
    fd_closep(&write_fd);
    write_fd = -1;
    wait_for(pid);
}

/* --- the namespaces --- */

static void check_namespace(struct attempt *attempt)
{
    char now[64];

    if (attempt->ns_before[0] && read_ns(attempt->ns_file, now, sizeof(now)) > 0 &&
        str_equal(now, attempt->ns_before)) {
        row_fail_with(attempt->row, EPERM, "the namespace is still the old one");
        return;
    }
    row_pass(attempt->row, "made and entered");
}

static void check_userns(struct attempt *attempt)
{
    if (getuid() != 0) {
        row_fail_with(attempt->row, EPERM, "the id map has no effect");
        return;
    }
    check_namespace(attempt);
}

static void check_mountns(struct attempt *attempt)
{
    if (sys_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        row_fail(attempt->row, "making the mounts private");
        return;
    }
    if (sys_mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=64k") < 0) {
        row_fail(attempt->row, "mounting a tmpfs");
        return;
    }
    check_namespace(attempt);
    /* Docker's default filter refuses this call, whatever the capabilities. */
    if (attempt->row->result == 0 &&
        (chdir("/tmp") < 0 || sys_pivot_root(".", ".") < 0 || sys_umount2(".", MNT_DETACH) < 0))
        row_fail(attempt->row, "pivot_root");
}

static void check_pidns(struct attempt *attempt)
{
    if (getpid() != 1) {
        row_fail_with(attempt->row, EPERM, "not the first process of the namespace");
        return;
    }
    check_namespace(attempt);
}

static void check_utsns(struct attempt *attempt)
{
    struct utsname name;

    if (sethostname("probe", 5) < 0 || uname(&name) < 0) {
        row_fail(attempt->row, "setting a host name");
        return;
    }
    check_namespace(attempt);
}

static void check_proc(struct attempt *attempt)
{
    char link[16] = "";

    if (sys_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        row_fail(attempt->row, "making the mounts private");
        return;
    }
    if (sys_mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        row_fail(attempt->row, "mounting proc");
        return;
    }
    if (readlink("/proc/self", link, sizeof(link) - 1) < 0 || !str_equal(link, "1")) {
        row_fail_with(attempt->row, EPERM, "the new proc shows other processes");
        return;
    }
    row_pass(attempt->row, "mounted; shows its own processes only");
}

static void check_overlay(struct attempt *attempt)
{
    if (sys_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        row_fail(attempt->row, "making the mounts private");
        return;
    }
    /* Two lower folders, as it wants at least two; what it covers is ours alone. */
    if (sys_mount("bailey", "/usr", "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV,
                  "lowerdir=/usr:/proc/self/fdinfo") < 0 &&
        sys_mount("bailey", "/usr", "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV,
                  "lowerdir=/usr:/usr/bin") < 0) {
        row_fail(attempt->row, "mounting an overlay");
        return;
    }
    row_pass(attempt->row, "mounted over /usr");
}

static const struct attempt namespaces[_ISOLATION_LAYER_MAX] = {
    [ISOLATION_LAYER_USERNS] = {.flags = 0, .ns_file = "user", .body = check_userns},
    [ISOLATION_LAYER_MOUNTNS] = {.flags = CLONE_NEWNS, .ns_file = "mnt", .body = check_mountns},
    [ISOLATION_LAYER_PIDNS] = {.flags = CLONE_NEWPID, .ns_file = "pid", .body = check_pidns},
    [ISOLATION_LAYER_NETNS] = {.flags = CLONE_NEWNET, .ns_file = "net", .body = check_namespace},
    [ISOLATION_LAYER_IPCNS] = {.flags = CLONE_NEWIPC, .ns_file = "ipc", .body = check_namespace},
    [ISOLATION_LAYER_UTSNS] = {.flags = CLONE_NEWUTS, .ns_file = "uts", .body = check_utsns},
    [ISOLATION_LAYER_CGROUPNS] = {.flags = CLONE_NEWCGROUP,
                                  .ns_file = "cgroup",
                                  .body = check_namespace},
    [ISOLATION_LAYER_PROC] = {.flags = CLONE_NEWNS | CLONE_NEWPID, .body = check_proc},
    [ISOLATION_LAYER_OVERLAY] = {.flags = CLONE_NEWNS, .body = check_overlay},
};

static void try_namespace(struct probe_row *row)
{
    struct attempt attempt = namespaces[row->layer];

    attempt.row = row;
    attempt.map = map_own_id;
    attempt_run(&attempt);
}

/* --- what a process does to itself --- */

static void try_no_new_privs(struct probe_row *row)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        row_fail(row, "setting no_new_privs");
    else if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        row_fail_with(row, EPERM, "no_new_privs has no effect");
    else
        row_pass(row, "set and effective");
}

/* A filter that answers getppid with ENOTUNIQ, which getppid never says by itself. */
static void try_seccomp(struct probe_row *row)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTUNIQ),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {ARRAY_SIZE(code), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        row_fail(row, "installing a filter");
        return;
    }
    if (syscall(SYS_getppid) != -1 || errno != ENOTUNIQ)
        row_fail_with(row, EPERM, "the filter has no effect");
    else
        row_pass(row, "a filter was installed and is effective");
}

/* Only files below /dev may be read: then /dev/null opens and / does not. */
static int landlock_restrict(struct probe_row *row)
{
    struct landlock_attr attr = {.handled_access_fs =
                                     LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR};
    struct landlock_path_beneath_attr below = {.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE};
    CLEANUP(fd_closep) int ruleset_fd = -1;
    CLEANUP(fd_closep) int dev_fd = -1;

    ruleset_fd = sys_landlock_create_ruleset(&attr, sizeof(attr.handled_access_fs), 0);
    if (ruleset_fd < 0)
        return row_fail(row, "making a ruleset");
    dev_fd = open("/dev", O_PATH | O_CLOEXEC);
    below.parent_fd = dev_fd;
    if (dev_fd < 0 || sys_landlock_add_rule(ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &below) < 0)
        return row_fail(row, "adding a rule");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || sys_landlock_restrict_self(ruleset_fd) < 0)
        return row_fail(row, "restricting itself");
    return 0;
}

static void try_landlock(struct probe_row *row)
{
    CLEANUP(fd_closep) int inside_fd = -1;
    CLEANUP(fd_closep) int outside_fd = -1;
    int abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    if (landlock_restrict(row) < 0)
        return;
    inside_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (inside_fd < 0) {
        row_fail(row, "opening what a rule allows");
        return;
    }
    outside_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (outside_fd >= 0 || errno != EACCES) {
        row_fail_with(row, EPERM, "what no rule allows was opened");
        return;
    }
    row->result = 0;
    str_format(row->detail, sizeof(row->detail), "ABI %d; what no rule allows was refused", abi);
}

/* --- capabilities --- */

static int drop_capabilities(struct probe_row *row)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}}, now[2];

    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return row_fail(row, "dropping from the bounding set");
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) != 0)
            return row_fail_with(row, EPERM, "the bounding set is not empty");
    }
    if (sys_capset(&header, none) < 0 || syscall(SYS_capget, &header, now) < 0)
        return row_fail(row, "giving up capabilities");
    if (memcmp(now, none, sizeof(now)) != 0)
        return row_fail_with(row, EPERM, "a capability remains");
    row_pass(row, "all sets empty, the bounding set too");
    return 0;
}

static void check_caps(struct attempt *attempt)
{
    drop_capabilities(attempt->row);
}

/* In a user namespace, as a box does it; where there is none, root can do it directly. */
static void try_caps(struct probe_row *row)
{
    struct attempt attempt = {.row = row, .map = map_own_id, .body = check_caps};

    attempt_run(&attempt);
    if (row->result < 0 && geteuid() == 0)
        drop_capabilities(row);
}

/* --- control groups --- */

static void enter_group(struct probe_row *row, const struct cgroup *group)
{
    const char *name = strrchr(group->path[CONTROLLER_MEMORY], '/') + 1;
    CLEANUP(fd_closep) int pid_fd = -1;
    char text[4096];
    pid_t pid;

    pid = sys_clone_fork(0, &pid_fd, group->flavour == CGROUP_V2 ? group->join_fd[0] : -1);
    if (pid < 0) {
        row_fail(row, "entering a control group");
        return;
    }
    if (pid == 0) {
        int r = cgroup_join(group);

        if (r < 0)
            row_fail_with(row, -r, "entering a control group");
        else if (fd_read_text_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) < 0 ||
                 !strstr(text, name))
            row_fail_with(row, EPERM, "not in the control group that was entered");
        else
            row_pass(row, group->flavour == CGROUP_V2 ? "v2: limits set, a process entered"
                                                      : "v1: limits set, a process entered");
        _exit(0);
    }
    wait_for(pid);
}

static void try_cgroup(struct probe_row *row)
{
    struct cgroup_limits limits = {.memory_bytes = 64 * MIB, .pids = 16};
    struct cgroup_site site;
    struct cgroup group;
    struct error err = {0};

    cgroup_find(&site);
    if (cgroup_make_own(&site, &limits, &group, &err) < 0) {
        row->result = err.num;
        str_copy(row->detail, sizeof(row->detail), err.text);
        return;
    }
    enter_group(row, &group);
    cgroup_remove(&group);
}

/* --- two ids --- */

static int map_by_helper(struct probe_row *row, pid_t pid, const char *helper, const char *ranges,
                         unsigned own)
{
    char what[96];
    unsigned first = 0, count = 0;
    int r;

    if (!subid_find(ranges, getuid(), &first, &count)) {
        str_format(what, sizeof(what), "no range of ids for this user in %s", ranges);
        return row_fail_with(row, ENOENT, what);
    }
    r = subid_map(helper, pid, own, first, 1);
    return r < 0 ? row_fail_with(row, -r, helper) : 0;
}

/* With privilege over ids, any second one that exists in our own namespace will do. */
static int map_directly(pid_t pid, const char *file, unsigned own)
{
    static const unsigned seconds[] = {65534, 1, 1000};
    char path[64], text[64];
    int r = -EPERM;

    str_format(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    for (size_t i = 0; i < ARRAY_SIZE(seconds) && r < 0; i++) {
        if (seconds[i] == own)
            continue;
        str_format(text, sizeof(text), "0 %u 1\n%d %u 1\n", own, SECOND_ID, seconds[i]);
        r = fd_write_text_at(AT_FDCWD, path, text);
    }
    return r;
}

static int map_two_ids(struct attempt *attempt, pid_t pid)
{
    int r = 0;

    if (map_directly(pid, "uid_map", geteuid()) < 0)
        r = map_by_helper(attempt->row, pid, "newuidmap", "/etc/subuid", geteuid());
    if (r == 0 && map_directly(pid, "gid_map", getegid()) < 0)
        r = map_by_helper(attempt->row, pid, "newgidmap", "/etc/subgid", getegid());
    return r;
}

static void check_two_ids(struct attempt *attempt)
{
    if (getuid() != 0 || setresgid(SECOND_ID, SECOND_ID, SECOND_ID) < 0 ||
        setresuid(SECOND_ID, SECOND_ID, SECOND_ID) < 0)
        row_fail(attempt->row, "becoming the second id");
    else if (getuid() != SECOND_ID || getgid() != SECOND_ID)
        row_fail_with(attempt->row, EPERM, "the second id has no effect");
    else
        row_pass(attempt->row, "two ids mapped, the second one in use");
}

static void try_uid_split(struct probe_row *row)
{
    struct attempt attempt = {.row = row, .map = map_two_ids, .body = check_two_ids};

    attempt_run(&attempt);
}

/* --- all of them --- */

static void (*const tries[_ISOLATION_LAYER_MAX])(struct probe_row *row) = {
    [ISOLATION_LAYER_USERNS] = try_namespace,   [ISOLATION_LAYER_MOUNTNS] = try_namespace,
    [ISOLATION_LAYER_PIDNS] = try_namespace,    [ISOLATION_LAYER_NETNS] = try_namespace,
    [ISOLATION_LAYER_IPCNS] = try_namespace,    [ISOLATION_LAYER_UTSNS] = try_namespace,
    [ISOLATION_LAYER_CGROUPNS] = try_namespace, [ISOLATION_LAYER_SECCOMP] = try_seccomp,
    [ISOLATION_LAYER_LANDLOCK] = try_landlock,  [ISOLATION_LAYER_CGROUP] = try_cgroup,
    [ISOLATION_LAYER_CAPS] = try_caps,          [ISOLATION_LAYER_NO_NEW_PRIVS] = try_no_new_privs,
    [ISOLATION_LAYER_PROC] = try_namespace,     [ISOLATION_LAYER_UID_SPLIT] = try_uid_split,
    [ISOLATION_LAYER_OVERLAY] = try_namespace,
};

/* `row` is in shared memory; until the probe reports success it counts as failed. */
static int probe_layer(struct probe_row *row, enum isolation_layer layer, struct error *err)
{
    int status = 0;
    pid_t pid;

    row->layer = layer;
    row_fail_with(row, ECHILD, "the probe ended without an answer");
    pid = fork();
    if (pid < 0)
        return error_errno(err, "forking a probe");
    if (pid == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(PROBE_PATIENCE_S);
        tries[layer](row);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return error_errno(err, "waiting for a probe");
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        row_fail_with(row, ETIMEDOUT, "the probe");
    return 0;
}

int probe_layers(struct probe_row rows[_ISOLATION_LAYER_MAX], struct error *err)
{
    size_t size = sizeof(struct probe_row) * _ISOLATION_LAYER_MAX;
    struct probe_row *shared;
    int r = 0;

    shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return error_errno(err, "mapping memory for probes");
    for (int layer = 0; layer < _ISOLATION_LAYER_MAX && r == 0; layer++)
        r = probe_layer(&shared[layer], (enum isolation_layer)layer, err);
    if (r == 0)
        memcpy(rows, shared, size);
    munmap(shared, size);
    return r;
}
