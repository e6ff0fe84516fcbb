/*
 * channel.h - the messages between the broker and the process `upstream`, and the socket that they
 * go through.
 *
 * A SOCK_SEQPACKET pair, made by the launcher for each broker. A message is one packet: type (1
 * byte), the number of a call (4 bytes, little endian), and data. The broker numbers its calls.
 * What the socket has no room for waits in a queue, in order. Each side takes the other's messages
 * for hostile: a malformed packet ends the channel. One thread, never blocks. Fuzzed.
 *
 * Runs in: upstream, broker
 */
#ifndef BAILEY_UPSTREAM_CHANNEL_H
#define BAILEY_UPSTREAM_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reactor.h"

#define CHANNEL_DATA_MAX (32 * 1024)
#define CHANNEL_VERSION 1 /* of these messages; data of HELLO, as text */

enum channel_type {
    /* broker */
    CHANNEL_HELLO = 1, /* the first message: CHANNEL_VERSION */
    CHANNEL_BODY,      /* a piece of a request's body */
    CHANNEL_GO,        /* the body is complete */
    CHANNEL_CANCEL,    /* nothing more is sent about this call */
    CHANNEL_PAUSE,     /* no more events of this call until RESUME */
    CHANNEL_RESUME,
    /* upstream */
    CHANNEL_BEGUN,  /* the model server answers with success: this try counts */
    CHANNEL_PART,   /* a piece of an event's data, and it goes on */
    CHANNEL_EVENT,  /* the last piece of an event's data */
    CHANNEL_DONE,   /* the answer is complete; data "1": its end was marked, "0": it just ended */
    CHANNEL_FAILED, /* {"status", "message", "tries"} as JSON; status 0: there was no answer */
    _CHANNEL_TYPE_MAX,
};

struct upstream_message {
    enum channel_type type;
    uint32_t call;
    const void *data;
    size_t length;
};

/* 0 or -EPROTO: not a message that this side gets. `data` points into the packet. Pure. */
int upstream_channel_unpack(const void *packet, size_t length, bool is_broker,
                            struct upstream_message *ret);

struct upstream_channel;
struct upstream_events {
    void (*message)(void *ctx, const struct upstream_message *message); /* may close the channel */
    void (*drained)(void *ctx); /* the queue is empty; or NULL */
    void (*closed)(void *ctx);  /* the other side has gone, or sent nonsense; close it */
};

/* Takes the descriptor, also on failure. NULL: no memory. */
struct upstream_channel *upstream_channel_open(struct reactor *reactor, int fd, bool is_broker,
                                               const struct upstream_events *events, void *ctx);
void upstream_channel_close(
    struct upstream_channel *channel); /* NULL is fine; no callback any more */
/* Any length; data beyond CHANNEL_DATA_MAX goes as several messages, those before the last as
 * `more`. 0 or -ENOMEM. */
int upstream_channel_send(struct upstream_channel *channel, enum channel_type type,
                          enum channel_type more, uint32_t call, const void *data, size_t length);
size_t upstream_channel_waiting(const struct upstream_channel *channel); /* bytes in the queue */

#endif
