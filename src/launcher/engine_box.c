/* engine_box.c - the boxes that the launcher holds: made, ended, counted, listed. */
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
#include "launcher/engine.h"
#include "sys/calls.h"

static struct engine_box **find(struct engine *engine, uint32_t number)
{
    struct engine_box **at = &engine->buckets[number % ENGINE_BUCKETS];

    while (*at && (*at)->facts.number != number)
        at = &(*at)->next;
    return at;
}

struct engine_box *boxes_find(struct engine *engine, uint32_t number)
{
    return *find(engine, number);
}

uint32_t boxes_slot_limit(const struct engine *engine)
{
    return engine->plan->pair_count ? engine->plan->pair_count : LIMIT_BOXES;
}

/* A pair of ids that no living box has; used ones come back as late as can be. */
static bool take_slot(struct engine *engine, uint32_t *ret)
{
    uint32_t count = boxes_slot_limit(engine);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = (engine->next_slot + i) % count;

        if (engine->slots[slot])
            continue;
        engine->slots[slot] = 1;
        engine->slots_used++;
        engine->next_slot = (slot + 1) % count;
        *ret = slot;
        return true;
    }
    return false;
}

static void give_slot(struct engine_box *box)
{
    box->engine->slots[box->slot] = 0;
    box->engine->slots_used--;
}

/* ---- made ---- */

/* `allowed` 0: nothing was said. An installer may have `own` at least, whatever boxes may have. */
static bool is_over(uint64_t wanted, uint64_t allowed, uint64_t own)
{
    return allowed && wanted > allowed && wanted > own;
}

/* The broker is not trusted with numbers either. */
static int check(const struct engine *engine, const struct launcher_make *make, struct error *err)
{
    const struct engine_plan *plan = engine->plan;

    if (engine->is_stopping)
        return error_set(err, -ESHUTDOWN, ERROR_CANCELLED, "the daemon is stopping");
    if (engine->box_count >= LIMIT_SESSIONS)
        return error_set(err, -EUSERS, ERROR_TOO_LARGE, "there are %u boxes already",
                         (unsigned)engine->box_count);
    if (make->memory_bytes < LIMIT_MEMORY_MIN || make->memory_bytes > LIMIT_MEMORY_MAX ||
        make->disk_bytes < LIMIT_DISK_MIN || make->disk_bytes > make->memory_bytes ||
        make->pids < LIMIT_PIDS_MIN || make->pids > LIMIT_PIDS_MAX ||
        make->cpu_millis > LIMIT_CPU_MILLIS_MAX)
        return error_set(err, -ERANGE, ERROR_BAD_INPUT, "a limit of the box is out of range");
    if (is_over(make->memory_bytes, plan->memory_bytes, make->staging ? INSTALL_MEMORY : 0) ||
        is_over(make->disk_bytes, plan->disk_bytes, make->staging ? INSTALL_MEMORY / 2 : 0) ||
        (plan->pids && make->pids > plan->pids) ||
        (plan->cpu_millis && (make->cpu_millis == 0 || make->cpu_millis > plan->cpu_millis)) ||
        make->minimum < plan->minimum)
        return error_set(err, -EPERM, ERROR_REFUSED, "more than the configuration allows a box");
    return 0;
}

struct engine_box *boxes_new(struct engine *engine, const struct launcher_make *make, bool is_ahead)
{
    CLEANUP(freep) struct engine_box *box = calloc(1, sizeof(*box));

    /* What is made ahead leaves room for what is asked for. */
    if (!box || (is_ahead && engine->slots_used >= boxes_slot_limit(engine) / 4 * 3))
        return NULL;
    box->engine = engine;
    if (!take_slot(engine, &box->slot))
        return NULL;
    box->source.fd = -1;
    box->make = *make;
    box->generation = engine->generation;
    box->is_ahead = is_ahead;
    trace_moment(box, BOX_ASKED);
    if (!is_ahead)
        engine->box_count++;
    return ptr_take(&box);
}

/* Its slot and its place go back; whoever waits for it has been told. */
void boxes_free(struct engine_box *box)
{
    if (box->is_ahead)
        pool_lost(box->engine, box);
    else
        box->engine->box_count--;
    give_slot(box);
    free(box);
}

