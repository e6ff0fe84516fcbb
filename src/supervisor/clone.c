/*
 * clone.c - the launcher from its clone to its exec: namespaces, ids, mounts, descriptors; see
 * supervisor.h. The child answers through its socket, which is closed by the exec; before that an
 * error may be sent.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "supervisor/supervisor_private.h"
#include "sys/calls.h"
#include "sys/outer.h"
#include "sys/subid.h"

#define NAMESPACES \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)
/* Numbers before the provider hosts', of which there may be several */
#define FIXED_FDS LAUNCHER_PROVIDER_HOST_FD

/* ---- in the child ---- */

static _Noreturn void child_failed(const struct supervisor *supervisor, const struct error *err)
{
    char text[ERROR_TEXT_MAX + 1];
    bool is_refused = err->num == -EPERM || err->num == -EACCES || err->num == -ENOSYS;

    text[0] = is_refused ? LAUNCHER_SAYS_REFUSED : LAUNCHER_SAYS_FAILED;
    str_copy(text + 1, sizeof(text) - 1, err->text);
    send(supervisor->launcher_fd, text, 1 + strlen(text + 1), MSG_NOSIGNAL);
    _exit(1);
}

/* Must come after the maps. The launcher is root in its namespace and has no rights outside. */
static int become_root(const struct supervisor *supervisor, struct error *err)
{
    if (supervisor->spec->has_no_namespaces)
        return setsid() < 0 || chdir("/") < 0 ? error_stage(err, "start a session", -errno) : 0;
    if (supervisor->plan->clears_groups && syscall(SYS_setgroups, 0, NULL) < 0)
        return error_stage(err, "clear groups", -errno);
    if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        return error_stage(err, "set ids", -errno);
    /* The death signal is delivered only if the supervisor may signal this process: it changes
     * to the same id. */
    if (setsid() < 0 || chdir("/") < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return error_stage(err, "start a session", -errno);
    return 0;
}

/*
 * A folder that exists everywhere, and whose content the launcher does not need, because it is
 * hidden.
 */
static const char *choose_base(void)
{
    static const char *const candidates[] = {"/mnt", "/media", "/srv", "/run", "/home", "/opt"};
    struct stat status;

    for (size_t i = 0; i < ARRAY_SIZE(candidates); i++) {
        if (lstat(candidates[i], &status) == 0 && S_ISDIR(status.st_mode))
            return candidates[i];
    }
    return NULL;
}

/* Attaches a tree at <base>/<name> and records the path. */
static int attach(int tree_fd, const char *base, const char *name, bool is_written, char *path,
                  struct error *err)
{
    struct mount_attr attr = {
        .attr_set = (is_written ? 0 : MOUNT_ATTR_RDONLY) | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        .propagation = MS_PRIVATE,
    };
    struct stat status;
    char text[PATH_MAX];

    if (tree_fd < 0 || fstat(tree_fd, &status) < 0)
        return error_set(err, -ENOENT, ERROR_NOT_FOUND, "'%s' cannot be shown in boxes", path);
    str_format(text, sizeof(text), "%s/%s", base, name);
    if (S_ISDIR(status.st_mode) ? mkdir(text, 0755) < 0 : mknod(text, S_IFREG | 0644, 0) < 0)
        return error_errno(err, "making %s", text);
    if (sys_move_mount(tree_fd, "", AT_FDCWD, text, MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
        sys_mount_setattr(AT_FDCWD, text, AT_RECURSIVE, &attr) < 0)
        return error_stage(err, "attach trees", -errno);
    if (path)
        str_copy(path, PATH_MAX, text);
    return 0;
}

/* Trees that root can reach and the launcher cannot: attached below its own file system. */
static int attach_trees(struct supervisor *supervisor, struct error *err)
{
    struct launcher_plan *plan = supervisor->plan;
    const char *base = choose_base();
    int r = 0;

    if (!supervisor->is_range || supervisor->is_trial)
        return 0;
    if (!base || sys_mount("bailey", base, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                           "mode=0755,size=1m") < 0)
        return error_stage(err, "mount the engine's folder", base ? -errno : -ENOENT);
    for (size_t i = 0; i < LAUNCHER_FOLDER_COUNT && r == 0; i++)
        r = attach(supervisor->folder_tree[i], base, state_folders[i], true, NULL, err);
    for (uint32_t i = 0; i < plan->bind_count && r == 0; i++) {
        char name[16];

        str_format(name, sizeof(name), "bind%u", (unsigned)i);
        r = attach(supervisor->bind_tree[i], base, name, false, plan->binds[i].host, err);
    }
    for (uint32_t i = 0; i < plan->interpreter_count && r == 0; i++) {
        for (uint32_t j = 0; j < plan->interpreters[i].bind_count && r == 0; j++) {
            char name[32];

            str_format(name, sizeof(name), "other%u-%u", (unsigned)i, (unsigned)j);
            r = attach(supervisor->interpreter_tree[i * LAUNCHER_INTERPRETER_BINDS + j], base, name,
                       false, plan->interpreters[i].binds[j].host, err);
        }
    }
    for (uint32_t i = 0; i < plan->wheel_count && r == 0; i++) {
        char name[16];

        str_format(name, sizeof(name), "wheels%u", (unsigned)i);
        r = attach(supervisor->wheel_tree[i], base, name, false, plan->wheels[i].host, err);
    }
    if (plan->root[0] && r == 0)
        r = attach(supervisor->root_tree, base, "root", false, plan->root, err);
    str_copy(plan->state, sizeof(plan->state), base);
    return r;
}

/*
 * Mounts here are not visible outside, and mounts outside not here. A fresh /proc is refused inside
 * an outer container that hides parts of its own: the launcher then uses the outer one
 * (launcher/launcher.c).
 */
static int arrange_mounts(struct supervisor *supervisor, struct error *err)
{
    if (supervisor->spec->has_no_namespaces)
        return 0;
    if (sys_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_stage(err, "make mounts private", -errno);
    /* Each box needs pivot_root. Docker's default filter refuses it whatever the capabilities;
     * without such a filter a path that does not exist gives ENOENT. */
    if (sys_pivot_root("", "") < 0 && errno != ENOENT)
        return error_stage(err, "pivot root", -errno);
    if (sys_mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 &&
        errno != EPERM)
        return error_stage(err, "mount proc", -errno);
    return attach_trees(supervisor, err);
}

/* Pids as the user sees them, while /proc is still the outer one. */
static int note_pid(struct supervisor *supervisor)
{
    char text[24] = "";
    uint64_t pid = 0;

    if (readlink("/proc/self", text, sizeof(text) - 1) > 0 && str_to_u64(text, &pid) == 0)
        supervisor->plan->launcher_pid = (uint32_t)pid;
    return open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int child_exec(struct supervisor *supervisor, int outer_proc_fd, struct error *err)
{
    static char *argv[] = {"bailey", LAUNCHER_INSIDE_WORD, NULL};
    struct fd_move moves[FIXED_FDS + LAUNCHER_HOSTS_MAX + LAUNCHER_DATASETS_MAX + BROKER_TCP_MAX];
    size_t count = FIXED_FDS;
    int plan_fd = -1, null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int r = hand_bytes("plan", supervisor->plan, sizeof(*supervisor->plan), &plan_fd, err);

    if (r < 0)
        return r;
    memcpy(moves,
           (struct fd_move[]){
               {null_fd, 0},
               {null_fd, 1},
               {supervisor->spec->stderr_fd >= 0 ? supervisor->spec->stderr_fd : null_fd, 2},
               {plan_fd, LAUNCHER_PLAN_FD},
               {supervisor->launcher_fd, LAUNCHER_SUPERVISOR_FD},
               {supervisor->engine_fd, LAUNCHER_PROGRAM_FD},
               {supervisor->listen_fd, LAUNCHER_LISTEN_FD},
               {supervisor->settings_fd, LAUNCHER_SETTINGS_FD},
               {outer_proc_fd >= 0 ? outer_proc_fd : null_fd, LAUNCHER_OUTER_PROC_FD},
               {supervisor->egress_fd >= 0 ? supervisor->egress_fd : null_fd, LAUNCHER_EGRESS_FD},
               {supervisor->installer_fd, LAUNCHER_INSTALLER_FD},
               {supervisor->self_fd, LAUNCHER_SELF_FD},
               {null_fd, LAUNCHER_HANDOVER_FD}},
           FIXED_FDS * sizeof(moves[0]));
    for (int i = 0; i < LAUNCHER_HOSTS_MAX; i++)
        moves[count++] =
            (struct fd_move){supervisor->host_fds[i] >= 0 ? supervisor->host_fds[i] : null_fd,
                             LAUNCHER_PROVIDER_HOST_FD + i};
    for (uint32_t i = 0; i < supervisor->plan->dataset_count; i++)
        moves[count++] = (struct fd_move){supervisor->dataset_fd[i], BROKER_DATASET_FD + (int)i};
    for (uint32_t i = 0; i < supervisor->plan->tcp_count; i++)
        moves[count++] = (struct fd_move){supervisor->tcp_fd[i], BROKER_TCP_FD + (int)i};
    r = hand_fds(moves, count);
    if (r == 0)
        r = hand_exec(LAUNCHER_SELF_FD, argv, (char *const *)supervisor->spec->broker_env);
    supervisor->launcher_fd = LAUNCHER_SUPERVISOR_FD; /* the only socket that is left */
    return error_set(err, r, ERROR_ENGINE, "executing the launcher: %s", strerror(-r));
}

static _Noreturn void child_run(struct supervisor *supervisor)
{
    struct error err = {0};
    char go;
    int r, outer_proc_fd;

    fd_closep(&supervisor->supervisor_fd);
    umask(022); /* independent of the caller's: the broker and the launcher set modes explicitly */
    if (recv(supervisor->launcher_fd, &go, 1, 0) != 1 || go != LAUNCHER_SAYS_GO)
        _exit(1);                      /* the supervisor is gone */
    supervisor_take_trees(supervisor); /* a container's root without capabilities outside has them
                                          here: its id is still the same */
    outer_proc_fd = note_pid(supervisor);
    r = become_root(supervisor, &err);
    cgroup_join_engine(&supervisor->plan->site);
    if (r == 0)
        r = arrange_mounts(supervisor, &err);
    if (r == 0 && supervisor->is_trial) {
        static const char word = LAUNCHER_SAYS_READY;

        _exit(send(supervisor->launcher_fd, &word, 1, MSG_NOSIGNAL) != 1);
    }
    if (r == 0)
        child_exec(supervisor, outer_proc_fd, &err);
    child_failed(supervisor, &err);
}

/* ---- in the supervisor ---- */

static int write_map(pid_t pid, const char *file, unsigned first, unsigned count)
{
    char path[64], text[64];

    str_format(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    str_format(text, sizeof(text), "0 %u %u\n", first, count);
    return fd_write_text_at(AT_FDCWD, path, text);
}

static int write_single(pid_t pid)
{
    char path[64];
    int r;

    str_format(path, sizeof(path), "/proc/%d/setgroups", (int)pid);
    r = fd_write_text_at(AT_FDCWD, path, "deny");
    if (r < 0 && r != -ENOENT)
        return r;
    r = write_map(pid, "uid_map", geteuid(), 1);
    return r < 0 ? r : write_map(pid, "gid_map", getegid(), 1);
}

static int write_maps(const struct supervisor *supervisor, pid_t pid)
{
    int r;

    if (supervisor->is_range) {
        r = write_map(pid, "uid_map", supervisor->first, supervisor->count);
        return r < 0 ? r : write_map(pid, "gid_map", supervisor->first, supervisor->count);
    }
    if (!supervisor->is_helped)
        return write_single(pid);
    r = subid_map(NEWUIDMAP, pid, geteuid(), supervisor->sub_uid, supervisor->sub_count);
    return r < 0 ? r
                 : subid_map(NEWGIDMAP, pid, getegid(), supervisor->sub_gid, supervisor->sub_count);
}

int supervisor_refused(int r, const char *what, struct error *err)
{
    struct outer outer;

    outer_find(&outer);
    return error_set(err, r, ERROR_REFUSED,
                     "sessions need namespaces of their own, which this %s refuses (%s); 'bailey "
                     "run' works, and with SANDBOX_ISOLATION=standard one session at a time. %s",
                     outer.row ? "container" : "machine", what,
                     outer.row ? "'bailey doctor' prints the options that the container has to be "
                                 "started with"
                               : "'bailey doctor' says what is missing");
}

static int refused(int r, const char *what, struct error *err)
{
    char text[96];

    str_format(text, sizeof(text), "%s: %s", what, error_name(-r));
    return supervisor_refused(r, text, err);
}

/* A v2 group must be entered by the clone; on v1 a cgroup namespace costs nothing. */
static pid_t clone_launcher(struct supervisor *supervisor)
{
    uint64_t flags = supervisor->spec->has_no_namespaces ? 0 : NAMESPACES;
    pid_t pid;

    if (flags && !supervisor->is_trial && supervisor->plan->site.flavour != CGROUP_V2)
        flags |= CLONE_NEWCGROUP;
    pid = sys_clone_fork(flags, &supervisor->pid_fd, supervisor->leaf_fd);
    if (pid < 0 && errno == EACCES && supervisor->leaf_fd >= 0) {
        /* The group cannot be entered from here: boxes have none, and results say so. */
        cgroup_remove_engine(&supervisor->plan->site);
        fd_closep(&supervisor->leaf_fd);
        pid = sys_clone_fork(flags, &supervisor->pid_fd, -1);
    }
    return pid;
}

static void end_child(struct supervisor *supervisor)
{
    kill(supervisor->pid, SIGKILL);
    while (waitpid(supervisor->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    supervisor->pid = 0;
    fd_closep(&supervisor->pid_fd);
    fd_closep(&supervisor->supervisor_fd);
}

static int try_clone(struct supervisor *supervisor, struct error *err)
{
    static const char go = LAUNCHER_SAYS_GO;
    int pair[2];
    int r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the channel to the launcher");
    supervisor->supervisor_fd = pair[0];
    supervisor->launcher_fd = pair[1];
    supervisor->pid = clone_launcher(supervisor);
    if (supervisor->pid == 0)
        child_run(supervisor);
    fd_closep(&supervisor->launcher_fd);
    if (supervisor->pid < 0)
        return refused(-errno, "clone", err);
    r = supervisor->spec->has_no_namespaces ? 0 : write_maps(supervisor, supervisor->pid);
    if (r < 0) {
        end_child(supervisor);
        return refused(r, "id maps", err);
    }
    if (send(supervisor->supervisor_fd, &go, 1, MSG_NOSIGNAL) < 0)
        return error_errno(err, "starting the launcher"); /* the supervisor sees its end */
    return 0;
}

int supervisor_clone(struct supervisor *supervisor, struct error *err)
{
    int r = try_clone(supervisor, err);

    if (r < 0 && supervisor->is_helped) {
        /* newuidmap failed: only one id then, which results say. */
        supervisor->is_helped = false;
        supervisor_note_ids(supervisor, 1);
        r = try_clone(supervisor, err);
    }
    return r;
}

/* ---- a trial ---- */

static bool is_refusal(int r)
{
    return r == -EPERM || r == -EACCES || r == -ENOSYS || r == -EINVAL || r == -ENOSPC ||
           r == -EUSERS;
}

/* The child's answer, and its end. */
static int hear_trial(struct supervisor *supervisor, struct error *err)
{
    char text[ERROR_TEXT_MAX + 1] = "";
    ssize_t length;
    int r = 0;

    do
        length = recv(supervisor->supervisor_fd, text, sizeof(text) - 1, 0);
    while (length < 0 && errno == EINTR);
    if (length > 0 && text[0] == LAUNCHER_SAYS_REFUSED)
        r = supervisor_refused(-EPERM, text + 1, err);
    end_child(supervisor);
    return r;
}

int supervisor_try_namespaces(const struct supervisor_spec *spec, struct error *err)
{
    CLEANUP(freep) struct launcher_plan *plan = calloc(1, sizeof(*plan));
    struct supervisor supervisor;
    struct error own = {0};
    int r;

    if (!plan)
        return error_memory(err);
    supervisor_init(&supervisor, spec, plan);
    supervisor.is_trial = true;
    supervisor_choose_ids(&supervisor);
    r = supervisor_clone(&supervisor, &own);
    if (r == 0)
        r = hear_trial(&supervisor, &own);
    supervisor_close(&supervisor);
    if (!is_refusal(r))
        return 0;
    if (err)
        *err = own;
    return r;
}
