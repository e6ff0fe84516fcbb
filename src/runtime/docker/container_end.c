/*
 * container_end.c - the end of a box: measured, removed, told.
 *
 * Asked to, failed or gone by itself, a container is removed by force; AutoRemove may be faster,
 * which is as good. One that cannot be removed now (Docker is gone) becomes a leftover, sweep.c
 * tries again. The broker hears ENDED once nothing of it is left, or nobody is there to ask.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/docker/docker_private.h"

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

static void note_usage(struct container *box, const struct api_reply *reply)
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

static int ask_usage(struct container *box, api_done done, struct api_call **ret)
{
    char path[256];
    struct api_request request = {.method = "GET", .path = path};

    str_format(path, sizeof(path), "/containers/%s/stats?stream=false&one-shot=true", box->name);
    return api_start(&box->docker->api, &request, done, box, ret);
}

uint64_t container_cpu_us(const struct container *box)
{
    return box->cpu_us - box->cpu_before_us;
}

static void tell_used(struct container *box)
{
    struct launcher_message message = {.type = LAUNCHER_USED,
                                       .usage = {.number = box->facts.number,
                                                 .cpu_us = container_cpu_us(box),
                                                 .memory_bytes = box->peak_bytes,
                                                 .oom_kills = box->oom_kills,
                                                 .was_asked = box->was_asked,
                                                 .counted = box->counted}};

    for (; box->usages_asked > 0; box->usages_asked--)
        control_send(box->docker, &message, -1);
}

static void on_used(void *ctx, const struct api_reply *reply)
{
    struct container *box = ctx;

    box->usage_call = NULL;
    note_usage(box, reply);
}

/* ---- whether memory ran out ---- */

/* The group, where it can be seen, counts the same ones. */
void container_oom(struct container *box)
{
    box->oom_events++;
    box->oom_kills = MAX(box->oom_kills, box->oom_events);
    box->was_killed = false;
    tell_used(box);
}

/* The warden's word, and the guest may have killed it: that only decides how long is waited. */
void container_exited(struct container *box, const struct frame *frame)
{
    struct message_exited exited;

    box->was_killed = box->oom_events == 0 && message_exited_unpack(frame, &exited) == 0 &&
                      exited.signal == SIGKILL;
}

static void on_no_oom(void *ctx)
{
    struct container *box = ctx;

    box->was_killed = false;
    tell_used(box);
}

/* What was killed may have been by memory: Docker tells that a little later. */
static bool waits_for_oom(struct container *box)
{
    if (!box->was_killed || box->group.flavour != CGROUP_NONE)
        return false;
    if (!box->oom_timer)
        box->oom_timer = reactor_timer(box->docker->reactor, on_no_oom, box);
    if (!box->oom_timer)
        return false;
    box->docker->reactor->ops->timer_set(box->oom_timer, OOM_PATIENCE_MS);
    return true;
}

void container_usage(struct docker_host *docker, uint32_t number)
{
    struct container *box = container_find(docker, number);
    struct launcher_message message = {.type = LAUNCHER_USED, .usage = {.number = number}};

    if (!box) {
        control_send(docker, &message, -1);
        return;
    }
    box->usages_asked++;
    if (box->stage == BOX_GIVEN)
        container_group_usage(box);
    /* A broker that only asks has its answers at once: they are not kept for it without an end. */
    if (box->stage != BOX_GIVEN || box->usages_asked > USAGES_MAX || !waits_for_oom(box))
        tell_used(box);
}

void container_measure(struct container *box)
{
    if (box->stage == BOX_GIVEN && !container_group_usage(box) && !box->usage_call)
        (void)ask_usage(box, on_used, &box->usage_call); /* no memory: the next time */
}

/* ---- told ---- */

