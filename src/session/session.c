/* session.c - one session's life: its box at the first use, its end, its record; see session.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "session/artifacts.h"
#include "session/layers.h"
#include "store/chat_row.h"

#define AHEAD_MS 1000
#define LAST_TURNS 256 /* of a box's last frames: more than its socket can hold */

/*
 * Later than the newest session's, so that lists which are sorted by it have the order of creation;
 * of many in one millisecond they run ahead of the clock. A clock that was set back is believed.
 */
static uint64_t next_created_ms(const struct session_manager *manager)
{
    uint64_t now = session_manager_now_ms();
    uint64_t newest = manager->sessions ? manager->sessions->created_ms : 0;

    return newest >= now && newest < now + AHEAD_MS ? newest + 1 : now;
}

struct session *session_new(struct session_manager *manager)
{
    struct session *session = calloc(1, sizeof(*session));

    if (!session)
        return NULL;
    session->manager = manager;
    str_copy(session->tenant, sizeof(session->tenant), TENANT_LOCAL);
    session->env = json_object();
    session->created_ms = next_created_ms(manager);
    session->used_ms = session_manager_now_ms();
    session->next_execution = 1;
    session->next = manager->sessions;
    manager->sessions = session;
    return session;
}

void session_tell_box(struct session *session, struct box *box, const struct error *err)
{
    struct calling calling = {.outer = session->calling};

    /* Waiters were added at the front: the first that came is called first. */
    while (session->waiters) {
        struct waiter *waiter = session->waiters;

        session->waiters = waiter->next;
        waiter->next = calling.list;
        calling.list = waiter;
    }
    session->calling = &calling; /* a callback may cancel waiters that are not called yet */
    while (calling.list) {
        struct waiter *waiter = calling.list;

        calling.list = waiter->next;
        waiter->ready(waiter->ctx, box, err);
        free(waiter);
    }
    session->calling = calling.outer;
}

void session_free(struct session *session)
{
    usage_forget(session);
    LIST_UNLINK(session->manager->sessions, session);
    while (session->executions)
        execution_free(session->executions);
    pump_stop(&session->pump);
    guest_install_free(ptr_take(&session->guest_install));
    box_free(ptr_take(&session->box));
    code_stores_free(session);
    outputs_free(session);
    packages_free(session);
    while (session->waiters) {
        struct waiter *waiter = session->waiters;

        session->waiters = waiter->next;
        free(waiter);
    }
    while (session->completions) {
        struct completion *completion = session->completions;

        session->completions = completion->next;
        free(completion);
    }
    free(session->pausing);
    contexts_free(session);
    kernels_free(session);
    json_decref(session->env);
    json_decref(session->given_env);
    json_decref(session->notes);
    free(session->template_name);
    free(session->name);
    free(session->fallback);
    datasets_push_free(session);
    settings_release(session->settings);
    free(session);
}

const char *session_id(const struct session *session)
{
    return session->id;
}

const char *session_tenant(const struct session *session)
{
    return session->tenant;
}

enum session_state session_state(const struct session *session)
{
    return session->state;
}

struct session_manager *session_manager_of(const struct session *session)
{
    return session->manager;
}

const char *session_gone_provider(const struct session *session)
{
    bool is_gone = session->provider && str_equal(session->reason, REASON_PROVIDER_GONE);

    return is_gone ? provider_runtime(session->provider) : NULL;
}

int session_record(struct session *session, struct error *err)
{
    CLEANUP(freep) char *env = json_dumps(session->env, JSON_COMPACT);
    CLEANUP(freep) char *notes = session->notes ? json_dumps(session->notes, JSON_COMPACT) : NULL;
    struct index_session row = {
        .notes = notes,
        .paused_ms = session->ended_ms ? 0 : session->paused_ms,
        .flags = session->flags,
        .settings = session->settings ? session->settings->text : NULL,
        .name = session->name,
        .env = env ? env : "{}",
        .created_ms = session->created_ms,
        .used_ms = session->used_ms,
        .expires_ms = session->expires_ms,
        .idle_ms = session->idle_ms,
        .next_execution = session->next_execution,
        .has_box = session->has_box,
        .ended_ms = session->ended_ms,
        .reason =
            session->is_provisional && !session->ended_ms ? PROVISIONAL_REASON : session->reason,
        .template_name = session->template_name,
        .tenant = session->tenant,
        .provider = session->provider ? session->provider->name : NULL,
    };

    str_copy(row.id, sizeof(row.id), session->id);
    return index_put_session(session->manager->spec.index, &row, err);
}

