/*
 * session_manager.c - all sessions: created, found, ended at their time, started and stopped; see
 * session_manager.h.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/held.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "base/worker.h"
#include "session/artifacts.h"
#include "session/container.h"
#include "session/layers.h"
#include "session/refusal_log.h"

#define PREFIX_MIN 4   /* characters of a shortened id */
#define FORGET_MS 1000 /* from the end of a session until nothing of its environment is stored */

uint64_t session_manager_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t time_add(uint64_t ms, uint64_t more_ms)
{
    return ms < LIMIT_TIME_MS && more_ms < LIMIT_TIME_MS - ms ? ms + more_ms : LIMIT_TIME_MS;
}

/* A client still reads from it or uploads to it. */
static bool is_used(const struct session *session)
{
    for (const struct execution *at = session->executions; at; at = at->next) {
        if (at->users > 0)
            return true;
    }
    return session->uploads > 0 || session->asked > 0;
}

/* The oldest ended sessions are dropped from memory; the index prunes by the same count. */
static void forget_ended(struct session_manager *manager)
{
    unsigned count = 0;
    struct session *next;

    for (struct session *session = manager->sessions; session; session = next) {
        next = session->next;
        if (session->state != SESSION_ENDED || ++count <= LIMIT_ENDED_SESSIONS)
            continue;
        if (is_used(session))
            continue;
        datasets_let_go(session);
        session_free(session);
    }
}

static void on_later(void *ctx)
{
    struct session_manager *manager = ctx;
    struct session *next;

    manager->has_later = false;
    for (struct session *session = manager->sessions; session; session = next) {
        next = session->next;
        session_settle(session);
    }
    runs_resume(manager);
    forget_ended(manager);
    session_manager_check_stopped(manager);
}

void session_manager_later(struct session_manager *manager)
{
    if (manager->has_later)
        return;
    manager->has_later = true;
    manager->spec.reactor->ops->timer_set(manager->later, 0);
}

static bool is_alive(const struct session *session)
{
    return session->state < SESSION_ENDING;
}

/* Sets the timer to the first time at which a session ends if it is not used. */
void session_manager_expect(struct session_manager *manager)
{
    uint64_t now = session_manager_now_ms(), next = UINT64_MAX;

    for (const struct session *session = manager->sessions; session; session = session->next) {
        if (is_alive(session))
            next = MIN(next, session_deadline_ms(session));
    }
    manager->spec.reactor->ops->timer_set(manager->expiry, next == UINT64_MAX ? UINT64_MAX
                                                           : next > now       ? next - now
                                                                              : 0);
}

static void on_forget(void *ctx)
{
    struct session_manager *manager = ctx;
    struct error err = {0};

    manager->is_forgetting = false;
    if (index_forget(manager->spec.index, &err) < 0)
        log_warning("environments of ended sessions stay in the index for now: %s", err.text);
}

/* Soon, and once for all sessions that end until then: it waits for the disk. */
void session_manager_forget(struct session_manager *manager)
{
    if (manager->is_forgetting || !manager->spec.index)
        return;
    manager->is_forgetting = true;
    manager->spec.reactor->ops->timer_set(manager->forgetter, FORGET_MS);
}

static void on_expiry(void *ctx)
{
    struct session_manager *manager = ctx;
    uint64_t now = session_manager_now_ms();

    for (struct session *session = manager->sessions; session; session = session->next) {
        if (!is_alive(session) || session_deadline_ms(session) > now)
            continue;
        if (now < session->expires_ms && session->box && box_is_busy(session->box)) {
            session_touch(session); /* an upload is under way */
            continue;
        }
        if (session->paused_ms)
            session_end(session, session_paused_too_long(session, now) ? "paused" : "age", NULL,
                        NULL);
        else if (now >= session->expires_ms && session->flags & SESSION_PAUSES_AT_END)
            session_pause_expired(session);
        else
            session_end(session, now >= session->expires_ms ? "age" : "idle", NULL, NULL);
    }
    session_manager_expect(manager);
}

int session_manager_new(const struct session_manager_spec *spec, struct session_manager **ret,
                        struct error *err)
{
    struct session_manager *manager = calloc(1, sizeof(*manager));

