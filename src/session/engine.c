/* engine.c - all sessions: made, found, ended in time, started and stopped; see engine.h. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "session/artifacts.h"
#include "session/denial.h"
#include "session/layers.h"

#define PREFIX_MIN 4 /* characters of a shortened id */

uint64_t engine_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t time_add(uint64_t ms, uint64_t more_ms)
{
    return ms < LIMIT_TIME_MS && more_ms < LIMIT_TIME_MS - ms ? ms + more_ms : LIMIT_TIME_MS;
}

/* Somebody still reads, or gives it something. */
static bool is_used(const struct session *session)
{
    for (const struct execution *at = session->executions; at; at = at->next) {
        if (at->users > 0)
            return true;
    }
    return session->uploads > 0 || session->asked > 0;
}

/* The oldest ended sessions are dropped from memory; the index prunes by the same count. */
static void forget_ended(struct engine *engine)
{
    unsigned count = 0;
    struct session *next;

    for (struct session *session = engine->sessions; session; session = next) {
        next = session->next;
        if (session->state != SESSION_ENDED || ++count <= LIMIT_ENDED_SESSIONS)
            continue;
        if (!is_used(session))
            session_free(session);
    }
}

static void on_later(void *ctx)
{
    struct engine *engine = ctx;
    struct session *next;

    engine->has_later = false;
    for (struct session *session = engine->sessions; session; session = next) {
        next = session->next;
        session_settle(session);
    }
    runs_resume(engine);
    forget_ended(engine);
    engine_check_stopped(engine);
}

void engine_later(struct engine *engine)
{
    if (engine->has_later)
        return;
    engine->has_later = true;
    engine->spec.reactor->ops->timer_set(engine->later, 0);
}

static bool is_alive(const struct session *session)
{
    return session->state < SESSION_ENDING;
}

/* The timer goes to the first session that would end if nobody came. */
void engine_expect(struct engine *engine)
{
    uint64_t now = engine_now_ms(), next = UINT64_MAX;

    for (const struct session *session = engine->sessions; session; session = session->next) {
        if (is_alive(session))
            next = MIN(next, session_deadline_ms(session));
    }
    engine->spec.reactor->ops->timer_set(engine->expiry, next == UINT64_MAX ? UINT64_MAX
                                                         : next > now       ? next - now
                                                                            : 0);
}

static void on_expiry(void *ctx)
{
    struct engine *engine = ctx;
    uint64_t now = engine_now_ms();

    for (struct session *session = engine->sessions; session; session = session->next) {
        if (!is_alive(session) || session_deadline_ms(session) > now)
            continue;
        if (now < session->expires_ms && session->box && box_is_busy(session->box)) {
            session_touch(session); /* a file is on its way */
            continue;
        }
        session_end(session, now >= session->expires_ms ? "age" : "idle", NULL, NULL);
    }
    engine_expect(engine);
}

int engine_new(const struct engine_spec *spec, struct engine **ret, struct error *err)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (!engine)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    engine->spec = *spec;
    engine->tenants = tenants_new(spec->config);
    engine->turns = turns_new(engine);
    templates_load(engine);
    engine->later = reactor_timer(spec->reactor, on_later, engine);
    engine->expiry = reactor_timer(spec->reactor, on_expiry, engine);
    engine->sweeper = reactor_timer(spec->reactor, engine_sweep, engine);
    if (!engine->later || !engine->expiry || !engine->sweeper || !engine->tenants ||
        !engine->turns || artifacts_start(engine) < 0 || denials_start(engine) < 0) {
        engine_free(engine);
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    }
    *ret = engine;
    return 0;
}

void engine_free(struct engine *engine)
{
    const struct reactor_ops *ops;

    if (!engine)
        return;
    ops = engine->spec.reactor->ops;
    runs_free(engine);
    found_free(engine);
    while (engine->sessions)
        session_free(engine->sessions);
    installs_free(engine);
    looks_free(engine);
    templates_free(engine);
    ops->timer_remove(engine->later);
    ops->timer_remove(engine->expiry);
    ops->timer_remove(engine->sweeper);
    artifacts_stop(engine);
    denials_stop(engine);
    ops->timer_remove(engine->grace);
    usage_free(engine);
    turns_free(engine->turns);
    tenants_free(engine->tenants);
    free(engine);
}

void engine_set_maker(struct engine *engine, struct maker *maker)
{
    engine->maker = maker;
}

void engine_box_ended(struct engine *engine, uint32_t number, unsigned why)
{
    struct error err = {0};

    for (struct session *session = engine->sessions; session; session = session->next) {
        if (session->box && session->number == number) {
            box_blame(session->box, why);
            box_lost_error(session->box, &err);
            session_lost(session, &err);
            return;
        }
    }
    run_box_ended(engine, number, why);
    install_box_ended(engine, number);
}

/* ---- the end ---- */

static void end_all(void *ctx);

/* Whoever waited for a command still reads its end, and may have its outputs collected then. */
static bool is_watched(const struct session *session)
{
    for (const struct execution *at = session->executions; at; at = at->next) {
        if (at->watchers)
            return true;
    }
    return false;
}

