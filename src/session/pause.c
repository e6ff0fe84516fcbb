/*
 * pause.c - a session is paused and resumed: its processes stop and go on, and everything that
 * counts time for them stops with them; see session.h.
 *
 * Theory of operation. The warden stops the processes of the box and answers; then the box's clock
 * stands still (box_clock_stop()), and the index has the time. A broker that finds a paused session
 * asks the box's warden for what it has, as of any box, with the clock stopped from the first
 * moment on. When the session is resumed the order is the reverse.
 *
 * A command of a paused session belongs to no client any more: streams and waiting calls end with
 * an error that names it, so that it can be found again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "session/session_private.h"

#define RESUMED_MS (5 * 60 * 1000) /* an age limit that passed meanwhile is this long from now */

/* A caller that waits. */
struct pausing {
    struct pausing *next;
    bool is_resume;
    pause_done done;
    void *ctx;
};

/* ---- callers ---- */

static int add_caller(struct session *session, bool is_resume, pause_done done, void *ctx)
{
    struct pausing *pausing = done ? malloc(sizeof(*pausing)) : NULL;

    if (!done)
        return 0;
    if (!pausing)
        return -ENOMEM;
    *pausing = (struct pausing){
        .next = session->pausing, .is_resume = is_resume, .done = done, .ctx = ctx};
    session->pausing = pausing;
    return 0;
}

/* The first of them; NULL: there is none. The caller frees it. */
static struct pausing *take_caller(struct session *session, bool is_resume)
{
    for (struct pausing **at = &session->pausing; *at; at = &(*at)->next) {
        struct pausing *pausing = *at;

        if (pausing->is_resume != is_resume)
            continue;
        *at = pausing->next;
        return pausing;
    }
    return NULL;
}

/* A callback may begin another pause, so each is taken before it is called. */
static void tell(struct session *session, bool is_resume, const struct error *err)
{
    struct pausing *pausing;

    while ((pausing = take_caller(session, is_resume))) {
        pausing->done(pausing->ctx, err);
        free(pausing);
    }
}

void session_pause_leave(struct session *session, const void *ctx)
{
    for (struct pausing **at = &session->pausing; *at;) {
        struct pausing *pausing = *at;

        if (pausing->ctx != ctx) {
            at = &pausing->next;
            continue;
        }
        *at = pausing->next;
        free(pausing);
    }
}

void session_pause_fail(struct session *session, const struct error *err)
{
    tell(session, false, err);
    tell(session, true, err);
}

/* ---- facts ---- */

bool session_is_paused(const struct session *session)
{
    return session->state == SESSION_PAUSING || session->state == SESSION_PAUSED ||
           session->state == SESSION_RESUMING;
}

bool session_resumes_by_use(const struct session *session)
{
    return session->flags & SESSION_RESUMES_BY_USE;
}

int session_paused_error(const struct session *session, struct error *err)
{
    return error_set(err, -EBUSY, ERROR_SESSION_PAUSED,
                     "the session %s is paused; resume it first: 'bailey session resume %s', or "
                     "POST /v1/sessions/%s/resume",
                     session->id, session->name ? session->name : session->id, session->id);
}

unsigned session_manager_paused_count(const struct session_manager *manager)
{
    unsigned count = 0;

    for (const struct session *session = manager->sessions; session; session = session->next)
        count += session_is_paused(session);
    return count;
}

bool session_paused_too_long(const struct session *session, uint64_t now_ms)
{
    return now_ms >= time_add(session->paused_ms, session->manager->spec.config->paused_ms);
}

static void report(struct session *session, enum event_type type, const char *action)
{
    session_save(session);
    account_session(session, action, &session->pauser);
    bus_publish(session->manager->spec.bus, type, session->tenant, session->id,
                json_pack("{s:s?}", "name", session->name));
    session_manager_expect(session->manager);
}

/* ---- pausing ---- */

static int resume(struct session *session, const struct caller *caller, struct error *err);

/* The state is PAUSED now. */
static void paused(struct session *session)
{
    struct error err = {0};

    session->paused_ms = session_manager_now_ms();
    report(session, EVENT_SESSION_PAUSED, "session.paused");
    tell(session, false, &err);
    if (!session->wants_resume || session->state != SESSION_PAUSED)
        return;
    session->wants_resume = false;
    if (resume(session, NULL, &err) < 0) {
        tell(session, true, &err);
        session_tell_box(session, NULL, &err);
    }
}

