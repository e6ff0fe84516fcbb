/* started.c - the three ways to reply for a command or cell that a call started. */
#include <string.h>

#include "api/rest/rest_private.h"

bool rest_wants_events(const struct http_request *http)
{
    const char *accept = http_header(http, "Accept");

    return accept && strstr(accept, TYPE_EVENTS);
}

void rest_answer_started(struct door_call *call, struct session *session,
                         struct execution *execution)
{
    const struct rest_following following = {
        .exec_stream = {.session = session,
                        .execution = execution,
                        .collects = !json_is_false(json_object_get(call->body, "collect"))},
        .is_owner = true,
    };

    if (rest_wants_events(call->http))
        rest_follow(call, &following);
    else if (json_is_true(json_object_get(call->body, "background")))
        front_reply(call->http, 202, execution_json(execution));
    else
        rest_await(call, &following);
}
