/*
 * make.c - one box from specification to READY, and its end; see launcher.h.
 *
 * Everything that allocates, parses or may be refused happens in a draft before the clone. Where
 * the best way is refused the next is tried (enum way): the network with the clone, then a private
 * folder behind Landlock and seccomp. Whether what then holds is enough is decided by the
 * specification's minimum, never quietly.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "launcher/inside.h"
#include "sandbox/sandbox.h"
#include "sys/calls.h"
#include "warden/warden.h"

/* The network namespace is made inside, beside the rest (sandbox/names.c), wherever that works. */
#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

#define GO_SPLIT 1u  /* two ids are mapped */
#define GO_GROUPS 2u /* setgroups(2) is allowed */

#define GROUP_V2 8u /* beside the bits of the controllers: the child was cloned into the group */

/* Set once at start, read by every clone: where this process's own arguments are. */
static struct {
    char *start;
    size_t length;
} arguments;

void launcher_remember_arguments(int argc, char **argv, char **env)
{
    const char *end = argc > 0 ? argv[argc - 1] + strlen(argv[argc - 1]) + 1 : NULL;

    if (!end)
        return;
    /* The environment follows the arguments in memory; only while it does is it ours to wipe. */
    for (size_t i = 0; env[i]; i++) {
        if (env[i] == end)
            end = env[i] + strlen(env[i]) + 1;
    }
    arguments.start = argv[0];
    arguments.length = (size_t)(end - argv[0]);
}

static void timing(struct launched *launched, const char *name, uint64_t *since)
{
    uint64_t now = clock_now_ns();

    if (launched->timing_count < LAUNCH_TIMINGS_MAX)
        launched->timings[launched->timing_count++] =
            (struct launch_timing){.name = name, .ns = now - *since};
    *since = now;
}

/* ---- in the child ---- */

struct child {
    struct sandbox_plan plan; /* its own copy: the last word on ids and group comes later */
    struct cgroup group;
    int channel_fd;
};

/* A number from the engine, with the descriptors that came along. */
static int receive_number(struct child *child, enum frame_type type, uint32_t *ret, int *fds,
                          size_t *fd_count)
{
    uint8_t data[FRAME_HEADER + 16];
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * _CONTROLLER_MAX)];
    } control;
    struct iovec part = {.iov_base = data, .iov_len = sizeof(data)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header;
    struct frame frame;
    ssize_t length;

    do
        length = recvmsg(child->channel_fd, &message, MSG_CMSG_CLOEXEC);
    while (length < 0 && errno == EINTR);
    if (length <= 0)
        _exit(1); /* the engine is gone: nobody to tell */
    if (frame_decode(data, (size_t)length, &frame) < 0 || frame.type != type)
        return -EPROTO;
    header = CMSG_FIRSTHDR(&message);
    *fd_count = 0;
    if (header && header->cmsg_type == SCM_RIGHTS) {
        *fd_count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(header), *fd_count * sizeof(int));
    }
    return message_number_unpack(&frame, ret);
}

static int wait_maps(void *ctx)
{
    struct child *child = ctx;
    int fds[_CONTROLLER_MAX];
    size_t fd_count;
    uint32_t flags;
    int r = receive_number(child, FRAME_GO, &flags, fds, &fd_count);

    if (r < 0)
        return r;
    if (child->plan.has_namespaces) {
        child->plan.has_split = flags & GO_SPLIT;
        child->plan.clears_groups = flags & GO_GROUPS;
        child->plan.warden_id = child->plan.has_split ? 0 : GUEST_ID;
    }
    return 0;
}

static int wait_group(void *ctx)
{
    struct child *child = ctx;
    int fds[_CONTROLLER_MAX];
    size_t fd_count, at = 0;
    uint32_t mask;
    int r = receive_number(child, FRAME_GROUP, &mask, fds, &fd_count);

    if (r < 0)
        return r;
    if (mask == 0)
        return 0; /* none could be had */
    cgroup_init(&child->group);
    child->group.flavour = mask & GROUP_V2 ? CGROUP_V2 : CGROUP_V1;
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        if (mask & (1u << i) && at < fd_count)
            child->group.join_fd[i] = fds[at++];
    }
    draft_grouped(&child->plan, &child->group);
    return 0;
}