    if (!manager)
        return error_memory(err);
    manager->spec = *spec;
    manager->tenants = tenants_new(spec->config);
    manager->held = held_new(LIMIT_HELD_TENANT, LIMIT_HELD);
    manager->writer = worker_new(spec->reactor);
    manager->input_writer = worker_new(spec->reactor);
    manager->fair_queue = fair_queue_new(manager);
    templates_load(manager);
    manager->later = reactor_timer(spec->reactor, on_later, manager);
    manager->expiry = reactor_timer(spec->reactor, on_expiry, manager);
    manager->sweeper = reactor_timer(spec->reactor, session_manager_sweep, manager);
    manager->forgetter = reactor_timer(spec->reactor, on_forget, manager);
    if (!manager->later || !manager->expiry || !manager->sweeper || !manager->forgetter ||
        !manager->tenants || !manager->held || !manager->writer || !manager->input_writer ||
        !manager->fair_queue || usage_start(manager) < 0 || artifacts_start(manager) < 0 ||
        retention_start(manager) < 0 || refusal_log_start(manager) < 0) {
        session_manager_free(manager);
        return error_memory(err);
    }
    containers_start(manager);
    uploads_start(manager);
    *ret = manager;
    return 0;
}

void session_manager_free(struct session_manager *manager)
{
    const struct reactor_ops *ops;

    if (!manager)
        return;
    ops = manager->spec.reactor->ops;
    runs_free(manager);
    found_free(manager);
    while (manager->sessions)
        session_free(manager->sessions);
    if (manager->writer)
        worker_finish(manager->writer);
    installs_free(manager);
    looks_free(manager);
    templates_free(manager);
    ops->timer_remove(manager->later);
    ops->timer_remove(manager->expiry);
    ops->timer_remove(manager->sweeper);
    ops->timer_remove(manager->forgetter);
    artifacts_stop(manager);
    retention_stop(manager);
    refusal_log_stop(manager);
    ops->timer_remove(manager->grace);
    usage_free(manager);
    fair_queue_free(manager->fair_queue);
    tenants_free(manager->tenants);
    worker_free(manager->writer);
    worker_free(manager->input_writer);
    held_free(manager->held);
    settings_table_free(manager);
    free(manager);
}

void session_manager_set_provider(struct session_manager *manager, struct provider *provider)
{
    manager->provider = provider;
}

void session_manager_box_ended(struct session_manager *manager, uint32_t number, unsigned why)
{
    struct error err = {0};

    for (struct session *session = manager->sessions; session; session = session->next) {
        if (session->box && session->number == number) {
            box_blame(session->box, why);
            box_lost_error(session->box, &err);
            session_lost(session, &err);
            return;
        }
    }
    run_box_ended(manager, number, why);
    install_box_ended(manager, number);
}

/* ---- the end ---- */

static void end_all(void *ctx);

/*
 * A client that waited for a command still reads its end, and may have its outputs collected then.
 */
static bool is_watched(const struct session *session)
{
    for (const struct execution *at = session->executions; at; at = at->next) {
        if (at->watchers)
            return true;
    }
    return false;
}

/* Whether commands, collections of outputs or one-shot runs are under way. */
static bool is_working(const struct session_manager *manager)
{
    for (const struct session *session = manager->sessions; session; session = session->next) {
        if (session->running > 0 || outputs_are_collected(session) || is_watched(session))
            return true;
    }
    return manager->runs || manager->installs;
}

void session_manager_check_stopped(struct session_manager *manager)
{
    void (*stopped)(void *ctx);

    if (!manager->is_stopping || !manager->stopped)
        return;
    if (!manager->is_ending) {
        if (!is_working(manager))
            end_all(manager); /* everything that ran ended within the grace time */
        return;
    }
    if (manager->runs || manager->installs || manager->is_sweeping)
        return;
    for (const struct session *session = manager->sessions; session; session = session->next) {
        if (session->state != SESSION_ENDED)
            return;
    }
    if (manager->grace)
        manager->spec.reactor->ops->timer_set(manager->grace, UINT64_MAX);
    stopped = ptr_take(&manager->stopped);
    stopped(manager->stopped_ctx);
}

static void end_all(void *ctx)
{
    struct session_manager *manager = ctx;
    struct error err = {0};

    manager->is_ending = true;
    error_set(&err, -ECANCELED, ERROR_SHUTTING_DOWN, "the daemon is stopping");
    runs_fail(manager, &err);
    installs_fail(manager, &err);
    for (struct session *session = manager->sessions; session; session = session->next)
        session_end(session, "engine_stopped", NULL, NULL);
    session_manager_later(manager);
}

