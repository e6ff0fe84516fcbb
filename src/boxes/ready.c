/*
 * ready.c - what the launcher says to a child that builds its box, and the one answer: READY, with
 * the descriptors that belong outside, or FAILED. Nothing here waits.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "boxes/plan_builder.h"
#include "sandbox/sandbox.h"
#include "sys/packet.h"

static int send_number(int channel_fd, enum frame_type type, uint32_t number, const int *fds,
                       size_t fd_count, struct error *err)
{
    uint8_t data[FRAME_HEADER + 4];
    int r;

    frame_header(data, type, 0, 4);
    message_number_pack(number, data + FRAME_HEADER, 4);
    r = packet_send(channel_fd, data, sizeof(data), fds, fd_count, 0);
    /* A child that is gone has said why before it went; that is read next. */
    if (r == 0 || r == -EPIPE || r == -ECONNRESET)
        return 0;
    errno = -r;
    return error_errno(err, "starting the box");
}

int ready_send_go(int channel_fd, bool split, bool groups, struct error *err)
{
    uint32_t flags = (split ? GO_SPLIT : 0) | (groups ? GO_GROUPS : 0);

    return send_number(channel_fd, FRAME_GO, flags, NULL, 0, err);
}

/* Which controllers hold, and on v1 the files through which the child enters their groups. */
int ready_send_group(const struct launched *launched, struct error *err)
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

/* The text for a failed stage; a step of the root names its path. */
static int stage_error(const struct plan_builder *builder, const struct message_fail *fail,
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

    if (fail->step > 0 && fail->step <= builder->plan.step_count && err) {
        const struct plan_step *step = &builder->steps[fail->step - 1];

        str_format(err->text, sizeof(err->text), "%s /%s: %s (%s)", words[step->kind], step->target,
                   error_name(fail->error), strerror(fail->error));
    }
    return r;
}

static void note_ready(struct launched *launched, const struct message_ready *ready)
{
    launched->layers = ready->layers & ISOLATION_LAYER_ALL;
    launched->missing = ready->missing & ISOLATION_LAYER_ALL;
    for (unsigned i = 0; i < ready->stage_count; i++) {
        if (launched->timing_count < LAUNCH_TIMINGS_MAX)
            launched->timings[launched->timing_count++] =
                (struct launch_timing){.name = sandbox_stage_name(i), .ns = ready->stage_ns[i]};
    }
}

/* Descriptors of a message; those that are not taken are closed. */
struct descriptors {
    int fds[READY_FDS_MAX];
    size_t count;
};

static void descriptors_close(struct descriptors *came)
{
    for (size_t i = 0; i < came->count; i++)
        fd_closep(&came->fds[i]);
}

static ssize_t receive(int channel_fd, void *data, size_t size, struct descriptors *came)
{
    ssize_t length;

    /*
     * The kernel reports that a peer closed with frames unread first, the peer's last frames after
     * that.
     */
    do {
        came->count = ARRAY_SIZE(came->fds);
        length = packet_receive(channel_fd, data, size, came->fds, &came->count, MSG_DONTWAIT);
    } while (length == -ECONNRESET);
    return length;
}

/* In their order; the box may not say one thing and send another. */
static int take_descriptors(struct launched *launched, const struct launch_spec *spec,
                            uint8_t flags, struct descriptors *came)
{
    size_t at = 0;

    if ((size_t)__builtin_popcount(flags) != came->count)
        return -EPROTO;
    if (flags & READY_HAS_RULESET) {
        if (spec->wants_ruleset)
            launched->ruleset_fd = fd_take(&came->fds[at]);
        at++;
    }
    if (flags & READY_HAS_EGRESS) {
        if (staging_fetches(spec->stages))
            launched->egress_fd = fd_take(&came->fds[at]);
        at++;
    }
    return 0;
}

static int invalid_message(struct error *err)
{
    return error_set(err, -EPROTO, ERROR_BOX_LOST,
                     "the box sent an invalid message while it was made");
}

int ready_receive(struct launched *launched, const struct launch_spec *spec,
                  const struct plan_builder *builder, struct error *err)
{
    CLEANUP(descriptors_close) struct descriptors came = {.count = 0};
    static uint8_t data[WIRE_FRAME_MAX]; /* one thread */
    struct message_ready ready;
    struct message_fail fail;
    struct frame frame;
    ssize_t length = receive(launched->channel_fd, data, sizeof(data), &came);

    if (length == -EAGAIN)
        return 0;
    if (length <= 0 && length != -EPROTO)
        return error_set(err, -EPIPE, ERROR_BOX_LOST, "the box was lost while it was made");
    if (length < 0 || frame_decode(data, (size_t)length, &frame) < 0)
        return invalid_message(err);
    if (frame.type == FRAME_FAILED && message_fail_unpack(&frame, &fail) == 0)
        return stage_error(builder, &fail, err);
    if (frame.type != FRAME_READY || message_ready_unpack(&frame, &ready) < 0 ||
        ready.version != WIRE_VERSION ||
        take_descriptors(launched, spec, ready.descriptors, &came) < 0)
        return invalid_message(err);
    note_ready(launched, &ready);
    return 1;
}
