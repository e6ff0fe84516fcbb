/*
 * zygote_start.c - starts a zygote, from its clone to its exec: a root like a box's, in its own
 * mount namespace, with the interpreter and no file of the host that a box would not have.
 *
 * Package code will run in it, and its interpreter itself may be a template's. So before the exec
 * it drops all rights: it is in a control group with limits, has its owner's id, no capability,
 * no_new_privs and its filter; in /proc it sees only itself. It stays in the engine's user and pid
 * namespaces: only from there can it enter the boxes that its id owns. It has no Landlock ruleset:
 * kernels would inherit it, and could not open the files of their boxes.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/zygotes.h"
#include "sandbox/sandbox.h"
#include "sys/calls.h"

#define ZYGOTE_FILES_MAX 24
#define ZYGOTE_DISK (16 * MIB) /* of its /tmp and home, which stay empty */

/* The maximum for imports of packages and for its live kernels. */
#define ZYGOTE_MEMORY (4 * GIB)
#define ZYGOTE_PIDS 512

/* Files of /proc that libraries read besides their own process's; missing ones are left out. */
static const char *const proc_files[] = {"cpuinfo", "meminfo", "stat",       "version",
                                         "uptime",  "loadavg", "filesystems"};

/* Everything that the child needs, with its memory. */
struct zygote_plan {
    struct plan_builder builder;
    struct launched launched;
    char layer[PATH_MAX + HASH_TEXT_MAX + 16];
    char tiers[LIMIT_TIERS_BYTES];
    struct launch_file files[ZYGOTE_FILES_MAX];
    size_t file_count;
    char python[PATH_MAX];
    char tier[8];
    int64_t id; /* -1: there is only one id */
    bool clears_groups;
    const struct cgroup *group;
};

static void plan_free(struct zygote_plan **plan)
{
    if (*plan)
        plan_builder_close(&(*plan)->builder);
    free(*plan);
}

/* ---- in the child ---- */

static void reset_process(void)
{
    struct rlimit no_core = {0, 0};
    sigset_t none;

    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setrlimit(RLIMIT_CORE, &no_core);
}

static int enter_root(struct zygote_plan *plan)
{
    const char *name = plan->builder.plan.hostname;
    struct sandbox sandbox;
    int r;

    sandbox_init(&sandbox, &plan->builder.plan);
    if (sethostname(name, strlen(name)) < 0)
        return -errno;
    r = sandbox_enter_root(&sandbox);
    umask(022);
    if (r == 0 && chdir("/workspace") < 0)
        r = -errno;
    return r;
}

/* Must be last before the exec, because another user may have written the executed file. */
static int lose_everything(const struct zygote_plan *plan)
{
    bool is_on;
    int r = hand_off_privileges(plan->id, plan->clears_groups);

    if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) /* changing the id clears it */
        r = -errno;
    return r < 0 ? r : sandbox_zygote_filter(plan->id < 0, &is_on);
}

/*
 * No site in a template: .pth files and sitecustomize are code, too (zygote_site.py). The host's
 * own Python starts as its administrator configured it. The environment is the launcher's.
 */
static _Noreturn void zygote_child(struct zygote_plan *plan, int control_fd, int said_fd)
{
    char *with_site[] = {plan->python, "/bailey/" ZYGOTE_SCRIPT, plan->tier, NULL};
    char *without_site[] = {plan->python, "-S", "/bailey/" ZYGOTE_SCRIPT, plan->tier, NULL};
    char *const *argv = plan->layer[0] ? without_site : with_site;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct fd_move moves[] = {
        {null_fd, 0},
        {said_fd, 1},
        {said_fd, 2},
        {control_fd, ZYGOTE_CONTROL_FD},
        {open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC), ZYGOTE_OOM_FD}};
    int r;

    reset_process();
    r = setsid() < 0 ? -errno : cgroup_join(plan->group);
    if (r == 0)
        r = enter_root(plan);
    if (r < 0)
        log_warning("starting a zygote with %s: %s", plan->python, strerror(-r));
    if (r == 0)
        r = hand_fds(moves, ARRAY_SIZE(moves)); /* its output goes through a pipe from here on */
    if (r == 0)
        r = lose_everything(plan);
    if (r == 0) {
        execve(plan->python, argv, (char *const *)plan->builder.env);
        dprintf(STDERR_FILENO, "%s: %s\n", plan->python, strerror(errno));
    }
    _exit(127);
}

/* ---- in the launcher ---- */

