/*
 * zygote_kernel.c - kernels that come from zygotes: asked for, given to the box's warden, waited
 * for.
 *
 * A kernel waits in one list from its request until it says that it has joined its box; from then
 * on it is found by its pid, as the words of its end have it. That pid comes from the kernel (the
 * one of the machine), not from the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "launcher/handover.h"
#include "launcher/zygotes.h"
#include "sandbox/sandbox.h"
#include "sys/packet.h"
#include "wire/message.h"

static void on_orphan_end(struct loop_source *source, uint32_t events);

/* ---- the list ---- */

static struct zygote_kernel **bucket_of(struct launcher *launcher, pid_t pid)
{
    return &launcher->kernels[(uint32_t)pid % LAUNCHER_BUCKETS];
}

static struct zygote_kernel **find_serial(struct launcher *launcher, uint32_t serial)
{
    struct zygote_kernel **at = &launcher->asked_kernels;

    while (*at && (*at)->serial != serial)
        at = &(*at)->next;
    return at;
}

static struct zygote_kernel **find_pid(struct launcher *launcher, pid_t pid)
{
    struct zygote_kernel **at = bucket_of(launcher, pid);

    while (*at && (*at)->pid != pid)
        at = &(*at)->next;
    if (*at)
        return at;
    at = &launcher->asked_kernels;
    while (*at && (*at)->pid != pid)
        at = &(*at)->next;
    return at;
}

static void close_ends(struct zygote_kernel *kernel)
{
    for (size_t i = 0; i < ARRAY_SIZE(kernel->fds); i++) {
        fd_closep(&kernel->fds[i]);
        kernel->fds[i] = -1;
    }
}

static void forget(struct zygote_kernel **at)
{
    struct zygote_kernel *kernel = *at;
    int pid_fd = kernel->end.fd;

    *at = kernel->next;
    if (pid_fd >= 0)
        loop_remove(&kernel->launcher->loop, &kernel->end);
    fd_closep(&pid_fd);
    close_ends(kernel);
    if (kernel->zygote)
        kernel->zygote->kernels--;
    free(kernel);
}

/* ---- asked for ---- */

struct ends {
    int ours[3], theirs[3]; /* socket, standard output, error */
};

static void close_all_ends(struct ends *ends)
{
    for (int i = 0; i < 3; i++) {
        fd_closep(&ends->ours[i]);
        fd_closep(&ends->theirs[i]);
    }
}

static int open_ends(struct ends *ends)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ends->ours[0] = pair[0];
    ends->theirs[0] = pair[1];
    for (int i = 1; i < 3; i++) {
        if (pipe2(pair, O_CLOEXEC) < 0)
            return -errno;
        ends->ours[i] = pair[0];
        ends->theirs[i] = pair[1];
    }
    return 0;
}

/* The limits that the warden gives its own guests. */
static void choose_limits(const struct managed_box *box, struct zygote_request *request)
{
    struct plan_builder scratch; /* its plan and limits only */
    const struct launched *launched = &box->launched;
    struct launch_spec spec = {.memory_bytes = box->facts.memory_bytes,
                               .disk_bytes = box->facts.disk_bytes,
                               .pids = box->facts.pids,
                               .cpu_millis = box->facts.cpu_millis};
    struct launched unused;

    scratch.plan = (struct sandbox_plan){.has_namespaces = true};
    plan_builder_limits(&scratch, &spec, &unused);
    if (launched->group.flavour != CGROUP_NONE)
        plan_builder_grouped(&scratch.plan, &launched->group);
    request->cpu_count = scratch.plan.cpu_count;
    request->rlimit_count = (uint32_t)MIN(scratch.plan.rlimit_count, (size_t)ZYGOTE_RLIMITS_MAX);
    memcpy(request->rlimits, scratch.rlimits, request->rlimit_count * sizeof(request->rlimits[0]));
}

static int send_request(struct zygote *zygote, struct zygote_request *request,
                        const int fds[_ZYGOTE_FD_MAX])
{
    int sent[_ZYGOTE_FD_MAX];
    size_t count = 0;

    for (int i = 0; i < _ZYGOTE_FD_MAX; i++) {
        if (fds[i] < 0)
            continue;
        request->fds |= 1u << i;
        sent[count++] = fds[i];
    }
    return packet_send(zygote->control.fd, request, sizeof(*request), sent, count, MSG_DONTWAIT);
}

