/*
 * box.c - brings up one box of a provider host: prepare, create, attach, start, READY, inspect,
 * give.
 *
 * Each step is an operation of the backend and begins when the previous one was answered; only
 * inspect runs while the warden is waited for. Every error ends in host_box_fail(), and the box is
 * removed before the broker is told.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/isolation.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "runtime/host/host_private.h"
#include "sandbox/sandbox.h"

#define SEEN_NS UINT64_C(200000000)   /* interval of measuring its usage while it sends output */
#define ASKED_NS UINT64_C(2000000000) /* the same if the provider has to be asked */

static void refuse_make(struct host *host, uint32_t serial, const struct error *err)
{
    struct launcher_message message = {.type = LAUNCHER_REFUSED,
                                       .refused = {.serial = serial, .error = *err}};

    control_send(host, &message, -1);
}

static int out_of_memory(struct error *err)
{
    return error_memory(err);
}

/* Reports the refusal to the broker. The box is in no list but the host's own. */
void host_box_refuse(struct host_box *box, const struct error *err)
{
    if (box->is_prewarmed)
        host_pool_failed(box->host);
    else if (box->generation == box->host->generation)
        refuse_make(box->host, box->make.serial, err);
    host_box_free(box);
}

void host_box_free(struct host_box *box)
{
    struct host *host = box->host;

    LIST_UNLINK(host->boxes, box);
    host_pump_stop(&box->pump);
    host->ops->cancel(box);
    if (host->ops->free_box)
        host->ops->free_box(box);
    if (box->timer)
        host->reactor->ops->timer_remove(box->timer);
    if (box->oom_timer)
        host->reactor->ops->timer_remove(box->oom_timer);
    fd_closep(&box->given_fd);
    free(box);
}

struct host_box *host_box_find(struct host *host, uint32_t number)
{
    struct host_box *box = host->boxes;

    while (box && (box->facts.number != number || box->is_prewarmed || !box->is_told))
        box = box->next;
    return box;
}

struct host_box *host_box_find_name(struct host *host, const char *name)
{
    struct host_box *box = host->boxes;

    while (box && !str_equal(box->name, name))
        box = box->next;
    return box;
}

/* ---- the box's channel ---- */

static int open_channel(struct host_box *box)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    box->pump.fd = pair[0];
    box->given_fd = pair[1];
    return host_pump_give(&box->pump);
}

static void tell(struct host_box *box, uint32_t serial)
{
    struct host *host = box->host;
    struct launcher_message message = {.type = LAUNCHER_MADE, .box = box->facts};
    struct error err = {0};
    int fd;

    if (box->given_fd < 0 && open_channel(box) < 0) {
        out_of_memory(&err);
        host_box_fail(box, &err);
        return;
    }
    box->stage = BOX_GIVEN;
    box->measured_ns = clock_now_ns();
    host->ops->usage(box);
    box->cpu_before_us = box->cpu_us;
    if (box->generation != host->generation) {
        box->is_told = true; /* it is in the next broker's inventory */
        host_check_greeting(host);
        return;
    }
    fd = fcntl(box->given_fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) {
        error_errno(&err, "duplicating the box's channel");
        host_box_fail(box, &err);
        return;
    }
    box->is_told = true;
    message.box.serial = serial;
    if (box->asked_ns) /* else it was prewarmed */
        log_debug("%s: box %u is ready after %llu ms", host->row->name, (unsigned)box->facts.number,
                  (unsigned long long)((clock_now_ns() - box->asked_ns) / 1000000));
    control_send(host, &message, fd);
    box->facts.kernel = 0; /* from now on the warden lists its kernels */
    box->facts.warden_owns_kernel = false;
}

/* ---- the box is ready ---- */

/*
 * What the provider configured and the warden confirms. Where the warden checked and found it
 * missing (EXDEV: a runtime below the provider behaves differently) the provider's claim is
 * dropped; the warden reports before any guest runs.
 */
