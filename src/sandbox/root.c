/*
 * root.c - the box's root: one tmpfs, put together from the plan's steps, then pivoted into.
 *
 * Theory of operation. The whole root is a single tmpfs with the box's disk limit. It is mounted
 * over an existing folder of our private mount namespace (no other process sees it), filled, and
 * made read-only as a mount; the writable places (/tmp, /workspace, /home/user, /dev/shm) are
 * clones of folders of the same tmpfs mounted on themselves, which keep their own, writable, mount.
 * So one limit in bytes and inodes covers all of them. Every target is a path of this fresh tmpfs
 * that only we have touched: there is no link of a guest or of an image that could be followed.
 *
 * Overlays: a folder of the host that programs are run from is not bound itself. An overlay with
 * nothing above it has inodes of its own for the same files (and the same pages in memory), so that
 * inotify and locks on them end at this box. One overlay, of the host's root, serves all folders of
 * that file system; it is mounted aside, over a folder of the host that the box does not need, what
 * the box shows of it is bound from there, and it goes with the old root. Nothing is unmounted one
 * by one: each umount(2) waits for an RCU grace period, 30 us on an idle machine and up to some ms
 * on a busy one. A folder that only the launcher can enter has an overlay of its own.
 *
 * Propagation: a mount namespace that is owned by a new user namespace begins with slave mounts, so
 * nothing of this reaches the host.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/stage.h"
#include "sys/calls.h"

/* Must: come after the ids: a tmpfs belongs to the id that mounts it. */
int stage_root_mount(struct sandbox *sandbox)
{
    const struct sandbox_plan *plan = sandbox->plan;

    umask(0); /* modes are as the plan says */
    if (sys_mount("bailey", plan->base, "tmpfs", MS_NOSUID | MS_NODEV, plan->root_options) < 0)
        return -errno;
    sandbox->root_fd = open(plan->base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return sandbox->root_fd < 0 ? -errno : 0;
}

static int give_to_guest(struct sandbox *sandbox, const struct plan_step *step)
{
    uid_t id = sandbox->plan->guest_id;

    if (!step->is_guests || !sandbox->plan->has_split)
        return 0;
    return fchownat(sandbox->root_fd, step->target, id, id, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int step_dir(struct sandbox *sandbox, const struct plan_step *step)
{
    if (mkdirat(sandbox->root_fd, step->target, step->mode) < 0 && errno != EEXIST)
        return -errno;
    return give_to_guest(sandbox, step);
}

static int step_file(struct sandbox *sandbox, const struct plan_step *step)
{
    CLEANUP(fd_closep)
    int fd =
        openat(sandbox->root_fd, step->target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, step->mode);

    if (fd < 0)
        return -errno;
    if (!step->source)
        return 0;
    return fd_write_all(fd, step->source, step->length ? step->length : strlen(step->source));
}

static int step_symlink(struct sandbox *sandbox, const struct plan_step *step)
{
    if (symlinkat(step->source, sandbox->root_fd, step->target) < 0)
        return -errno;
    return give_to_guest(sandbox, step);
}

/* mount(2) wants paths; the root is still mounted over the base folder. */
static int target_path(const struct sandbox *sandbox, const char *target, char *path, size_t size)
{
    return str_format(path, size, "%s/%s", sandbox->plan->base, target);
}

static int mount_at(struct sandbox *sandbox, const char *source, const char *type,
                    const struct plan_step *step, unsigned long flags, const char *options)
{
    char path[PATH_MAX];
    int r = target_path(sandbox, step->target, path, sizeof(path));

    if (r < 0)
        return r;
    return sys_mount(source, path, type, flags, options) < 0 ? -errno : 0;
}

/* ---- overlays ---- */

#define EMPTY "run" /* an overlay needs two folders; this one stays empty */

static int overlay_mount(const struct sandbox *sandbox, const char *lower, const char *at)
{
    char options[2 * PATH_MAX];
    int r = str_format(options, sizeof(options),
                       "redirect_dir=nofollow,metacopy=off,xino=off,lowerdir=%s:%s/" EMPTY, lower,
                       sandbox->plan->base);

    if (r < 0)
        return r;
    if (strpbrk(lower, ":,\\")) /* the option has no good way to say them */
        return -EINVAL;
    return sys_mount("bailey", at, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, options) < 0
               ? -errno
               : 0;
}

/* A tree that the launcher cloned has no path until it is mounted: on top of what is aside. */
static int lower_aside(const struct sandbox *sandbox, int lower_fd, const char **lower)
{
    if (lower_fd < 0)
        return 0;
    *lower = sandbox->plan->aside;
    return sys_move_mount(lower_fd, "", AT_FDCWD, *lower, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

/*
 * Must: come before the steps. The overlay is mounted aside and becomes the working folder, from
 * which the steps bind; other mounts may hide it there.
 */
static int overlay_begin(struct sandbox *sandbox)
{
    const struct sandbox_plan *plan = sandbox->plan;
    const char *lower = plan->overlay.lower;
    int r;

    if (plan->has_shared)
        sandbox_lack(sandbox, ISOLATION_LAYER_OVERLAY, -EXDEV);
    if (plan->aside && mkdirat(sandbox->root_fd, EMPTY, 0755) < 0 && errno != EEXIST)
        return -errno;
    if (!lower)
        return 0;
    r = lower_aside(sandbox, plan->overlay.lower_fd, &lower);
    if (r < 0)
        return r;
    r = overlay_mount(sandbox, lower, plan->aside);
    if (r < 0) {
        sandbox_lack(sandbox, ISOLATION_LAYER_OVERLAY, r);
        return 0;
    }
    sandbox->has_overlay = true;
    return chdir(plan->aside) < 0 ? -errno : 0;
}

/* Out of the overlay, or, where that could not be mounted, out of the folder below it. */
static int bind_part(struct sandbox *sandbox, const struct plan_step *step)
{
    const struct plan_overlay *overlay = &sandbox->plan->overlay;
    const char *within = step->within[0] ? step->within : ".";
    char path[PATH_MAX];
    int r;

    if (sandbox->has_overlay)
        return mount_at(sandbox, within, NULL, step, MS_BIND, NULL);
    if (overlay->lower_fd < 0)
        return mount_at(sandbox, step->source, NULL, step, MS_BIND | MS_REC, NULL);
    r = str_format(path, sizeof(path), "%s/%s", sandbox->plan->aside, within);
    return r < 0 ? r : mount_at(sandbox, path, NULL, step, MS_BIND | MS_REC, NULL);
}

/* An overlay of its own, or, where that cannot be mounted, the folder. */
static int bind_own(struct sandbox *sandbox, const struct plan_step *step, bool *ret_is_own)
{
    const char *lower = step->source;
    char at[PATH_MAX];
    int r = lower_aside(sandbox, step->source_fd, &lower);

    if (r == 0)
        r = target_path(sandbox, step->target, at, sizeof(at));
    if (r < 0)
        return r;
    r = overlay_mount(sandbox, lower, at);
    *ret_is_own = r == 0;
    if (r == 0)
        return 0;
    sandbox_lack(sandbox, ISOLATION_LAYER_OVERLAY, r);
    return mount_at(sandbox, lower, NULL, step, MS_BIND | MS_REC, NULL);
}

static void overlay_note(struct sandbox *sandbox)
{
    if (sandbox->plan->aside && !(sandbox->missing & ISOLATION_LAYER_BIT(ISOLATION_LAYER_OVERLAY)))
        sandbox_have(sandbox, ISOLATION_LAYER_OVERLAY);
}

static int attach_tree(struct sandbox *sandbox, const struct plan_step *step)
{
    if (step->source_fd < 0)
        return mount_at(sandbox, step->source, NULL, step, MS_BIND | MS_REC, NULL);
    return sys_move_mount(step->source_fd, "", sandbox->root_fd, step->target,
                          MOVE_MOUNT_F_EMPTY_PATH) < 0
               ? -errno
               : 0;
}

/*
 * A host folder or file, read-only with everything below it (but for an installer's own folder),
 * cut off from the host's later mounts. The old call for the bind: a detached tree per bind costs
 * the kernel a mount namespace each.
 */
static int attach_host(struct sandbox *sandbox, const struct plan_step *step)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        .propagation = MS_PRIVATE,
    };
    bool is_own = step->inodes == INODES_OF_PART && sandbox->has_overlay;
    int r;

    if (!step->is_written)
        attr.attr_set |= MOUNT_ATTR_RDONLY;
    if (step->no_exec)
        attr.attr_set |= MOUNT_ATTR_NOEXEC;
    if (step->inodes == INODES_OF_PART)
        r = bind_part(sandbox, step);
    else if (step->inodes == INODES_OF_OWN)
        r = bind_own(sandbox, step, &is_own);
    else
        r = attach_tree(sandbox, step);
    if (r < 0 || (is_own && !step->no_exec)) /* an overlay has these flags, and a bind of it too */
        return r;
    if (sys_mount_setattr(sandbox->root_fd, step->target, AT_RECURSIVE, &attr) < 0)
        return -errno;
    return 0;
}

static int step_bind_dir(struct sandbox *sandbox, const struct plan_step *step)
{
    if (mkdirat(sandbox->root_fd, step->target, 0755) < 0 && errno != EEXIST)
        return -errno;
    return attach_host(sandbox, step);
}

static int make_node(struct sandbox *sandbox, const char *target)
{
    if (mknodat(sandbox->root_fd, target, S_IFREG | 0644, 0) < 0 && errno != EEXIST)
        return -errno;
    return 0;
}

static int step_bind_file(struct sandbox *sandbox, const struct plan_step *step)
{
    int r = make_node(sandbox, step->target);

    return r < 0 ? r : attach_host(sandbox, step);
}

/* Device nodes cannot be made in a user namespace; the host's are shown, without nodev. */
static int step_device(struct sandbox *sandbox, const struct plan_step *step)
{
    struct mount_attr attr = {.attr_set =
                                  MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
    int r = make_node(sandbox, step->target);

    if (r == 0)
        r = mount_at(sandbox, step->source, NULL, step, MS_BIND, NULL);
    if (r < 0)
        return r;
    /* Read-only is the node's mode and times; the device is written all the same. */
    return sys_mount_setattr(sandbox->root_fd, step->target, 0, &attr) < 0 ? -errno : 0;
}

/* The folder is mounted on itself: that mount stays writable when the root's becomes read-only. */
static int step_share(struct sandbox *sandbox, const struct plan_step *step)
{
    char path[PATH_MAX];
    int r = target_path(sandbox, step->target, path, sizeof(path));

    if (r < 0)
        return r;
    if (mkdirat(sandbox->root_fd, step->target, step->mode) < 0)
        return -errno;
    r = give_to_guest(sandbox, step);
    return r < 0 ? r : mount_at(sandbox, path, NULL, step, MS_BIND, NULL);
}

static int step_devpts(struct sandbox *sandbox, const struct plan_step *step)
{
    if (mkdirat(sandbox->root_fd, step->target, 0755) < 0)
        return -errno;
    return mount_at(sandbox, "devpts", "devpts", step, MS_NOSUID | MS_NOEXEC, step->source);
}

/*
 * Without its own /proc the warden measures the box's memory through the one outside. There it can
 * read only its own children: others belong to a user namespace in which it has no rights.
 */
static void keep_outer_proc(struct sandbox *sandbox)
{
    char text[32] = "";

    if (sandbox->plan->watch_memory_bytes == 0 ||
        readlink("/proc/self", text, sizeof(text) - 1) <= 0)
        return;
    sandbox->outer_pid = (pid_t)strtol(text, NULL, 10);
    sandbox->outer_proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/*
 * Inside an outer container that hides parts of /proc the kernel refuses a fresh one, which would
 * show them. The box then has an empty /proc; that is said, and the steps on it are passed over.
 */
static int step_proc(struct sandbox *sandbox, const struct plan_step *step)
{
    int r = mount_at(sandbox, "proc", "proc", step, MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);

    if (r == -EPERM) {
        sandbox_lack(sandbox, ISOLATION_LAYER_PROC, r);
        keep_outer_proc(sandbox);
        return 0;
    }
    if (r < 0)
        return r;
    sandbox->proc_fd =
        sys_open_tree(sandbox->root_fd, step->target, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (sandbox->proc_fd < 0)
        return -errno;
    sandbox_have(sandbox, ISOLATION_LAYER_PROC);
    return 0;
}

static int step_mask_file(struct sandbox *sandbox, const struct plan_step *step)
{
    return sandbox->proc_fd < 0 ? 0 : mount_at(sandbox, "/dev/null", NULL, step, MS_BIND, NULL);
}

/* Where one id is shared the empty folder is the guest's own: it must not be written either. */
static int step_mask_dir(struct sandbox *sandbox, const struct plan_step *step)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    char empty[PATH_MAX];
    int r = target_path(sandbox, "run", empty, sizeof(empty)); /* an empty folder of ours */

    if (sandbox->proc_fd < 0)
        return 0;
    if (r == 0)
        r = mount_at(sandbox, empty, NULL, step, MS_BIND, NULL);
    if (r < 0)
        return r;
    return sys_mount_setattr(sandbox->root_fd, step->target, 0, &attr) < 0 ? -errno : 0;
}

static int step_proc_seal(struct sandbox *sandbox, const struct plan_step *step)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

    if (sandbox->proc_fd < 0)
        return 0;
    if (sys_mount_setattr(sandbox->root_fd, step->target, 0, &attr) < 0)
        return -errno;
    return 0;
}

static int (*const step_table[_STEP_KIND_MAX])(struct sandbox *, const struct plan_step *) = {
    [STEP_DIR] = step_dir,
    [STEP_FILE] = step_file,
    [STEP_SYMLINK] = step_symlink,
    [STEP_BIND_DIR] = step_bind_dir,
    [STEP_BIND_FILE] = step_bind_file,
    [STEP_DEVICE] = step_device,
    [STEP_SHARE] = step_share,
    [STEP_DEVPTS] = step_devpts,
    [STEP_PROC] = step_proc,
    [STEP_MASK_FILE] = step_mask_file,
    [STEP_MASK_DIR] = step_mask_dir,
    [STEP_PROC_SEAL] = step_proc_seal,
};

int stage_root_steps(struct sandbox *sandbox)
{
    int begun = overlay_begin(sandbox);

    if (begun < 0)
        return begun;
    for (size_t i = 0; i < sandbox->plan->step_count; i++) {
        const struct plan_step *step = &sandbox->plan->steps[i];
        int r = step_table[step->kind](sandbox, step);

        if (r < 0) {
            sandbox->failed_step = (uint16_t)(i + 1);
            return r;
        }
    }
    overlay_note(sandbox);
    return 0;
}

/*
 * Must: be the last stage about mounts. The old root is stacked under the new one and detached.
 * Before it becomes read-only a clone of the root's own mount is kept for the warden: each share is
 * a separate mount, and the kernel does not rename from one mount to another. Costs 5 us.
 */
int stage_root_pivot(struct sandbox *sandbox)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

    sandbox->disk_fd =
        sys_open_tree(sandbox->root_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (sys_mount_setattr(sandbox->root_fd, "", AT_EMPTY_PATH, &attr) < 0)
        return -errno;
    if (fchdir(sandbox->root_fd) < 0 || sys_pivot_root(".", ".") < 0)
        return -errno;
    if (sys_umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -errno;
    fd_closep(&sandbox->root_fd);
    sandbox->root_fd = -1;
    return 0;
}

/* The folders that file frames may name, as descriptors: names are resolved beneath them. */
int stage_shares(struct sandbox *sandbox)
{
    for (int i = 0; i < _SHARE_MAX; i++) {
        if (!sandbox->plan->share_path[i])
            continue;
        if (sandbox->plan->has_container)
            sandbox->failed_step = (uint16_t)(i + 1);
        sandbox->share_fd[i] =
            open(sandbox->plan->share_path[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sandbox->share_fd[i] < 0)
            return -errno;
    }
    return 0;
}