void session_manager_stop(struct session_manager *manager, uint64_t grace_ms,
                          void (*done)(void *ctx), void *ctx)
{
    if (manager->is_stopping) { /* a second call: the first caller is told, and the grace time is
                                   the new one */
        if (manager->grace && manager->stopped)
            manager->spec.reactor->ops->timer_set(manager->grace, grace_ms);
        return;
    }
    manager->is_stopping = true;
    manager->stopped = done;
    manager->stopped_ctx = ctx;
    for (struct session *session = manager->sessions; session; session = session->next) {
        session->pinned++;
        for (struct execution *execution = session->executions; execution;
             execution = execution->next) {
            if (!execution_has_ended(execution))
                execution_signal(execution, SIGTERM, NULL);
        }
        session->pinned--;
    }
    manager->grace = reactor_timer(manager->spec.reactor, end_all, manager);
    if (!manager->grace)
        end_all(manager);
    else
        manager->spec.reactor->ops->timer_set(manager->grace, grace_ms);
    session_manager_later(manager);
}

/* ---- facts ---- */

bool session_manager_is_idle(const struct session_manager *manager)
{
    return manager->alive == 0 && !manager->runs && !manager->installs;
}

unsigned session_manager_session_count(const struct session_manager *manager)
{
    return manager->alive;
}

unsigned session_manager_session_count_of(const struct session_manager *manager, const char *tenant)
{
    unsigned count = 0;

    for (const struct session *session = manager->sessions; session; session = session->next)
        count += is_alive(session) && str_equal(session->tenant, tenant);
    return count;
}

struct tenants *session_manager_tenants(struct session_manager *manager)
{
    return manager->tenants;
}

struct index *session_manager_index(struct session_manager *manager)
{
    return manager->spec.index;
}

unsigned session_manager_queue_depth(const struct session_manager *manager)
{
    return fair_queue_waiting(manager->fair_queue);
}

const struct config *session_manager_config(const struct session_manager *manager)
{
    return manager->spec.config;
}

struct bus *session_manager_bus(struct session_manager *manager)
{
    return manager->spec.bus;
}

struct audit *session_manager_audit(struct session_manager *manager)
{
    return manager->spec.audit;
}

struct metrics *session_manager_metrics(struct session_manager *manager)
{
    return manager->spec.metrics;
}

struct held *session_manager_held(const struct session_manager *manager)
{
    return manager->held;
}

int session_manager_hold(struct session_manager *manager, const char *tenant, size_t bytes,
                         struct error *err)
{
    int r = held_take(manager->held, tenant, str_equal(tenant, TENANT_LOCAL), bytes);

    if (r == 0)
        return 0;
    error_set(err, r, r == -EDQUOT ? ERROR_QUOTA : ERROR_BUSY,
              "what waits in memory for %s takes its whole share already; let some of it finish "
              "first",
              r == -EDQUOT ? "this tenant" : "all tenants");
    if (err)
        err->retry_s = 1;
    return r;
}

void session_manager_release(struct session_manager *manager, const char *tenant, size_t bytes)
{
    held_give(manager->held, tenant, bytes);
}

int session_manager_logs_fd(const struct session_manager *manager)
{
    return manager->spec.folders.logs_fd;
}

const struct session_language *session_manager_language(const struct session_manager *manager,
                                                        const char *name)
{
    for (size_t i = 0; i < manager->spec.language_count; i++) {
        if (str_equal(manager->spec.languages[i].name, name))
            return &manager->spec.languages[i];
    }
    return NULL;
}

/* ---- making ---- */

unsigned session_manager_retry_s(const struct session_manager *manager)
{
    uint64_t now = session_manager_now_ms(), next = UINT64_MAX;

    for (const struct session *session = manager->sessions; session; session = session->next) {
        if (is_alive(session) && !session_is_paused(session))
            next = MIN(next, session_deadline_ms(session));
    }
    return next == UINT64_MAX || next < now ? 1 : (unsigned)((next - now + 999) / 1000);
}

static bool is_name(const char *name)
{
    return id_is_name(name) && !str_starts(name, "s_");
}

static int check_name(struct session_manager *manager, const char *tenant, const char *name,
                      struct error *err)
{
    if (!name)
        return 0;
    if (!is_name(name))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "name: 1 to %d letters, digits, '.', '_' or '-', and not beginning with "
                         "\"s_\"",
                         LIMIT_NAME);
    for (const struct session *session = manager->sessions; session; session = session->next) {
        if (is_alive(session) && str_equal(session->tenant, tenant) &&
            str_equal(session->name, name))
            return error_set(err, -EEXIST, ERROR_NAME_TAKEN,
                             "the name '%s' belongs to the session %s; use it, or another name",
                             name, session->id);
    }
    return 0;
}

