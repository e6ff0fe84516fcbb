/*
 * egress.h - the egress proxy: the only way from a box to the network.
 *
 * Theory of operation. `bailey-engine egress` is a separate process in the host's network, with no
 * privilege. It gets listening sockets from the launcher (protocol.h), each made inside a box, on
 * the box's loopback; it accepts on them and connects on the host's side, and there is no other
 * network. A client names its destination as to any proxy: CONNECT, a request with an absolute URL,
 * or SOCKS with a name. The name is parsed in one place (host.h), looked up in the box's list
 * (policy.h), and only then resolved; every address that it has is checked, and the proxy connects
 * only to addresses that it checked. TLS passes through unchanged, but its ClientHello must name
 * the requested host (hello.h). A destination that is not listed is answered with what to do; no
 * packet is sent for it, and every verdict is logged and reported.
 *
 * One thread and libuv's pool for getaddrinfo(3). Ends when the launcher's socket does.
 *
 * Runs in: egress, upstream
 */
#ifndef BAILEY_EGRESS_EGRESS_H
#define BAILEY_EGRESS_EGRESS_H

#include <stdbool.h>

#include "base/error.h"

/* Descriptors as protocol.h says. Returns the exit status. */
int egress_main(void);

/*
 * confine.c. Names can still be resolved and hosts connected to. The first before any library is
 * used: no new privileges, and seccomp filters. The second when everything is open: Landlock. Also
 * for the process `upstream`; `who` is for errors, and has_pairs admits socketpair(2), which
 * libcurl's resolver needs.
 */
int egress_confine_calls(const char *who, bool has_pairs, struct error *err);
int egress_confine_files(const char *who, struct error *err);

#endif
