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

/* A pair of ids that no living box has; used ones come back as late as can be. */
static bool take_slot(struct engine *engine, uint32_t *ret)
{
    uint32_t count = engine->plan->pair_count ? engine->plan->pair_count : LIMIT_SESSIONS;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = (engine->next_slot + i) % count;

        if (engine->slots[slot])
            continue;
        engine->slots[slot] = 1;
        engine->next_slot = (slot + 1) % count;
        *ret = slot;
        return true;
    }
    return false;
}

/* ---- made ---- */

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
    if ((plan->memory_bytes && make->memory_bytes > plan->memory_bytes) ||
        (plan->disk_bytes && make->disk_bytes > plan->disk_bytes) ||
        (plan->pids && make->pids > plan->pids) ||
        (plan->cpu_millis && (make->cpu_millis == 0 || make->cpu_millis > plan->cpu_millis)) ||
        make->minimum < plan->minimum)
        return error_set(err, -EPERM, ERROR_REFUSED, "more than the configuration allows a box");
    return 0;
}

static int launch(struct engine *engine, const struct launcher_make *make, struct engine_box *box,
                  struct error *err)
{
    const struct engine_plan *plan = engine->plan;
    char data[PATH_MAX + 64];
    struct launch_spec spec = {
        .memory_bytes = make->memory_bytes,
        .disk_bytes = make->disk_bytes,
        .pids = make->pids,
        .cpu_millis = make->cpu_millis,
        .minimum = make->minimum,
        .root = plan->root[0] ? plan->root : NULL,
        .binds = engine->binds,
        .bind_count = plan->bind_count,
        .ids = plan->pair_count ? LAUNCH_IDS_PAIR : LAUNCH_IDS_SINGLE,
        .warden_id = ENGINE_PAIR_FIRST + 2 * box->slot,
        .guest_id = ENGINE_PAIR_FIRST + 2 * box->slot + 1,
        .site = &plan->site,
    };

    if (make->has_data) {
        str_format(data, sizeof(data), "%s/data/%s", plan->state, make->key);
        spec.data = data;
    }
    return launcher_make(&spec, &box->launched, err);
}

static void note_facts(struct engine *engine, const struct launcher_make *make,
                       struct engine_box *box)
{
    const struct launched *launched = &box->launched;

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
    };
    str_copy(box->facts.key, sizeof(box->facts.key), make->key);
}

static void on_box_end(struct loop_source *source, uint32_t events);

/* The broker gets a duplicate: ours stays, and with it the box, when the broker goes. */
static int duplicate(const struct engine_box *box)
{
    return fcntl(box->launched.channel_fd, F_DUPFD_CLOEXEC, 3);
}

static int keep(struct engine *engine, struct engine_box *box, int *ret_fd, struct error *err)
{
    struct engine_box **bucket;
    int r;

    box->engine = engine;
    box->source.fd = -1;
    box->source.ready = on_box_end;
    /* It has been joined: a living box costs two descriptors, not five. */
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        fd_closep(&box->launched.group.join_fd[i]);
    *ret_fd = duplicate(box);
    if (*ret_fd < 0)
        return error_errno(err, "duplicating the box's channel");
    r = loop_add(&engine->loop, &box->source, box->launched.pid_fd, EPOLLIN);
    if (r < 0) {
        fd_closep(ret_fd);
        return error_set(err, r, ERROR_ENGINE, "watching the box: %s", strerror(-r));
    }
    bucket = &engine->buckets[box->facts.number % ENGINE_BUCKETS];
    box->next = *bucket;
    *bucket = box;
    engine->box_count++;
    return 0;
}

static void refuse(struct engine *engine, const struct launcher_make *make,
                   const struct launched *launched, const struct error *err)
{
    struct launcher_message message = {.type = LAUNCHER_REFUSED,
                                       .refused = {.serial = make->serial, .error = *err}};

    if (launched) {
        message.refused.layers = launched->layers;
        message.refused.missing = launched->missing;
    }
    broker_send(engine, &message, -1);
}

