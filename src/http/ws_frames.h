/*
 * ws_frames.h - the frames of a WebSocket, on the server's side, by wslay: bytes in, messages out,
 * and back. No I/O: websocket.c moves the bytes, tests and the fuzzer give their own.
 *
 * Everything that RFC 6455 forbids to a client is answered with a close frame of the right code,
 * after which nothing more is read: unmasked frames, reserved bits and opcodes, control frames that
 * are long or fragmented and lengths in a longer form than needed (these without a code), text that
 * is not UTF-8, close codes that must not be sent; and messages over message_max (1009). Memory is
 * bounded: one message, and what waits to be sent; a client that sends and does not read is not
 * read either (ws_frames_is_full()).
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_WS_FRAMES_H
#define BAILEY_HTTP_WS_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

struct ws_frames;

struct ws_frames_events {
    /* A whole message. May send, close and hold; not free. */
    void (*message)(void *ctx, bool is_text, const void *data, size_t length);
};

struct ws_frames *ws_frames_new(size_t message_max, const struct ws_frames_events *events,
                                void *ctx);    /* NULL: no memory */
void ws_frames_free(struct ws_frames *frames); /* NULL is fine */

/* Inside message(): the message itself, which is the caller's then. */
void ws_frames_message_take(struct ws_frames *frames, struct buf *ret);

/*
 * Bytes of the client: returns how many were taken (fewer: it is held, or full), or -ENOMEM. Bytes
 * after the end are taken and dropped.
 */
ssize_t ws_frames_take(struct ws_frames *frames, const void *data, size_t length);
/* Bytes for the client: returns how many, 0: there are none; -ENOMEM. */
ssize_t ws_frames_give(struct ws_frames *frames, void *data, size_t size);

/* Takes nothing meanwhile; messages of the last 4 KiB that it took may still come. */
void ws_frames_hold(struct ws_frames *frames, bool is_held);

/* Queues a message; 0, -EPIPE: there was a close frame already, -ENOMEM. Text has to be UTF-8. */
int ws_frames_send(struct ws_frames *frames, bool is_text, const void *data, size_t length);
void ws_frames_ping(struct ws_frames *frames);
/* The close frame, after what waits; of the reason (may be NULL) as much as fits. */
void ws_frames_close(struct ws_frames *frames, unsigned status, const char *reason);

/* As what the client did wrong is answered: what waits is dropped, and nothing more is read. */
void ws_frames_fail(struct ws_frames *frames, unsigned status, const char *reason);

size_t ws_frames_held(const struct ws_frames *frames); /* bytes of messages, of both directions */
size_t ws_frames_waiting(const struct ws_frames *frames);  /* bytes of messages to be given */
bool ws_frames_wants_give(const struct ws_frames *frames); /* ws_frames_give() has something */
bool ws_frames_is_full(const struct ws_frames *frames);    /* of answers to pings that wait */
bool ws_frames_has_closed(const struct ws_frames *frames); /* either side, or it was failed */
bool ws_frames_was_closed(const struct ws_frames *frames); /* the client's close frame came */
bool ws_frames_is_over(const struct ws_frames *frames);    /* ours is given, nothing is read */
unsigned ws_frames_status(const struct ws_frames *frames); /* the client's, else ours, or 1006 */

#endif
