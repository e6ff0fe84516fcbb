/*
 * refusal_delay.c - refusals for a quota (429) are sent a moment later than they are made, over
 * TCP.
 *
 * A client that floods sends its next request as soon as it is refused: answered at once, its
 * refusals alone would keep the broker busy, and other clients would wait. Delayed, each of its
 * connections gets a few of them in a second. A client that follows Retry-After does not notice.
 *
 * They are sent a few at a time, the oldest first: flooding clients are synchronised by their
 * refusals, and all their next requests at once would again delay others. One timer serves all of
 * them. Used by reply.c and body.c.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "http/http_private.h"

#define REFUSAL_DELAY_MS 200
#define LOOK_MS 5
#define LEAVE_MOST 8 /* in one look: 1600 a second */
#define LEAVE_SHARE 8

/* How many are due; *ret_oldest is the one that has been for the longest. */
static unsigned count_due(const struct http_server *server, uint64_t now, bool *ret_more,
                          struct http_request **ret_oldest)
{
    struct http_request *oldest = NULL;
    unsigned due = 0;

    *ret_more = false;
    for (struct http_request *request = server->requests; request; request = request->next) {
        if (!request->held_ms)
            continue;
        *ret_more = true;
        if (request->held_ms > now)
            continue;
        due++;
        if (!oldest || request->held_ms < oldest->held_ms)
            oldest = request;
    }
    *ret_oldest = oldest;
    return due;
}

static void on_look(void *ctx)
{
    struct http_server *server = ctx;
    uint64_t now = clock_now_ms();
    struct http_request *oldest;
    bool are_more;
    unsigned leave = count_due(server, now, &are_more, &oldest);

    leave = MIN(leave / LEAVE_SHARE + 1, (unsigned)LEAVE_MOST);
    while (leave-- > 0 && oldest) {
        oldest->held_ms = 0;
        http_request_wake(oldest);
        count_due(server, now, &are_more, &oldest);
    }
    server->is_holding = are_more;
    if (are_more)
        server->reactor->ops->timer_set(server->holder, LOOK_MS);
}

bool http_refusal_delay_start(struct http_server *server)
{
    server->holder = reactor_timer(server->reactor, on_look, server);
    return server->holder != NULL;
}

bool http_refusal_delay(struct http_request *request)
{
    struct http_server *server = request->server;

    if (request->status != 429 || server->is_local || server->is_stopping || request->must_close)
        return false;
    request->held_ms = clock_now_ms() + REFUSAL_DELAY_MS;
    if (!server->is_holding) {
        server->is_holding = true;
        server->reactor->ops->timer_set(server->holder, LOOK_MS);
    }
    return true;
}
