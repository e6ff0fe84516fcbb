/*
 * docked_end.c - the end of a box: measured, removed, told.
 *
 * Asked to, failed or gone by itself, a container is removed by force; AutoRemove may be faster,
 * which is as good. One that cannot be removed now (Docker is gone) becomes a grave, sweep.c tries
 * again. The broker hears ENDED once nothing of it is left, or nobody is there to ask.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/docker/inside.h"

#define RETRY_MS 20
#define RETRIES 500
#define USAGES_MAX 64
#define OOM_PATIENCE_MS 500 /* for Docker's word about a program that was killed */

/* ---- what it used ---- */

static uint64_t number_at(const json_t *json, const char *first, const char *second)
{
    json_int_t value = json_integer_value(json_at(json, first, second));

    return value > 0 ? (uint64_t)value : 0;
}

static void note_usage(struct wall_box *box, const struct api_reply *reply)
{
    const json_t *cpu = json_object_get(reply->json, "cpu_stats");
    uint64_t peak = number_at(reply->json, "memory_stats", "max_usage");

    if (reply->err.num < 0 || number_at(cpu, "cpu_usage", "total_usage") == 0)
        return;
    box->counted = MAX(box->counted, COUNTED_SOME);
    box->cpu_us = MAX(box->cpu_us, number_at(cpu, "cpu_usage", "total_usage") / 1000);
    box->peak_bytes = MAX(box->peak_bytes, peak);
    box->peak_bytes = MAX(box->peak_bytes, number_at(reply->json, "memory_stats", "usage"));
}

static int ask_usage(struct wall_box *box, api_done done, struct api_call **ret)
{
    char path[256];
    struct api_request request = {.method = "GET", .path = path};

    str_format(path, sizeof(path), "/containers/%s/stats?stream=false&one-shot=true", box->name);
    return api_start(&box->wall->api, &request, done, box, ret);
}

uint64_t docked_cpu_us(const struct wall_box *box)
{
    return box->cpu_us - box->cpu_before_us;
}

static void tell_used(struct wall_box *box)
{
    struct launcher_message message = {.type = LAUNCHER_USED,
                                       .usage = {.number = box->facts.number,
                                                 .cpu_us = docked_cpu_us(box),
                                                 .memory_bytes = box->peak_bytes,
                                                 .oom_kills = box->oom_kills,
                                                 .was_asked = box->was_asked,
                                                 .counted = box->counted}};

    for (; box->usages_asked > 0; box->usages_asked--)
        control_send(box->wall, &message, -1);
}

static void on_used(void *ctx, const struct api_reply *reply)
{
    struct wall_box *box = ctx;

    box->usage_call = NULL;
    note_usage(box, reply);
}

/* ---- whether memory ran out ---- */

/* The group, where it can be seen, counts the same ones. */
void docked_oom(struct wall_box *box)
{
    box->oom_events++;
    box->oom_kills = MAX(box->oom_kills, box->oom_events);
    box->was_killed = false;
    tell_used(box);
}

/* The warden's word, and the guest may have killed it: that only decides how long is waited. */
void docked_exited(struct wall_box *box, const struct frame *frame)
{
    struct message_exited exited;

    box->was_killed = box->oom_events == 0 && message_exited_unpack(frame, &exited) == 0 &&
                      exited.signal == SIGKILL;
}

static void on_no_oom(void *ctx)
{
    struct wall_box *box = ctx;

    box->was_killed = false;
    tell_used(box);
}

/* What was killed may have been by memory: Docker tells that a little later. */
static bool waits_for_oom(struct wall_box *box)
{
    if (!box->was_killed || box->group.flavour != CGROUP_NONE)
        return false;
    if (!box->oom_timer)
        box->oom_timer = reactor_timer(box->wall->reactor, on_no_oom, box);
    if (!box->oom_timer)
        return false;
    box->wall->reactor->ops->timer_set(box->oom_timer, OOM_PATIENCE_MS);
    return true;
}

void docked_usage(struct docker_wall *wall, uint32_t number)
{
    struct wall_box *box = docked_find(wall, number);
    struct launcher_message message = {.type = LAUNCHER_USED, .usage = {.number = number}};

    if (!box) {
        control_send(wall, &message, -1);
        return;
    }
    box->usages_asked++;
    if (box->stage == BOX_GIVEN)
        docked_group_usage(box);
    /* A broker that only asks has its answers at once: they are not kept for it without an end. */
    if (box->stage != BOX_GIVEN || box->usages_asked > USAGES_MAX || !waits_for_oom(box))
        tell_used(box);
}

