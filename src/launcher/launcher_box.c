/* launcher_box.c - the boxes that the launcher holds: made, ended, counted, listed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/launcher_private.h"
#include "sys/calls.h"

static struct managed_box **find(struct launcher *launcher, uint32_t number)
{
    struct managed_box **at = &launcher->buckets[number % LAUNCHER_BUCKETS];

    while (*at && (*at)->facts.number != number)
        at = &(*at)->next;
    return at;
}

struct managed_box *boxes_find(struct launcher *launcher, uint32_t number)
{
    return *find(launcher, number);
}

uint32_t boxes_slot_limit(const struct launcher *launcher)
{
    return launcher->plan->pair_count ? launcher->plan->pair_count : LIMIT_BOXES;
}

bool slots_take_one(struct launcher *launcher, uint32_t slot)
{
    if (slot >= boxes_slot_limit(launcher) || launcher->slots[slot])
        return false;
    launcher->slots[slot] = 1;
    launcher->slots_used++;
    return true;
}

bool slots_take(struct launcher *launcher, uint32_t *ret)
{
    uint32_t count = boxes_slot_limit(launcher);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = (launcher->next_slot + i) % count;

        if (!slots_take_one(launcher, slot))
            continue;
        launcher->next_slot = (slot + 1) % count;
        *ret = slot;
        return true;
    }
    return false;
}

void slots_give(struct launcher *launcher, uint32_t slot)
{
    launcher->slots[slot] = 0;
    launcher->slots_used--;
}

/* ---- made ---- */

/* `allowed` 0: nothing was said. An installer may have `own` at least, whatever boxes may have. */
static bool is_over(uint64_t wanted, uint64_t allowed, uint64_t own)
{
    return allowed && wanted > allowed && wanted > own;
}

/* The broker is not trusted with numbers either. */
static int check(const struct launcher *launcher, const struct launcher_make *make,
                 struct error *err)
{
    const struct launcher_plan *plan = launcher->plan;

    if (launcher->is_stopping)
        return error_set(err, -ESHUTDOWN, ERROR_CANCELLED, "the daemon is stopping");
    if (plan->has_no_namespaces)
        return error_set(err, -EPERM, ERROR_REFUSED,
                         "a box of its own needs namespaces, and they are refused here");
    if (launcher->box_count >= LIMIT_SESSIONS)
        return error_set(err, -EUSERS, ERROR_TOO_LARGE, "there are %u boxes already",
                         (unsigned)launcher->box_count);
    if (make->memory_bytes < LIMIT_MEMORY_MIN || make->memory_bytes > LIMIT_MEMORY_MAX ||
        make->disk_bytes < LIMIT_DISK_MIN || make->disk_bytes > make->memory_bytes ||
        make->pids < LIMIT_PIDS_MIN || make->pids > LIMIT_PIDS_MAX ||
        make->cpu_millis > LIMIT_CPU_MILLIS_MAX)
        return error_set(err, -ERANGE, ERROR_BAD_INPUT, "a limit of the box is out of range");
    if (plan->has_no_ceiling)
        return 0;
    if (is_over(make->memory_bytes, plan->memory_bytes, make->staging ? INSTALL_MEMORY : 0) ||
        is_over(make->disk_bytes, plan->disk_bytes, make->staging ? INSTALL_MEMORY / 2 : 0) ||
        (plan->pids && make->pids > plan->pids) ||
        (plan->cpu_millis && (make->cpu_millis == 0 || make->cpu_millis > plan->cpu_millis)) ||
        make->minimum < plan->minimum)
        return error_set(err, -EPERM, ERROR_REFUSED, "more than the configuration allows a box");
    return 0;
}

