/*
 * request.h - the head of a request to an HTTP proxy: parsed strictly, then rewritten. Pure
 * functions over hostile bytes; fuzzed.
 *
 * One request for each connection, so there is no second one to be smuggled. Bodies have a
 * Content-Length or there is none; chunked ones are refused. Nothing of the client's framing is
 * passed on: what is forwarded is written here from what was understood.
 *
 * Runs in: egress
 */
#ifndef BAILEY_EGRESS_REQUEST_H
#define BAILEY_EGRESS_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "egress/host.h"

struct upstream;

struct request {
    bool is_connect;
    struct host host;
    uint16_t port;
    bool has_body;
    uint64_t body_bytes;
    size_t head_bytes; /* what follows is the body, or the tunnel's bytes */
    /* pieces of the head, for request_write() */
    const char *method, *path, *fields;
    size_t method_length, path_length, fields_length;
};

/*
 * 0: whole; -EAGAIN: more is needed; else refused, and *ret_status is what an HTTP answer would
 * say. A head that is not whole within LIMIT_EGRESS_HEAD bytes is refused (431). `ret` points into
 * `data`.
 */
int request_parse(const char *data, size_t length, struct request *ret, int *ret_status);

/*
 * The head as the server gets it, or the upstream proxy (not NULL): a CONNECT for one, else the
 * request without what concerned us only.
 */
int request_write(const struct request *request, const struct upstream *upstream, struct buf *to);

/* The status of an answer's head, e.g. 200; -EAGAIN or -EPROTO. For the upstream proxy's. */
int answer_parse(const char *data, size_t length, int *ret_status, size_t *ret_head_bytes);

#endif
