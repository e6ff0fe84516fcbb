/*
 * identity.h - a certificate with its key, signed by itself, for tests that speak TLS.
 */
#ifndef BAILEY_TESTS_HTTP_IDENTITY_H
#define BAILEY_TESTS_HTTP_IDENTITY_H

#include "unit.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>
#include <time.h>

#define PEM_MAX 8192

struct identity {
    char certificate[PEM_MAX], key[PEM_MAX];
};

/* One for 127.0.0.1; the name only tells two of them apart. */
static inline void make_identity(struct identity *made, const char *name)
{
    static const unsigned char loopback[] = {127, 0, 0, 1};
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
    gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_IPADDRESS, loopback,
                                         sizeof(loopback), GNUTLS_FSAN_SET);
    gnutls_x509_crt_set_key(certificate, key);
    assert_int_equal(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export(certificate, GNUTLS_X509_FMT_PEM, made->certificate,
                                            &certificate_size),
                     0);
    assert_int_equal(gnutls_x509_privkey_export(key, GNUTLS_X509_FMT_PEM, made->key, &key_size), 0);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
}

#endif
