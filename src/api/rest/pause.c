/* pause.c - POST /v1/sessions/{id}/pause and /resume. */
#include <string.h>

#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/str.h"

struct pausing {
    struct front *front;
    struct http_request *http; /* NULL: the client left; it is done anyway */
    char id[ID_MAX];
};

static void on_done(void *ctx, const struct error *err)
{
    struct pausing *pausing = ctx;
    struct session *session;
    struct error own = *err;

    if (pausing->http && own.num == 0 &&
        session_manager_find_any(pausing->front->manager, pausing->id, &session, &own) == 0)
        front_reply(pausing->http, 200, session_json(session));
    else if (pausing->http)
        front_fail(pausing->front, pausing->http, &own, NULL);
    free(pausing);
}

static void on_gone(void *ctx)
{
    ((struct pausing *)ctx)->http = NULL;
}

static struct pausing *pausing_new(struct door_call *call, struct session **ret)
{
    struct pausing *pausing;

    if (!front_session(call, false, ret))
        return NULL;
    pausing = malloc(sizeof(*pausing));
    if (!pausing) {
        front_fail_memory(call->http);
        return NULL;
    }
    *pausing = (struct pausing){.front = call->front, .http = call->http};
    str_copy(pausing->id, sizeof(pausing->id), session_id(*ret));
    http_on_gone(call->http, on_gone, pausing);
    return pausing;
}

void sessions_pause(struct door_call *call)
{
    struct session *session;
    struct pausing *pausing = pausing_new(call, &session);

    if (pausing)
        session_pause(session, &(struct pause_spec){.caller = &call->caller}, on_done, pausing);
}

void sessions_resume(struct door_call *call)
{
    struct session *session;
    struct pausing *pausing = pausing_new(call, &session);

    if (pausing)
        session_resume(session, &call->caller, on_done, pausing);
}
