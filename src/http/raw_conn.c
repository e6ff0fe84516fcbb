/*
 * raw_conn.c - a connection's bytes past libmicrohttpd; see raw_conn.h.
 *
 * libmicrohttpd's own way for an upgraded connection with TLS is a pair of sockets, and it moves
 * the bytes between that and the session, in what is left of the connection's memory: nothing,
 * since the headers of the 101 have used all of it, so that its spare 8 bytes are used, 4 for each
 * direction (1.1 MB/s, and a core busy with it). So nothing is written into that pair, and the
 * session gets a read function that reports "no data" unless we call it.
 */
#include "http/raw_conn.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/cleanup.h"

#define SHUT                                                                                      \
    ((gnutls_transport_ptr_t)(intptr_t)-1) /* instead of the descriptor: libmicrohttpd reads, not \
                                              we */

/* What MHD_get_connection_info() returns is good until the next call: 1.0 fills one union again. */
struct raw_conn raw_conn_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct raw_conn conn = {.fd = info->connect_fd};

    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    conn.tls = info ? info->tls_session : NULL;
    return conn;
}

static ssize_t pull(gnutls_transport_ptr_t from, void *data, size_t size)
{
    if (from == SHUT) {
        errno = EAGAIN;
        return -1;
    }
    return recv((int)(intptr_t)from, data, size, MSG_DONTWAIT);
}

static void let_read(const struct raw_conn *conn, bool is_us)
{
    gnutls_transport_ptr_t fd = (gnutls_transport_ptr_t)(intptr_t)conn->fd;

    gnutls_transport_set_ptr2(conn->tls, is_us ? fd : SHUT, fd);
}

void raw_conn_take(const struct raw_conn *conn)
{
    if (!conn->tls)
        return;
    gnutls_transport_set_pull_function(conn->tls, pull);
    let_read(conn, false);
}

static ssize_t as_errno(ssize_t result)
{
    if (result >= 0)
        return result;
    return result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED ? -EAGAIN : -EPIPE;
}

ssize_t raw_conn_send(const struct raw_conn *conn, const void *data, size_t length)
{
    ssize_t count;

    if (conn->tls)
        return as_errno(gnutls_record_send(conn->tls, data, length));
    do {
        count = send(conn->fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

ssize_t raw_conn_receive(const struct raw_conn *conn, void *data, size_t size)
{
    ssize_t count;

    if (conn->tls) {
        let_read(conn, true);
        count = gnutls_record_recv(conn->tls, data, size);
        let_read(conn, false);
        return as_errno(count);
    }
    do {
        count = recv(conn->fd, data, size, MSG_DONTWAIT);
    } while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

size_t raw_conn_waiting(const struct raw_conn *conn)
{
    return conn->tls ? gnutls_record_check_pending(conn->tls) : 0;
}

void raw_conn_shut(const struct raw_conn *conn)
{
    if (conn->tls)
        (void)gnutls_bye(conn->tls, GNUTLS_SHUT_WR);
    shutdown(conn->fd, SHUT_WR);
}
