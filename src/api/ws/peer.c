/*
 * peer.c - one connection of the WebSocket door: sends replies and events in order, at the client's
 * pace.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "api/ws/ws_private.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/str.h"
#include "model/text.h"

#define OUT_MAX (6 * LIMIT_OUTPUT_MAX + 2 * LIMIT_CELL_EVENTS) /* one event more than fits */
#define TURNS 64 /* of one subscription, before others get theirs */

/* ---- messages ---- */

void ws_listen(struct ws_peer *peer)
{
    websocket_owns(peer->socket, peer->out.length + peer->long_bytes);
    websocket_hold(peer->socket, peer->is_held || peer->long_message);
}

/* True: nothing is left to send. */
static bool flush(struct ws_peer *peer)
{
    while (peer->out.length > 0) {
        const char *end = memchr(peer->out.data, '\n', peer->out.length);
        size_t length = (size_t)(end - peer->out.data);

        if (websocket_send(peer->socket, true, peer->out.data, length) < 0)
            return false; /* drained() or closed() follows */
        buf_consume(&peer->out, length + 1);
    }
    buf_free(&peer->out);
    peer->reply_bytes = 0;
    peer->is_held = false;
    ws_listen(peer);
    return true;
}

void ws_say(struct ws_peer *peer, json_t *message, bool is_reply)
{
    size_t before = peer->out.length;

    if (!message || text_of_json(message, FRONT_JSON, &peer->out) < 0 ||
        buf_append(&peer->out, "\n", 1) < 0) {
        /* A cut message, or a gap followed by more, would be taken for complete. */
        peer->out.length = before;
        websocket_close(peer->socket, 1011, "out of memory");
    } else if (is_reply) {
        peer->reply_bytes += peer->out.length - before;
    }
    json_decref(message);
    if (before == 0)
        flush(peer);
    if (peer->reply_bytes > LIMIT_WS_OWED)
        peer->is_held = true; /* the client sends requests but does not read the replies */
    ws_listen(peer);
}

void ws_event(struct ws_subscription *subscription, const char *id, const char *name, json_t *data)
{
    ws_say(subscription->peer,
           data ? json_pack("{s:s, s:I, s:s*, s:s, s:o}", "type", "event", "subscription",
                            (json_int_t)subscription->number, "id", id, "event", name, "data", data)
                : NULL,
           false);
}

/* ---- subscriptions ---- */

int ws_subscribe(struct ws_peer *peer, struct ws_subscription *subscription, struct error *err)
{
    struct ws_subscription **at = &peer->subscriptions;

    if (peer->subscription_count >= LIMIT_WS_SUBSCRIPTIONS)
        return error_set(err, -EBUSY, ERROR_BUSY,
                         "a WebSocket has at most %d subscriptions: end one, or open another",
                         LIMIT_WS_SUBSCRIPTIONS);
    while (*at)
        at = &(*at)->next;
    *at = subscription;
    subscription->peer = peer;
    subscription->next = NULL;
    subscription->number = ++peer->last_number;
    peer->subscription_count++;
    return 0;
}

static void unlink_from(struct ws_peer *peer, struct ws_subscription *subscription)
{
    LIST_UNLINK(peer->subscriptions, subscription);
}

void ws_drop(struct ws_subscription *subscription, bool is_clean)
{
    unlink_from(subscription->peer, subscription);
    subscription->peer->subscription_count--;
    subscription->free(subscription, is_clean);
}

void ws_ready(struct ws_subscription *subscription)
{
    struct ws_peer *peer = subscription->peer;

    subscription->is_ready = true;
    peer->front->reactor->ops->timer_set(peer->timer, 0);
}

/* The first subscription that has an event; it moves to the end of the list. */
static struct ws_subscription *whose_turn(struct ws_peer *peer)
{
    struct ws_subscription *found = peer->subscriptions, **at;

    while (found && !found->is_ready)
        found = found->next;
    if (!found || !found->next)
        return found;
    unlink_from(peer, found);
    for (at = &peer->subscriptions; *at; at = &(*at)->next)
        ;
    *at = found;
    found->next = NULL;
    return found;
}

static void end(struct ws_subscription *subscription, bool is_broken)
{
    ws_say(subscription->peer,
           json_pack("{s:s, s:I, s:s}", "type", "end", "subscription",
                     (json_int_t)subscription->number, "reason", is_broken ? "lost" : "over"),
           false);
    ws_drop(subscription, false);
}

/* True: there may be more. */
static bool send_some(struct ws_peer *peer)
{
    for (int i = 0; i < TURNS && flush(peer) && websocket_has_room(peer->socket); i++) {
        struct ws_subscription *subscription = whose_turn(peer);
        enum ws_more state;

        if (!subscription)
            return false;
        subscription->is_ready = false;
        state = subscription->more(subscription);
        if (state == WS_MORE)
            subscription->is_ready = true;
        else if (state != WS_WAITS)
            end(subscription, state == WS_BROKEN);
    }
    return peer->out.length == 0 && websocket_has_room(peer->socket);
}

/* With more to send it lets other connections go first. */
static void pump(struct ws_peer *peer)
{
    bool has_more = true;

    if (websocket_has_turn(peer->socket)) {
        websocket_turn_begin(peer->socket);
        has_more = send_some(peer);
        websocket_turn_end(peer->socket);
    }
    if (has_more)
        peer->front->reactor->ops->timer_set(peer->timer, 0);
}

/* ---- opening and closing ---- */

static void on_due(void *ctx)
{
    pump(ctx);
}

static void on_drained(void *ctx)
{
    pump(ctx);
}

static void on_message(void *ctx, bool is_text, const void *data, size_t length)
{
    struct ws_peer *peer = ctx;

    auth_speak(&peer->caller, peer->session);
    if (is_text && !ws_read_long(peer, data, length))
        ws_message(peer, data, length);
    else if (!is_text)
        websocket_close(peer->socket, 1003, "this address takes text messages");
    auth_leave();
}

static void peer_free(struct ws_peer *peer, bool is_clean)
{
    while (peer->subscriptions)
        ws_drop(peer->subscriptions, is_clean);
    ws_inputs_free(peer);
    ws_long_leave(peer);
    if (peer->is_open)
        ws_count(peer->front, -1);
    peer->front->reactor->ops->timer_remove(peer->timer);
    buf_free(&peer->out);
    free(peer);
}

static void on_closed(void *ctx, unsigned status)
{
    peer_free(ctx, status == 1000);
}

static void open_peer(struct door_call *call, struct session *session)
{
    static const struct websocket_events events = {
        .message = on_message, .drained = on_drained, .closed = on_closed};
    struct ws_peer *peer = calloc(1, sizeof(*peer));

    if (peer)
        *peer = (struct ws_peer){
            .front = call->front,
            .schemas = call->door,
            .caller = call->caller,
            .timer = reactor_timer(call->front->reactor, on_due, peer),
            .out = BUF_INIT(OUT_MAX),
        };
    if (!peer || !peer->timer) {
        free(peer);
        front_fail_memory(call->http);
        return;
    }
    if (session)
        str_copy(peer->session, sizeof(peer->session), session_id(session));
    if (!ws_open(call, LIMIT_REQUEST_JSON, &events, peer, &peer->socket)) {
        peer_free(peer, false);
        return;
    }
    peer->is_open = true;
    ws_count(peer->front, 1);
}

void ws_all(struct door_call *call)
{
    open_peer(call, NULL);
}

void ws_session(struct door_call *call)
{
    struct session *session;

    if (front_session(call, true, &session))
        open_peer(call, session);
}
