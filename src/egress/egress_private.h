/*
 * egress_private.h - shared by the proxy's files: its boxes, their callers, the two flows of each.
 *
 * Owned from the top: the proxy its boxes, a box its callers. libuv closes handles asynchronously,
 * so a caller is freed when the last of them has closed (caller_close() may be called at any time
 * and twice).
 *
 * Runs in: egress
 */
#ifndef BAILEY_EGRESS_EGRESS_PRIVATE_H
#define BAILEY_EGRESS_EGRESS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>
#undef MIN /* it brings those of sys/param.h; base/cleanup.h has ours */
#undef MAX

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "egress/policy.h"
#include "egress/protocol.h"
#include "egress/request.h"
#include "egress/socks.h"

#define SCRATCH_BYTES (64 * 1024)

struct proxy {
    uv_loop_t loop;
    uv_poll_t control;
    unsigned caller_count, caller_max; /* of all boxes */
    struct egress_settings settings;
    struct box *boxes[LIMIT_EGRESS_BOXES];
    struct egress_message *queue; /* verdicts that wait; LIMIT_EGRESS_QUEUE of them */
    size_t queue_first, queue_count;
    char scratch[SCRATCH_BYTES]; /* every read goes here first, and nothing is kept */
};

struct box {
    struct proxy *proxy;
    uint32_t number;
    const struct policy *policy;
    uv_tcp_t listener;
    bool is_closing, has_waiting; /* one that is not accepted yet: the limit is reached */
    struct caller *callers;
    unsigned caller_count, verdict_count;
    uint64_t connections, up_bytes, down_bytes;
};

enum caller_state {
    CALLER_HEAD,    /* says what it wants */
    CALLER_DIALING, /* not read from */
    CALLER_HELLO,   /* connected; waiting for the ClientHello */
    CALLER_RELAY,
    CALLER_LEAVING, /* answered; what it still sends is dropped */
    CALLER_CLOSED,
};

/* One way of a connection. While `rest` is being written nothing more is read. */
struct flow {
    struct caller *caller;
    uv_stream_t *from, *to;
    struct buf rest;
    uv_write_t write;
    uv_shutdown_t shutdown;
    uint64_t left; /* bytes that may pass; UINT64_MAX: all */
    uint64_t dropped;
    uint64_t *counter;
    bool is_shut;
};

struct caller {
    struct box *box;
    struct caller *next, *previous;
    enum caller_state state;
    bool is_socks, has_greeted, has_far;
    uv_tcp_t near, far;
    uv_timer_t timer;
    unsigned open_handles;
    uint64_t deadline_ms;

    struct buf head;        /* of the caller, or of the upstream proxy's answer */
    struct buf out;         /* being written */
    struct request request; /* host and port of SOCKS, too; pieces are in `head` */
    const struct policy_entry *entry;
    uv_write_t write;
    uv_shutdown_t shutdown;

    uv_getaddrinfo_t resolve;
    bool is_resolving, is_upstream, has_asked_upstream;
    uv_connect_t connect;
    struct address addresses[LIMIT_EGRESS_ADDRESSES];
    size_t address_count, address_next;
    uint16_t dial_port;

    struct flow up, down;
};

/* proxy.c */
void proxy_verdict(struct box *box, bool is_allowed, const char *host, uint16_t port,
                   const char *reason);
void proxy_has_room(struct box *box); /* a caller has gone */

/* caller.c */
void caller_accept(struct box *box);
void caller_close(struct caller *caller);
void caller_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *ret);
void caller_set_deadline(struct caller *caller, uint64_t ms);
/* Answered with the status and text, or with the reply of SOCKS; then it leaves. */
void caller_refuse(struct caller *caller, int status, enum socks_reply reply, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));
/* The same for what the list or an address forbids: a verdict, and what the operator may do. */
void caller_deny(struct caller *caller, const char *reason);
void caller_connected(struct caller *caller); /* called by dial.c: the far side is connected */
void caller_release(struct caller *caller);   /* one of open_handles is closed */

/* dial.c: from a name that is listed to a connection */
void dial_start(struct caller *caller);
void dial_timed_out(struct caller *caller);

/* relay.c */
void relay_start(struct caller *caller);

#endif