void boxes_make(struct engine *engine, const struct launcher_make *make)
{
    CLEANUP(freep) struct engine_box *box = calloc(1, sizeof(*box));
    struct launcher_message message = {.type = LAUNCHER_MADE};
    struct error err = {0};
    int fd = -1;
    int r = check(engine, make, &err);

    if (r == 0 && (!box || !take_slot(engine, &box->slot)))
        r = error_set(&err, -EUSERS, ERROR_TOO_LARGE, "there is no room for another box");
    if (r < 0) {
        refuse(engine, make, NULL, &err);
        return;
    }
    r = launch(engine, make, box, &err);
    if (r == 0) {
        note_facts(engine, make, box);
        r = keep(engine, box, &fd, &err);
        if (r < 0)
            launcher_end(&box->launched, NULL);
    }
    if (r < 0) {
        engine->slots[box->slot] = 0;
        refuse(engine, make, &box->launched, &err);
        return;
    }
    message.box = box->facts;
    message.box.serial = make->serial;
    ptr_take(&box);
    broker_send(engine, &message, fd);
}

/* ---- ended ---- */

/* Removes all that is left; what it used is known only now. */
static void bury(struct engine_box *box, struct launcher_usage *ret)
{
    struct engine *engine = box->engine;
    struct engine_box **at = find(engine, box->facts.number);
    struct cgroup_usage counted;
    struct launch_usage usage = {0};

    cgroup_usage(&box->launched.group, &counted);
    loop_remove(&engine->loop, &box->source);
    launcher_end(&box->launched, &usage);
    *ret = (struct launcher_usage){
        .number = box->facts.number,
        .cpu_us = MAX(usage.cpu_us, counted.cpu_us),
        .memory_bytes = counted.memory_peak_bytes ? counted.memory_peak_bytes : usage.max_rss_bytes,
        .oom_kills = usage.oom_kills,
        .was_asked = box->was_asked,
    };
    *at = box->next;
    engine->slots[box->slot] = 0;
    engine->box_count--;
    free(box);
}

static void on_box_end(struct loop_source *source, uint32_t events)
{
    struct engine_box *box = (struct engine_box *)source; /* its first member */
    struct engine *engine = box->engine;
    struct launcher_message message = {.type = LAUNCHER_ENDED};

    (void)events;
    bury(box, &message.usage);
    if (engine->has_said_hello) /* one that has not asked yet learns it from the inventory */
        broker_send(engine, &message, -1);
}

/* Killed now; what follows is the same as when it ended by itself. */
void boxes_end(struct engine *engine, uint32_t number)
{
    struct launcher_message message = {.type = LAUNCHER_ENDED,
                                       .usage = {.number = number, .was_asked = true}};
    struct engine_box *box = *find(engine, number);

    if (!box) {
        broker_send(engine, &message, -1);
        return;
    }
    box->was_asked = true;
    sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
}

void boxes_end_all(struct engine *engine)
{
    struct launcher_usage usage;

    for (size_t i = 0; i < ENGINE_BUCKETS; i++) {
        for (struct engine_box *box = engine->buckets[i]; box; box = box->next)
            sys_pidfd_send_signal(box->launched.pid_fd, SIGKILL);
    }
    for (size_t i = 0; i < ENGINE_BUCKETS; i++) {
        while (engine->buckets[i])
            bury(engine->buckets[i], &usage);
    }
}

/* ---- asked about ---- */

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
    struct engine_box *box = *find(engine, number);

    if (box) {
        struct cgroup_usage counted;

        cgroup_usage(&box->launched.group, &counted);
        message.usage.cpu_us = counted.cpu_us ? counted.cpu_us : ticks_used(&box->launched);
        message.usage.memory_bytes = counted.memory_bytes;
        message.usage.oom_kills = launcher_oom_kills(&box->launched);
        message.usage.was_asked = box->was_asked;
    }
    broker_send(engine, &message, -1);
}

void boxes_inventory(struct engine *engine)
{
    for (size_t i = 0; i < ENGINE_BUCKETS; i++) {
        for (struct engine_box *box = engine->buckets[i]; box; box = box->next) {
            struct launcher_message message = {.type = LAUNCHER_BOX, .box = box->facts};
            int fd = duplicate(box);

            if (fd < 0)
                log_warning("box %u could not be shown to the broker, continuing without it",
                            (unsigned)box->facts.number);
            else
                broker_send(engine, &message, fd);
        }
    }
}