static void note_facts(struct engine_box *box)
{
    struct engine *engine = box->engine;
    const struct launched *launched = &box->launched;
    const struct launcher_make *make = &box->make;

    if (++engine->next_number == 0)
        engine->next_number = 1;
    box->facts = (struct launcher_box){
        .number = engine->next_number,
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
        .is_pooled = box->was_ahead,
    };
    str_copy(box->facts.layer, sizeof(box->facts.layer), make->layer);
    str_copy(box->facts.key, sizeof(box->facts.key), make->key);
}

static void on_box_end(struct loop_source *source, uint32_t events);

/* The broker gets a duplicate: ours stays, and with it the box, when the broker goes. */
static int duplicate(const struct engine_box *box)
{
    return fcntl(box->launched.channel_fd, F_DUPFD_CLOEXEC, 3);
}

int boxes_keep(struct engine_box *box, struct error *err)
{
    struct engine *engine = box->engine;
    struct engine_box **bucket;
    int r;

    box->source.ready = on_box_end;
    /* It has been joined: a living box costs few descriptors. */
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        fd_closep(&box->launched.group.join_fd[i]);
    r = loop_add(&engine->loop, &box->source, box->launched.pid_fd, EPOLLIN);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "watching the box: %s", strerror(-r));
    bucket = &engine->buckets[box->facts.number % ENGINE_BUCKETS];
    box->next = *bucket;
    *bucket = box;
    return 0;
}

static void refuse(struct engine *engine, uint32_t serial, const struct launched *launched,
                   const struct error *err)
{
    struct launcher_message message = {.type = LAUNCHER_REFUSED,
                                       .refused = {.serial = serial, .error = *err}};

    if (launched) {
        message.refused.layers = launched->layers;
        message.refused.missing = launched->missing;
    }
    broker_send(engine, &message, -1);
}

static void tell_made(struct engine_box *box)
{
    struct engine *engine = box->engine;
    struct launcher_message message = {.type = LAUNCHER_MADE, .box = box->facts};
    struct error err = {0};
    int fd;

    if (box->generation != engine->generation)
        return; /* who asked is gone: the next one finds it in the inventory */
    fd = duplicate(box);
    if (fd < 0) {
        error_errno(&err, "duplicating the box's channel");
        refuse(engine, box->make.serial, &box->launched, &err);
        sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
        return;
    }
    message.box.serial = box->make.serial;
    trace_moment(box, BOX_TOLD);
    broker_send(engine, &message, fd);
    box->facts.kernel = 0; /* from now on the warden knows what lives */
}

void boxes_failed(struct engine_box *box, const struct launched *launched, const struct error *err)
{
    if (!box->is_ahead && box->generation == box->engine->generation)
        refuse(box->engine, box->make.serial, launched, err);
    boxes_free(box);
}

/* Cold is no error: the broker starts a kernel itself then. True: it comes. */
static bool ask_kernel(struct engine_box *box)
{
    const struct launcher_make *make = &box->make;

    box->waits_kernel =
        make->tier != TIER_NONE && zygotes_kernel(box->engine, box, make->kernel, make->tier) == 0;
    return box->waits_kernel;
}

static void complete(struct engine_box *box)
{
    if (box->is_ahead)
        pool_stands(box->engine, box);
    else
        tell_made(box);
}

void boxes_stand(struct engine_box *box)
{
    struct engine *engine = box->engine;
    struct error err = {0};

    trace_moment(box, BOX_STANDS);
    note_facts(box);
    if (boxes_keep(box, &err) < 0) {
        launcher_end(&box->launched, NULL);
        boxes_failed(box, &box->launched, &err);
        return;
    }
    if (box->launched.egress_fd >= 0)
        egress_add(engine, box);
    if (!ask_kernel(box))
        complete(box);
}

