/*
 * over_tls.h - certificates that are made here, signed by themselves; and a client's plain socket
 * that is TLS on its other side, so that what is tested without TLS is tested with it.
 */
#ifndef BAILEY_TESTS_HTTP_OVER_TLS_H
#define BAILEY_TESTS_HTTP_OVER_TLS_H

#include "serving.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <time.h>

#define PEM_MAX 8192

struct identity {
    char certificate[PEM_MAX], key[PEM_MAX];
};

/* Nobody checks the name: it only tells two certificates apart. */
static inline void make_identity(struct identity *made, const char *name)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    size_t key_size = sizeof(made->key), certificate_size = sizeof(made->certificate);

    memset(made, 0, sizeof(*made));
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    assert_int_equal(gnutls_x509_crt_init(&certificate), 0);
    gnutls_x509_crt_set_version(certificate, 3);
    gnutls_x509_crt_set_serial(certificate, "\1", 1);
    gnutls_x509_crt_set_activation_time(certificate, time(NULL) - 60);
    gnutls_x509_crt_set_expiration_time(certificate, time(NULL) + 3600);
    gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                  (unsigned)strlen(name));
    gnutls_x509_crt_set_key(certificate, key);
    assert_int_equal(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export(certificate, GNUTLS_X509_FMT_PEM, made->certificate,
                                            &certificate_size),
                     0);
    assert_int_equal(gnutls_x509_privkey_export(key, GNUTLS_X509_FMT_PEM, made->key, &key_size), 0);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
}

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

            if (sent < 0 && gnutls_error_is_fatal((int)sent))
                return NULL; /* the server has left, which the other thread tells */
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
    shutdown(bridge->pair, SHUT_RDWR);
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