static int ask_for(struct zygote *zygote, struct managed_box *box, struct zygote_kernel *kernel)
{
    CLEANUP(close_all_ends) struct ends ends = {{-1, -1, -1}, {-1, -1, -1}};
    struct zygote_request request = {.serial = kernel->serial,
                                     .layers = box->launched.layers,
                                     .is_prewarmed = box->is_prewarmed};
    int fds[_ZYGOTE_FD_MAX];
    int r = open_ends(&ends);

    if (r < 0)
        return r;
    choose_limits(box, &request);
    fds[ZYGOTE_FD_BOX] = box->launched.pid_fd;
    fds[ZYGOTE_FD_SOCKET] = ends.theirs[0];
    fds[ZYGOTE_FD_OUT] = ends.theirs[1];
    fds[ZYGOTE_FD_ERR] = ends.theirs[2];
    fds[ZYGOTE_FD_RULESET] = box->launched.ruleset_fd;
    r = cgroup_open_join(&box->launched.group, &fds[ZYGOTE_FD_GROUP]);
    if (r == 0)
        r = send_request(zygote, &request, fds);
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        fd_closep(&fds[ZYGOTE_FD_GROUP + i]);
    for (int i = 0; i < 3 && r == 0; i++)
        kernel->fds[i] = fd_take(&ends.ours[i]);
    return r;
}

int zygote_ask(struct zygote *zygote, struct managed_box *box, uint32_t kernel_id)
{
    CLEANUP(freep) struct zygote_kernel *kernel = calloc(1, sizeof(*kernel));
    struct launcher *launcher = zygote->launcher;
    int r;

    if (!kernel)
        return -ENOMEM;
    /* A box that restricts its guests must be able to restrict this one. */
    if (box->launched.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_LANDLOCK) &&
        box->launched.ruleset_fd < 0)
        return -EOPNOTSUPP;
    *kernel = (struct zygote_kernel){
        .end = {.fd = -1, .ready = on_orphan_end},
        .launcher = launcher,
        .zygote = zygote,
        .serial = ++launcher->next_kernel,
        .number = box->facts.number,
        .kernel = kernel_id,
        .fds = {-1, -1, -1},
        .at_ms = clock_now_ms() + FORK_PATIENCE_MS,
    };
    r = ask_for(zygote, box, kernel);
    if (r < 0)
        return r;
    zygote->forks++;
    zygote->kernels++;
    kernel->next = launcher->asked_kernels;
    launcher->asked_kernels = kernel;
    ptr_take(&kernel);
    return 0;
}

/* ---- given ---- */

/* One frame with three descriptors. A warden that does not read loses its kernel, not our time. */
static int give(const struct managed_box *box, const struct zygote_kernel *kernel, int32_t pid)
{
    uint8_t data[FRAME_HEADER + 16];
    struct message_kernel given = {.pid = pid};
    ssize_t length = message_kernel_pack(&given, data + FRAME_HEADER, sizeof(data) - FRAME_HEADER);

    frame_header(data, FRAME_KERNEL, kernel->kernel, (size_t)length);
    return packet_send(box->launched.channel_fd, data, FRAME_HEADER + (size_t)length, kernel->fds,
                       ARRAY_SIZE(kernel->fds), MSG_DONTWAIT);
}

static void joined(struct zygote_kernel **at, const struct zygote_word *word, pid_t sender)
{
    struct zygote_kernel *kernel = *at;
    struct launcher *launcher = kernel->launcher;
    struct managed_box *box = boxes_find(launcher, kernel->number);
    struct zygote_kernel **bucket = bucket_of(launcher, sender);
    int r = box ? give(box, kernel, word->pid) : -ESRCH;

    *at = kernel->next;
    if (box) {
        box->moments_ns[BOX_HEARD] = word->heard_ns;
        box->moments_ns[BOX_FORKED] = word->forked_ns;
        box->moments_ns[BOX_LOCKED] = word->joined_ns;
    }
    kernel->pid = sender;
    kernel->next = *bucket;
    *bucket = kernel;
    close_ends(kernel); /* one that nobody has finds its socket closed, and ends */
    boxes_kernel_made(launcher, kernel->number, kernel->kernel, r);
    if (r < 0)
        kernel->number = 0; /* nobody will be told of its end */
}

/* ---- ended ---- */

static void ended(struct zygote_kernel **at, int status, uint64_t cpu_us, uint64_t max_rss_bytes)
{
    struct zygote_kernel *kernel = *at;
    struct launcher *launcher = kernel->launcher;
    struct launcher_kernel_ended told = {.number = kernel->number,
                                         .kernel = kernel->kernel,
                                         .status = status,
                                         .cpu_us = cpu_us,
                                         .max_rss_bytes = max_rss_bytes};
    bool was_given = kernel->fds[0] < 0;

    forget(at);
    if (was_given)
        boxes_kernel_ended(launcher, &told);
    else
        boxes_kernel_made(launcher, told.number, told.kernel, -EAGAIN);
}

static void not_forked(struct zygote_kernel **at, int r)
{
    struct zygote_kernel *kernel = *at;
    struct launcher *launcher = kernel->launcher;
    uint32_t number = kernel->number, id = kernel->kernel;

    forget(at);
    boxes_kernel_made(launcher, number, id, r);
}

