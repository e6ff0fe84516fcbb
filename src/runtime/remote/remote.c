/*
 * remote.c - the backend of SANDBOX_TYPE=url (host/backend.h): the life of a box, which is a
 * session of the server; see remote_private.h.
 */
#include "runtime/remote/remote.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/isolation.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config.h"
#include "runtime/remote/remote_private.h"
#include "runtime/remote/settings.h"

static struct remote *remote_of(const struct host *host)
{
    return host_backend(host);
}

/* The box and what is ours of it are one struct; its own members are set at the first request. */
struct remote_box *remote_box_of(struct host_box *box)
{
    struct remote_box *self = (struct remote_box *)box;

    self->remote = remote_of(box->host);
    return self;
}

const char *remote_box_path(const struct remote_box *box, char path[REMOTE_PATH_MAX],
                            const char *format, ...)
{
    va_list args;
    size_t have;

    str_format(path, REMOTE_PATH_MAX, "/v1/sessions/%s", box->session);
    have = strlen(path);
    va_start(args, format);
    vsnprintf(path + have, REMOTE_PATH_MAX - have, format, args);
    va_end(args);
    return path;
}

static void fail_memory(struct host_box *box)
{
    struct error err = {0};

    error_memory(&err);
    host_box_fail(box, &err);
}

/* ---- the beat: is the session still there? ---- */

static void beat_later(struct remote_box *self)
{
    const struct reactor_ops *ops = self->remote->reactor->ops;

    if (self->beat_timer)
        ops->timer_set(self->beat_timer, REMOTE_BEAT_MS);
}

static void on_beat(void *ctx, const struct remote_reply *reply)
{
    struct remote_box *self = ctx;

    self->beat = NULL;
    if (reply->status == 404 || reply->status == 410)
        remote_box_lose(self, false, reply->err.text);
    else if (reply->status == 0)
        remote_box_lose(self, true, reply->err.text);
    else {
        if (reply->err.num == 0)
            self->extended_ms = self->extending_ms;
        beat_later(self);
    }
}

/*
 * Postpones the session's end, too, by the time that passed since the last beat and no more: every
 * beat adds to the limit of its age, which is what ends it when this process does not live any
 * more and a program goes on in it.
 */
static void on_beat_due(void *ctx)
{
    struct remote_box *self = ctx;
    uint64_t now_ms = clock_now_ms();
    CLEANUP(json_decrefp)
    json_t *json = json_pack("{s:f}", "seconds", (double)(now_ms - self->extended_ms) / 1000.0);
    char path[REMOTE_PATH_MAX];
    struct remote_request request = {.method = "POST",
                                     .path = remote_box_path(self, path, "/extend"),
                                     .json = json,
                                     .waits = true};

    if (self->box.pump.is_over || self->beat)
        return;
    self->extending_ms = now_ms;
    self->beat = json ? remote_call_start(self->target, &request, on_beat, self) : NULL;
    if (!self->beat)
        beat_later(self);
}

static void start_beat(struct remote_box *self)
{
    self->beat_timer = reactor_timer(self->remote->reactor, on_beat_due, self);
    beat_later(self);
}

void remote_box_lose(struct remote_box *self, bool is_gone, const char *reason)
{
    if (self->is_lost)
        return;
    self->is_lost = true;
    self->lost = -EPIPE;
    if (is_gone) {
        self->box.why = WHY_PROVIDER_GONE;
        remote_target_down(self->target);
    }
    log_warning("url: box %u (%s) is lost: %.400s", (unsigned)self->box.facts.number, self->session,
                reason);
    if (self->wake_timer)
        self->remote->reactor->ops->timer_set(self->wake_timer, 0);
}

/* ---- creation: a session, its box by the first call, and what that is ---- */

static uint32_t layers_of(const json_t *session)
{
    json_t *layers = json_object_get(json_object_get(session, "isolation"), "layers"), *name;
    uint32_t bits = 0;
    size_t i;

    json_array_foreach(layers, i, name)
    {
        for (int layer = 0; layer < _ISOLATION_LAYER_MAX; layer++) {
            if (str_equal(isolation_layer_table[layer].name, json_string_value(name)))
                bits |= ISOLATION_LAYER_BIT(layer);
        }
    }
    return bits;
}