static void thread_counts(struct plan_builder *builder, uint32_t cpu_millis)
{
    static const char *const names[] = {ZYGOTE_THREAD_NAMES};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long count = (long)((cpu_millis + 999) / 1000);

    if (cores < 1)
        cores = 1;
    if (count == 0 || count > cores)
        count = cores;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        plan_builder_env(builder, "%s=%ld", names[i], count);
}

/* The list of modules is a file of the broker: text of limited length, read and passed on. */
static size_t read_tiers(const struct launcher *launcher, struct zygote_plan *plan,
                         const char *layer)
{
    char path[PATH_MAX + HASH_TEXT_MAX + 32];
    CLEANUP(fd_closep) int fd = -1;
    ssize_t length;

    str_format(path, sizeof(path), "%s/layers/%s.tiers", launcher->plan->state, layer);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    length = fd < 0 ? 0 : fd_read_all(fd, plan->tiers, sizeof(plan->tiers));
    return length < 0 ? 0 : (size_t)length;
}

static void add_file(struct zygote_plan *plan, const char *path, const void *data, size_t length)
{
    if (plan->file_count < ZYGOTE_FILES_MAX)
        plan->files[plan->file_count++] = (struct launch_file){path, data, length};
}

/*
 * The drivers that boxes have too, including the kernel's, and the native module, which boxes do
 * not have.
 */
static void choose_files(struct zygote_plan *plan, size_t tiers_length)
{
    size_t count;
    const struct launch_file *drivers = launch_drivers(&count);
    const struct launch_file *module = launch_zygote_module();

    for (size_t i = 0; i < count; i++)
        add_file(plan, drivers[i].path, drivers[i].text, drivers[i].length);
    add_file(plan, module->path, module->text, module->length);
    add_file(plan, ZYGOTE_TIERS, plan->tiers, tiers_length);
}

/* Only itself and a few facts about the host, instead of all processes of the engine. */
static void own_proc(struct plan_builder *builder)
{
    struct sandbox_plan *plan = &builder->plan;
    size_t count = 0;

    for (size_t i = 0; i < plan->step_count; i++) {
        enum step_kind kind = builder->steps[i].kind;

        if (kind != STEP_PROC && kind != STEP_MASK_FILE && kind != STEP_MASK_DIR &&
            kind != STEP_PROC_SEAL)
            builder->steps[count++] = builder->steps[i];
    }
    plan->step_count = count;
    if (str_equal(plan->base, "/proc"))
        return; /* the root is assembled over it */
    plan_builder_step(builder, STEP_BIND_DIR, "proc/self", "/proc/self", 0);
    for (size_t i = 0; i < ARRAY_SIZE(proc_files); i++) {
        const char *path = plan_builder_text(builder, "/proc/%s", proc_files[i]);

        if (access(path, R_OK) == 0)
            plan_builder_step(builder, STEP_BIND_FILE, path + 1, path, 0);
    }
    plan_builder_step(builder, STEP_SYMLINK, "proc/thread-self", "self", 0);
    plan_builder_step(builder, STEP_SYMLINK, "proc/mounts", "self/mounts", 0);
}

static int write_plan(struct launcher *launcher, const struct zygote *zygote,
                      struct zygote_plan *plan, struct error *err)
{
    const struct zygote_owner *owner = zygote->owner;
    const struct launcher_plan *limits = launcher->plan;
    struct launch_spec spec = {
        .memory_bytes = ZYGOTE_DISK,
        .disk_bytes = ZYGOTE_DISK,
        .pids = LIMIT_PIDS_MIN,
        .root = limits->root[0] ? limits->root : NULL,
        .binds = launcher->binds,
        .bind_count = limits->bind_count,
        .python = limits->python[0] ? limits->python : NULL,
        .files = plan->files,
    };
    size_t tiers_length = 0;
    int r;

    str_copy(plan->python, sizeof(plan->python), limits->python);
    plan->id = limits->pair_count ? (int64_t)owner->id : -1;
    plan->clears_groups = limits->clears_groups;
    plan->group = &zygote->group;
    if (owner->layer[0]) {
        str_format(plan->layer, sizeof(plan->layer), "%s/layers/%s", limits->state, owner->layer);
        spec.layer = plan->layer;
        str_copy(plan->python, sizeof(plan->python), "/bailey/template/bin/python");
        tiers_length = read_tiers(launcher, plan, owner->layer);
    }
    if (!plan->python[0])
        return error_set(err, -ENOENT, ERROR_NOT_FOUND, "there is no Python");
    str_format(plan->tier, sizeof(plan->tier), "%u", zygote->tier);
    choose_files(plan, tiers_length);
    spec.file_count = plan->file_count;
    r = root_plan(&plan->builder, &spec, err);
    if (r < 0)
        return r;
    own_proc(&plan->builder);
    plan_builder_common(&plan->builder, &spec, &plan->launched);
    plan->builder.plan.has_split = plan->id > 0; /* its folders belong to its own id */
    plan->builder.plan.guest_id = plan->id > 0 ? (uid_t)plan->id : 0;
    thread_counts(&plan->builder, limits->cpu_millis);
    return plan->builder.is_full
               ? error_set(err, -E2BIG, ERROR_TOO_LARGE, "the zygote's root has too many parts")
               : 0;
}

