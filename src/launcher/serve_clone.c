/*
 * serve_clone.c - the launcher from its clone to its exec: namespaces, ids, mounts, descriptors;
 * see serve.h. The child answers through its socket: it is gone when the exec has happened or a
 * reason was sent.
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
#include "launcher/engine.h"
#include "sys/calls.h"
#include "sys/outer.h"
#include "sys/subid.h"

#define NAMESPACES \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)
#define FIXED_FDS (ENGINE_LAST_FD + 1)

/* ---- in the child ---- */

static _Noreturn void child_failed(const struct serve *serve, const struct error *err)
{
    char text[ERROR_TEXT_MAX + 1];
    bool is_refused = err->num == -EPERM || err->num == -EACCES || err->num == -ENOSYS;

    text[0] = is_refused ? ENGINE_SAYS_REFUSED : ENGINE_SAYS_FAILED;
    str_copy(text + 1, sizeof(text) - 1, err->text);
    send(serve->launcher_fd, text, 1 + strlen(text + 1), MSG_NOSIGNAL);
    _exit(1);
}

/* Must: come after the maps. The launcher is the root of its namespace and nobody outside. */
static int become_root(const struct serve *serve, struct error *err)
{
    if (serve->plan->clears_groups && syscall(SYS_setgroups, 0, NULL) < 0)
        return error_stage(err, "clear groups", -errno);
    if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
        return error_stage(err, "set ids", -errno);
    /* Delivered only where the stub may signal us: it becomes the same id. */
    if (setsid() < 0 || chdir("/") < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return error_stage(err, "start a session", -errno);
    return 0;
}

/* A folder that everybody has, over which nothing that the launcher needs is hidden. */
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

/* Attaches a tree at <base>/<name> and writes down where it is. */
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

/* What root could reach and the launcher cannot: below a file system of its own. */
static int attach_trees(struct serve *serve, struct error *err)
{
    struct engine_plan *plan = serve->plan;
    const char *base = choose_base();
    int r = 0;

    if (!serve->is_range)
        return 0;
    if (!base || sys_mount("bailey", base, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                           "mode=0755,size=1m") < 0)
        return error_stage(err, "mount the engine's folder", base ? -errno : -ENOENT);
    for (size_t i = 0; i < ENGINE_FOLDER_COUNT && r == 0; i++)
        r = attach(serve->folder_tree[i], base, engine_folders[i], true, NULL, err);
    for (uint32_t i = 0; i < plan->bind_count && r == 0; i++) {
        char name[16];

        str_format(name, sizeof(name), "bind%u", (unsigned)i);
        r = attach(serve->bind_tree[i], base, name, false, plan->binds[i].host, err);
    }
    for (uint32_t i = 0; i < plan->wheel_count && r == 0; i++) {
        char name[16];

        str_format(name, sizeof(name), "wheels%u", (unsigned)i);
        r = attach(serve->wheel_tree[i], base, name, false, plan->wheels[i].host, err);
    }
    if (plan->root[0] && r == 0)
        r = attach(serve->root_tree, base, "root", false, plan->root, err);
    str_copy(plan->state, sizeof(plan->state), base);
    return r;
}

/*
 * Nothing that is mounted here is seen outside, nor the other way. A fresh /proc is refused inside
 * an outer container that hides parts of its own: the launcher then uses that one (engine.c).
 */
static int arrange_mounts(struct serve *serve, struct error *err)
{
    if (sys_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_stage(err, "make mounts private", -errno);
    /* Each box needs it. Docker's default filter refuses it whatever the capabilities; without one
     * the answer about a path that does not exist is ENOENT. */
    if (sys_pivot_root("", "") < 0 && errno != ENOENT)
        return error_stage(err, "pivot root", -errno);
    if (sys_mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 &&
        errno != EPERM)
        return error_stage(err, "mount proc", -errno);
    return attach_trees(serve, err);
}

/* Pids as the user sees them, while the /proc outside is still the one that is mounted. */
static int note_pid(struct serve *serve)
{
    char text[24] = "";
    uint64_t pid = 0;

    if (readlink("/proc/self", text, sizeof(text) - 1) > 0 && str_to_u64(text, &pid) == 0)
        serve->plan->launcher_pid = (uint32_t)pid;
    return open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int child_exec(struct serve *serve, int outer_proc_fd, struct error *err)
{
    static char *argv[] = {"bailey", SERVE_INSIDE_WORD, NULL};
    struct fd_move moves[FIXED_FDS + ENGINE_DATASETS_MAX + SERVE_LISTEN_MAX];
    size_t count = FIXED_FDS;
    int plan_fd = -1, null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int r = hand_bytes("plan", serve->plan, sizeof(*serve->plan), &plan_fd, err);

    if (r < 0)
        return r;
    memcpy(
        moves,
        (struct fd_move[]){{null_fd, 0},
                           {null_fd, 1},
                           {serve->spec->stderr_fd >= 0 ? serve->spec->stderr_fd : null_fd, 2},
                           {plan_fd, ENGINE_PLAN_FD},
                           {serve->launcher_fd, ENGINE_STUB_FD},
                           {serve->engine_fd, ENGINE_PROGRAM_FD},
                           {serve->listen_fd, ENGINE_LISTEN_FD},
                           {serve->settings_fd, ENGINE_SETTINGS_FD},
                           {outer_proc_fd >= 0 ? outer_proc_fd : null_fd, ENGINE_OUTER_PROC_FD},
                           {serve->egress_fd >= 0 ? serve->egress_fd : null_fd, ENGINE_EGRESS_FD},
                           {serve->installer_fd, ENGINE_INSTALLER_FD},
                           {serve->self_fd, ENGINE_SELF_FD},
                           {null_fd, ENGINE_HANDOVER_FD},
                           {serve->wall_fd >= 0 ? serve->wall_fd : null_fd, ENGINE_WALL_FD}},
        FIXED_FDS * sizeof(moves[0]));
    for (uint32_t i = 0; i < serve->plan->dataset_count; i++)
        moves[count++] = (struct fd_move){serve->dataset_fd[i], BROKER_DATASET_FD + (int)i};
    for (uint32_t i = 0; i < serve->plan->tcp_count; i++)
        moves[count++] = (struct fd_move){serve->tcp_fd[i], BROKER_TCP_FD + (int)i};
    r = hand_fds(moves, count);
    if (r == 0)
        r = hand_exec(ENGINE_SELF_FD, argv, (char *const *)serve->spec->broker_env);
    serve->launcher_fd = ENGINE_STUB_FD; /* the number that is left to speak through */
    return error_set(err, r, ERROR_ENGINE, "executing the launcher: %s", strerror(-r));
}

static _Noreturn void child_run(struct serve *serve)
{
    struct error err = {0};
    char go;
    int r, outer_proc_fd;

    fd_closep(&serve->stub_fd);
    umask(022); /* whatever the caller's was: modes are what the broker and we say */
    if (recv(serve->launcher_fd, &go, 1, 0) != 1 || go != ENGINE_SAYS_GO)
        _exit(1);            /* the stub is gone */
    serve_take_trees(serve); /* a root that could not outside may here: the id is still his */
    outer_proc_fd = note_pid(serve);
    r = become_root(serve, &err);
    cgroup_join_engine(&serve->plan->site);
    if (r == 0)
        r = arrange_mounts(serve, &err);
    if (r == 0)
        child_exec(serve, outer_proc_fd, &err);
    child_failed(serve, &err);
}

/* ---- in the stub ---- */

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

static int write_maps(const struct serve *serve, pid_t pid)
{
    int r;

    if (serve->is_range) {
        r = write_map(pid, "uid_map", serve->first, serve->count);
        return r < 0 ? r : write_map(pid, "gid_map", serve->first, serve->count);
    }
    if (!serve->is_helped)
        return write_single(pid);
    r = subid_map(NEWUIDMAP, pid, geteuid(), serve->sub_uid, serve->sub_count);
    return r < 0 ? r : subid_map(NEWGIDMAP, pid, getegid(), serve->sub_gid, serve->sub_count);
}

int serve_refused(int r, const char *what, struct error *err)
{
    struct outer outer;

    outer_find(&outer);
    return error_set(err, r, ERROR_REFUSED,
                     "sessions need namespaces of their own, which this %s refuses (%s). One-shot "
                     "runs work: 'bailey run'. %s",
                     outer.row ? "container" : "machine", what,
                     outer.row ? "'bailey doctor' prints the options that the container has to be "
                                 "started with; a later version will do without namespaces"
                               : "'bailey doctor' says what is missing");
}

static int refused(int r, const char *what, struct error *err)
{
    char text[96];

    str_format(text, sizeof(text), "%s: %s", what, error_name(-r));
    return serve_refused(r, text, err);
}

/* A v2 group has to be entered by the clone; on v1 a cgroup namespace costs nothing. */
static pid_t clone_launcher(struct serve *serve)
{
    uint64_t flags = NAMESPACES;
    pid_t pid;

    if (serve->plan->site.flavour != CGROUP_V2)
        flags |= CLONE_NEWCGROUP;
    pid = sys_clone_fork(flags, &serve->pid_fd, serve->leaf_fd);
    if (pid < 0 && errno == EACCES && serve->leaf_fd >= 0) {
        /* The group may not be entered from where we are: boxes do without one, and say so. */
        cgroup_remove_engine(&serve->plan->site);
        fd_closep(&serve->leaf_fd);
        pid = sys_clone_fork(flags, &serve->pid_fd, -1);
    }
    return pid;
}

static void end_child(struct serve *serve)
{
    kill(serve->pid, SIGKILL);
    while (waitpid(serve->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    serve->pid = 0;
    fd_closep(&serve->pid_fd);
    fd_closep(&serve->stub_fd);
}

static int try_clone(struct serve *serve, struct error *err)
{
    static const char go = ENGINE_SAYS_GO;
    int pair[2];
    int r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the channel to the launcher");
    serve->stub_fd = pair[0];
    serve->launcher_fd = pair[1];
    serve->pid = clone_launcher(serve);
    if (serve->pid == 0)
        child_run(serve);
    fd_closep(&serve->launcher_fd);
    if (serve->pid < 0)
        return refused(-errno, "clone", err);
    r = write_maps(serve, serve->pid);
    if (r < 0) {
        end_child(serve);
        return refused(r, "id maps", err);
    }
    if (send(serve->stub_fd, &go, 1, MSG_NOSIGNAL) < 0)
        return error_errno(err, "starting the launcher"); /* its end is seen by the stub */
    return 0;
}

int serve_clone(struct serve *serve, struct error *err)
{
    int r = try_clone(serve, err);

    if (r < 0 && serve->is_helped) {
        /* newuidmap did not want to: one id then, which results say. */
        serve->is_helped = false;
        serve_note_ids(serve, 1);
        r = try_clone(serve, err);
    }
    return r;
}