static void on_looked(void *ctx, const struct remote_reply *reply)
{
    struct remote_box *self = ctx;
    struct host_box *box = &self->box;
    uint32_t layers = layers_of(reply->json);
    bool has_group = layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_CGROUP);

    self->step = NULL;
    if (reply->err.num < 0) {
        host_box_fail(box, &reply->err);
        return;
    }
    box->seen = (struct host_seen){.layers = layers,
                                   .has_memory = has_group,
                                   .has_pids = has_group,
                                   .has_cpu = has_group && box->make.cpu_millis > 0};
    host_box_created(box);
}

static void on_touched(void *ctx, const struct remote_reply *reply)
{
    struct remote_box *self = ctx;
    char path[REMOTE_PATH_MAX];
    struct remote_request request = {
        .method = "GET", .path = remote_box_path(self, path, "%s", ""), .waits = true};

    self->step = NULL;
    if (reply->err.num < 0) {
        host_box_fail(&self->box, &reply->err);
        return;
    }
    self->step = remote_call_start(self->target, &request, on_looked, self);
    if (!self->step)
        fail_memory(&self->box);
}

/* As long as the server takes: it may have to pull an image. */
static void touch(struct remote_box *self)
{
    char path[REMOTE_PATH_MAX];
    struct remote_request request = {.method = "GET", .waits = true, .timeout_ms = HOST_MAKE_MS};

    request.path = remote_box_path(self, path, "/files/stat?path=/workspace");
    self->step = remote_call_start(self->target, &request, on_touched, self);
    if (!self->step)
        fail_memory(&self->box);
}

/*
 * Of a template that is named here the server makes the box, or says that it has none of that name;
 * "auto" is its own default.
 */
static const char *named_template(const struct config *config)
{
    return str_equal(config->template_name, "auto") ? NULL : config->template_name;
}

/* The name says whose it is: remote_targets_sweep() looks for it. */
static void name_session(const struct host_box *box, char name[LIMIT_NAME + 1])
{
    const char *number = strrchr(box->name, '-'), *life = number;

    while (life > box->name && life[-1] != '-')
        life--;
    str_format(name, LIMIT_NAME + 1, "bailey-%s-%s", host_state(box->host), life);
}

static json_t *session_json(const struct host_box *box)
{
    const struct launcher_make *make = &box->make;
    const char *template = named_template(remote_of(box->host)->config);
    char name[LIMIT_NAME + 1], memory[32], disk[32], cpus[32];
    json_t *json;

    name_session(box, name);
    str_format(memory, sizeof(memory), "%llu", (unsigned long long)make->memory_bytes);
    str_format(disk, sizeof(disk), "%llu", (unsigned long long)make->disk_bytes);
    str_format(cpus, sizeof(cpus), "%u.%03u", make->cpu_millis / 1000, make->cpu_millis % 1000);
    json = json_pack("{s:s, s:s, s:{s:s, s:s, s:i}}", "name", name, "isolation",
                     isolation_name(make->minimum), "limits", "memory", memory, "disk", disk,
                     "pids", (int)make->pids);
    if (json && make->cpu_millis > 0)
        json_object_set_new(json_object_get(json, "limits"), "cpus", json_string(cpus));
    if (json && template)
        json_object_set_new(json, "template", json_string(template));
    return json;
}

/* Another server may have the place that this one has not. */
static bool is_anothers(const struct remote_reply *reply)
{
    return reply->status == 0 || reply->err.code == ERROR_TOO_MANY_SESSIONS ||
           reply->err.code == ERROR_BUSY || reply->err.code == ERROR_SHUTTING_DOWN ||
           reply->err.code == ERROR_QUOTA || reply->err.code == ERROR_PROVIDER_UNAVAILABLE;
}

