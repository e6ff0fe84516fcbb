/*
 * zygote_start.c - a zygote from its clone to its exec: a root like a box's, in a mount namespace
 * of its own, with the interpreter and nothing of the host's that a box would not have.
 *
 * It stays in the engine's user and pid namespaces: only from there can it enter boxes and come
 * back. Of the engine's rights it keeps two.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
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
#define ZYGOTE_DISK (16 * MIB) /* of its /tmp and home, in which nothing is ever left */

/* Into a pid namespace below and back; looking at a warden, which setns(2) by pidfd wants. */
#define ZYGOTE_CAPS ((UINT64_C(1) << CAP_SYS_ADMIN) | (UINT64_C(1) << CAP_SYS_PTRACE))

/* Everything that the child needs, and its memory. */
struct zygote_plan {
    struct plan_builder builder;
    struct launched launched;
    char layer[PATH_MAX + HASH_TEXT_MAX + 16];
    char tiers[LIMIT_TIERS_BYTES];
    struct launch_file files[ZYGOTE_FILES_MAX];
    size_t file_count;
    char python[PATH_MAX];
    char tier[8];
};

static void plan_free(struct zygote_plan **plan)
{
    if (*plan)
        plan_builder_close(&(*plan)->builder);
    free(*plan);
}

/* ---- in the child ---- */

/* As root of the engine's namespace it would gain all of them again by its exec. */
static int limit_rights(void)
{
    for (int cap = 0; cap < 64; cap++) {
        if (!(ZYGOTE_CAPS & (UINT64_C(1) << cap)) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
            if (errno == EINVAL)
                break; /* beyond the last one */
            return -errno;
        }
    }
    return 0;
}

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

static _Noreturn void zygote_child(struct zygote_plan *plan, int control_fd)
{
    char *argv[] = {plan->python, "/bailey/" ZYGOTE_SCRIPT, plan->tier, NULL};
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct fd_move moves[] = {
        {null_fd, 0},
        {STDERR_FILENO, 1},
        {STDERR_FILENO, 2},
        {control_fd, ZYGOTE_CONTROL_FD},
        {open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC), ZYGOTE_OOM_FD}};
    int r;

    reset_process();
    r = setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : 0;
    if (r == 0)
        r = enter_root(plan);
    if (r == 0)
        r = limit_rights();
    if (r == 0)
        r = hand_fds(moves, ARRAY_SIZE(moves));
    if (r == 0) {
        execve(plan->python, argv, (char *const *)plan->builder.env);
        r = -errno;
    }
    log_warning("starting a zygote with %s: %s", plan->python, strerror(-r));
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

/* The list of modules is the broker's file: text of a length, read and handed on. */
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

/* The drivers that boxes have too, ours among them, and the native part, which they do not. */
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

static int write_plan(struct launcher *launcher, const struct zygote *zygote,
                      struct zygote_plan *plan, struct error *err)
{
    const struct launcher_plan *limits = launcher->plan;
    struct launch_spec spec = {
        .memory_bytes = ZYGOTE_DISK,
        .disk_bytes = ZYGOTE_DISK,
        .pids = LIMIT_PIDS_MIN,
        .root = limits->root[0] ? limits->root : NULL,
        .binds = launcher->binds,
        .bind_count = limits->bind_count,
        .files = plan->files,
    };
    size_t tiers_length = 0;
    int r;

    str_copy(plan->python, sizeof(plan->python), limits->python);
    if (zygote->layer[0]) {
        str_format(plan->layer, sizeof(plan->layer), "%s/layers/%s", limits->state, zygote->layer);
        spec.layer = plan->layer;
        str_copy(plan->python, sizeof(plan->python), "/bailey/template/bin/python");
        tiers_length = read_tiers(launcher, plan, zygote->layer);
    }
    if (!plan->python[0])
        return error_set(err, -ENOENT, ERROR_NOT_FOUND, "there is no Python");
    str_format(plan->tier, sizeof(plan->tier), "%u", zygote->tier);
    choose_files(plan, tiers_length);
    spec.file_count = plan->file_count;
    r = root_plan(&plan->builder, &spec, err);
    if (r < 0)
        return r;
    plan_builder_common(&plan->builder, &spec, &plan->launched);
    thread_counts(&plan->builder, limits->cpu_millis);
    return plan->builder.is_full
               ? error_set(err, -E2BIG, ERROR_TOO_LARGE, "the zygote's root has too many parts")
               : 0;
}

int zygote_spawn(struct launcher *launcher, const struct zygote *zygote, pid_t *ret_pid,
                 int *ret_pid_fd, int *ret_control_fd, struct error *err)
{
    CLEANUP(plan_free) struct zygote_plan *plan = calloc(1, sizeof(*plan));
    CLEANUP(fd_closep) int ours = -1;
    CLEANUP(fd_closep) int theirs = -1;
    static const int on = 1;
    int pair[2], pid_fd = -1;
    pid_t pid;
    int r;

    if (!plan)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    r = write_plan(launcher, zygote, plan, err);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the channel to a zygote");
    ours = pair[0];
    theirs = pair[1];
    if (setsockopt(ours, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
        fd_set_nonblocking(ours, true) < 0)
        return error_errno(err, "making the channel to a zygote");
    pid = sys_clone_fork(CLONE_NEWNS | CLONE_NEWUTS, &pid_fd, -1);
    if (pid == 0)
        zygote_child(plan, theirs);
    if (pid < 0)
        return error_errno(err, "cloning a zygote");
    *ret_pid = pid;
    *ret_pid_fd = pid_fd;
    *ret_control_fd = fd_take(&ours);
    return 0;
}