int env_check(json_t *env, struct error *err)
{
    const char *name;
    json_t *value;
    size_t bytes = 0;

    json_object_foreach(env, name, value)
    {
        if (!*name || strchr(name, '=') || !json_is_string(value) ||
            strlen(json_string_value(value)) != json_string_length(value))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "env.%.60s: names without '=' and values that are strings without "
                             "NUL",
                             name);
        bytes += strlen(name) + json_string_length(value) + 2;
    }
    if (json_object_size(env) > LIMIT_ENV_COUNT || bytes > LIMIT_ARGV_BYTES / 2)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE, "env: too much (at most %llu KB)",
                         (unsigned long long)(LIMIT_ARGV_BYTES / 2 / KIB));
    return 0;
}

/* Where the machine itself is the only box: the session that has it; NULL: none. */
static const struct session *owner_of_box(const struct session_manager *manager)
{
    const struct session *session = manager->sessions;

    while (session && (session->ended_ms || !config_can(session_config(session), PROVIDER_ONE_BOX)))
        session = session->next;
    return session;
}

static int check_one_box(struct session_manager *manager, const struct config *config,
                         const char *tenant, struct error *err)
{
    const struct session *owner;

    if (!config_can(config, PROVIDER_ONE_BOX) || !owner_of_box(manager))
        return 0;
    session_manager_make_room(manager, tenant, true);
    owner = owner_of_box(manager);
    if (!owner)
        return 0;
    return error_set(err, -EAGAIN, ERROR_TOO_MANY_SESSIONS,
                     "the session %s is there, and this container gives no namespaces, so it is "
                     "the only box: end that session first ('bailey session rm'), or use a machine "
                     "with namespaces ('bailey doctor' says what is missing), or "
                     "SANDBOX_TYPE=docker",
                     owner->name ? owner->name : owner->id);
}

static int check_create(struct session_manager *manager, const struct session_spec *spec,
                        const struct config *config, struct session_template *found_template,
                        struct error *err)
{
    int r = check_name(manager, spec->tenant ? spec->tenant : TENANT_LOCAL, spec->name, err);
    unsigned live;

    if (r == 0)
        r = session_manager_template_of(manager, config, spec->template_name, found_template, err);
    if (r == 0)
        r = env_check(spec->env, err);
    if (r < 0)
        return r;
    if (manager->is_stopping)
        return error_set(err, -ESHUTDOWN, ERROR_SHUTTING_DOWN, "the daemon is stopping");
    r = check_one_box(manager, config, spec->tenant ? spec->tenant : TENANT_LOCAL, err);
    if (r < 0)
        return r;
    live = manager->alive - session_manager_paused_count(manager);
    if (live >= manager->spec.config->max_sessions &&
        !session_manager_make_room(manager, spec->tenant ? spec->tenant : TENANT_LOCAL, true))
        return error_set(err, -EAGAIN, ERROR_TOO_MANY_SESSIONS,
                         "%u sessions are live, the maximum of SANDBOX_MAX_SESSIONS; one ends in "
                         "%u s at the latest, or at once when you delete one",
                         live, session_manager_retry_s(manager));
    return 0;
}

int session_manager_create(struct session_manager *manager, const struct session_spec *spec,
                           struct session **ret, struct error *err)
{
    struct session_template found_template = {0};
    struct settings *settings = NULL;
    const struct config *config;
    struct session *session;
    int r = settings_of_new(manager, spec, &settings, err);

    if (r < 0)
        return r;
    r = check_create(manager, spec, &settings->config, &found_template, err);
    if (r == 0)
        r = settings_set_template(&settings, found_template.name, err);
    config = &settings->config;
    session = r < 0 ? NULL : session_new(manager);
    if (!session) {
        settings_release(settings);
        return r < 0 ? r : error_memory(err);
    }
    session->settings = settings;
    if (id_make(session->id, "s") < 0 || (spec->name && !(session->name = strdup(spec->name))) ||
        !(session->template_name = strdup(found_template.name))) {
        session_free(session);
        return error_memory(err);
    }
    if (spec->tenant)
        str_copy(session->tenant, sizeof(session->tenant), spec->tenant);
    if (spec->env)
        json_object_update(session->env, spec->env);
    session->notes = json_incref(spec->notes);
    session->idle_ms = spec->idle_ms ? spec->idle_ms : config->session_idle_ms;
    session->expires_ms =
        time_add(session->created_ms, spec->age_ms ? spec->age_ms : config->session_age_ms);
    session->limits = config->limits;
    session_take_template(session, &found_template);
    session->is_provisional = spec->is_provisional;
    session->flags = (spec->pauses_at_end ? SESSION_PAUSES_AT_END : 0) |
                     (spec->resumes_by_use ? SESSION_RESUMES_BY_USE : 0);
    if (spec->is_spare)
        session->idle_ms = MIN(session->idle_ms, (uint64_t)SPARE_IDLE_MS);
    r = usage_session(session, err);
    if (r < 0 && session_manager_make_room(manager, session->tenant, false)) {
        *err = (struct error){0};
        r = usage_session(session, err);
    }
    session->is_spare = spec->is_spare;
    if (r == 0)
        r = session_record(session, err);
    if (r < 0) { /* a session that the next broker would not know must not exist */
        session_free(session);
        return r;
    }
    manager->alive++;
    account_session(session, "session.created", spec->caller ? spec->caller : &caller_engine);
    bus_publish(manager->spec.bus, EVENT_SESSION_CREATED, session->tenant, session->id,
                json_pack("{s:s?}", "name", session->name));
    session_manager_expect(manager);
    *ret = session;
    return 0;
}

