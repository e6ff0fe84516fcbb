/*
 * join.c - a process that was forked outside a box (by a zygote) becomes a guest of it, without an
 * exec.
 *
 * A cold guest is a fork of the warden and inherits most of its isolation; this process must apply
 * all of it by itself. Its fork has put it into the box's namespaces (zygote/module.c), where it
 * has all capabilities for a few system calls. The kernel dictates the order: the control group
 * while the process still has the id that opened the group's file (v1), then everything that a cold
 * guest does. Where a cold guest has the warden's filter below its own, this one has its zygote's,
 * which allows everything a guest may do. It is not dumpable during all of this: in a box where all
 * processes have the same id a guest could otherwise patch it through /proc/PID/mem before its
 * filter is active.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sandbox/stage.h"
#include "sys/calls.h"

#define HIGH_FD 64      /* above all descriptor numbers used here */
#define FIRST_FREE_FD 6 /* 0-3 are the guest's; 4 and 5 are closed when it has joined */

static int join_group(struct sandbox *sandbox, struct guest_join *join)
{
    (void)sandbox;
    for (size_t i = 0; i < ARRAY_SIZE(join->group_fd); i++) {
        if (join->group_fd[i] >= 0 && write(join->group_fd[i], "0", 1) < 0)
            return -errno;
    }
    return 0;
}

static int move_fd(int *fd, int to)
{
    if (dup2(*fd, to) < 0)
        return -errno;
    *fd = to;
    return 0;
}

/* Must come after the namespaces: /dev/null is the box's own. */
static int join_descriptors(struct sandbox *sandbox, struct guest_join *join)
{
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int *fds[] = {&null_fd,         &join->out_fd,  &join->err_fd,
                  &join->socket_fd, &join->told_fd, &join->ruleset_fd};
    int r = 0;

    /* Moved to high numbers first: a descriptor's number may be another's target. */
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        if (*fds[i] < 0)
            continue;
        *fds[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, HIGH_FD);
        if (*fds[i] < 0)
            return -errno;
    }
    if (null_fd < 0)
        return -ENODEV;
    for (size_t i = 0; i < ARRAY_SIZE(fds) && r == 0; i++) {
        if (*fds[i] >= 0)
            r = move_fd(fds[i], (int)i);
        else
            close((int)i);
    }
    /* Programs that the guest starts do not inherit its socket. */
    if (r == 0 && fcntl(join->socket_fd, F_SETFD, FD_CLOEXEC) < 0)
        r = -errno;
    if (r == 0 && sys_close_range(FIRST_FREE_FD, ~0U, 0) < 0)
        r = -errno;
    sandbox->ruleset_fd = join->ruleset_fd;
    return r;
}

static int join_signals(struct sandbox *sandbox, struct guest_join *join)
{
    sigset_t none;

    (void)sandbox;
    (void)join;
    umask(022);
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

static int join_limits(struct sandbox *sandbox, struct guest_join *join)
{
    (void)join;
    return guest_rlimits(sandbox, NULL);
}

/* Entering the user namespace gave all capabilities there, including the bounding set. */
static int join_ids(struct sandbox *sandbox, struct guest_join *join)
{
    int r;

    if (!join->is_from_outside)
        return 0;
    r = stage_bounding_set(sandbox);
    return r < 0 ? r : guest_ids(sandbox, NULL);
}

static int join_caps(struct sandbox *sandbox, struct guest_join *join)
{
    int r = guest_caps(sandbox, NULL);

    (void)join;
    if (r < 0)
        return r;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int join_folder(struct sandbox *sandbox, struct guest_join *join)
{
    static const struct guest_start workspace;

    (void)join;
    return guest_folder(sandbox, &workspace);
}

static int join_landlock(struct sandbox *sandbox, struct guest_join *join)
{
    int r = guest_landlock(sandbox, NULL);

    if (join->ruleset_fd >= 0)
        close(join->ruleset_fd);
    join->ruleset_fd = -1;
    return r;
}

/* Must be the last step. */
static int join_filter(struct sandbox *sandbox, struct guest_join *join)
{
    (void)join;
    return guest_filter(sandbox, NULL);
}

static int join_session(struct sandbox *sandbox, struct guest_join *join)
{
    (void)sandbox;
    (void)join;
    return setsid() < 0 ? -errno : 0;
}

static const struct {
    const char *name;
    int (*run)(struct sandbox *sandbox, struct guest_join *join);
} stages[] = {
    {"join cgroup", join_group},
    {"set up standard streams", join_descriptors},
    {"reset signals", join_signals},
    {"set resource limits", join_limits},
    {"become the guest's id", join_ids},
    {"drop capabilities", join_caps},
    {"enter the working folder", join_folder},
    {"restrict by landlock", join_landlock},
    {"put on the seccomp filter", join_filter},
    {"start a session", join_session},
};

const char *sandbox_join_stage_name(unsigned stage)
{
    return stage < ARRAY_SIZE(stages) ? stages[stage].name : "unknown stage";
}

int sandbox_join_guest(const struct sandbox_plan *plan, uint32_t layers, struct guest_join *join,
                       uint16_t *ret_stage)
{
    struct sandbox sandbox;

    sandbox_init(&sandbox, plan);
    sandbox.layers = layers;
    for (unsigned i = 0; i < ARRAY_SIZE(stages); i++) {
        int r = stages[i].run(&sandbox, join);

        *ret_stage = (uint16_t)i;
        if (r < 0)
            return r;
    }
    return 0;
}