void session_save(struct session *session)
{
    struct error err = {0};

    if (session_record(session, &err) < 0)
        log_error("session %s could not be recorded: %s, continuing without it", session->id,
                  err.text);
}

int session_complete(struct session *session, struct error *err)
{
    session->is_provisional = false;
    return session_record(session, err);
}

uint64_t session_deadline_ms(const struct session *session)
{
    uint64_t idle = time_add(session->used_ms, session->idle_ms);

    if (session->state == SESSION_PAUSING)
        return LIMIT_TIME_MS; /* for a moment */
    if (session->paused_ms) {
        idle = time_add(session->paused_ms, session->manager->spec.config->paused_ms);
        return session->flags & SESSION_OUTLIVES_AGE ? idle : MIN(idle, session->expires_ms);
    }
    if (session->running > 0 || session->uploads > 0 || session->package_orders)
        return session->expires_ms; /* the session is in use */
    return MIN(idle, session->expires_ms);
}

void session_touch(struct session *session)
{
    session->used_ms = MAX(session->used_ms, session_manager_now_ms());
}

void session_extend(struct session *session, uint64_t more_ms)
{
    uint64_t now = session_manager_now_ms();

    /* Idle or not, the session lives that much longer, as if it had been used that much later. */
    session_touch(session);
    if (more_ms > session->idle_ms)
        session->used_ms = MAX(session->used_ms, time_add(now, more_ms - session->idle_ms));
    session->expires_ms = time_add(session->expires_ms, more_ms);
    session_save(session);
    session_manager_expect(session->manager);
}

void session_expire_at(struct session *session, uint64_t expires_ms)
{
    session_touch(session);
    session->expires_ms = MIN(expires_ms, LIMIT_TIME_MS);
    session_save(session);
    session_manager_expect(session->manager);
}

uint64_t session_created_ms(const struct session *session)
{
    return session->created_ms;
}

uint64_t session_expires_ms(const struct session *session)
{
    return session->expires_ms;
}

json_t *session_notes(const struct session *session)
{
    return session->notes;
}

int session_set_notes(struct session *session, json_t *notes, struct error *err)
{
    json_t *before = session->notes;
    int r;

    session->notes = notes;
    r = session_record(session, err);
    if (r < 0)
        session->notes = before;
    json_decref(r < 0 ? notes : before);
    return r;
}

const char *session_template_name(const struct session *session)
{
    return session->template_name;
}

struct limits session_limits(const struct session *session)
{
    return session->limits;
}

int session_ended_error(const struct session *session, struct error *err)
{
    char when[32];
    time_t seconds = (time_t)(session->ended_ms / 1000);
    struct tm time;

    gmtime_r(&seconds, &time);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &time);
    error_set(err, -ESHUTDOWN, ERROR_SESSION_ENDED,
              "the session %s ended at %s (%s); make a new one", session->id, when,
              session->reason ? session->reason : "unknown");
    if (err)
        err->provider = session_gone_provider(session);
    return -ESHUTDOWN;
}

/* ---- the box ---- */

/* Another provider than the session's type made its box; after a restart the reason is not known.
 */
static void note_fallback(struct session *session, const struct made *made)
{
    const struct provider_row *type = config_provider(session_config(session));
    const char *why = made->fallback ? made->fallback : type ? type->unavailable : NULL;

    free(session->fallback);
    session->fallback = NULL;
    session->wanted = NULL;
    if (!type || type == made->provider || !made->provider || !why)
        return;
    session->fallback = strdup(why);
    session->wanted = session->fallback ? type : NULL;
}

void session_stand(struct session *session, const struct made *made)
{
    session->number = made->number;
    session->box = made->box;
    str_copy(session->layer, sizeof(session->layer), made->layer);
    session->facts = made->facts;
    session->limits.memory_bytes = made->limits.memory_bytes;
    session->limits.disk_bytes = made->limits.disk_bytes;
    session->limits.pids = made->limits.pids;
    session->limits.cpu_millis = made->limits.cpu_millis;
    session->has_box = true;
    session->provider = made->provider;
    note_fallback(session, made);
    if (pump_start(&session->pump, session->manager->spec.reactor, made->box, session_lost,
                   session) < 0) {
        struct error err = {0};

        error_memory(&err);
        session_lost(session, &err);
    }
}

