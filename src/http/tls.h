/*
 * tls.h - a certificate with its key, shared by the connections that began with it (GnuTLS).
 *
 * libmicrohttpd keeps the one that a server began with; each new connection is given the server's
 * current one, so that a new certificate closes no connection. One thread, no I/O.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_TLS_H
#define BAILEY_HTTP_TLS_H

#include "base/error.h"
#include "http/server.h"

struct MHD_Connection;
struct tls_identity;

/* bad_config: not PEM, or the key is not the certificate's. */
int tls_identity_new(const struct http_tls *tls, struct tls_identity **ret, struct error *err);
/* The connection, which is new, uses this one; returns a reference to it, or NULL: close it. */
struct tls_identity *tls_identity_show(struct tls_identity *identity,
                                       struct MHD_Connection *connection);
void tls_identity_drop(struct tls_identity *identity); /* a share; NULL is fine */

#endif
