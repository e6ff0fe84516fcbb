/* tls.c - certificates that can be replaced while connections are there; see tls.h. */
#include "http/tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

struct tls_identity {
    gnutls_certificate_credentials_t credentials;
    unsigned shares;
};

int tls_identity_new(const struct http_tls *tls, struct tls_identity **ret, struct error *err)
{
    struct tls_identity *identity = calloc(1, sizeof(*identity));
    gnutls_datum_t certificate = {(unsigned char *)tls->certificate,
                                  (unsigned)strlen(tls->certificate)};
    gnutls_datum_t key = {(unsigned char *)tls->key, (unsigned)strlen(tls->key)};
    int r;

    if (!identity || gnutls_certificate_allocate_credentials(&identity->credentials) < 0) {
        free(identity);
        return error_memory(err);
    }
    identity->shares = 1;
    r = gnutls_certificate_set_x509_key_mem(identity->credentials, &certificate, &key,
                                            GNUTLS_X509_FMT_PEM);
    if (r < 0) {
        tls_identity_drop(identity);
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "the TLS certificate and its key cannot be used: %s", gnutls_strerror(r));
    }
    *ret = identity;
    return 0;
}

struct tls_identity *tls_identity_show(struct tls_identity *identity,
                                       struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    if (!info || !info->tls_session ||
        gnutls_credentials_set(info->tls_session, GNUTLS_CRD_CERTIFICATE, identity->credentials) <
            0)
        return NULL;
    identity->shares++;
    return identity;
}

void tls_identity_drop(struct tls_identity *identity)
{
    if (!identity || --identity->shares > 0)
        return;
    gnutls_certificate_free_credentials(identity->credentials);
    free(identity);
}
