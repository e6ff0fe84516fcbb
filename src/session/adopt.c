/*
 * adopt.c - a new broker takes over what an earlier broker left: rows of the index, boxes that the
 * launcher holds, commands that the wardens know.
 *
 * Each fact has one source. The index says which sessions and executions exist, the launcher which
 * boxes exist, a warden which commands it has and how far their output was acknowledged, the spools
 * how much output was stored. No other source is trusted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "session/artifacts.h"
#include "session/layers.h"

struct found {
    struct found *next;
    struct made made;
};

void session_manager_found(struct session_manager *manager, const struct made *made)
{
    struct found *found = calloc(1, sizeof(*found));

    if (!found || str_starts(made->key, "r_") || str_starts(made->key, "i_")) {
        /* A one-shot run: its client's connection ended with the broker that served it. */
        manager->provider->ops->end(manager->provider, made->number, made->box, NULL, NULL);
        free(found);
        return;
    }
    found->made = *made;
    found->next = manager->found;
    manager->found = found;
}

void found_free(struct session_manager *manager)
{
    while (manager->found) {
        struct found *found = manager->found;

        manager->found = found->next;
        box_free(found->made.box);
        free(found);
    }
}

static struct found *take_found(struct session_manager *manager, const char *key)
{
    for (struct found **at = &manager->found; *at; at = &(*at)->next) {
        if (str_equal((*at)->made.key, key)) {
            struct found *found = *at;

            *at = found->next;
            return found;
        }
    }
    return NULL;
}

/*
 * The text must outlive the index row it is read from: reasons are static strings everywhere else.
 */
static const char *known_reason(const char *reason)
{
    static const char *const reasons[] = {"deleted",
                                          "idle",
                                          "age",
                                          "over_quota",
                                          "box_lost",
                                          "engine_stopped",
                                          REASON_PROVIDER_GONE,
                                          REASON_ROOM,
                                          "paused"};

    for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
        if (str_equal(reasons[i], reason))
            return reasons[i];
    }
    return "unknown";
}

/* ---- rows ---- */

/* Counts without a limit: programs that run already are not refused. */
static void count_running(struct session *session)
{
    session->running++;
    tenant_hold(session->manager->tenants, session->tenant, QUOTA_RUNS, 1);
}

static void load_execution(void *ctx, const struct index_execution *row)
{
    struct session *session = ctx;
    struct execution *execution = execution_new(session, row->number);
    struct error err = {0};

    if (!execution)
        return;
    execution->call = row->call;
    execution->argv = strdup(row->argv);
    execution->flags = row->flags;
    execution->timeout_ms = row->deadline_ms;
    execution->paused_ms = row->paused_ms;
    execution->started_ms = row->started_ms;
    execution->ended_ms = row->ended_ms;
    execution->end = (struct exec_end){
        .exit_code = row->exit_code,
        .signal = row->signal,
        .has_output = true, /* unknown after a restart, so the folder is listed */
        .duration_ns = row->duration_ns,
        .usage = {.cpu_us = row->cpu_us,
                  .max_rss_bytes = row->max_rss_bytes,
                  .by = row->cpu_us || row->max_rss_bytes ? USAGE_BY_WARDEN : USAGE_BY_NONE},
    };
    if (row->error_code) {
        error_set(&err, -EIO, error_code_find(row->error_code), "%s",
                  row->error_text ? row->error_text : "");
        execution_set_error(execution, &err);
    }
    if (row->cell)
        cell_load(execution, row->cell);
    execution->state = EXECUTION_SENT;
    if (row->ended_ms)
        execution->state = row->error_code ? EXECUTION_FAILED : EXECUTION_EXITED;
    else
        count_running(session);
    session->next_execution = MAX(session->next_execution, row->number + 1);
    if (output_find(execution, &err) < 0)
        log_error("output of %s.%u: %s", session->id, execution->number, err.text);
    if (execution->argv && session->state != SESSION_ENDED) {
        execution->held_words = strlen(execution->argv);
        tenant_hold(session->manager->tenants, session->tenant, QUOTA_DISK, execution->held_words);
    }
    if (!execution_has_ended(execution))
        return;
    execution_forget(execution);
    for (int i = 0; i < BOX_STREAMS; i++) {
        const uint64_t lengths[BOX_STREAMS] = {row->out_bytes, row->err_bytes, row->event_bytes};
        struct spool *spool = &execution->out[i];
        uint64_t length = lengths[i];

        spool_close(spool);
        execution->is_in_row[i] = row->has_data[i];
        if (row->has_data[i])
            *spool = (struct spool){.fd = -1, .length = length};
        if (spool->length == length)
            continue;
        spool->length = spool->first = length; /* the spool file was dropped */
        spool->head = 0;
    }
    session->spooled += execution_kept(execution);
    execution->held = execution_stored(execution);
    tenant_hold(session->manager->tenants, session->tenant, QUOTA_DISK, execution->held);
}

