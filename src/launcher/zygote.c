/*
 * zygote.c - the zygotes of the launcher: started, ready, replaced, retired; see zygotes.h.
 *
 * Zygotes are optional: a kernel can always be started cold. So nothing here blocks, and failures
 * are retried after a growing pause.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/zygotes.h"
#include "sys/calls.h"

#define START_PATIENCE_MS 60000
#define PAUSE_FIRST_MS 200
#define PAUSE_MAX_MS 60000
#define GOOD_LIFE_MS 10000
#define FORKS_MAX 10000 /* then a guest could have learned its hash seed and memory layout */
#define WORDS_PER_TURN 64
/* Messages a zygote may send; WORDS_PER_FORK more per fork: it sends three, and one for a child
 * that is not a kernel. */
#define WORDS_FREE 1024
#define WORDS_PER_FORK 8
#define SAID_AT_ONCE 1024
#define SAID_MAX (16 * 1024) /* output of one process; more is not read */

static void on_control(struct loop_source *source, uint32_t events);
static void on_end(struct loop_source *source, uint32_t events);
static void on_said(struct loop_source *source, uint32_t events);

static bool is_of(const struct zygote *zygote, const char *tenant, const char *layer, uint8_t tier)
{
    return zygote->tier == tier && zygote_owner_is(zygote->owner, tenant, layer);
}

/* ---- start ---- */

static void start_later(struct zygote *zygote)
{
    zygote->state = ZYGOTE_IS_WAITING;
    zygote->pause_ms =
        zygote->pause_ms ? MIN(2 * zygote->pause_ms, (uint64_t)PAUSE_MAX_MS) : PAUSE_FIRST_MS;
    zygote->at_ms = clock_now_ms() + zygote->pause_ms;
}

static void start(struct zygote *zygote)
{
    struct launcher *launcher = zygote->launcher;
    struct error err = {0};
    struct zygote_process process;
    int r = zygote_spawn(launcher, zygote, &process, &err);

    if (r < 0) {
        log_warning("starting a zygote: %s, continuing without it", err.text);
        cgroup_reaper_add(launcher, &zygote->group);
        cgroup_init(&zygote->group);
        start_later(zygote);
        return;
    }
    zygote->pid = process.pid;
    zygote->state = ZYGOTE_IS_STARTING;
    zygote->forks = 0;
    zygote->said_bytes = 0;
    zygote->words = 0;
    zygote->told_us = 0;
    zygote->started_ns = clock_now_ns();
    zygote->ready_ns = 0;
    zygote->at_ms = clock_now_ms() + START_PATIENCE_MS;
    if (loop_add(&launcher->loop, &zygote->control, process.control_fd, EPOLLIN) < 0)
        fd_closep(&process.control_fd); /* it finds its socket closed and ends */
    if (loop_add(&launcher->loop, &zygote->said, process.said_fd, EPOLLIN) < 0)
        fd_closep(&process.said_fd);
    if (loop_add(&launcher->loop, &zygote->end, process.pid_fd, EPOLLIN) < 0) {
        kill(zygote->pid, SIGKILL);
        zygote->end.fd = process.pid_fd;
        on_end(&zygote->end, 0);
        return;
    }
}

static void retire(struct zygote *zygote);

/* Makes room for one more: ends the one that was unused for the longest time. */
static bool make_room(struct launcher *launcher)
{
    struct zygote *oldest = NULL;
    size_t count = 0;

    for (struct zygote *zygote = launcher->zygotes; zygote; zygote = zygote->next) {
        count++;
        if (zygote->state != ZYGOTE_IS_RETIRED && (!oldest || zygote->used_ms < oldest->used_ms))
            oldest = zygote;
    }
    if (count < LIMIT_ZYGOTES)
        return true;
    if (oldest)
        retire(oldest);
    return false; /* the next request finds it gone */
}

static void add(struct launcher *launcher, const char *tenant, const char *layer, uint8_t tier)
{
    struct zygote *zygote;
    struct zygote_owner *owner;

    if (!make_room(launcher))
        return;
    owner = zygote_owner_take(launcher, tenant, layer);
    zygote = owner ? calloc(1, sizeof(*zygote)) : NULL;
    if (!zygote) {
        zygote_owner_give(owner);
        return;
    }
    *zygote = (struct zygote){.control = {.fd = -1, .ready = on_control},
                              .end = {.fd = -1, .ready = on_end},
                              .said = {.fd = -1, .ready = on_said},
                              .launcher = launcher,
                              .next = launcher->zygotes,
                              .owner = owner,
                              .tier = tier,
                              .mounts_fd = -1,
                              .used_ms = clock_now_ms()};
    cgroup_init(&zygote->group);
    launcher->zygotes = zygote;
    start(zygote);
}

