/* ids.c - the ids of warden and guest, and removing what they could learn about their caller. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "sandbox/stage.h"

/*
 * Raw calls: glibc's wrappers would signal every thread; there is only one. `saved_id` may be -1:
 * the saved one stays as it is.
 */
static int set_ids(uid_t id, uid_t saved_id, bool clears_groups)
{
    if (clears_groups && syscall(SYS_setgroups, 0, NULL) < 0)
        return -errno;
    if (syscall(SYS_setresgid, id, id, id) < 0)
        return -errno;
    if (syscall(SYS_setresuid, id, id, saved_id) < 0)
        return -errno;
    return 0;
}

/*
 * Must: come before the ids change, after which the file belongs to the host's root. The warden
 * raises its own score for the moment of a guest's fork, so that the kernel never kills the warden.
 * Without such a file (an outer container hides it) this protection is missing.
 */
int stage_oom_score(struct sandbox *sandbox)
{
    static const char name[] = "/proc/self/oom_score_adj";

    sandbox->oom_fd = open(name, O_WRONLY | O_CLOEXEC);
    /* oom_score_adj cannot be set lower than the container's own value. */
    if (sandbox->plan->has_container &&
        fd_read_text_at(AT_FDCWD, name, sandbox->oom_score, sizeof(sandbox->oom_score)) < 0)
        str_copy(sandbox->oom_score, sizeof(sandbox->oom_score), "0");
    return 0;
}

/*
 * What a box may take of objects that the kernel counts for the owner of its user namespace too:
 * the caller's own inotify must not run out because of a guest. Refused in some containers: then
 * not.
 */
int stage_counts(struct sandbox *sandbox)
{
    (void)sandbox;
    fd_write_text_at(AT_FDCWD, "/proc/sys/user/max_inotify_instances", "16");
    fd_write_text_at(AT_FDCWD, "/proc/sys/user/max_inotify_watches", "8192");
    return 0;
}

/* Signals that our caller ignores (SIGPIPE, those of nohup) would stay ignored through every exec.
 */
int stage_signals(struct sandbox *sandbox)
{
    (void)sandbox;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* fails for KILL and STOP, which need nothing */
    return 0;
}

/*
 * Must: come after the id maps are written. The warden is root of its own namespace only. The saved
 * id stays the engine's until the control group is joined: on v1 only a process with the id that
 * opened the group's file may enter through it (unless that was root), and the saved id counts.
 */
int stage_ids(struct sandbox *sandbox)
{
    /* A process that is not root in a container keeps its id; its group may have another number. */
    if (sandbox->plan->has_container && geteuid() != 0)
        return 0;
    return set_ids(sandbox->plan->warden_id, (uid_t)-1, sandbox->plan->clears_groups);
}

/* Must: come after the control group, before the capabilities go. */
int stage_saved_id(struct sandbox *sandbox)
{
    uid_t id = sandbox->plan->warden_id;

    return syscall(SYS_setresuid, id, id, id) < 0 ? -errno : 0;
}

/*
 * The child has a copy of its parent's memory; /proc/1/cmdline would show the guest how bailey was
 * called. Must: set the death signal after the ids, whose change clears it, and become undumpable
 * before any guest exists, so that not even a guest with the same id can read or patch PID 1.
 */
int stage_scrub(struct sandbox *sandbox)
{
    const struct sandbox_plan *plan = sandbox->plan;

    if (plan->scrub)
        memset(plan->scrub, 0, plan->scrub_length);
    /*
     * A new session: a signal to the engine's process group must not end the process that cleans up
     * after it.
     */
    if (setsid() < 0 && getsid(0) != getpid()) /* a container's first process may have one */
        return -errno;
    if (prctl(PR_SET_NAME, "warden") < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        return -errno;
    /*
     * Without a pid namespace the warden has to outlive its parent long enough to end the guest: it
     * learns of the death from the closed channel. In a container the parent is a thread of another
     * program, which may end at any time.
     */
    if (plan_makes_box(plan) && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    if (!plan->has_namespaces && prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return -errno;
    return 0;
}

/* Must: come before the capabilities go. */
int guest_ids(const struct sandbox *sandbox, const struct guest_start *start)
{
    int r;

    (void)start;
    if (!sandbox->plan->has_split)
        return 0;
    r = set_ids(sandbox->plan->guest_id, sandbox->plan->guest_id, sandbox->plan->clears_groups);
    /* A new id makes a process what fs.suid_dumpable says; its filter is not on yet. */
    if (r == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        r = -errno;
    return r;
}