struct managed_box *boxes_new(struct launcher *launcher, const struct launcher_make *make,
                              bool is_prewarmed)
{
    CLEANUP(freep) struct managed_box *box = calloc(1, sizeof(*box));

    /* What is prewarmed leaves room for what is asked for. */
    if (!box || (is_prewarmed && launcher->slots_used >= boxes_slot_limit(launcher) / 4 * 3))
        return NULL;
    box->launcher = launcher;
    if (make->staging == STAGING_NONE || staging_fetches(make->staging)
            ? !slots_take(launcher, &box->slot)
            : !staging_slot(launcher, make->key, &box->slot))
        return NULL;
    box->source.fd = -1;
    box->make = *make;
    /* No zygote has another interpreter than the plan's. */
    if (launcher->plan->has_zygotes && make->staging == STAGING_NONE && !make->python[0])
        box->owner = zygote_owner_take(launcher, make->tenant, make->layer);
    box->generation = launcher->generation;
    box->is_prewarmed = is_prewarmed;
    trace_moment(box, BOX_ASKED);
    if (!is_prewarmed)
        launcher->box_count++;
    return ptr_take(&box);
}

/* Its slot and its position are released; requests that waited for it have been answered. */
void boxes_free(struct managed_box *box)
{
    if (box->is_prewarmed)
        pool_lost(box->launcher, box);
    else
        box->launcher->box_count--;
    share_box_gone(box);
    slots_give(box->launcher, box->slot);
    zygote_owner_give(box->owner);
    free(box);
}

static void note_facts(struct managed_box *box)
{
    struct launcher *launcher = box->launcher;
    const struct launched *launched = &box->launched;
    const struct launcher_make *make = &box->make;

    if (++launcher->next_number == 0)
        launcher->next_number = 1;
    box->facts = (struct launcher_box){
        .number = launcher->next_number,
        .memory_bytes = make->memory_bytes,
        .disk_bytes = make->disk_bytes,
        .pids = make->pids,
        .cpu_millis = make->cpu_millis,
        .layers = launched->layers,
        .missing = launched->missing,
        .memory_by = (uint8_t)launched->memory,
        .pids_by = (uint8_t)launched->pids,
        .cpu_by = (uint8_t)launched->cpu,
        .disk_by = (uint8_t)launched->disk,
        .group = (uint8_t)launched->group.flavour,
        .made_ns = clock_now_ns(),
        .tier = TIER_NONE,
        .is_pooled = box->was_prewarmed,
    };
    str_copy(box->facts.layer, sizeof(box->facts.layer), make->layer);
    str_copy(box->facts.key, sizeof(box->facts.key), make->key);
}

static void on_box_end(struct loop_source *source, uint32_t events);

/* The broker gets a duplicate: ours stays, and with it the box, when the broker goes. */
static int duplicate(const struct managed_box *box)
{
    return fcntl(box->launched.channel_fd, F_DUPFD_CLOEXEC, 3);
}

int boxes_keep(struct managed_box *box, struct error *err)
{
    struct launcher *launcher = box->launcher;
    struct managed_box **bucket;
    int r;

    box->source.ready = on_box_end;
    /* It has been joined: a living box costs few descriptors. */
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        fd_closep(&box->launched.group.join_fd[i]);
    r = loop_add(&launcher->loop, &box->source, box->launched.pid_fd, EPOLLIN);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "watching the box: %s", strerror(-r));
    bucket = &launcher->buckets[box->facts.number % LAUNCHER_BUCKETS];
    box->next = *bucket;
    *bucket = box;
    return 0;
}

static void refuse(struct launcher *launcher, uint32_t serial, const struct launched *launched,
                   const struct error *err)
{
    struct launcher_message message = {.type = LAUNCHER_REFUSED,
                                       .refused = {.serial = serial, .error = *err}};

    if (launched) {
        message.refused.layers = launched->layers;
        message.refused.missing = launched->missing;
    }
    broker_send(launcher, &message, -1);
}

