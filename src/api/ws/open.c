/* open.c - turns a request into a WebSocket of this door, or answers why it cannot. */
#include <errno.h>
#include <string.h>

#include "api/ws/ws_private.h"
#include "base/str.h"
#include "http/ws_handshake.h"
#include "observe/metrics.h"

#define PROTOCOL "bailey.v1"

void ws_count(struct front *front, int number)
{
    metrics_move(session_manager_metrics(front->manager), METRIC_STREAMS, &(const char *){"ws"},
                 number);
}

bool ws_is_asked(struct door_call *call)
{
    const char *version = http_header(call->http, "Sec-WebSocket-Version");
    int wants = http_wants_websocket(call->http);
    struct error err = {0};

    if (wants == 0)
        error_set(&err, -EPROTO, ERROR_UPGRADE,
                  "this address accepts only WebSockets: send 'Upgrade: websocket'");
    else if (wants < 0 && version && !str_equal(version, "13"))
        error_set(&err, -EPROTO, ERROR_UPGRADE, "the WebSocket's version has to be 13");
    else if (wants < 0)
        error_set(&err, -EPROTO, ERROR_BAD_INPUT,
                  "the request is not a WebSocket handshake: Connection, Sec-WebSocket-Key or "
                  "Sec-WebSocket-Version is missing or malformed, or there is a body");
    if (err.num < 0)
        front_fail(call->front, call->http, &err, NULL);
    return err.num == 0;
}

bool ws_open(struct door_call *call, size_t message_max, const struct websocket_events *events,
             void *ctx, struct websocket **ret)
{
    const char *protocols = http_header(call->http, "Sec-WebSocket-Protocol");
    struct error err = {0};

    if (!ws_is_asked(call))
        return false;
    if (http_upgrade(call->http,
                     &(struct websocket_spec){
                         .protocol = ws_list_has(protocols, PROTOCOL) ? PROTOCOL : NULL,
                         .message_max = message_max,
                         .events = events,
                         .ctx = ctx,
                     },
                     ret, &err) == 0)
        return true;
    front_fail(call->front, call->http, &err, NULL);
    return false;
}
