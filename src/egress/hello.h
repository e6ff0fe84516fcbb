/*
 * hello.h - the server name in a TLS ClientHello, without anything else of TLS. Pure, over hostile
 * bytes; fuzzed.
 *
 * The bytes of a tunnel are not ours to read, but its first ones say unencrypted which of the many
 * names of one address the client wants. It has to be the requested one.
 *
 * Runs in: egress
 */
#ifndef BAILEY_EGRESS_HELLO_H
#define BAILEY_EGRESS_HELLO_H

#include <stddef.h>

#include "egress/host.h"

/*
 * 0: a ClientHello for this host; -EAGAIN: more is needed; else -EPROTO and why in *ret_reason:
 * "not_tls", "no_sni", "wrong_sni", "hidden_sni" (an encrypted one). A host that is an address has
 * no name to say, and may not say another.
 */
int hello_check(const void *data, size_t length, const struct host *host, const char **ret_reason);

#endif
