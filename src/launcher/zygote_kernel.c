/*
 * zygote_kernel.c - kernels (interpreters) forked by zygotes: requested, given to the box's warden,
 * waited for.
 *
 * A kernel is in one list from its request until it reports that it has joined its box; from then
 * on it is found by its pid, which messages about its end contain. That pid comes from the Linux
 * kernel, not from the process.
 *
 * Messages of a zygote may be lies: package code has run in it. So a message can concern only
 * kernels that were requested from this zygote, and the launcher signals a process only if it is
 * its own child, or the zygote's child according to the Linux kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/handover.h"
#include "launcher/zygotes.h"
#include "sandbox/sandbox.h"
#include "sys/calls.h"
#include "sys/packet.h"
#include "wire/message.h"

static void on_orphan_end(struct loop_source *source, uint32_t events);

/* ---- the list ---- */

static struct zygote_kernel **bucket_of(struct launcher *launcher, pid_t pid)
{
    return &launcher->kernels[(uint32_t)pid % LAUNCHER_BUCKETS];
}

/* Among those requested from this zygote. */
static struct zygote_kernel **find_serial(struct zygote *zygote, uint32_t serial)
{
    struct zygote_kernel **at = &zygote->launcher->asked_kernels;

    while (*at && ((*at)->serial != serial || (*at)->zygote != zygote))
        at = &(*at)->next;
    return at;
}

/* Among this zygote's; NULL: among the launcher's own children. */
static struct zygote_kernel **find_pid(struct launcher *launcher, const struct zygote *zygote,
                                       pid_t pid)
{
    struct zygote_kernel **at = bucket_of(launcher, pid);

    while (*at && ((*at)->pid != pid || (*at)->zygote != zygote))
        at = &(*at)->next;
    if (*at)
        return at;
    at = &launcher->asked_kernels;
    while (*at && ((*at)->pid != pid || (*at)->zygote != zygote))
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
    fd_closep(&kernel->pid_fd);
    close_ends(kernel);
    if (kernel->zygote)
        kernel->zygote->kernels--;
    free(kernel);
}

/* ---- requests ---- */

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

/* The limits that the warden sets for its own guests. */
static void choose_limits(const struct managed_box *box, struct zygote_request *request)
{
    struct plan_builder scratch; /* only its plan and limits are used */
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

/*
 * The box's namespaces, which the zygote may enter as their owner, and no other access to the box:
 * a pidfd of the warden would need rights over the warden.
 */
static int open_namespaces(const struct managed_box *box, int fds[_ZYGOTE_FD_MAX])
{
    static const struct {
        unsigned long request;
        const char *name;
        uint32_t layer; /* the box may lack this layer; 0: it always has it */
    } kinds[] = {
        [ZYGOTE_FD_USER] = {PIDFD_GET_USER_NAMESPACE, "user", 0},
        [ZYGOTE_FD_PID] = {PIDFD_GET_PID_NAMESPACE, "pid", 0},
        [ZYGOTE_FD_IPC] = {PIDFD_GET_IPC_NAMESPACE, "ipc", 0},
        [ZYGOTE_FD_UTS] = {PIDFD_GET_UTS_NAMESPACE, "uts", 0},
        [ZYGOTE_FD_NET] = {PIDFD_GET_NET_NAMESPACE, "net",
                           ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS)},
        [ZYGOTE_FD_CGROUP] = {PIDFD_GET_CGROUP_NAMESPACE, "cgroup",
                              ISOLATION_LAYER_BIT(ISOLATION_LAYER_CGROUPNS)},
        [ZYGOTE_FD_MNT] = {PIDFD_GET_MNT_NAMESPACE, "mnt", 0},
    };
    const struct launched *launched = &box->launched;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (kinds[i].layer && !(launched->layers & kinds[i].layer))
            continue;
        fds[i] = ioctl(launched->pid_fd, kinds[i].request, 0);
        if (fds[i] < 0) { /* before Linux 6.11 */
            char path[64];

            str_format(path, sizeof(path), "/proc/%d/ns/%s",
                       (int)ids_proc_number(launched->pid, launched->pid_fd), kinds[i].name);
            fds[i] = open(path, O_RDONLY | O_CLOEXEC);
        }
        if (fds[i] < 0)
            return -errno;
    }
    return 0;
}

