/*
 * pause.c - sandboxes are paused, and resumed by a connection; see e2b.h.
 *
 * A paused sandbox does not end at its timeout, as at E2B: the call that resumes it sets another
 * one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

/* A pause keeps the memory: one that only keeps files, or a resumption that starts the sandbox anew
 * from them, is something else. */
int e2b_check_pause_wishes(json_t *body, struct error *err)
{
    static const char *const names[] = {"memory", "autoPauseMemory"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (json_is_false(e2b_member(body, names[i], NULL)))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "%s: this server keeps the memory of a paused sandbox; a pause or a "
                             "resumption with its files only is not here",
                             names[i]);
    }
    return 0;
}

struct pausing {
    struct door_call call; /* http NULL: the client left */
    char id[ID_MAX];
    uint64_t timeout_ms; /* of a resumption */
};

static void on_gone(void *ctx)
{
    ((struct pausing *)ctx)->call.http = NULL;
}

static struct pausing *pausing_new(const struct door_call *call, const struct session *session)
{
    struct pausing *pausing = calloc(1, sizeof(*pausing));

    if (!pausing) {
        front_fail_memory(call->http);
        return NULL;
    }
    pausing->call = *call;
    str_copy(pausing->id, sizeof(pausing->id), session_id(session));
    http_on_gone(call->http, on_gone, pausing);
    return pausing;
}

static void on_paused(void *ctx, const struct error *err)
{
    struct pausing *pausing = ctx;

    if (pausing->call.http && err->num == 0)
        http_reply(pausing->call.http, 204, TYPE_JSON, NULL, "", 0);
    else if (pausing->call.http)
        e2b_fail_error(&pausing->call, err);
    free(pausing);
}

void e2b_pause(struct door_call *call)
{
    struct session *session = e2b_sandbox(call);
    json_t *body = session ? e2b_body(call) : NULL;
    struct pausing *pausing;
    struct error err = {0};

    if (!body)
        return;
    if (e2b_check_pause_wishes(body, &err) < 0)
        e2b_fail_error(call, &err);
    else if ((pausing = pausing_new(call, session)))
        session_pause(session, &(struct pause_spec){.caller = &call->caller, .outlives_age = true},
                      on_paused, pausing);
    json_decref(body);
}

static void on_resumed(void *ctx, const struct error *err)
{
    struct pausing *pausing = ctx;
    struct session *session;
    struct error own = *err;

    if (own.num == 0 &&
        session_manager_find(pausing->call.front->manager, pausing->id, &session, &own) == 0) {
        session_expire_at(session, clock_wall_ms() + pausing->timeout_ms);
        if (pausing->call.http)
            front_reply(pausing->call.http, 201,
                        e2b_sandbox_json(pausing->call.door, pausing->call.http, session));
    } else if (pausing->call.http) {
        e2b_fail_error(&pausing->call, &own);
    }
    free(pausing);
}

void e2b_resume_for(struct door_call *call, struct session *session, uint64_t timeout_ms)
{
    struct pausing *pausing = pausing_new(call, session);

    if (!pausing)
        return;
    pausing->timeout_ms = timeout_ms;
    session_resume(session, &call->caller, on_resumed, pausing);
}