static _Noreturn void child_failed(const struct child *child, const struct sandbox *sandbox, int r)
{
    struct message_fail fail = {
        .stage = sandbox->failed_stage, .error = (uint16_t)-r, .step = sandbox->failed_step};
    uint8_t data[FRAME_HEADER + 16];
    ssize_t length = message_fail_pack(&fail, data + FRAME_HEADER, 16);

    frame_header(data, FRAME_FAILED, 0, (size_t)length);
    send(child->channel_fd, data, FRAME_HEADER + (size_t)length, MSG_NOSIGNAL);
    _exit(1);
}

/* The warden keeps nothing of the engine's: standard streams go nowhere, the rest is closed. */
static int close_others(const struct child *child, const struct sandbox *sandbox)
{
    int keep[] = {child->channel_fd,
                  sandbox->proc_fd,
                  sandbox->outer_proc_fd,
                  sandbox->oom_fd,
                  sandbox->ruleset_fd,
                  sandbox->share_fd[SHARE_WORKSPACE],
                  sandbox->share_fd[SHARE_TMP],
                  sandbox->share_fd[SHARE_HOME],
                  sandbox->share_fd[SHARE_DATA],
                  sandbox->disk_fd};
    int low = 3;

    for (;;) {
        int next = -1;

        for (size_t i = 0; i < ARRAY_SIZE(keep); i++) {
            if (keep[i] >= low && (next < 0 || keep[i] < next))
                next = keep[i];
        }
        if (next < 0)
            return sys_close_range((unsigned)low, ~0U, 0) < 0 ? -errno : 0;
        if (next > low && sys_close_range((unsigned)low, (unsigned)next - 1, 0) < 0)
            return -errno;
        low = next + 1;
    }
}

static _Noreturn void child_run(struct child *child)
{
    struct sandbox_host host = {.wait_maps = wait_maps, .wait_group = wait_group, .ctx = child};
    struct sandbox sandbox;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int r = 0;

    sandbox_init(&sandbox, &child->plan);
    for (int fd = 0; fd < 3 && r == 0; fd++)
        r = null_fd < 0 || dup2(null_fd, fd) < 0 ? -errno : 0;
    if (r == 0)
        r = sandbox_bring_up(&sandbox, &host);
    if (r == 0)
        r = close_others(child, &sandbox);
    if (r < 0)
        child_failed(child, &sandbox, r);
    warden_run(&sandbox, child->channel_fd);
}

/* ---- in the launcher ---- */