static uint32_t layers_held(const struct host_box *box)
{
    uint32_t provider = box->seen.layers;

    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++) {
        if (box->ready.missing & ISOLATION_LAYER_BIT(i) && box->ready.lack_errno[i] == EXDEV)
            provider &= ~ISOLATION_LAYER_BIT(i);
    }
    return provider | (box->ready.layers & ISOLATION_LAYER_ALL);
}

static void note_facts(struct host_box *box)
{
    const struct launcher_make *make = &box->make;
    uint32_t layers = layers_held(box);

    /* The provider reports its configuration, the warden the ids of its box: only both together
     * prove a user namespace of the box's own. */
    if (!(box->seen.layers & box->ready.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS)))
        layers &= ~ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS);
    box->facts.memory_bytes = make->memory_bytes;
    box->facts.disk_bytes = make->disk_bytes;
    box->facts.pids = make->pids;
    box->facts.cpu_millis = make->cpu_millis;
    box->facts.layers = layers;
    box->facts.missing = ISOLATION_LAYER_ALL & ~layers;
    box->facts.memory_by = box->seen.has_memory ? HELD_BY_CONTAINER : box->seen.memory_by;
    box->facts.pids_by = box->seen.has_pids ? HELD_BY_CONTAINER : box->seen.pids_by;
    box->facts.cpu_by = box->seen.has_cpu ? HELD_BY_CONTAINER : box->seen.cpu_by;
    box->facts.disk_by = box->seen.disk_by ? box->seen.disk_by : HELD_BY_TMPFS;
    box->facts.made_ns = clock_now_ns();
    box->facts.tier = TIER_NONE;
    box->facts.is_pooled = box->is_prewarmed;
    str_copy(box->facts.key, sizeof(box->facts.key), make->key);
}

static int check_minimum(struct host_box *box, struct error *err)
{
    uint32_t lacking = isolation_lacking(box->facts.layers, box->make.minimum);
    char list[256], hint[256] = "";

    if (!lacking)
        return 0;
    isolation_layer_list(lacking, list, sizeof(list));
    if (box->host->ops->hint)
        box->host->ops->hint(box->host, hint, sizeof(hint));
    return error_set(err, -EPERM, ERROR_REFUSED,
                     "isolation '%s' needs what this box does not have: %s%s",
                     isolation_name(box->make.minimum), list, hint);
}

static void stands(struct host_box *box)
{
    struct host *host = box->host;
    struct error err = {0};

    host->reactor->ops->timer_set(box->timer, UINT64_MAX);
    note_facts(box);
    if (check_minimum(box, &err) < 0) {
        host_box_fail(box, &err);
        return;
    }
    if (!box->is_prewarmed) {
        tell(box, box->make.serial);
        return;
    }
    host->next_pause_ms = 0;
    box->stage = BOX_IDLE;
    if (host->spec.has_kernels && host_kernel_start(box) == 0)
        box->stage = BOX_WARMING;
    host_pool_fill(host);
}

static void check_stands(struct host_box *box)
{
    if (box->stage == BOX_LOOKING && box->is_ready && box->is_checked)
        stands(box);
}

/* ---- frames before it is given ---- */

static int bring_up_failed(struct host_box *box, const struct frame *frame)
{
    struct message_fail fail;
    struct error err = {0};

    if (message_fail_unpack(frame, &fail) < 0)
        return -EPROTO;
    error_stage(&err, sandbox_stage_name(fail.stage), -(int)fail.error);
    host_box_fail(box, &err);
    return 0;
}

static int on_early(void *ctx, const struct frame *frame)
{
    struct host_box *box = ctx;
    int r;

    if (box->stage == BOX_WARMING) {
        r = host_kernel_frame(box, frame);
        if (r > 0) {
            box->stage = BOX_IDLE;
            host_pool_fill(box->host); /* the number of boxes being made is limited */
        }
        return r;
    }
    if (frame->type == FRAME_FAILED && !box->is_ready)
        return bring_up_failed(box, frame);
    if (frame->type != FRAME_READY || box->is_ready)
        return -EPROTO;
    if (message_ready_unpack(frame, &box->ready) < 0 || box->ready.version != WIRE_VERSION)
        return -EPROTO;
    box->is_ready = true;
    check_stands(box);
    return 0;
}