/* ---- end ---- */

static void drop(struct zygote *zygote)
{
    LIST_UNLINK(zygote->launcher->zygotes, zygote);
    zygote_owner_give(zygote->owner);
    fd_closep(&zygote->mounts_fd);
    free(zygote);
}

static void unwatch(struct zygote *zygote, struct loop_source *source)
{
    int fd = source->fd;

    if (fd >= 0)
        loop_remove(&zygote->launcher->loop, source);
    fd_closep(&fd);
    source->fd = -1;
}

/* It ends when it has no kernels to reap. */
static void retire(struct zygote *zygote)
{
    if (zygote->state == ZYGOTE_IS_WAITING) {
        drop(zygote);
        return;
    }
    zygote->state = ZYGOTE_IS_RETIRED;
    if (zygote->kernels == 0)
        kill(zygote->pid, SIGKILL);
}

/* Logs what packages print while they are imported, one line each, up to a limit. */
static void on_said(struct loop_source *source, uint32_t events)
{
    struct zygote *zygote = CONTAINER_OF(source, struct zygote, said);
    char text[SAID_AT_ONCE + 1];
    ssize_t length = read(source->fd, text, SAID_AT_ONCE);
    char *rest = NULL;

    (void)events;
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (length > 0) {
        text[length] = 0;
        for (ssize_t i = 0; i < length; i++)
            text[i] = text[i] == '\n' || (text[i] >= ' ' && text[i] != 127) ? text[i] : ' ';
        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            log_warning("a zygote (tier %u) says: %s", zygote->tier, line);
        zygote->said_bytes += (size_t)length;
    }
    if (length <= 0 || zygote->said_bytes >= SAID_MAX)
        unwatch(zygote, source);
}

static bool is_readable(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};

    return poll(&polled, 1, 0) > 0 && polled.revents & POLLIN;
}

static int hear(struct zygote *zygote);

/*
 * A process that has not joined its box yet is in the zygote's process group and is killed with it;
 * those that have joined become the launcher's own children.
 */
static void reap(struct zygote *zygote, int *ret_status)
{
    pid_t pid = zygote->pid;

    kill(pid, SIGKILL); /* it may not lead its own group yet */
    kill(-pid, SIGKILL);
    zygote_spent(zygote); /* without a group its time cannot be read once it is reaped */
    while (waitpid(pid, ret_status, __WALL) < 0 && errno == EINTR)
        ;
    zygote->pid = 0;
    zygote_spent(zygote);
    /* Its last messages, and those of kernels that had just joined. */
    for (int i = 0; i < WORDS_FREE && zygote->control.fd >= 0 && hear(zygote) > 0; i++)
        ;
    while (zygote->said.fd >= 0 && is_readable(zygote->said.fd))
        on_said(&zygote->said, 0);
    unwatch(zygote, &zygote->said);
    unwatch(zygote, &zygote->control);
    unwatch(zygote, &zygote->end);
    zygote_orphans(zygote);
    zygote_strays_end(zygote, pid);
}