static int send_number(int channel_fd, enum frame_type type, uint32_t number, const int *fds,
                       size_t fd_count, struct error *err)
{
    uint8_t data[FRAME_HEADER + 4];
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int) * _CONTROLLER_MAX)];
    } control = {0};
    struct iovec part = {.iov_base = data, .iov_len = sizeof(data)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    frame_header(data, type, 0, 4);
    message_number_pack(number, data + FRAME_HEADER, 4);
    if (fd_count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * fd_count);
    }
    /* A child that is gone has said why before it went; that is read next. */
    if (sendmsg(channel_fd, &message, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
        return error_errno(err, "starting the box");
    return 0;
}

static int send_go(int channel_fd, bool split, bool groups, struct error *err)
{
    uint32_t flags = (split ? GO_SPLIT : 0) | (groups ? GO_GROUPS : 0);

    return send_number(channel_fd, FRAME_GO, flags, NULL, 0, err);
}

/* Which controllers hold, and on v1 the files through which the child enters their groups. */
static int send_group(const struct launched *launched, struct error *err)
{
    const struct cgroup *group = &launched->group;
    int fds[_CONTROLLER_MAX];
    size_t fd_count = 0;
    uint32_t mask = group->flavour == CGROUP_V2 ? GROUP_V2 : 0;

    for (int i = 0; i < _CONTROLLER_MAX && group->flavour != CGROUP_NONE; i++) {
        if (group->join_fd[i] < 0)
            continue;
        mask |= 1u << i;
        if (group->flavour == CGROUP_V1)
            fds[fd_count++] = group->join_fd[i];
    }
    return send_number(launched->channel_fd, FRAME_GROUP, mask, fds, fd_count, err);
}

static int clone_warden(struct child *child, struct launched *launched, struct error *err)
{
    CLEANUP(fd_closep) int ours = -1;
    int pair[2];
    int group_fd = -1;
    uint64_t flags = 0;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the channel to the box");
    ours = pair[0];
    child->channel_fd = pair[1];
    if (launched->group.flavour == CGROUP_V2)
        group_fd = launched->group.join_fd[0];
    if (child->plan.has_namespaces)
        flags = NAMESPACES | (child->plan.has_network ? CLONE_NEWNET : 0);
    pid = sys_clone_fork(flags, &launched->pid_fd, group_fd);
    if (pid == 0) {
        close(pair[0]);
        child_run(child);
    }
    close(pair[1]);
    if (pid < 0)
        return error_stage(err, "clone namespaces", -errno);
    launched->pid = pid;
    launched->channel_fd = fd_take(&ours);
    return 0;
}

/* The words for a failed stage; a step of the root names what it was about. */
static int stage_error(const struct draft *draft, const struct message_fail *fail,
                       struct error *err)
{
    static const char *const words[_STEP_KIND_MAX] = {
        [STEP_DIR] = "make folder", [STEP_FILE] = "write file",
        [STEP_SYMLINK] = "link",    [STEP_BIND_DIR] = "bind",
        [STEP_BIND_FILE] = "bind",  [STEP_DEVICE] = "bind device",
        [STEP_SHARE] = "mount",     [STEP_DEVPTS] = "mount devpts on",
        [STEP_PROC] = "mount",      [STEP_MASK_FILE] = "mask",
        [STEP_MASK_DIR] = "mask",   [STEP_PROC_SEAL] = "seal",
    };
    const char *name = sandbox_stage_name(fail->stage);
    int r = error_stage(err, name, -(int)fail->error);

    if (fail->step > 0 && fail->step <= draft->plan.step_count && err) {
        const struct plan_step *step = &draft->steps[fail->step - 1];

        str_format(err->text, sizeof(err->text), "%s /%s: %s (%s)", words[step->kind], step->target,
                   error_name(fail->error), strerror(fail->error));
    }
    return r;
}

static void note_ready(struct launched *launched, const struct message_ready *ready)
{
    launched->layers = ready->layers & LAYER_ALL;
    launched->missing = ready->missing & LAYER_ALL;
    for (unsigned i = 0; i < ready->stage_count; i++) {
        if (launched->timing_count < LAUNCH_TIMINGS_MAX)
            launched->timings[launched->timing_count++] =
                (struct launch_timing){.name = sandbox_stage_name(i), .ns = ready->stage_ns[i]};
    }
}

/* Blocks until the box stands or has failed; this is the only wait of the launcher. */
static int wait_ready(struct launched *launched, const struct draft *draft, struct error *err)
{
    struct pollfd poll_fd = {.fd = launched->channel_fd, .events = POLLIN};
    static uint8_t data[WIRE_FRAME_MAX];
    struct message_ready ready;
    struct message_fail fail;
    struct frame frame;
    ssize_t length;
    int r;

    do
        r = poll(&poll_fd, 1, BRINGUP_PATIENCE_MS);
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return error_set(err, -ETIMEDOUT, ERROR_BOX_FAILED, "the box did not stand after %d s",
                         BRINGUP_PATIENCE_MS / 1000);
    /* A peer that closed with frames unread is reported first, its own last words after that. */
    do
        length = recv(launched->channel_fd, data, sizeof(data), MSG_DONTWAIT);
    while (length < 0 && (errno == ECONNRESET || errno == EINTR));
    if (length <= 0)
        return error_set(err, -EPIPE, ERROR_BOX_LOST, "the box was lost while it was made");
    if (frame_decode(data, (size_t)length, &frame) < 0)
        return error_set(err, -EPROTO, ERROR_BOX_LOST, "the box sent nonsense while it was made");
    if (frame.type == FRAME_FAILED && message_fail_unpack(&frame, &fail) == 0)
        return stage_error(draft, &fail, err);
    if (frame.type != FRAME_READY || message_ready_unpack(&frame, &ready) < 0 ||
        ready.version != WIRE_VERSION)
        return error_set(err, -EPROTO, ERROR_BOX_LOST, "the box sent nonsense while it was made");
    note_ready(launched, &ready);
    return 0;
}

/* Kills and reaps; the kernel ends everybody in the box before its PID 1 can be reaped. */
static void end_process(struct launched *launched, struct rusage *usage)
{
    if (launched->pid <= 0)
        return;
    /* Without a pid namespace the warden has to end its guests itself: it does when we hang up. */
    fd_closep(&launched->channel_fd);
    launched->channel_fd = -1;
    if (launched->layers & LAYER_BIT(LAYER_PIDNS) || launched->layers == 0)
        sys_pidfd_send_signal(launched->pid_fd, SIGKILL);
    else
        cgroup_stop_forks(&launched->group);
    while (wait4(launched->pid, NULL, __WALL, usage) < 0 && errno == EINTR)
        ;
    launched->pid = 0;
    fd_closep(&launched->pid_fd);
    launched->pid_fd = -1;
}

/* Without one the limits are watched instead, and the result says so. */
static void make_group(const struct launch_spec *spec, struct launched *launched)
{
    struct cgroup_limits limits = {
        .memory_bytes = spec->memory_bytes,
        .pids = spec->pids + 1, /* the warden is one too */
        .cpu_millis = spec->cpu_millis,
    };
    static unsigned serial;
    char name[64];

    if (launched->has_tried_group)
        return; /* for an earlier way, or before the clone */
    launched->has_tried_group = true;
    if (spec->site) {
        launched->site = *spec->site;
        str_format(name, sizeof(name), "box-%u", serial++);
    } else {
        cgroup_find(&launched->site);
        str_format(name, sizeof(name), "bailey-%d-%u", (int)getpid(), serial++);
    }
    cgroup_make(&launched->site, name, &limits, &launched->group, NULL);
}

/* One try, one way. On failure the process is gone; group and folder stay for the caller. */
static int try_way(const struct launch_spec *spec, struct draft *draft, const struct id_plan *ids,
                   struct launched *launched, struct error *err)
{
    struct child child = {.plan = draft->plan};
    bool split = false, groups = false;
    uint64_t since = clock_now_ns();
    int r;

    child.plan.scrub = arguments.start;
    child.plan.scrub_length = arguments.length;
    r = clone_warden(&child, launched, err);
    if (r < 0)
        return r;
    timing(launched, "clone", &since);
    if (draft->plan.has_namespaces)
        r = ids_write(launched, ids, &split, &groups, err);
    if (r == 0)
        r = send_go(launched->channel_fd, split, groups, err);
    timing(launched, "id maps", &since);
    if (r == 0)
        make_group(spec, launched); /* while the child builds its root */
    if (r == 0)
        r = send_group(launched, err);
    timing(launched, "make cgroup (meanwhile)", &since);
    if (r == 0) {
        draft_holders(launched);
        /* An engine sees other process numbers than those in the names of what is left behind. */
        if (!spec->site) {
            cgroup_sweep(&launched->site);
            private_sweep();
        }
        r = wait_ready(launched, draft, err);
    }
    if (r < 0) {
        struct rusage usage;

        end_process(launched, &usage);
    }
    return r;
}

/* Was it a refusal of namespaces as such, so that the other way makes sense? */
static bool is_refusal(int r, const struct error *err)
{
    static const char *const stages[] = {"clone namespaces", "write id maps", "set ids",
                                         "enter network", "mount root"};

    if (r != -EPERM && r != -EACCES && r != -ENOSYS && r != -EINVAL && r != -ENOSPC && r != -EUSERS)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
        if (str_equal(err->stage, stages[i]))
            return true;
    }
    return false;
}

