/*
 * box_end.c - the end of a box: measures, removes and reports it.
 *
 * A box that was ended, failed or ended by itself is removed by force. A box that cannot be removed
 * now (its provider is gone) is left to the backend's leave_behind(). The broker gets ENDED once
 * everything is removed, or the provider is gone.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/host/host_private.h"

#define RETRY_MS 20
#define RETRIES 500
#define USAGES_MAX 64
#define OOM_PATIENCE_MS 500 /* wait for the provider's report about a killed program */

/* ---- usage ---- */

uint64_t host_box_cpu_us(const struct host_box *box)
{
    return box->cpu_us - box->cpu_before_us;
}

static void tell_used(struct host_box *box)
{
    struct launcher_message message = {.type = LAUNCHER_USED,
                                       .usage = {.number = box->facts.number,
                                                 .cpu_us = host_box_cpu_us(box),
                                                 .memory_bytes = box->peak_bytes,
                                                 .oom_kills = box->oom_kills,
                                                 .was_asked = box->was_asked,
                                                 .counted = box->counted}};

    for (; box->usages_asked > 0; box->usages_asked--)
        control_send(box->host, &message, -1);
}

/* ---- out of memory ---- */

/* A control group that can be read counts the same kills. */
void host_box_oom(struct host_box *box)
{
    box->oom_events++;
    box->oom_kills = MAX(box->oom_kills, box->oom_events);
    box->was_killed = false;
    tell_used(box);
}

/*
 * Reported by the warden, and the guest may have killed the program itself: it only decides how
 * long to wait.
 */
void host_box_exited(struct host_box *box, const struct frame *frame)
{
    struct message_exited exited;

    box->was_killed = box->oom_events == 0 && message_exited_unpack(frame, &exited) == 0 &&
                      exited.signal == SIGKILL;
}

static void on_no_oom(void *ctx)
{
    struct host_box *box = ctx;

    box->was_killed = false;
    tell_used(box);
}

/* A killed program may have run out of memory: some providers report that a little later. */
static bool waits_for_oom(struct host_box *box)
{
    if (!box->was_killed || box->is_seen || !box->host->ops->tells_oom)
        return false;
    if (!box->oom_timer)
        box->oom_timer = reactor_timer(box->host->reactor, on_no_oom, box);
    if (!box->oom_timer)
        return false;
    box->host->reactor->ops->timer_set(box->oom_timer, OOM_PATIENCE_MS);
    return true;
}

void host_box_usage(struct host *host, uint32_t number)
{
    struct host_box *box = host_box_find(host, number);
    struct launcher_message message = {.type = LAUNCHER_USED, .usage = {.number = number}};

    if (!box) {
        control_send(host, &message, -1);
        return;
    }
    box->usages_asked++;
    if (box->stage == BOX_GIVEN)
        box->host->ops->usage(box);
    /* A broker that sends many questions gets its answers at once: the number of delayed answers
     * is limited. */
    if (box->stage != BOX_GIVEN || box->usages_asked > USAGES_MAX || !waits_for_oom(box))
        tell_used(box);
}

void host_box_measure(struct host_box *box)
{
    const struct backend_ops *ops = box->host->ops;

    if (box->stage == BOX_GIVEN && !ops->usage(box) && ops->measure)
        ops->measure(box);
}

/* ---- reports to the broker ---- */

static void gone(struct host_box *box)
{
    struct host *host = box->host;
    struct error err = box->failed;
    bool is_prewarmed = box->is_prewarmed;

    if (box->begins_again && !box->was_asked && !host->is_leaving) {
        host_box_again(box);
        return;
    }
    tell_used(box);
    if (is_prewarmed || box->is_told) {
        if (box->is_told)
            control_ended(host, box);
        if (is_prewarmed && err.num < 0) {
            log_warning("%s: prewarming a box: %s, continuing without it", host->row->name,
                        err.text);
            host_pool_failed(host);
        }
        host_box_free(box);
    } else {
        if (err.num == 0)
            error_set(&err, -ECANCELED, ERROR_CANCELLED, "the box was not wanted any more");
        host_box_refuse(box, &err);
    }
    host_check_greeting(host);
    host_pool_fill(host);
    host_check_left(host);
}

/* ---- removal ---- */

void host_box_removed(struct host_box *box, int num)
{
    bool is_provider_gone = num == -ECONNREFUSED;

    if (is_provider_gone && !box->was_asked)
        box->why = WHY_PROVIDER_GONE;
    host_pump_farewell(&box->pump, box->why);
    if (num == 0) {
        gone(box);
        return;
    }
    if (num == -EAGAIN && ++box->remove_tries < RETRIES) {
        box->host->reactor->ops->timer_set(box->timer, RETRY_MS);
        return;
    }
    if (is_provider_gone && box->host->ops->again)
        box->host->ops->again(box->host);
    box->host->ops->leave_behind(box);
    box->begins_again = false; /* its name is taken */
    gone(box);
}

void host_box_remove_now(struct host_box *box)
{
    if (!box->is_there)
        gone(box);
    else if (box->host->ops->remove(box) < 0)
        box->host->reactor->ops->timer_set(box->timer, RETRY_MS);
}

static void box_remove(struct host_box *box)
{
    struct host *host = box->host;

    box->stage = BOX_REMOVING;
    host_pump_halt(&box->pump);
    /* Whether the provider is still running is not known yet, and the box's owner needs the
     * reason. */
    if (box->was_asked || host->is_leaving || box->why != WHY_UNKNOWN)
        host_pump_farewell(&box->pump, box->why);
    host->ops->cancel(box);
    host->reactor->ops->timer_set(box->timer, 0); /* never inside a callback */
}

void host_box_end(struct host_box *box)
{
    switch (box->stage) {
    case BOX_CREATING:
        if (!box->is_there) /* it still waits for its provider */
            box->is_waiting = false;
        if (!box->is_there || !box->is_creating)
            box_remove(box);
        return; /* else pending questions are answered first */
    case BOX_REMOVING:
        return;
    case BOX_GIVEN:
        box->host->ops->usage(box); /* asking the provider would take too long */
        box_remove(box);
        return;
    default:
        box_remove(box);
    }
}

void host_box_fail(struct host_box *box, const struct error *err)
{
    if (box->failed.num == 0)
        box->failed = *err;
    if (err->code == ERROR_PROVIDER_UNAVAILABLE && box->host->ops->again)
        box->host->ops->again(box->host);
    if (box->stage == BOX_GIVEN) /* there is no broker to tell */
        box->stage = BOX_IDLE;
    if (box->stage < BOX_REMOVING)
        box_remove(box);
}

void host_box_lost(struct host_box *box, int num)
{
    struct error err = {0};

    if (box->stage >= BOX_REMOVING)
        return;
    box->host->ops->usage(box); /* the control group may still exist */
    if (num == -EPROTO)
        box->why = WHY_NONSENSE;
    if (box->stage == BOX_GIVEN || box->stage == BOX_IDLE) {
        box_remove(box);
        return;
    }
    if (num == -EPROTO)
        error_set(&err, -EPROTO, ERROR_BOX_LOST,
                  "the process in the box is not a warden of this version");
    else
        error_set(&err, -EPIPE, ERROR_BOX_LOST, "the box ended while it was made");
    /* Its start may have failed, and the provider is about to report why. */
    if (box->stage == BOX_STARTING && num == 0)
        return;
    host_box_fail(box, &err);
}