static void tell_made(struct managed_box *box)
{
    struct launcher *launcher = box->launcher;
    struct launcher_message message = {.type = LAUNCHER_MADE, .box = box->facts};
    struct error err = {0};
    int fd;

    if (box->generation != launcher->generation)
        return; /* the requester has gone: the next broker finds the box in the inventory */
    fd = duplicate(box);
    if (fd < 0) {
        error_errno(&err, "duplicating the box's channel");
        refuse(launcher, box->make.serial, &box->launched, &err);
        sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
        return;
    }
    message.box.serial = box->make.serial;
    trace_moment(box, BOX_TOLD);
    broker_send(launcher, &message, fd);
    box->facts.kernel = 0; /* from now on the warden knows what lives */
}

void boxes_failed(struct managed_box *box, const struct launched *launched, const struct error *err)
{
    if (!box->is_prewarmed && box->generation == box->launcher->generation)
        refuse(box->launcher, box->make.serial, launched, err);
    boxes_free(box);
}

/*
 * A cold start is not an error: the broker then starts a kernel itself. True: a kernel will come.
 */
static bool ask_kernel(struct managed_box *box)
{
    const struct launcher_make *make = &box->make;

    box->waits_kernel = make->tier != TIER_NONE &&
                        zygotes_kernel(box->launcher, box, make->kernel, make->tier) == 0;
    return box->waits_kernel;
}

static void complete(struct managed_box *box)
{
    if (box->is_prewarmed)
        pool_stands(box->launcher, box);
    else
        tell_made(box);
}

void boxes_stand(struct managed_box *box)
{
    struct launcher *launcher = box->launcher;
    struct error err = {0};

    trace_moment(box, BOX_STANDS);
    note_facts(box);
    if (boxes_keep(box, &err) < 0) {
        launch_end(&box->launched, NULL);
        boxes_failed(box, &box->launched, &err);
        return;
    }
    if (box->launched.egress_fd >= 0)
        egress_add(launcher, box);
    if (!ask_kernel(box))
        complete(box);
}

void boxes_make(struct launcher *launcher, const struct launcher_make *asked)
{
    struct launcher_make named = *asked;
    const struct launcher_make *make = &named;
    struct share_account *account;
    struct managed_box *box;
    struct error err = {0};

    zygote_owner_name(&named);
    if (check(launcher, make, &err) < 0) {
        refuse(launcher, make->serial, NULL, &err);
        return;
    }
    account = share_asked(launcher, asked->tenant);
    box = pool_take(launcher, make, account);
    if (box) {
        share_give_box(box, account);
        if (box->facts.number) /* else it is still being made, and reported then */
            tell_made(box);
        return;
    }
    box = boxes_new(launcher, make, false);
    if (!box) {
        if (make->staging == STAGING_NONE || staging_fetches(make->staging))
            error_set(&err, -EUSERS, ERROR_TOO_LARGE, "there is no room for another box");
        else
            error_set(&err, -EAGAIN, ERROR_INSTALL_FAILED,
                      "what was fetched cannot be finished: its folder is gone, or another box has "
                      "its ids by now; install it again");
        refuse(launcher, make->serial, NULL, &err);
        return;
    }
    share_give_box(box, account);
    bringups_add(launcher, box);
}

/* ---- kernels ---- */

/* The box of a number, if the broker may know it. */
static struct managed_box *known(struct launcher *launcher, uint32_t number)
{
    struct managed_box *box = *find(launcher, number);

    return box && !box->is_prewarmed ? box : NULL;
}

static void tell_kernel(struct launcher *launcher, uint32_t number, uint32_t kernel, int num)
{
    struct launcher_message message = {
        .type = LAUNCHER_KERNEL_MADE,
        .kernel_made = {.number = number, .kernel = kernel, .num = num}};

    if (launcher->has_said_hello && !launcher->greets_later)
        broker_send(launcher, &message, -1);
}

void boxes_kernel(struct launcher *launcher, const struct launcher_kernel *asked)
{
    struct managed_box *box = known(launcher, asked->number);
    int r = box ? zygotes_kernel(launcher, box, asked->kernel, asked->tier) : -ESRCH;

    if (r < 0)
        tell_kernel(launcher, asked->number, asked->kernel, r);
}

