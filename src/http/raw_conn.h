/*
 * raw_conn.h - a connection's bytes past libmicrohttpd, plain or TLS.
 *
 * For what libmicrohttpd (0.9.75) cannot do: a reply in the middle of a body (early_reply.c), and
 * a fast WebSocket over TLS (websocket.c). Borrows the connection's descriptor and session, which
 * libmicrohttpd closes. Called while libmicrohttpd itself is not sending: it must not have sent
 * half of something. One thread, never blocks.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_RAW_CONN_H
#define BAILEY_HTTP_RAW_CONN_H

#include <sys/types.h>

#define RAW_CONN_BLOCK ((size_t)16384) /* the largest record of TLS */

struct MHD_Connection;
struct gnutls_session_int;

struct raw_conn {
    int fd;
    struct gnutls_session_int *tls; /* NULL: plain */
};

struct raw_conn raw_conn_of(struct MHD_Connection *connection);
/*
 * From now on only raw_conn_receive() reads: with TLS libmicrohttpd continues to try and finds
 * nothing. For a connection that was just upgraded, before libmicrohttpd has read anything of what
 * follows.
 */
void raw_conn_take(const struct raw_conn *conn);

/* How much of it has gone; -EAGAIN: try again with the same, another negative: never again. */
ssize_t raw_conn_send(const struct raw_conn *conn, const void *data, size_t length);
/*
 * The number of bytes; 0: the end, -EAGAIN: nothing yet, another negative: the connection is
 * broken.
 */
ssize_t raw_conn_receive(const struct raw_conn *conn, void *data, size_t size);
/*
 * Bytes that were read and decrypted: poll(2) does not report them. None are left after a
 * raw_conn_receive() of RAW_CONN_BLOCK and more.
 */
size_t raw_conn_waiting(const struct raw_conn *conn);
void raw_conn_shut(
    const struct raw_conn *conn); /* nothing is sent any more, and the client sees that */

#endif