/* As the session was made with; a set that this daemon cannot apply is not a reason to lose it. */
static void load_settings(struct session *session, const char *text)
{
    CLEANUP(json_decrefp) json_t *given = text ? json_loads(text, 0, NULL) : NULL;
    struct error err = {0};

    if (given &&
        settings_take(session->manager, given, SETTINGS_SESSION, &session->settings, &err) < 0)
        log_error("session %s: its settings: %s, continuing with the daemon's", session->id,
                  err.text);
}

static void load_session(void *ctx, const struct index_session *row)
{
    struct session_manager *manager = ctx;
    struct session *session = session_new(manager);
    json_t *env = json_loads(row->env, 0, NULL);
    json_t *notes = row->notes ? json_loads(row->notes, 0, NULL) : NULL;

    if (!session) {
        json_decref(env);
        json_decref(notes);
        return;
    }
    session->notes = notes;
    str_copy(session->id, sizeof(session->id), row->id);
    if (row->tenant)
        str_copy(session->tenant, sizeof(session->tenant), row->tenant);
    session->name = row->name ? strdup(row->name) : NULL;
    session->template_name = row->template_name ? strdup(row->template_name) : NULL;
    if (env) {
        json_decref(session->env);
        session->env = env;
    }
    session->created_ms = row->created_ms;
    session->used_ms = row->used_ms;
    session->expires_ms = row->expires_ms;
    session->idle_ms = row->idle_ms;
    session->next_execution = row->next_execution;
    session->has_box = row->has_box;
    session->paused_ms = row->ended_ms ? 0 : row->paused_ms;
    session->flags = row->flags;
    if (session->paused_ms)
        session->state = SESSION_PAUSED;
    load_settings(session, row->settings);
    session->limits = session_config(session)->limits;
    session->ended_ms = row->ended_ms;
    session->provider = row->provider ? provider_known(row->provider) : NULL;
    session->is_provisional = str_equal(row->reason, PROVISIONAL_REASON);
    if (row->ended_ms) {
        session->reason = known_reason(row->reason);
        session->state = SESSION_ENDED;
        manager->ended++;
    } else {
        manager->alive++;
    }
    usage_adopt(session);
}

/* ---- boxes ---- */

static void adopted(struct session_manager *manager)
{
    if (--manager->adopting > 0)
        return;
    session_manager_expect(manager);
    manager->ready(manager->ready_ctx);
}

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static void take_over(struct session *session, struct execution *execution,
                      const struct box_found *found)
{
    uint64_t now = session_manager_now_ms(), timeout_ms = execution->timeout_ms;
    const uint64_t kept[BOX_STREAMS] = {UINT64_MAX, UINT64_MAX, LIMIT_CELL_EVENTS};
    uint64_t offset[BOX_STREAMS] = {0};
    struct error err = {0};

    for (int i = 0; i < BOX_STREAMS; i++) {
        uint64_t have = execution->out[i].length;

        /* The warden counts output from 0 again when a cell runs a second time; output of the
         * first run may have been in memory only. */
        if (execution->cell) {
            execution->cell->base[i] = MIN(execution->cell->base[i], have);
            have -= execution->cell->base[i];
        }
        offset[i] = clamp(have, found->first[i], found->written[i]);
        if (offset[i] != have && execution->out[i].length < kept[i])
            execution->flags |=
                EXECUTION_UNKEPT; /* the disk was full: some bytes were not stored */
    }
    if (timeout_ms) {
        uint64_t until = session->paused_ms ? session->paused_ms : now;
        uint64_t begun = time_add(execution->started_ms, execution->paused_ms);
        uint64_t used = until - MIN(until, begun);

        timeout_ms = used < timeout_ms ? timeout_ms - used : 1;
    }
    /* The client that waited is gone and may come back, so the command no longer ends when its
     * watchers leave. */
    execution->flags |= EXECUTION_BACKGROUND;
    execution->pid = found->pid;
    if (found->has_started)
        execution->state = EXECUTION_RUNNING;
    execution->is_adopted = true;
    if (execution->cell)
        execution->cell->found_kernel = found->kernel;
    if (box_adopt(session->box, found->id, offset, timeout_ms,
                  execution->cell ? &cell_exec_events : &execution_exec_events, execution,
                  &err) < 0) {
        execution_fail(execution, &err);
        return;
    }
    if (execution->flags & EXECUTION_STDIN && input_open(execution) == 0) {
        execution->input_at = found->input;
        input_push(execution);
    }
}

static void on_found(void *ctx, const struct box_found *found)
{
    struct session *session = ctx;

    if (found->is_kernel) {
        contexts_found(session, found);
        return;
    }
    for (struct execution *at = session->executions; at; at = at->next) {
        if (at->call == found->id && !execution_has_ended(at)) {
            take_over(session, at, found);
            return;
        }
    }
}

