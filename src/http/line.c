/*
 * line.c - a connection's bytes past libmicrohttpd; see line.h.
 *
 * libmicrohttpd's own way for an upgraded connection with TLS is a pair of sockets, and it moves
 * the bytes between that and the session, in what is left of the connection's memory: nothing,
 * since the headers of the 101 have taken all of it, so that its spare 8 bytes are used, 4 for each
 * direction (1.1 MB/s, and a core busy with it). So nothing is written into that pair, and the
 * session gets a function to read by that says "nothing there" unless it is us who ask.
 */
#include "http/line.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/cleanup.h"

#define SHUT ((gnutls_transport_ptr_t)(intptr_t)-1) /* in place of the descriptor: it is not us */

/* What MHD_get_connection_info() returns is good until the next call: 1.0 fills one union again. */
struct line line_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct line line = {.fd = info->connect_fd};

    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    line.tls = info ? info->tls_session : NULL;
    return line;
}

static ssize_t pull(gnutls_transport_ptr_t from, void *data, size_t size)
{
    if (from == SHUT) {
        errno = EAGAIN;
        return -1;
    }
    return recv((int)(intptr_t)from, data, size, MSG_DONTWAIT);
}

static void let_read(const struct line *line, bool is_us)
{
    gnutls_transport_ptr_t fd = (gnutls_transport_ptr_t)(intptr_t)line->fd;

    gnutls_transport_set_ptr2(line->tls, is_us ? fd : SHUT, fd);
}

void line_take(const struct line *line)
{
    if (!line->tls)
        return;
    gnutls_transport_set_pull_function(line->tls, pull);
    let_read(line, false);
}

static ssize_t as_errno(ssize_t result)
{
    if (result >= 0)
        return result;
    return result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED ? -EAGAIN : -EPIPE;
}

ssize_t line_send(const struct line *line, const void *data, size_t length)
{
    ssize_t count;

    if (line->tls)
        return as_errno(gnutls_record_send(line->tls, data, length));
    do {
        count = send(line->fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

ssize_t line_receive(const struct line *line, void *data, size_t size)
{
    ssize_t count;

    if (line->tls) {
        let_read(line, true);
        count = gnutls_record_recv(line->tls, data, size);
        let_read(line, false);
        return as_errno(count);
    }
    do {
        count = recv(line->fd, data, size, MSG_DONTWAIT);
    } while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

size_t line_waiting(const struct line *line)
{
    return line->tls ? gnutls_record_check_pending(line->tls) : 0;
}

void line_shut(const struct line *line)
{
    if (line->tls)
        (void)gnutls_bye(line->tls, GNUTLS_SHUT_WR);
    shutdown(line->fd, SHUT_WR);
}
