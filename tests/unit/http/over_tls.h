/*
 * over_tls.h - a client's plain socket that is TLS on its other side, so that what is tested
 * without TLS is tested with it.
 */
#ifndef BAILEY_TESTS_HTTP_OVER_TLS_H
#define BAILEY_TESTS_HTTP_OVER_TLS_H

#include "serving.h"

#include "identity.h"

#include <gnutls/gnutls.h>

/* ---- the other side of a client's socket: one thread for each direction ---- */

static struct bridge {
    pthread_t up, down;
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;
    int fd, pair;
} bridges[8];
static size_t bridge_count;

static inline void *bridge_up(void *ctx)
{
    struct bridge *bridge = ctx;
    char data[20000]; /* more than a record */
    ssize_t count;

    while ((count = read(bridge->pair, data, sizeof(data))) > 0) {
        for (ssize_t at = 0; at < count;) {
            ssize_t sent = gnutls_record_send(bridge->session, data + at, (size_t)(count - at));

            if (sent < 0 && gnutls_error_is_fatal((int)sent)) {
                shutdown(bridge->pair, SHUT_RD); /* the server has left */
                return NULL;
            }
            at += sent > 0 ? sent : 0;
        }
    }
    gnutls_bye(bridge->session, GNUTLS_SHUT_WR);
    shutdown(bridge->fd, SHUT_WR);
    return NULL;
}

static inline void *bridge_down(void *ctx)
{
    struct bridge *bridge = ctx;
    char data[20000];
    ssize_t count;

    for (;;) {
        count = gnutls_record_recv(bridge->session, data, sizeof(data));
        if (count == GNUTLS_E_AGAIN || count == GNUTLS_E_INTERRUPTED)
            continue;
        if (count <= 0)
            break;
        for (ssize_t at = 0, sent; at < count; at += sent) {
            sent = send(bridge->pair, data + at, (size_t)(count - at), MSG_NOSIGNAL);
            if (sent <= 0)
                return NULL; /* the client has left */
        }
    }
    /* 0: the server sends no more, and may still read, as behind a close frame. */
    shutdown(bridge->pair, count == 0 ? SHUT_WR : SHUT_RDWR);
    return NULL;
}

/* Takes the connection; returns what its client reads and writes in the clear. */
static inline int bridge_over(int fd)
{
    struct bridge *bridge = &bridges[bridge_count++];
    int pair[2], r;

    must(bridge_count <= sizeof(bridges) / sizeof(bridges[0]), "a place for a bridge");
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "a pair");
    bridge->fd = fd;
    bridge->pair = pair[1];
    gnutls_certificate_allocate_credentials(&bridge->credentials);
    gnutls_init(&bridge->session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL);
    gnutls_set_default_priority(bridge->session);
    gnutls_credentials_set(bridge->session, GNUTLS_CRD_CERTIFICATE, bridge->credentials);
    gnutls_transport_set_int(bridge->session, fd);
    do {
        r = gnutls_handshake(bridge->session);
    } while (r < 0 && !gnutls_error_is_fatal(r));
    must(r == 0, "handshake");
    must(pthread_create(&bridge->up, NULL, bridge_up, bridge) == 0 &&
             pthread_create(&bridge->down, NULL, bridge_down, bridge) == 0,
         "threads");
    return pair[0];
}

/* When the server and the clients are gone. */
static inline void bridges_end(void)
{
    while (bridge_count > 0) {
        struct bridge *bridge = &bridges[--bridge_count];

        pthread_join(bridge->down, NULL);
        pthread_join(bridge->up, NULL);
        gnutls_deinit(bridge->session);
        gnutls_certificate_free_credentials(bridge->credentials);
        close(bridge->fd);
        close(bridge->pair);
    }
}

#endif
