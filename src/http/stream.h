/*
 * stream.h - a connection that HTTP has let go of ("hijacked": Connection: Upgrade): bytes both
 * ways, over whatever the client's server is reached by. For clients with a reactor.
 *
 * Nothing here waits. Callbacks come from the loop; they may close the stream.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_STREAM_H
#define BAILEY_HTTP_STREAM_H

#include <sys/types.h>

#include "http/client.h"

struct http_stream;

struct http_stream_events {
    /* The head of the reply is there. 101 or 200: bytes may be read and written from now on. Else
     * the reply's body can be read, and that is all. */
    void (*opened)(void *ctx, unsigned status);
    void (*failed)(void *ctx, const struct error *err); /* before opened(); close it */
    void (*ready)(void *ctx, short events); /* what http_stream_want() asked for, or an end */
};

/* method, path and headers of the call are used; Host, Connection and Upgrade are added. */
int http_stream_open(struct http_client *client, const struct http_call *call,
                     const struct http_stream_events *events, void *ctx, struct http_stream **ret,
                     struct error *err);
void http_stream_close(struct http_stream *stream); /* NULL is fine; no callback any more */

/*
 * Bytes, 0 at the end, or a negative errno: -EAGAIN, nothing can be read or written now. A caller
 * that stops reading before -EAGAIN has to call again by itself: bytes that TLS has decoded make no
 * socket ready.
 */
ssize_t http_stream_read(struct http_stream *stream, void *data, size_t size);
ssize_t http_stream_write(struct http_stream *stream, const void *data, size_t length);

void http_stream_want(struct http_stream *stream, short events); /* POLLIN, POLLOUT; 0: ends only */

#endif
