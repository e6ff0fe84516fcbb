/*
 * turn_share.c - what a tenant may do in one turn of the loop: when its requests and messages have
 * taken TURN_NS of the processor, its others wait for the next turn, and those of other tenants
 * come first. So a tenant that asks on all of its connections at once delays a request of another
 * by one such share, and not by all of its own.
 *
 * Nothing is refused and nothing takes longer for a tenant that is alone. Requests without a key
 * are short and wait for nothing.
 *
 * A turn ends when a timer that is set to "now" is due: by then the loop has looked at everything
 * that was ready.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "http/http_private.h"

#define TURN_NS 4000000
#define WOKEN 32 /* requests of a tenant that are resumed for one turn; each may wait again */

static bool has_had_its_share(const struct tenant_share *share)
{
    return share->turn == share->server->turn && share->turn_ns >= TURN_NS;
}

bool http_turn_may(const struct link *link)
{
    return !link->share || !has_had_its_share(link->share);
}

static void wait(struct link *link)
{
    struct tenant_share *share = link->share;

    if (link->waits)
        return;
    link->waits = true;
    link->next_waiting = NULL;
    *(share->last_waiting ? &share->last_waiting->next_waiting : &share->waiting) = link;
    share->last_waiting = link;
}

static struct link *first_waiting(struct tenant_share *share)
{
    struct link *link = share->waiting;

    if (!link)
        return NULL;
    share->waiting = link->next_waiting;
    if (!share->waiting)
        share->last_waiting = NULL;
    link->waits = false;
    return link;
}

void http_turn_leave(struct link *link)
{
    struct link *before = NULL, *at;

    if (!link->waits)
        return;
    for (at = link->share->waiting; at != link; at = at->next_waiting)
        before = at;
    *(before ? &before->next_waiting : &link->share->waiting) = link->next_waiting;
    if (link->share->last_waiting == link)
        link->share->last_waiting = before;
    link->waits = false;
}

static void ask_for_next(struct http_server *server)
{
    if (!server->awaits_turn)
        server->reactor->ops->timer_set(server->next_turn, 0);
    server->awaits_turn = true;
}

bool http_turn_wait(struct link *link)
{
    if (http_turn_may(link))
        return false;
    wait(link);
    ask_for_next(link->server);
    return true;
}

void http_turn_begin(struct http_server *server)
{
    if (server->work_depth++ == 0)
        server->work_ns = clock_thread_ns();
}

/* `link` may have left its share meanwhile. */
void http_turn_end(struct http_server *server, struct link *link)
{
    struct tenant_share *share = link ? link->share : NULL;

    if (--server->work_depth > 0 || !share)
        return;
    if (share->turn != server->turn) {
        share->turn = server->turn;
        share->turn_ns = 0;
    }
    share->turn_ns += clock_thread_ns() - server->work_ns;
    if (has_had_its_share(share))
        ask_for_next(server);
}

static void go_on(struct link *link)
{
    if (!link->request)
        return;
    if (link->request->websocket)
        websocket_go_on(link->request->websocket);
    else
        http_request_wake(link->request);
}

static void on_next_turn(void *ctx)
{
    struct http_server *server = ctx;

    server->awaits_turn = false;
    server->turn++;
    server->is_turning = true; /* a WebSocket's owner may stop it */
    for (int i = 0; i < SHARE_CHAINS; i++) {
        for (struct tenant_share *next, *share = server->shares[i]; share; share = next) {
            share->users++; /* its last connection may leave */
            for (int woken = 0; woken < WOKEN && share->waiting && !has_had_its_share(share);
                 woken++)
                go_on(first_waiting(share));
            if (share->waiting)
                ask_for_next(server);
            next = share->next;
            share->users--;
            http_share_drop(server, share);
        }
    }
    server->is_turning = false;
    if (server->is_stopping)
        http_server_free(server);
}

bool http_turns_start(struct http_server *server)
{
    server->turn = 1;
    server->next_turn = reactor_timer(server->reactor, on_next_turn, server);
    return server->next_turn;
}

void http_turns_stop(struct http_server *server)
{
    server->reactor->ops->timer_remove(server->next_turn);
}