void boxes_make(struct engine *engine, const struct launcher_make *make)
{
    struct engine_box *box;
    struct error err = {0};

    if (check(engine, make, &err) < 0) {
        refuse(engine, make->serial, NULL, &err);
        return;
    }
    box = pool_take(engine, make);
    if (box) {
        if (box->facts.number) /* else it is still being made, and told then */
            tell_made(box);
        return;
    }
    box = boxes_new(engine, make, false);
    if (!box) {
        error_set(&err, -EUSERS, ERROR_TOO_LARGE, "there is no room for another box");
        refuse(engine, make->serial, NULL, &err);
        return;
    }
    makings_add(engine, box);
}

/* ---- kernels ---- */

/* The box of a number, if the broker may know it. */
static struct engine_box *known(struct engine *engine, uint32_t number)
{
    struct engine_box *box = *find(engine, number);

    return box && !box->is_ahead ? box : NULL;
}

static void tell_kernel(struct engine *engine, uint32_t number, uint32_t kernel, int num)
{
    struct launcher_message message = {
        .type = LAUNCHER_KERNEL_MADE,
        .kernel_made = {.number = number, .kernel = kernel, .num = num}};

    if (engine->has_said_hello && !engine->greets_later)
        broker_send(engine, &message, -1);
}

void boxes_kernel(struct engine *engine, const struct launcher_kernel *asked)
{
    struct engine_box *box = known(engine, asked->number);
    int r = box ? zygotes_kernel(engine, box, asked->kernel, asked->tier) : -ESRCH;

    if (r < 0)
        tell_kernel(engine, asked->number, asked->kernel, r);
}

/* A box that is made with a kernel is told when that is there, or cannot be had. */
void boxes_kernel_made(struct engine *engine, uint32_t number, uint32_t kernel, int num)
{
    struct engine_box *box = boxes_find(engine, number);

    if (!box)
        return;
    if (!box->waits_kernel) {
        tell_kernel(engine, number, kernel, num);
        return;
    }
    box->waits_kernel = false;
    if (num == 0) {
        box->facts.tier = box->make.tier;
        box->facts.kernel = kernel;
    }
    complete(box);
    pool_wake(engine);
}

void boxes_kernel_ended(struct engine *engine, const struct launcher_kernel_ended *ended)
{
    struct launcher_message message = {.type = LAUNCHER_KERNEL_ENDED, .kernel_ended = *ended};
    struct engine_box *box = *find(engine, ended->number);

    if (!box)
        return;
    trace_moment(box, BOX_KERNEL_ENDED);
    if (box->is_ahead)
        sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL); /* nobody will want it now */
    else if (engine->has_said_hello && !engine->greets_later)
        broker_send(engine, &message, -1);
}

/* ---- ended ---- */

/* What it used is known only now. Its control group is removed when there is time. */
static void bury(struct engine_box *box, struct launcher_usage *ret)
{
    struct engine *engine = box->engine;
    struct engine_box **at = find(engine, box->facts.number);
    struct cgroup_usage counted;
    struct launch_usage usage = {0};

    cgroup_usage(&box->launched.group, &counted);
    loop_remove(&engine->loop, &box->source);
    if (box->make.staging != STAGING_NONE)
        egress_remove(engine, box->facts.number);
    end_but_group(&box->launched, &usage);
    trace_moment(box, BOX_GONE);
    trace_tell(box);
    graves_add(engine, &box->launched.group);
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
    struct engine_box *box = (struct engine_box *)source; /* its first member */
    struct engine *engine = box->engine;
    struct launcher_message message = {.type = LAUNCHER_ENDED};
    bool is_ahead = box->is_ahead, was_waiting = box->waits_kernel;
    uint32_t serial = box->generation == engine->generation ? box->make.serial : 0;
    struct error err = {0};

    (void)events;
    trace_moment(box, BOX_EXITED);
    bury(box, &message.usage);
    if (!is_ahead)
        pool_release(engine);
    if (was_waiting && !is_ahead && serial) { /* nobody was told of it */
        error_set(&err, -EPIPE, ERROR_BOX_LOST, "the box was lost while it was made");
        refuse(engine, serial, NULL, &err);
        return;
    }
    /* One that has not asked yet learns it from the inventory. */
    if (engine->has_said_hello && !engine->greets_later && !is_ahead)
        broker_send(engine, &message, -1);
}