/* Without a control group it has no limits, like other processes of the engine; that is logged. */
static void make_group(struct launcher *launcher, struct zygote *zygote)
{
    static unsigned serial;
    struct cgroup_limits limits = {.memory_bytes = ZYGOTE_MEMORY,
                                   .pids = ZYGOTE_PIDS,
                                   .cpu_millis = launcher->plan->cpu_millis,
                                   .cpu_share = CGROUP_SHARE_ZYGOTE};
    struct error err = {0};
    char name[32];

    str_format(name, sizeof(name), "zygote-%u", serial++);
    if (cgroup_make(&zygote->owner->site, name, &limits, &zygote->group, &err) < 0)
        log_debug("a zygote has no control group: %s, continuing without it", err.text);
}

/* With its own network namespace if possible; else the engine's, which reaches nothing. */
static pid_t clone_zygote(const struct zygote *zygote, int *ret_pid_fd)
{
    const uint64_t flags = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC;
    int group_fd = zygote->group.flavour == CGROUP_V2 ? zygote->group.join_fd[0] : -1;
    pid_t pid = sys_clone_fork(flags | CLONE_NEWNET, ret_pid_fd, group_fd);

    return pid < 0 ? sys_clone_fork(flags, ret_pid_fd, group_fd) : pid;
}

/*
 * For processes it may leave behind, if no control group lists them. The namespace is kept open:
 * the kernel gives the number of one that is gone to the next, which may be a box's.
 */
static void note_mounts(struct zygote *zygote, pid_t pid, int pid_fd)
{
    char path[64];
    ssize_t length;

    str_format(path, sizeof(path), "/proc/%d/ns/mnt", (int)ids_proc_number(pid, pid_fd));
    fd_closep(&zygote->mounts_fd);
    zygote->mounts_fd = open(path, O_RDONLY | O_CLOEXEC);
    length = readlink(path, zygote->mounts, sizeof(zygote->mounts) - 1);
    if (zygote->mounts_fd < 0)
        length = -1;
    zygote->mounts[MAX(length, (ssize_t)0)] = 0;
}

static int open_channels(int control[2], int said[2], struct error *err)
{
    static const int on = 1;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0 ||
        setsockopt(control[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
        fd_set_nonblocking(control[0], true) < 0 || pipe2(said, O_CLOEXEC) < 0 ||
        fd_set_nonblocking(said[0], true) < 0)
        return error_errno(err, "making the channels to a zygote");
    return 0;
}

static void close_pair(int (*pair)[2])
{
    fd_closep(&(*pair)[0]);
    fd_closep(&(*pair)[1]);
}

int zygote_spawn(struct launcher *launcher, struct zygote *zygote, struct zygote_process *ret,
                 struct error *err)
{
    CLEANUP(plan_free) struct zygote_plan *plan = calloc(1, sizeof(*plan));
    CLEANUP(close_pair) int control[2] = {-1, -1};
    CLEANUP(close_pair) int said[2] = {-1, -1};
    int pid_fd = -1;
    pid_t pid;
    int r;

    if (!plan)
        return error_memory(err);
    make_group(launcher, zygote);
    r = write_plan(launcher, zygote, plan, err);
    if (r == 0)
        r = open_channels(control, said, err);
    if (r < 0)
        return r;
    pid = clone_zygote(zygote, &pid_fd);
    if (pid == 0)
        zygote_child(plan, control[1], said[1]);
    if (pid < 0)
        return error_errno(err, "cloning a zygote");
    zygote->owner->had_zygote = true;
    note_mounts(zygote, pid, pid_fd);
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        fd_closep(&zygote->group.join_fd[i]);
        zygote->group.join_fd[i] = -1;
    }
    *ret = (struct zygote_process){.pid = pid,
                                   .pid_fd = pid_fd,
                                   .control_fd = fd_take(&control[0]),
                                   .said_fd = fd_take(&said[0])};
    return 0;
}