/* ---- the steps, from the last to the first ---- */

void host_box_inspected(struct host_box *box)
{
    box->is_checked = true;
    check_stands(box);
}

/* Its one timer: during bring-up the deadline, at the end the next attempt to remove it. */
static void on_time(void *ctx)
{
    struct host_box *box = ctx;
    struct error err = {0};

    if (box->stage == BOX_REMOVING) {
        host_box_remove_now(box);
        return;
    }
    if (box->is_waiting) {
        box->host->ops->late(box);
        return;
    }
    if (box->stage == BOX_ATTACHING)
        box->host->ops->timed_out(box->host, &err);
    else
        error_set(&err, -ETIMEDOUT, ERROR_BOX_FAILED, "the box's warden did not answer in %d s",
                  HOST_BRINGUP_MS / 1000);
    host_box_fail(box, &err);
}

static void on_pump_ended(void *ctx, int num)
{
    host_box_lost(ctx, num);
}

/*
 * Measures its usage: a box that ends by itself loses its counters. Where they cannot be read
 * directly the provider has to be asked, which is not worth it for a short run.
 */
static void on_passed(void *ctx, const struct frame *frame)
{
    struct host_box *box = ctx;
    bool is_seen = box->is_seen;
    bool is_mark = frame->type == FRAME_STARTED || frame->type == FRAME_EXITED;
    uint64_t now = clock_now_ns();

    if (frame->type == FRAME_EXITED)
        host_box_exited(box, frame);
    if (!(is_seen && is_mark) && now - box->measured_ns < (is_seen ? SEEN_NS : ASKED_NS))
        return;
    box->measured_ns = now;
    host_box_measure(box);
}

void host_box_started(struct host_box *box)
{
    box->stage = BOX_LOOKING;
    box->host->ops->inspect(box);
}

void host_box_attached(struct host_box *box, const struct pump_stream_ops *ops, void *stream)
{
    box->pump.ops = ops;
    box->pump.stream = stream;
    box->stage = BOX_STARTING;
    box->host->reactor->ops->timer_set(box->timer, HOST_BRINGUP_MS);
    box->host->ops->start(box);
    if (box->stage != BOX_REMOVING)
        host_pump_start(&box->pump);
}

void host_box_created(struct host_box *box)
{
    box->is_creating = false;
    if (box->failed.num < 0 || box->was_asked || box->host->is_leaving) {
        host_box_end(box);
        return;
    }
    box->stage = BOX_ATTACHING;
    box->pump.reactor = box->host->reactor;
    box->pump.early = on_early;
    box->pump.passed = on_passed;
    box->pump.ended = on_pump_ended;
    box->pump.ctx = box;
    box->host->reactor->ops->timer_set(box->timer, HOST_ATTACH_MS);
    box->host->ops->attach(box);
}

void host_box_begin(struct host_box *box)
{
    box->is_waiting = false;
    box->host->reactor->ops->timer_set(box->timer, UINT64_MAX);
    if (box->host->is_leaving) {
        host_box_end(box);
        return;
    }
    box->stage = BOX_CREATING;
    box->is_there = box->is_creating = true;
    box->host->ops->create(box);
}

/* Waits for the provider, up to the limit. */
static void prepare(struct host_box *box)
{
    box->is_waiting = true;
    if (!box->is_prewarmed && box->host->spec.wait_ms)
        box->host->reactor->ops->timer_set(box->timer, box->host->spec.wait_ms);
    box->host->ops->prepare(box);
}