static void on_made(void *ctx, const struct made *made)
{
    struct session *session = ctx;

    session->make_serial = 0;
    account_box(session->manager, made, session->make_asked_ns);
    session_stand(session, made);
    if (session->state != SESSION_STARTING)
        return; /* ended meanwhile: session_settle() returns the box */
    session_become(session, SESSION_READY);
    session_save(session);
    guest_install_start(session);
    if (made->kernel)
        kernel_came(session, made);
    if (!provider_can(session->provider, PROVIDER_CAN_BIND_DATASETS))
        datasets_push(session, true);
    if (!session->push) /* else when all datasets are copied */
        session_tell_box(session, session->box, NULL);
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    struct session *session = ctx;

    session->make_serial = 0;
    session->facts = *facts;
    usage_box_over(session, NULL);
    if (session->state == SESSION_STARTING)
        session_become(session, SESSION_NEW); /* the next use tries again */
    session_tell_box(session, NULL, err);
}

static const struct make_events make_events = {.made = on_made, .refused = on_refused};

bool session_is_ready(const struct session *session)
{
    return session->state == SESSION_READY && !session->push;
}

static void start_box(struct session *session)
{
    struct session_manager *manager = session->manager;
    const struct config *config = session_config(session);
    struct make_request request = {
        .key = session->id,
        .provider = config_provider(config),
        .fallback = config_fallback(config),
        .limits = config->limits,
        .minimum = config->isolation,
        .has_data = true,
        .has_packages = true,
    };
    const struct session_language *python = session_manager_language(manager, "python");
    struct session_template found_template = {0};
    struct error err = {0};
    int r = session_apply_template(session, &found_template, &err);

    if (r == 0)
        r = datasets_prepare(session, &err);
    request.layer = found_template.layer;
    request.is_warm = manager->spec.config->is_warm && python && python->program && python->driver;
    request.is_warm &= request_interpreters(manager, config, &request);
    request.tier = (unsigned)session->tier;
    if (r == 0)
        r = packages_prepare(session, &err);
    session_become(session, SESSION_STARTING);
    session->make_asked_ns = clock_now_ns();
    if (r == 0)
        r = usage_box(session, &err);
    if (r == 0)
        r = fair_queue_make(manager->fair_queue, session->tenant, &request, &make_events, session,
                            &session->make_serial, &err);
    if (r < 0)
        on_refused(session, &err, &session->facts);
}

void session_box(struct session *session,
                 void (*ready)(void *ctx, struct box *box, const struct error *err), void *ctx)
{
    struct waiter *waiter;
    struct error err = {0};

    session_touch(session);
    if (session->state >= SESSION_ENDING) {
        session_ended_error(session, &err);
        ready(ctx, NULL, &err);
        return;
    }
    if (session_check_pause(session, &err) < 0) {
        ready(ctx, NULL, &err);
        return;
    }
    if (session_is_ready(session)) {
        ready(ctx, session->box, NULL);
        return;
    }
    waiter = calloc(1, sizeof(*waiter));
    if (!waiter) {
        error_memory(&err);
        ready(ctx, NULL, &err);
        return;
    }
    *waiter = (struct waiter){.next = session->waiters, .ready = ready, .ctx = ctx};
    session->waiters = waiter;
    if (session->state == SESSION_NEW)
        start_box(session);
}

static void waiters_drop(struct waiter **list, const void *ctx)
{
    for (struct waiter **at = list; *at;) {
        struct waiter *waiter = *at;

        if (waiter->ctx == ctx) {
            *at = waiter->next;
            free(waiter);
        } else {
            at = &waiter->next;
        }
    }
}

void session_box_cancel(struct session *session, void *ctx)
{
    waiters_drop(&session->waiters, ctx);
    for (struct calling *calling = session->calling; calling; calling = calling->outer)
        waiters_drop(&calling->list, ctx);
}

void session_lost(void *ctx, const struct error *err)
{
    struct session *session = ctx;

    if (session->state < SESSION_ENDING)
        log_warning("session %s: %s", session->id, err->text);
    session->is_box_lost = true;
    session_end(session,
                session->box && box_lost_provider(session->box) ? REASON_PROVIDER_GONE : "box_lost",
                NULL, NULL);
}

/* ---- the end ---- */

