/* warm.c - GET /v1/warm: the interpreters and boxes that are kept ready, and what they hold. */
#include <stdlib.h>

#include "api/rest/inside.h"

struct looking {
    struct engine *engine;
    struct http_request *http;
};

static void on_seen(void *ctx, json_t *state)
{
    struct looking *looking = ctx;

    if (state)
        rest_reply(looking->http, 200, state);
    else
        rest_fail_memory(looking->http);
    free(looking);
}

static void on_gone(void *ctx)
{
    struct looking *looking = ctx;

    engine_look_cancel(looking->engine, looking);
    free(looking);
}

void warm_get(struct rest_call *call)
{
    struct looking *looking = calloc(1, sizeof(*looking));

    if (!looking) {
        rest_fail_memory(call->http);
        return;
    }
    *looking = (struct looking){.engine = call->rest->engine, .http = call->http};
    http_on_gone(call->http, on_gone, looking);
    engine_look(looking->engine, on_seen, looking);
}