/* A box that is made with a kernel is reported when the kernel is there, or is not available. */
void boxes_kernel_made(struct launcher *launcher, uint32_t number, uint32_t kernel, int num)
{
    struct managed_box *box = boxes_find(launcher, number);

    if (!box)
        return;
    if (!box->waits_kernel) {
        tell_kernel(launcher, number, kernel, num);
        return;
    }
    box->waits_kernel = false;
    if (num == 0) {
        box->facts.tier = box->make.tier;
        box->facts.kernel = kernel;
    }
    complete(box);
    pool_wake(launcher);
}

void boxes_kernel_ended(struct launcher *launcher, const struct launcher_kernel_ended *ended)
{
    struct launcher_message message = {.type = LAUNCHER_KERNEL_ENDED, .kernel_ended = *ended};
    struct managed_box *box = *find(launcher, ended->number);

    if (!box)
        return;
    trace_moment(box, BOX_KERNEL_ENDED);
    if (box->is_prewarmed)
        sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL); /* it is not wanted any more */
    else if (launcher->has_said_hello && !launcher->greets_later)
        broker_send(launcher, &message, -1);
}

/* ---- ended ---- */

/* What it used is known only now. Its control group is removed when there is time. */
static void reap(struct managed_box *box, struct launcher_usage *ret)
{
    struct launcher *launcher = box->launcher;
    struct managed_box **at = find(launcher, box->facts.number);
    struct cgroup_usage counted;
    struct launch_usage usage = {0};

    loop_remove(&launcher->loop, &box->source);
    if (staging_fetches(box->make.staging))
        egress_remove(launcher, box->facts.number);
    end_but_group(&box->launched, &usage);
    cgroup_usage(&box->launched.group, &counted); /* with what died together with the warden */
    trace_moment(box, BOX_GONE);
    trace_tell(box);
    cgroup_reaper_add(launcher, &box->launched.group);
    *ret = (struct launcher_usage){
        .number = box->facts.number,
        .cpu_us = MAX(usage.cpu_us, counted.cpu_us),
        .memory_bytes = counted.memory_peak_bytes ? counted.memory_peak_bytes : usage.max_rss_bytes,
        .oom_kills = usage.oom_kills,
        .was_asked = box->was_asked,
        .counted = COUNTED_ALL,
    };
    *at = box->next;
    boxes_free(box);
}

static void on_box_end(struct loop_source *source, uint32_t events)
{
    struct managed_box *box = (struct managed_box *)source; /* its first member */
    struct launcher *launcher = box->launcher;
    struct launcher_message message = {.type = LAUNCHER_ENDED};
    bool is_prewarmed = box->is_prewarmed, was_waiting = box->waits_kernel;
    uint32_t serial = box->generation == launcher->generation ? box->make.serial : 0;
    struct error err = {0};

    (void)events;
    trace_moment(box, BOX_EXITED);
    reap(box, &message.usage);
    if (!is_prewarmed)
        pool_release(launcher);
    if (was_waiting && !is_prewarmed && serial) { /* it was not reported to any broker */
        error_set(&err, -EPIPE, ERROR_BOX_LOST, "the box was lost while it was made");
        refuse(launcher, serial, NULL, &err);
        return;
    }
    /* One that has not asked yet learns it from the inventory. */
    if (launcher->has_said_hello && !launcher->greets_later && !is_prewarmed)
        broker_send(launcher, &message, -1);
}

/* Killed now; what follows is the same as when it ended by itself. */
void boxes_end(struct launcher *launcher, uint32_t number)
{
    struct launcher_message message = {.type = LAUNCHER_ENDED,
                                       .usage = {.number = number, .was_asked = true}};
    struct managed_box *box = known(launcher, number);

    if (!box) {
        broker_send(launcher, &message, -1);
        return;
    }
    box->was_asked = true;
    trace_moment(box, BOX_END_ASKED);
    sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
}

