/*
 * websocket.h - a request that becomes a WebSocket (RFC 6455, by wslay): messages both ways, pings,
 * closing, bounded memory.
 *
 * Made by http_upgrade() inside a handler; from then on the request is gone and the socket lives
 * until closed() was called, once, whatever happened. Frames, masking, UTF-8 and control frames are
 * checked; a protocol error closes it with its code. A message over message_max is closed with
 * 1009. Sending fails with -EAGAIN while more than LIMIT_WS_QUEUE bytes wait, and drained() is
 * called when there is room again, so a slow reader slows its own source. Pings are sent every
 * LIMIT_WS_PING_MS; a client that answers none has gone. One thread, never blocks.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_WEBSOCKET_H
#define BAILEY_HTTP_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

struct http_request;
struct websocket;

struct websocket_events {
    void (*message)(void *ctx, bool is_text, const void *data, size_t length);
    void (*drained)(void *ctx);                 /* may be NULL */
    void (*closed)(void *ctx, unsigned status); /* 1006: without a close frame */
};

struct websocket_spec {
    const char *protocol; /* the one of Sec-WebSocket-Protocol that is chosen; NULL: none */
    size_t message_max;
    const struct websocket_events *events;
    void *ctx;
};

/*
 * 1: the request asks for a WebSocket (method, Upgrade, Connection, version 13, a key of 16 bytes).
 * 0: it does not. -EPROTO: it does and is wrong: answer 400, or 426 with the version.
 */
int http_wants_websocket(const struct http_request *request);
/* Answers 101. On failure nothing was answered. */
int http_upgrade(struct http_request *request, const struct websocket_spec *spec,
                 struct websocket **ret, struct error *err);

/*
 * Whether more may be done for its tenant in this turn of the loop (turn_share.c); if not, its
 * owner tries again in a later one. What its owner does outside of callbacks is measured between
 * begin and end.
 */
bool websocket_has_turn(const struct websocket *socket);
void websocket_turn_begin(struct websocket *socket);
void websocket_turn_end(struct websocket *socket);

/* Inside message(): the message itself, which is the caller's then. */
void websocket_message_take(struct websocket *socket, struct buf *ret);

/* 0, -EAGAIN, -EPIPE: it was closed, -ENOMEM. Calls nothing back. */
int websocket_send(struct websocket *socket, bool is_text, const void *data, size_t length);
bool websocket_has_room(struct websocket *socket); /* false: as after -EAGAIN */
/* How many bytes its owner holds for it besides: they count as the socket's own do (held.h). */
void websocket_owns(struct websocket *socket, size_t bytes);
/*
 * While it is held no more is read: an owner that cannot take messages slows the client. A few that
 * were read already (4 KiB of frames) still come.
 */
void websocket_hold(struct websocket *socket, bool is_held);
/* After what waits. No message comes any more; closed() does, from the loop. */
void websocket_close(struct websocket *socket, unsigned status, const char *reason);

#endif
