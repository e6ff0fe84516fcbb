/* warm.c - GET /v1/warm: the interpreters and boxes that are kept ready, and their memory. */
#include <stdlib.h>

#include "api/rest/rest_private.h"

struct looking {
    struct session_manager *manager;
    struct http_request *http;
};

static void on_seen(void *ctx, json_t *state)
{
    struct looking *looking = ctx;

    if (state)
        front_reply(looking->http, 200, state);
    else
        front_fail_memory(looking->http);
    free(looking);
}

static void on_gone(void *ctx)
{
    struct looking *looking = ctx;

    session_manager_look_cancel(looking->manager, looking);
    free(looking);
}

void warm_get(struct door_call *call)
{
    struct looking *looking = calloc(1, sizeof(*looking));

    if (!looking) {
        front_fail_memory(call->http);
        return;
    }
    *looking = (struct looking){.manager = call->front->manager, .http = call->http};
    http_on_gone(call->http, on_gone, looking);
    session_manager_look(looking->manager, on_seen, looking);
}