void zygote_heard(struct zygote *zygote, const struct zygote_word *word, pid_t sender)
{
    struct launcher *launcher = zygote->launcher;
    struct zygote_kernel **at = find_serial(launcher, word->serial);

    switch ((enum zygote_word_type)word->type) {
    case ZYGOTE_FORKED:
        if (*at && word->pid > 0)
            (*at)->pid = word->pid;
        else if (*at)
            not_forked(at, -EAGAIN);
        return;
    case ZYGOTE_JOINED:
        if (*at)
            joined(at, word, sender);
        return;
    case ZYGOTE_FAILED:
        if (*at) {
            (*at)->pid = sender;
            log_warning("a kernel could not join box %u: %s: %s", (unsigned)(*at)->number,
                        sandbox_join_stage_name(word->stage), strerror(word->error));
        }
        return;
    case ZYGOTE_ENDED:
        at = find_pid(launcher, word->pid);
        if (*at && (*at)->zygote == zygote)
            ended(at, word->status, word->cpu_us, word->max_rss_bytes);
        return;
    default:
        return;
    }
}

/* ---- orphans ---- */

/* Waits for one that is our own child by now; the kernel of the machine has its status. */
static void reap(struct zygote_kernel **at)
{
    struct rusage usage = {0};
    int status = SIGKILL; /* unknown: somebody else has waited for it, which cannot be */

    while (wait4((*at)->pid, &status, __WALL, &usage) < 0 && errno == EINTR)
        ;
    ended(at, status,
          (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
              (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec),
          (uint64_t)usage.ru_maxrss * 1024);
}

static void on_orphan_end(struct loop_source *source, uint32_t events)
{
    struct zygote_kernel *kernel = CONTAINER_OF(source, struct zygote_kernel, end);

    (void)events;
    reap(find_pid(kernel->launcher, kernel->pid));
}

/* One that cannot be watched is ended: better known than lost. */
static void adopt(struct zygote_kernel **at)
{
    struct zygote_kernel *kernel = *at;
    int pid_fd = (int)syscall(SYS_pidfd_open, kernel->pid, 0);

    kernel->zygote->kernels--;
    kernel->zygote = NULL;
    if (pid_fd >= 0 && loop_add(&kernel->launcher->loop, &kernel->end, pid_fd, EPOLLIN) == 0)
        return;
    fd_closep(&pid_fd);
    kill(kernel->pid, SIGKILL);
    reap(at);
}

void zygote_orphans(struct zygote *zygote)
{
    struct launcher *launcher = zygote->launcher;
    struct zygote_kernel **at = &launcher->asked_kernels;

    while (*at) { /* asked for and not in a box: the zygote's group was killed, they with it */
        if ((*at)->zygote != zygote) {
            at = &(*at)->next;
            continue;
        }
        if ((*at)->pid > 0) {
            kill((*at)->pid, SIGKILL);
            while (waitpid((*at)->pid, NULL, __WALL) < 0 && errno == EINTR)
                ;
        }
        not_forked(at, -EAGAIN);
    }
    for (size_t i = 0; i < LAUNCHER_BUCKETS; i++) {
        for (at = &launcher->kernels[i]; *at;) {
            struct zygote_kernel *kernel = *at;

            if (kernel->zygote == zygote)
                adopt(at);
            if (*at == kernel)
                at = &kernel->next;
        }
    }
}

void zygote_kernels_end(struct launcher *launcher)
{
    for (size_t i = 0; i < LAUNCHER_BUCKETS; i++) {
        while (launcher->kernels[i]) {
            kill(launcher->kernels[i]->pid, SIGKILL);
            reap(&launcher->kernels[i]);
        }
    }
}

/* ---- handed over ---- */

/* One that a zygote waits for is left out: it becomes ours before it comes to that. */
int zygotes_hand_kernels(struct launcher *launcher,
                         int (*each)(void *ctx, const struct handover_kernel *kernel), void *ctx)
{
    int r = 0;

    for (size_t i = 0; i < LAUNCHER_BUCKETS; i++) {
        for (struct zygote_kernel *kernel = launcher->kernels[i]; kernel && r == 0;
             kernel = kernel->next) {
            struct handover_kernel told = {.number = kernel->number,
                                           .kernel = kernel->kernel,
                                           .pid = kernel->pid,
                                           .pid_fd = kernel->end.fd};

            if (told.pid_fd >= 0)
                r = each(ctx, &told);
        }
    }
    return r;
}

int zygotes_take_kernel(struct launcher *launcher, const struct handover_kernel *from)
{
    CLEANUP(freep) struct zygote_kernel *kernel = calloc(1, sizeof(*kernel));
    struct zygote_kernel **bucket = bucket_of(launcher, from->pid);
    int r;

    if (!kernel)
        return -ENOMEM;
    *kernel = (struct zygote_kernel){
        .end = {.fd = -1, .ready = on_orphan_end},
        .launcher = launcher,
        .number = from->number,
        .kernel = from->kernel,
        .pid = from->pid,
        .fds = {-1, -1, -1},
    };
    r = loop_add(&launcher->loop, &kernel->end, from->pid_fd, EPOLLIN);
    if (r < 0)
        return r;
    kernel->next = *bucket;
    *bucket = ptr_take(&kernel);
    return 0;
}
