/* started.c - what commands and cells that a call started have in common: how long they may run,
 * and the three ways to answer.
 */
#include <string.h>

#include "api/rest/inside.h"

#define TIMEOUT_S 60

uint64_t rest_timeout_ms(json_t *body)
{
    json_t *timeout = json_object_get(body, "timeout");
    double seconds = timeout ? json_number_value(timeout) : TIMEOUT_S;
    uint64_t ms = (uint64_t)(seconds * 1000.0 + 0.5);

    return seconds > 0 && ms == 0 ? 1 : ms;
}

bool rest_wants_events(const struct http_request *http)
{
    const char *accept = http_header(http, "Accept");

    return accept && strstr(accept, TYPE_EVENTS);
}

void rest_answer_started(struct rest_call *call, struct session *session,
                         struct execution *execution)
{
    const struct rest_following following = {
        .session = session,
        .execution = execution,
        .is_owner = true,
        .collects = !json_is_false(json_object_get(call->body, "collect")),
    };

    if (rest_wants_events(call->http))
        rest_follow(call, &following);
    else if (json_is_true(json_object_get(call->body, "background")))
        rest_reply(call->http, 202, execution_json(execution));
    else
        rest_await(call, &following);
}