static void on_created(void *ctx, const struct remote_reply *reply)
{
    struct remote_box *self = ctx;
    const char *id = json_string_value(json_object_get(reply->json, "id"));
    char name[LIMIT_NAME + 1];
    struct error err = reply->err;

    self->step = NULL;
    if (err.num == 0 &&
        (!remote_target_is_id(id) || !str_copy(self->session, sizeof(self->session), id)))
        error_set(&err, -EPROTO, ERROR_PROVIDER_UNAVAILABLE,
                  REMOTE_UNAVAILABLE ": POST /v1/sessions did not reply with a session");
    if (err.num == 0) {
        self->extended_ms = clock_now_ms();
        touch(self);
        return;
    }
    if (reply->status > 0) {
        self->box.is_there = false;
    } else {
        name_session(&self->box, name);
        remote_target_end_session(self->target, name);
        remote_target_down(self->target);
    }
    if (is_anothers(reply)) {
        self->tried |= UINT32_C(1) << (self->target - self->remote->targets);
        self->box.begins_again = remote_target_is_left(self);
    }
    if (err.code != ERROR_PROVIDER_UNAVAILABLE)
        error_prefix(&err, "the server of SANDBOX_URL makes no sandbox");
    host_box_fail(&self->box, &err);
}

static void remote_create(struct host_box *box)
{
    struct remote_box *self = remote_box_of(box);
    struct remote_request request = {.method = "POST", .path = "/v1/sessions"};
    CLEANUP(json_decrefp) json_t *json = NULL;

    request.waits = self->remote->count == 1; /* else another one is asked */
    self->args = BUF_INIT(LIMIT_CELL_TEXT);
    self->out = BUF_INIT(64 * MIB);
    if (self->target->kind == TARGET_PLAIN) {
        if (remote_plain_open(self) < 0)
            fail_memory(box);
        else
            host_box_created(box);
        return;
    }
    request.json = json = session_json(box);
    self->step = json ? remote_call_start(self->target, &request, on_created, self) : NULL;
    if (!self->step) {
        box->is_there = false;
        fail_memory(box);
    }
}

static void on_wake(void *ctx)
{
    host_pump_ready(&((struct remote_box *)ctx)->box.pump, POLLIN);
}

static void remote_attach(struct host_box *box)
{
    struct remote_box *self = remote_box_of(box);

    self->wake_timer = reactor_timer(self->remote->reactor, on_wake, self);
    if (self->wake_timer)
        host_box_attached(box, &remote_stream_ops, self);
    else
        fail_memory(box);
}

static void remote_start(struct host_box *box)
{
    struct remote_box *self = remote_box_of(box);

    if (!self->plain)
        start_beat(self);
    remote_warden_ready(self, box->seen.layers); /* a plain server does not say */
    host_box_started(box);
}

static void remote_inspect(struct host_box *box)
{
    host_box_inspected(box); /* on_looked() has read it */
}

/* ---- removal ---- */

static void on_removed(void *ctx, const struct remote_reply *reply)
{
    struct remote_box *self = ctx;
    int num = 0;

    self->step = NULL;
    if (reply->status == 0)
        num = -ECONNREFUSED;
    else if (reply->err.num < 0 && reply->status != 404 && reply->status != 410)
        num = reply->err.num;
    host_box_removed(&self->box, num);
}

static int remote_remove(struct host_box *box)
{
    struct remote_box *self = remote_box_of(box);
    char path[REMOTE_PATH_MAX];
    struct remote_request request = {.method = "DELETE"};

    if (!self->session[0]) {
        host_box_removed(box, 0);
        return 0;
    }
    request.path = remote_box_path(self, path, "%s", "");
    self->step = remote_call_start(self->target, &request, on_removed, self);
    return self->step ? 0 : -ENOMEM;
}

static void remote_cancel(struct host_box *box)
{
    struct remote_box *self = remote_box_of(box);
    const struct reactor_ops *ops = self->remote->reactor->ops;

    remote_call_cancel(self->step);
    remote_call_cancel(self->beat);
    self->step = self->beat = NULL;
    if (self->beat_timer)
        ops->timer_remove(self->beat_timer);
    if (self->wake_timer)
        ops->timer_remove(self->wake_timer);
    self->beat_timer = self->wake_timer = NULL;
    remote_warden_free(self);
}

static void remote_free(struct host_box *box)
{
    remote_warden_free(remote_box_of(box));
    remote_target_leave(remote_box_of(box));
}

/* The server ends it when it was idle for long enough, and the next process looks for it, too. */
static void remote_leave_behind(struct host_box *box)
{
    struct remote_box *self = remote_box_of(box);

    if (self->session[0])
        log_warning("url: session %s at %s could not be ended; it ends there when it is idle",
                    self->session, self->target->address);
}

