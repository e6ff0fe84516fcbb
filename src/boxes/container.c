/*
 * container.c - a container's first process becomes the warden of a box: see warden_inside().
 *
 * The container is the isolation. Another engine made namespaces, mounts, limits and ids before we
 * were executed, and we have no right left to make them: what a process can do to itself is done
 * here, by the same stages and to the same guests as in local boxes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "boxes/plan_builder.h"
#include "sandbox/filter.h"
#include "sandbox/sandbox.h"
#include "sys/calls.h"
#include "warden/warden.h"
#include "wire/message.h"

#define SAID_MAX 4096 /* bytes of a variable of the container that count */

static _Noreturn void give_up(const char *what, int r)
{
    char text[512];

    /* Cut or not: it is the last thing that we say. */
    str_format(text, sizeof(text), "bailey: the warden cannot begin: %s: %s (%s)\n", what,
               error_name(-r), strerror(-r));
    fd_write_all(STDERR_FILENO, text, strlen(text));
    _exit(1);
}

/* For the other end, which reads frames; and for people, who read the container's log. */
static _Noreturn void bring_up_failed(const struct sandbox *sandbox, int out_fd, int r)
{
    struct message_fail fail = {
        .stage = sandbox->failed_stage, .error = (uint16_t)-r, .step = sandbox->failed_step};
    const struct sandbox_plan *plan = sandbox->plan;
    const char *stage = sandbox_stage_name(sandbox->failed_stage);
    uint8_t data[FRAME_HEADER + 16];
    ssize_t length = message_fail_pack(&fail, data + FRAME_HEADER, 16);
    char what[128];

    frame_header(data, FRAME_FAILED, 0, (size_t)length);
    fd_write_all(out_fd, data, FRAME_HEADER + (size_t)length);
    if (fail.step == 0 || fail.step > _SHARE_MAX || !plan->share_path[fail.step - 1])
        give_up(stage, r);
    str_format(what, sizeof(what), "%s: %s has to be there and writable for id %d", stage,
               plan->share_path[fail.step - 1], (int)geteuid());
    give_up(what, r);
}

/*
 * Frames go over descriptors that no guest has: it gets the standard streams, and all others are
 * closed at its exec. Whatever else the container's maker left open is closed first.
 */
static int take_streams(int *ret_in, int *ret_out)
{
    CLEANUP(fd_closep) int null_fd = -1;

    if (sys_close_range(3, ~0U, 0) < 0)
        return -errno;
    *ret_in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    *ret_out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (*ret_in < 0 || *ret_out < 0 || null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
        dup2(null_fd, STDOUT_FILENO) < 0)
        return -errno;
    return 0;
}

static const char *said(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value && value[0] && strlen(value) <= SAID_MAX ? value : otherwise;
}

static uint64_t said_bytes(const char *name)
{
    const char *text = said(name, "0");
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || *end || text[0] == '-')
        give_up(name, -EINVAL);
    return value;
}

/*
 * An image knows the paths of its programs and its locale, and names what its template has for the
 * guest; the guest gets nothing else of its environment. Limits on processes and memory are the
 * container engine's: an rlimit on processes would count those of the id on the whole machine.
 */
static void plan_builder_container(struct plan_builder *builder)
{
    struct sandbox_plan *plan = &builder->plan;

    plan->has_namespaces = plan->has_container = true;
    plan->clears_groups = geteuid() == 0;
    plan->warden_id = plan->guest_id = geteuid() == 0 ? GUEST_ID : geteuid();
    plan->warden_filter = &filter_warden;
    plan->guest_filter = &filter_guest;
    plan->watch_disk_bytes = said_bytes("BAILEY_DISK_BYTES");
    root_shares(builder);
    root_rules(builder);
    plan_builder_rlimits(builder);
    plan_builder_env(builder, "PATH=%s", said("PATH", PLAN_BUILDER_PATH));
    plan_builder_short_list(builder, said("LANG", PLAN_BUILDER_LANGUAGE));
    container_variables(builder);
    plan_builder_finish(builder);
    make_scrub(plan);
}

static int nothing_to_wait_for(void *ctx)
{
    (void)ctx;
    return 0;
}

void warden_inside(void)
{
    struct sandbox_host host = {.wait_maps = nothing_to_wait_for,
                                .wait_group = nothing_to_wait_for};
    static struct plan_builder builder; /* large, and there as long as this process */
    struct sandbox sandbox;
    int in_fd = -1, out_fd = -1, r;

    /* A process that is not PID 1 would kill all processes it can reach with its box. */
    if (getpid() != 1)
        give_up("it has to be the first process of a container", -EINVAL);
    r = take_streams(&in_fd, &out_fd);
    if (r < 0)
        give_up("standard input and output", r);
    plan_builder_container(&builder);
    if (builder.is_full)
        give_up("the image's variables for its guest", -E2BIG);
    container_home(builder.plan.share_path[SHARE_HOME]);
    /* A second name (boxes/root.c); a container of another maker may have no room for it. */
    (void)!symlink(builder.plan.share_path[SHARE_WORKSPACE], "/mnt/data");
    sandbox_init(&sandbox, &builder.plan);
    r = sandbox_bring_up(&sandbox, &host);
    if (r < 0)
        bring_up_failed(&sandbox, out_fd, r);
    warden_run_stream(&sandbox, in_fd, out_fd);
}