static void box_gone(void *ctx, const struct box_facts *facts)
{
    struct session *session = ctx;
    struct session_manager *manager = session->manager;
    bool keeps_data = datasets_outlive(session);

    usage_box_over(session, facts);
    session_become(session, SESSION_ENDED);
    if (keeps_data) {
        datasets_keep(session);
    } else {
        usage_data_over(session, session->held_data);
        datasets_remove(session);
    }
    if (json_object_size(session->env) > 0) {
        json_object_clear(session->env);
        session_manager_forget(manager);
    }
    packages_remove(session);
    chat_row_drop(manager->spec.index, session->id, NULL);
    session_manager_discard(manager, manager->spec.folders.logs_fd, session->id);
    outputs_gone(session);
    usage_outputs_over(session);
    artifacts_end(session);
    outputs_remove(session);
    index_prune(manager->spec.index, LIMIT_ENDED_SESSIONS, NULL);
    account_session(session, "session.ended", &session->ender);
    bus_publish(manager->spec.bus, EVENT_SESSION_ENDED, session->tenant, session->id,
                json_pack("{s:s, s:s*, s:s?}", "reason", session->reason, "provider",
                          session_gone_provider(session), "name", session->name));
    while (session->completions) {
        struct completion *completion = session->completions;

        session->completions = completion->next;
        completion->done(completion->ctx);
        free(completion);
    }
    executions_trim(session, LIMIT_EXECUTIONS_AFTER);
    session_manager_later(manager); /* a call may wait for the last session's end */
}

/* Continues a stream whose slow watcher has read on or has left. */
static void resume_held(struct session *session)
{
    session->pinned++;
    for (struct execution *execution = session->executions; execution && session->box;
         execution = execution->next) {
        for (int i = 0; i < BOX_STREAMS; i++) {
            if (!execution->is_held[i] || execution->call == 0)
                continue;
            execution->is_held[i] = false;
            box_resume(session->box, execution->call, (enum box_stream)(i + 1));
        }
    }
    session->pinned--;
}

/* The launcher reported the box's end before the warden's last frames were read: reads them now. */
static void hear_last_words(struct session *session)
{
    struct error err = {0};

    for (int i = 0; i < LAST_TURNS && box_fd(session->box) >= 0; i++) {
        if (box_pump(session->box, &err) < 0)
            break;
    }
}

/* Not inside box_pump(): runs in the separate turn that session_manager_later() gives. */
static void leave(struct session *session)
{
    struct provider *provider = session->manager->provider;
    struct error err = {0};

    session->is_leaving = true;
    session_ended_error(session, &err);
    if (session->make_serial) {
        fair_queue_cancel(session->manager->fair_queue, session->make_serial);
        session->make_serial = 0;
    }
    session_tell_box(session, NULL, &err);
    session_pause_fail(session, &err);
    pump_stop(&session->pump);
    if (session->box && session->is_box_lost)
        hear_last_words(session);
    resume_held(session);
    guest_install_free(ptr_take(&session->guest_install));
    if (session->box)
        box_fail(session->box, &err);
    session->pinned++;
    for (struct execution *execution = session->executions; execution; execution = execution->next)
        execution_fail(execution, &err);
    session->pinned--;
    outputs_fail(session, &err);
    packages_fail(session, &err);
    if (session->box)
        provider->ops->end(provider, session->number, ptr_take(&session->box), box_gone, session);
    else
        box_gone(session, &session->facts);
}

void session_settle(struct session *session)
{
    if (session->state == SESSION_ENDING && !session->is_leaving)
        leave(session);
    else
        resume_held(session);
}

void session_end_by(struct session *session, const struct caller *caller, const char *reason,
                    void (*done)(void *ctx), void *ctx)
{
    struct completion *completion;

    if (session->state == SESSION_ENDED) {
        if (done)
            done(ctx);
        return;
    }
    if (done && (completion = calloc(1, sizeof(*completion)))) {
        *completion = (struct completion){.next = session->completions, .done = done, .ctx = ctx};
        session->completions = completion;
    }
    if (session->state == SESSION_ENDING)
        return;
    session->reason = reason;
    session->ender = caller ? *caller : caller_engine;
    session->ended_ms = session_manager_now_ms();
    session_become(session, SESSION_ENDING);
    session_save(session); /* stored first: a successor that finds some files deleted then knows
                              that the session ended */
    usage_session_over(session);
    session->manager->alive--;
    session->manager->ended++;
    session_manager_later(session->manager);
}

void session_end(struct session *session, const char *reason, void (*done)(void *ctx), void *ctx)
{
    session_end_by(session, NULL, reason, done, ctx);
}
