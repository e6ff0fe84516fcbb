/* guest.c - from a fork of the warden to the guest's program: the table of its stages. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/guest_stage.h"
#include "sandbox/stage.h"
#include "sys/calls.h"

static int (*const guest_stages[_GUEST_STAGE_MAX])(const struct sandbox *,
                                                   const struct guest_start *) = {
    [GUEST_STAGE_STDIO] = guest_stdio,   [GUEST_STAGE_RLIMITS] = guest_rlimits,
    [GUEST_STAGE_IDS] = guest_ids,       [GUEST_STAGE_CAPS] = guest_caps,
    [GUEST_STAGE_FOLDER] = guest_folder, [GUEST_STAGE_LANDLOCK] = guest_landlock,
    [GUEST_STAGE_FILTER] = guest_filter, [GUEST_STAGE_EXEC] = guest_exec,
};

int sandbox_enter_guest(const struct sandbox *sandbox, const struct guest_start *start,
                        uint16_t *ret_stage)
{
    for (unsigned i = 0; i < ARRAY_SIZE(guest_stages); i++) {
        int r = guest_stages[i](sandbox, start);

        *ret_stage = (uint16_t)i;
        if (r < 0)
            return r;
    }
    return -EINVAL; /* not reached: the last stage executes or fails */
}

/* Every descriptor but 0-2 is closed at exec; a new session, no blocked signal, a plain umask. */
int guest_stdio(const struct sandbox *sandbox, const struct guest_start *start)
{
    sigset_t none;

    (void)sandbox;
    for (int fd = 0; fd < 3; fd++) {
        if (dup2(start->stdio[fd], fd) < 0)
            return -errno;
    }
    if (sys_close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return -errno;
    if (setsid() < 0)
        return -errno;
    if (start->has_terminal && ioctl(0, TIOCSCTTY, 0) < 0)
        return -errno;
    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        return -errno;
    umask(022);
    return 0;
}

/*
 * gVisor has no such limits, and refuses also a lower one, which Linux never does: they are there
 * for the host's kernel, which no guest of it reaches.
 */
static bool may_lack(const struct sandbox_plan *plan, int resource)
{
    return plan->has_container && (resource == RLIMIT_RTPRIO || resource == RLIMIT_NICE ||
                                   resource == RLIMIT_SIGPENDING || resource == RLIMIT_MSGQUEUE);
}

/* A limit above the inherited one needs CAP_SYS_RESOURCE: the lower one stays. */
int guest_rlimits(const struct sandbox *sandbox, const struct guest_start *start)
{
    const struct sandbox_plan *plan = sandbox->plan;

    (void)start;
    for (size_t i = 0; i < plan->rlimit_count; i++) {
        struct rlimit now, wanted;

        if (getrlimit((__rlimit_resource_t)plan->rlimits[i].resource, &now) < 0)
            return -errno;
        wanted.rlim_max = MIN((rlim_t)plan->rlimits[i].value, now.rlim_max);
        wanted.rlim_cur = wanted.rlim_max;
        if (setrlimit((__rlimit_resource_t)plan->rlimits[i].resource, &wanted) < 0 &&
            !(errno == EPERM && may_lack(plan, plan->rlimits[i].resource)))
            return -errno;
    }
    if (plan->cpu_count > 0) {
        cpu_set_t allowed, few;
        unsigned left = plan->cpu_count;

        CPU_ZERO(&few);
        if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
            return -errno;
        for (int cpu = 0; cpu < CPU_SETSIZE && left > 0; cpu++) {
            if (CPU_ISSET(cpu, &allowed)) {
                CPU_SET(cpu, &few);
                left--;
            }
        }
        if (sched_setaffinity(0, sizeof(few), &few) < 0)
            return -errno;
    }
    return 0;
}

/* Must: come after the ids, so that the guest's rights decide whether it may be entered. */
int guest_folder(const struct sandbox *sandbox, const struct guest_start *start)
{
    const char *cwd = start->cwd ? start->cwd : sandbox->plan->share_path[SHARE_WORKSPACE];

    return chdir(cwd) < 0 ? -errno : 0;
}

/* The last descriptor, and at last: until now any other may have had its number. */
static int hand_socket(int fd)
{
    int r = fd == 3 ? fcntl(fd, F_SETFD, 0) : dup2(fd, 3);

    return r < 0 ? -errno : 0;
}

/* execve(2) along PATH; the most telling error is kept, as execvp(3) does. */
int guest_exec(const struct sandbox *sandbox, const struct guest_start *start)
{
    const char *name = start->argv[0];
    char *const *argv = (char *const *)start->argv;
    char *const *env = (char *const *)start->env;
    const char *path = env_value(env, "PATH") ?: "";
    int result = ENOENT;
    uint64_t now = clock_now_ns();

    (void)sandbox;
    if (start->has_socket && hand_socket(start->socket_fd) < 0)
        return -EBADF;
    if (fd_write_all(start->note_fd, &now, sizeof(now)) < 0)
        return -EIO;
    if (strchr(name, '/')) {
        execve(name, argv, env);
        return -errno;
    }
    while (*path) {
        size_t length = strcspn(path, ":");
        char full[PATH_MAX];

        if (str_format(full, sizeof(full), "%.*s/%s", (int)length, path, name) == 0) {
            execve(full, argv, env);
            if (errno != ENOENT && errno != ENOTDIR)
                result = errno;
            if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
                break;
        }
        path += length + (path[length] == ':');
    }
    return -result;
}