void docked_measure(struct wall_box *box)
{
    if (box->stage == BOX_GIVEN && !docked_group_usage(box) && !box->usage_call)
        (void)ask_usage(box, on_used, &box->usage_call); /* no memory: the next time */
}

/* ---- told ---- */

static void gone(struct wall_box *box)
{
    struct docker_wall *wall = box->wall;
    struct error err = box->failed;
    bool is_ahead = box->is_ahead;

    if (box->begins_again && !box->was_asked && !wall->is_leaving) {
        docked_again(box);
        return;
    }
    tell_used(box);
    if (is_ahead || box->is_told) {
        if (box->is_told)
            control_ended(wall, box);
        if (is_ahead && err.num < 0) {
            log_warning("docker: a container made ahead: %s, continuing without it", err.text);
            docker_pool_failed(wall);
        }
        docked_free(box);
    } else {
        if (err.num == 0)
            error_set(&err, -ECANCELED, ERROR_CANCELLED, "the box was not wanted any more");
        docked_refuse(box, &err);
    }
    control_check(wall);
    docker_pool_fill(wall);
    wall_check_left(wall);
}

/* ---- removed ---- */

static void on_removed(void *ctx, const struct api_reply *reply)
{
    struct wall_box *box = ctx;
    bool is_gone = reply->err.num == 0 || reply->status == 404;

    box->call = NULL;
    if (reply->status == 0 && !box->was_asked)
        box->why = WHY_DOCKER_GONE;
    docked_pump_farewell(&box->pump, box->why);
    if (is_gone) {
        gone(box);
        return;
    }
    if (reply->status && ++box->remove_tries < RETRIES) { /* AutoRemove is at it */
        box->wall->reactor->ops->timer_set(box->timer, RETRY_MS);
        return;
    }
    if (reply->status == 0)
        prepare_again(box->wall);
    grave_add(box->wall, box->name);
    box->begins_again = false; /* its name is taken */
    gone(box);
}

void docked_remove_now(struct wall_box *box)
{
    char path[256];
    struct api_request request = {.method = "DELETE", .path = path};

    if (!box->is_there) {
        gone(box);
        return;
    }
    str_format(path, sizeof(path), "/containers/%s?force=1&v=1", box->name);
    if (api_start(&box->wall->api, &request, on_removed, box, &box->call) < 0)
        box->wall->reactor->ops->timer_set(box->timer, RETRY_MS);
}

static void docked_remove(struct wall_box *box)
{
    struct docker_wall *wall = box->wall;

    box->stage = BOX_REMOVING;
    docked_pump_halt(&box->pump);
    /* Whether Docker is still there is not known yet, and whose box it is wants to know. */
    if (box->was_asked || wall->is_leaving || box->why != WHY_UNKNOWN)
        docked_pump_farewell(&box->pump, box->why);
    api_cancel(box->call);
    box->call = NULL;
    wall->reactor->ops->timer_set(box->timer, 0); /* never from inside of a callback */
}

void docked_end(struct wall_box *box)
{
    switch (box->stage) {
    case BOX_CREATING:
        if (!box->is_there) { /* it waits for Docker to be there */
            prepare_drop(box->wall, box);
            docked_remove(box);
        } else if (!box->call) {
            docked_remove(box);
        }
        return; /* else what was asked for comes first */
    case BOX_REMOVING:
        return;
    case BOX_GIVEN:
        docked_group_usage(box); /* Docker's statistics would take up to a second */
        docked_remove(box);
        return;
    default:
        docked_remove(box);
    }
}

void docked_fail(struct wall_box *box, const struct error *err)
{
    if (box->failed.num == 0)
        box->failed = *err;
    if (err->code == ERROR_DOCKER_UNAVAILABLE)
        prepare_again(box->wall);
    if (box->stage == BOX_GIVEN) /* nobody could be told */
        box->stage = BOX_IDLE;
    if (box->stage < BOX_REMOVING)
        docked_remove(box);
}

void docked_lost(struct wall_box *box, int num)
{
    struct error err = {0};

    if (box->stage >= BOX_REMOVING)
        return;
    docked_group_usage(box); /* it may still be there */
    if (num == -EPROTO)
        box->why = WHY_NONSENSE;
    if (box->stage == BOX_GIVEN || box->stage == BOX_IDLE) {
        docked_remove(box);
        return;
    }
    if (num == -EPROTO)
        error_set(&err, -EPROTO, ERROR_BOX_LOST,
                  "what answers in the container is no warden of this version");
    else
        error_set(&err, -EPIPE, ERROR_BOX_LOST, "the container ended while the box was made");
    /* Its start may have failed, and Docker is about to say why. */
    if (box->stage == BOX_STARTING && box->call && num == 0)
        return;
    docked_fail(box, &err);
}
