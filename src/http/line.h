/*
 * line.h - a connection's bytes past libmicrohttpd, plain or TLS.
 *
 * For what libmicrohttpd (0.9.75) cannot do: an answer in the middle of a body (cut.c), and a
 * WebSocket behind TLS that is not slow (websocket.c). Borrows the connection's descriptor and
 * session, which stay libmicrohttpd's to close. Called where libmicrohttpd itself is not sending:
 * nothing of it may be half out. One thread, never blocks.
 */
#ifndef BAILEY_HTTP_LINE_H
#define BAILEY_HTTP_LINE_H

#include <sys/types.h>

#define LINE_BLOCK ((size_t)16384) /* the largest record of TLS */

struct MHD_Connection;
struct gnutls_session_int;

struct line {
    int fd;
    struct gnutls_session_int *tls; /* NULL: plain */
};

struct line line_of(struct MHD_Connection *connection);
/*
 * From now on only line_receive() reads: with TLS libmicrohttpd goes on trying and finds nothing.
 * For one that was just upgraded, before libmicrohttpd has read anything of what follows.
 */
void line_take(const struct line *line);

/* How much of it has gone; -EAGAIN: try again with the same, another negative: never again. */
ssize_t line_send(const struct line *line, const void *data, size_t length);
/* How much came; 0: the end, -EAGAIN: nothing yet, another negative: it is broken. */
ssize_t line_receive(const struct line *line, void *data, size_t size);
/* Bytes that were read and decrypted: poll(2) does not tell of them. None are left behind a
 * line_receive() of LINE_BLOCK and more. */
size_t line_waiting(const struct line *line);
void line_shut(const struct line *line); /* nothing is sent any more, and the client sees that */

#endif