static int check_minimum(const struct launched *launched, enum isolation minimum,
                         const struct error *why, struct error *err)
{
    uint32_t lacking = isolation_lacking(launched->layers, minimum);
    char names[256], remedies[320] = "";

    if (isolation_of_layers(launched->layers) >= minimum)
        return 0;
    layer_list(lacking, names, sizeof(names));
    for (int i = 0; i < _LAYER_MAX && !remedies[0]; i++) {
        if (lacking & LAYER_BIT(i))
            str_copy(remedies, sizeof(remedies), layer_table[i].remedy);
    }
    return error_set(err, -EPERM, ERROR_REFUSED,
                     "isolation '%s' is wanted and cannot be had here: missing %s%s%s%s. %s "
                     "('bailey doctor' shows all)",
                     isolation_name(minimum), names, why->code ? " (" : "",
                     why->code ? why->text : "", why->code ? ")" : "", remedies);
}

static void draft_free(struct draft **draft)
{
    if (*draft)
        draft_close(*draft);
    free(*draft);
}

/* How a box is made, best first: each is tried when the one before it was refused as such. */
enum way {
    WAY_NAMESPACES,     /* all of them, the network's by a helper */
    WAY_CLONED_NETWORK, /* the same where setns(2) is refused */
    WAY_PRIVATE_FOLDER, /* none: Landlock and seccomp */
    _WAY_MAX,
};