/* v1 checks the id that opened the file; v2 whether the writer could have opened it itself. */
static int become_owner(const struct cgroup *group, void *ctx)
{
    const struct zygote_owner *owner = ctx;

    return owner->id ? ids_lend(owner->id, group->flavour == CGROUP_V1) : 0;
}

static int open_group(const struct managed_box *box, int ret_fds[_CONTROLLER_MAX])
{
    int r = cgroup_open_join(&box->launched.group, become_owner, box->owner, ret_fds);

    if (box->owner->id)
        ids_return();
    return r;
}

static int ask_for(struct zygote *zygote, struct managed_box *box, struct zygote_kernel *kernel)
{
    CLEANUP(close_all_ends) struct ends ends = {{-1, -1, -1}, {-1, -1, -1}};
    struct zygote_request request = {.serial = kernel->serial,
                                     .layers = box->launched.layers,
                                     .is_prewarmed = box->is_prewarmed};
    int fds[_ZYGOTE_FD_MAX], opened[_ZYGOTE_FD_MAX];
    int r = open_ends(&ends);

    if (r < 0)
        return r;
    for (int i = 0; i < _ZYGOTE_FD_MAX; i++)
        opened[i] = -1;
    choose_limits(box, &request);
    r = open_namespaces(box, opened);
    if (r == 0)
        r = open_group(box, &opened[ZYGOTE_FD_GROUP]);
    memcpy(fds, opened, sizeof(fds));
    fds[ZYGOTE_FD_SOCKET] = ends.theirs[0];
    fds[ZYGOTE_FD_OUT] = ends.theirs[1];
    fds[ZYGOTE_FD_ERR] = ends.theirs[2];
    fds[ZYGOTE_FD_RULESET] = box->launched.ruleset_fd;
    if (r == 0)
        r = send_request(zygote, &request, fds);
    for (int i = 0; i < _ZYGOTE_FD_MAX; i++)
        fd_closep(&opened[i]);
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
    /* A box that restricts its guests by Landlock must be able to restrict this one. */
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
        .pid_fd = -1,
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

/* ---- the owner of a process ---- */

static pid_t parent_of(pid_t pid)
{
    char path[64], text[1024];
    const char *behind;
    int parent = 0;

    str_format(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
        return 0;
    behind = strrchr(text, ')');
    return behind && sscanf(behind, ") %*c %d", &parent) == 1 ? (pid_t)parent : 0;
}

/* The same by its pidfd, since Linux 6.13: one call, and no pid that could have been reused. */
static pid_t parent_by_fd(pid_t pid, int pid_fd)
{
    struct {
        uint64_t mask, group;
        uint32_t pid, tgid, ppid, ids[8];
        int32_t exit_code;
    } info = {0};

    if (ioctl(pid_fd, _IOWR(0xff, 11, info) /* PIDFD_GET_INFO */, &info) == 0)
        return (pid_t)info.ppid;
    return parent_of(ids_proc_number(pid, pid_fd));
}

/*
 * According to the Linux kernel: its parent is the zygote, or the vfork child of the zygote that
 * has just forked it. The zygote is alive, so its pid was not reused.
 */
static bool is_zygotes(const struct zygote *zygote, pid_t pid, int pid_fd)
{
    pid_t parent = parent_by_fd(pid, pid_fd), above;

    if (parent > 1 && parent == zygote->pid)
        return true;
    above = ids_proc_number(zygote->pid, zygote->end.fd);
    return parent > 1 && (parent == above || parent_of(parent) == above) &&
           sys_pidfd_send_signal(pid_fd, 0) == 0; /* it was still that process */
}

/* The launcher's own child, alive or not: then its pid cannot have been reused. */
static bool is_ours(int pid_fd)
{
    siginfo_t info = {0};

    return pid_fd >= 0 &&
           waitid(P_PIDFD, (id_t)pid_fd, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

/* Whether two processes are in the same user namespace; pid 0 never is. */
static bool is_in_one(pid_t one, pid_t other)
{
    char paths[2][64], links[2][64] = {"", ""};
    pid_t pids[] = {one, other};

    for (int i = 0; i < 2; i++) {
        str_format(paths[i], sizeof(paths[i]), "/proc/%d/ns/user", (int)pids[i]);
        if (readlink(paths[i], links[i], sizeof(links[i]) - 1) <= 0)
            return false;
    }
    return str_equal(links[0], links[1]);
}

/*
 * The sender of JOINED must be a process of this zygote that sends it for the first time. If its
 * zygote has died meanwhile it is the launcher's own child, like wardens; but in its box.
 */
static bool is_kernel(struct zygote_kernel *kernel, const struct managed_box *box, pid_t sender)
{
    struct zygote *zygote = kernel->zygote;

    for (const struct zygote_kernel *other = *bucket_of(kernel->launcher, sender); other;
         other = other->next) {
        if (other->pid == sender && (other->zygote == zygote || !other->zygote))
            return false;
    }
    kernel->pid_fd = sys_pidfd_open(sender);
    if (kernel->pid_fd < 0)
        return false; /* it has ended already */
    if (zygote->pid > 0)
        return is_zygotes(zygote, sender, kernel->pid_fd);
    return box && sender != box->launched.pid && is_ours(kernel->pid_fd) &&
           is_in_one(ids_proc_number(sender, kernel->pid_fd),
                     ids_proc_number(box->launched.pid, box->launched.pid_fd));
}

/* ---- giving it to the warden ---- */

/*
 * One frame with three descriptors. A warden that does not read loses its kernel; the launcher does
 * not wait.
 */
static int give(const struct managed_box *box, const struct zygote_kernel *kernel, int32_t pid)
{
    uint8_t data[FRAME_HEADER + 16];
    struct message_kernel given = {.pid = pid};
    ssize_t length = message_kernel_pack(&given, data + FRAME_HEADER, sizeof(data) - FRAME_HEADER);

    frame_header(data, FRAME_KERNEL, kernel->kernel, (size_t)length);
    return packet_send(box->launched.channel_fd, data, FRAME_HEADER + (size_t)length, kernel->fds,
                       ARRAY_SIZE(kernel->fds), MSG_DONTWAIT);
}

static void not_forked(struct zygote_kernel **at, int r)
{
    struct zygote_kernel *kernel = *at;
    struct launcher *launcher = kernel->launcher;
    uint32_t number = kernel->number, id = kernel->kernel;

    forget(at);
    boxes_kernel_made(launcher, number, id, r);
}

static void joined(struct zygote_kernel **at, const struct zygote_word *word, pid_t sender)
{
    struct zygote_kernel *kernel = *at;
    struct launcher *launcher = kernel->launcher;
    struct managed_box *box = boxes_find(launcher, kernel->number);
    struct zygote_kernel **bucket = bucket_of(launcher, sender);
    int r;

    if (!is_kernel(kernel, box, sender)) {
        not_forked(at, -EAGAIN);
        return;
    }
    r = box ? give(box, kernel, word->pid) : -ESRCH;
    *at = kernel->next;
    if (box) {
        box->moments_ns[BOX_HEARD] = word->heard_ns;
        box->moments_ns[BOX_FORKED] = word->forked_ns;
        box->moments_ns[BOX_LOCKED] = word->joined_ns;
    }
    kernel->pid = sender;
    kernel->next = *bucket;
    *bucket = kernel;
    close_ends(kernel); /* a kernel without a warden finds its socket closed, and ends */
    boxes_kernel_made(launcher, kernel->number, kernel->kernel, r);
    if (r < 0)
        kernel->number = 0; /* its end is not reported */
}

/* ---- the end ---- */

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

void zygote_heard(struct zygote *zygote, const struct zygote_word *word, pid_t sender)
{
    struct launcher *launcher = zygote->launcher;
    struct zygote_kernel **at = find_serial(zygote, word->serial);

    switch ((enum zygote_word_type)word->type) {
    case ZYGOTE_FORKED:
        if (*at && word->pid > 1)
            (*at)->pid = word->pid;
        else if (*at) {
            log_warning("a zygote could not fork into box %u: %s", (unsigned)(*at)->number,
                        strerror(word->error));
            not_forked(at, -EAGAIN);
        }
        return;
    case ZYGOTE_JOINED: /* the zygote itself is no kernel, and neither is a process unknown in this
                           namespace */
        if (*at && sender > 1 && sender != zygote->pid)
            joined(at, word, sender);
        return;
    case ZYGOTE_FAILED:
        if (*at && sender > 1) {
            (*at)->pid = sender;
            log_warning("a kernel could not join box %u: %s: %s", (unsigned)(*at)->number,
                        sandbox_join_stage_name(word->stage), strerror(word->error));
        }
        return;
    case ZYGOTE_ENDED:
        at = find_pid(launcher, zygote, word->pid);
        if (*at)
            ended(at, word->status, word->cpu_us, word->max_rss_bytes);
        return;
    default:
        return;
    }
}

/* ---- orphans ---- */

bool zygote_kernel_kill(const struct zygote_kernel *kernel)
{
    CLEANUP(fd_closep) int pid_fd = kernel->pid > 1 ? sys_pidfd_open(kernel->pid) : -1;

    return pid_fd >= 0 && kernel->zygote && is_zygotes(kernel->zygote, kernel->pid, pid_fd) &&
           sys_pidfd_send_signal(pid_fd, SIGKILL) == 0;
}

/* Waits for one that is the launcher's own child now; the Linux kernel has its status. */
static void reap(struct zygote_kernel **at)
{
    struct rusage usage = {0};
    int status = SIGKILL;

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
    reap(find_pid(kernel->launcher, NULL, kernel->pid));
}

/*
 * A kernel that cannot be watched is killed, so that its end is known. One that is not the
 * launcher's child by now has ended, and its zygote waited for it without reporting it.
 */
static void adopt(struct zygote_kernel **at)
{
    struct zygote_kernel *kernel = *at;
    int pid_fd = kernel->pid_fd;

    kernel->zygote->kernels--;
    kernel->zygote = NULL;
    kernel->pid_fd = -1;
    if (!is_ours(pid_fd)) {
        fd_closep(&pid_fd);
        ended(at, SIGKILL, 0, 0);
        return;
    }
    if (loop_add(&kernel->launcher->loop, &kernel->end, pid_fd, EPOLLIN) == 0)
        return;
    fd_closep(&pid_fd);
    kill(kernel->pid, SIGKILL);
    reap(at);
}

void zygote_orphans(struct zygote *zygote)
{
    struct launcher *launcher = zygote->launcher;
    struct zygote_kernel **at = &launcher->asked_kernels;

    /* Requested and not in a box: killed with the zygote's process group. */
    while (*at) {
        if ((*at)->zygote != zygote) {
            at = &(*at)->next;
            continue;
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
            kill(launcher->kernels[i]->pid,
                 SIGKILL); /* all are the launcher's own children: no zygote is left */
            reap(&launcher->kernels[i]);
        }
    }
}

/* ---- handover to another program ---- */

/*
 * Kernels that a zygote waits for are left out: they become the launcher's children before the
 * handover.
 */
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
        .pid_fd = -1,
        .fds = {-1, -1, -1},
    };
    r = loop_add(&launcher->loop, &kernel->end, from->pid_fd, EPOLLIN);
    if (r < 0)
        return r;
    kernel->next = *bucket;
    *bucket = ptr_take(&kernel);
    return 0;
}