/* Commands, the collection of what they left, and one-shot runs. */
static bool is_working(const struct engine *engine)
{
    for (const struct session *session = engine->sessions; session; session = session->next) {
        if (session->running > 0 || outputs_are_collected(session) || is_watched(session))
            return true;
    }
    return engine->runs || engine->installs;
}

void engine_check_stopped(struct engine *engine)
{
    void (*stopped)(void *ctx);

    if (!engine->is_stopping || !engine->stopped)
        return;
    if (!engine->is_ending) {
        if (!is_working(engine))
            end_all(engine); /* what ran has used less than its grace */
        return;
    }
    if (engine->runs || engine->installs || engine->is_sweeping)
        return;
    for (const struct session *session = engine->sessions; session; session = session->next) {
        if (session->state != SESSION_ENDED)
            return;
    }
    if (engine->grace)
        engine->spec.reactor->ops->timer_set(engine->grace, UINT64_MAX);
    stopped = ptr_take(&engine->stopped);
    stopped(engine->stopped_ctx);
}

static void end_all(void *ctx)
{
    struct engine *engine = ctx;
    struct error err = {0};

    engine->is_ending = true;
    error_set(&err, -ECANCELED, ERROR_SHUTTING_DOWN, "the daemon is stopping");
    runs_fail(engine, &err);
    installs_fail(engine, &err);
    for (struct session *session = engine->sessions; session; session = session->next)
        session_end(session, "engine_stopped", NULL, NULL);
    engine_later(engine);
}

void engine_stop(struct engine *engine, uint64_t grace_ms, void (*done)(void *ctx), void *ctx)
{
    if (engine->is_stopping) { /* again: the first one is told, and the patience is the new one */
        if (engine->grace && engine->stopped)
            engine->spec.reactor->ops->timer_set(engine->grace, grace_ms);
        return;
    }
    engine->is_stopping = true;
    engine->stopped = done;
    engine->stopped_ctx = ctx;
    for (struct session *session = engine->sessions; session; session = session->next) {
        session->pinned++;
        for (struct execution *execution = session->executions; execution;
             execution = execution->next) {
            if (!execution_has_ended(execution))
                execution_signal(execution, SIGTERM, NULL);
        }
        session->pinned--;
    }
    engine->grace = reactor_timer(engine->spec.reactor, end_all, engine);
    if (!engine->grace)
        end_all(engine);
    else
        engine->spec.reactor->ops->timer_set(engine->grace, grace_ms);
    engine_later(engine);
}

/* ---- facts ---- */

bool engine_is_idle(const struct engine *engine)
{
    return engine->alive == 0 && !engine->runs && !engine->installs;
}

unsigned engine_session_count(const struct engine *engine)
{
    return engine->alive;
}

unsigned engine_session_count_of(const struct engine *engine, const char *tenant)
{
    unsigned count = 0;

    for (const struct session *session = engine->sessions; session; session = session->next)
        count += is_alive(session) && str_equal(session->tenant, tenant);
    return count;
}

struct tenants *engine_tenants(struct engine *engine)
{
    return engine->tenants;
}

struct index *engine_index(struct engine *engine)
{
    return engine->spec.index;
}

unsigned engine_queue_depth(const struct engine *engine)
{
    return turns_waiting(engine->turns);
}

const struct config *engine_config(const struct engine *engine)
{
    return engine->spec.config;
}

struct bus *engine_bus(struct engine *engine)
{
    return engine->spec.bus;
}

struct audit *engine_audit(struct engine *engine)
{
    return engine->spec.audit;
}

struct metrics *engine_metrics(struct engine *engine)
{
    return engine->spec.metrics;
}

int engine_logs_fd(const struct engine *engine)
{
    return engine->spec.folders.logs_fd;
}

void engine_set_caller(struct engine *engine, const struct caller *caller)
{
    engine->caller = caller ? *caller : caller_engine;
}

const struct caller *engine_caller(const struct engine *engine)
{
    return &engine->caller;
}

const struct engine_language *engine_language(const struct engine *engine, const char *name)
{
    for (size_t i = 0; i < engine->spec.language_count; i++) {
        if (str_equal(engine->spec.languages[i].name, name))
            return &engine->spec.languages[i];
    }
    return NULL;
}

/* ---- making ---- */

unsigned engine_retry_s(const struct engine *engine)
{
    uint64_t now = engine_now_ms(), next = UINT64_MAX;

    for (const struct session *session = engine->sessions; session; session = session->next) {
        if (is_alive(session))
            next = MIN(next, session_deadline_ms(session));
    }
    return next == UINT64_MAX || next < now ? 1 : (unsigned)((next - now + 999) / 1000);
}

static bool is_name(const char *name)
{
    size_t length = strlen(name);

    return length > 0 && length <= LIMIT_NAME && !str_starts(name, "s_") &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               length;
}