static void on_frozen(void *ctx, const struct error *err)
{
    struct session *session = ctx;

    if (session->state != SESSION_PAUSING)
        return; /* it ends */
    if (err->num < 0) {
        session_become(session, SESSION_READY);
        session->wants_resume = false;
        tell(session, false, err);
        tell(session, true, &(struct error){0});
        if (session->box)
            session_tell_box(session, session->box, NULL);
        return;
    }
    box_clock_stop(session->box);
    session_become(session, SESSION_PAUSED);
    paused(session);
}

/* Clients that wait for commands are told; the commands go on without them. */
static void let_clients_go(struct session *session)
{
    session->pinned++;
    for (struct execution *at = session->executions; at; at = at->next) {
        if (execution_has_ended(at))
            continue;
        execution_set_background(at);
        execution_save(at);
        execution_tell_paused(at);
    }
    session->pinned--;
}

static int check_room(const struct session *session, struct error *err)
{
    const struct session_manager *manager = session->manager;
    unsigned most = manager->spec.config->max_paused;

    if (session_manager_paused_count(manager) < most)
        return 0;
    return error_set(err, -EAGAIN, ERROR_TOO_MANY_SESSIONS,
                     "%u sessions are paused, the maximum of SANDBOX_MAX_PAUSED_SESSIONS; resume "
                     "or remove one",
                     most);
}

/* NEW or READY. 0: the state is PAUSING or PAUSED now. */
static int pause_now(struct session *session, const struct pause_spec *spec, struct error *err)
{
    static const struct done_events events = {.done = on_frozen};
    struct error why = {0};
    int r = check_room(session, err);

    if (r < 0)
        return r;
    session->pauser = spec->caller ? *spec->caller : caller_engine;
    session->flags &= ~SESSION_OUTLIVES_AGE;
    session->flags |= spec->outlives_age ? SESSION_OUTLIVES_AGE : 0;
    if (!session->box) {
        session_become(session, SESSION_PAUSED);
        return 0;
    }
    session_become(session, SESSION_PAUSING);
    session_paused_error(session, &why);
    let_clients_go(session);
    box_fail_files(session->box, &why);
    r = box_freeze(session->box, &events, session, err);
    if (r < 0)
        session_become(session, SESSION_READY);
    return r;
}

/* A pause that waits for its box: it is being made, or gets its datasets. */
struct waiting_pause {
    struct session *session;
    struct pause_spec spec;
    struct caller caller;
};

static void on_box(void *ctx, struct box *box, const struct error *err)
{
    struct waiting_pause *waiting = ctx;
    struct session *session = waiting->session;
    struct error own = *(box ? &(struct error){0} : err);

    if (waiting->spec.caller)
        waiting->spec.caller = &waiting->caller;
    if (box && session->state == SESSION_READY)
        pause_now(session, &waiting->spec, &own);
    else if (box && !session_is_paused(session))
        error_set(&own, -EBUSY, ERROR_BUSY, "the session is not ready; try again");
    if (own.num < 0)
        tell(session, false, &own);
    free(waiting);
}

static int pause_later(struct session *session, const struct pause_spec *spec, struct error *err)
{
    struct waiting_pause *waiting = malloc(sizeof(*waiting));

    if (!waiting)
        return error_memory(err);
    *waiting = (struct waiting_pause){.session = session, .spec = *spec};
    if (spec->caller)
        waiting->caller = *spec->caller;
    session_box(session, on_box, waiting);
    return 0;
}

static int begin_pause(struct session *session, const struct pause_spec *spec, struct error *err)
{
    switch (session->state) {
    case SESSION_PAUSING:
        return 0; /* one more caller waits for it */
    case SESSION_PAUSED:
        return session_paused_error(session, err);
    case SESSION_RESUMING:
        return error_set(err, -EBUSY, ERROR_BUSY, "the session is being resumed; try again");
    case SESSION_NEW:
        return pause_now(session, spec, err);
    case SESSION_STARTING:
        return pause_later(session, spec, err);
    case SESSION_READY:
        return session->push ? pause_later(session, spec, err) : pause_now(session, spec, err);
    default:
        return session_ended_error(session, err);
    }
}

void session_pause(struct session *session, const struct pause_spec *spec, pause_done done,
                   void *ctx)
{
    struct error err = {0};

    if (session->manager->is_stopping)
        error_set(&err, -ESHUTDOWN, ERROR_SHUTTING_DOWN, "the daemon is stopping");
    else if (add_caller(session, false, done, ctx) < 0)
        error_memory(&err);
    else if (begin_pause(session, spec, &err) < 0)
        session_pause_leave(session, ctx);
    if (err.num < 0) {
        if (done)
            done(ctx, &err);
        return;
    }
    if (session->state == SESSION_PAUSED && !session->paused_ms)
        paused(session); /* it has no box: nothing is waited for */
}

