/* line.c - a connection's bytes past libmicrohttpd; see line.h. */
#include "http/line.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <sys/socket.h>

#include "base/cleanup.h"

struct line line_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *tls =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    return (struct line){.fd = fd->connect_fd, .tls = tls ? tls->tls_session : NULL};
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

void line_shut(const struct line *line)
{
    if (line->tls)
        (void)gnutls_bye(line->tls, GNUTLS_SHUT_WR);
    shutdown(line->fd, SHUT_WR);
}