/* ---- the backend ---- */

/* A session of the broker's has an id that begins with "s_"; a run has another. */
static bool is_for_session(const struct host_box *box)
{
    return str_starts(box->make.key, "s_");
}

int remote_check(const struct host_box *box, struct error *err)
{
    const struct target *target = ((const struct remote_box *)box)->target;

    const char *template = named_template(((const struct remote_box *)box)->remote->config);

    if (target->kind != TARGET_PLAIN)
        return 0;
    if (!is_for_session(box) && (!template || str_equal(template, "python")))
        return 0;
    if (!is_for_session(box))
        return error_set(err, -ENOTSUP, ERROR_NOT_SUPPORTED,
                         "SANDBOX_TEMPLATE=%.64s: %.200s has POST /execute only, which knows no "
                         "templates: leave it out, or set SANDBOX_URL to the address of a Bailey",
                         template, target->address);
    return error_set(err, -ENOTSUP, ERROR_NOT_SUPPORTED,
                     "SANDBOX_TYPE=url: %.200s has POST /execute only, so it runs code once and "
                     "has no sessions: use a run, or the address of a Bailey",
                     target->address);
}

static void remote_prepare(struct host_box *box)
{
    remote_target_place(remote_box_of(box));
}

/* Servers that did not answer are asked again what they are. */
static void remote_again(struct host *host)
{
    struct remote *remote = remote_of(host);

    for (size_t i = 0; i < remote->count; i++) {
        if (remote->targets[i].down_until_ms)
            remote->targets[i].kind = TARGET_UNKNOWN;
    }
}

static void remote_late(struct host_box *box)
{
    (void)box; /* the call has its own limit */
}

static bool remote_is_slow(const struct host *host)
{
    (void)host;
    return false;
}

/* result.c sums up what the server says of each command. */
static bool remote_usage(struct host_box *box)
{
    (void)box;
    return false;
}

static void remote_timed_out(const struct host *host, struct error *err)
{
    error_set(err, -ETIMEDOUT, ERROR_PROVIDER_UNAVAILABLE,
              REMOTE_UNAVAILABLE ": %.200s did not answer in time",
              remote_of(host)->config->url.address);
}

static void remote_hint(const struct host *host, char *text, size_t size)
{
    if (remote_of(host)->targets[0].kind == TARGET_PLAIN)
        str_format(text, size,
                   ". A server with POST /execute does not say how it isolates; if you trust it, "
                   "set SANDBOX_ISOLATION=process");
}

static void remote_sweep(struct host *host)
{
    remote_targets_sweep(remote_of(host));
}

static void remote_leave(struct host *host)
{
    struct remote *remote = remote_of(host);

    for (size_t i = 0; i < remote->count; i++) {
        remote_call_cancel(remote->targets[i].listing);
        remote->targets[i].listing = NULL;
    }
}

static bool remote_is_busy(const struct host *host)
{
    return remote_of(host)->sweeps;
}

static void remote_close(struct host *host)
{
    struct remote *remote = remote_of(host);

    remote_targets_close(remote);
    free(remote);
}

static int remote_open(struct host *host, const struct config *config, void **ret,
                       struct error *err)
{
    struct remote *remote = calloc(1, sizeof(*remote));

    if (!remote)
        return error_memory(err);
    *ret = remote; /* host_close() ends it, whatever comes */
    remote->host = host;
    remote->reactor = host_reactor(host);
    remote->config = config;
    return remote_targets_open(remote, err);
}

const struct backend_ops remote_ops = {
    .box_size = sizeof(struct remote_box),
    .open = remote_open,
    .close = remote_close,
    .sweep = remote_sweep,
    .prepare = remote_prepare,
    .again = remote_again,
    .late = remote_late,
    .is_slow = remote_is_slow,
    .create = remote_create,
    .attach = remote_attach,
    .start = remote_start,
    .inspect = remote_inspect,
    .remove = remote_remove,
    .cancel = remote_cancel,
    .leave_behind = remote_leave_behind,
    .free_box = remote_free,
    .usage = remote_usage,
    .timed_out = remote_timed_out,
    .hint = remote_hint,
    .leave = remote_leave,
    .is_busy = remote_is_busy,
};