static int make_way(const struct launch_spec *spec, enum way way, const struct id_plan *ids,
                    struct launched *launched, struct error *err)
{
    CLEANUP(draft_free) struct draft *draft = calloc(1, sizeof(*draft));
    uint64_t since = clock_now_ns();
    int r;

    if (!draft)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    if (way == WAY_PRIVATE_FOLDER)
        r = private_draft(draft, spec, ids, launched, err);
    else
        r = root_draft(draft, spec, err);
    draft->plan.has_network = way == WAY_CLONED_NETWORK;
    if (r < 0)
        return r;
    draft_common(draft, spec, launched);
    if (draft->is_full)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE, "the plan of the box does not fit");
    timing(launched, "plan", &since);
    r = try_way(spec, draft, ids, launched, err);
    if (r == -EACCES && launched->group.flavour == CGROUP_V2 && err &&
        str_equal(err->stage, "clone namespaces")) {
        /* The group may not be entered by the likes of us: made without, and said so. */
        cgroup_remove(&launched->group);
        return make_way(spec, way, ids, launched, err);
    }
    return r;
}

int launcher_make(const struct launch_spec *spec, struct launched *ret, struct error *err)
{
    struct launched launched = {.pid_fd = -1, .channel_fd = -1, .folder_fd = -1};
    struct error own = {0}, why = {0};
    uint64_t since = clock_now_ns();
    struct id_plan ids;
    int r;

    ids_choose(spec, &ids);
    timing(&launched, "choose ids", &since);
    cgroup_init(&launched.group);
    if (spec->site ? spec->site->flavour == CGROUP_V2 : !cgroup_is_v1())
        make_group(spec, &launched);
    timing(&launched, "cgroup v2", &since);
    r = make_way(spec, WAY_NAMESPACES, &ids, &launched, &own);
    for (enum way way = WAY_CLONED_NETWORK; way < _WAY_MAX && r < 0 && is_refusal(r, &own); way++) {
        if (way == WAY_CLONED_NETWORK && !str_equal(own.stage, "enter network"))
            continue;
        if (way == WAY_PRIVATE_FOLDER && spec->ids != LAUNCH_IDS_CHOOSE)
            break; /* an engine's box promises a /tmp of its own */
        why = own;
        own = (struct error){0};
        r = make_way(spec, way, &ids, &launched, &own);
    }
    if (r == 0)
        r = check_minimum(&launched, spec->minimum, &why, &own);
    *ret = launched;
    if (r < 0) {
        launcher_end(ret, NULL);
        if (err)
            *err = own;
        return r;
    }
    fd_set_nonblocking(ret->channel_fd, true);
    return 0;
}

uint64_t launcher_oom_kills(const struct launched *launched)
{
    return cgroup_oom_kills(&launched->group);
}

void launcher_end(struct launched *launched, struct launch_usage *usage)
{
    struct rusage counted = {0};

    if (!launched)
        return;
    end_process(launched, &counted);
    if (usage) {
        usage->cpu_us = (uint64_t)(counted.ru_utime.tv_sec + counted.ru_stime.tv_sec) * 1000000 +
                        (uint64_t)(counted.ru_utime.tv_usec + counted.ru_stime.tv_usec);
        usage->max_rss_bytes = (uint64_t)counted.ru_maxrss * 1024;
        usage->oom_kills = launcher_oom_kills(launched);
    }
    cgroup_remove(&launched->group);
    private_remove(launched->folder);
    launched->folder[0] = 0;
    if (launched->folder_fd > 0)
        fd_closep(&launched->folder_fd);
    launched->folder_fd = -1;
}
