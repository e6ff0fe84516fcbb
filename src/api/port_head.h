/*
 * port_head.h - the heads of a request and a reply on their way through a relay to a guest's port:
 * which headers pass, and which do not.
 *
 * To the guest: no key, token or signature of Bailey's in any header (and what looks like a key is
 * masked wherever it is), no cookie or Authorization of the API's origin, nothing hop by hop. To
 * the client: no framing, nothing hop by hop, and under the API's own origin nothing that could set
 * something for that origin; such replies are sandboxed. One thread, never blocks.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_PORT_HEAD_H
#define BAILEY_API_PORT_HEAD_H

#include "api/port_relay.h"
#include "http/reply_reader.h"

/* Where the guest's part of the path begins: after `skip` segments; "" where nothing follows. */
const char *port_path_of(const char *path, size_t skip);

/* Appends the head with its empty line. Errors: bad_input, too_large. */
int port_request_head(const struct port_call *call, struct buf *head, struct error *err);

#define PORT_HEADERS_MAX (LIMIT_PORT_HEADERS + 4)
/* The headers to pass on, NULL at the end, in `memory`. -ENOMEM. */
int port_reply_headers(const struct port_call *call, const struct reply_reader *reply,
                       struct buf *memory, const char *headers[PORT_HEADERS_MAX]);
/* The same of a 101; -EPROTO: it is no answer to this handshake. */
int port_switch_headers(const struct port_call *call, const struct reply_reader *reply,
                        struct buf *memory, const char *headers[PORT_HEADERS_MAX]);

#endif