/* ---- finding ---- */

static bool fits(const struct session *session, const char *word)
{
    const char *bare = str_starts(word, "s_") ? word + 2 : word;

    return strlen(bare) >= PREFIX_MIN && str_starts(session->id + 2, bare);
}

/* Exact matches first: live sessions before ended ones, the local tenant's before others. */
static struct session *find_exact(struct session_manager *manager, const char *tenant,
                                  const char *word, bool *ret_is_ambiguous)
{
    struct session *found = NULL;
    unsigned rank = 0, count = 0;

    for (struct session *session = manager->sessions; session; session = session->next) {
        unsigned own;

        if (tenant && !str_equal(session->tenant, tenant))
            continue; /* another tenant's session: treated as if it did not exist */
        if (!str_equal(session->id, word) && !str_equal(session->name, word))
            continue;
        own = is_alive(session) ? 2 + str_equal(session->tenant, TENANT_LOCAL) : 1;
        count = own == 2 && rank == 2 ? count + 1 : own > rank ? 1 : count;
        if (own > rank)
            found = session;
        rank = MAX(rank, own);
    }
    *ret_is_ambiguous = rank == 2 && count > 1;
    return found;
}

static int ambiguous(const char *word, struct error *err)
{
    return error_set(err, -EEXIST, ERROR_SESSION_AMBIGUOUS,
                     "'%.48s' matches several sessions; give more characters of the id", word);
}

static int find_any(struct session_manager *manager, const char *tenant, const char *word,
                    struct session **ret, struct error *err)
{
    bool is_ambiguous;
    struct session *found = find_exact(manager, tenant, word, &is_ambiguous);
    bool is_exact = found;
    unsigned fitting[2] = {0}; /* matches: ended, alive */

    if (is_ambiguous)
        return ambiguous(word, err);
    for (struct session *session = manager->sessions; session && !is_exact;
         session = session->next) {
        if ((tenant && !str_equal(session->tenant, tenant)) || !fits(session, word))
            continue;
        if (!found || (is_alive(session) && !is_alive(found)))
            found = session;
        fitting[is_alive(session)]++;
    }
    if (fitting[1] > 1 || (fitting[1] == 0 && fitting[0] > 1))
        return ambiguous(word, err);
    if (!found)
        return error_set(err, -ENOENT, ERROR_SESSION_NOT_FOUND,
                         "there is no session '%.64s'; 'bailey session ls' lists them", word);
    *ret = found;
    return 0;
}

int session_manager_find_of(struct session_manager *manager, const char *tenant, const char *word,
                            bool with_ended, struct session **ret, struct error *err)
{
    struct session *session;
    int r = find_any(manager, tenant, word, &session, err);

    if (r == 0 && !with_ended && !is_alive(session))
        return session_ended_error(session, err);
    if (r == 0)
        *ret = session;
    return r;
}

int session_manager_find_any(struct session_manager *manager, const char *word,
                             struct session **ret, struct error *err)
{
    return session_manager_find_of(manager, NULL, word, true, ret, err);
}

int session_manager_find(struct session_manager *manager, const char *word, struct session **ret,
                         struct error *err)
{
    return session_manager_find_of(manager, NULL, word, false, ret, err);
}

void session_manager_each(struct session_manager *manager, bool with_ended,
                          void (*each)(void *ctx, struct session *session), void *ctx)
{
    for (int ended = 0; ended <= (with_ended ? 1 : 0); ended++) {
        struct session *next;

        for (struct session *session = manager->sessions; session; session = next) {
            next = session->next;
            if (is_alive(session) == !ended)
                each(ctx, session);
        }
    }
}