static void on_expired(void *ctx, const struct error *err)
{
    struct session *session = ctx;

    if (err->num == 0 || session->state >= SESSION_ENDING)
        return;
    log_warning("session %s could not be paused at its end: %s, it ends", session->id, err->text);
    session_end(session, "age", NULL, NULL);
}

void session_pause_expired(struct session *session)
{
    session_pause(session, &(struct pause_spec){.outlives_age = true}, on_expired, session);
}

/* ---- resuming ---- */

static void add_time(struct session *session, uint64_t stood_ms)
{
    for (struct execution *at = session->executions; at; at = at->next) {
        if (execution_has_ended(at))
            continue;
        at->paused_ms += stood_ms;
        execution_save(at);
    }
}

/* It runs again: whatever waited goes on. */
static void resumed(struct session *session)
{
    uint64_t now = session_manager_now_ms();
    struct error none = {0};

    add_time(session, now - MIN(now, session->paused_ms));
    session->paused_ms = 0;
    session->flags &= ~SESSION_OUTLIVES_AGE;
    if (session->expires_ms <= now) /* it outlived its age limit; its door may set another one */
        session->expires_ms = time_add(now, RESUMED_MS);
    session_become(session, session->box ? SESSION_READY : SESSION_NEW);
    session_touch(session);
    report(session, EVENT_SESSION_RESUMED, "session.resumed");
    usage_watch(session->manager);
    tell(session, true, &none);
    if (session->state == SESSION_READY)
        session_tell_box(session, session->box, NULL);
    for (struct context *next, *at = session->contexts; at && session->state == SESSION_READY;
         at = next) {
        next = at->next;
        context_advance(at);
    }
}

static void on_thawed(void *ctx, const struct error *err)
{
    struct session *session = ctx;

    if (session->state != SESSION_RESUMING)
        return; /* it ends */
    if (err->num < 0) {
        session_become(session, SESSION_PAUSED);
        tell(session, true, err);
        session_tell_box(session, NULL, err);
        return;
    }
    box_clock_start(session->box);
    resumed(session);
}

static int thaw(struct session *session, struct error *err)
{
    static const struct done_events events = {.done = on_thawed};

    return box_thaw(session->box, &events, session, err);
}

void session_pause_adopted(struct session *session)
{
    struct error err = {0};

    if (session->state == SESSION_RESUMING && thaw(session, &err) < 0)
        on_thawed(session, &err);
}

static int check_live(const struct session *session, struct error *err)
{
    struct session_manager *manager = session->manager;
    unsigned live = manager->alive - session_manager_paused_count(manager);

    if (live < manager->spec.config->max_sessions ||
        session_manager_make_room(manager, session->tenant, true))
        return 0;
    return error_set(err, -EAGAIN, ERROR_TOO_MANY_SESSIONS,
                     "%u sessions are live, the maximum of SANDBOX_MAX_SESSIONS; one ends in %u s "
                     "at the latest, or at once when you delete one",
                     live, session_manager_retry_s(manager));
}

/* PAUSED. 0: the state is RESUMING now, or what it was before the box was made. */
static int resume(struct session *session, const struct caller *caller, struct error *err)
{
    int r = check_live(session, err);

    if (r < 0)
        return r;
    session->pauser = caller ? *caller : caller_engine;
    if (!session->box) {
        resumed(session);
        return 0;
    }
    session_become(session, SESSION_RESUMING);
    if (box_is_adopting(session->box))
        return 0; /* session_pause_adopted() goes on */
    r = thaw(session, err);
    if (r < 0)
        session_become(session, SESSION_PAUSED);
    return r;
}

void session_resume(struct session *session, const struct caller *caller, pause_done done,
                    void *ctx)
{
    struct error err = {0};
    int r = 0;

    if (session->state >= SESSION_ENDING)
        r = session_ended_error(session, &err);
    if (r < 0 || !session_is_paused(session)) {
        if (done)
            done(ctx, &err);
        return;
    }
    if (add_caller(session, true, done, ctx) < 0)
        error_memory(&err);
    else if (session->state == SESSION_PAUSING)
        session->wants_resume = true;
    else if (session->state == SESSION_PAUSED && resume(session, caller, &err) < 0)
        session_pause_leave(session, ctx);
    if (err.num < 0 && done)
        done(ctx, &err);
}

int session_check_pause(struct session *session, struct error *err)
{
    if (session->state != SESSION_PAUSING && session->state != SESSION_PAUSED)
        return 0;
    if (!session_resumes_by_use(session))
        return session_paused_error(session, err);
    if (session->state == SESSION_PAUSED)
        return resume(session, NULL, err);
    session->wants_resume = true;
    return 0;
}