static void on_end(struct loop_source *source, uint32_t events)
{
    struct zygote *zygote = CONTAINER_OF(source, struct zygote, end);
    int status = 0;

    (void)events;
    reap(zygote, &status);
    if (zygote->state == ZYGOTE_IS_RETIRED) {
        drop(zygote);
        return;
    }
    log_warning("a zygote (tier %u) ended (%s %d), starting it again", zygote->tier,
                WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (clock_now_ns() - zygote->started_ns >= GOOD_LIFE_MS * 1000000ULL)
        zygote->pause_ms = 0;
    start_later(zygote);
}

/* ---- messages ---- */

/* Its successor is ready: an older zygote of the same kind forks no more. */
static void ready(struct zygote *zygote)
{
    struct zygote *next;

    if (zygote->state != ZYGOTE_IS_STARTING)
        return;
    zygote->state = ZYGOTE_IS_READY;
    zygote->ready_ns = clock_now_ns();
    for (struct zygote *other = zygote->launcher->zygotes; other; other = next) {
        next = other->next;
        if (other != zygote && other->state == ZYGOTE_IS_READY && other->owner == zygote->owner &&
            other->tier == zygote->tier)
            retire(other);
    }
    pool_wake(zygote->launcher);
}

/* 1: a message; 0: none for now; -1: an invalid message, or the end. */
static int hear(struct zygote *zygote)
{
    struct zygote_word word;
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec part = {.iov_base = &word, .iov_len = sizeof(word)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header;
    struct ucred sender = {0};
    ssize_t length;

    length = recvmsg(zygote->control.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length != (ssize_t)sizeof(word))
        return length < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
    header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_CREDENTIALS)
        memcpy(&sender, CMSG_DATA(header), sizeof(sender));
    if (word.type == ZYGOTE_READY)
        ready(zygote);
    else
        zygote_heard(zygote, &word, sender.pid);
    return 1;
}

static void on_control(struct loop_source *source, uint32_t events)
{
    struct zygote *zygote = CONTAINER_OF(source, struct zygote, control);

    int heard = 1;

    for (int i = 0; i < WORDS_PER_TURN && heard > 0; i++) {
        heard = hear(zygote);
        zygote->words += heard != 0;
    }
    if (heard <= 0 && events & (EPOLLHUP | EPOLLERR)) {
        unwatch(zygote, source); /* its pidfd reports the rest */
        return;
    }
    if (zygote->words > WORDS_FREE + WORDS_PER_FORK * (uint64_t)zygote->forks) {
        log_warning("a zygote (tier %u) sends too many messages, ending it", zygote->tier);
        unwatch(zygote, &zygote->control);
        kill(zygote->pid, SIGKILL);
        return;
    }
    if (zygote->state == ZYGOTE_IS_RETIRED && zygote->kernels == 0)
        kill(zygote->pid, SIGKILL);
}

/* ---- requests ---- */

void zygotes_start(struct launcher *launcher)
{
    const struct launcher_plan *plan = launcher->plan;

    if (plan->has_zygotes && !launcher->zygotes && (launcher->layer[0] || plan->python[0]))
        add(launcher, launcher->layer[0] ? LAUNCHER_TENANT_LOCAL : "", launcher->layer, 0);
}

/*
 * Must be called before the boxes' ends are waited for, which requires that all kernels are reaped.
 */
void zygotes_end(struct launcher *launcher)
{
    zygotes_leave(launcher);
    zygote_kernels_end(launcher);
}

void zygotes_leave(struct launcher *launcher)
{
    while (launcher->zygotes) {
        int status;

        if (launcher->zygotes->pid > 0)
            reap(launcher->zygotes, &status);
        drop(launcher->zygotes);
    }
    zygote_strays_leave(launcher);
}

int zygotes_kernel(struct launcher *launcher, struct managed_box *box, uint32_t kernel,
                   uint8_t tier)
{
    const char *layer = box->facts.layer;
    struct zygote *found = NULL;
    bool is_coming = false;

    if (!launcher->plan->has_zygotes || launcher->is_stopping)
        return -EOPNOTSUPP;
    if (!layer[0] && !launcher->plan->python[0])
        return -ENOENT;
    if (!box->owner) /* only the launcher may enter it */
        return -EOPNOTSUPP;
    for (struct zygote *zygote = launcher->zygotes; zygote; zygote = zygote->next) {
        if (zygote->owner != box->owner || zygote->tier != tier ||
            zygote->state == ZYGOTE_IS_RETIRED)
            continue;
        zygote->used_ms = clock_now_ms();
        if (zygote->state == ZYGOTE_IS_READY)
            found = zygote;
        else
            is_coming = true;
    }
    if (!is_coming && (!found || found->forks >= FORKS_MAX))
        add(launcher, box->owner->tenant, layer, tier);
    return found ? zygote_ask(found, box, kernel) : -EAGAIN;
}

uint32_t zygotes_serving(struct launcher *launcher, const struct launcher_make *make)
{
    for (struct zygote *zygote = launcher->zygotes; zygote; zygote = zygote->next) {
        if (zygote->state == ZYGOTE_IS_READY &&
            is_of(zygote, make->tenant, make->layer, make->tier))
            return (uint32_t)zygote->pid;
    }
    return 0;
}

static bool is_there(const struct launcher *launcher, const char *tenant, const char *layer,
                     uint8_t tier)
{
    for (const struct zygote *zygote = launcher->zygotes; zygote; zygote = zygote->next) {
        if (zygote->state != ZYGOTE_IS_RETIRED && is_of(zygote, tenant, layer, tier))
            return true;
    }
    return false;
}

void zygotes_renew(struct launcher *launcher, const char *from, const char *to)
{
    const char *tenants[] = {from[0] ? LAUNCHER_TENANT_LOCAL : "",
                             to[0] ? LAUNCHER_TENANT_LOCAL : ""};

    if (!launcher->plan->has_zygotes || (!to[0] && !launcher->plan->python[0]))
        return;
    for (uint8_t tier = 0; tier < TIERS_MAX; tier++) {
        if ((tier == 0 || (to[0] && is_there(launcher, tenants[0], from, tier))) &&
            !is_there(launcher, tenants[1], to, tier))
            add(launcher, tenants[1], to, tier);
    }
}

void zygotes_forget(struct launcher *launcher, const char *layer)
{
    struct zygote *next;

    for (struct zygote *zygote = launcher->zygotes; zygote; zygote = next) {
        next = zygote->next;
        if (zygote->state == ZYGOTE_IS_RETIRED || !str_equal(zygote->owner->layer, layer))
            continue;
        if (zygote->state == ZYGOTE_IS_STARTING)
            kill(zygote->pid,
                 SIGKILL); /* else it would import first, from a folder that is being removed */
        retire(zygote);
    }
}

/*
 * A fork takes milliseconds, so a zygote that does not answer is stuck: it is killed and restarted.
 * One that has forked is not stuck: a guest may stop a process that joins its box, and loses only
 * that process. One that only claims to have forked is stuck.
 */
static void end_stuck(struct launcher *launcher, uint64_t now_ms)
{
    for (struct zygote_kernel *kernel = launcher->asked_kernels; kernel; kernel = kernel->next) {
        if (now_ms < kernel->at_ms || kernel->is_late)
            continue;
        log_warning("a %s (tier %u) did not %s in %d s, ending it",
                    kernel->pid > 0 ? "kernel of a zygote" : "zygote", kernel->zygote->tier,
                    kernel->pid > 0 ? "join its box" : "fork", FORK_PATIENCE_MS / 1000);
        kernel->is_late = true;
        if (kernel->pid == 0 || !zygote_kernel_kill(kernel))
            kill(kernel->zygote->pid, SIGKILL);
    }
}

void zygotes_tick(struct launcher *launcher, uint64_t now_ms)
{
    struct zygote *next;

    end_stuck(launcher, now_ms);
    zygote_strays_tick(launcher, now_ms);
    for (struct zygote *zygote = launcher->zygotes; zygote; zygote = next) {
        next = zygote->next;
        if (now_ms < zygote->at_ms)
            continue;
        if (zygote->state == ZYGOTE_IS_WAITING) {
            start(zygote);
        } else if (zygote->state == ZYGOTE_IS_STARTING && zygote->pid > 0) {
            log_warning("a zygote (tier %u) was not ready after %d s", zygote->tier,
                        START_PATIENCE_MS / 1000);
            zygote->at_ms = UINT64_MAX;
            kill(zygote->pid, SIGKILL);
        }
    }
}

uint64_t zygotes_deadline(const struct launcher *launcher)
{
    uint64_t first = zygote_strays_deadline(launcher);

    for (const struct zygote *zygote = launcher->zygotes; zygote; zygote = zygote->next) {
        if ((zygote->state == ZYGOTE_IS_WAITING || zygote->state == ZYGOTE_IS_STARTING) &&
            zygote->at_ms != UINT64_MAX && (!first || zygote->at_ms < first))
            first = zygote->at_ms;
    }
    for (const struct zygote_kernel *kernel = launcher->asked_kernels; kernel;
         kernel = kernel->next) {
        if (!kernel->is_late && (!first || kernel->at_ms < first))
            first = kernel->at_ms;
    }
    return first;
}

/* Memory that its end would free, not shared with other processes, in bytes; 0: unknown. */
static uint64_t private_bytes(const struct zygote *zygote)
{
    char path[64], text[2048];
    unsigned long long sum = 0, one;

    str_format(path, sizeof(path), "/proc/%d/smaps_rollup",
               (int)ids_proc_number(zygote->pid, zygote->end.fd));
    if (fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
        return 0;
    for (const char *line = strstr(text, "\nPrivate_"); line; line = strstr(line + 1, "\nPrivate_"))
        if (sscanf(line, "\nPrivate_%*[A-Za-z]: %llu kB", &one) == 1)
            sum += one;
    return sum * 1024;
}

void zygotes_each(struct launcher *launcher,
                  void (*each)(void *ctx, const char *tenant, const struct launcher_state *state),
                  void *ctx)
{
    for (struct zygote *zygote = launcher->zygotes; zygote; zygote = zygote->next) {
        struct launcher_state state = {
            .tier = zygote->tier,
            .is_ready = zygote->state == ZYGOTE_IS_READY,
            .pid = (uint32_t)(zygote->pid > 0 ? ids_proc_number(zygote->pid, zygote->end.fd) : 0),
            .forks = zygote->forks,
            .memory_bytes = zygote->pid > 0 ? private_bytes(zygote) : 0,
            .started_ns = zygote->started_ns,
            .ready_ns = zygote->ready_ns,
        };

        str_copy(state.layer, sizeof(state.layer), zygote->owner->layer);
        each(ctx, zygote->owner->tenant, &state);
    }
}
