/*
 * hold.c - refusals for a quota (429) leave a moment later than they are made, over TCP.
 *
 * A client that floods asks again as soon as it is refused: answered at once, its refusals alone
 * would keep the broker busy, and everybody else would wait behind them. Held back, each of its
 * connections has a few of them in a second. Who does what Retry-After says notices nothing.
 *
 * All are held equally long, and one timer looks after all of them. Used by reply.c and body.c.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "http/inside.h"

#define HOLD_MS 200
#define LOOK_MS 50

static void on_look(void *ctx)
{
    struct http_server *server = ctx;
    uint64_t now = clock_now_ms();
    bool are_more = false;

    for (struct http_request *request = server->requests; request; request = request->next) {
        if (request->held_ms > now) {
            are_more = true;
        } else if (request->held_ms) {
            request->held_ms = 0;
            http_request_wake(request);
        }
    }
    server->is_holding = are_more;
    if (are_more)
        server->reactor->ops->timer_set(server->holder, LOOK_MS);
}

bool http_hold_start(struct http_server *server)
{
    server->holder = reactor_timer(server->reactor, on_look, server);
    return server->holder != NULL;
}

bool http_hold(struct http_request *request)
{
    struct http_server *server = request->server;

    if (request->status != 429 || server->is_local || server->is_stopping || request->must_close)
        return false;
    request->held_ms = clock_now_ms() + HOLD_MS;
    if (!server->is_holding) {
        server->is_holding = true;
        server->reactor->ops->timer_set(server->holder, LOOK_MS);
    }
    return true;
}