void host_box_again(struct host_box *box)
{
    host_pump_stop(&box->pump);
    memset(&box->pump, 0, sizeof(box->pump));
    box->pump.fd = -1;
    box->stage = BOX_CREATING;
    box->is_there = box->is_creating = box->is_ready = box->is_checked = box->begins_again = false;
    box->was_again = true;
    box->remove_tries = 0;
    box->failed = (struct error){0};
    box->why = WHY_UNKNOWN;
    box->host->reactor->ops->timer_set(box->timer, UINT64_MAX);
    prepare(box);
}

/* ---- requests ---- */

static bool is_over(uint64_t asked, uint64_t allowed)
{
    return allowed && asked > allowed;
}

static unsigned count_boxes(const struct host *host)
{
    unsigned count = 0;

    for (const struct host_box *box = host->boxes; box; box = box->next)
        count += !box->is_prewarmed;
    return count;
}

int host_no_packages(const struct host *host, struct error *err)
{
    return error_set(err, -ENOTSUP, ERROR_BAD_INPUT, "%s", host->row->no_install);
}

/* Limits from the broker are checked, too. */
static int check_make(const struct host *host, const struct launcher_make *make, struct error *err)
{
    const struct host_spec *spec = &host->spec;

    if (host->is_leaving)
        return error_set(err, -ESHUTDOWN, ERROR_CANCELLED, "the daemon is stopping");
    if (count_boxes(host) >= LIMIT_SESSIONS)
        return error_set(err, -EUSERS, ERROR_TOO_LARGE, "there are %u boxes already",
                         (unsigned)LIMIT_SESSIONS);
    if (make->staging || make->layer[0])
        return host_no_packages(host, err);
    if (make->memory_bytes < LIMIT_MEMORY_MIN || make->memory_bytes > LIMIT_MEMORY_MAX ||
        make->disk_bytes < LIMIT_DISK_MIN || make->disk_bytes > make->memory_bytes ||
        make->pids < LIMIT_PIDS_MIN || make->pids > LIMIT_PIDS_MAX ||
        make->cpu_millis > LIMIT_CPU_MILLIS_MAX)
        return error_set(err, -ERANGE, ERROR_BAD_INPUT, "a limit of the box is out of range");
    if (spec->has_no_ceiling)
        return 0;
    if (is_over(make->memory_bytes, spec->memory_bytes) ||
        is_over(make->disk_bytes, spec->disk_bytes) || is_over(make->pids, spec->pids) ||
        (spec->cpu_millis && (make->cpu_millis == 0 || make->cpu_millis > spec->cpu_millis)) ||
        make->minimum < spec->minimum)
        return error_set(err, -EPERM, ERROR_REFUSED, "more than the configuration allows a box");
    return 0;
}

static struct host_box *box_new(struct host *host, const struct launcher_make *make,
                                bool is_prewarmed)
{
    struct host_box *box = calloc(1, host->ops->box_size);

    if (!box)
        return NULL;
    box->host = host;
    box->make = *make;
    box->is_prewarmed = is_prewarmed;
    box->generation = host->generation;
    box->given_fd = box->pump.fd = -1;
    box->asked_ns = clock_now_ns();
    box->timer = reactor_timer(host->reactor, on_time, box);
    if (!box->timer) {
        free(box);
        return NULL;
    }
    if (++host->next_number == 0)
        host->next_number = 1;
    box->facts.number = host->next_number;
    str_format(box->name, sizeof(box->name), "bailey-%.24s-%s-%u", host->engine, host->life,
               (unsigned)box->facts.number);
    box->next = host->boxes;
    host->boxes = box;
    return box;
}

void host_box_make(struct host *host, const struct launcher_make *make, bool is_prewarmed)
{
    struct host_box *box = NULL;
    struct error err = {0};

    if (check_make(host, make, &err) == 0) {
        box = is_prewarmed ? NULL : host_pool_take(host, make);
        if (box) {
            tell(box, make->serial);
            host_pool_fill(host);
            return;
        }
        box = box_new(host, make, is_prewarmed);
        if (!box)
            out_of_memory(&err);
    }
    if (box)
        prepare(box);
    else if (!is_prewarmed)
        refuse_make(host, make->serial, &err);
}