static void on_baseline(void *ctx, const struct box_facts *facts)
{
    struct session *session = ctx;

    session->asked--;
    if (facts)
        session->facts.oom_kills = MAX(session->facts.oom_kills, facts->oom_kills);
}

/*
 * Asks how often the box ran out of memory so far, so that only a later count explains the next
 * killed command. Not asked where no ended execution ran out of memory: one that ends right now may
 * be the first.
 */
static void ask_baseline(struct session *session)
{
    struct provider *provider = session->manager->provider;

    for (const struct execution *at = session->executions; at; at = at->next) {
        if (!execution_has_ended(at) || !(at->flags & EXECUTION_OOM))
            continue;
        session->asked++;
        provider->ops->usage(provider, session->number, on_baseline, session);
        return;
    }
}

/* A command that the warden does not know was never started. */
static void fail_unknown(struct session *session)
{
    struct error lost = {0};

    error_set(&lost, -ECONNRESET, ERROR_ENGINE,
              "the engine was restarted before the command was started; start it again");
    for (struct execution *at = session->executions; at; at = at->next) {
        if (!at->is_adopted)
            execution_fail(at, &lost);
    }
    session_touch(session);
}

static void on_done(void *ctx, const struct error *err)
{
    struct session *session = ctx;

    bool is_paused = session->paused_ms; /* no daemon waits for its answer */

    if (err->num < 0) {
        session_lost(session, err);
        if (!is_paused)
            adopted(session->manager);
        return;
    }
    ask_baseline(session);
    contexts_settle(session);
    fail_unknown(session);
    if (is_paused) {
        guest_install_adopt(session);
        session_pause_adopted(session);
        return;
    }
    if (session->state == SESSION_STARTING) {
        session_become(session, SESSION_READY);
        guest_install_adopt(session);
        /* A dataset may have been uploaded while there was no broker to copy it into the
         * container. */
        if (!provider_can(session->provider, PROVIDER_CAN_BIND_DATASETS))
            datasets_push(session, false);
        if (!session->push)
            session_tell_box(session, session->box, NULL);
    }
    adopted(session->manager);
}

static const struct adopt_events adopt_events = {.found = on_found, .done = on_done};

static void adopt(struct session *session, const struct made *made)
{
    struct session_manager *manager = session->manager;
    struct session_template found_template;
    struct error err = {0};

    if (!session->paused_ms)
        session_become(session, SESSION_STARTING);
    if (session_apply_template(session, &found_template, &err) < 0)
        log_warning("session %s: %s, continuing without it", session->id, err.text);
    session_stand(session, made);
    session->held_memory = session->limits.memory_bytes;
    tenant_hold(manager->tenants, session->tenant, QUOTA_MEMORY, session->held_memory);
    if (session->paused_ms)
        box_clock_stop(session->box);
    else
        manager->adopting++;
    if (box_hello(session->box, manager->generation, &adopt_events, session, &err) < 0)
        on_done(session, &err);
}

/* The session had no box yet: its first use makes one. */
static void begin_without_box(struct session *session)
{
    contexts_settle(session);
    fail_unknown(session);
}

void session_manager_start(struct session_manager *manager, uint32_t generation,
                           void (*ready)(void *ctx), void *ctx)
{
    struct error err = {0};

    manager->generation = generation;
    manager->ready = ready;
    manager->ready_ctx = ctx;
    manager->adopting = 1; /* kept above 0 until every box was asked */
    if (index_each_session(manager->spec.index, load_session, manager, &err) < 0)
        log_error("reading the index: %s", err.text);
    else
        session_manager_sweep_old(manager);
    for (struct session *session = manager->sessions; session; session = session->next) {
        CLEANUP(freep) struct found *found = NULL;

        if (session->state == SESSION_ENDED)
            continue;
        found = take_found(manager, session->id);
        contexts_load(session);
        if (index_each_execution(manager->spec.index, session->id, load_execution, session, &err) <
            0)
            log_error("commands of %s: %s, continuing without them", session->id, err.text);
        if (session->is_provisional && !found)
            session_end(session, "deleted", NULL, NULL); /* the client never got its id */
        else if (found)
            adopt(session, &found->made);
        else if (generation == 1)
            session_end(session, "engine_stopped", NULL, NULL);
        else if (session->has_box)
            session_end(session, "box_lost", NULL, NULL);
        else
            begin_without_box(session);
    }
    while (manager->found) {
        struct found *found = manager->found;

        log_warning("a box for the unknown session '%s' is ended", found->made.key);
        manager->found = found->next;
        manager->provider->ops->end(manager->provider, found->made.number, found->made.box, NULL,
                                    NULL);
        free(found);
    }
    layers_start(manager);
    artifacts_adopt(manager);
    adopted(manager);
}