static int check_name(struct engine *engine, const char *tenant, const char *name,
                      struct error *err)
{
    if (!name)
        return 0;
    if (!is_name(name))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "name: 1 to %d letters, digits, '.', '_' or '-', and not beginning with "
                         "\"s_\"",
                         LIMIT_NAME);
    for (const struct session *session = engine->sessions; session; session = session->next) {
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

static int check_create(struct engine *engine, const struct session_spec *spec,
                        struct engine_template *furniture, struct error *err)
{
    int r = check_name(engine, spec->tenant ? spec->tenant : TENANT_LOCAL, spec->name, err);

    if (r == 0)
        r = engine_template(engine, spec->template_name, furniture, err);
    if (r == 0)
        r = env_check(spec->env, err);
    if (r < 0)
        return r;
    if (engine->is_stopping)
        return error_set(err, -ESHUTDOWN, ERROR_SHUTTING_DOWN, "the daemon is stopping");
    if (engine->alive >= engine->spec.config->max_sessions)
        return error_set(
            err, -EAGAIN, ERROR_TOO_MANY_SESSIONS,
            "%u sessions live, which is all that SANDBOX_MAX_SESSIONS allows; the next "
            "place is free in %u s at the latest, or at once when one is deleted",
            engine->alive, engine_retry_s(engine));
    return 0;
}

int engine_create(struct engine *engine, const struct session_spec *spec, struct session **ret,
                  struct error *err)
{
    const struct config *config = engine->spec.config;
    struct engine_template furniture = {0};
    struct session *session;
    int r = check_create(engine, spec, &furniture, err);

    if (r < 0)
        return r;
    session = session_new(engine);
    if (!session || id_make(session->id, "s") < 0 ||
        (spec->name && !(session->name = strdup(spec->name))) ||
        !(session->template_name = strdup(furniture.name))) {
        if (session)
            session_free(session);
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    }
    if (spec->tenant)
        str_copy(session->tenant, sizeof(session->tenant), spec->tenant);
    if (spec->env)
        json_object_update(session->env, spec->env);
    session->idle_ms = spec->idle_ms ? spec->idle_ms : config->session_idle_ms;
    session->expires_ms =
        time_add(session->created_ms, spec->age_ms ? spec->age_ms : config->session_age_ms);
    session->limits = config->limits;
    session_take_furniture(session, &furniture);
    session->is_draft = spec->is_draft;
    r = usage_session(session, err);
    if (r == 0)
        r = session_record(session, err);
    if (r < 0) { /* one that the next broker would not know is none */
        session_free(session);
        return r;
    }
    engine->alive++;
    account_session(session, "session.created", engine_caller(engine));
    bus_publish(engine->spec.bus, EVENT_SESSION_CREATED, session->tenant, session->id,
                json_pack("{s:s?}", "name", session->name));
    engine_expect(engine);
    *ret = session;
    return 0;
}

/* ---- finding ---- */

static bool fits(const struct session *session, const char *word)
{
    const char *bare = str_starts(word, "s_") ? word + 2 : word;

    return strlen(bare) >= PREFIX_MIN && str_starts(session->id + 2, bare);
}

/* Exact words first: of those that live, of the local tenant before others. */
static struct session *find_exact(struct engine *engine, const char *tenant, const char *word,
                                  bool *ret_is_ambiguous)
{
    struct session *found = NULL;
    unsigned rank = 0, count = 0;

    for (struct session *session = engine->sessions; session; session = session->next) {
        unsigned own;

        if (tenant && !str_equal(session->tenant, tenant))
            continue; /* whatever it is called: it is not there */
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
                     "'%.48s' fits several sessions; use more of the id", word);
}

static int find_any(struct engine *engine, const char *tenant, const char *word,
                    struct session **ret, struct error *err)
{
    bool is_ambiguous;
    struct session *found = find_exact(engine, tenant, word, &is_ambiguous);
    bool is_exact = found;
    unsigned fitting[2] = {0}; /* ended, alive */

    if (is_ambiguous)
        return ambiguous(word, err);
    for (struct session *session = engine->sessions; session && !is_exact;
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

int engine_find_of(struct engine *engine, const char *tenant, const char *word, bool with_ended,
                   struct session **ret, struct error *err)
{
    struct session *session;
    int r = find_any(engine, tenant, word, &session, err);

    if (r == 0 && !with_ended && !is_alive(session))
        return session_ended_error(session, err);
    if (r == 0)
        *ret = session;
    return r;
}

int engine_find_any(struct engine *engine, const char *word, struct session **ret,
                    struct error *err)
{
    return engine_find_of(engine, NULL, word, true, ret, err);
}

int engine_find(struct engine *engine, const char *word, struct session **ret, struct error *err)
{
    return engine_find_of(engine, NULL, word, false, ret, err);
}

void engine_each(struct engine *engine, bool with_ended,
                 void (*each)(void *ctx, struct session *session), void *ctx)
{
    for (int ended = 0; ended <= (with_ended ? 1 : 0); ended++) {
        struct session *next;

        for (struct session *session = engine->sessions; session; session = next) {
            next = session->next;
            if (is_alive(session) == !ended)
                each(ctx, session);
        }
    }
}
