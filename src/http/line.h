/*
 * line.h - a connection's bytes past libmicrohttpd, plain or TLS.
 *
 * For what libmicrohttpd (0.9.75) cannot do: an answer in the middle of a body (cut.c). Borrows the
 * connection's descriptor and session, which stay libmicrohttpd's to close. Called where
 * libmicrohttpd itself is not sending: nothing of it may be half out. One thread, never blocks.
 */
#ifndef BAILEY_HTTP_LINE_H
#define BAILEY_HTTP_LINE_H

#include <sys/types.h>

struct MHD_Connection;
struct gnutls_session_int;

struct line {
    int fd;
    struct gnutls_session_int *tls; /* NULL: plain */
};

struct line line_of(struct MHD_Connection *connection);

/* How much of it has gone; -EAGAIN: try again with the same, another negative: never again. */
ssize_t line_send(const struct line *line, const void *data, size_t length);
void line_shut(const struct line *line); /* nothing is sent any more, and the client sees that */

#endif