void boxes_end_all(struct launcher *launcher)
{
    struct launcher_usage usage;

    bringups_end_all(launcher);
    for (size_t i = 0; i < LAUNCHER_BUCKETS; i++) {
        for (struct managed_box *box = launcher->buckets[i]; box; box = box->next)
            sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
    }
    for (size_t i = 0; i < LAUNCHER_BUCKETS; i++) {
        while (launcher->buckets[i])
            reap(launcher->buckets[i], &usage);
    }
    cgroup_reaper_end(launcher);
}

/* ---- asked about ---- */

bool boxes_has_key(const struct launcher *launcher, const char *key)
{
    const struct managed_box *lists[] = {launcher->queue, launcher->bringups};

    for (size_t i = 0; i < LAUNCHER_BUCKETS; i++) {
        for (const struct managed_box *box = launcher->buckets[i]; box; box = box->next) {
            if (str_equal(box->facts.key, key))
                return true;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        for (const struct managed_box *box = lists[i]; box; box = box->next) {
            if (str_equal(box->make.key, key))
                return true;
        }
    }
    return false;
}

uint64_t process_cpu_us(pid_t pid, int pid_fd, bool with_children)
{
    char path[64], text[1024];
    unsigned long ticks[4];
    const char *behind;

    str_format(path, sizeof(path), "/proc/%d/stat", (int)ids_proc_number(pid, pid_fd));
    if (fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
        return 0;
    behind = strrchr(text, ')');
    if (!behind || sscanf(behind, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
                          &ticks[0], &ticks[1], &ticks[2], &ticks[3]) != 4)
        return 0;
    return (ticks[0] + ticks[1] + (with_children ? ticks[2] + ticks[3] : 0)) * 1000000 /
           (uint64_t)sysconf(_SC_CLK_TCK);
}

void boxes_usage(struct launcher *launcher, uint32_t number)
{
    struct launcher_message message = {.type = LAUNCHER_USED, .usage = {.number = number}};
    struct managed_box *box = known(launcher, number);

    if (box) {
        struct cgroup_usage counted;

        cgroup_usage(&box->launched.group, &counted);
        message.usage.cpu_us = counted.cpu_us
                                   ? counted.cpu_us
                                   : process_cpu_us(box->launched.pid, box->launched.pid_fd, true);
        message.usage.memory_bytes =
            counted.memory_peak_bytes ? counted.memory_peak_bytes : counted.memory_bytes;
        message.usage.oom_kills = launch_oom_kills(&box->launched);
        message.usage.was_asked = box->was_asked;
        message.usage.counted = COUNTED_ALL;
        zygotes_spent(launcher, box->owner);
    }
    broker_send(launcher, &message, -1);
}

void boxes_inventory(struct launcher *launcher)
{
    for (size_t i = 0; i < LAUNCHER_BUCKETS; i++) {
        for (struct managed_box *box = launcher->buckets[i]; box; box = box->next) {
            struct launcher_message message = {.type = LAUNCHER_BOX, .box = box->facts};
            int fd = box->is_prewarmed ? -1 : duplicate(box);

            if (box->is_prewarmed)
                continue;           /* not assigned yet */
            message.box.kernel = 0; /* the warden knows what lives */
            if (fd < 0)
                log_warning("box %u could not be shown to the broker, continuing without it",
                            (unsigned)box->facts.number);
            else
                broker_send(launcher, &message, fd);
        }
    }
}

/* ---- looked at ---- */

static void tell_state(void *ctx, const char *tenant, const struct launcher_state *state)
{
    struct launcher *launcher = ctx;
    struct launcher_message message = {.type = LAUNCHER_STATE, .state = *state};

    pool_fill_state(launcher, tenant, &message.state);
    broker_send(launcher, &message, -1);
}

void boxes_look(struct launcher *launcher)
{
    struct launcher_state totals = {.tier = STATE_END};

    zygotes_each(launcher, tell_state, launcher);
    tell_state(launcher, NULL, &totals);
}