static void gone(struct container *box)
{
    struct docker_host *docker = box->docker;
    struct error err = box->failed;
    bool is_prewarmed = box->is_prewarmed;

    if (box->begins_again && !box->was_asked && !docker->is_leaving) {
        container_again(box);
        return;
    }
    tell_used(box);
    if (is_prewarmed || box->is_told) {
        if (box->is_told)
            control_ended(docker, box);
        if (is_prewarmed && err.num < 0) {
            log_warning("docker: a container made ahead: %s, continuing without it", err.text);
            docker_pool_failed(docker);
        }
        container_free(box);
    } else {
        if (err.num == 0)
            error_set(&err, -ECANCELED, ERROR_CANCELLED, "the box was not wanted any more");
        container_refuse(box, &err);
    }
    control_check(docker);
    docker_pool_fill(docker);
    host_check_left(docker);
}

/* ---- removed ---- */

static void on_removed(void *ctx, const struct api_reply *reply)
{
    struct container *box = ctx;
    bool is_gone = reply->err.num == 0 || reply->status == 404;

    box->call = NULL;
    if (reply->status == 0 && !box->was_asked)
        box->why = WHY_PROVIDER_GONE;
    container_pump_farewell(&box->pump, box->why);
    if (is_gone) {
        gone(box);
        return;
    }
    if (reply->status && ++box->remove_tries < RETRIES) { /* AutoRemove is at it */
        box->docker->reactor->ops->timer_set(box->timer, RETRY_MS);
        return;
    }
    if (reply->status == 0)
        prepare_again(box->docker);
    leftover_add(box->docker, box->name);
    box->begins_again = false; /* its name is taken */
    gone(box);
}

void container_remove_now(struct container *box)
{
    char path[256];
    struct api_request request = {.method = "DELETE", .path = path};

    if (!box->is_there) {
        gone(box);
        return;
    }
    str_format(path, sizeof(path), "/containers/%s?force=1&v=1", box->name);
    if (api_start(&box->docker->api, &request, on_removed, box, &box->call) < 0)
        box->docker->reactor->ops->timer_set(box->timer, RETRY_MS);
}

static void container_remove(struct container *box)
{
    struct docker_host *docker = box->docker;

    box->stage = BOX_REMOVING;
    container_pump_halt(&box->pump);
    /* Whether Docker is still there is not known yet, and whose box it is wants to know. */
    if (box->was_asked || docker->is_leaving || box->why != WHY_UNKNOWN)
        container_pump_farewell(&box->pump, box->why);
    api_cancel(box->call);
    box->call = NULL;
    docker->reactor->ops->timer_set(box->timer, 0); /* never from inside of a callback */
}

void container_end(struct container *box)
{
    switch (box->stage) {
    case BOX_CREATING:
        if (!box->is_there) { /* it waits for Docker to be there */
            prepare_drop(box->docker, box);
            container_remove(box);
        } else if (!box->call) {
            container_remove(box);
        }
        return; /* else what was asked for comes first */
    case BOX_REMOVING:
        return;
    case BOX_GIVEN:
        container_group_usage(box); /* Docker's statistics would take up to a second */
        container_remove(box);
        return;
    default:
        container_remove(box);
    }
}

void container_fail(struct container *box, const struct error *err)
{
    if (box->failed.num == 0)
        box->failed = *err;
    if (err->code == ERROR_PROVIDER_UNAVAILABLE)
        prepare_again(box->docker);
    if (box->stage == BOX_GIVEN) /* nobody could be told */
        box->stage = BOX_IDLE;
    if (box->stage < BOX_REMOVING)
        container_remove(box);
}

void container_lost(struct container *box, int num)
{
    struct error err = {0};

    if (box->stage >= BOX_REMOVING)
        return;
    container_group_usage(box); /* it may still be there */
    if (num == -EPROTO)
        box->why = WHY_NONSENSE;
    if (box->stage == BOX_GIVEN || box->stage == BOX_IDLE) {
        container_remove(box);
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
    container_fail(box, &err);
}
