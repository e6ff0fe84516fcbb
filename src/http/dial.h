/*
 * dial.h - a connection to a client's server for a protocol that HTTP is left for (a WebSocket):
 * bytes both ways, over a unix socket, TCP or TLS. For clients without a reactor.
 *
 * http_dial_open() blocks until the connection is made, TLS included; reading and writing never
 * block. One thread.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_DIAL_H
#define BAILEY_HTTP_DIAL_H

#include <sys/types.h>

#include "http/client.h"

struct http_dial;

/* Errors as those of http_call_events.done(). */
int http_dial_open(struct http_client *client, struct http_dial **ret, struct error *err);
void http_dial_close(struct http_dial *dial); /* NULL is fine */

/*
 * The lines of the request that name the server and its key: "Host: ...\r\n" and, with a key,
 * "Authorization: ...\r\n". 0 or -EFBIG, -ENOMEM.
 */
int http_dial_headers(const struct http_dial *dial, struct buf *to);

int http_dial_fd(const struct http_dial *dial); /* to poll */
/*
 * Bytes, 0 at the end, or a negative errno; -EAGAIN: none now. Read until -EAGAIN before polling:
 * bytes that TLS has decoded make no socket ready.
 */
ssize_t http_dial_read(struct http_dial *dial, void *data, size_t size);
ssize_t http_dial_write(struct http_dial *dial, const void *data, size_t length);

#endif
