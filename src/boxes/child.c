/*
 * child.c - the cloned child, from its clone to the warden: what it hears from the launcher on the
 * way, and what it says when it fails. System calls only.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "boxes/boxes_private.h"
#include "boxes/plan_builder.h"
#include "sandbox/sandbox.h"
#include "sys/calls.h"
#include "sys/packet.h"
#include "warden/warden.h"

/* A number from the engine, with the descriptors that came along. */
static int receive_number(struct child *child, enum frame_type type, uint32_t *ret,
                          int fds[_CONTROLLER_MAX], size_t *fd_count)
{
    uint8_t data[FRAME_HEADER + 16];
    struct frame frame;
    ssize_t length;

    *fd_count = _CONTROLLER_MAX;
    length = packet_receive(child->channel_fd, data, sizeof(data), fds, fd_count, 0);
    if (length <= 0 && length != -EPROTO)
        _exit(1); /* the engine has gone: there is no one to report to */
    if (length < 0 || frame_decode(data, (size_t)length, &frame) < 0 || frame.type != type)
        return -EPROTO;
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
        return 0; /* none was available */
    cgroup_init(&child->group);
    child->group.flavour = mask & GROUP_V2 ? CGROUP_V2 : CGROUP_V1;
    for (int i = 0; i < _CONTROLLER_MAX; i++) {
        if (mask & (1u << i) && at < fd_count)
            child->group.join_fd[i] = fds[at++];
    }
    plan_builder_grouped(&child->plan, &child->group);
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

/*
 * The warden keeps nothing of the engine's: standard streams are /dev/null, all other descriptors
 * are closed.
 */
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
                  sandbox->disk_fd,
                  sandbox->egress_fd};
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

_Noreturn void child_become_warden(struct child *child)
{
    struct sandbox_host host = {.wait_maps = wait_maps, .wait_group = wait_group, .ctx = child};
    struct sandbox sandbox;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int r = 0;

    /* So that building the box counts as the box's; the group's stage enters it in any case. */
    if (child->cpu_fd >= 0)
        (void)!write(child->cpu_fd, "0", 1);
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