/* Killed now; what follows is the same as when it ended by itself. */
void boxes_end(struct engine *engine, uint32_t number)
{
    struct launcher_message message = {.type = LAUNCHER_ENDED,
                                       .usage = {.number = number, .was_asked = true}};
    struct engine_box *box = known(engine, number);

    if (!box) {
        broker_send(engine, &message, -1);
        return;
    }
    box->was_asked = true;
    trace_moment(box, BOX_END_ASKED);
    sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
}

void boxes_end_all(struct engine *engine)
{
    struct launcher_usage usage;

    makings_end_all(engine);
    for (size_t i = 0; i < ENGINE_BUCKETS; i++) {
        for (struct engine_box *box = engine->buckets[i]; box; box = box->next)
            sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
    }
    for (size_t i = 0; i < ENGINE_BUCKETS; i++) {
        while (engine->buckets[i])
            bury(engine->buckets[i], &usage);
    }
    graves_end(engine);
}

/* ---- asked about ---- */

bool boxes_has_key(const struct engine *engine, const char *key)
{
    const struct engine_box *lists[] = {engine->queue, engine->makings};

    for (size_t i = 0; i < ENGINE_BUCKETS; i++) {
        for (const struct engine_box *box = engine->buckets[i]; box; box = box->next) {
            if (str_equal(box->facts.key, key))
                return true;
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        for (const struct engine_box *box = lists[i]; box; box = box->next) {
            if (str_equal(box->make.key, key))
                return true;
        }
    }
    return false;
}

/* Without a group: the warden and those it has waited for, in ticks. */
static uint64_t ticks_used(const struct launched *launched)
{
    char path[64], text[1024];
    unsigned long ticks[4];
    const char *behind;

    str_format(path, sizeof(path), "/proc/%d/stat",
               (int)ids_proc_number(launched->pid, launched->pid_fd));
    if (fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
        return 0;
    behind = strrchr(text, ')');
    if (!behind || sscanf(behind, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
                          &ticks[0], &ticks[1], &ticks[2], &ticks[3]) != 4)
        return 0;
    return (ticks[0] + ticks[1] + ticks[2] + ticks[3]) * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

void boxes_usage(struct engine *engine, uint32_t number)
{
    struct launcher_message message = {.type = LAUNCHER_USED, .usage = {.number = number}};
    struct engine_box *box = known(engine, number);

    if (box) {
        struct cgroup_usage counted;

        cgroup_usage(&box->launched.group, &counted);
        message.usage.cpu_us = counted.cpu_us ? counted.cpu_us : ticks_used(&box->launched);
        message.usage.memory_bytes =
            counted.memory_peak_bytes ? counted.memory_peak_bytes : counted.memory_bytes;
        message.usage.oom_kills = launcher_oom_kills(&box->launched);
        message.usage.was_asked = box->was_asked;
        message.usage.counted = COUNTED_ALL;
    }
    broker_send(engine, &message, -1);
}

void boxes_inventory(struct engine *engine)
{
    for (size_t i = 0; i < ENGINE_BUCKETS; i++) {
        for (struct engine_box *box = engine->buckets[i]; box; box = box->next) {
            struct launcher_message message = {.type = LAUNCHER_BOX, .box = box->facts};
            int fd = box->is_ahead ? -1 : duplicate(box);

            if (box->is_ahead)
                continue;           /* nobody's yet */
            message.box.kernel = 0; /* the warden knows what lives */
            if (fd < 0)
                log_warning("box %u could not be shown to the broker, continuing without it",
                            (unsigned)box->facts.number);
            else
                broker_send(engine, &message, fd);
        }
    }
}

/* ---- looked at ---- */

static void tell_state(void *ctx, const struct launcher_state *state)
{
    struct engine *engine = ctx;
    struct launcher_message message = {.type = LAUNCHER_STATE, .state = *state};

    pool_fill_state(engine, &message.state);
    broker_send(engine, &message, -1);
}

void boxes_look(struct engine *engine)
{
    struct launcher_state totals = {.tier = STATE_END};

    zygotes_each(engine, tell_state, engine);
    tell_state(engine, &totals);
}
