/*
 * port_relay.h - a request that is answered by a server of a session's guest, on the box's
 * loopback: HTTP and WebSocket, and plain bytes for `bailey port`. Used by the doors that reach
 * ports.
 *
 * Theory of operation. Each request gets a connection of its own, through the warden, that ends
 * with the reply. The request's head is written anew without what is Bailey's or a proxy's own
 * (port_head.h); the reply is read strictly (http/reply_reader.h) and framed anew, so that nothing
 * the guest's server says can be taken for another reply. Bytes wait on the side that is faster:
 * at most WIRE_PORT_WINDOW of them in each direction, counted among what is held for the tenant.
 * One thread, never blocks.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_PORT_RELAY_H
#define BAILEY_API_PORT_RELAY_H

#include "api/front/door.h"

struct port_call {
    struct front *front;
    struct http_request *http;
    struct session *session;
    uint16_t port;
    size_t skip;     /* segments of the path that are not the guest's */
    bool has_origin; /* the client sees an origin of the guest's own, not that of the API */
    bool is_raw;     /* bytes both ways, after "101" with "Upgrade: tcp" */
    /* Answers with an error; before the reply began. */
    void (*fail)(const struct port_call *call, const struct error *err);
};

/* The request was admitted for this session. Answers it, now or later. */
void port_relay(const struct port_call *call);

/* "1" to "65535"; 0: the text is not a port. */
uint16_t port_read(const char *text);

#endif
